/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A set of slots: sorted, without duplicates. */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

struct slot_set {
	const int *slots; /* own, or the caller's list */
	size_t n;
	int *own; /* owned; NULL: the caller's list was such a set */
};

/* The set of n slots in any order. Borrows list until slot_set_fini(). 0 or -ENOMEM. */
_must_check_ int slot_set_init(struct slot_set *set, const int *list, size_t n);
void slot_set_fini(struct slot_set *set);
bool slot_set_has(const struct slot_set *set, int slot);

/* The order of slots, for bsearch() in an array whose elements begin with a slot. */
int slot_compare(const void *a, const void *b);
