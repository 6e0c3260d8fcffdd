/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

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
