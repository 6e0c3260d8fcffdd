/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes workers' lines to the agent's standard output and error. Never blocks, whatever they are
 * (pipe, terminal, file, socket), and never changes the flags of an open file that others share.
 * Lines of two workers never mix: when a worker's unfinished line is on the console and a line of
 * another source comes, the unfinished one is broken off, and its rest follows later behind its
 * prefix again. While the reader is slow the buffer stays full, and the caller keeps the rest where
 * it is. Where both descriptors are the same file they are one console. The program ignores
 * SIGPIPE.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <stddef.h>

struct console;

/* Called when a full buffer has room again, and when all is written after console_want_empty().
 * With error set and closed false, the device is full and the console keeps trying. With closed,
 * writing has failed for good, with error. The callback may not free the console. */
typedef void (*console_fn)(void *arg, bool closed, int error);

/* fds: of standard output and error; borrowed. Returns 0 or a negative errno. */
_must_check_ int console_new(
	struct loop *loop, const int fds[2], console_fn fn, void *arg, struct console **ret);
/* Loses what is buffered and cannot be written at once. */
struct console *console_free(struct console *c);
DEFINE_CLEANUP(struct console *, console_free)

/* std is 0 (stdout) or 1 (stderr). True when the caller may put more now. A closed console takes,
 * and drops, everything. */
bool console_has_room(struct console *c, int std);
bool console_is_closed(const struct console *c, int std);
bool console_is_tty(const struct console *c, int std);

/*
 * Puts a piece of a line. flags: as in line_splitter.h; source identifies the stream, so that a
 * piece continues the unfinished line of its own stream. Never fails: without memory for the buffer
 * the piece is dropped.
 */
void console_put(struct console *c, int std, const void *source, const char *prefix,
	size_t prefix_len, const char *data, size_t len, unsigned flags);

/* Ends the unfinished line on the console, if it is source's. */
void console_break(struct console *c, int std, const void *source);

/* Writes as much as the reader takes without blocking. */
void console_flush(struct console *c);

/* Asks for the callback once the buffers are empty. */
void console_want_empty(struct console *c);

/* Bytes put, and bytes written (or given up), so far: put bytes are out once the second number has
 * reached the first. A reader that takes nothing leaves the second as it is. */
uint64_t console_put_bytes(const struct console *c, int std);
uint64_t console_done_bytes(const struct console *c, int std);

/* Frees the buffers that are empty. */
void console_trim(struct console *c);
