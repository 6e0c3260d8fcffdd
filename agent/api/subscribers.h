/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls on agent.sock that the agent answers later, or repeatedly: Watch, Events that follow, Wait.
 * A subscriber gets a change once per turn of the loop, before the caller that made the change gets
 * its answer: so a caller with an answer finds every subscriber up to date. Answers to workers, and
 * answers that leave during a turn because a buffer is full, do not wait for that. A slow reader
 * gets the newest state after it has read the older ones. A call ends with its last answer, its
 * time limit, or its connection; each function here frees only the subscriber that it answers.
 */

#include "common/varlink/server.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct supervisor;
struct subscriber;

enum subscriber_kind {
	SUBSCRIBER_WATCH,
	SUBSCRIBER_EVENTS,
	SUBSCRIBER_RUNNING,
	SUBSCRIBER_READY,
	SUBSCRIBER_END,
	SUBSCRIBER_KILL
};

struct subscribers {
	struct supervisor *sv;
	TAILQ_HEAD(, subscriber) list; /* oldest first */
	bool changed;		       /* since subscribers were last notified */
	bool notifying;
};

void subscribers_init(struct subscribers *all, struct supervisor *sv);

/*
 * Answers call later. WATCH and EVENTS get events after since, at once and from then on. RUNNING,
 * READY and END get one answer when the job runs, is ready or has ended, perhaps at once, or
 * DeadlineExceeded after timeout_ms (negative: never). KILL is like END, but its time limit ends
 * the run, as max_run_time does, and its answer is the run's end; waited_ms: how long its caller
 * had waited before the call. Returns 0, or -ENOMEM without answering the call.
 */
_must_check_ int subscribers_add(struct subscribers *all, struct varlink_call *call,
	enum subscriber_kind kind, int64_t since, int64_t timeout_ms, int64_t waited_ms);

/* Something changed: subscribers are notified within this turn. */
void subscribers_changed(struct subscribers *all);

/* Notifies subscribers of changes now: an answer is about to be sent. */
void subscribers_notify(struct subscribers *all);

/* The job is over: sends all subscribers the rest and their last answer. */
void subscribers_end(struct subscribers *all);

/* Cancels what was deferred. All calls have ended by now. */
void subscribers_fini(struct subscribers *all);
