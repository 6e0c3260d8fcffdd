/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where the ticks of a time axis are, and their texts. Pure but for the time zone. */

#include "client/output/time_text.h"

#include <stdint.h>

/* The step between ticks, in microseconds, for an axis of that length with at most max of them. */
int64_t axis_step(int64_t length_us, int max);

/* "0", "250ms", "1m 30s", "2d 6h". Returns buf. */
const char *axis_elapsed(int64_t us, char buf[TIME_TEXT_MAX]);

/* The time of day of us in a zone that is zone_us east of UTC, as exactly as ticks of that step
 * need: "14:05", "14:05:30", "14:05:30.25"; at midnight, and for steps of days, the date: "3 May".
 * Returns buf. */
const char *axis_clock(int64_t us, int64_t zone_us, int64_t step_us, char buf[TIME_TEXT_MAX]);

/* How far east of UTC the local zone is at that time. */
int64_t axis_zone(int64_t us);
