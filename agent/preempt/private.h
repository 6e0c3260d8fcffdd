/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of this room except the machine's:
 *
 *   service.c  life, notices, the machine's orders, the job's end
 *   methods.c  calls of workers: Step, Saved, Preemption, Notify
 *   workers.c  starts and ends of workers, their questions and saves, signals
 *   board.c    the notice on the board, and what workers wrote there
 *   text.c     texts and JSON; the notice of an earlier agent
 */

#include "agent/preempt/service.h"

#include "agent/sharing/private.h"
#include "common/loop/loop.h"

enum { PREEMPTING_SAME_SIGNAL_MS = 1000 }; /* within it a signal is no second one */

/* One worker, by its slot. */
struct preempting_task {
	preempting_answer_fn answer; /* NULL: no question */
	void *arg;
	int64_t path_step; /* the step that path belongs to */
	char *path;	   /* owned, NULL: not given */
	bool told;	   /* it has reported a save, at told_step */
	int64_t told_step;
};

struct preempting {
	struct agent *a;
	struct preempt *machine;
	struct loop_timer *timer;
	bool running;	   /* preempting_run() */
	char why[256];	   /* why the machine stops the rest */
	uint64_t words;	   /* the board's notice */
	uint64_t heard;	   /* signals that counted as notices, as bits */
	uint64_t heard_ms; /* when the last came */

	/* of the first notice */
	char source[32], reason[512];
	int64_t time_us;
	/* of the notice that leaves least time */
	int64_t deadline_ms, deadline_us;

	LIST_HEAD(, worker_ask) asks; /* calls of Step that wait */
	struct preempting_task *tasks;
	int n_tasks;
	json_t *past; /* io.elasticd.Manager.Preemption of an earlier agent */
};

/* service.c */
/* Does what the machine says, until it says NOTHING. */
void preempting_run(struct preempting *p);

/* workers.c */
/* NULL when memory was short as the worker began. */
struct preempting_task *preempting_task_of(const struct agent *a, int slot);
struct task *preempting_task_in(struct agent *a, int slot);
void preempting_tasks_free(struct preempting *p);
/* Hooks. */
void preempting_task_started(struct agent *a, struct task *t);
void preempting_task_left(struct agent *a, struct task *t, char *text, size_t size);
void preempting_end_told(struct agent *a, struct task *t, const char *text);
/* The machine's orders about one worker. */
void preempting_answer(struct preempting *p, const struct preempt_do *d);
void preempting_signal_task(struct preempting *p, const struct preempt_do *d);

/* board.c */
void preempting_board_up(struct preempting *p, int64_t save_at);
void preempting_board_down(struct preempting *p);
/* Reads what all workers wrote; barrier: after they can see the board's notice. */
void preempting_board_read(struct preempting *p, bool barrier);
/* Reads what t, which has just ended, wrote there. */
void preempting_board_last(struct preempting *p, const struct task *t);

/* methods.c */
extern const struct varlink_method preempting_worker_methods[];
/* A worker has reported an error: fails all waiting Step calls with it. */
void preempting_on_error(void *arg);
void preempting_worker_exited(struct agent *a, struct task *t);
void preempting_group_stopping(struct agent *a, const char *why);

/* text.c; the last ones are hooks */
/* The reason of the job's end, for people; and "; 5m until the deadline". */
void preempting_reason(const struct preempting *p, char *text, size_t size);
void preempting_rest(const struct preempting *p, char *text, size_t size);
/* io.elasticd.Manager.Preemption, owned; NULL without a notice. */
json_t *preempting_json(const struct agent *a);
void preempting_describe_job(const struct agent *a, json_t *job);
void preempting_describe_worker(
	const struct agent *a, const struct task *t, json_t *worker, bool live);
void preempting_describe_verdict(const struct agent *a, json_t *verdict);
void preempting_explain(const struct agent *a, FILE *f);
void preempting_past_note(struct agent *a, const json_t *event);
bool preempting_past(struct agent *a);
