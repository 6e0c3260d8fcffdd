/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads lines from a descriptor, for a program with a loop: only as many as its caller wants, so
 * that the writer is slowed down. Also reads files, which no loop can wait for.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stddef.h>
#include <stdint.h>

struct line_reader;

/* A line or the end may be there now. */
typedef void (*line_reader_fn)(void *arg);

/* A line may have up to max bytes. The caller keeps fd. Returns 0 or a negative errno. */
_must_check_ int line_reader_new(struct loop *loop, int fd, size_t max, line_reader_fn fn,
	void *arg, struct line_reader **ret);
struct line_reader *line_reader_free(struct line_reader *r);
DEFINE_CLEANUP(struct line_reader *, line_reader_free)

/*
 * Returns 1 with the next line, without its newline, borrowed until the next call; 0 if there is
 * none yet, and fn will run; -ENODATA at the end; -EMSGSIZE for a line that is too long, or another
 * negative errno. Errors are permanent. The last line needs no newline.
 */
_must_check_ int line_reader_next(struct line_reader *r, const char **ret, size_t *ret_len);

/* The number of the line that was returned last, or that failed; the first is 1. */
uint64_t line_reader_number(const struct line_reader *r);
