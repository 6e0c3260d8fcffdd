// SPDX-License-Identifier: Apache-2.0
/*
 * Submits wait for room in one line, so that none overtakes another that is partly accepted. A
 * submit held up by a join or an error waits with its queue, and joins the line afterwards.
 */
#include "agent/queue/machine/private.h"

enum limit { ROOM, MAX, RESULTS, BYTES };

static enum limit limit_reached(const struct queues *q, const struct queue_new *n)
{
	size_t over = q->n[QUEUE_SUCCEEDED] + q->n[QUEUE_FAILED] + q->n[QUEUE_CANCELLED];

	if (q->opt.results && over >= q->opt.results)
		return RESULTS;
	if (q->opt.bytes &&
		(n->payload.len > q->opt.bytes || q->bytes > q->opt.bytes - n->payload.len))
		return BYTES;
	if (q->opt.max && q->n[QUEUE_QUEUED] >= q->opt.max)
		return MAX;
	return ROOM;
}

static struct queue_err *full_err(const struct queues *q, enum limit l, size_t bytes)
{
	if (l == MAX)
		return queue_err_printf(STATUS_RESOURCE_EXHAUSTED, -1, -1,
			"the queue is full: %zu tasks wait (queue.max)", q->n[QUEUE_QUEUED]);
	if (l == RESULTS)
		return queue_err_printf(STATUS_RESOURCE_EXHAUSTED, -1, -1,
			"%zu results are not released: the limit is %zu (queue.results)",
			q->n[QUEUE_SUCCEEDED] + q->n[QUEUE_FAILED] + q->n[QUEUE_CANCELLED],
			q->opt.results);
	if (bytes > q->opt.bytes)
		return queue_err_printf(STATUS_RESOURCE_EXHAUSTED, -1, -1,
			"a payload of %zu bytes is too large: the limit for all is %zu bytes "
			"(queue.memory)",
			bytes, q->opt.bytes);
	return queue_err_printf(STATUS_RESOURCE_EXHAUSTED, -1, -1,
		"there is no room for a payload of %zu bytes: payloads and results that are not "
		"released have %zu bytes, and the limit is %zu (queue.memory)",
		bytes, q->bytes, q->opt.bytes);
}

static struct queue_err *no_memory_err(void)
{
	return queue_err_printf(STATUS_RESOURCE_EXHAUSTED, -1, -1, "no memory");
}

/* Accepts one task, or returns why not. */
static struct queue_err *submit_accept(
	struct queues *q, struct queue_wait *w, const struct queue_new *n, uint64_t now_ms)
{
	struct queue_set *set;
	struct queue_lane *lane;
	struct queue_task *t;
	const char *which = "";
	enum status s = queue_set_find(q, n->needs, n->n_needs, &set, &which);

	if (s == STATUS_NOT_FOUND)
		return queue_err_printf(s, -1, -1, "there is no resource %s", which);
	if (s != STATUS_OK || q->next_task > QUEUE_TASK_MAX)
		return no_memory_err();
	lane = queue_lane_get(q, w->of, set);
	if (!lane) {
		queue_set_drop(q, set);
		return no_memory_err();
	}
	t = queue_task_new(q, lane, q->next_task, n);
	if (!t) {
		if (!lane->n && set->mask)
			queue_lane_put(q, lane);
		return no_memory_err();
	}
	if (!w->accepted)
		w->first = q->next_task;
	q->next_task++;
	w->accepted++;
	q->hopeless_due |= set->hopeless;
	queue_note(q, QUEUE_REC_SUBMIT, (int64_t)t->id, NULL);
	queue_task_enqueue(q, t, now_ms);
	return NULL;
}

/* Accepts as many tasks as there is room for. False: the submit must wait. */
static bool submit_go_on(struct queues *q, struct queue_wait *w, uint64_t now_ms)
{
	const struct queue_new *tasks = w->more;
	struct queue_err *err = NULL;

	while (!err && w->accepted < w->n) {
		const struct queue_new *n = &tasks[w->accepted];
		enum limit l = limit_reached(q, n);

		if (l == ROOM) {
			err = submit_accept(q, w, n, now_ms);
			continue;
		}
		/* Only a release makes room for results and bytes, and there may never be one. */
		if (l == MAX ||
			(queue_live(q->n) && !(l == BYTES && n->payload.len > q->opt.bytes)))
			return false;
		err = full_err(q, l, n->payload.len);
	}
	queue_wait_end(q, w, err);
	return true;
}

void queue_submits_go_on(struct queues *q, uint64_t now_ms)
{
	struct queue_wait *w;

	while ((w = LINK_FIRST(&q->room, struct queue_wait, over)))
		if (!submit_go_on(q, w, now_ms))
			break;
}

void queue_submit_late(struct queues *q, struct queue_wait *w)
{
	/* The first in the line is the submit that lacks room. */
	const struct queue_wait *first = LINK_FIRST(&q->room, struct queue_wait, over);
	const struct queue *of = w->of;
	const struct queue_new *n;
	struct queue_err *err;

	if (of->error) {
		err = queue_err_printf(STATUS_RESOURCE_EXHAUSTED, -1, -1,
			"the queue has failed and its tasks are being cancelled: %s",
			of->error->message);
	} else if (!link_in(&w->over)) {
		err = queue_err_printf(
			STATUS_RESOURCE_EXHAUSTED, -1, -1, "the queue is being joined");
	} else {
		n = (const struct queue_new *)first->more + first->accepted;
		err = full_err(q, limit_reached(q, n), n->payload.len);
	}
	queue_wait_end(q, w, err);
}

void queue_submit_exempt(struct queues *q, struct queue_wait *w)
{
	const struct queue *of = w->of;

	queue_wait_end(q, w,
		queue_err_printf(
			STATUS_CANCELLED, -1, -1, "the queue has failed: %s", of->error->message));
}

static struct queue_err *invalid_err(const char *queue, const struct queue_new *tasks, size_t n)
{
	if (!queue_name_ok(queue, true))
		return queue_err_printf(STATUS_INVALID_ARGUMENT, -1, -1,
			"queue: expected at most %d of the characters A-Z a-z 0-9 _ . -",
			QUEUE_NAME_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct queue_new *t = &tasks[i];

		if (!queue_bytes_ok(&t->payload))
			return queue_err_printf(STATUS_INVALID_ARGUMENT, -1, -1,
				"payload: expected at most %d bytes and a format of at most %d, "
				"got %zu bytes",
				QUEUE_VALUE_MAX, QUEUE_FORMAT_MAX, t->payload.len);
		if (t->n_needs > QUEUE_NEEDS_MAX)
			return queue_err_printf(STATUS_INVALID_ARGUMENT, -1, -1,
				"resources: expected at most %d, got %zu", QUEUE_NEEDS_MAX,
				t->n_needs);
	}
	return NULL;
}

static struct queue_err *unknown_err(
	const struct queues *q, const struct queue_new *tasks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < tasks[i].n_needs; j++)
			if (!queue_resource_find(q, tasks[i].needs[j]))
				return queue_err_printf(STATUS_NOT_FOUND, -1, -1,
					"there is no resource %s", tasks[i].needs[j]);
	return NULL;
}

/* The loss of all queues, now or earlier, that this client has not got yet: ends the wait. */
static bool wait_report_loss(struct queues *q, struct queue_wait *w, const char *queue)
{
	struct queue *of = queue_find(q, queue);
	struct queue_err *e = q->failed ? q->failed : of && w->outside ? of->loss : NULL;

	if (e) {
		queue_wait_raise(q, w, e);
		if (e != q->failed)
			w->exit_code = of->loss_exit_code;
	}
	if (w->outside)
		queue_loss_told(q, of);
	return e;
}

/* Ends a submit that can never be accepted. */
static bool submit_refused(struct queues *q, struct queue_wait *w, const char *queue,
	const struct queue_new *tasks, size_t n)
{
	struct queue_err *e;

	if (wait_report_loss(q, w, queue))
		return true;
	if (q->closed) {
		queue_wait_end_text(q, w, STATUS_FAILED_PRECONDITION, "the queues are closed");
		return true;
	}
	e = invalid_err(queue, tasks, n);
	if (!e)
		e = unknown_err(q, tasks, n);
	if (e)
		queue_wait_end(q, w, e);
	return e != NULL;
}

/* Puts a submit or join into its queue's list. */
static struct queue *wait_in(struct queues *q, struct queue_wait *w, const char *queue)
{
	enum status s;
	struct queue *of = queue_get(q, queue, &s);

	if (!of) {
		queue_wait_end_text(q, w, s, "no memory, or too many queues");
		return NULL;
	}
	link_add(&of->waits, &w->link);
	of->outside |= w->outside;
	w->of = of;
	return of;
}

static bool is_held_up(const struct queue *of, const struct queue_wait *w)
{
	return of->error || (of->n_joins && !w->exempt);
}

void queue_submit(struct queues *q, struct queue_wait *w, const char *queue,
	const struct queue_new *tasks, size_t n, bool exempt, uint64_t deadline_ms, uint64_t now_ms)
{
	struct queue *of;

	if (!queue_wait_begin(q, w, QUEUE_WAIT_SUBMIT) || submit_refused(q, w, queue, tasks, n)) {
		queue_settle(q, now_ms);
		return;
	}
	of = wait_in(q, w, queue);
	if (!of)
		return;
	w->more = (void *)(uintptr_t)tasks;
	w->n = n;
	w->exempt = exempt;
	of->n_waiting++;
	q->n_waiting++;
	queue_changed(q, of);
	if (!is_held_up(of, w))
		link_add(&q->room, &w->over);
	else if (of->error && exempt && of->n[QUEUE_RUNNING])
		queue_submit_exempt(q, w);
	queue_settle(q, now_ms);
	queue_wait_park(q, w, deadline_ms, now_ms);
	queue_settle(q, now_ms);
}

/* --- joins */

static void join_begin(struct queues *q, struct queue_wait *w, const char *queue, bool done,
	uint64_t deadline_ms, uint64_t now_ms)
{
	struct queue *of;

	if (!queue_wait_begin(q, w, QUEUE_WAIT_JOIN))
		return;
	if (wait_report_loss(q, w, queue)) {
		queue_settle(q, now_ms);
		return;
	}
	of = queue_find(q, queue);
	if (of)
		of->outside |= w->outside;
	if (!of || (!of->error && !queue_live(of->n))) {
		queue_wait_end(q, w, NULL);
		return;
	}
	if (done && !of->error) {
		queue_wait_expire(q, w);
		return;
	}
	wait_in(q, w, queue);
	of->n_joins++;
	queue_changed(q, of);
	queue_settle(q, now_ms);
	queue_wait_park(q, w, deadline_ms, now_ms);
	queue_settle(q, now_ms);
}

void queue_join(struct queues *q, struct queue_wait *w, const char *queue, uint64_t deadline_ms,
	uint64_t now_ms)
{
	join_begin(q, w, queue, false, deadline_ms, now_ms);
}

void queue_done(struct queues *q, struct queue_wait *w, const char *queue, uint64_t deadline_ms,
	uint64_t now_ms)
{
	join_begin(q, w, queue, true, deadline_ms, now_ms);
}

void queue_wait_raise(struct queues *q, struct queue_wait *w, struct queue_err *e)
{
	w->failed_queue = true;
	w->error = queue_err_view(e);
	w->exit_code = e == q->failed ? q->exit_code : -1;
	if (w->kind == QUEUE_WAIT_SUBMIT && w->accepted) {
		/* The submit fails, so its caller never gets their numbers. */
		for (size_t i = 0; i < w->accepted; i++)
			queue_task_release(q, w->first + (int64_t)i);
		w->forgotten = w->accepted;
		w->accepted = 0;
	}
	queue_wait_end(q, w, queue_err_ref(e));
}

static void raise_all(struct queues *q, struct queue *of, struct queue_err *e)
{
	struct queue_link *l, *tmp;

	LINK_FOREACH(l, tmp, &of->waits)
	{
		queue_wait_raise(q, container_of(l, struct queue_wait, link), e);
	}
}

void queue_waits_go_on(struct queues *q, struct queue *of)
{
	struct queue_link *l, *tmp;

	if (of->error && !queue_live(of->n) && !link_empty(&of->waits)) {
		struct queue_err *e = of->error;

		of->error = NULL;
		queue_note(q, QUEUE_REC_RAISED, -1, of->name);
		raise_all(q, of, e);
		queue_err_unref(e);
	}
	if (!of->error && !queue_live(of->n)) {
		LINK_FOREACH(l, tmp, &of->waits)
		{
			struct queue_wait *w = container_of(l, struct queue_wait, link);

			if (w->kind == QUEUE_WAIT_JOIN)
				queue_wait_end(q, w, NULL);
		}
	}
	LINK_FOREACH(l, tmp, &of->waits)
	{
		struct queue_wait *w = container_of(l, struct queue_wait, link);

		if (w->kind == QUEUE_WAIT_SUBMIT && !link_in(&w->over) && !is_held_up(of, w))
			link_add(&q->room, &w->over);
	}
	queue_forget(q, of);
}
