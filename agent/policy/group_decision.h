/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the states of all tasks mean for the group: pure. It is asked after each end, with the tasks
 * as they are, and names one step; the caller takes it and asks again until there is nothing to do.
 * Called by agent/supervise/apply_decision.c alone.
 */

#include "agent/policy/worker.h"

struct judgement_task {
	enum task_state state;
	bool leader;	 /* its end is the group's (leader.on_exit: stop) */
	bool alone;	 /* scope task: its failure is its own matter first */
	bool spent;	 /* ... and it gets no further restart */
	bool on_purpose; /* a person stopped it: nobody waits for it */
};

enum judgement_step {
	JUDGEMENT_WAIT,	      /* nothing follows */
	JUDGEMENT_GROUP,      /* a task of scope group failed: the job's budget is asked */
	JUDGEMENT_TASK,	      /* `task` failed alone: its own budget is asked */
	JUDGEMENT_SPENT,      /* `task` failed and gets no restart: the group fails with it */
	JUDGEMENT_LEADER,     /* `task`, the leader, succeeded: the others' time begins */
	JUDGEMENT_DONE,	      /* all that were waited for succeeded */
	JUDGEMENT_PREEMPTED,  /* on a notice: nobody is left, and not all had succeeded */
	JUDGEMENT_LEADER_OVER /* after the leader's end, all others have ended too */
};

struct judgement {
	enum judgement_step step;
	int task; /* -1 where no single one is meant */
};

/* leader_over: the leader has ended before and that was answered; what fails from then on is not
 * started again. */
struct judgement judgement_of(const struct judgement_task *tasks, int n, bool leader_over);
/* The same while a notice of preemption is up: nothing is started again, and a task that fails
 * leaves the others to their saving. */
struct judgement judgement_on_notice(const struct judgement_task *tasks, int n, bool leader_over);
