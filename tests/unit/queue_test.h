/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A machine of agent/queue/machine/queue.h for readable tests. Each call has a wait of its own,
 * which ends with the teardown; orders of the machine are kept as text, in their order.
 */

#include "agent/queue/machine/queue.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLERS = 64, ORDERS = 64 };
#define EVER UINT64_MAX

struct caller {
	struct queue_wait w;
	bool used, over;
};

static struct queues *q;
static struct queue_options opt;
static uint64_t now;
static struct caller callers[CALLERS];
static int n_callers;
static char orders[ORDERS][640];
static int n_orders;
static char holders[8]; /* connections: the first one of worker i is the i-th */
static struct queue_item_view item;

/* Makes a machine with the options in opt. */
static inline void begin(void)
{
	n_callers = n_orders = 0;
	memset(callers, 0, sizeof(callers));
	ck_assert_int_eq(queues_new(&opt, &q), 0);
}

static inline void setup(void)
{
	opt = (struct queue_options){ .first_task = 1,
		.slots = 1,
		.cancel_grace_ms = 1000,
		.recovery_timeout_ms = -1,
		.blame_window_ms = -1,
		.stall_ms = -1 };
	now = 1000;
	begin();
}

static inline void teardown(void)
{
	for (int i = 0; i < n_callers; i++)
		if (callers[i].used)
			queue_wait_fini(q, &callers[i].w, now);
	q = queues_free(q);
}

/* Another machine, with the options in opt. */
static inline void again(void)
{
	teardown();
	begin();
}

/* Takes all orders of the machine: keeps them as "what event text". */
static inline void drain(void)
{
	static const char *const names[] = {
		[QUEUE_ORDER_CANCEL] = "cancel",
		[QUEUE_ORDER_KILL] = "kill",
		[QUEUE_ORDER_EVENT] = "event",
		[QUEUE_ORDER_STALL] = "stall",
		[QUEUE_ORDER_RECORD_LOST] = "rewrite",
		[QUEUE_ORDER_STALE] = "stale",
	};
	struct queue_order d;
	struct queue_wait *w;

	while (queue_next_order(q, &d)) {
		if (d.what == QUEUE_ORDER_RECORD || n_orders == ORDERS)
			continue;
		snprintf(orders[n_orders++], sizeof(orders[0]), "%s %d %s%s%s", names[d.what],
			d.worker, d.event, d.event[0] ? ": " : "", d.text);
	}
	while ((w = queue_over(q)))
		((struct caller *)w->arg)->over = true;
}

/* Checks that the machine has ordered this since the last check. */
static inline void ordered(const char *text)
{
	drain();
	for (int i = 0; i < n_orders; i++)
		if (strcmp(orders[i], text) == 0) {
			n_orders = 0;
			return;
		}
	for (int i = 0; i < n_orders; i++)
		fprintf(stderr, "ordered: %s\n", orders[i]);
	ck_abort_msg("not ordered: %s", text);
}

static inline void ordered_nothing(void)
{
	drain();
	if (n_orders)
		ck_abort_msg("ordered: %s", orders[0]);
}

static inline struct caller *new_caller(void)
{
	struct caller *a = &callers[n_callers++];

	ck_assert_int_le(n_callers, CALLERS);
	a->used = true;
	a->w.arg = a;
	return a;
}

static inline struct caller *begun(struct caller *a)
{
	drain();
	return a;
}

static inline void gone_away(struct caller *a)
{
	queue_wait_fini(q, &a->w, now);
	a->used = false;
	drain();
}

static inline void waits(const struct caller *a)
{
	ck_assert(!a->over);
}

static inline void ends(struct caller *a, enum status s, const char *text)
{
	drain();
	ck_assert(a->over);
	ck_assert_str_eq(a->w.text, text);
	ck_assert_int_eq(a->w.status, s);
}

static inline void is_ok(struct caller *a)
{
	ends(a, STATUS_OK, "");
}

/* --- coordinators */

#define BYTES(text) ((struct queue_bytes){ text, strlen(text), "" })

static inline struct caller *submit_to(const char *queue, const struct queue_new *n, uint64_t until)
{
	struct caller *a = new_caller();

	queue_submit(q, &a->w, queue, n, 1, false, until, now);
	return begun(a);
}

static const struct queue_new plain = { { "x", 1, "" }, NULL, 0, -1, false };

/* Submits one task, which is accepted; returns its number. */
static inline int64_t submit_as(const char *queue, const struct queue_new *n)
{
	struct caller *a = submit_to(queue, n, now);

	is_ok(a);
	ck_assert_uint_eq(a->w.accepted, 1);
	return a->w.first;
}

static inline int64_t submit(void)
{
	return submit_as("", &plain);
}

static inline int64_t submit_needing(const char *resource)
{
	struct queue_new n = plain;

	n.needs = &resource;
	n.n_needs = 1;
	return submit_as("", &n);
}

static inline struct caller *join_of(const char *queue, uint64_t until)
{
	struct caller *a = new_caller();

	queue_join(q, &a->w, queue, until, now);
	return begun(a);
}

static inline struct caller *join(void)
{
	return join_of("", EVER);
}

static inline struct caller *done_of(const char *queue)
{
	struct caller *a = new_caller();

	queue_done(q, &a->w, queue, EVER, now);
	return begun(a);
}

static inline struct caller *fetch(int64_t task)
{
	struct caller *a = new_caller();

	queue_fetch(q, &a->w, &task, 1, false, EVER, now);
	return begun(a);
}

static inline struct caller *cancel(int64_t task, uint64_t until)
{
	struct caller *a = new_caller();

	queue_cancel(q, &a->w, "", &task, 1, "enough", until, now);
	return begun(a);
}

static inline struct caller *cancel_all(const char *queue)
{
	struct caller *a = new_caller();

	queue_cancel(q, &a->w, queue, NULL, 0, NULL, EVER, now);
	return begun(a);
}

static inline void release(int64_t task, size_t n)
{
	ck_assert_uint_eq(queue_release(q, &task, 1, now), n);
	drain();
}

/* "queued", or "failed: its error" */
static inline void is(int64_t task, const char *what)
{
	static const char *const names[] = {
#define X(name, text) text,
		QUEUE_STATES(X)
#undef X
	};
	struct queue_outcome o;
	char text[640];

	ck_assert(queue_outcome(q, task, &o));
	snprintf(text, sizeof(text), "%s%s%s", names[o.state], *o.error.message ? ": " : "",
		o.error.message);
	ck_assert_str_eq(text, what);
}

/* --- workers */

static inline void starts(int worker)
{
	ck_assert_int_eq(queue_worker_started(q, worker, 0, NULL, true, now), 0);
	drain();
}

static inline struct caller *work_until(int worker, uint64_t until)
{
	struct caller *a = new_caller();

	queue_work(q, &a->w, worker, &holders[worker], until, now);
	return begun(a);
}

/* The worker asks for work and waits. */
static inline struct caller *work(int worker)
{
	return work_until(worker, EVER);
}

/* The lease that a worker got; see `item`. */
static inline int64_t given(struct caller *a)
{
	drain();
	ck_assert(a->over);
	ck_assert_int_eq(a->w.status, STATUS_OK);
	ck_assert_ptr_nonnull(a->w.lease);
	queue_item(a->w.lease, &item);
	return item.lease;
}

/* The worker gets that task at once; returns the lease. */
static inline int64_t takes(int worker, int64_t task)
{
	int64_t lease = given(work(worker));

	ck_assert_int_eq(item.kind, QUEUE_ITEM_TASK);
	ck_assert_int_eq(item.task, task);
	return lease;
}

/* Submits a task, which the worker takes. */
static inline int64_t runs(int worker)
{
	return takes(worker, submit());
}

static inline int64_t takes_chore(int worker, enum queue_item kind)
{
	int64_t lease = given(work(worker));

	ck_assert_int_eq(item.kind, kind);
	ck_assert_int_eq(item.task, -1);
	return lease;
}

static inline void finish(int worker, int64_t lease)
{
	struct queue_bytes v = BYTES("value");

	ck_assert_int_eq(queue_finish(q, &holders[worker], lease, &v, now), STATUS_OK);
	drain();
}

static inline enum status finish_late(int worker, int64_t lease)
{
	struct queue_bytes v = BYTES("late");
	enum status s = queue_finish(q, &holders[worker], lease, &v, now);

	drain();
	return s;
}

static inline void fails_as(
	int worker, int64_t lease, const char *why, bool again, const char *blame)
{
	struct queue_failure f = { STATUS_INTERNAL, why, "", again, blame };

	ck_assert_int_eq(queue_fail(q, &holders[worker], lease, &f, now), STATUS_OK);
	drain();
}

static inline void fails(int worker, int64_t lease, const char *why)
{
	fails_as(worker, lease, why, false, NULL);
}

static inline void dies(int worker, const char *why)
{
	queue_worker_gone(q, worker, why, false, true, now);
	drain();
}

static inline void passes(uint64_t ms)
{
	now += ms;
	queue_expire(q, now);
	drain();
	ck_assert_uint_gt(queue_due_ms(q), now);
}

/* --- what is written down */

static struct queues *written; /* restored from the records so far */

/* Restores the records into `written`. It ignores QUEUE_ORDER_STALE, as an agent that dies before
 * the rewrite. */
static inline void writes_down(void)
{
	struct queue_order d;

	if (!written)
		ck_assert_int_eq(queues_new(&opt, &written), 0);
	while (queue_next_order(q, &d))
		if (d.what == QUEUE_ORDER_RECORD)
			ck_assert_int_eq(queue_restore(written, &d.record), 0);
}

/* Continues with the machine that the records restore; rewritten: after a rewrite of the journal.
 */
static inline void crashes(bool rewritten)
{
	struct queue_record r;
	uint64_t cursor = 0;

	writes_down();
	if (rewritten) {
		queues_free(written);
		ck_assert_int_eq(queues_new(&opt, &written), 0);
	}
	while (rewritten && queue_dump(q, &cursor, &r))
		ck_assert_int_eq(queue_restore(written, &r), 0);
	teardown();
	n_callers = n_orders = 0;
	memset(callers, 0, sizeof(callers));
	q = written;
	written = NULL;
}

/* The records stay. */
static inline int64_t submit_quietly(const char *queue)
{
	struct queue_wait s = { 0 };

	queue_submit(q, &s, queue, &plain, 1, false, EVER, now);
	ck_assert(s.is_over);
	ck_assert_int_eq(s.status, STATUS_OK);
	queue_wait_fini(q, &s, now);
	return s.first;
}
