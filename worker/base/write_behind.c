/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/write_behind.h"
#include "worker/base/answer_json.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/message.h"
#include "worker/base/pool.h"
#include "worker/base/values.h"
#include "worker/base/waiting.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum {
	ANSWER_BYTES = 448,   /* the most that an answer has, beside the key that an error names */
	ESCAPED = 6,	      /* the most that JSON needs for a byte of the key */
	KEPT_BYTES = 1024,    /* a write's memory up to this size is used again */
	LOCK_CHECK_MS = 1000, /* how often a wait for the lock checks its time */
};

void write_behind_init(struct write_behind *w)
{
	sem_init(&w->lock, 0, 1);
	atomic_init(&w->n, 0);
}

/* 0, -EINTR or -ETIMEDOUT. */
static int writes_lock(struct write_behind *w, const struct deadline *d)
{
	while (sem_trywait(&w->lock) < 0) {
		int64_t ms = LOCK_CHECK_MS, left;
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

/* Releases the lock and leaves the pool. The connection goes back once no write needs it. */
static void writes_leave(struct pool *p)
{
	struct write_behind *w = &p->writes;

	if (w->conn && !pool_has_writes(p)) {
		pool_give_idle(p, w->conn);
		w->conn = NULL;
	}
	sem_post(&w->lock);
	pool_leave(p);
}

/* --- answers */

static struct write *write_at(struct write_behind *w, unsigned i)
{
	return &w->writes[(w->first + i) % WRITES_MAX];
}

static unsigned n_writes(const struct write_behind *w)
{
	return atomic_load_explicit(&w->n, memory_order_relaxed);
}

static void n_writes_set(struct write_behind *w, unsigned n)
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

/* The oldest write has its answer. */
static void write_answered(struct write_behind *w)
{
	w->cost -= write_at(w, 0)->cost;
	write_drop(write_at(w, 0));
	w->first = (w->first + 1) % WRITES_MAX;
	n_writes_set(w, n_writes(w) - 1);
}

/* 0, -EBADMSG or -ENOMEM. */
static int write_take_answer(struct write_behind *w, char *text, size_t len)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct error err;
	int r;

	if (!n_writes(w))
		return -EBADMSG;
	r = answer_read(&answer_nothing, text, len);
	if (r < 0)
		return r;
	if (r == 0) {
		r = varlink_in_parse(text, len, &in, &err);
		if (r < 0)
			return r;
	}
	if (in.error && !w->failed.message) {
		w->failed = in;
		in = (struct varlink_in){ .message = NULL };
	}
	write_answered(w);
	return 0;
}

/* Takes the answers that have come by now. 0 or a negative errno. */
static int writes_take_answers(struct write_behind *w)
{
	int r = 1;

	while (r > 0 && n_writes(w)) {
		char *text;
		size_t len;

		r = varlink_frame_next(&w->conn->in, &text, &len);
		if (r == 0)
			r = conn_read(w->conn);
		else if (r > 0)
			r = write_take_answer(w, text, len) < 0 ? -EBADMSG : 1;
	}
	return r < 0 ? r : 0;
}

/* Drops the connection. The agent may have done the writes all the same. */
static void writes_lose(struct pool *p)
{
	struct write_behind *w = &p->writes;

	w->lost += n_writes(w);
	while (n_writes(w))
		write_answered(w);
	conn_drop(p, w->conn);
	w->conn = NULL;
}

/* Waits until at most `most` writes have no answer. 0 or a negative errno. */
static int writes_await(struct pool *p, unsigned most, struct deadline *d)
{
	struct write_behind *w = &p->writes;
	int r = 0;

	while (r == 0 && n_writes(w) > most) {
		char *text;
		size_t len;

		r = conn_receive(w->conn, d, &text, &len);
		if (r == 0)
			r = write_take_answer(w, text, len);
	}
	return r;
}

/* The first error of the writes so far, once. */
static enum elasticd_status writes_report(struct pool *p)
{
	struct write_behind *w = &p->writes;
	unsigned lost = w->lost;
	enum elasticd_status r = ELASTICD_STATUS_OK;

	w->lost = 0;
	if (w->failed.message) {
		r = fail_answer(&w->failed);
		varlink_in_fini(&w->failed);
	} else if (lost && pool_closing(p)) {
		r = fail_closed();
	} else if (lost) {
		r = fail(ELASTICD_STATUS_UNAVAILABLE,
			"the agent is gone; %u writes may or may not have been done", lost);
	}
	return r;
}

/* The status of a wait's negative errno. OK where the connection is gone: writes_report() has
 * that error. reports: the caller calls that next, so no error must be returned twice. */
static enum elasticd_status writes_failed(
	struct pool *p, int r, const struct deadline *d, bool reports)
{
	struct write_behind *w = &p->writes;

	if (r == 0)
		return 0;
	if (r == -EINTR)
		return fail_interrupted();
	if (r == -ETIMEDOUT && !d->from_last)
		return fail(ELASTICD_STATUS_DEADLINE_EXCEEDED,
			"%u writes have no answer within the time limit", n_writes(w));
	writes_lose(p);
	if (r == -ETIMEDOUT && reports && w->failed.message)
		return 0;
	if (r == -ETIMEDOUT) {
		w->lost = reports ? 0 : w->lost;
		return fail(ELASTICD_STATUS_UNAVAILABLE, "the agent does not answer");
	}
	return pool_closing(p) ? fail_closed() : 0;
}

/* The lock was not to be had in time. */
static enum elasticd_status fail_lock(struct pool *p, int r)
{
	pool_leave(p);
	return r == -EINTR ? fail_interrupted()
			   : fail(ELASTICD_STATUS_DEADLINE_EXCEEDED,
				     "other threads wait for answers to their writes");
}

/* --- put */

static bool writes_have_room(const struct write_behind *w, size_t cost)
{
	return n_writes(w) < WRITES_MAX && w->cost + cost <= WRITES_BYTES_MAX;
}

/* Waits until there is room for another write, and a connection. */
static enum elasticd_status writes_make_room(
	struct pool *p, size_t cost, struct deadline *d, bool *ret_ordinary)
{
	struct write_behind *w = &p->writes;
	enum elasticd_status r;

	if (w->conn && writes_take_answers(w) < 0)
		writes_lose(p);
	r = writes_report(p);
	while (!r && cost <= WRITES_BYTES_MAX && w->conn && !writes_have_room(w, cost)) {
		r = writes_failed(p, writes_await(p, n_writes(w) / 2, d), d, true);
		if (!r)
			r = writes_report(p);
	}
	if (r)
		return r;
	if (cost <= WRITES_BYTES_MAX && !w->conn)
		w->conn = pool_take_idle(p);
	*ret_ordinary = cost > WRITES_BYTES_MAX || !w->conn;
	return ELASTICD_STATUS_OK;
}

/* Sends all of it, or nothing. 0 or a negative errno. */
static int write_send(struct write_behind *w, const struct varlink_buffer *b, struct deadline *d)
{
	int r = conn_send(w->conn, b, d);

	if (r == -EINTR && w->conn->unsent < varlink_buffer_len(b)) {
		d->interruptible = false;
		r = conn_send_rest(w->conn, b, d);
	}
	return r;
}

/* Fills in the next write; NULL without memory. */
static struct write *write_fill(
	struct write_behind *w, const char *key, const void *value, size_t len, size_t cost)
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

static enum elasticd_status write_put_locked(struct pool *p, const struct varlink_buffer *b,
	const char *key, const void *value, size_t len, struct deadline *d, bool *ret_ordinary)
{
	size_t cost = varlink_buffer_len(b) + ANSWER_BYTES + ESCAPED * strlen(key);
	struct write_behind *w = &p->writes;
	enum elasticd_status status = writes_make_room(p, cost, d, ret_ordinary);
	int r;

	if (status || *ret_ordinary)
		return status;
	if (!write_fill(w, key, value, len, cost))
		return fail_memory();
	r = write_send(w, b, d);
	if (r == -EINTR)
		return writes_failed(p, r, d, true);
	w->cost += cost;
	n_writes_set(w, n_writes(w) + 1);
	status = writes_failed(p, r, d, true);
	return status ? status : writes_report(p);
}

enum elasticd_status write_behind_put(struct elasticd *h, struct pool *p, const char *key,
	const void *value, size_t len, int flags, bool *ret_ordinary)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	struct deadline d = deadline_begin(h, WAIT_PROMPT);
	struct params a = PARAMS_EMPTY;
	enum elasticd_status status;
	int r;

	params_put(&a, key, value, len, flags);
	if (params_message(&a, "Put", false, &b) < 0)
		return fail_memory();
	if (!pool_enter_for(p, &b, ret_ordinary))
		return fail_closed();
	/* An ordinary put that a signal has ended goes on; a second write would do it twice. */
	if (*ret_ordinary) {
		pool_leave(p);
		return ELASTICD_STATUS_OK;
	}
	r = writes_lock(&p->writes, &d);
	if (r < 0)
		return fail_lock(p, r);
	status = write_put_locked(p, &b, key, value, len, &d, ret_ordinary);
	writes_leave(p);
	return status;
}

/* --- waiting for the answers */

/* The limit of the call that waits for them; without one, the agent may be silent for so long as
 * for any call. */
static struct deadline writes_deadline(const struct elasticd *h, struct wait wait)
{
	bool limited = !wait.prompt && wait.timeout_ms >= 0;
	struct deadline d = deadline_begin(h, limited ? wait : WAIT_PROMPT);

	if (!wait.prompt)
		d.interruptible = wait.interruptible;
	d.beside = NULL;
	return d;
}

static enum elasticd_status writes_settle(
	struct elasticd *h, struct pool *p, struct wait wait, bool reports)
{
	struct deadline d = writes_deadline(h, wait);
	enum elasticd_status status;
	int r;

	if (!pool_enter(p))
		return fail_closed();
	r = writes_lock(&p->writes, &d);
	if (r < 0)
		return fail_lock(p, r);
	status = writes_failed(p, writes_await(p, 0, &d), &d, reports);
	if (!status && reports)
		status = writes_report(p);
	writes_leave(p);
	return status;
}

enum elasticd_status write_behind_settle(struct elasticd *h, struct pool *p, struct wait wait)
{
	return pool_has_writes(p) ? writes_settle(h, p, wait, false) : ELASTICD_STATUS_OK;
}

enum elasticd_status write_behind_flush(struct elasticd *h, int timeout_ms)
{
	struct pool *p = pool_of(h);

	return p ? writes_settle(h, p, WAIT_STREAM(timeout_ms), true) : fail_memory();
}

/* --- get */

static const struct write *write_find(struct write_behind *w, const char *key)
{
	size_t len = strlen(key);

	for (unsigned i = n_writes(w); i--;) {
		const struct write *s = write_at(w, i);

		if (s->key_len == len && memcmp(s->data, key, len) == 0)
			return s;
	}
	return NULL;
}

/* Finds a value here while its write has no answer. The agent has to say where the group has an
 * error, or this process is no longer its worker's. 1: found; 0: not; -ENOMEM. */
static int write_get(
	struct elasticd *h, struct pool *p, const char *key, void **ret, size_t *ret_len)
{
	struct write_behind *w = &p->writes;
	const struct write *s;
	int r;

	if (w->conn && writes_take_answers(w) < 0)
		writes_lose(p);
	if (!w->conn || atomic_load(&h->header->error) ||
		atomic_load(&h->slot->expected) != h->token)
		return 0;
	s = write_find(w, key);
	if (!s)
		return 0;
	r = value_copy(s->data + s->key_len + 1, s->len, ret, ret_len);
	return r < 0 ? r : 1;
}

enum elasticd_status write_behind_get(struct elasticd *h, struct pool *p, const char *key,
	int timeout_ms, void **ret, size_t *ret_len, bool *ret_found)
{
	const struct wait wait = WAIT_CALL(timeout_ms);
	struct deadline d = writes_deadline(h, wait);
	enum elasticd_status status = ELASTICD_STATUS_OK;
	int r;

	if (!pool_enter(p))
		return fail_closed();
	r = writes_lock(&p->writes, &d);
	if (r < 0)
		return fail_lock(p, r);
	r = write_get(h, p, key, ret, ret_len);
	*ret_found = r == 1;
	if (r == 0)
		status = writes_failed(p, writes_await(p, 0, &d), &d, false);
	else if (r < 0)
		status = fail_memory();
	writes_leave(p);
	return status;
}

void write_behind_fini(struct pool *p)
{
	struct write_behind *w = &p->writes;

	for (int i = 0; i < WRITES_MAX; i++)
		free(w->writes[i].data);
	if (w->conn) {
		conn_drop(p, w->conn);
		w->conn = NULL;
	}
	varlink_in_fini(&w->failed);
	sem_destroy(&w->lock);
}
