/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a host finds in a store which host leads its group, or leads it itself: a pure machine, no
 * I/O, no clock. The agent posts the store's answers, and carries out the action that a step
 * returns.
 *
 *	looking	   this host asks the store which host leads
 *	following  another host leads: this one joins it
 *	vacant	   no host leads, and this host's turn has not come
 *	claiming   this host asks the store to let it lead
 *	leading	   this host leads
 *
 * The agent posts NOBODY only while no worker lives here: where the lead has ended but its head
 * still answers, the group goes on. It posts DEAD where that head is dead for certain, also while
 * workers live here.
 */

#include <stdbool.h>

#define LEAD_STATES(X)            \
	X(LOOKING, "looking")     \
	X(FOLLOWING, "following") \
	X(VACANT, "vacant")       \
	X(CLAIMING, "claiming")   \
	X(LEADING, "leading")

#define LEAD_EVENTS(X)                                                                 \
	X(OTHER, "other")   /* the store: another host leads */                        \
	X(OWN, "own")	    /* ... this agent does, by a claim that had no answer */   \
	X(NOBODY, "nobody") /* ... no host does */                                     \
	X(DUE, "due")	    /* this host's turn has come */                            \
	X(DEAD, "dead")	    /* the head's guard: its agent and its workers are dead */ \
	X(WON, "won")	    /* the store has let this host lead */                     \
	X(BEATEN, "beaten") /* ... it has not, because another host was first */       \
	X(UNSURE, "unsure") /* ... it may have */                                      \
	X(LOST, "lost")	    /* following: the head does not answer; leading: no more */

enum lead_state {
#define X(name, text) LEAD_##name,
	LEAD_STATES(X)
#undef X
		LEAD_N_STATES
};

enum lead_event {
#define X(name, text) LEAD_EV_##name,
	LEAD_EVENTS(X)
#undef X
		LEAD_EV_N
};

enum lead_action {
	LEAD_DO_NOTHING,
	LEAD_DO_LOOK,	   /* ask the store which host leads */
	LEAD_DO_FOLLOW,	   /* join the host that leads */
	LEAD_DO_WAIT,	   /* post DUE after tenure_turn_ms() */
	LEAD_DO_CLAIM,	   /* ask the store to let this host lead */
	LEAD_DO_LEAD,	   /* begin as the head */
	LEAD_DO_STEP_DOWN, /* end as the head, then look */
};

struct lead_change {
	enum lead_state next;
	enum lead_action action;
};

/* Returns 0 with a change, 1 if the event changes nothing in this state, or -EINVAL for a pair that
 * the table lacks, a programmer's error. */
int lead_change(enum lead_state state, enum lead_event event, struct lead_change *ret)
	__attribute__((warn_unused_result));

const char *lead_state_name(enum lead_state s);
const char *lead_event_name(enum lead_event e);
