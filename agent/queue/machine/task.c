// SPDX-License-Identifier: Apache-2.0
/* One task, from when it is accepted until it is freed. */
#include "agent/queue/machine/private.h"

struct queue_task *queue_task_find(const struct queues *q, int64_t id)
{
	return queue_index_get(&q->tasks, id);
}

struct queue_extra *queue_task_extra(struct queue_task *t)
{
	if (t->extra)
		return t->extra;
	t->extra = calloc(1, sizeof(*t->extra));
	if (!t->extra)
		return NULL;
	t->extra->limit_ms = -1;
	link_init(&t->extra->watchers);
	return t->extra;
}

void queue_task_trim(struct queue_task *t)
{
	if (!t->extra || !link_empty(&t->extra->watchers))
		return;
	if (!queue_task_is_over(t) &&
		(t->extra->limit_ms >= 0 || t->extra->blame || t->extra->n_dead))
		return;
	free(t->extra->blame);
	free(t->extra);
	t->extra = NULL;
}

int64_t queue_task_limit(const struct queue_task *t)
{
	return t->extra ? t->extra->limit_ms : -1;
}

static void list_add(struct queue_list *l, struct queue_task *t)
{
	t->prev = l->last;
	t->next = NULL;
	if (l->last)
		l->last->next = t;
	else
		l->first = t;
	l->last = t;
}

static void list_del(struct queue_list *l, struct queue_task *t)
{
	if (t->prev)
		t->prev->next = t->next;
	else
		l->first = t->next;
	if (t->next)
		t->next->prev = t->prev;
	else
		l->last = t->prev;
	t->prev = t->next = NULL;
}

/* A shared error counts for one task only. */
static size_t task_bytes(const struct queue_task *t)
{
	if (t->state == QUEUE_FAILED || t->state == QUEUE_CANCELLED)
		return t->error->counted == (int64_t)t->id ? queue_err_len(t->error) : 0;
	return t->payload ? t->payload->len : 0;
}

static void count_bytes(struct queues *q, struct queue_task *t, bool more)
{
	size_t n = task_bytes(t);

	q->bytes += more ? n : -n;
	queue_lane_of(q, t)->of->bytes += more ? n : -n;
}

bool queue_task_fits(const struct queues *q, const struct queue_task *t, size_t n)
{
	size_t total = q->bytes - task_bytes(t) + n;

	return !q->opt.bytes || t->released || total <= q->opt.bytes ||
	       total - q->opt.bytes <= q->opt.bytes;
}

struct queue_task *queue_task_new(
	struct queues *q, struct queue_lane *lane, int64_t id, const struct queue_new *n)
{
	struct queue_task *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->id = (uint64_t)id & (((uint64_t)1 << 54) - 1);
	t->alone = n->alone;
	t->kept = lane->of->keepers > 0;
	t->worker = QUEUE_NO_WORKER;
	t->payload = queue_blob_new(&n->payload);
	if (!t->payload || (n->limit_ms >= 0 && !queue_task_extra(t)) ||
		queue_index_set(&q->tasks, id, t) < 0) {
		queue_task_free(t);
		return NULL;
	}
	if (t->extra)
		t->extra->limit_ms = n->limit_ms;
	t->lane = lane->number;
	lane->n++;
	t->state = QUEUE_QUEUED;
	q->n[QUEUE_QUEUED]++;
	lane->of->n[QUEUE_QUEUED]++;
	count_bytes(q, t, true);
	return t;
}

void queue_task_free(struct queue_task *t)
{
	if (t->state == QUEUE_FAILED || t->state == QUEUE_CANCELLED)
		queue_err_unref(t->error);
	else
		free(t->payload);
	if (t->extra)
		free(t->extra->blame);
	free(t->extra);
	free(t);
}

void queue_task_state(struct queues *q, struct queue_task *t, enum queue_state state)
{
	struct queue *of = queue_lane_of(q, t)->of;

	q->n[t->state]--;
	of->n[t->state]--;
	t->state = state & 7;
	q->n[state]++;
	of->n[state]++;
}

void queue_task_enqueue(struct queues *q, struct queue_task *t, uint64_t now_ms)
{
	struct queue_lane *l = queue_lane_of(q, t);
	bool first = !l->queued.first;

	if (t->state != QUEUE_QUEUED)
		queue_task_state(q, t, QUEUE_QUEUED);
	t->seq = ++q->next_seq & (((uint64_t)1 << 54) - 1);
	list_add(&l->queued, t);
	if (first)
		queue_lane_moved(l);
	queue_match_task(q, t, now_ms);
}

void queue_task_dequeue(struct queues *q, struct queue_task *t)
{
	struct queue_lane *l = queue_lane_of(q, t);
	bool first = l->queued.first == t;

	list_del(&l->queued, t);
	if (first)
		queue_lane_moved(l);
}

static void free_payload(struct queues *q, struct queue_task *t)
{
	count_bytes(q, t, false);
	free(t->payload);
	t->payload = NULL;
}

void queue_task_over(struct queues *q, struct queue_task *t, enum queue_state state,
	struct queue_blob *value, struct queue_err *error, uint64_t now_ms)
{
	struct queue *of = queue_lane_of(q, t)->of;

	if (t->state == QUEUE_QUEUED)
		queue_task_dequeue(q, t);
	free_payload(q, t);
	queue_task_state(q, t, state);
	if (state == QUEUE_SUCCEEDED)
		t->value = value;
	else
		t->error = error;
	if (error && error->refs && !error->counted)
		error->counted = (int64_t)t->id;
	count_bytes(q, t, true);
	list_add(&of->over, t);
	q->n_over++;
	of->n_over++;
	q->quiet_ms = now_ms;
	queue_watchers_over(q, t);
	queue_task_trim(t);
	queue_changed(q, of);
	queue_task_forget(q, t);
}

void queue_task_forget(struct queues *q, struct queue_task *t)
{
	struct queue_lane *l = queue_lane_of(q, t);
	struct queue *of = l->of;

	if (!t->released || !queue_task_is_over(t) ||
		(t->extra && !link_empty(&t->extra->watchers)))
		return;
	count_bytes(q, t, false);
	list_del(&of->over, t);
	q->n[t->state]--;
	of->n[t->state]--;
	queue_index_del(&q->tasks, (int64_t)t->id);
	queue_task_free(t);
	l->n--;
	if (!l->n && l->set->mask)
		queue_lane_put(q, l);
	queue_changed(q, of);
}
