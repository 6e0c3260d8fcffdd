/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the states of all workers mean for the group: pure. It is asked after each end, with the
 * workers as they are, and names one step; the caller takes it and asks again until there is
 * nothing to do. Called by agent/supervise/apply_decision.c alone.
 */

#include "agent/policy/worker.h"

struct group_decision_worker {
	enum worker_state state;
	bool leader;	 /* its end is the group's (leader.on_exit: stop) */
	bool alone;	 /* scope worker: its failure is its own matter first */
	bool no_restart; /* ... and it gets no further restart */
	bool on_purpose; /* a person stopped it: nobody waits for it */
};

enum group_decision_step {
	GROUP_DECISION_WAIT,	   /* nothing follows */
	GROUP_DECISION_GROUP,	   /* a worker of scope group failed: the job's budget is asked */
	GROUP_DECISION_WORKER,	   /* `worker` failed alone: its own budget is asked */
	GROUP_DECISION_NO_RESTART, /* `worker` failed and gets no restart: the group fails with it
				    */
	GROUP_DECISION_LEADER,	   /* `worker`, the leader, succeeded: the others' time begins */
	GROUP_DECISION_DONE,	   /* all that were waited for succeeded */
	GROUP_DECISION_PREEMPTED,  /* on a notice: nobody is left, and not all had succeeded */
	GROUP_DECISION_LEADER_OVER /* after the leader's end, all others have ended too */
};

struct group_decision {
	enum group_decision_step step;
	int worker; /* -1 where no single one is meant */
};

/* leader_over: the leader has ended before and that was answered; what fails from then on is not
 * started again. */
struct group_decision group_decide(
	const struct group_decision_worker *workers, int n, bool leader_over);
/* The same while a notice of preemption is up: nothing is started again, and a worker that fails
 * leaves the others to their saving. */
struct group_decision group_decide_on_notice(
	const struct group_decision_worker *workers, int n, bool leader_over);
