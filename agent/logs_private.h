/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of logs.h share: logs.c (the run), logs_task.c (one task), logs_tail.c (their
 * ends). */

#include "agent/console.h"
#include "agent/log_compress.h"
#include "agent/log_drain.h"
#include "agent/log_filter.h"
#include "agent/log_index.h"
#include "agent/log_pipe.h"
#include "agent/log_plan.h"
#include "agent/logs.h"
#include "agent/tee.h"
#include "common/ranks.h"

/* One stream of one task. */
struct log_stream {
	char *path; /* NULL: no file */
	struct tee_stream *tee;
	struct log_pipe *pipe;
	struct log_index *index;
};

/* A task of the current attempt; it stays when it has ended, for its tail. */
struct log_task {
	struct log_task *next;
	int rank, local_rank;
	char *dir; /* NULL: without files */
	bool ended, stamped, merged;
	struct log_plan plan;
	struct log_stream std[2];
	char *recent[2]; /* the end of a stream without a file, once it has ended */
	size_t recent_len[2];
};

struct logs {
	struct loop *loop;
	struct logs_options opt;
	struct ranks shown;
	bool filtered; /* shown is set */
	bool full;     /* the disk, as last reported */
	char *run_dir; /* NULL: no files */
	int run_lock;
	char *attempt_dir;
	struct console *console;
	struct tee *tee;
	struct log_indexes *indexes;
	struct log_compress *compress;
	struct log_drains *drains;
	struct log_filter *copies[2];
	struct log_task *tasks;
};

extern const char *const logs_stream_names[]; /* "stdout", "stderr" */

struct log_task *logs_find_task(const struct logs *l, int local_rank);
/* Ends the task, if it has not ended, and frees it. */
void logs_forget_task(struct logs *l, int local_rank);

/* Hooks of the parts; arg is the logs. */
void logs_on_full(void *arg, int rank, const char *path, bool full);
void logs_on_failed(void *arg, int rank, const char *path, int error);
void logs_on_vanished(void *arg, int rank, const char *path);

/* A full disk or quota. */
bool logs_no_room(int r);
/* Something could not be made for r, a negative errno: who wanted it goes without. */
void logs_tell_failure(struct logs *l, int rank, const char *path, int r);
