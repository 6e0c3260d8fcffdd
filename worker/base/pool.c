/* SPDX-License-Identifier: Apache-2.0 */
/* Each takes the lock once where it can: a call takes it when it begins, and when it ends. */
#include "worker/base/pool.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { POOL_IDLE_MAX = 64 }; /* more threads than that at once connect anew */

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
	writer_init(&p->writer);
	return p;
}

static void pool_free(struct pool *p)
{
	struct conn *c;

	writer_fini(p);
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
	/* The parent's, if any: kept where a search for leaks finds it. */
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

/* With the lock. */
static void left(struct pool *p)
{
	if (--p->users == 0 && p->closing)
		pthread_cond_broadcast(&p->left);
}

void pool_leave(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	left(p);
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

/* With the lock. */
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

void pool_add(struct pool *p, struct conn *c)
{
	pthread_mutex_lock(&p->lock);
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
	/* A child of fork() may still have the descriptor: for the agent it ends here. */
	shutdown(c->fd, SHUT_RDWR);
	conn_free(c);
}

void conn_abandon(struct conn *c)
{
	if (c)
		conn_free(c);
}

/* Whether it is kept. */
static bool give_back(struct pool *p, struct conn *c, bool leaves)
{
	bool keep;

	pthread_mutex_lock(&p->lock);
	keep = !p->closing && p->n_idle < POOL_IDLE_MAX && c->in.begin == c->in.end;
	TAILQ_REMOVE(&p->busy, c, entry);
	if (keep) {
		TAILQ_INSERT_HEAD(&p->idle, c, entry);
		p->n_idle++;
	}
	/* One that is not kept is nobody else's any more. */
	if (leaves)
		left(p);
	pthread_mutex_unlock(&p->lock);
	return keep;
}

static void conn_give_back(struct pool *p, struct conn *c, bool leaves)
{
	if (give_back(p, c, leaves))
		return;
	shutdown(c->fd, SHUT_RDWR);
	conn_free(c);
}

void pool_end(struct pool *p, struct conn *c)
{
	conn_give_back(p, c, true);
}

void pool_give_idle(struct pool *p, struct conn *c)
{
	conn_give_back(p, c, false);
}

/* --- calls that a signal has ended, and that their thread may make again */

/* What belongs to this thread and is this call, or are those of who; both NULL: any. With the lock.
 */
static struct conn *halted_find(struct pool *p, const struct varlink_buffer *call, const void *who)
{
	struct conn *c;

	TAILQ_FOREACH (c, &p->halted, entry) {
		size_t len = varlink_buffer_len(&c->call);

		if (!pthread_equal(c->thread, pthread_self()))
			continue;
		if (!call && (!who || c->who == who))
			return c;
		if (call && !c->who && len == varlink_buffer_len(call) &&
			memcmp(c->call.data + c->call.begin, call->data + call->begin, len) == 0)
			return c;
	}
	return NULL;
}

/* With the lock. */
static void halted_to_busy(struct pool *p, struct conn *c)
{
	TAILQ_REMOVE(&p->halted, c, entry);
	p->n_halted--;
	TAILQ_INSERT_TAIL(&p->busy, c, entry);
	if (!c->who)
		varlink_buffer_fini(&c->call);
	c->who = NULL;
	if (p->closing)
		shutdown(c->fd, SHUT_RDWR);
}

bool pool_begin(struct pool *p, const struct varlink_buffer *call, const void *who,
	struct conn **ret, bool *ret_halted)
{
	struct conn *c = NULL;
	bool open;

	*ret_halted = false;
	pthread_mutex_lock(&p->lock);
	open = !p->closing;
	if (open) {
		p->users++;
		c = (call || who) && p->n_halted ? halted_find(p, call, who) : NULL;
		*ret_halted = c != NULL;
	}
	if (c) {
		halted_to_busy(p, c);
	} else if (open && (c = TAILQ_FIRST(&p->idle))) {
		TAILQ_REMOVE(&p->idle, c, entry);
		p->n_idle--;
		TAILQ_INSERT_TAIL(&p->busy, c, entry);
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
	/* Those that are busy when it is closed are ended then, and this one would not be. */
	if (!p->closing)
		TAILQ_FOREACH (c, &p->idle, entry)
			if (!conn_ended(c))
				break;
	if (c) {
		TAILQ_REMOVE(&p->idle, c, entry);
		p->n_idle--;
		TAILQ_INSERT_TAIL(&p->busy, c, entry);
	}
	pthread_mutex_unlock(&p->lock);
	return c;
}

/* One that this thread has begun, now busy. */
static struct conn *halted_any(struct pool *p)
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

void pool_forget(struct elasticd *h)
{
	struct pool *p = atomic_load(&h->pool);
	struct conn *c;

	if (!p || !pool_is_ours(p))
		return;
	while ((c = halted_any(p)))
		conn_drop(p, c);
}
