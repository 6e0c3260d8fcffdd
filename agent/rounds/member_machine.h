/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A host as a member of a group: a pure machine, no I/O, no clock. The agent posts the orders of
 * the head and the events of its workers and of its lease, and carries out the action that a step
 * returns. So does the agent on the head's own host.
 *
 * JOIN says that no worker lives here, and ends this host's part in the round. Until its answer the
 * machine ignores orders: the head sent them before it knew of the JOIN. The agent checks the lease
 * before it posts an order, and posts LOST instead where the lease does not hold.
 *
 *	away	   not joined; no worker lives
 *	joining	   JOIN was sent
 *	waiting	   a member that is in no round
 *	preparing  it knows its ranks, and makes ports and directories
 *	prepared   it waits for START
 *	running	   workers of the round live
 *	stopping   it stops its workers, by the head's order
 *	fenced	   its lease is over: it kills its workers
 *	over	   it has left
 */

#include <stdbool.h>

#define MEMBER_STATES(X)          \
	X(AWAY, "away")           \
	X(JOINING, "joining")     \
	X(WAITING, "waiting")     \
	X(PREPARING, "preparing") \
	X(PREPARED, "prepared")   \
	X(RUNNING, "running")     \
	X(STOPPING, "stopping")   \
	X(FENCED, "fenced")       \
	X(OVER, "over")

#define MEMBER_EVENTS(X)                                                                   \
	X(LINKED, "linked")   /* there is a link to a head */                              \
	X(JOINED, "joined")   /* the head's answer to the last JOIN; the lease holds */    \
	X(REFUSED, "refused") /* ... it refuses this host */                               \
	X(ASSIGN, "assign")   /* the head's order: these are the ranks */                  \
	X(READY, "ready")     /* all is prepared */                                        \
	X(FAILED, "failed")   /* it cannot be prepared */                                  \
	X(START, "start")     /* the head's order */                                       \
	X(STARTED, "started") /* all workers execute */                                    \
	X(STOP, "stop")	      /* the head's order */                                       \
	X(DEAD, "dead")	      /* no worker lives */                                        \
	X(END, "end")	      /* the head's verdict */                                     \
	X(LOST, "lost")	      /* the lease is over, or the head does not know this host */ \
	X(LEAVE, "leave")     /* this host is to leave the group */

enum member_state {
#define X(name, text) MEMBER_##name,
	MEMBER_STATES(X)
#undef X
		MEMBER_N_STATES
};

enum member_event {
#define X(name, text) MEMBER_EV_##name,
	MEMBER_EVENTS(X)
#undef X
		MEMBER_EV_N
};

enum member_action {
	MEMBER_DO_NOTHING,
	MEMBER_DO_JOIN,		/* send JOIN, begin a lease */
	MEMBER_DO_REJOIN,	/* post LINKED, as soon as there is a link */
	MEMBER_DO_PREPARE,	/* drop what was prepared before; post READY or FAILED */
	MEMBER_DO_SAY_PREPARED, /* send PREPARED */
	MEMBER_DO_SAY_UNABLE,	/* send UNABLE */
	MEMBER_DO_SPAWN,	/* start workers; post STARTED */
	MEMBER_DO_SAY_STARTED,	/* send STARTED */
	MEMBER_DO_STOP,		/* stop workers as the job says; post DEAD */
	MEMBER_DO_SAY_STOPPED,	/* send STOPPED, with the failures */
	MEMBER_DO_KILL,		/* kill workers at once; post DEAD */
	MEMBER_DO_SAY_LEAVE,	/* send LEAVE: the head's STOP follows */
	MEMBER_DO_SAY_BYE,	/* send BYE where there is a link, and end */
};

struct member_change {
	enum member_state next;
	enum member_action action;
};

/* leaving: LEAVE has come before. Returns 0 with a change, 1 if the event changes nothing in this
 * state, or -EINVAL for a pair that the table lacks: the head breaks the protocol if the event is
 * an order, else it is a programmer's error. */
int member_change(enum member_state state, enum member_event event, bool leaving,
	struct member_change *ret) __attribute__((warn_unused_result));

/* Whether workers may live in that state. */
bool member_has_workers(enum member_state state);

const char *member_state_name(enum member_state s);
const char *member_event_name(enum member_event e);
