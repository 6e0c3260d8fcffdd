// SPDX-License-Identifier: Apache-2.0
/* Tells the caller what to do: records first, then messages. */
#include "agent/queue/machine/private.h"

#include <stdarg.h>

bool queue_event_add(struct queues *q, enum queue_order_what what, const char *event, int worker,
	const char *fmt, ...)
{
	struct queue_event *e;
	char text[512];
	va_list ap;

	if (q->n_events >= QUEUE_EVENTS_MAX)
		return false;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	e = malloc(sizeof(*e) + strlen(text) + 1);
	if (!e)
		return false;
	*e = (struct queue_event){ .what = what, .worker = worker, .event = event };
	memcpy(e->text, text, strlen(text) + 1);
	link_add(&q->events, &e->link);
	q->n_events++;
	return true;
}

static void notes_drop(struct queues *q)
{
	while (!link_empty(&q->notes)) {
		struct queue_note *n = LINK_FIRST(&q->notes, struct queue_note, link);

		link_del(&n->link);
		free(n);
	}
}

/* True for a queue with a keeper: the journal does not need its tasks. */
static bool is_private(
	const struct queues *q, enum queue_record_kind kind, int64_t task, const char *name)
{
	const struct queue_task *t = task >= 0 ? queue_task_find(q, task) : NULL;
	const struct queue *of = NULL;

	if (kind == QUEUE_REC_ERROR || kind == QUEUE_REC_RAISED || kind == QUEUE_REC_LOSS ||
		kind == QUEUE_REC_LOSS_TOLD)
		of = queue_find(q, name);
	return (t && t->kept) || (of && of->keepers);
}

void queue_note_all(struct queues *q)
{
	if (!q->opt.journal || q->restoring)
		return;
	q->stale_notes = true;
}

void queue_note(struct queues *q, enum queue_record_kind kind, int64_t task, const char *name)
{
	struct queue_note *n;
	size_t len = name ? strlen(name) : 0;

	if (!q->opt.journal || q->lost_note || q->restoring || is_private(q, kind, task, name))
		return;
	n = malloc(sizeof(*n) + len + 1);
	if (!n) {
		/* The journal is written again, and includes this. */
		notes_drop(q);
		q->lost_note = true;
		return;
	}
	*n = (struct queue_note){ .kind = kind, .task = task, .name = n->text };
	memcpy(n->text, name ? name : "", len + 1);
	link_add(&q->notes, &n->link);
}

void queue_orders_fini(struct queues *q)
{
	notes_drop(q);
	free(q->note);
	while (!link_empty(&q->events)) {
		struct queue_event *e = LINK_FIRST(&q->events, struct queue_event, link);

		link_del(&e->link);
		free(e);
	}
}

static void describe_submit(
	const struct queues *q, const struct queue_task *t, struct queue_record *r)
{
	const struct queue_lane *l = queue_lane_of(q, t);

	r->queue = l->of->name;
	r->payload = queue_blob_bytes(queue_task_is_over(t) ? NULL : t->payload);
	r->needs = l->set->names;
	/* Its resources may be gone. */
	r->n_needs = queue_task_is_over(t) || l->set->dropped ? 0 : l->set->n;
	r->limit_ms = queue_task_limit(t);
	r->flag = t->alone;
}

/* True when no task has the queue's error. */
bool queue_error_is_bare(const struct queues *q, const struct queue *of)
{
	return of->error && (of->error->task < 0 || !queue_task_find(q, of->error->task));
}

bool queue_describe(const struct queues *q, const struct queue_note *n, struct queue_record *ret)
{
	const struct queue_task *t = n->task >= 0 ? queue_task_find(q, n->task) : NULL;

	*ret = (struct queue_record){ .kind = n->kind,
		.task = n->task,
		.limit_ms = -1,
		.queue = n->name,
		.payload = queue_blob_bytes(NULL),
		.error = queue_err_view(NULL) };
	if (n->kind == QUEUE_REC_RESOURCE) {
		const struct queue_resource *r = queue_resource_find(q, n->name);

		if (r)
			ret->payload = queue_blob_bytes(r->payload);
		return r;
	}
	if (n->kind == QUEUE_REC_ERROR) {
		const struct queue *of = queue_find(q, n->name);

		ret->error = queue_err_view(of ? of->error : NULL);
		return of && queue_error_is_bare(q, of);
	}
	if (n->kind == QUEUE_REC_LOSS) {
		const struct queue *of = queue_find(q, n->name);

		ret->error = queue_err_view(of ? of->loss : NULL);
		ret->number = of ? of->loss_exit_code : -1;
		return of && of->loss;
	}
	if (n->task < 0 || n->kind == QUEUE_REC_RELEASE)
		return true;
	if (!t) {
		/* It was released before it was over: the journal needs only the end. */
		ret->kind = QUEUE_REC_CANCEL;
		return n->kind == QUEUE_REC_SUCCEED || n->kind == QUEUE_REC_FAIL ||
		       n->kind == QUEUE_REC_CANCEL;
	}
	ret->number = t->tries;
	switch (n->kind) {
	case QUEUE_REC_SUBMIT:
		ret->number = 0;
		describe_submit(q, t, ret);
		break;
	case QUEUE_REC_SUCCEED:
		ret->payload = queue_blob_bytes(t->value);
		ret->error.worker = t->worker == QUEUE_NO_WORKER ? -1 : t->worker;
		break;
	case QUEUE_REC_FAIL:
	case QUEUE_REC_CANCEL:
		ret->flag = n->kind == QUEUE_REC_FAIL && t->raised;
		ret->error = queue_err_view(queue_task_is_over(t) ? t->error : t->lease->why);
		break;
	default:
		ret->limit_ms = t->deaths;
		break;
	}
	return true;
}

static bool next_note(struct queues *q, struct queue_order *ret)
{
	while (!link_empty(&q->notes)) {
		free(q->note);
		q->note = LINK_FIRST(&q->notes, struct queue_note, link);
		link_del(&q->note->link);
		if (queue_describe(q, q->note, &ret->record)) {
			ret->what = QUEUE_ORDER_RECORD;
			return true;
		}
	}
	return false;
}

static bool next_event(struct queues *q, struct queue_order *ret)
{
	struct queue_event *e = LINK_FIRST(&q->events, struct queue_event, link);

	if (!e)
		return false;
	ret->what = e->what;
	ret->worker = e->worker;
	ret->event = e->event;
	snprintf(ret->text, sizeof(ret->text), "%s", e->text);
	link_del(&e->link);
	q->n_events--;
	free(e);
	return true;
}

static void next_cancel(struct queue_lease *l, struct queue_order *ret)
{
	link_del(&l->to_cancel);
	ret->what = QUEUE_ORDER_CANCEL;
	ret->worker = l->worker->number;
	ret->lease = l->id;
	snprintf(ret->text, sizeof(ret->text), "%s", l->why ? l->why->message : "");
}

enum queue_order_what queue_next_order(struct queues *q, struct queue_order *ret)
{
	struct queue_lease *l;
	struct queue_worker *k;

	ret->what = QUEUE_ORDER_NOTHING;
	ret->worker = -1;
	ret->lease = -1;
	ret->event = "";
	ret->text[0] = '\0';
	if (q->lost_note) {
		q->lost_note = false;
		ret->what = QUEUE_ORDER_RECORD_LOST;
		return ret->what;
	}
	if (next_note(q, ret))
		return ret->what;
	if (q->stale_notes) {
		q->stale_notes = false;
		ret->what = QUEUE_ORDER_STALE;
		return ret->what;
	}
	l = LINK_FIRST(&q->cancelled, struct queue_lease, to_cancel);
	if (l) {
		next_cancel(l, ret);
		return ret->what;
	}
	if (next_event(q, ret))
		return ret->what;
	k = LINK_FIRST(&q->kills, struct queue_worker, kills);
	if (k) {
		link_del(&k->kills);
		ret->what = QUEUE_ORDER_KILL;
		ret->worker = k->number;
	}
	return ret->what;
}
