/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/array.h"

#include <errno.h>

int array_reserve(void **array, size_t *room, size_t n, size_t size)
{
	size_t grown = *room ? *room : 4;
	void *p;

	if (n <= *room)
		return 0;
	while (grown < n)
		grown *= 2;
	p = reallocarray(*array, grown, size);
	if (!p)
		return -ENOMEM;
	*array = p;
	*room = grown;
	return 0;
}
