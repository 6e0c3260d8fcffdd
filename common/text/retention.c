/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/retention.h"

#include "common/text/size.h"

#include <stdio.h>
#include <stdlib.h>

static int by_age(const void *a, const void *b)
{
	int64_t x = ((const struct retention_run *)a)->ended_us;
	int64_t y = ((const struct retention_run *)b)->ended_us;

	return (x > y) - (x < y);
}

int64_t retention_choose(
	const struct retention *k, struct retention_run *runs, size_t n, int64_t now_us)
{
	const int64_t age_us = (int64_t)k->days * 24 * 3600 * 1000000;
	int64_t sum = 0, due = INT64_MAX;

	if (n > 0)
		qsort(runs, n, sizeof(*runs), by_age);
	for (size_t newer = 0; newer < n; newer++) {
		struct retention_run *r = &runs[n - 1 - newer];

		/* A run that is too large is removed, and so are all older ones. */
		if (r->bytes > INT64_MAX - sum)
			sum = INT64_MAX;
		else
			sum += r->bytes;
		if (k->days && now_us - r->ended_us >= age_us)
			r->why = RETENTION_TOO_OLD;
		else if (k->runs && newer >= (size_t)k->runs)
			r->why = RETENTION_TOO_MANY;
		else if (k->bytes && newer > 0 && sum > k->bytes)
			r->why = RETENTION_TOO_LARGE;
		else
			r->why = RETENTION_KEEP;
		if (k->days && r->why == RETENTION_KEEP)
			due = r->ended_us + age_us;
	}
	return due;
}

const char *retention_text(
	const struct retention *k, enum retention_why why, char buf[RETENTION_TEXT_MAX])
{
	char size[SIZE_TEXT_MAX];

	switch (why) {
	case RETENTION_TOO_OLD:
		snprintf(buf, RETENTION_TEXT_MAX, "older than %d day%s", k->days,
			k->days == 1 ? "" : "s");
		break;
	case RETENTION_TOO_MANY:
		snprintf(buf, RETENTION_TEXT_MAX, "more than %d ended run%s", k->runs,
			k->runs == 1 ? "" : "s");
		break;
	case RETENTION_TOO_LARGE:
		snprintf(
			buf, RETENTION_TEXT_MAX, "more than %s of logs", size_text(k->bytes, size));
		break;
	case RETENTION_KEEP:
		buf[0] = '\0';
		break;
	}
	return buf;
}
