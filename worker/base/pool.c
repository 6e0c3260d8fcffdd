/* SPDX-License-Identifier: Apache-2.0 */
/* A call takes the lock twice, when it begins and when it ends. */
#include "worker/base/pool.h"
#include "worker/base/handle.h"
#include "worker/base/process_id.h"
#include "worker/base/queue_handle.h"
#include "worker/base/waiting.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { POOL_IDLE_MAX = 64 }; /* further connections are closed after their call */

static _Atomic(struct pool *) abandoned;

static struct pool *pool_new(void)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->left, NULL);
	p->pid = process_id();
	p->refs = 1;
	TAILQ_INIT(&p->idle);
	TAILQ_INIT(&p->busy);
	TAILQ_INIT(&p->halted);
	write_behind_init(&p->writes);
	return p;
}

static void pool_free(struct pool *p)
{
	struct conn *c;

	write_behind_fini(p);
	TAILQ_CONCAT(&p->idle, &p->halted, entry);
	while ((c = TAILQ_FIRST(&p->idle))) {
		TAILQ_REMOVE(&p->idle, c, entry);
		shutdown(c->fd, SHUT_RDWR);
		conn_free(c);
	}
	pthread_cond_destroy(&p->left);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

bool pool_is_ours(const struct pool *p)
{
	return p->pid == process_id();
}

struct pool *pool_of(struct elasticd *h)
{
	struct pool *p = atomic_load(&h->pool), *mine;

	if (p && pool_is_ours(p))
		return p;
	mine = pool_new();
	if (!mine)
		return NULL;
	if (!atomic_compare_exchange_strong(&h->pool, &p, mine)) {
		pool_free(mine);
		return p;
	}
	/* A parent's pool stays reachable, so that no search for leaks reports it. */
	if (p) {
		p->next = atomic_load(&abandoned);
		while (!atomic_compare_exchange_weak(&abandoned, &p->next, p))
			;
	}
	return mine;
}

struct pool *pool_ref(struct elasticd *h)
{
	struct pool *p = pool_of(h);

	if (!p)
		return NULL;
	pthread_mutex_lock(&p->lock);
	p->refs++;
	pthread_mutex_unlock(&p->lock);
	return p;
}

void pool_unref(struct pool *p)
{
	bool last;

	if (!pool_is_ours(p))
		return;
	pthread_mutex_lock(&p->lock);
	last = --p->refs == 0;
	pthread_mutex_unlock(&p->lock);
	if (last)
		pool_free(p);
}

bool pool_enter(struct pool *p)
{
	bool open;

	pthread_mutex_lock(&p->lock);
	open = !p->closing;
	p->users += open;
	pthread_mutex_unlock(&p->lock);
	return open;
}

/* Call with the lock. */
static void pool_leave_locked(struct pool *p)
{
	if (--p->users == 0 && p->closing)
		pthread_cond_broadcast(&p->left);
}

void pool_leave(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	pool_leave_locked(p);
	pthread_mutex_unlock(&p->lock);
}

bool pool_closing(struct pool *p)
{
	bool closing;

	pthread_mutex_lock(&p->lock);
	closing = p->closing;
	pthread_mutex_unlock(&p->lock);
	return closing;
}

/* Call with the lock. */
static void pool_refuse(struct pool *p)
{
	struct conn *c;

	p->closing = true;
	TAILQ_FOREACH (c, &p->busy, entry)
		shutdown(c->fd, SHUT_RDWR);
}

void pool_cancel(struct elasticd *h)
{
	struct pool *p = pool_of(h);

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	pool_refuse(p);
	pthread_mutex_unlock(&p->lock);
}

void pool_close(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	pool_refuse(p);
	while (p->users)
		pthread_cond_wait(&p->left, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

void pool_add(struct pool *p, struct conn *c, struct conn **ret)
{
	pthread_mutex_lock(&p->lock);
	*ret = c;
	TAILQ_INSERT_TAIL(&p->busy, c, entry);
	if (p->closing)
		shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
}

void conn_drop(struct pool *p, struct conn *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&p->lock);
	TAILQ_REMOVE(&p->busy, c, entry);
	pthread_mutex_unlock(&p->lock);
	/* A child of fork() may still have the descriptor; the agent sees the end all the same. */
	shutdown(c->fd, SHUT_RDWR);
	conn_free(c);
}

void conn_drop_at(struct pool *p, struct conn **c)
{
	struct conn *dropped = *c;

	pthread_mutex_lock(&p->lock);
	*c = NULL;
	pthread_mutex_unlock(&p->lock);
	conn_drop(p, dropped);
}

bool pool_begin_waiting(struct pool *p, struct elasticd_queue_work *w)
{
	bool stopped;

	pthread_mutex_lock(&p->lock);
	stopped = atomic_load(&w->stopped);
	w->waiting = !stopped;
	pthread_mutex_unlock(&p->lock);
	return !stopped;
}

void pool_set_waiting(struct pool *p, struct elasticd_queue_work *w, bool waiting)
{
	pthread_mutex_lock(&p->lock);
	w->waiting = waiting;
	if (!waiting && atomic_load(&w->stopped))
		pthread_cond_broadcast(&p->left);
	pthread_mutex_unlock(&p->lock);
}

bool pool_end_waiting(struct pool *p, struct elasticd_queue_work *w)
{
	bool shut;

	pthread_mutex_lock(&p->lock);
	shut = w->conn && atomic_load(&w->conn->shut);
	w->waiting = w->waiting && shut;
	pthread_mutex_unlock(&p->lock);
	return !shut;
}

void pool_stop(struct pool *p, struct elasticd_queue_work *w)
{
	int64_t end = clock_ms() + w->h->silence_ms;
	const struct timespec until = { end / 1000, end % 1000 * 1000000 };
	int r = 0;

	pthread_mutex_lock(&p->lock);
	atomic_store(&w->stopped, true);
	if (w->waiting && w->conn)
		conn_shut(w->conn);
	while (w->waiting && r == 0)
		r = pthread_cond_clockwait(&p->left, &p->lock, CLOCK_MONOTONIC, &until);
	/* The agent does not answer. */
	if (w->waiting && w->conn)
		shutdown(w->conn->fd, SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
}

void conn_abandon(struct conn *c)
{
	if (c)
		conn_free(c);
}

/* Whether the pool keeps it. */
static bool pool_keep(struct pool *p, struct conn *c, bool leaves)
{
	bool keep;

	pthread_mutex_lock(&p->lock);
	keep = !p->closing && p->n_idle < POOL_IDLE_MAX && c->in.begin == c->in.end;
	TAILQ_REMOVE(&p->busy, c, entry);
	if (keep) {
		TAILQ_INSERT_HEAD(&p->idle, c, entry);
		p->n_idle++;
	}
	if (leaves)
		pool_leave_locked(p);
	pthread_mutex_unlock(&p->lock);
	return keep;
}

static void pool_give_back(struct pool *p, struct conn *c, bool leaves)
{
	if (pool_keep(p, c, leaves))
		return;
	shutdown(c->fd, SHUT_RDWR);
	conn_free(c);
}

void pool_end(struct pool *p, struct conn *c)
{
	pool_give_back(p, c, true);
}

void pool_give_idle(struct pool *p, struct conn *c)
{
	pool_give_back(p, c, false);
}

/* --- halted: a signal has ended the call, and its thread may make it again */

/* This thread's halted call with these bytes, or with this owner; any where both are NULL. Call
 * with the lock. */
static struct conn *halted_find(
	struct pool *p, const struct varlink_buffer *call, const void *owner)
{
	struct conn *c;

	TAILQ_FOREACH (c, &p->halted, entry) {
		size_t len = varlink_buffer_len(&c->call);

		if (!pthread_equal(c->thread, pthread_self()))
			continue;
		if (!call && (!owner || c->owner == owner))
			return c;
		if (call && !c->owner && len == varlink_buffer_len(call) &&
			memcmp(c->call.data + c->call.begin, call->data + call->begin, len) == 0)
			return c;
	}
	return NULL;
}

/* Call with the lock. */
static void halted_to_busy(struct pool *p, struct conn *c)
{
	TAILQ_REMOVE(&p->halted, c, entry);
	p->n_halted--;
	TAILQ_INSERT_TAIL(&p->busy, c, entry);
	if (!c->owner)
		varlink_buffer_fini(&c->call);
	c->owner = NULL;
	if (p->closing)
		shutdown(c->fd, SHUT_RDWR);
}

/* Call with the lock. */
static void idle_to_busy(struct pool *p, struct conn *c)
{
	TAILQ_REMOVE(&p->idle, c, entry);
	p->n_idle--;
	TAILQ_INSERT_TAIL(&p->busy, c, entry);
}

bool pool_begin(struct pool *p, const struct varlink_buffer *call, const void *owner,
	struct conn **ret, bool *ret_halted)
{
	struct conn *c = NULL;
	bool open;

	*ret_halted = false;
	pthread_mutex_lock(&p->lock);
	open = !p->closing;
	if (open) {
		p->users++;
		c = (call || owner) && p->n_halted ? halted_find(p, call, owner) : NULL;
		*ret_halted = c != NULL;
	}
	if (c) {
		halted_to_busy(p, c);
	} else if (open && (c = TAILQ_FIRST(&p->idle))) {
		idle_to_busy(p, c);
	}
	pthread_mutex_unlock(&p->lock);
	*ret = c;
	return open;
}

bool pool_enter_for(struct pool *p, const struct varlink_buffer *call, bool *ret_halted)
{
	bool open;

	pthread_mutex_lock(&p->lock);
	open = !p->closing;
	p->users += open;
	*ret_halted = p->n_halted && halted_find(p, call, NULL);
	pthread_mutex_unlock(&p->lock);
	return open;
}

struct conn *pool_take_idle(struct pool *p)
{
	struct conn *c = NULL;

	pthread_mutex_lock(&p->lock);
	/* Closing ends only what is busy by then. */
	if (!p->closing)
		TAILQ_FOREACH (c, &p->idle, entry)
			if (!conn_ended(c))
				break;
	if (c)
		idle_to_busy(p, c);
	pthread_mutex_unlock(&p->lock);
	return c;
}

/* One of this thread's, which is busy from then on. */
static struct conn *halted_take(struct pool *p)
{
	struct conn *c;

	pthread_mutex_lock(&p->lock);
	c = p->n_halted ? halted_find(p, NULL, NULL) : NULL;
	if (c)
		halted_to_busy(p, c);
	pthread_mutex_unlock(&p->lock);
	return c;
}

int pool_halt(struct pool *p, struct conn *c, const struct varlink_buffer *call, int64_t end)
{
	struct conn *oldest = NULL;
	int r = varlink_buffer_append(&c->call, call->data + call->begin, varlink_buffer_len(call));

	if (r < 0) {
		conn_drop(p, c);
		return r;
	}
	c->thread = pthread_self();
	c->end = end;
	pthread_mutex_lock(&p->lock);
	TAILQ_REMOVE(&p->busy, c, entry);
	TAILQ_INSERT_TAIL(&p->halted, c, entry);
	if (++p->n_halted > POOL_IDLE_MAX) {
		oldest = TAILQ_FIRST(&p->halted);
		halted_to_busy(p, oldest);
	}
	pthread_mutex_unlock(&p->lock);
	conn_drop(p, oldest);
	return 0;
}

void pool_give_up(struct elasticd *h)
{
	struct pool *p = atomic_load(&h->pool);
	struct conn *c;

	if (!p || !pool_is_ours(p))
		return;
	while ((c = halted_take(p)))
		conn_drop(p, c);
}
