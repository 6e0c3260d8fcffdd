/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files preempting*.c share. Nobody else looks here.
 *
 *   preempting.c        life, notices, the machine's orders, the job's end
 *   preempting_task.c   tasks: their starts and ends, what they ask and have saved, signals
 *   preempting_board.c  the board's words, and what workers said there
 *   preempting_text.c   all of it for people and as JSON; an agent that was lost
 */

#include "agent/preempting.h"

#include "common/loop.h"

enum { PREEMPTING_SAME_SIGNAL_MS = 1000 }; /* within it a signal is no second one */

/* Of one task, by its slot. */
struct preempting_task {
	preempting_answer_fn answer; /* NULL: it does not ask */
	void *arg;
	int64_t path_step; /* where path was written */
	char *path;	   /* owned, NULL: not told */
	bool told;	   /* that it has saved at told_step */
	int64_t told_step;
};

struct preempting {
	struct agent *a;
	struct preempt *machine;
	struct loop_timer *timer;
	bool up;	   /* a notice: until the end as preempted, or another one */
	bool running;	   /* preempting_run() */
	char why[256];	   /* why the machine wants the rest stopped */
	uint64_t words;	   /* the board's notice */
	uint64_t heard;	   /* signals that were notices, a bit each */
	uint64_t heard_ms; /* the last one */

	/* of the first notice */
	char source[32], reason[512];
	int64_t time_us;
	/* of the one that holds */
	int64_t deadline_ms, deadline_us;

	struct preempting_task *tasks;
	int n_tasks;
	json_t *past; /* io.elasticd.Manager.Preemption of an agent that was lost */
};

/* preempting.c */
/* Does what the machine says, until that is nothing. */
void preempting_run(struct preempting *p);

/* preempting_task.c */
/* NULL where memory was short when the task began. */
struct preempting_task *preempting_task_of(const struct agent *a, int slot);
struct task *preempting_task_in(struct agent *a, int slot);
void preempting_tasks_free(struct preempting *p);
/* The machine's orders about one. */
void preempting_answer(struct preempting *p, const struct preempt_do *d);
void preempting_signal_task(struct preempting *p, const struct preempt_do *d);

/* preempting_board.c */
void preempting_board_up(struct preempting *p, int64_t save_at);
void preempting_board_down(struct preempting *p);
/* What all workers said; barrier: after they see what the board says. */
void preempting_board_read(struct preempting *p, bool barrier);
/* What t said there, which has just ended. */
void preempting_board_last(struct preempting *p, const struct task *t);

/* preempting_text.c */
/* The job's end, for people; and "; 5m until the deadline". */
void preempting_reason(const struct preempting *p, char *text, size_t size);
void preempting_rest(const struct preempting *p, char *text, size_t size);
