/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lengths of time as people write them ("500ms", "1h30m") and as the programs keep them: whole
 * milliseconds in an int64_t. Never reads a clock.
 */

#include "common/base/error.h"

#include <stdint.h>

enum { DURATION_TEXT_MAX = 48 };

/* The longest duration that is accepted, a hundred years: sums and doublings of it do not overflow.
 */
#define DURATION_MAX_MS (INT64_C(36500) * 24 * 3600 * 1000)

/*
 * Parses units ms, s, m, h and d, from large to small, each at most once; "0" needs no unit. field
 * names the text in errors (NULL: nothing does). Returns 0 or -EINVAL; on failure ret_ms is
 * untouched.
 */
int duration_parse(const char *text, const char *field, int64_t *ret_ms, struct error *err)
	__attribute__((warn_unused_result));

/* The same, and also a bare number of seconds with at most three decimals, as torchrun's flags. */
int duration_parse_seconds(const char *text, const char *field, int64_t *ret_ms, struct error *err)
	__attribute__((warn_unused_result));

/* The shortest text that duration_parse() reads back as ms (>= 0): "90s", "1h", "0". Returns buf.
 */
const char *duration_format(int64_t ms, char buf[DURATION_TEXT_MAX]);

/* ms for people, two units at most, rounded down: "2h 13m", "12.3s", "40ms". Returns buf. */
const char *duration_text(int64_t ms, char buf[DURATION_TEXT_MAX]);
