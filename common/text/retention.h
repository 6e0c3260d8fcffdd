/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses the ended runs to keep: pure. elasticd uses it for its runs, elastic-agent for those of
 * elasticctl run. The caller passes only runs that have ended.
 */

#include <stddef.h>
#include <stdint.h>

/* Limits; 0: none. */
struct retention {
	int runs;
	int days;
	int64_t bytes;
};

#define RETENTION_DAYS 30
#define RETENTION_BYTES (INT64_C(10) << 30)

enum retention_why { RETENTION_KEEP, RETENTION_TOO_OLD, RETENTION_TOO_MANY, RETENTION_TOO_LARGE };

struct retention_run {
	int64_t ended_us;
	int64_t bytes;		/* of its logs; 0 where that is not known */
	enum retention_why why; /* set by retention_choose() */
	void *arg;		/* the caller's */
};

/* Sorts runs, the oldest first, and sets why of each to go: the oldest go first, and the newest is
 * never too large. Returns when the oldest run that stays becomes too old, in us, or INT64_MAX. */
int64_t retention_choose(
	const struct retention *k, struct retention_run *runs, size_t n, int64_t now_us);

enum { RETENTION_TEXT_MAX = 64 };

/* Says why a run goes, for people: "older than 30 days". Returns buf. */
const char *retention_text(
	const struct retention *k, enum retention_why why, char buf[RETENTION_TEXT_MAX]);
