/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The life of a run's agent as elasticd sees it: a pure machine. It decides, and daemon/jobs/job.c
 * acts. The state of the job itself (running, backoff, ...) belongs to the agent and is not known
 * here.
 *
 *	starting   a process was started or found, and has not answered yet
 *	linked	   its Watch stream is open: the mirror is up to date
 *	lost	   the stream broke without a verdict; its guard is clearing up
 *	sweeping   guard and agent are gone: elasticd kills what is left of the run
 *	closing    the verdict is known; the guard is leaving
 *	clearing   the verdict is known and the guard is gone: elasticd kills what is left
 *	ended	   no process of it is left
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
	X(OVERDUE, "the guard does not leave")            \
	X(SPAWN_FAILED, "the agent could not be started") \
	X(FOUND, "its agent still listens")               \
	X(SWEPT, "nothing is left of it")

#define LIFE_ENUM(id, text) LIFE_##id,
enum life { LIFE_STATES(LIFE_ENUM) LIFE_N };
#define LIFE_EVENT_ENUM(id, text) LIFE_EV_##id,
enum life_event { LIFE_EVENTS(LIFE_EVENT_ENUM) LIFE_EV_N };

enum life_action {
	LIFE_DO_NOTHING,
	LIFE_DO_ATTACH, /* the mirror is live: answer the callers that wait for the agent */
	LIFE_DO_AWAIT,	/* drop the link, wait for the guard's end; look whether it still listens */
	LIFE_DO_KILL,	/* drop the link, kill agent and guard, and all that is left */
	LIFE_DO_RELINK, /* connect once more */
	LIFE_DO_ABANDON,  /* no caller knows of the run: forget it */
	LIFE_DO_SWEEP,	  /* drop the link, kill what is left, report SWEPT */
	LIFE_DO_RESUME,	  /* start an agent for the same run */
	LIFE_DO_GIVE_UP,  /* write the verdict agent_lost, clear up */
	LIFE_DO_ANNOUNCE, /* publish the verdict, wait for the guard's end */
	LIFE_DO_SEARCH,	  /* kill what is left, report SWEPT */
	LIFE_DO_SETTLE,	  /* publish the verdict, kill what is left, report SWEPT */
	LIFE_DO_CLEAR,	  /* nothing is left: remove runtime directory and cgroup */
	LIFE_DO_FINISH,	  /* publish the verdict, remove runtime directory and cgroup */
};

struct life_input {
	bool accepted;	 /* a caller may know of the run */
	bool guard_gone; /* no process of the agent is left */
	bool left_clean; /* the guard also said that it left no other process */
	bool may_resume; /* the agent was not lost too often */
};

struct life_step {
	enum life next;
	enum life_action action;
};

/* Returns 0 with a step, 1 if the event changes nothing in this state, or -EINVAL for a pair that
 * the table lacks (a programmer's error). */
int life_step(enum life state, enum life_event event, const struct life_input *in,
	struct life_step *ret) __attribute__((warn_unused_result));

const char *life_name(enum life state);
const char *life_event_text(enum life_event event);
