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
	bool halted; /* a signal has ended it, and nobody waits; the machine goes on */
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
	bool under_way; /* an answer with what comes next, which a signal has ended */
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
/* Between two calls that wait for it. */
void local_ask_halt(struct local_ask *a);
void local_ask_resume(struct local_ask *a, struct elasticd *h);

/* Slots, with the lock. */
void local_place_add(struct local_place *p);
void local_place_remove(struct queues *m, struct local_place *p);
/* Whether this thread has an item. */
bool local_place_mine(void);

/* An error as this call's. A status. */
int local_fail_status(int status, const char *text);

/* --- local_queue.c */

struct queue_bytes local_bytes(const struct elasticd_bytes *b);
/* An owned copy with a NUL behind it. 0 or -ENOMEM, as the next one. */
_must_check_ int local_bytes_copy(
	const struct queue_bytes *b, void **ret, size_t *ret_len, char **ret_format);
/* e NULL: there is none. */
_must_check_ int local_error_copy(
	const struct queue_error *e, int *ret_code, char **ret_message, char **ret_details);

/* --- local_call.c */

int local_call(struct elasticd *h, const char *const *workers, size_t n,
	const struct elasticd_bytes *payload, int timeout_ms, int answer_timeout_ms,
	struct elasticd_answer **ret, size_t *ret_n);
/* With the lock: drops those of h that a signal has ended; all: of every thread, not of this one
 * alone. */
void local_calls_drop(const struct elasticd *h, bool all);
/* In a child, where nobody waits for any. */
void local_calls_in_child(void);

int local_work_open(struct elasticd_work *w);
void local_work_close(struct elasticd_work *w, bool ours);
void local_work_renew(struct elasticd_work *w);
int local_work_next(struct elasticd_work *w, int timeout_ms, bool *ret_closed);
int local_work_answer(struct elasticd_work *w, const struct verdict *v, bool next, int timeout_ms,
	bool *ret_closed);
bool local_work_under_way(const struct elasticd_work *w);
bool local_work_cancelled(struct elasticd_work *w);
