// SPDX-License-Identifier: Apache-2.0
/* Leases: what a holder has, and how that ends. Decides the outcomes of tasks. */
#include "agent/queue/machine/private.h"

struct queue_lease *queue_lease_new(struct queues *q)
{
	struct queue_lease *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->id = q->next_lease;
	link_init(&l->watchers);
	if (queue_heap_reserve(&q->lease_deadlines) < 0) {
		free(l);
		return NULL;
	}
	if (queue_index_set(&q->leases, l->id, l) < 0) {
		queue_heap_unreserve(&q->lease_deadlines);
		free(l);
		return NULL;
	}
	q->next_lease++;
	return l;
}

void queue_lease_free(struct queues *q, struct queue_lease *l)
{
	if (!l)
		return;
	queue_index_del(&q->leases, l->id);
	queue_heap_set(&q->lease_deadlines, &l->deadline, UINT64_MAX);
	queue_heap_unreserve(&q->lease_deadlines);
	queue_resource_unref(l->resource);
	queue_call_unref(l->call);
	queue_err_unref(l->why);
	free(l);
}

static struct queue_link *leases_of_holder(struct queues *q, const void *holder)
{
	return &q->holders[chain_hash_pointer(holder) % QUEUE_HOLDER_LISTS];
}

void queue_lease_begin(struct queues *q, struct queue_lease *l, enum queue_item kind,
	struct queue_wait *w, uint64_t now_ms)
{
	struct queue_worker *k = w->of;

	l->kind = kind;
	l->active = true;
	l->worker = k;
	l->start = k->start;
	l->since_ms = now_ms;
	link_add(leases_of_holder(q, l->holder), &l->by_holder);
	link_add(&k->leases, &l->by_worker);
	k->n_leases++;
	w->more = NULL;
	w->lease = l;
	l->wait = w;
	queue_wait_end(q, w, NULL);
}

void queue_lease_cancel(struct queues *q, struct queue_lease *l, enum queue_state becomes,
	struct queue_err *err, uint64_t now_ms)
{
	if (l->cancelled) {
		queue_err_unref(err);
		return;
	}
	l->cancelled = true;
	l->becomes = becomes;
	l->why = err;
	if (l->seen)
		link_add(&q->cancelled, &l->to_cancel);
	queue_heap_set(&q->lease_deadlines, &l->deadline, now_ms + q->opt.cancel_grace_ms);
	if (l->task && becomes == QUEUE_CANCELLED)
		queue_note(q, QUEUE_REC_CANCEL, (int64_t)l->task->id, NULL);
}

void queue_lease_fail(
	struct queues *q, struct queue_lease *l, struct queue_err *err, uint64_t now_ms)
{
	struct queue_task *t = l->task;
	struct queue *of = queue_lane_of(q, t)->of;
	bool first = queue_task_sets_error(q, t);

	t->raised = first;
	queue_note(q, QUEUE_REC_FAIL, (int64_t)t->id, NULL);
	queue_lease_cancel(q, l, QUEUE_FAILED, queue_err_ref(err), now_ms);
	if (first) {
		queue_event_add(q, QUEUE_ORDER_EVENT, "task-failed", l->worker->number,
			"task %lld failed: %s", (long long)t->id, err->message);
		queue_set_error(q, of, err, now_ms);
	}
	queue_err_unref(err);
}

static void watchers_lease_over(struct queues *q, struct queue_lease *l)
{
	struct queue_link *x, *tmp;

	LINK_FOREACH(x, tmp, &l->watchers)
	{
		struct queue_wait *w = container_of(x, struct queue_watch, link)->wait;

		link_del(x);
		if (!w->is_over && !--w->left)
			queue_wait_end(q, w, NULL);
	}
}

/* Ends the lease; the caller deals with its task, build or call. */
static void lease_end(struct queues *q, struct queue_lease *l, uint64_t now_ms)
{
	struct queue_worker *k = l->worker;

	if (l->wait) {
		l->wait->lease = NULL;
		l->wait->status = STATUS_CANCELLED;
		l->wait->text = "its process or its connection is gone";
	}
	link_del(&l->by_holder);
	link_del(&l->by_worker);
	link_del(&l->by_queue);
	link_del(&l->to_cancel);
	k->n_leases--;
	watchers_lease_over(q, l);
	if (l->late) {
		q->n_late--;
		queue_pool_mend(q, now_ms);
	}
	queue_lease_free(q, l);
}

/* --- how they end */

/* Ends a cancelled lease, whatever its worker answers. */
static void lease_end_cancelled(struct queues *q, struct queue_lease *l, uint64_t now_ms)
{
	struct queue_task *t = l->task;
	enum queue_state becomes = l->becomes;
	struct queue_err *why = TAKE_PTR(l->why);

	lease_end(q, l, now_ms);
	if (t)
		queue_task_over(q, t, becomes, NULL, why, now_ms);
	else
		queue_err_unref(why);
}

/* Puts the task back, unless too many workers have died with it. */
static void lease_requeue(struct queues *q, struct queue_lease *l, uint64_t now_ms)
{
	struct queue_task *t = l->task;

	lease_end(q, l, now_ms);
	if (queue_deaths_reached(q, t)) {
		queue_task_fail(q, t, queue_deaths_err(q, t), now_ms);
		return;
	}
	q->put_back++;
	queue_lane_of(q, t)->of->put_back++;
	queue_note(q, QUEUE_REC_TRY, (int64_t)t->id, NULL);
	queue_task_enqueue(q, t, now_ms);
	q->hopeless_due |= queue_lane_of(q, t)->set->hopeless;
}

void queue_lease_lost(struct queues *q, struct queue_lease *l, uint64_t now_ms)
{
	struct queue_worker *k = l->worker;

	if (l->cancelled) {
		lease_end_cancelled(q, l, now_ms);
		return;
	}
	switch (l->kind) {
	case QUEUE_ITEM_TASK:
		lease_requeue(q, l, now_ms);
		return;
	case QUEUE_ITEM_BUILD:
		if (l->resource->bit >= 0)
			k->building &= ~(UINT64_C(1) << l->resource->bit);
		break;
	case QUEUE_ITEM_INIT:
		k->init_state = QUEUE_INIT_DUE;
		break;
	case QUEUE_ITEM_CALL:
		if (l->member)
			l->member->lease = NULL;
		break;
	}
	lease_end(q, l, now_ms);
}

/* The active lease with this number, which holder is about to end; or NULL. */
static struct queue_lease *lease_of(const struct queues *q, const void *holder, int64_t lease)
{
	struct queue_lease *l = queue_index_get(&q->leases, lease);

	if (!l || !l->active || l->holder != holder)
		return NULL;
	/* The worker answers something it got after the drop, so it lives. */
	if (l->worker->n_dropped && l->id >= l->worker->drop_lease)
		l->worker->n_dropped = 0;
	return l;
}

/* Gives the worker its next work. */
static enum status lease_next_work(
	struct queues *q, struct queue_worker *k, enum status status, uint64_t now_ms)
{
	queue_worker_feed(q, k, now_ms);
	queue_settle(q, now_ms);
	return status;
}

/* False: no memory for the event that ends its process, so init must be answered again. */
static bool init_failed(struct queues *q, struct queue_worker *k, const struct queue_err *err)
{
	char buf[32];

	return queue_event_add(q, QUEUE_ORDER_EVENT, "init-failed", k->number, "%s: %s",
		queue_worker_text(q, k->number, buf, sizeof(buf)), err->message);
}

/* Ends a chore: takes value or err; err NULL: it succeeded. */
static void chore_ends(struct queues *q, struct queue_lease *l, struct queue_blob *value,
	struct queue_err *err, uint64_t now_ms)
{
	struct queue_worker *k = l->worker;

	if (l->kind == QUEUE_ITEM_CALL && l->member) {
		queue_member_answer(q, l->member, TAKE_PTR(value), TAKE_PTR(err));
	} else if (l->kind == QUEUE_ITEM_BUILD) {
		queue_build_done(l, TAKE_PTR(err));
	} else if (l->kind == QUEUE_ITEM_INIT) {
		k->init_state = err ? QUEUE_INIT_FAILED : QUEUE_INIT_NONE;
	}
	free(value);
	queue_err_unref(err);
	lease_end(q, l, now_ms);
	queue_fail_hopeless(q, now_ms);
}

/* queue.memory holds submits up. Outcomes of running tasks may exceed it, up to twice. */
static struct queue_err *no_room_err(const struct queues *q, const struct queue_lease *l, size_t n)
{
	return queue_err_printf(STATUS_RESOURCE_EXHAUSTED, l->worker->number, (int64_t)l->task->id,
		"there is no room for its value of %zu bytes: payloads and results that are not "
		"released have %zu, more than twice queue.memory with it",
		n, q->bytes);
}

static struct queue_err *failure_err(const struct queues *q, const struct queue_worker *k,
	const struct queue_task *t, const struct queue_failure *f)
{
	int64_t task = t ? (int64_t)t->id : -1;
	struct queue_err *e = queue_err_new(f->code, f->message, f->details, k->number, task);

	if (!e || !t || queue_task_fits(q, t, queue_err_len(e)))
		return e;
	queue_err_unref(e);
	return queue_err_new(f->code, f->message, "", k->number, task);
}

enum status queue_finish(struct queues *q, void *holder, int64_t lease,
	const struct queue_bytes *value, uint64_t now_ms)
{
	struct queue_lease *l = lease_of(q, holder, lease);
	struct queue_worker *k = l ? l->worker : NULL;
	struct queue_blob *v;
	struct queue_task *t;
	struct queue_err *err;

	if (!l)
		return STATUS_ABORTED;
	if (l->cancelled) {
		lease_end_cancelled(q, l, now_ms);
		return lease_next_work(q, k, STATUS_ABORTED, now_ms);
	}
	if (!queue_bytes_ok(value))
		return STATUS_INVALID_ARGUMENT;
	v = queue_blob_new(value);
	if (!v)
		return STATUS_RESOURCE_EXHAUSTED;
	t = l->task;
	if (t && !queue_task_fits(q, t, value->len)) {
		free(v);
		err = no_room_err(q, l, value->len);
		lease_end(q, l, now_ms);
		queue_task_fail(q, t, err, now_ms);
	} else if (t) {
		lease_end(q, l, now_ms);
		queue_note(q, QUEUE_REC_SUCCEED, (int64_t)t->id, NULL);
		queue_task_over(q, t, QUEUE_SUCCEEDED, v, NULL, now_ms);
	} else {
		chore_ends(q, l, v, NULL, now_ms);
	}
	return lease_next_work(q, k, STATUS_OK, now_ms);
}

enum status queue_fail(struct queues *q, void *holder, int64_t lease, const struct queue_failure *f,
	uint64_t now_ms)
{
	struct queue_lease *l = lease_of(q, holder, lease);
	struct queue_worker *k = l ? l->worker : NULL;
	struct queue_task *t = l ? l->task : NULL;
	struct queue_err *err;
	int absorbed = 0;

	if (!l)
		return STATUS_ABORTED;
	if (l->cancelled) {
		lease_end_cancelled(q, l, now_ms);
		return lease_next_work(q, k, STATUS_ABORTED, now_ms);
	}
	err = failure_err(q, k, t, f);
	if (err && t && f->retryable)
		absorbed = queue_absorb(q, t, f->blame, now_ms);
	if (!err || absorbed < 0 || (l->kind == QUEUE_ITEM_INIT && !init_failed(q, k, err))) {
		queue_err_unref(err);
		return STATUS_RESOURCE_EXHAUSTED;
	}
	if (absorbed) {
		if (!queue_deaths_reached(q, t))
			queue_event_add(q, QUEUE_ORDER_EVENT, "put-back", k->number,
				"task %lld is put back: %s", (long long)t->id, err->message);
		queue_err_unref(err);
		lease_requeue(q, l, now_ms);
	} else if (t) {
		lease_end(q, l, now_ms);
		queue_task_fail(q, t, err, now_ms);
	} else {
		chore_ends(q, l, NULL, err, now_ms);
	}
	return lease_next_work(q, k, STATUS_OK, now_ms);
}

enum status queue_put_back(struct queues *q, void *holder, int64_t lease, uint64_t now_ms)
{
	struct queue_lease *l = lease_of(q, holder, lease);
	struct queue_worker *k = l ? l->worker : NULL;
	bool cancelled = l && l->cancelled;

	if (!l)
		return STATUS_ABORTED;
	queue_lease_lost(q, l, now_ms);
	return lease_next_work(q, k, cancelled ? STATUS_ABORTED : STATUS_OK, now_ms);
}

void queue_holder_gone(struct queues *q, void *holder, uint64_t now_ms)
{
	struct queue_link *l, *tmp;

	LINK_FOREACH(l, tmp, leases_of_holder(q, holder))
	{
		struct queue_lease *lease = container_of(l, struct queue_lease, by_holder);
		struct queue_worker *k = lease->worker;

		if (lease->holder != holder)
			continue;
		queue_dropped(q, lease);
		queue_lease_lost(q, lease, now_ms);
		queue_worker_feed(q, k, now_ms);
	}
	queue_settle(q, now_ms);
}

enum status queue_look(const struct queues *q, int worker, int64_t lease, bool *ret_cancelled,
	const char **ret_reason)
{
	const struct queue_lease *l = queue_index_get(&q->leases, lease);

	if (!l || !l->active || l->worker->number != worker)
		return STATUS_NOT_FOUND;
	*ret_cancelled = l->cancelled;
	*ret_reason = l->why ? l->why->message : "";
	return STATUS_OK;
}

int64_t queue_own_task(const struct queues *q, int worker, int64_t lease, const char *queue,
	const int64_t *ids, size_t n)
{
	const struct queue_lease *l = lease < 0 ? NULL : queue_index_get(&q->leases, lease);
	int64_t task;

	if (!l || !l->active || l->kind != QUEUE_ITEM_TASK || l->worker->number != worker)
		return -1;
	task = (int64_t)l->task->id;
	if (!ids)
		return strcmp(queue_lane_of(q, l->task)->of->name, queue) == 0 ? task : -1;
	for (size_t i = 0; i < n; i++)
		if (ids[i] == task)
			return task;
	return -1;
}

static struct queue_bytes payload_of(const struct queue_lease *l)
{
	switch (l->kind) {
	case QUEUE_ITEM_TASK:
		return queue_blob_bytes(l->task->payload);
	case QUEUE_ITEM_BUILD:
		return queue_blob_bytes(l->resource->payload);
	case QUEUE_ITEM_INIT:
		return queue_blob_bytes(l->worker->init);
	case QUEUE_ITEM_CALL:
		break;
	}
	return queue_blob_bytes(l->call->payload);
}

void queue_item(const struct queue_lease *l, struct queue_item_view *ret)
{
	*ret = (struct queue_item_view){ .kind = l->kind,
		.lease = l->id,
		.task = -1,
		.name = l->resource ? l->resource->name : "",
		.payload = payload_of(l),
		.limit_ms = -1,
		.worker = l->worker->number,
		.start = l->start };
	if (!l->task)
		return;
	ret->task = (int64_t)l->task->id;
	ret->limit_ms = queue_task_limit(l->task);
	ret->tries = l->task->tries - 1;
	ret->needs = l->set->names;
	ret->n_needs = l->set->n;
}

/* --- time */

static void task_too_long(struct queues *q, struct queue_lease *l, uint64_t now_ms)
{
	queue_lease_fail(q, l,
		queue_err_printf(STATUS_DEADLINE_EXCEEDED, l->worker->number, (int64_t)l->task->id,
			"it ran for longer than its limit of %lld ms",
			(long long)queue_task_limit(l->task)),
		now_ms);
}

static void call_unanswered(struct queues *q, struct queue_lease *l, uint64_t now_ms)
{
	char why[64];
	struct queue_worker *k = l->worker;
	struct queue_err *err = queue_err_printf(STATUS_DEADLINE_EXCEEDED, k->number, -1,
		"it has not answered for %llu ms", (unsigned long long)(now_ms - l->since_ms));

	snprintf(why, sizeof(why), "has not answered for %llu ms",
		(unsigned long long)(now_ms - l->since_ms));
	queue_pool_late(q, l, why);
	queue_member_answer(q, l->member, NULL, queue_err_ref(err));
	queue_lease_cancel(q, l, QUEUE_CANCELLED, err, now_ms);
	queue_worker_feed(q, k, now_ms);
}

void queue_lease_due(struct queues *q, struct queue_lease *l, uint64_t now_ms)
{
	struct queue_worker *k = l->worker;
	char buf[32];

	queue_heap_set(&q->lease_deadlines, &l->deadline, UINT64_MAX);
	if (l->cancelled) {
		if (!link_in(&k->kills))
			link_add(&q->kills, &k->kills);
		queue_event_add(q, QUEUE_ORDER_EVENT, "cancel-kill", k->number,
			"%s goes on with what was cancelled for %llu ms: it is killed",
			queue_worker_text(q, k->number, buf, sizeof(buf)),
			(unsigned long long)q->opt.cancel_grace_ms);
	} else if (l->task) {
		task_too_long(q, l, now_ms);
	} else if (l->member) {
		call_unanswered(q, l, now_ms);
	}
}
