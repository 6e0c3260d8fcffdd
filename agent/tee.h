/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Follows log files while they are written and hands their lines to the console and to filters. The
 * files are the buffer: while the console has no room nothing is read, so nothing is lost and
 * nobody waits. An idle file costs nothing; a busy one is read at most every TEE_BATCH_MS, in
 * blocks, with its inotify watch off meanwhile, so that neither side pays for each line.
 * Several streams share one console, which keeps their lines apart.
 */

#include "agent/console.h"
#include "agent/log_filter.h"
#include "common/cleanup.h"
#include "common/loop.h"

#include <stdbool.h>
#include <sys/types.h>

enum { TEE_BATCH_MS = 10, TEE_QUIET_MS = 100, TEE_UPDATE_MS = 1000 };

struct tee;
struct tee_stream;

struct tee_hooks {
	/* "log-vanished": the file was removed, replaced or truncated. */
	void (*event)(void *arg, const char *event, int rank, const char *text);
	/* Something was read or written; may not free the tee. */
	void (*progress)(void *arg);
	void *arg;
};

struct tee_options {
	int rank; /* for events */
	int std;  /* which console: 0 or 1 */
	bool to_console;
	const char *prefix;	   /* copied */
	bool colour;		   /* the prefix, where the console is a terminal */
	struct log_filter *filter; /* referenced; NULL: none */
	bool stamped;		   /* each line begins with a time stamp, which is not shown */
	const char *path; /* copied; of the file, for noticing that it vanished; NULL: no watch */
};

/* console may be NULL. */
_must_check_ int tee_new(struct loop *loop, struct console *console, const struct tee_hooks *hooks,
	struct tee **ret);
struct tee *tee_free(struct tee *t);
DEFINE_CLEANUP(struct tee *, tee_free)

/*
 * Follows fd (taken, also on failure; -1: fed by tee_feed() only) from offset on. With a path,
 * changes are noticed; without, tee_more() tells. The stream stays the tee's until tee_end().
 */
_must_check_ int tee_add(struct tee *t, const struct tee_options *opt, int fd, off_t offset,
	struct tee_stream **ret);

/* The file has grown. */
void tee_more(struct tee_stream *s);
/* Behind all that is in the present file comes fd's (taken), from its start. */
void tee_next(struct tee_stream *s, int fd);
/* Hands over bytes directly, whether there is room or not. */
void tee_feed(struct tee_stream *s, const char *data, size_t len);
bool tee_has_room(const struct tee_stream *s);
/* Changes whenever the stream's console took something. */
uint64_t tee_progress(const struct tee_stream *s);
/* Its writer is gone: what is there now is read to its end, the last line is complete, and then the
 * stream goes away by itself. */
void tee_end(struct tee_stream *s);

/* The console has room again, or is closed: its lines are not wanted any more. */
void tee_console_ready(struct tee *t);
void tee_console_closed(struct tee *t, int std);

/* Notes how far the files are now and reads at once; tee_caught_up() is true once all of it was
 * handed out, and partial lines with it. */
void tee_mark(struct tee *t);
bool tee_caught_up(const struct tee *t);
/* Changes whenever something was read. */
uint64_t tee_done_bytes(const struct tee *t);
