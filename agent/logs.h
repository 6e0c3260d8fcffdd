/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A job's logs: the run's directory tree, the descriptors that workers write to, tees to the
 * console, filtered copies, rotation, the time index, and readers. A redirected stream is the
 * worker's own descriptor on its file; a tee follows that file. Nothing here ever slows or stops a
 * worker, and no failure of a log (full disk, vanished file, closed console) is more than a warning
 * event. Knows no group and no task state: the agent tells it what starts and what ended.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"
#include "common/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct logs;

struct logs_task {
	const char *role;
	int index;	/* within the role */
	int rank;	/* global */
	int local_rank; /* names the directory */
};

/* Something an operator must know: event is "log-disk-full", "log-resumed", "log-vanished",
 * "log-write-failed", "console-closed", "console-full". rank is global, or -1. */
typedef void (*logs_event_fn)(void *arg, const char *event, int rank, const char *text);

struct logs_options {
	const struct spec_logs *spec; /* borrowed for the life of logs */
	const char *root;	      /* directory that holds runs; "/dev/null": no files */
	const char *job, *run;	      /* <root>/<run>/ and <root>/<job>.latest */
	bool foreground;  /* streams that are not redirected: inherited (console), else files */
	bool use_console; /* tees go to descriptors 1 and 2 */
	const int *console_fds; /* borrowed during the call; NULL: 1 and 2 */
	const char *host;	/* for the prefix */
	logs_event_fn event;
	void *arg;
};

/* Makes the run's directory and link. -ENOTDIR with a clear text when root is a file. */
_must_check_ int logs_new(
	struct loop *loop, const struct logs_options *opt, struct logs **ret, struct error *err);
struct logs *logs_free(struct logs *l);
DEFINE_CLEANUP(struct logs *, logs_free)

/* <root>/<run>, or NULL without files; borrowed for the life of logs. */
const char *logs_run_dir(const struct logs *l);

/*
 * Begins incarnation attempt: makes attempt_<n>. Logs of an earlier one stay as they are and are
 * followed to their end. Called before its tasks are opened.
 */
_must_check_ int logs_begin_attempt(struct logs *l, int attempt, struct error *err);

/* Puts a message of the agent itself on the console's stderr, as a line among those of the workers,
 * and never blocks. False when there is no console, or none that takes anything. */
bool logs_say(struct logs *l, const char *line);

/* What a worker is to be started with; -1 means that it inherits the agent's. */
struct logs_fds {
	int out, err;
	char *error_file; /* path for TORCHELASTIC_ERROR_FILE; "" without files */
};
void logs_fds_fini(struct logs_fds *fds);

/*
 * Makes <rank>/ of the current attempt, opens (append, close-on-exec) what the specification
 * asks for and begins to follow it. A console filter that hides the task makes its un-redirected
 * streams /dev/null. The caller owns ret: it spawns, then calls logs_fds_fini().
 */
_must_check_ int logs_open_task(
	struct logs *l, const struct logs_task *t, struct logs_fds *ret, struct error *err);

/* The task's process and its descendants are gone: its last partial line is complete now. */
void logs_task_ended(struct logs *l, int local_rank);

/* Nobody waits in logs_drain() any more, now or later. */
void logs_drain_end(struct logs *l);

/* Calls fn once all that was written before now is on the console, in filtered copies and in files.
 * A console that takes nothing for timeout_ms no longer holds it up, and none does for twelve times
 * as long. Never calls from inside. */
_must_check_ int logs_drain(struct logs *l, uint64_t timeout_ms, loop_fn fn, void *arg);

/* The end of a stream's file in the current attempt: at most n lines as an array of strings
 * (invalid bytes replaced, over-long lines cut). Returns owned; an empty array where there is none.
 */
json_t *logs_tail(struct logs *l, int local_rank, int std, int n);

/* A task of the current attempt: its directory attempt_<n>/<rank>, and the file of one of its
 * streams (0 stdout, 1 stderr). Borrowed until the next attempt begins; NULL where there is none.
 */
const char *logs_task_dir(const struct logs *l, int local_rank);
const char *logs_task_path(const struct logs *l, int local_rank, int std);

/* The last line that a task wrote to either stream, printable, at most 200 bytes; returns owned or
 * NULL. */
char *logs_last_line(struct logs *l, int local_rank);

/* The agent reaped a child that is none of its workers: true when it was one of the logs' own
 * helpers (a compressor). status is an exit code. */
bool logs_child_exited(struct logs *l, pid_t pid, int status);

/* The helper processes that run now, which a stop of the group must spare; borrowed until the next
 * call of any function here. */
void logs_helpers(struct logs *l, const pid_t **ret_pids, size_t *ret_n);
