/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/slot_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int slot_compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

int slot_set_init(struct slot_set *set, const int *list, size_t n)
{
	size_t i = 1;

	*set = (struct slot_set){ .slots = list, .n = n };
	while (i < n && list[i - 1] < list[i])
		i++;
	if (i >= n)
		return 0;
	set->own = reallocarray(NULL, n, sizeof(int));
	if (!set->own)
		return -ENOMEM;
	memcpy(set->own, list, n * sizeof(int));
	qsort(set->own, n, sizeof(int), slot_compare);
	set->n = 1;
	for (i = 1; i < n; i++)
		if (set->own[i] != set->own[set->n - 1])
			set->own[set->n++] = set->own[i];
	set->slots = set->own;
	return 0;
}

void slot_set_fini(struct slot_set *set)
{
	free(set->own);
}

bool slot_set_has(const struct slot_set *set, int slot)
{
	return set->n && bsearch(&slot, set->slots, set->n, sizeof(int), slot_compare);
}
