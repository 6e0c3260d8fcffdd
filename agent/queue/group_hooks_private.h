/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by these files, and by no others:
 *
 *   group_hooks.c  life, starts and ends of workers, events of the group
 *   fail_queue.c   a worker whose loss fails the queue
 *   effects.c      the machine's orders
 *   job_json.c     the queue as part of the job, for people
 */

#include "agent/queue/group_hooks.h"
#include "agent/queue/private.h"

struct dispatch_worker {
	bool alive; /* the machine knows its process */
	bool told;  /* ... and the process got the error of a loss */
};

enum { DISPATCH_DUMPED = 64 }; /* workers that are dumped at once */

struct dispatch_group {
	struct dispatch *d;
	struct dispatch_worker *workers; /* by slot */
	int n_workers;
	bool lost;		 /* a worker was lost in this attempt */
	bool await_coordinators; /* the decision about it waits for coordinators */
	bool dumping;
	int dump[DISPATCH_DUMPED]; /* places of workers that are to be dumped in this turn */
	size_t n_dump;
	char dump_why[512];
	uint64_t events_ms; /* when the present window of events began */
	unsigned n_events;  /* events in it, also those that were left out */
	struct loop_timer *grace;
};

/* NULL: there is no work queue. */
static inline struct dispatch_group *dispatch_group_of(const struct supervisor *sv)
{
	return dispatch_of(sv) ? dispatch_of(sv)->group : NULL;
}

/* NULL: the machine does not know w. */
static inline struct dispatch_worker *dispatch_worker_of(
	struct dispatch_group *g, const struct worker *w)
{
	return w->slot >= 0 && w->slot < g->n_workers ? &g->workers[w->slot] : NULL;
}

/* effects.c */
void dispatch_forget_dumps(struct dispatch_group *g);
/* How w ended, as a text that follows its name. */
void dispatch_end_text(const struct worker *w, char *text, size_t size);
/* fail_queue.c: a person has started a lost worker again. */
void dispatch_loss_repaired(struct supervisor *sv);
/* The time that coordinators have to leave is over; arg is the group. */
void dispatch_loss_expired(void *arg);
