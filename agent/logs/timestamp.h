/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The time stamp at the start of a line in a stamped file: "2026-01-02T03:04:05.678901Z ", RFC 3339
 * in UTC with microseconds and one space, always LOG_STAMP_LEN bytes. Pure.
 */

#include <stdint.h>

enum { LOG_STAMP_LEN = 28 };

void log_stamp_write(char out[LOG_STAMP_LEN], uint64_t real_us);

/* Returns 0, or -EINVAL when it is not a stamp. */
int log_stamp_read(const char *stamp, int64_t *ret_us) __attribute__((warn_unused_result));
