/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads and writes points in time for people. Never reads a clock: the present is an argument.
 * Times are microseconds since the epoch, shown in the local zone.
 */

#include "common/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { TIME_TEXT_MAX = 96 };

/* The time from then to now, "2h 13m"; "0s" if then is later. Returns buf. */
const char *time_text_since(int64_t now_us, int64_t then_us, char buf[TIME_TEXT_MAX]);

/* "2h 13m ago", "in 12s", "just now". Returns buf. */
const char *time_text_ago(int64_t now_us, int64_t then_us, char buf[TIME_TEXT_MAX]);

/* "Thu 2023-11-14 22:13:20 UTC", as systemctl shows it. Returns buf. */
const char *time_text_timestamp(int64_t us, char buf[TIME_TEXT_MAX]);

/* "2023-11-14T22:13:20.123456+00:00", with that many digits after the point, at most 6; further
 * ones are cut. Returns buf. */
const char *time_text_iso(int64_t us, int digits, char buf[TIME_TEXT_MAX]);

/* "2023-11-14 22:13:20.123", for columns of times; brief: "22:13:20". Returns buf. */
const char *time_text_clock(int64_t us, bool brief, char buf[TIME_TEXT_MAX]);

/*
 * Reads a time: a duration before now ("10m", "1h30m"; "-10m" too), "now", "today", "yesterday",
 * "@SECONDS[.FRACTION]", "HH:MM[:SS]" of today, "YYYY-MM-DD[ HH:MM[:SS[.FRACTION]]]" with a T or a
 * space between, and Z or +HH:MM behind it, else in the local zone. option names the text in
 * errors. Returns 0 or -EINVAL.
 */
int time_text_parse(const char *text, int64_t now_us, const char *option, int64_t *ret_us,
	struct error *err) __attribute__((warn_unused_result));
