/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What pool.c, connection.c, calls.c and write_behind.c share. */

#include "common/varlink/frame.h"
#include "worker/base/connection.h"
#include "worker/base/write_behind.h"

#include <pthread.h>
#include <sys/queue.h>

struct conn {
	TAILQ_ENTRY(conn) entry;
	struct pool *pool;
	int fd;
	struct varlink_frame in;
	bool greeted;  /* the answer to its Hello has come */
	size_t unsent; /* of the call's bytes, the last ones */
	/* Of a halted one: the call that a signal has ended, by whom, and how long it may be. Of
	 * several: whose they are, and how many have no answer yet. */
	struct varlink_buffer call;
	const void *who;
	size_t n_calls;
	pthread_t thread;
	int64_t end;
};
TAILQ_HEAD(conns, conn);

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t left; /* users is 0 */
	pid_t pid;
	int refs, users, n_idle, n_halted;
	bool closing;
	struct conns idle, busy, halted;
	struct pool *next; /* of those that a child has left alone */
	struct writer writer;
};

/* The time that a call has. */
struct deadline {
	int64_t end; /* -1: none */
	int64_t whole_ms;
	bool interruptible;
	bool begun;		   /* there was a first wait */
	bool from_last;		   /* it is so long from the last byte that went or came */
	const struct conn *beside; /* -EOWNERDEAD once this one has ended */
	bool endless;		   /* -EDEADLK once nobody can end it */
};

/* Whether some writes have no answer yet. */
static inline bool pool_writes(struct pool *p)
{
	return atomic_load_explicit(&p->writer.n, memory_order_relaxed) != 0;
}

/* --- pool.c */

/* The pool that this process has in h, made where it has none; NULL without memory. */
struct pool *pool_of(struct elasticd *h);
/* Begins a use; false when the handle is being closed. */
bool pool_enter(struct pool *p);
/* The same; ret_halted: whether this thread has begun this call, and a signal has ended it. */
bool pool_enter_for(struct pool *p, const struct varlink_buffer *call, bool *ret_halted);
void pool_leave(struct pool *p);
/* The same for a call, with the connection that it goes on, now busy; NULL where none is free. The
 * one on which this thread has begun it, where a signal has ended it (call and who NULL: not looked
 * for); of several calls, those of who, which it still has in call. */
bool pool_begin(struct pool *p, const struct varlink_buffer *call, const void *who,
	struct conn **ret, bool *ret_halted);
/* The call is over and nothing is left to be read: gives the connection back, and leaves. */
void pool_end(struct pool *p, struct conn *c);
bool pool_closing(struct pool *p);
/* A free one, now busy; NULL where there is none, or the handle is being closed. */
struct conn *pool_take_idle(struct pool *p);
/* Gives it back, by one who does not leave yet. */
void pool_give_idle(struct pool *p, struct conn *c);
/* A new connection, busy. */
void pool_add(struct pool *p, struct conn *c);
/* Keeps a busy connection until the same call is made again. */
int pool_halt(struct pool *p, struct conn *c, const struct varlink_buffer *call, int64_t end);

/* --- connection.c */

struct deadline deadline_of(const struct elasticd *h, struct wait wait);
/* Connects, waiting while the agent's queue is full; path NULL: to the process's own agent. 0 and a
 * connection that is in no list; -EAGAIN, -ETIMEDOUT, -EINTR, -ECONNRESET (the pool is closing), or
 * another negative errno with err set. */
_must_check_ int conn_new(struct pool *p, const char *path, const struct deadline *d,
	struct conn **ret, struct error *err);
void conn_free(struct conn *c);
/* Sends b; c->unsent says how much of it did not go. 0 or a negative errno. */
_must_check_ int conn_send(struct conn *c, const struct varlink_buffer *b, struct deadline *d);
/* The last c->unsent bytes of b. */
_must_check_ int conn_send_rest(struct conn *c, const struct varlink_buffer *b, struct deadline *d);
/* Reads its socket once, without waiting. 1: something has come; 0; -ECONNRESET or another negative
 * errno. */
_must_check_ int conn_read(struct conn *c);
/* The next message, NUL-ended, borrowed until the next call. 0, -ETIMEDOUT, -EINTR, -ECONNRESET,
 * -EOWNERDEAD or another negative errno. */
_must_check_ int conn_receive(struct conn *c, struct deadline *d, char **ret, size_t *ret_len);
