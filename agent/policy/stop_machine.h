/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stop of one worker, or of all workers of the group together: a pure machine, no I/O, no
 * clock. agent/supervise/worker_lifecycle.c and agent/supervise/stop_group.c post events and carry
 * out the actions that a step returns.
 *
 *	idle	   no stop is under way
 *	dumping	   workers got the dump signal
 *	stopping   workers got the stop signal
 *	killing	   workers got SIGKILL
 *	cleaning   workers are gone; processes that they left behind got the stop signal
 *	sweeping   workers are gone; processes that they left behind got SIGKILL
 */

#include <stdbool.h>
#include <stdint.h>

#define STOP_STATES(X)          \
	X(IDLE, "idle")         \
	X(DUMPING, "dumping")   \
	X(STOPPING, "stopping") \
	X(KILLING, "killing")   \
	X(CLEANING, "cleaning") \
	X(SWEEPING, "sweeping")

#define STOP_EVENTS(X)                                                                \
	X(END, "end")	  /* a stop is asked for; a second time: only to hasten it */ \
	X(LIMIT, "limit") /* another time limit for the stop under way */             \
	X(KILL, "kill")	  /* a stop under way waits no longer */                      \
	X(ENDED, "ended") /* no worker is left, or more has ended since */            \
	X(DUE, "due")	  /* due_ms has come */                                       \
	X(GONE, "gone")	  /* nothing that workers left behind is there */             \
	X(LEAVE, "leave") /* another stop, the group's, takes over */

enum stop_state {
#define X(name, text) STOP_##name,
	STOP_STATES(X)
#undef X
		STOP_N_STATES
};

enum stop_event {
#define X(name, text) STOP_EV_##name,
	STOP_EVENTS(X)
#undef X
		STOP_N_EVENTS
};

/* The caller does these after a step, in this order. */
enum stop_action {
	STOP_DO_DUMP = 1 << 0,	    /* the dump signal to workers */
	STOP_DO_SEND = 1 << 1,	    /* the stop signal to workers */
	STOP_DO_KILL = 1 << 2,	    /* SIGKILL to workers and all that is with them; says so */
	STOP_DO_KILL_MORE = 1 << 3, /* SIGKILL to the same once more */
	STOP_DO_CLEAN = 1 << 4,	    /* the stop signal to what is left behind; posts GONE */
	STOP_DO_CHECK = 1 << 5,	    /* posts GONE where nothing is left behind */
	STOP_DO_SWEEP = 1 << 6,	    /* SIGKILL to what is left behind; posts GONE */
	STOP_DO_FINISH = 1 << 7,    /* nothing is left */
	STOP_DO_GIVE_UP = 1 << 8,   /* a worker does not die of SIGKILL */
	STOP_DO_ABANDON = 1 << 9,   /* what a worker left behind does not die of SIGKILL */
};

enum {
	STOP_DUMP_MS = 1000,	 /* between the dump signal and the stop signal, at most */
	STOP_LEFTOVER_MS = 2000, /* between the stop signal to what is left behind and SIGKILL */
	STOP_GIVE_UP_MS = 10000, /* after SIGKILL: how long a process may take to vanish */
};

struct stop_machine {
	enum stop_state state;
	uint64_t due_ms;      /* when DUE is to be posted; idle has no such time */
	uint64_t deadline_ms; /* what has got no SIGKILL gets it then */
	uint64_t limit_ms;    /* of the present state itself */
};

struct stop_input {
	uint64_t now_ms;
	uint64_t timeout_ms; /* END and LIMIT: until SIGKILL */
	bool alive;	     /* END: there are workers to be ended */
	bool dump;	     /* END: the dump signal comes first */
	bool main_only;	     /* END and ENDED: what is left behind is not for the stop signal */
};

/*
 * Applies event. 0: m has changed, and ret_actions is set; 1: the event means nothing in this
 * state; -EINVAL: it cannot happen here (a programmer's error). In these cases m is unchanged.
 */
int stop_step(struct stop_machine *m, enum stop_event event, const struct stop_input *in,
	unsigned *ret_actions) __attribute__((warn_unused_result));

const char *stop_state_name(enum stop_state s);
const char *stop_event_name(enum stop_event e);
