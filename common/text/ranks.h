/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A set of ranks, written "0,3-7". */

#include "common/base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* The largest rank number that is accepted. */
enum { RANKS_MAX = 1 << 20 };

struct ranks {
	struct ranks_range {
		int first, last;
	} * ranges; /* sorted, neither overlapping nor touching */
	size_t n_ranges;
};

/*
 * Parses text (spaces around numbers are fine, an empty set is not); field names it in errors
 * (NULL: nothing does). On failure ret is untouched. Returns 0, -EINVAL, -ENOMEM.
 */
int ranks_parse(struct ranks *ret, const char *text, const char *field, struct error *err)
	__attribute__((warn_unused_result));
void ranks_fini(struct ranks *r);

/* Adds first..last (0 <= first <= last <= RANKS_MAX). Returns 0 or -ENOMEM. */
int ranks_add(struct ranks *r, int first, int last) __attribute__((warn_unused_result));
bool ranks_contains(const struct ranks *r, int rank);

/* The smallest member greater than rank, or -1: for (i = ranks_next(r, -1); i >= 0; ...). */
int ranks_next(const struct ranks *r, int rank);
int ranks_count(const struct ranks *r);

/* "0,3-7", the shortest form; returns owned, NULL without memory. */
char *ranks_to_string(const struct ranks *r);
