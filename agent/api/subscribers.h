/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls on agent.sock that are answered later, or repeatedly: Watch, Events that follow, Wait. A
 * listener hears of a change once per turn of the loop, and before the call that made the change is
 * answered: so a caller with an answer finds every listener up to date. Answers to workers, and
 * answers that leave during a turn because a buffer is full, do not wait for that. A slow reader
 * gets the newest state after it has read the older ones. A call ends with its last answer, its
 * time limit, or its connection; each function here frees only the listener that it answers.
 */

#include "common/varlink/server.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct supervisor;
struct listener;

enum listener_kind {
	LISTEN_WATCH,
	LISTEN_EVENTS,
	LISTEN_RUNNING,
	LISTEN_READY,
	LISTEN_END,
	LISTEN_KILL
};

struct listeners {
	struct supervisor *sv;
	TAILQ_HEAD(, listener) list; /* oldest first */
	bool changed;		     /* since listeners last heard */
	bool telling;
};

void listen_init(struct listeners *l, struct supervisor *sv);

/*
 * Answers call later. WATCH and EVENTS get events after since, at once and from then on. RUNNING
 * and END are answered when the job runs or has ended, also at once, or with TimedOut after
 * timeout_ms (negative: never). KILL is like END, but its time limit ends the run, as max_run_time
 * does, and the answer is the run's end; waited_ms: how long its caller had waited before the call.
 * Returns 0, or -ENOMEM without answering the call.
 */
_must_check_ int listen_start(struct listeners *l, struct varlink_call *call,
	enum listener_kind kind, int64_t since, int64_t timeout_ms, int64_t waited_ms);

/* Something changed: listeners hear of it within this turn. */
void listen_changed(struct listeners *l);

/* An answer is about to be sent: listeners to streams get the changes first. */
void listen_ahead(struct listeners *l);

/* The job is over: all listeners get the rest and their last answer. */
void listen_end(struct listeners *l);

/* Cancels what was deferred. All calls have ended by now. */
void listen_fini(struct listeners *l);
