/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Estimates by how much the head's clock is ahead of a member's, from the four times of each beat
 * and its answer. Of the last eight beats the one with the shortest round trip decides: the offset
 * may be wrong by half of that. A beat that contradicts older ones shows that a clock was set, and
 * the older ones no longer count. Pure; times are microseconds of the real-time clocks.
 */

#include <stdbool.h>
#include <stdint.h>

enum { CLOCK_OFFSET_BEATS = 8 };

/* Times from here on are no dates; sums and differences of smaller ones do not overflow. */
#define CLOCK_BEYOND_US (INT64_MAX / 8)

struct clock_beat {
	int64_t sent_us;     /* by the member's clock */
	int64_t came_us;     /* by the head's */
	int64_t answered_us; /* by the head's */
	int64_t back_us;     /* by the member's */
};

struct clock_estimate {
	int64_t offset_us;	/* head's clock less member's */
	int64_t uncertainty_us; /* the true offset is no further away */
};

struct clock_offset {
	struct clock_estimate beats[CLOCK_OFFSET_BEATS]; /* the newest is beats[(n - 1) % 8] */
	unsigned n;					 /* that were added */
	unsigned kept;					 /* how many of the newest may be used */
};

/* Returns whether the beat counts. A beat that seems to have come before it was sent does not: a
 * clock was set meanwhile. Nor does one with a time that is no date (negative, or at least
 * CLOCK_BEYOND_US). */
bool clock_offset_add(struct clock_offset *c, const struct clock_beat *beat);
/* Returns false while no beat counts. */
bool clock_offset_get(const struct clock_offset *c, struct clock_estimate *ret);
