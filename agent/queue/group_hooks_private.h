/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the work queue and the group share; nobody else includes this.
 *
 *   group_hooks.c  life, what happens to tasks and the group
 *   fail_queue.c   a task whose loss fails the queue
 *   effects.c      what the machine wants done
 *   job_json.c     the queue as part of the job, for people
 */

#include "agent/queue/group_hooks.h"
#include "agent/queue/private.h"

struct dispatch_worker {
	bool alive; /* as the machine was told */
	bool told;  /* ... its process was told of the loss */
};

struct dispatch_group {
	struct dispatch *d;
	struct dispatch_worker *workers; /* by slot */
	int n_workers;
	bool lost;  /* of this attempt; told once */
	bool holds; /* what has failed waits for those who are told */
	bool saving;
	uint64_t tell_ms; /* the present window's beginning */
	unsigned told;	  /* events in it, those that were left out too */
	struct loop_timer *grace;
};

/* NULL: there is no work queue. */
static inline struct dispatch_group *dispatch_group_of(const struct supervisor *sv)
{
	return dispatch_of(sv) ? dispatch_of(sv)->group : NULL;
}

/* NULL: the machine was never told of w. */
static inline struct dispatch_worker *dispatch_worker_of(
	struct dispatch_group *g, const struct worker *w)
{
	return w->slot >= 0 && w->slot < g->n_workers ? &g->workers[w->slot] : NULL;
}

/* How w has ended, as what follows its name in a sentence. */
void dispatch_how_gone(const struct worker *w, char *text, size_t size);
/* fail_queue.c: one that had failed has a process again, by a person's word. */
void dispatch_loss_made_good(struct supervisor *sv);
/* The time for those who were told is over; arg is the group. */
void dispatch_loss_expired(void *arg);
