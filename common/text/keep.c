/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/keep.h"

#include "common/text/size.h"

#include <stdio.h>
#include <stdlib.h>

static int by_age(const void *a, const void *b)
{
	int64_t x = ((const struct keep_run *)a)->ended_us;
	int64_t y = ((const struct keep_run *)b)->ended_us;

	return (x > y) - (x < y);
}

int64_t keep_choose(const struct keep *k, struct keep_run *runs, size_t n, int64_t now_us)
{
	const int64_t age_us = (int64_t)k->days * 24 * 3600 * 1000000;
	int64_t sum = 0, due = INT64_MAX;

	if (n > 0)
		qsort(runs, n, sizeof(*runs), by_age);
	for (size_t newer = 0; newer < n; newer++) {
		struct keep_run *r = &runs[n - 1 - newer];

		/* A run that is too large is removed, and so are all older ones. */
		if (r->bytes > INT64_MAX - sum)
			sum = INT64_MAX;
		else
			sum += r->bytes;
		if (k->days && now_us - r->ended_us >= age_us)
			r->why = KEEP_TOO_OLD;
		else if (k->runs && newer >= (size_t)k->runs)
			r->why = KEEP_TOO_MANY;
		else if (k->bytes && newer > 0 && sum > k->bytes)
			r->why = KEEP_TOO_LARGE;
		else
			r->why = KEEP_IT;
		if (k->days && r->why == KEEP_IT)
			due = r->ended_us + age_us;
	}
	return due;
}

const char *keep_text(const struct keep *k, enum keep_why why, char buf[KEEP_TEXT_MAX])
{
	char size[SIZE_TEXT_MAX];

	switch (why) {
	case KEEP_TOO_OLD:
		snprintf(buf, KEEP_TEXT_MAX, "older than %d day%s", k->days,
			k->days == 1 ? "" : "s");
		break;
	case KEEP_TOO_MANY:
		snprintf(buf, KEEP_TEXT_MAX, "more than %d ended run%s", k->runs,
			k->runs == 1 ? "" : "s");
		break;
	case KEEP_TOO_LARGE:
		snprintf(buf, KEEP_TEXT_MAX, "more than %s of logs", size_text(k->bytes, size));
		break;
	case KEEP_IT:
		buf[0] = '\0';
		break;
	}
	return buf;
}
