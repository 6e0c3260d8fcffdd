/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the work queue's service share; nobody else includes this.
 *
 *   dispatch.c          life, what follows a step of the machine, the timer
 *   dispatch_wait.c     calls that wait for the machine
 *   dispatch_methods.c  the table, the small methods
 *   dispatch_submit.c   Submit, SubmitMany
 *   dispatch_fetch.c    Fetch, FetchMany
 *   dispatch_list.c     List, Stats
 *   dispatch_work.c     Work, Finish, Fail, PutBack, Look
 *   dispatch_stream.c   Cancels, Keep
 *   dispatch_call.c     Call, resources
 *   dispatch_text.c     what goes out, as JSON text
 *   dispatch_group.c    what happens to tasks and the group (dispatch_group.h)
 *
 * After whatever may have changed the machine comes dispatch_run(): it has done what the machine
 * wants, writes the journal, answers, and sets the timer.
 */

#include "agent/dispatch.h"
#include "agent/worker_private.h"
#include "common/flat.h"
#include "common/queue.h"

#include <sys/queue.h>

struct dispatch_group; /* dispatch_group.c's own */
struct journal;
struct dispatch_wait;

struct dispatch_door {
	struct dispatch *d;
	bool workers; /* whether callers are workers, else they are coordinators only */
};

LIST_HEAD(dispatch_streams, dispatch_stream);
TAILQ_HEAD(dispatch_waits, dispatch_wait);

struct dispatch {
	struct agent *a;
	struct queues *q;
	struct dispatch_group *group;
	struct journal *journal; /* NULL: what happens is not kept */
	struct dispatch_door doors[2];
	struct loop_timer *timer;
	uint64_t timer_ms;	     /* when it fires; UINT64_MAX: it is not armed */
	struct dispatch_waits ready; /* over, and not answered yet */
	struct dispatch_streams streams;
	struct worker_text text; /* of the answer that is being written; its memory stays */
	bool running, again;	 /* in dispatch_run(); somebody called it from there */
	struct queue_do todo;
};

/* dispatch.c */
/* After any step, or several. From inside itself it is put off until the outer one has its turn. */
void dispatch_run(struct dispatch *d);
/* The same later in this turn of the loop: where many steps come together, or where answers must
 * not be given yet. */
void dispatch_run_soon(struct dispatch *d);

/* dispatch_group.c, which dispatch.c calls: */
/* What the specification says. */
void dispatch_group_options(const struct agent *a, struct queue_options *ret);
/* After the machine was made, and before its end: d->group. */
_must_check_ int dispatch_group_new(struct dispatch *d, struct error *err);
void dispatch_group_free(struct dispatch *d);
/* What queue_next() says: QUEUE_DO_KILL, TELL, STALL; and of QUEUE_DO_CANCEL the word on the board.
 * They may post events and start things, and call dispatch_run(). */
void dispatch_group_do(struct dispatch *d, const struct queue_do *todo);
/* After each round of answers. */
void dispatch_group_settled(struct dispatch *d);
