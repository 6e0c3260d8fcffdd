// SPDX-License-Identifier: Apache-2.0
/*
 * Calls: each member of a call is a chore of its worker. A call waits before it begins: a call to
 * all until the first worker has come, and in a pool until the pool is whole.
 */
#include "agent/queue/machine/private.h"

void queue_call_unref(struct queue_call *c)
{
	if (!c || --c->refs)
		return;
	for (size_t i = 0; i < c->n; i++) {
		free(c->members[i].value);
		queue_err_unref(c->members[i].error);
	}
	free(c->members);
	free(c->payload);
	free(c);
}

static void member_detach(struct queue_member *m)
{
	link_del(&m->link);
	if (m->lease)
		m->lease->member = NULL;
	m->lease = NULL;
}

void queue_member_answer(
	struct queues *q, struct queue_member *m, struct queue_blob *value, struct queue_err *error)
{
	struct queue_call *c = m->call;

	m->answered = true;
	m->value = value;
	m->error = error;
	member_detach(m);
	if (!--c->left && c->wait && !c->wait->is_over)
		queue_wait_end(q, c->wait, NULL);
}

void queue_call_fini(struct queues *q, struct queue_wait *w, uint64_t now_ms)
{
	struct queue_call *c = w->more;
	struct queue_err *err = NULL;

	if (!c)
		return;
	c->wait = NULL;
	for (size_t i = 0; i < c->n; i++) {
		struct queue_member *m = &c->members[i];
		struct queue_lease *l = m->lease;
		struct queue_worker *k = queue_worker_find(q, m->worker);

		if (m->answered)
			continue;
		member_detach(m);
		if (l && !err)
			err = queue_err_printf(
				STATUS_CANCELLED, -1, -1, "its caller no longer waits");
		if (l)
			queue_lease_cancel(q, l, QUEUE_CANCELLED, queue_err_ref(err), now_ms);
		if (k)
			queue_worker_feed(q, k, now_ms);
	}
	queue_err_unref(err);
	queue_call_unref(c);
	w->answers = NULL;
}

static void pool_note_broken(struct queues *q, int worker, const char *why)
{
	char buf[32];
	const char *name = queue_worker_text(q, worker, buf, sizeof(buf));

	queue_err_unref(q->broken);
	q->broken = queue_err_printf(
		STATUS_UNAVAILABLE, worker, -1, "the pool is broken: %s %s", name, why);
	queue_event_add(q, QUEUE_ORDER_EVENT, "pool-broken", worker, "%s", q->broken->message);
}

void queue_pool_break(struct queues *q, int worker, const char *why)
{
	if (!q->opt.pool || !q->whole)
		return;
	q->whole = false;
	pool_note_broken(q, worker, why);
}

void queue_pool_late(struct queues *q, struct queue_lease *l, const char *why)
{
	if (!q->opt.pool)
		return;
	l->late = true;
	if (!q->n_late++ && q->whole)
		pool_note_broken(q, l->worker->number, why);
}

void queue_pool_mend(struct queues *q, uint64_t now_ms)
{
	if (!q->whole || q->n_late)
		return;
	queue_err_unref(q->broken);
	q->broken = NULL;
	queue_calls_begin(q, now_ms);
}

static bool worker_serves(const struct queue_worker *k)
{
	return k && k->alive && (k->asked || k->serves);
}

static int members_new(struct queues *q, struct queue_call *c, const int *workers, size_t n)
{
	size_t max = n ? n : q->n_workers;

	c->members = calloc(max ? max : 1, sizeof(*c->members));
	if (!c->members)
		return -ENOMEM;
	for (size_t i = 0; i < max; i++) {
		int worker = n ? workers[i] : (int)i;
		size_t at = c->n;

		if (!n && !worker_serves(q->workers[i]))
			continue;
		while (at && c->members[at - 1].worker > worker)
			at--;
		if (at && c->members[at - 1].worker == worker)
			continue;
		memmove(c->members + at + 1, c->members + at, (c->n - at) * sizeof(*c->members));
		c->members[at] = (struct queue_member){ .call = c, .worker = worker };
		c->n++;
	}
	c->left = c->n;
	return 0;
}

static void member_not_there(struct queues *q, struct queue_member *m)
{
	char buf[32];

	queue_member_answer(q, m, NULL,
		queue_err_printf(STATUS_UNAVAILABLE, m->worker, -1, "%s does not run",
			queue_worker_text(q, m->worker, buf, sizeof(buf))));
}

static void call_begin(struct queues *q, struct queue_call *c, uint64_t now_ms)
{
	c->parked = false;
	for (size_t i = 0; i < c->n; i++) {
		struct queue_member *m = &c->members[i];
		struct queue_worker *k = queue_worker_find(q, m->worker);

		if (!k || !k->alive) {
			member_not_there(q, m);
			continue;
		}
		link_add(&k->calls, &m->link);
		queue_worker_feed(q, k, now_ms);
	}
}

void queue_calls_begin(struct queues *q, uint64_t now_ms)
{
	struct queue_link *l, *tmp;

	LINK_FOREACH(l, tmp, &q->calls)
	{
		struct queue_wait *w = container_of(l, struct queue_wait, link);
		struct queue_call *c = w->more;

		if (!c->parked || (q->opt.pool && !q->whole))
			continue;
		if (!c->n) {
			free(c->members);
			c->members = NULL;
			if (members_new(q, c, NULL, 0) < 0) {
				queue_wait_end_text(q, w, STATUS_RESOURCE_EXHAUSTED, "no memory");
				continue;
			}
		}
		if (c->n)
			call_begin(q, c, now_ms);
	}
}

static struct queue_call *call_new(struct queues *q, struct queue_wait *w, const int *workers,
	size_t n, const struct queue_bytes *payload, uint64_t answer_ms)
{
	struct queue_call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->refs = 1;
	c->wait = w;
	c->parked = true;
	c->answer_ms = answer_ms;
	c->payload = queue_blob_new(payload);
	if (!c->payload || (n && members_new(q, c, workers, n) < 0)) {
		queue_call_unref(c);
		return NULL;
	}
	return c;
}

void queue_call(struct queues *q, struct queue_wait *w, const int *workers, size_t n,
	const struct queue_bytes *payload, uint64_t deadline_ms, uint64_t answer_ms,
	uint64_t now_ms)
{
	struct queue_call *c;

	if (!queue_wait_begin(q, w, QUEUE_WAIT_CALL))
		return;
	if (!queue_bytes_ok(payload)) {
		queue_wait_end_text(q, w, STATUS_INVALID_ARGUMENT,
			"payload: expected at most 1048576 bytes and a format of at most 31");
		return;
	}
	if (q->broken) {
		queue_wait_end(q, w, queue_err_ref(q->broken));
		return;
	}
	c = q->n_calls < QUEUE_CALLS_MAX ? call_new(q, w, workers, n, payload, answer_ms) : NULL;
	if (!c) {
		queue_wait_end_text(
			q, w, STATUS_RESOURCE_EXHAUSTED, "no memory, or too many calls");
		return;
	}
	w->more = w->answers = c;
	w->of = c;
	q->n_calls++;
	link_add(&q->calls, &w->link);
	queue_calls_begin(q, now_ms);
	queue_wait_park(q, w, deadline_ms, now_ms);
	queue_settle(q, now_ms);
}

bool queue_answer(const struct queue_call *c, size_t i, struct queue_answer *ret)
{
	const struct queue_member *m;

	if (!c || i >= c->n)
		return false;
	m = &c->members[i];
	*ret = (struct queue_answer){ .worker = m->worker,
		.ok = m->answered && !m->error,
		.value = queue_blob_bytes(m->value),
		.error = queue_err_view(m->error) };
	return true;
}
