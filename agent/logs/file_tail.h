/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The end of a log file, read backwards: for reports and status, and for finding where the last
 * lines of a file begin.
 */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* At most n last lines of fd's file as strings: each cut to max_line bytes; invalid bytes and
 * NUL replaced by U+FFFD; stamps are taken off. Reads no more than max_bytes. Returns owned, NULL
 * without memory. */
json_t *log_tail_lines(int fd, bool stamped, int n, size_t max_line, size_t max_bytes);

/* The same for len bytes at buf. whole: buf begins at the start of a line. */
json_t *log_tail_of(const char *buf, size_t len, bool whole, bool stamped, int n, size_t max_line);

/* The last line of fd's file that is not blank: printable, at most max bytes; of a progress bar its
 * last state. Returns owned or NULL. */
char *log_tail_last(int fd, bool stamped, size_t max);
