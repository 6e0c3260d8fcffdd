/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/straggler.h"

#include "common/base/cleanup.h"

#include <stdlib.h>

enum {
	STRAGGLER_LEAST_WORKERS = 3,
	STRAGGLER_LEAST_STEPS = 2,
	STRAGGLER_LOOKS = 3, /* in a row: begin and end take as many */
};

/* A spread that a worker of a normal distribution exceeds once in 370 times. */
#define STRAGGLER_SPREAD (3 * 1.4826)

double straggler_lag(const int64_t *sorted, size_t n, int64_t step)
{
	int64_t middle = sorted[n / 2];

	return middle > step ? (double)middle - (double)step : 0;
}

static int straggler_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of n values, which it sorts. */
static double straggler_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), straggler_order);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static double straggler_distance(double a, double b)
{
	return a > b ? a - b : b - a;
}

/* In percent: how much more time a worker needs for a step than the middle one or, where workers
 * wait for each other, by which part of a step it begins later. One more step than was counted may
 * have begun right after the last look. */
static double straggler_percent(const struct straggler_facts *f, bool together, double middle)
{
	if (together)
		return (f->lag - middle) * 100;
	return (middle / ((double)f->made + 1) - 1) * 100;
}

bool straggler_compare(const struct straggler_facts *facts, size_t n, bool together, double limit,
	double *ret_percent, bool *ret_out)
{
	_cleanup_free_ double *sorted = n ? calloc(n, sizeof(*sorted)) : NULL;
	double middle, spread;

	for (size_t i = 0; i < n; i++) {
		ret_percent[i] = 0;
		ret_out[i] = false;
	}
	if (!sorted)
		return false;
	for (size_t i = 0; i < n; i++)
		sorted[i] = (double)facts[i].made;
	middle = straggler_median(sorted, n);
	if (together && middle < STRAGGLER_LEAST_STEPS)
		return false;
	for (size_t i = 0; together && i < n; i++)
		sorted[i] = facts[i].lag;
	middle = straggler_median(sorted, n);
	for (size_t i = 0; i < n; i++)
		sorted[i] = ret_percent[i] = straggler_percent(&facts[i], together, middle);
	middle = straggler_median(sorted, n);
	for (size_t i = 0; i < n; i++)
		sorted[i] = straggler_distance(ret_percent[i], middle);
	spread = straggler_median(sorted, n);
	for (size_t i = 0; i < n; i++)
		ret_out[i] = n >= STRAGGLER_LEAST_WORKERS && ret_percent[i] >= limit &&
			     ret_percent[i] - middle > STRAGGLER_SPREAD * spread;
	return true;
}

enum straggler_news straggler_add_look(struct straggler *s, double percent, bool out, double limit)
{
	bool against = s->slow ? percent < limit / 2 : out;

	s->percent = percent < 0		? 0
		     : percent < STRAGGLER_MOST ? (int)(percent + 0.5)
						: STRAGGLER_MOST;
	s->looks = against ? s->looks + 1 : 0;
	if (s->looks < STRAGGLER_LOOKS)
		return STRAGGLER_NO_NEWS;
	s->slow = !s->slow;
	s->looks = 0;
	return s->slow ? STRAGGLER_BEGINS : STRAGGLER_IS_OVER;
}
