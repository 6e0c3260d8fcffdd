/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The life of a run's agent as elasticd sees it: a pure machine. It decides; daemon/job.c does what
 *it says. The state of the job itself (running, backoff, ...) is the agent's and is not known here.
 *
 *	starting   a process was started or found, and has not answered yet
 *	linked	   its Watch stream is open: the mirror is up to date
 *	lost	   the stream broke without a verdict; its guard is still clearing up
 *	sweeping   guard and agent are gone: what is left of the run is being killed
 *	closing    the verdict is known; the guard is on its way out
 *	clearing   the verdict is known and the guard is gone: what is left of the run is being
 *killed ended	   nothing of it is left
 */

#include <stdbool.h>

#define LIFE_STATES(X)          \
	X(STARTING, "starting") \
	X(LINKED, "linked")     \
	X(LOST, "lost")         \
	X(SWEEPING, "sweeping") \
	X(CLOSING, "closing")   \
	X(CLEARING, "clearing") \
	X(ENDED, "ended")

#define LIFE_EVENTS(X)                                    \
	X(ANSWERED, "the agent answered")                 \
	X(UNLINKED, "the connection ended")               \
	X(VERDICT, "the verdict is known")                \
	X(GUARD_GONE, "the guard is gone")                \
	X(CONDEMNED, "the agent does not answer")         \
	X(SPAWN_FAILED, "the agent could not be started") \
	X(FOUND, "its agent still listens")               \
	X(SWEPT, "nothing is left of it")

#define LIFE_ENUM(id, text) LIFE_##id,
enum life { LIFE_STATES(LIFE_ENUM) LIFE_N };
#define LIFE_EVENT_ENUM(id, text) LIFE_EV_##id,
enum life_event { LIFE_EVENTS(LIFE_EVENT_ENUM) LIFE_EV_N };

enum life_action {
	LIFE_DO_NOTHING,
	LIFE_DO_ATTACH, /* the mirror is live: answer who waits for the agent */
	LIFE_DO_AWAIT,	/* drop the link, wait for the guard's end; look whether it still listens */
	LIFE_DO_KILL,	/* drop the link, kill agent and guard, and all that is left */
	LIFE_DO_RELINK, /* connect once more */
	LIFE_DO_ABANDON,  /* nobody was promised anything yet: forget the run */
	LIFE_DO_SWEEP,	  /* drop the link, kill what is left, report SWEPT */
	LIFE_DO_RESUME,	  /* start an agent for the same run */
	LIFE_DO_GIVE_UP,  /* write the verdict agent_lost, clear up */
	LIFE_DO_ANNOUNCE, /* tell the verdict, wait for the guard's end */
	LIFE_DO_SEARCH,	  /* kill what is left, report SWEPT */
	LIFE_DO_SETTLE,	  /* tell the verdict, and the same */
	LIFE_DO_CLEAR,	  /* nothing is left: remove runtime directory and cgroup */
	LIFE_DO_FINISH,	  /* tell the verdict, and the same */
};

struct life_input {
	bool accepted;	 /* somebody was told that the run exists */
	bool guard_gone; /* no process of the agent is left */
	bool left_clean; /* and the guard said that nothing else is left either */
	bool may_resume; /* the agent was not lost too often */
};

struct life_step {
	enum life next;
	enum life_action action;
};

/* Returns 0 with a step, 1 where the event means nothing in this state, or -EINVAL for a pair that
 * nobody thought of (a programmer's error). */
int life_step(enum life state, enum life_event event, const struct life_input *in,
	struct life_step *ret) __attribute__((warn_unused_result));

const char *life_name(enum life state);
const char *life_event_text(enum life_event event);
