/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The group's state machine: pure, no I/O, no clock. The agent posts events and carries out the
 * actions that a step returns; it never sets a state in any other way.
 */

#include <stdbool.h>

#define GROUP_STATES(X)             \
	X(PENDING, "pending")       \
	X(RENDEZVOUS, "rendezvous") \
	X(STARTING, "starting")     \
	X(RUNNING, "running")       \
	X(STOPPING, "stopping")     \
	X(BACKOFF, "backoff")       \
	X(SUCCEEDED, "succeeded")   \
	X(FAILED, "failed")         \
	X(STOPPED, "stopped")       \
	X(PREEMPTED, "preempted")

#define GROUP_EVENTS(X)                                                                     \
	X(START, "start")     /* the job begins */                                          \
	X(READY, "ready")     /* rendezvous is complete, ranks are known */                 \
	X(STARTED, "started") /* every worker is executing */                               \
	X(RETRY, "retry")     /* a worker ended and the policy grants an attempt */         \
	X(FAIL, "fail")	      /* a worker failed and the policy grants none */              \
	X(DONE, "done")	      /* all workers ended with success */                          \
	X(RESTART, "restart") /* an operator or a changed size wants an attempt */          \
	X(STOP, "stop")	      /* an operator or a signal wants the end */                   \
	X(TIMEOUT, "timeout") /* max_run_time is over */                                    \
	X(PREEMPT, "preempt") /* on a notice all workers have left, or must leave */        \
	X(STUCK, "stuck")     /* a killed process does not go away */                       \
	X(GONE, "gone")	      /* no process of the attempt is left, or they are given up */ \
	X(BACKOFF_OVER, "backoff-over") /* the wait before the next attempt is over */

enum group_state {
#define X(name, text) GROUP_##name,
	GROUP_STATES(X)
#undef X
		GROUP_N_STATES
};

enum group_event {
#define X(name, text) GROUP_EV_##name,
	GROUP_EVENTS(X)
#undef X
		GROUP_N_EVENTS
};

/* The end that a stopping group goes to. */
enum group_goal {
	GOAL_NONE,
	GOAL_RETRY,
	GOAL_SUCCEED,
	GOAL_FAIL,
	GOAL_STOP,
	GOAL_TIMEOUT,
	GOAL_PREEMPT
};

/* The agent does these after a step, in this order. */
enum group_action {
	GROUP_DO_DISARM_BACKOFF = 1 << 0,
	GROUP_DO_STOP_WORKERS = 1 << 1, /* ends with the event GONE */
	GROUP_DO_RENDEZVOUS = 1 << 2,
	GROUP_DO_SPAWN = 1 << 3,
	GROUP_DO_ARM_BACKOFF = 1 << 4,
	GROUP_DO_END = 1 << 5, /* verdict, report, exit */
};

struct group {
	enum group_state state;
	enum group_goal goal;
};

enum group_result { GROUP_STEPPED, GROUP_IGNORED, GROUP_REFUSED };

/*
 * Applies event. delayed: the new attempt, after GONE, waits for a backoff first.
 * STEPPED: the group has changed and ret_actions is set; IGNORED: the event means nothing in
 * this state; REFUSED: it cannot happen here (a programmer's error, the group is unchanged).
 */
enum group_result group_step(
	struct group *g, enum group_event event, bool delayed, unsigned *ret_actions);

const char *group_state_name(enum group_state s);
const char *group_event_name(enum group_event e);
bool group_state_is_final(enum group_state s);
