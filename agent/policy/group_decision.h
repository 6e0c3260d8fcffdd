/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides what follows for the group from the states of all workers. Pure. After workers have ended
 * the caller, agent/supervise/apply_decision.c, takes the step that it returns, and calls it again
 * until there is nothing to do.
 */

#include "agent/policy/worker.h"

struct group_decision_worker {
	enum worker_state state;
	bool leader;	 /* its end ends the group (leader.on_exit: stop) */
	bool alone;	 /* scope worker: its own budget is asked first */
	bool no_restart; /* ... and it gets no further restart */
	bool on_purpose; /* an operator stopped it: the job does not wait for it */
};

enum group_decision_step {
	GROUP_DECISION_WAIT,	   /* nothing follows */
	GROUP_DECISION_GROUP,	   /* a worker of scope group failed: the job's budget is asked */
	GROUP_DECISION_WORKER,	   /* `worker` failed alone: its own budget is asked */
	GROUP_DECISION_NO_RESTART, /* `worker` failed and gets no restart: the group fails with it
				    */
	GROUP_DECISION_LEADER,	   /* `worker`, the leader, succeeded: the others' time begins */
	GROUP_DECISION_DONE,	   /* all workers that the job waits for succeeded */
	GROUP_DECISION_PREEMPTED,  /* on a notice: no worker is left, and not all succeeded */
	GROUP_DECISION_LEADER_OVER /* after the leader's end, all others have ended too */
};

struct group_decision {
	enum group_decision_step step;
	int worker; /* -1 where no single one is meant */
};

/* leader_over: the caller has handled the leader's end, after which no failed worker is started
 * again. */
struct group_decision group_decide(
	const struct group_decision_worker *workers, int n, bool leader_over);
/* The same while a notice of preemption is up: no worker is started again, and after a failure the
 * others may still save. */
struct group_decision group_decide_on_notice(
	const struct group_decision_worker *workers, int n, bool leader_over);
