/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Arrays that grow. */

#include "common/base/cleanup.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Resizes an array of n elements to more of them; the new ones are zeros. Returns NULL without
 * memory: the old array stays as it was. */
static inline void *array_grow(void *array, size_t n, size_t more, size_t size)
{
	char *grown = reallocarray(array, more, size);

	if (grown)
		memset(grown + n * size, 0, (more - n) * size);
	return grown;
}

/* Gives an array (*array, owned; NULL: none) of *room elements room for at least n, and for more
 * the longer it is. New elements are not set. 0, or -ENOMEM with the array as before. */
_must_check_ int array_reserve(void **array, size_t *room, size_t n, size_t size);
