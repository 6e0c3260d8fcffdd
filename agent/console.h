/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's standard output and error as places for workers' lines. Never blocks, whatever they
 * are (pipe, terminal, file, socket), and never changes the flags of a description that others
 * share. Only pieces of lines enter: a line of one source is never torn by another's, and a partial
 * line that is on show is broken off before another source's line and taken up again behind its
 * prefix. When the reader is slow the buffer stays full, and the caller leaves the rest where it
 * is. Where both descriptors are the same file they are one console. The program ignores SIGPIPE.
 */

#include "common/cleanup.h"
#include "common/loop.h"

#include <stdbool.h>
#include <stddef.h>

struct console;

/* Room in a buffer after it was full, all out after console_want_empty(); with an error, the device
 * is full (it is tried again); or, with closed, the first write that failed for good: errno in
 * error. The callback may not free the console. */
typedef void (*console_fn)(void *arg, bool closed, int error);

/* fds: of standard output and error; borrowed. Returns 0 or a negative errno. */
_must_check_ int console_new(
	struct loop *loop, const int fds[2], console_fn fn, void *arg, struct console **ret);
/* What is buffered and not taken by the reader at once is lost. */
struct console *console_free(struct console *c);
DEFINE_CLEANUP(struct console *, console_free)

/* std is 0 (stdout) or 1. True when more may be put now. A closed console takes everything. */
bool console_has_room(struct console *c, int std);
bool console_is_closed(const struct console *c, int std);
bool console_is_tty(const struct console *c, int std);

/*
 * Puts a piece of a line: flags as in lines.h, source: identity of the stream, whose partial line
 * it may continue. Never fails: what the buffer cannot hold for lack of memory is dropped.
 */
void console_put(struct console *c, int std, const void *source, const char *prefix,
	size_t prefix_len, const char *data, size_t len, unsigned flags);

/* Ends a partial line that is on show (of source, or of any when NULL). */
void console_break(struct console *c, int std, const void *source);

/* Writes what the reader takes now. */
void console_flush(struct console *c);

/* The callback is to come when a buffer that holds something now is empty. */
void console_want_empty(struct console *c);

/* Bytes put and bytes written (or given up) so far, for waiting until something is out. */
uint64_t console_put_bytes(const struct console *c, int std);
uint64_t console_done_bytes(const struct console *c, int std);
/* How often the reader took something: it is alive where this grows. */
uint64_t console_progress(const struct console *c, int std);

/* Gives the buffers back when they are empty. */
void console_trim(struct console *c);
