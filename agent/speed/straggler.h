/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the workers that are slower than others with the same work. Pure.
 *
 * Workers that wait for each other in each step make equally many steps, but the slow one begins
 * its steps later. Its lag, over many looks at random times, is the part of a step by which it is
 * later. Workers that do not wait for each other differ in how many steps they make in the same
 * time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STRAGGLER_MOST = 1000000 }; /* percent */

/* The figures of one worker, by which it is compared. */
struct straggler_facts {
	uint64_t made; /* steps over the window */
	double lag;    /* mean over its looks */
};

enum straggler_news { STRAGGLER_NO_NEWS, STRAGGLER_BEGINS, STRAGGLER_IS_OVER };

struct straggler {
	bool slow;
	int looks;   /* in a row that speak against `slow` */
	int percent; /* at the last one: slower than the middle worker, or later by that much of a
			step; at most STRAGGLER_MOST, and 0 for one that is ahead */
};

/* How far a worker at step is behind the middle one of n, in steps; the others' steps are sorted.
 */
double straggler_lag(const int64_t *sorted, size_t n, int64_t step);

/*
 * Fills ret_percent, for each of n workers, and ret_out: it is farther from the middle worker than
 * limit percent, and than is usual among them. together: they wait for each other. Returns false
 * where nothing can be said: without memory, or where the middle one of those has made too few
 * steps.
 */
bool straggler_compare(const struct straggler_facts *facts, size_t n, bool together, double limit,
	double *ret_percent, bool *ret_out);

/* Adds the result of a look at one worker. */
enum straggler_news straggler_add_look(struct straggler *s, double percent, bool out, double limit);
