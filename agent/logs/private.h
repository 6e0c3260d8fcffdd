/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files behind logs.h: logs.c (the run), worker_streams.c (one worker), run_tail.c
 * (the ends of its logs). */

#include "agent/logs/compress.h"
#include "agent/logs/console.h"
#include "agent/logs/drain.h"
#include "agent/logs/filtered_copy.h"
#include "agent/logs/logs.h"
#include "agent/logs/pipe.h"
#include "agent/logs/plan.h"
#include "agent/logs/tee.h"
#include "agent/logs/time_index.h"
#include "common/text/ranks.h"

/* One stream of one worker. */
struct log_stream {
	char *path; /* NULL: no file */
	struct tee_stream *tee;
	struct log_pipe *pipe;
	struct log_index *index;
};

/* A worker of the current attempt. It stays after the worker has ended, for logs_tail(). */
struct log_worker {
	int rank, local_rank;
	char *dir; /* NULL: without files */
	struct log_plan plan;
	struct log_stream std[2];
};

struct logs {
	struct loop *loop;
	struct logs_options opt;
	struct ranks shown; /* on the console, where the specification has a filter */
	bool full;	    /* the disk, as last reported by logs_on_full() */
	bool was_full;	    /* at any time */
	char *run_dir;	    /* NULL: no files */
	int run_lock;
	char *attempt_dir;
	struct console *console;
	struct tee *tee;
	struct log_indexes *indexes;
	struct log_compress *compress;
	struct log_drains *drains;
	struct log_copy *copies[2];
	struct log_worker **workers; /* by local rank; NULL: none. Entries never move */
	int n_workers;
};

extern const char *const logs_stream_names[]; /* "stdout", "stderr" */

struct log_worker *logs_find_worker(const struct logs *l, int local_rank);
/* True when stdout.log holds both streams. */
bool logs_is_merged(const struct log_worker *w);
/* Ends the worker's logs, unless that was done, and frees them. */
void logs_drop_worker(struct logs *l, int local_rank);

/* Hooks for files, pipes, tees and indexes; arg is the struct logs. */
void logs_on_full(void *arg, int rank, const char *path, bool full);
void logs_on_failed(void *arg, int rank, const char *path, int error);
void logs_on_vanished(void *arg, int rank, const char *path);

/* True for the errors of a full disk or quota. */
bool logs_no_room(int r);
/* Reports that path could not be made (r: negative errno); the worker runs without it. */
void logs_report_failure(struct logs *l, int rank, const char *path, int r);
