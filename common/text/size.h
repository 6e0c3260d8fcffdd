/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Amounts of memory and disk: "4096", "10M", "1GiB". K, M, G and T are powers of 1024, as in
 * systemd and the shell's ulimit; KB and MB, which mean two things, are refused.
 */

#include "common/base/error.h"

#include <stdint.h>

enum { SIZE_TEXT_MAX = 32 };

/* Returns 0 or -EINVAL; field names the text in errors (NULL: nothing does). Untouched on failure.
 */
int size_parse(const char *text, const char *field, int64_t *ret_bytes, struct error *err)
	__attribute__((warn_unused_result));

/* The shortest text that size_parse() reads back as bytes (>= 0). Returns buf. */
const char *size_format(int64_t bytes, char buf[SIZE_TEXT_MAX]);

/* bytes for people: "812 B", "97.3 KiB", "1.5 GiB". Returns buf. */
const char *size_text(int64_t bytes, char buf[SIZE_TEXT_MAX]);
