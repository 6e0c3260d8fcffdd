/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls on agent.sock that are answered later, or again and again: Watch, Events that follow, Wait.
 * Each is told of a change once in a turn of the loop, and before anybody on agent.sock gets the
 * answer to what made the change: who has been answered finds it in what a listener knows. Answers
 * to workers, and those that leave amid a turn for want of room, wait for nobody. A listener that
 * reads slowly gets the newest state when it has read the older ones. A call ends by its last
 * answer, its time limit, or its peer's vanishing; no function here frees another listener than the
 * one it answers.
 */

#include "common/varlink_server.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct agent;
struct listener;

enum listener_kind { LISTEN_WATCH, LISTEN_EVENTS, LISTEN_RUNNING, LISTEN_END, LISTEN_KILL };

struct listeners {
	struct agent *a;
	TAILQ_HEAD(, listener) list; /* the oldest first */
	bool changed;		     /* since they were told */
	bool telling;
};

void listen_init(struct listeners *l, struct agent *a);

/*
 * Takes part in what call waits for. WATCH and EVENTS get events after since, at once and from then
 * on; RUNNING and END are answered when it is so, also at once, or with TimedOut after timeout_ms
 * (negative: never). KILL is as END, but its time limit ends the run, as
 * max_run_time does, and the answer is the run's end; waited_ms: how long its caller had waited
 * before the call. Returns 0 or -ENOMEM: the call is not answered then.
 */
_must_check_ int listen_start(struct listeners *l, struct varlink_call *call,
	enum listener_kind kind, int64_t since, int64_t timeout_ms, int64_t waited_ms);

/* Something changed: listeners are told within this turn. */
void listen_changed(struct listeners *l);

/* An answer is about to leave: who listens to a stream is told and sent to first. */
void listen_ahead(struct listeners *l);

/* The job is over: all get the rest and their last answer. */
void listen_end(struct listeners *l);

/* Drops what was posted; the calls have ended by now. */
void listen_fini(struct listeners *l);
