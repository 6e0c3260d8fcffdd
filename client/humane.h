/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Points in time as people write and read them. Never reads a clock: the present is an argument.
 * Times are microseconds since the epoch, shown in the local zone.
 */

#include "common/error.h"

#include <stdint.h>

enum { HUMANE_TEXT_MAX = 96 };

/* "2h 13m", as long as then lies before now; "0s" where it does not. Returns buf. */
const char *humane_since(int64_t now_us, int64_t then_us, char buf[HUMANE_TEXT_MAX]);

/* "2h 13m ago", "in 12s", "just now". Returns buf. */
const char *humane_ago(int64_t now_us, int64_t then_us, char buf[HUMANE_TEXT_MAX]);

/* "Thu 2023-11-14 22:13:20 UTC", as systemctl shows it. Returns buf. */
const char *humane_timestamp(int64_t us, char buf[HUMANE_TEXT_MAX]);

/* "2023-11-14T22:13:20.123456+00:00". Returns buf. */
const char *humane_iso(int64_t us, char buf[HUMANE_TEXT_MAX]);
/* The same with so many digits behind the point, at most 6; the others are left out. */
const char *humane_iso_to(int64_t us, int digits, char buf[HUMANE_TEXT_MAX]);

/* "2023-11-14 22:13:20.123", for columns of times. Returns buf. */
const char *humane_clock(int64_t us, char buf[HUMANE_TEXT_MAX]);

/*
 * Reads a time: a duration before now ("10m", "1h30m"; "-10m" too), "now", "today", "yesterday",
 * "@SECONDS[.FRACTION]", "HH:MM[:SS]" of today, "YYYY-MM-DD[ HH:MM[:SS[.FRACTION]]]" with a T or a
 * space between, and Z or +HH:MM behind it, else in the local zone. option names the text in
 * errors. Returns 0 or -EINVAL.
 */
int humane_parse_time(const char *text, int64_t now_us, const char *option, int64_t *ret_us,
	struct error *err) __attribute__((warn_unused_result));
