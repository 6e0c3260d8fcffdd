/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses the ended runs to keep: pure. elasticd uses it for its runs, elastic-agent for those of
 * elasticctl run. The caller passes only runs that have ended.
 */

#include <stddef.h>
#include <stdint.h>

/* Limits; 0: none. */
struct keep {
	int runs;
	int days;
	int64_t bytes;
};

#define KEEP_DAYS 30
#define KEEP_BYTES (INT64_C(10) << 30)

enum keep_why { KEEP_IT, KEEP_TOO_OLD, KEEP_TOO_MANY, KEEP_TOO_LARGE };

struct keep_run {
	int64_t ended_us;
	int64_t bytes;	   /* of its logs; 0 where that is not known */
	enum keep_why why; /* set by keep_choose() */
	void *arg;	   /* the caller's */
};

/* Sorts runs, the oldest first, and sets why of each to go: the oldest go first, and the newest is
 * never too large. Returns when the oldest run that stays becomes too old, in us, or INT64_MAX. */
int64_t keep_choose(const struct keep *k, struct keep_run *runs, size_t n, int64_t now_us);

enum { KEEP_TEXT_MAX = 64 };

/* Says why a run goes, for people: "older than 30 days". Returns buf. */
const char *keep_text(const struct keep *k, enum keep_why why, char buf[KEEP_TEXT_MAX]);
