// SPDX-License-Identifier: Apache-2.0
/* How waits begin and end, what follows from a step, and time. */
#include "agent/queue/machine/private.h"

int queues_new(const struct queue_options *opt, struct queues **ret)
{
	_cleanup_(queues_freep) struct queues *q = calloc(1, sizeof(*q));
	struct queue_set *none;
	const char *which;

	if (!q)
		return -ENOMEM;
	q->opt = *opt;
	if (opt->blame_window_ms >= 0 && opt->blame_limit > QUEUE_BLAME_LIMIT_MAX)
		q->opt.blame_limit = QUEUE_BLAME_LIMIT_MAX;
	q->next_task = q->next_lease = opt->first_task > 0 ? opt->first_task : 1;
	q->quiet_ms = q->alone_ms = UINT64_MAX;
	link_init(&q->all);
	link_init(&q->changed);
	link_init(&q->room);
	link_init(&q->fetches);
	link_init(&q->cancels);
	link_init(&q->calls);
	link_init(&q->idle);
	link_init(&q->over);
	link_init(&q->blames);
	link_init(&q->cancelled);
	link_init(&q->kills);
	link_init(&q->events);
	link_init(&q->notes);
	for (int i = 0; i < QUEUE_HOLDER_LISTS; i++)
		link_init(&q->holders[i]);
	if (queue_set_find(q, NULL, 0, &none, &which) != STATUS_OK)
		return -ENOMEM;
	*ret = TAKE_PTR(q);
	return 0;
}

static void free_tasks(struct queues *q)
{
	struct queue_task *t;

	while ((t = queue_index_after(&q->tasks, -1))) {
		if (t->state == QUEUE_QUEUED)
			queue_task_dequeue(q, t);
		queue_index_del(&q->tasks, (int64_t)t->id);
		queue_lane_of(q, t)->n--;
		queue_task_free(t);
	}
}

struct queues *queues_free(struct queues *q)
{
	struct queue_lease *l;

	if (!q)
		return NULL;
	while ((l = queue_index_after(&q->leases, -1)))
		queue_lease_free(q, l);
	free_tasks(q);
	queue_names_fini(q);
	queue_workers_fini(q);
	for (int i = 0; i < QUEUE_RESOURCES_MAX; i++)
		queue_resource_unref(q->resources[i]);
	queue_blames_fini(q);
	queue_orders_fini(q);
	queue_index_fini(&q->tasks);
	queue_index_fini(&q->leases);
	free(q->wait_deadlines.nodes);
	free(q->lease_deadlines.nodes);
	queue_err_unref(q->broken);
	queue_err_unref(q->failed);
	queue_err_unref(q->stop);
	free(q);
	return NULL;
}

/* --- waits */

bool queue_wait_begin(struct queues *q, struct queue_wait *w, enum queue_wait_kind kind)
{
	*w = (struct queue_wait){
		.arg = w->arg,
		.outside = w->outside,
		.kind = kind,
		.text = "",
		.exit_code = -1,
	};
	if (!q->stopped)
		return true;
	queue_wait_end(q, w, queue_err_ref(q->stop));
	return false;
}

void queue_wait_park(struct queues *q, struct queue_wait *w, uint64_t deadline_ms, uint64_t now_ms)
{
	if (w->is_over)
		return;
	if (deadline_ms <= now_ms) {
		queue_wait_expire(q, w);
		return;
	}
	if (deadline_ms != UINT64_MAX && queue_heap_reserve(&q->wait_deadlines) < 0) {
		queue_wait_end_text(q, w, STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	queue_heap_set(&q->wait_deadlines, &w->deadline, deadline_ms);
}

static void wait_unpark(struct queues *q, struct queue_wait *w)
{
	link_del(&w->link);
	if (!w->deadline.place)
		return;
	queue_heap_set(&q->wait_deadlines, &w->deadline, UINT64_MAX);
	queue_heap_unreserve(&q->wait_deadlines);
}

/* Removes the wait from lists and deadlines: it is over, or not wanted any more. */
static void wait_take_out(struct queues *q, struct queue_wait *w)
{
	struct queue *of = w->of;

	wait_unpark(q, w);
	link_del(&w->over);
	switch (w->kind) {
	case QUEUE_WAIT_SUBMIT:
	case QUEUE_WAIT_JOIN:
		if (!of)
			break;
		if (w->kind == QUEUE_WAIT_JOIN) {
			of->n_joins--;
		} else {
			of->n_waiting--;
			q->n_waiting--;
		}
		queue_changed(q, of);
		break;
	case QUEUE_WAIT_WORK:
		queue_work_unpark(q, w);
		break;
	case QUEUE_WAIT_CALL:
		q->n_calls -= w->of != NULL;
		break;
	default:
		break;
	}
	w->of = NULL;
}

static bool has_accepted(const struct queue_wait *w)
{
	return w->kind == QUEUE_WAIT_SUBMIT && w->accepted;
}

void queue_wait_end(struct queues *q, struct queue_wait *w, struct queue_err *err)
{
	if (has_accepted(w)) {
		queue_err_unref(err);
		err = NULL;
	}
	wait_take_out(q, w);
	w->status = err ? err->code : STATUS_OK;
	w->of = err;
	w->text = err ? err->message : "";
	w->is_over = true;
	link_add(&q->over, &w->over);
}

void queue_wait_end_text(
	struct queues *q, struct queue_wait *w, enum status status, const char *text)
{
	queue_wait_end(q, w, NULL);
	if (has_accepted(w))
		return;
	w->status = status;
	w->text = text;
}

struct queue_wait *queue_over(struct queues *q)
{
	struct queue_wait *w = LINK_FIRST(&q->over, struct queue_wait, over);

	if (!w)
		return NULL;
	link_del(&w->over);
	if (w->kind != QUEUE_WAIT_WORK || !w->lease)
		return w;
	/* The holder knows the lease from now on, so it can be told of a cancellation. */
	w->lease->seen = true;
	w->lease->wait = NULL;
	if (w->lease->cancelled)
		link_add(&q->cancelled, &w->lease->to_cancel);
	return w;
}

void queue_watch_end(struct queue_watch *watches, size_t n)
{
	for (size_t i = 0; i < n; i++)
		link_del(&watches[i].link);
}

void queue_wait_fini(struct queues *q, struct queue_wait *w, uint64_t now_ms)
{
	bool unseen = w->is_over && link_in(&w->over);

	link_del(&w->over);
	if (w->is_over)
		queue_err_unref(w->of);
	else
		wait_take_out(q, w);
	w->of = NULL;
	switch (w->kind) {
	case QUEUE_WAIT_FETCH:
		queue_fetch_fini(q, w);
		break;
	case QUEUE_WAIT_CANCEL:
		queue_watch_end(w->more, w->n);
		free(w->more);
		break;
	case QUEUE_WAIT_CALL:
		queue_call_fini(q, w, now_ms);
		break;
	case QUEUE_WAIT_WORK:
		if (w->lease && unseen) {
			struct queue_worker *k = w->lease->worker;

			queue_lease_lost(q, w->lease, now_ms);
			queue_worker_feed(q, k, now_ms);
		}
		w->lease = NULL;
		break;
	default:
		break;
	}
	w->more = NULL;
	w->is_over = false;
	w->text = "";
	queue_settle(q, now_ms);
}

/* --- what follows from a step */

/* The queues are closed and all tasks are over: ends the waits for work. */
static void waits_close(struct queues *q)
{
	struct queue_wait *w;

	if (!q->closed || queue_live(q->n))
		return;
	while ((w = LINK_FIRST(&q->idle, struct queue_wait, over)))
		queue_wait_end(q, w, NULL);
}

/* Notes since when there are tasks, and no worker has or asks for any. */
static void watch_workers(struct queues *q, uint64_t now_ms)
{
	bool busy = !q->n[QUEUE_QUEUED] || q->n[QUEUE_RUNNING] || q->n_free;

	for (size_t i = 0; i < q->n_workers && !busy; i++)
		busy = q->workers[i] && q->workers[i]->n_leases;
	if (busy)
		q->alone_ms = UINT64_MAX;
	else if (q->alone_ms == UINT64_MAX)
		q->alone_ms = now_ms;
}

void queue_settle(struct queues *q, uint64_t now_ms)
{
	struct queue *of;

	if (q->settling)
		return;
	q->settling = true;
	do {
		queue_submits_go_on(q, now_ms);
		if (q->hopeless_due)
			queue_fail_hopeless(q, now_ms);
		of = LINK_FIRST(&q->changed, struct queue, changed);
		if (of) {
			link_del(&of->changed);
			queue_waits_go_on(q, of);
		}
	} while (of);
	waits_close(q);
	if (!q->n[QUEUE_RUNNING])
		q->quiet_ms = now_ms;
	if (q->opt.recovery_timeout_ms >= 0)
		watch_workers(q, now_ms);
	q->settling = false;
}

void queue_close(struct queues *q, uint64_t now_ms)
{
	struct queue_link *l, *tmp, *m, *tmp2;

	if (q->closed)
		return;
	q->closed = true;
	queue_note(q, QUEUE_REC_CLOSE, -1, NULL);
	LINK_FOREACH(l, tmp, &q->all)
	{
		struct queue *of = container_of(l, struct queue, all);

		LINK_FOREACH(m, tmp2, &of->waits)
		{
			struct queue_wait *w = container_of(m, struct queue_wait, link);

			if (w->kind == QUEUE_WAIT_SUBMIT)
				queue_wait_end_text(
					q, w, STATUS_FAILED_PRECONDITION, "the queues are closed");
		}
	}
	queue_settle(q, now_ms);
}

/* --- stop and go */

static void waits_stop(struct queues *q, struct queue_link *list)
{
	struct queue_link *l, *tmp;

	LINK_FOREACH(l, tmp, list)
	{
		struct queue_wait *w = container_of(l, struct queue_wait, link);

		queue_wait_end(q, w, queue_err_ref(q->stop));
	}
}

void queue_stop(struct queues *q, enum status status, const char *text, bool final)
{
	struct queue_link *l, *tmp;

	queue_err_unref(q->stop);
	q->stop = queue_err_printf(status, -1, -1, "%s", text);
	q->stopped = true;
	q->final |= final;
	LINK_FOREACH(l, tmp, &q->all)
	{
		waits_stop(q, &container_of(l, struct queue, all)->waits);
	}
	waits_stop(q, &q->fetches);
	waits_stop(q, &q->cancels);
	waits_stop(q, &q->calls);
	for (size_t i = 0; i < q->n_workers; i++)
		if (q->workers[i])
			waits_stop(q, &q->workers[i]->waits);
}

void queue_go(struct queues *q)
{
	q->stopped = q->final;
}

/* --- time */

void queue_wait_expire(struct queues *q, struct queue_wait *w)
{
	static const char *const texts[] = {
		[QUEUE_WAIT_FETCH] = "the task is not over yet",
		[QUEUE_WAIT_JOIN] = "the queue has tasks that are not over yet",
		[QUEUE_WAIT_CANCEL] = "some of the tasks that were cancelled still run",
		[QUEUE_WAIT_CALL] = "some of the workers have not answered the call",
		[QUEUE_WAIT_WORK] = "there is nothing to do",
	};

	if (w->kind == QUEUE_WAIT_SUBMIT)
		queue_submit_late(q, w);
	else
		queue_wait_end_text(q, w, STATUS_DEADLINE_EXCEEDED, texts[w->kind]);
}

static void report_stall(struct queues *q, uint64_t now_ms)
{
	if (q->opt.stall_ms < 0 || !q->n[QUEUE_RUNNING] || q->quiet_ms == UINT64_MAX ||
		now_ms - q->quiet_ms < (uint64_t)q->opt.stall_ms)
		return;
	queue_event_add(q, QUEUE_ORDER_STALL, "stall", -1, "no task has ended for %llu s; %zu run",
		(unsigned long long)(now_ms - q->quiet_ms) / 1000, q->n[QUEUE_RUNNING]);
	q->quiet_ms = UINT64_MAX;
}

static void fail_without_workers(struct queues *q, uint64_t now_ms)
{
	struct queue_link *l, *tmp;
	struct queue_err *e;

	if (q->opt.recovery_timeout_ms < 0 || q->alone_ms == UINT64_MAX ||
		now_ms - q->alone_ms < (uint64_t)q->opt.recovery_timeout_ms)
		return;
	e = queue_err_printf(STATUS_UNAVAILABLE, -1, -1, "no worker has taken work for %llu s",
		(unsigned long long)(now_ms - q->alone_ms) / 1000);
	queue_event_add(q, QUEUE_ORDER_EVENT, "no-worker", -1, "%s", e->message);
	q->alone_ms = UINT64_MAX;
	LINK_FOREACH(l, tmp, &q->all)
	{
		struct queue *of = container_of(l, struct queue, all);

		if (queue_live(of->n))
			queue_set_error(q, of, e, now_ms);
	}
	queue_err_unref(e);
}

static uint64_t heap_due_ms(const struct queue_heap *h)
{
	return queue_heap_first(h) ? queue_heap_first(h)->key : UINT64_MAX;
}

uint64_t queue_due_ms(const struct queues *q)
{
	uint64_t due = heap_due_ms(&q->wait_deadlines), at = heap_due_ms(&q->lease_deadlines);

	due = at < due ? at : due;
	if (q->opt.stall_ms >= 0 && q->n[QUEUE_RUNNING] && q->quiet_ms != UINT64_MAX) {
		at = q->quiet_ms + (uint64_t)q->opt.stall_ms;
		due = at < due ? at : due;
	}
	if (q->opt.recovery_timeout_ms >= 0 && q->alone_ms != UINT64_MAX) {
		at = q->alone_ms + (uint64_t)q->opt.recovery_timeout_ms;
		due = at < due ? at : due;
	}
	return due;
}

/* Ends what was due first. False: nothing is due. */
static bool expire_one(struct queues *q, uint64_t now_ms)
{
	uint64_t wait_ms = heap_due_ms(&q->wait_deadlines);
	uint64_t lease_ms = heap_due_ms(&q->lease_deadlines);

	if (wait_ms > now_ms && lease_ms > now_ms)
		return false;
	if (lease_ms <= wait_ms)
		queue_lease_due(q,
			container_of(queue_heap_first(&q->lease_deadlines), struct queue_lease,
				deadline),
			now_ms);
	else
		queue_wait_expire(q, container_of(queue_heap_first(&q->wait_deadlines),
					     struct queue_wait, deadline));
	return true;
}

uint64_t queue_expire(struct queues *q, uint64_t now_ms)
{
	while (expire_one(q, now_ms))
		;
	report_stall(q, now_ms);
	fail_without_workers(q, now_ms);
	queue_settle(q, now_ms);
	return queue_due_ms(q);
}

void queue_stats(const struct queues *q, const char *queue, struct queue_stats *ret)
{
	const struct queue *of = queue ? queue_find(q, queue) : NULL;
	const struct queue *oldest = of;
	struct queue_link *l;

	*ret = (struct queue_stats){
		.workers = q->n_asked, .free = q->n_free, .closed = q->closed
	};
	if (!queue) {
		memcpy(ret->n, q->n, sizeof(q->n));
		ret->put_back = q->put_back;
		ret->over = q->n_over;
		ret->bytes = q->bytes;
		ret->waiting = q->n_waiting;
		for (l = q->all.next; l != &q->all; l = l->next) {
			of = container_of(l, struct queue, all);
			if (of->error && (!oldest || of->error_order < oldest->error_order))
				oldest = of;
		}
	} else if (of) {
		memcpy(ret->n, of->n, sizeof(of->n));
		ret->put_back = of->put_back;
		ret->over = of->n_over;
		ret->bytes = of->bytes;
		ret->waiting = of->n_waiting;
	}
	if (oldest && oldest->error) {
		ret->has_error = true;
		ret->error = queue_err_view(oldest->error);
	} else if (q->failed) {
		ret->has_error = true;
		ret->error = queue_err_view(q->failed);
	}
}
