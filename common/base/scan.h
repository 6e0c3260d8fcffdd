/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The smallest step of every text parser here: one unsigned decimal number, without the sign,
 * space and base surprises of strtoull(). Knows no error text: the caller knows what was meant.
 */

#include <stdint.h>

/*
 * Reads the digits at *p and moves *p behind them. Returns 0, -EINVAL when there is no digit,
 * -ERANGE when the number does not fit (then *p is behind all digits and ret_value is untouched).
 */
int scan_u64(const char **p, uint64_t *ret_value) __attribute__((warn_unused_result));

/* The whole of text as a number of at most max. Returns 0, -EINVAL or -ERANGE. */
int scan_whole(const char *text, uint64_t max, uint64_t *ret_value)
	__attribute__((warn_unused_result));
