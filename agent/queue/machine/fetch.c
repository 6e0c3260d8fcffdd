// SPDX-License-Identifier: Apache-2.0
/* Waits for outcomes. A wait watches all its tasks, which are kept meanwhile. */
#include "agent/queue/machine/private.h"

void queue_watchers_over(struct queues *q, struct queue_task *t)
{
	struct queue_link *l, *tmp;

	if (!t->extra)
		return;
	LINK_FOREACH(l, tmp, &t->extra->watchers)
	{
		struct queue_wait *w = container_of(l, struct queue_watch, link)->wait;

		if (w->is_over)
			continue;
		w->left--;
		if (w->any || !w->left)
			queue_wait_end(q, w, NULL);
	}
}

struct fetch { /* a wait's `more` */
	size_t n;
	int64_t *ids;
	struct queue_watch watches[];
};

void queue_fetch_fini(struct queues *q, struct queue_wait *w)
{
	struct fetch *f = w->more;

	if (!f)
		return;
	queue_watch_end(f->watches, f->n);
	for (size_t i = 0; i < f->n; i++) {
		struct queue_task *t = queue_task_find(q, f->ids[i]);

		if (!t)
			continue; /* twice in the same fetch */
		queue_task_trim(t);
		queue_task_forget(q, t);
	}
	free(f);
	w->more = NULL;
}

/* Watches all tasks, or returns the error of the first that does not exist. */
static struct queue_err *fetch_watch(
	struct queues *q, struct queue_wait *w, struct fetch *f, const int64_t *ids, size_t n)
{
	f->ids = (int64_t *)(f->watches + n);
	w->more = f;
	for (size_t i = 0; i < n; i++) {
		struct queue_task *t = queue_task_find(q, ids[i]);
		struct queue_extra *x;

		if (!t || t->released)
			return queue_err_printf(STATUS_NOT_FOUND, -1, ids[i],
				"there is no task %lld: %s", (long long)ids[i],
				ids[i] > 0 && ids[i] < q->next_task
					? "it was released, or was of an agent that was lost"
					: "there never was");
		x = queue_task_extra(t);
		if (!x)
			return queue_err_sure(STATUS_RESOURCE_EXHAUSTED, NULL);
		f->watches[i].wait = w;
		link_add(&x->watchers, &f->watches[i].link);
		f->ids[i] = ids[i];
		f->n = i + 1;
		w->left += !queue_task_is_over(t);
	}
	return NULL;
}

void queue_fetch_raise(struct queues *q, struct queue_wait *w)
{
	const struct fetch *f = w->more;

	for (size_t i = 0; w->outside && i < f->n; i++) {
		const struct queue_task *t = queue_task_find(q, f->ids[i]);

		if (t)
			queue_loss_told(q, queue_lane_of(q, t)->of);
	}
	queue_wait_raise(q, w, q->failed);
}

void queue_fetch(struct queues *q, struct queue_wait *w, const int64_t *ids, size_t n, bool any,
	uint64_t deadline_ms, uint64_t now_ms)
{
	struct fetch *f;
	struct queue_err *err;

	if (!queue_wait_begin(q, w, QUEUE_WAIT_FETCH))
		return;
	f = calloc(1, sizeof(*f) + n * (sizeof(f->watches[0]) + sizeof(*f->ids)));
	if (!f) {
		queue_wait_end_text(q, w, STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	err = fetch_watch(q, w, f, ids, n);
	w->any = any;
	w->n = n;
	if (err) {
		queue_wait_end(q, w, err);
		queue_fetch_fini(q, w);
	} else if (!w->left || (any && w->left < n)) {
		queue_wait_end(q, w, NULL);
	} else if (q->failed) {
		queue_fetch_raise(q, w);
	} else {
		link_add(&q->fetches, &w->link);
		queue_wait_park(q, w, deadline_ms, now_ms);
	}
}

bool queue_task_release(struct queues *q, int64_t id)
{
	struct queue_task *t = queue_task_find(q, id);

	if (!t || t->released)
		return false;
	t->released = true;
	queue_note(q, QUEUE_REC_RELEASE, id, NULL);
	queue_task_forget(q, t);
	return true;
}

size_t queue_release(struct queues *q, const int64_t *ids, size_t n, uint64_t now_ms)
{
	size_t released = 0;

	for (size_t i = 0; i < n; i++)
		released += queue_task_release(q, ids[i]);
	queue_settle(q, now_ms);
	return released;
}

static void outcome_of(
	const struct queues *q, const struct queue_task *t, struct queue_outcome *ret)
{
	*ret = (struct queue_outcome){ .task = (int64_t)t->id,
		.queue = queue_lane_of(q, t)->of->name,
		.state = (enum queue_state)t->state,
		.value = queue_blob_bytes(t->state == QUEUE_SUCCEEDED ? t->value : NULL),
		.worker = t->worker == QUEUE_NO_WORKER ? -1 : t->worker,
		.tries = t->tries };
	if (t->state == QUEUE_FAILED || t->state == QUEUE_CANCELLED) {
		ret->error = queue_err_view(t->error);
		return;
	}
	ret->error = queue_err_view(NULL);
	ret->bytes = t->payload ? t->payload->len : 0;
	if (t->state == QUEUE_RUNNING)
		ret->since_ms = t->lease->since_ms;
}

bool queue_outcome(const struct queues *q, int64_t task, struct queue_outcome *ret)
{
	const struct queue_task *t = queue_task_find(q, task);

	if (!t)
		return false;
	outcome_of(q, t, ret);
	return true;
}

bool queue_after(const struct queues *q, const char *queue, int64_t task, struct queue_outcome *ret)
{
	const struct queue_task *t = queue_index_after(&q->tasks, task);

	while (t && ((queue && strcmp(queue_lane_of(q, t)->of->name, queue) != 0) ||
			    (t->released && queue_task_is_over(t))))
		t = queue_index_after(&q->tasks, (int64_t)t->id);
	if (!t)
		return false;
	outcome_of(q, t, ret);
	return true;
}
