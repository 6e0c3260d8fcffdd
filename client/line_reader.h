/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lines of a descriptor, for a program with a loop: as many as its caller wants, and no more is
 * read meanwhile, so that whoever writes there is held back. Files, which no loop can wait for, are
 * read as well.
 */

#include "common/cleanup.h"
#include "common/loop.h"

#include <stddef.h>
#include <stdint.h>

struct line_reader;

/* There may be a line now, or the end. */
typedef void (*line_reader_fn)(void *arg);

/* A line may have up to max bytes. fd stays the caller's. Returns 0 or a negative errno. */
_must_check_ int line_reader_new(struct loop *loop, int fd, size_t max, line_reader_fn fn,
	void *arg, struct line_reader **ret);
struct line_reader *line_reader_free(struct line_reader *r);
DEFINE_CLEANUP(struct line_reader *, line_reader_free)

/*
 * The next line, without its newline, borrowed until the next call: 1; 0: none now, fn runs when
 * that changes; -ENODATA at the end; -EMSGSIZE where it is too long, or another negative errno, for
 * ever. The last line needs no newline.
 */
_must_check_ int line_reader_next(struct line_reader *r, const char **ret, size_t *ret_len);

/* The number of the line that was returned last, or at which it failed; the first is 1. */
uint64_t line_reader_number(const struct line_reader *r);
