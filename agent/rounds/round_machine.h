/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rounds of a group of several hosts, as the head runs them: a pure machine, no I/O, no clock.
 * round.c posts events and carries out the action that a step returns.
 *
 *	gathering  hosts join; no worker lives
 *	preparing  hosts know their ranks and prepare; no worker lives
 *	recording  all are prepared; the store is to know of the round before it starts
 *	starting   all are prepared and start their workers
 *	running    all have started
 *	stopping   hosts stop their workers; another round follows
 *	backoff    no worker lives; the next round has to wait
 *	ending     hosts stop their workers; no round follows
 *	closing    no worker lives; hosts know the verdict and leave
 *	ended      all have left
 */

#include <stdbool.h>

#define ROUND_STATES(X)           \
	X(GATHERING, "gathering") \
	X(PREPARING, "preparing") \
	X(RECORDING, "recording") \
	X(STARTING, "starting")   \
	X(RUNNING, "running")     \
	X(STOPPING, "stopping")   \
	X(BACKOFF, "backoff")     \
	X(ENDING, "ending")       \
	X(CLOSING, "closing")     \
	X(ENDED, "ended")

#define ROUND_EVENTS(X)                                                                 \
	X(BEGIN, "begin")	/* enough hosts are there, and it waits for no other */ \
	X(TIMEOUT, "timeout")	/* fewer than MIN were there for join_timeout */        \
	X(READY, "ready")	/* all hosts of the round are prepared */               \
	X(RECORDED, "recorded") /* the store knows of the round */                      \
	X(STARTED, "started")	/* all hosts of the round have started */               \
	X(SHORT, "short")	/* a host of the round has left, is lost or left out */ \
	X(GROW, "grow")		/* the round has room for hosts that wait */            \
	X(RESTART, "restart")	/* a failure or an operator wants another round */      \
	X(STOPPED, "stopped")	/* no worker of the round lives */                      \
	X(DUE, "due")		/* the backoff is over */                               \
	X(END, "end")		/* there is a verdict */                                \
	X(EMPTY, "empty")	/* no host is left */

enum round_state {
#define X(name, text) ROUND_##name,
	ROUND_STATES(X)
#undef X
		ROUND_N_STATES
};

enum round_event {
#define X(name, text) ROUND_EV_##name,
	ROUND_EVENTS(X)
#undef X
		ROUND_EV_N
};

enum round_action {
	ROUND_DO_NOTHING,
	ROUND_DO_ASSIGN,  /* choose hosts, send each its ranks */
	ROUND_DO_RECALL,  /* the ranks that were sent no longer hold */
	ROUND_DO_RECORD,  /* tell the store of the round; RECORDED follows */
	ROUND_DO_START,	  /* send START to all hosts of the round */
	ROUND_DO_TELL,	  /* report that all workers of the round execute */
	ROUND_DO_SAVE,	  /* make workers save at one step; RESTART follows */
	ROUND_DO_STOP,	  /* send STOP to all hosts of the round */
	ROUND_DO_REST,	  /* report that all workers of the round are dead */
	ROUND_DO_CLOSE,	  /* send the verdict to all hosts */
	ROUND_DO_GIVE_UP, /* the same, because too few came */
	ROUND_DO_ABANDON, /* send STOP to all hosts of the round, because too few are left */
	ROUND_DO_FINISH,  /* report that all hosts have left */
};

struct round_condition {
	bool delayed; /* the next round has to wait */
	bool records; /* a store is to know of each round */
	bool saves;   /* hosts that wait get in after a save */
};

struct round_change {
	enum round_state next;
	enum round_action action;
};

/* Returns 0 with a change, 1 if the event changes nothing in this state, or -EINVAL for a pair that
 * the table lacks (a programmer's error). */
int round_change(enum round_state state, enum round_event event, const struct round_condition *c,
	struct round_change *ret) __attribute__((warn_unused_result));

const char *round_state_name(enum round_state s);
const char *round_event_name(enum round_event e);
