/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Follows log files while they are written, and hands their lines to the console and to filtered
 * copies. The files are the buffer: nothing is read while the console has no room, so no line is
 * lost and no worker waits. An idle file costs nothing; a busy one is read at most every
 * TEE_BATCH_MS, in blocks, with its inotify watch off meanwhile, so that neither the worker nor the
 * agent pays for each line. Several streams share one console, which keeps their lines apart.
 */

#include "agent/logs/console.h"
#include "agent/logs/filtered_copy.h"
#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <sys/types.h>

enum { TEE_BATCH_MS = 10, TEE_QUIET_MS = 100, TEE_UPDATE_MS = 1000 };

struct tee;
struct tee_stream;

struct tee_hooks {
	/* The file was removed, replaced or truncated, as text says. */
	void (*vanished)(void *arg, int rank, const char *text);
	/* After each turn, whether or not anything was read. May not free the tee. */
	void (*progress)(void *arg);
	void *arg;
};

struct tee_options {
	int rank; /* for events, and the colour of the prefix */
	int std;  /* which console: 0 or 1 */
	bool to_console;
	const char *prefix;    /* copied */
	bool colour;	       /* the prefix, where the console is a terminal */
	struct log_copy *copy; /* referenced; NULL: none */
	bool stamped;	       /* lines begin with a stamp, which is not shown */
	const char *path;      /* copied; to notice when the file vanishes; NULL: do not watch */
};

/* Borrows loop and console. console NULL: lines go to filtered copies alone. */
_must_check_ int tee_new(struct loop *loop, struct console *console, const struct tee_hooks *hooks,
	struct tee **ret);
struct tee *tee_free(struct tee *t);
DEFINE_CLEANUP(struct tee *, tee_free)

/*
 * Follows fd (taken, also on failure; -1: fed by tee_feed() only) from offset on. With a path,
 * inotify reports changes; without, the caller calls tee_file_grew(). The tee owns the stream; the
 * caller may use it until tee_end().
 */
_must_check_ int tee_add(struct tee *t, const struct tee_options *opt, int fd, off_t offset,
	struct tee_stream **ret);

/* The file has grown. */
void tee_file_grew(struct tee_stream *s);
/* Rotation: after the present file, reads fd (taken) from its start. */
void tee_follow_next(struct tee_stream *s, int fd);
/* Hands over bytes directly, whether the console has room or not. */
void tee_feed(struct tee_stream *s, const char *data, size_t len);
/* Whether the console takes more of the stream's lines. */
bool tee_has_room(const struct tee_stream *s);
/* Changes whenever the stream's console took something. */
uint64_t tee_console_bytes(const struct tee_stream *s);
/* The stream's worker is gone. Reads the rest of the file, completes the last line, and then frees
 * the stream. */
void tee_end(struct tee_stream *s);

/* The console has room again; or it is closed and wants no more lines. */
void tee_console_ready(struct tee *t);
void tee_console_closed(struct tee *t, int std);

/* Notes the present ends of the files and starts reading. tee_caught_up() is true once everything
 * up to there was handed out, partial lines too. */
void tee_mark(struct tee *t);
bool tee_caught_up(const struct tee *t);
/* Changes whenever something was read. */
uint64_t tee_done_bytes(const struct tee *t);
