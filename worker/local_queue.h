/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The work queue within a process: the machine that an agent has, too, one for all handles, under
 * the lock of local.h. The process is its only worker, each struct elasticd_work a slot of it. A
 * child of fork() goes on with a copy, in which nothing is leased and nobody waits.
 */

#include "common/queue.h"
#include "worker/local.h"
#include "worker/queue.h"

#include <pthread.h>
#include <sys/queue.h>

#define LOCAL_WORKER "worker:0"

enum { LOCAL_CALL_MS = 300000, LOCAL_ANSWER_MS = 120000 };

/* Somebody who asks, on its thread's stack. */
struct local_ask {
	TAILQ_ENTRY(local_ask) entry;
	struct local_wait wait;
	struct queue_wait w;
	bool over;
};

/* A slot. */
struct local_place {
	TAILQ_ENTRY(local_place) entry;
	struct elasticd_work *w;   /* kept where a search for leaks in a child finds it */
	struct queue_lease *lease; /* NULL: none */
	int64_t number;		   /* of it */
	_Atomic int64_t end;	   /* when its try is too long; -1: never */
	pthread_t thread;	   /* that got it */
	void *payload;		   /* owned, a NUL behind it */
	atomic_bool cancelled;
	char reason[512];
};

/* Takes the lock and has the machine; a status, without the lock, where there is none to be had, or
 * the handle was cancelled. */
_must_check_ int local_queue_enter(const struct elasticd *h, struct queues **ret);
/* The machine that there is. */
struct queues *local_machine(void);
/* After each step, with the lock: does what the machine wants to be done, and wakes who is over. */
void local_queue_settle(struct queues *m);
/* Ends what is overdue. */
void local_queue_expire(struct queues *m);

uint64_t local_now(void);
/* Of a wait that begins now. */
uint64_t local_deadline(int timeout_ms);

/* Begins to ask, with the lock; local_ask_end() follows. */
void local_ask_begin(struct local_ask *a, struct elasticd *h);
/* Waits until a is over, which it is already where over says so. A status of a's own, or of the
 * wait (handle closed, signal). *ret_alone, where it is not NULL: set, and 0 returned, where
 * nothing can come any more: the process has one thread, and no limit is set; else that is
 * FAILED_PRECONDITION. */
int local_ask_wait(
	struct queues *m, struct local_ask *a, bool over, int timeout_ms, bool *ret_alone);
/* Settles, too. */
void local_ask_end(struct queues *m, struct local_ask *a);

/* Slots, with the lock. */
void local_place_add(struct local_place *p);
void local_place_remove(struct queues *m, struct local_place *p);
/* Whether this thread has an item. */
bool local_place_mine(void);

/* An error as this call's. A status. */
int local_fail_status(int status, const char *text);

int local_work_open(struct elasticd_work *w);
void local_work_close(struct elasticd_work *w, bool ours);
void local_work_renew(struct elasticd_work *w);
int local_work_next(struct elasticd_work *w, int timeout_ms, bool *ret_closed);
int local_work_answer(struct elasticd_work *w, const struct verdict *v, bool next, int timeout_ms,
	bool *ret_closed);
bool local_work_under_way(const struct elasticd_work *w);
bool local_work_cancelled(struct elasticd_work *w);
