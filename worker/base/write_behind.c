/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/write_behind.h"
#include "worker/base/pool.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum {
	ORDINARY = -1,	    /* no status: it is to be an ordinary call */
	ANSWER_BYTES = 448, /* of an answer, beside the key that an error may name */
	ESCAPED = 6,	    /* bytes that one of them may take there */
	KEPT_BYTES = 1024,  /* a write's memory that is used again */
	LOOK_MS = 1000,	    /* so often one who waits for the lock looks at its time */
};

void writer_init(struct writer *w)
{
	sem_init(&w->lock, 0, 1);
	atomic_init(&w->n, 0);
}

/* 0, -EINTR or -ETIMEDOUT. */
static int writer_lock(struct writer *w, const struct deadline *d)
{
	while (sem_trywait(&w->lock) < 0) {
		int64_t ms = LOOK_MS, left;
		struct timespec ts;

		if (!d->from_last && d->end >= 0) {
			left = d->end - clock_ms();
			if (left <= 0)
				return -ETIMEDOUT;
			ms = left < ms ? left : ms;
		}
		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_sec += ms / 1000;
		ts.tv_nsec += ms % 1000 * 1000000;
		if (ts.tv_nsec >= 1000000000) {
			ts.tv_nsec -= 1000000000;
			ts.tv_sec++;
		}
		if (sem_timedwait(&w->lock, &ts) == 0)
			return 0;
		if (errno == EINTR && d->interruptible && signal_interrupts())
			return -EINTR;
	}
	return 0;
}

/* Ends a use of the pool that has the lock. A connection for which there is nothing left to be done
 * is given back. */
static void writer_leave(struct pool *p)
{
	struct writer *w = &p->writer;

	if (w->conn && !pool_writes(p)) {
		pool_give_idle(p, w->conn);
		w->conn = NULL;
	}
	sem_post(&w->lock);
	pool_leave(p);
}

/* --- answers */

static struct write *write_at(struct writer *w, unsigned i)
{
	return &w->writes[(w->first + i) % WRITES_MOST];
}

static unsigned n_writes(const struct writer *w)
{
	return atomic_load_explicit(&w->n, memory_order_relaxed);
}

static void n_set(struct writer *w, unsigned n)
{
	atomic_store_explicit(&w->n, n, memory_order_relaxed);
}

static void write_drop(struct write *s)
{
	if (s->room <= KEPT_BYTES)
		return;
	free(s->data);
	s->data = NULL;
	s->room = 0;
}

/* The oldest. */
static void write_over(struct writer *w)
{
	w->cost -= write_at(w, 0)->cost;
	write_drop(write_at(w, 0));
	w->first = (w->first + 1) % WRITES_MOST;
	n_set(w, n_writes(w) - 1);
}

/* 0, -EBADMSG or -ENOMEM. */
static int answer_take(struct writer *w, char *text, size_t len)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct error err;
	int r;

	if (!n_writes(w))
		return -EBADMSG;
	if (!answer_nothing(text, len, NULL)) {
		r = varlink_in_parse(text, len, &in, &err);
		if (r < 0)
			return r;
	}
	if (in.error && !w->failed.message) {
		w->failed = in;
		in = (struct varlink_in){ .message = NULL };
	}
	write_over(w);
	return 0;
}

/* Those that have come. 0 or a negative errno. */
static int answers_take(struct writer *w)
{
	int r = 1;

	while (r > 0 && n_writes(w)) {
		char *text;
		size_t len;

		r = varlink_frame_next(&w->conn->in, &text, &len);
		if (r == 0)
			r = conn_read(w->conn);
		else if (r > 0)
			r = answer_take(w, text, len) < 0 ? -EBADMSG : 1;
	}
	return r < 0 ? r : 0;
}

/* The connection is of no more use. What was handed over may be done all the same. */
static void writer_lose(struct pool *p)
{
	struct writer *w = &p->writer;

	w->lost += n_writes(w);
	while (n_writes(w))
		write_over(w);
	conn_drop(p, w->conn);
	w->conn = NULL;
}

/* Waits until no more than most have no answer. 0 or a negative errno. */
static int writer_await(struct pool *p, unsigned most, struct deadline *d)
{
	struct writer *w = &p->writer;
	int r = 0;

	while (r == 0 && n_writes(w) > most) {
		char *text;
		size_t len;

		r = conn_receive(w->conn, d, &text, &len);
		if (r == 0)
			r = answer_take(w, text, len);
	}
	return r;
}

/* The first error of what was not waited for, once. */
static int writer_tell(struct pool *p)
{
	struct writer *w = &p->writer;
	unsigned lost = w->lost;
	int r = 0;

	w->lost = 0;
	if (w->failed.message) {
		r = fail_answer(&w->failed);
		varlink_in_fini(&w->failed);
	} else if (lost && pool_closing(p)) {
		r = fail(ELASTICD_CANCELLED, "the handle was closed");
	} else if (lost) {
		r = fail(ELASTICD_UNAVAILABLE,
			"the agent is gone, and what became of %u writes is not known", lost);
	}
	return r;
}

/* What a wait has come to. A status; 0 where the connection is gone, which writer_tell() says.
 * tells: that is called where there is 0, so what is said here is not to be said again. */
static int writer_failed(struct pool *p, int r, const struct deadline *d, bool tells)
{
	struct writer *w = &p->writer;

	if (r == 0)
		return 0;
	if (r == -EINTR)
		return fail(ELASTICD_INTERRUPTED, "a signal came");
	if (r == -ETIMEDOUT && !d->from_last)
		return fail(ELASTICD_DEADLINE_EXCEEDED,
			"%u writes have no answer within the time limit", n_writes(w));
	writer_lose(p);
	if (r == -ETIMEDOUT && tells && w->failed.message)
		return 0;
	if (r == -ETIMEDOUT) {
		w->lost = tells ? 0 : w->lost;
		return fail(ELASTICD_UNAVAILABLE, "the agent does not answer");
	}
	return pool_closing(p) ? fail(ELASTICD_CANCELLED, "the handle was closed") : 0;
}

/* Without the lock. */
static int no_lock(struct pool *p, int r)
{
	pool_leave(p);
	return r == -EINTR ? fail(ELASTICD_INTERRUPTED, "a signal came")
			   : fail(ELASTICD_DEADLINE_EXCEEDED,
				     "other threads wait for writes without an answer");
}

/* --- put */

static bool has_room(const struct writer *w, size_t cost)
{
	return n_writes(w) < WRITES_MOST && w->cost + cost <= WRITER_BYTES;
}

/* Makes room where that is a matter of waiting. A status, or ORDINARY. */
static int writer_ready(struct pool *p, size_t cost, struct deadline *d)
{
	struct writer *w = &p->writer;
	int r = w->conn ? answers_take(w) : 0;

	if (r < 0)
		writer_lose(p);
	r = writer_tell(p);
	if (r)
		return r;
	if (cost > WRITER_BYTES)
		return ORDINARY;
	while (w->conn && !has_room(w, cost)) {
		r = writer_failed(p, writer_await(p, n_writes(w) / 2, d), d, true);
		if (r == 0)
			r = writer_tell(p);
		if (r)
			return r;
	}
	if (!w->conn)
		w->conn = pool_take_idle(p);
	return w->conn ? 0 : ORDINARY;
}

/* All of it, or nothing. 0 or a negative errno. */
static int writer_send(struct writer *w, const struct varlink_buffer *b, struct deadline *d)
{
	int r = conn_send(w->conn, b, d);

	if (r == -EINTR && w->conn->unsent < varlink_buffer_len(b)) {
		d->interruptible = false;
		r = conn_send_rest(w->conn, b, d);
	}
	return r;
}

/* The place of the next one, filled in; NULL without memory. */
static struct write *write_fill(
	struct writer *w, const char *key, const void *value, size_t len, size_t cost)
{
	struct write *s = write_at(w, n_writes(w));
	size_t key_len = strlen(key), room = key_len + 1 + len;

	if (s->room < room) {
		char *grown = realloc(s->data, room);

		if (!grown)
			return NULL;
		s->data = grown;
		s->room = room;
	}
	memcpy(mempcpy(s->data, key, key_len + 1), value, len);
	s->key_len = key_len;
	s->len = len;
	s->cost = cost;
	return s;
}

/* A status, or ORDINARY. */
static int put_locked(struct pool *p, const struct varlink_buffer *b, const char *key,
	const void *value, size_t len, struct deadline *d)
{
	size_t cost = varlink_buffer_len(b) + ANSWER_BYTES + ESCAPED * strlen(key);
	struct writer *w = &p->writer;
	int r = writer_ready(p, cost, d);

	if (r)
		return r;
	if (!write_fill(w, key, value, len, cost))
		return fail_memory();
	r = writer_send(w, b, d);
	if (r == -EINTR)
		return writer_failed(p, r, d, true);
	w->cost += cost;
	n_set(w, n_writes(w) + 1);
	r = writer_failed(p, r, d, true);
	return r ? r : writer_tell(p);
}

int writer_put(struct elasticd *h, struct pool *p, const char *key, const void *value, size_t len,
	int flags)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	struct deadline d = deadline_of(h, WAIT_PROMPT);
	struct args a = ARGS_EMPTY;
	bool halted;
	int r;

	args_put(&a, key, value, len, flags);
	if (args_message(&a, "Put", false, &b) < 0)
		return fail_memory();
	if (!pool_enter_for(p, &b, &halted))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	/* Handed over as well it would be done twice. */
	if (halted) {
		pool_leave(p);
		return ORDINARY;
	}
	r = writer_lock(&p->writer, &d);
	if (r < 0)
		return no_lock(p, r);
	r = put_locked(p, &b, key, value, len, &d);
	writer_leave(p);
	return r;
}

/* --- waiting for them */

/* As long as this call may be; where that has no end, as long as the agent may be silent. */
static struct deadline settle_deadline(const struct elasticd *h, struct wait wait)
{
	bool limited = !wait.prompt && wait.timeout_ms >= 0;
	struct deadline d = deadline_of(h, limited ? wait : WAIT_PROMPT);

	if (!wait.prompt)
		d.interruptible = wait.interruptible;
	d.beside = NULL;
	return d;
}

/* A status. */
static int settle(struct elasticd *h, struct pool *p, struct wait wait, bool tells)
{
	struct deadline d = settle_deadline(h, wait);
	struct writer *w = &p->writer;
	int r;

	if (!pool_enter(p))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	r = writer_lock(w, &d);
	if (r < 0)
		return no_lock(p, r);
	r = writer_failed(p, writer_await(p, 0, &d), &d, tells);
	if (r == 0 && tells)
		r = writer_tell(p);
	writer_leave(p);
	return r;
}

int writer_settle(struct elasticd *h, struct pool *p, struct wait wait)
{
	return settle(h, p, wait, false);
}

int remote_flush(struct elasticd *h, int timeout_ms)
{
	struct pool *p = pool_of(h);

	return p ? settle(h, p, WAIT_STREAM(timeout_ms), true) : fail_memory();
}

/* --- get */

static const struct write *write_find(struct writer *w, const char *key)
{
	size_t len = strlen(key);

	for (unsigned i = n_writes(w); i--;) {
		const struct write *s = write_at(w, i);

		if (s->key_len == len && memcmp(s->data, key, len) == 0)
			return s;
	}
	return NULL;
}

/* What the agent has answered is its to tell, and so is an error of the group, or that this process
 * is none of the group's any more. 1: found; 0; -ENOMEM. */
static int get_own(struct elasticd *h, struct pool *p, const char *key, void **ret, size_t *ret_len)
{
	struct writer *w = &p->writer;
	const struct write *s;
	int r;

	if (w->conn && answers_take(w) < 0)
		writer_lose(p);
	if (!w->conn || atomic_load(&h->header->error) ||
		atomic_load(&h->slot->expected) != h->token)
		return 0;
	s = write_find(w, key);
	if (!s)
		return 0;
	r = value_copy(s->data + s->key_len + 1, s->len, ret, ret_len);
	return r < 0 ? r : 1;
}

int writer_get(struct elasticd *h, struct pool *p, const char *key, int timeout_ms, void **ret,
	size_t *ret_len, bool *ret_found)
{
	const struct wait wait = WAIT_CALL(timeout_ms);
	struct deadline d = settle_deadline(h, wait);
	int r;

	if (!pool_enter(p))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	r = writer_lock(&p->writer, &d);
	if (r < 0)
		return no_lock(p, r);
	r = get_own(h, p, key, ret, ret_len);
	*ret_found = r == 1;
	if (r == 0)
		r = writer_failed(p, writer_await(p, 0, &d), &d, false);
	else
		r = r < 0 ? fail_memory() : 0;
	writer_leave(p);
	return r;
}

void writer_fini(struct pool *p)
{
	struct writer *w = &p->writer;

	for (int i = 0; i < WRITES_MOST; i++)
		free(w->writes[i].data);
	if (w->conn) {
		conn_drop(p, w->conn);
		w->conn = NULL;
	}
	varlink_in_fini(&w->failed);
	sem_destroy(&w->lock);
}
