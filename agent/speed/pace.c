/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/pace.h"

#include <stdio.h>
#include <stdlib.h>

enum { PACE_SHORTEST_MS = 20 };

/* Fractions of the golden ratio's multiples are spread evenly, so looks do not keep time with steps
 * of any length. */
static const double pace_golden = 0.618034;

static uint64_t pace_gap_us(uint64_t window_ms)
{
	uint64_t gap = window_ms / STEP_WINDOW_SHARE;

	return (gap > PACE_SHORTEST_MS ? gap : PACE_SHORTEST_MS) * 1000;
}

uint64_t pace_moment_us(uint64_t number, uint64_t window_ms)
{
	uint64_t gap = pace_gap_us(window_ms);
	double part = pace_golden * (double)number;

	return number * gap + (uint64_t)((double)gap * (part - (double)(uint64_t)part));
}

uint64_t pace_next(uint64_t now_us, uint64_t window_ms)
{
	uint64_t number = now_us / pace_gap_us(window_ms);

	return pace_moment_us(number, window_ms) > now_us ? number : number + 1;
}

/* --- looks --- */

static int pace_order(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The numbers of the last steps, sorted; owned, NULL without memory. */
static int64_t *pace_sorted(const struct pace_worker *all, size_t n)
{
	int64_t *sorted = calloc(n + 1, sizeof(*sorted));

	for (size_t i = 0; sorted && i < n; i++)
		sorted[i] = all[i].last;
	if (sorted)
		qsort(sorted, n, sizeof(*sorted), pace_order);
	return sorted;
}

void pace_add_looks(struct pace_worker *all, size_t n, uint64_t at_ms)
{
	int64_t *sorted = pace_sorted(all, n);

	/* The gap of moments is seldom below the window's share, and never on average. */
	for (size_t i = 0; sorted && i < n; i++)
		step_window_add(&all[i].pace->window, 0, at_ms, all[i].count,
			straggler_lag(sorted, n, all[i].last));
	free(sorted);
}

int64_t pace_behind(const struct pace_worker *all, size_t n)
{
	int64_t *sorted = pace_sorted(all, n), behind;

	behind = !sorted || !n ? 0 : sorted[0] < 0 ? -1 : sorted[n / 2] - sorted[0];
	free(sorted);
	return behind;
}

size_t pace_known(struct pace_worker *all, size_t n, uint64_t window_ms)
{
	size_t known = 0;

	for (size_t i = 0; i < n; i++) {
		struct step_span span = step_window_span(&all[i].pace->window, window_ms);

		if (span.took_ms + 2 * pace_gap_us(window_ms) / 1000 >= window_ms)
			all[known++] = all[i];
	}
	return known;
}

/* --- the comparison --- */

static void pace_judge(struct pace_worker *all, size_t n, bool together, double limit,
	const double *percent, const bool *out)
{
	for (size_t i = 0; i < n; i++) {
		enum straggler_news news =
			straggler_add_look(&all[i].pace->straggler, percent[i], out[i], limit);

		all[i].pace->together = together;
		all[i].slow = news == STRAGGLER_BEGINS;
		all[i].over = news == STRAGGLER_IS_OVER;
	}
}

void pace_compare(
	struct pace_worker *all, size_t n, bool together, double limit, uint64_t window_ms)
{
	struct straggler_facts *facts = calloc(n + 1, sizeof(*facts));
	double *percent = calloc(n + 1, sizeof(*percent));
	bool *out = calloc(n + 1, sizeof(*out));

	for (size_t i = 0; i < n; i++) {
		struct step_span span = step_window_span(&all[i].pace->window, window_ms);

		all[i].slow = all[i].over = false;
		if (facts)
			facts[i] = (struct straggler_facts){ .made = span.made, .lag = span.lag };
	}
	if (facts && percent && out && straggler_compare(facts, n, together, limit, percent, out))
		pace_judge(all, n, together, limit, percent, out);
	free(facts);
	free(percent);
	free(out);
}

void pace_text(const struct pace *p, uint64_t window_ms, char *text, size_t size)
{
	struct step_span span = step_window_span(&p->window, window_ms);

	*text = '\0';
	if (!p->straggler.slow)
		return;
	if (p->together)
		snprintf(text, size, "begins its steps %d%% of a step later than the others",
			p->straggler.percent);
	else if (span.made)
		snprintf(text, size, "makes %.3g steps/s, and needs %d%% more time than the others",
			(double)span.made * 1000 / (double)span.took_ms, p->straggler.percent);
	else
		snprintf(text, size, "has made no step for %.0f s, while the others have",
			(double)span.took_ms / 1000);
}
