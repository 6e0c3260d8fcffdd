/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The connections of a handle. Each call has one of its own while it lasts, so that no thread waits
 * for another's answer; connections that are free are kept for the next call.
 *
 * A pool belongs to one process. After fork() the child makes its own, and does not touch its
 * parent's, whose lock another thread may have held.
 */

#include "worker/base/connection.h"
#include "worker/base/write_behind.h"

#include <stdatomic.h>

struct elasticd_queue_work;

TAILQ_HEAD(conns, conn);

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t left; /* users is 0, or a stopped slot no longer waits */
	pid_t pid;
	int refs, users, n_idle, n_halted;
	bool closing;
	struct conns idle, busy, halted;
	struct pool *next; /* of the list of pools that children left to their parents */
	struct write_behind writes;
};

/* The pool that this process has in h, which is made where there is none; NULL without memory. */
struct pool *pool_of(struct elasticd *h);
/* The same, with a reference that keeps it. */
struct pool *pool_ref(struct elasticd *h);
void pool_unref(struct pool *p);
bool pool_is_ours(const struct pool *p);

/* A user is a call that is under way: pool_close() waits for all users. pool_enter() is false once
 * the handle is being closed. */
bool pool_enter(struct pool *p);
void pool_leave(struct pool *p);
bool pool_closing(struct pool *p);
/* Ends all calls, later ones too, with CANCELLED. Makes the pool where there is none. */
void pool_cancel(struct elasticd *h);
/* The same, and waits until their threads have left. */
void pool_close(struct pool *p);

/*
 * pool_enter() for a call, with the connection to make it on, which is busy from then on: the one
 * on which this thread has begun the same call before a signal ended it (ret_halted), or a free
 * one; NULL: the caller connects. A call is the same by its bytes (call), or by its owner; where
 * both are NULL none is looked for.
 */
bool pool_begin(struct pool *p, const struct varlink_buffer *call, const void *owner,
	struct conn **ret, bool *ret_halted);
/* The end of a call that was answered: gives the connection back, and leaves. */
void pool_end(struct pool *p, struct conn *c);
/* pool_enter(); ret_halted: this thread has begun this call before a signal ended it. */
bool pool_enter_for(struct pool *p, const struct varlink_buffer *call, bool *ret_halted);

/* A free connection, which is busy from then on; NULL where there is none. */
struct conn *pool_take_idle(struct pool *p);
/* Gives it back; the user stays. */
void pool_give_idle(struct pool *p, struct conn *c);
/* Adds a new connection, which is busy, and sets *ret, which another thread may read with the lock.
 */
void pool_add(struct pool *p, struct conn *c, struct conn **ret);
/* Closes a busy connection. NULL is accepted. */
void conn_drop(struct pool *p, struct conn *c);
/* The same for *c, which becomes NULL, and which another thread may read with the lock. */
void conn_drop_at(struct pool *p, struct conn **c);
/* In a child: closes the descriptor, and leaves the connection to the parent. NULL is accepted. */
void conn_abandon(struct conn *c);

/* Keeps a busy connection until this thread makes the same call again. */
int pool_halt(struct pool *p, struct conn *c, const struct varlink_buffer *call, int64_t end);
/* Drops what this thread has halted. */
void pool_give_up(struct elasticd *h);

/* A slot of the work queue is about to wait for an item. Returns false if it is stopped: it may
 * not. In one step, so that pool_stop() finds the wait, or the wait finds the stop. */
bool pool_begin_waiting(struct pool *p, struct elasticd_queue_work *w);
/* A slot of the work queue waits for an item, or no longer. */
void pool_set_waiting(struct pool *p, struct elasticd_queue_work *w, bool waiting);
/* No longer, unless its connection is shut: then false, and the caller ends the wait later. */
bool pool_end_waiting(struct pool *p, struct elasticd_queue_work *w);
/* Stops a slot; where it waits for an item in another thread, ends that wait, and returns when that
 * thread has left it. */
void pool_stop(struct pool *p, struct elasticd_queue_work *w);

/* Whether puts of write_behind.h have no answer yet. */
static inline bool pool_has_writes(struct pool *p)
{
	return atomic_load_explicit(&p->writes.n, memory_order_relaxed) != 0;
}
