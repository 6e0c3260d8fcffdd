// SPDX-License-Identifier: Apache-2.0
/* Cancellations: on request, and by the first error of a queue. */
#include "agent/queue/machine/private.h"

static void cancel_queued(
	struct queues *q, struct queue_task *t, struct queue_err *err, uint64_t now_ms)
{
	queue_note(q, QUEUE_REC_CANCEL, (int64_t)t->id, NULL);
	queue_task_over(q, t, QUEUE_CANCELLED, NULL, queue_err_ref(err), now_ms);
}

/* Cancels all tasks of the queue; returns how many. */
static size_t queue_cancel_all(
	struct queues *q, struct queue *of, struct queue_err *err, uint64_t now_ms)
{
	struct queue_link *l, *tmp;
	size_t n = 0;

	LINK_FOREACH(l, tmp, &of->lanes)
	{
		struct queue_lane *lane = container_of(l, struct queue_lane, link);
		size_t at = lane->number;

		for (; q->lanes[at] == lane && lane->queued.first; n++)
			cancel_queued(q, lane->queued.first, err, now_ms);
	}
	LINK_FOREACH(l, tmp, &of->leases)
	{
		struct queue_lease *lease = container_of(l, struct queue_lease, by_queue);

		n += !lease->cancelled;
		queue_lease_cancel(q, lease, QUEUE_CANCELLED, queue_err_ref(err), now_ms);
	}
	queue_changed(q, of);
	return n;
}

/* --- the first error */

void queue_set_error(struct queues *q, struct queue *of, struct queue_err *err, uint64_t now_ms)
{
	struct queue_link *l, *tmp;
	struct queue_err *why;

	if (of->error || q->failed)
		return;
	of->error = queue_err_ref(err);
	of->error_order = ++q->next_order;
	queue_note(q, QUEUE_REC_ERROR, -1, of->name);
	LINK_FOREACH(l, tmp, &of->waits)
	{
		struct queue_wait *w = container_of(l, struct queue_wait, link);

		/* Takes it out of the line for room: it gets the error instead. */
		link_del(&w->over);
		if (w->kind == QUEUE_WAIT_SUBMIT && w->exempt && of->n[QUEUE_RUNNING])
			queue_submit_exempt(q, w);
	}
	why = err->task >= 0 ? queue_err_printf(STATUS_CANCELLED, -1, err->task,
				       "task %lld of its queue failed: %s", (long long)err->task,
				       err->message)
			     : queue_err_printf(STATUS_CANCELLED, -1, -1, "its queue failed: %s",
				       err->message);
	queue_cancel_all(q, of, why, now_ms);
	queue_err_unref(why);
}

bool queue_task_sets_error(const struct queues *q, const struct queue_task *t)
{
	const struct queue *of = queue_lane_of(q, t)->of;

	return !t->alone && !of->error && !q->failed;
}

void queue_task_fail(struct queues *q, struct queue_task *t, struct queue_err *err, uint64_t now_ms)
{
	struct queue *of = queue_lane_of(q, t)->of;
	bool first = queue_task_sets_error(q, t);

	t->raised = first;
	queue_note(q, QUEUE_REC_FAIL, (int64_t)t->id, NULL);
	if (first)
		queue_event_add(q, QUEUE_ORDER_EVENT, "task-failed", err->worker,
			"task %lld failed: %s", (long long)t->id, err->message);
	queue_task_over(q, t, QUEUE_FAILED, NULL, queue_err_ref(err), now_ms);
	if (first)
		queue_set_error(q, of, err, now_ms);
	queue_err_unref(err);
}

/* --- on request */

static struct queue_watch *watches_for(
	struct queues *q, struct queue *of, const int64_t *ids, size_t n, size_t *ret_max)
{
	size_t max = 1;

	if (!ids)
		max += of ? of->n[QUEUE_RUNNING] : 0;
	for (size_t i = 0; ids && i < n; i++) {
		const struct queue_task *t = queue_task_find(q, ids[i]);

		max += t && t->state == QUEUE_RUNNING;
	}
	*ret_max = max;
	return calloc(max, sizeof(struct queue_watch));
}

static void lease_watch(struct queue_wait *w, struct queue_lease *l)
{
	struct queue_watch *x = (struct queue_watch *)w->more + w->n++;

	x->wait = w;
	link_add(&l->watchers, &x->link);
	w->left++;
}

static void cancel_ids(struct queues *q, struct queue_wait *w, const int64_t *ids, size_t n,
	struct queue_err *err, uint64_t now_ms)
{
	for (size_t i = 0; i < n; i++) {
		struct queue_task *t = queue_task_find(q, ids[i]);

		if (t && t->state == QUEUE_QUEUED) {
			cancel_queued(q, t, err, now_ms);
			w->accepted++;
		} else if (t && t->state == QUEUE_RUNNING) {
			w->accepted += !t->lease->cancelled;
			queue_lease_cancel(
				q, t->lease, QUEUE_CANCELLED, queue_err_ref(err), now_ms);
			lease_watch(w, t->lease);
		}
	}
}

void queue_cancel(struct queues *q, struct queue_wait *w, const char *queue, const int64_t *ids,
	size_t n, const char *reason, uint64_t deadline_ms, uint64_t now_ms)
{
	struct queue *of = queue_find(q, queue);
	struct queue_link *l;
	struct queue_err *err;
	size_t max;

	if (!queue_wait_begin(q, w, QUEUE_WAIT_CANCEL))
		return;
	w->more = watches_for(q, of, ids, n, &max);
	err = queue_err_new(STATUS_CANCELLED, reason && *reason ? reason : "the task was cancelled",
		"", -1, -1);
	if (!w->more || !err) {
		queue_err_unref(err);
		queue_wait_end_text(q, w, STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	if (ids) {
		cancel_ids(q, w, ids, n, err, now_ms);
	} else if (of) {
		w->accepted = queue_cancel_all(q, of, err, now_ms);
		for (l = of->leases.next; l != &of->leases; l = l->next)
			lease_watch(w, container_of(l, struct queue_lease, by_queue));
	}
	assert(w->n <= max);
	queue_err_unref(err);
	if (w->left) {
		link_add(&q->cancels, &w->link);
		queue_wait_park(q, w, deadline_ms, now_ms);
	} else {
		queue_wait_end(q, w, NULL);
	}
	queue_settle(q, now_ms);
}

/* From now on the queue's tasks are in no journal. */
static void tasks_keep(struct queues *q, struct queue *of)
{
	struct queue_link *l;
	struct queue_task *t;

	for (t = of->over.first; t; t = t->next)
		t->kept = true;
	for (l = of->lanes.next; l != &of->lanes; l = l->next)
		for (t = container_of(l, struct queue_lane, link)->queued.first; t; t = t->next)
			t->kept = true;
	for (l = of->leases.next; l != &of->leases; l = l->next)
		container_of(l, struct queue_lease, by_queue)->task->kept = true;
}

enum status queue_keep(struct queues *q, const char *queue)
{
	struct queue *of;
	enum status s;

	if (!queue_name_ok(queue, true))
		return STATUS_INVALID_ARGUMENT;
	of = queue_get(q, queue, &s);
	if (of)
		of->outside = true;
	if (!of || of->keepers++)
		return s;
	if (!link_empty(&of->lanes) || of->error || of->loss) {
		tasks_keep(q, of);
		queue_note(q, QUEUE_REC_KEEP, -1, of->name);
		queue_note_all(q);
	}
	return s;
}

/* The error will not be reported any more. */
static void drop_error(struct queues *q, struct queue *of)
{
	if (of->error)
		queue_note(q, QUEUE_REC_RAISED, -1, of->name);
	queue_err_unref(of->error);
	of->error = NULL;
}

/* Releases all tasks, since no client will ask for them. */
static void tasks_release(struct queues *q, struct queue *of)
{
	struct queue_link *l;
	struct queue_task *t, *next;

	for (t = of->over.first; t; t = next) {
		next = t->next;
		queue_task_release(q, (int64_t)t->id);
	}
	for (l = of->lanes.next; l != &of->lanes; l = l->next)
		for (t = container_of(l, struct queue_lane, link)->queued.first; t; t = t->next)
			queue_task_release(q, (int64_t)t->id);
	for (l = of->leases.next; l != &of->leases; l = l->next)
		queue_task_release(
			q, (int64_t)container_of(l, struct queue_lease, by_queue)->task->id);
}

void queue_abandon(struct queues *q, struct queue *of, uint64_t now_ms)
{
	struct queue_link *l, *tmp;
	struct queue_err *err =
		queue_err_printf(STATUS_CANCELLED, -1, -1, "its coordinator is gone");

	tasks_release(q, of);
	queue_cancel_all(q, of, err, now_ms);
	LINK_FOREACH(l, tmp, &of->waits)
	{
		struct queue_wait *w = container_of(l, struct queue_wait, link);

		if (w->kind == QUEUE_WAIT_SUBMIT)
			queue_wait_end(q, w, queue_err_ref(err));
	}
	queue_err_unref(err);
	drop_error(q, of);
	queue_loss_told(q, of);
	queue_changed(q, of);
}

void queue_unkeep(struct queues *q, const char *queue, uint64_t now_ms)
{
	struct queue *of = queue_find(q, queue);

	if (!of || !of->keepers)
		return;
	if (of->keepers > 1) {
		of->keepers--;
		return;
	}
	queue_abandon(q, of, now_ms);
	of->keepers = 0;
	of->put_back = 0; /* no client knows its name any more */
	queue_changed(q, of);
	queue_settle(q, now_ms);
}

/* --- all queues */

void queue_set_loss(struct queues *q, struct queue *of, struct queue_err *err, int exit_code)
{
	if (of->loss)
		return;
	of->loss = queue_err_ref(err);
	of->loss_exit_code = exit_code;
	of->loss_order = ++q->next_order;
	queue_note(q, QUEUE_REC_LOSS, -1, of->name);
}

void queue_loss_told(struct queues *q, struct queue *of)
{
	if (!of || !of->loss)
		return;
	queue_note(q, QUEUE_REC_LOSS_TOLD, -1, of->name);
	queue_err_unref(of->loss);
	of->loss = NULL;
	queue_changed(q, of);
}

static bool outside_waits(const struct queue *of)
{
	const struct queue_link *l;

	for (l = of->waits.next; l != &of->waits; l = l->next)
		if (container_of(l, struct queue_wait, link)->outside)
			return true;
	return false;
}

void queue_fail_all(struct queues *q, const struct queue_error *e, int exit_code, uint64_t now_ms)
{
	struct queue_link *l, *tmp, *m, *tmp2;

	if (q->failed)
		return;
	q->failed = queue_err_sure(e->code, queue_err_copy(e));
	q->exit_code = exit_code;
	LINK_FOREACH(l, tmp, &q->all)
	{
		struct queue *of = container_of(l, struct queue, all);

		if (outside_waits(of))
			queue_loss_told(q, of);
		else if (of->outside && (of->error || queue_live(of->n)))
			queue_set_loss(q, of, q->failed, exit_code);
	}
	/* Before the tasks end, since fetches would otherwise see only that. */
	LINK_FOREACH(l, tmp, &q->fetches)
	{
		queue_fetch_raise(q, container_of(l, struct queue_wait, link));
	}
	LINK_FOREACH(l, tmp, &q->all)
	{
		struct queue *of = container_of(l, struct queue, all);

		drop_error(q, of);
		queue_cancel_all(q, of, q->failed, now_ms);
		LINK_FOREACH(m, tmp2, &of->waits)
		{
			queue_wait_raise(q, container_of(m, struct queue_wait, link), q->failed);
		}
	}
	queue_settle(q, now_ms);
}

void queue_unfail(struct queues *q, uint64_t now_ms)
{
	queue_err_unref(q->failed);
	q->failed = NULL;
	queue_settle(q, now_ms);
}
