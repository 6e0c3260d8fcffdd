/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A job's logs: the run's directory tree, the descriptors that workers write to, tees to the
 * console, filtered copies, rotation, the time index, and readers. A redirected stream is the
 * worker's own descriptor on its file; a tee follows that file. Logs never slow or stop a worker,
 * and a failure (full disk, vanished file, closed console) is only a warning event. Knows no group
 * and no worker's state: the supervisor says what starts and what has ended.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"
#include "common/spec/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct logs;

struct logs_worker {
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
	bool foreground;  /* streams that are not redirected go to the console, else to files */
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

/* A line for readers of the logs of this run, where lines are missing, else NULL; a constant. */
const char *logs_loss_note(const struct logs *l);

/* <root>/<run>, or NULL without files; borrowed for the life of logs. */
const char *logs_run_dir(const struct logs *l);

/*
 * Begins an attempt: makes attempt_<n>. Logs of earlier attempts stay, and are followed to their
 * end. Call it before logs_open_worker() for the attempt's workers.
 */
_must_check_ int logs_begin_attempt(struct logs *l, int attempt, struct error *err);

/* Puts a message of the agent on the console's stderr, as a line among those of the workers,
 * without blocking. Returns false when there is no console or it is closed. */
bool logs_put_message(struct logs *l, const char *line);

/* The descriptors for a worker to start with; -1: it inherits the agent's. */
struct logs_fds {
	int out, err;
	char *error_file; /* path for TORCHELASTIC_ERROR_FILE; "" without files */
};
void logs_fds_fini(struct logs_fds *fds);

/*
 * Makes <rank>/ in the current attempt, opens (append, close-on-exec) what the specification asks
 * for, and begins to follow it. For a worker that a console filter hides, streams that are not
 * redirected are /dev/null. The caller owns ret: it spawns the worker, then calls logs_fds_fini().
 */
_must_check_ int logs_open_worker(
	struct logs *l, const struct logs_worker *t, struct logs_fds *ret, struct error *err);

/* The worker and its descendants are gone: its last line is complete even without a newline. */
void logs_worker_ended(struct logs *l, int local_rank);

/* Ends all waits in logs_drain(), present and future. */
void logs_drain_end(struct logs *l);

/* Calls fn once everything written before now is on the console, in filtered copies and in files.
 * Gives up when the console takes nothing for timeout_ms, and in any case after twelve times as
 * long. Never calls fn from inside. */
_must_check_ int logs_drain(struct logs *l, uint64_t timeout_ms, loop_fn fn, void *arg);

/* The end of a stream's file in the current attempt: at most n lines as an array of strings
 * (invalid bytes replaced, over-long lines cut). Returns owned; an empty array where there is none.
 */
json_t *logs_tail(struct logs *l, int local_rank, int std, int n);

/* For a worker of the current attempt: its directory attempt_<n>/<rank>, and the file of one of
 * its streams (0 stdout, 1 stderr). Borrowed until the next attempt begins; NULL where there is
 * none. */
const char *logs_worker_dir(const struct logs *l, int local_rank);
const char *logs_worker_path(const struct logs *l, int local_rank, int std);

/* The last line that a worker wrote to either stream: printable, at most 200 bytes. Returns owned
 * or NULL. */
char *logs_last_line(struct logs *l, int local_rank);

/* The supervisor reaped a child that is not a worker: returns true when it was a compressor of
 * these logs. status is an exit code. */
bool logs_child_exited(struct logs *l, pid_t pid, int status);

/* The compressors that run now, at most max: stopping the group must spare them. Returns how many.
 */
size_t logs_helper_pids(const struct logs *l, pid_t *pids, size_t max);
