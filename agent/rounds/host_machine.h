/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One host of the group, as the head sees it: a pure machine, no I/O, no clock. round.c posts the
 * host's messages and the round's decisions, and carries out the action that a step returns.
 *
 *	missing	   of an earlier head's round, not joined again: workers may live there
 *	waiting	   a member that is in no round; no worker lives there
 *	assigned   it knows its ranks and prepares
 *	prepared   it waits for START
 *	starting   START was sent
 *	running	   its workers execute
 *	stopping   STOP was sent; workers may live there
 *	out	   left out of the round: it could not prepare, or did not in time
 *	leaving	   its workers are dead, and it is about to leave
 *	closing	   the verdict was sent
 *	gone	   no member any more; no worker lives there
 */

#include <stdbool.h>

#define HOST_STATES(X)          \
	X(MISSING, "missing")   \
	X(WAITING, "waiting")   \
	X(ASSIGNED, "assigned") \
	X(PREPARED, "prepared") \
	X(STARTING, "starting") \
	X(RUNNING, "running")   \
	X(STOPPING, "stopping") \
	X(OUT, "out")           \
	X(LEAVING, "leaving")   \
	X(CLOSING, "closing")   \
	X(GONE, "gone")

/* PREPARED to BYE are messages of the host, the others decisions of the head. */
#define HOST_EVENTS(X)                                                                 \
	X(PREPARED, "prepared") /* it holds ports and directories for its ranks */     \
	X(UNABLE, "unable")	/* it cannot prepare */                                \
	X(STARTED, "started")	/* its workers execute */                              \
	X(STOPPED, "stopped")	/* its workers are dead */                             \
	X(LEAVE, "leave")	/* it wants to leave, and waits for STOP if it runs */ \
	X(BYE, "bye")		/* it leaves; its workers are dead */                  \
	X(ASSIGN, "assign")                                                            \
	X(RECALL, "recall") /* its ranks no longer hold */                             \
	X(LATE, "late")	    /* prepare_timeout is over */                              \
	X(START, "start")                                                              \
	X(STOP, "stop")                                                                \
	X(END, "end")		/* there is a verdict */                               \
	X(LOST, "lost")		/* its lease is over, or its guard said so */          \
	X(REPLACED, "replaced") /* a later agent of its run has joined */

enum host_state {
#define X(name, text) HOST_##name,
	HOST_STATES(X)
#undef X
		HOST_N_STATES
};

enum host_event {
#define X(name, text) HOST_EV_##name,
	HOST_EVENTS(X)
#undef X
		HOST_EV_N
};

enum host_action {
	HOST_DO_NOTHING,
	HOST_DO_ASSIGN,	   /* send it its ranks */
	HOST_DO_START,	   /* send START */
	HOST_DO_STOP,	   /* send STOP */
	HOST_DO_LEAVE_OUT, /* report that it is left out */
	HOST_DO_END,	   /* send it the verdict */
	HOST_DO_DROP,	   /* forget it */
};

struct host_change {
	enum host_state next;
	enum host_action action;
};

/* leaving: it has said LEAVE. Returns 0 with a change, 1 if the event changes nothing in this
 * state, or -EINVAL for a pair that the table lacks: the host breaks the protocol if the event is a
 * message, else it is a programmer's error. */
int host_change(enum host_state state, enum host_event event, bool leaving, struct host_change *ret)
	__attribute__((warn_unused_result));

const char *host_state_name(enum host_state s);
const char *host_event_name(enum host_event e);
