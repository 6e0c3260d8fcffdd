// SPDX-License-Identifier: Apache-2.0
/* Resources. Each has a bit; workers have masks of those they have built, sets of those they need.
 */
#include "agent/queue/machine/private.h"

struct queue_resource *queue_resource_unref(struct queue_resource *r)
{
	if (!r || --r->refs)
		return NULL;
	free(r->payload);
	free(r);
	return NULL;
}

struct queue_resource *queue_resource_find(const struct queues *q, const char *name)
{
	for (int i = 0; i < QUEUE_RESOURCES_MAX; i++)
		if (q->resources[i] && strcmp(q->resources[i]->name, name) == 0)
			return q->resources[i];
	return NULL;
}

struct queue_resource *queue_to_build(const struct queues *q, const struct queue_worker *k)
{
	struct queue_resource *first = NULL;
	uint64_t has = k->ready | k->failed | k->building;

	if ((has & q->resource_bits) == q->resource_bits)
		return NULL;
	for (int i = 0; i < QUEUE_RESOURCES_MAX; i++) {
		struct queue_resource *r = q->resources[i];

		if (r && !(has >> i & 1) && (!first || r->order < first->order))
			first = r;
	}
	return first;
}

static void feed_all(struct queues *q, uint64_t now_ms)
{
	for (size_t i = 0; i < q->n_workers; i++)
		if (q->workers[i] && q->workers[i]->alive)
			queue_worker_feed(q, q->workers[i], now_ms);
}

enum status queue_resource_create(
	struct queues *q, const char *name, const struct queue_bytes *payload, uint64_t now_ms)
{
	_cleanup_free_ struct queue_resource *r = NULL;
	int bit = 0;

	if (!queue_name_ok(name, false) || !queue_bytes_ok(payload))
		return STATUS_INVALID_ARGUMENT;
	if (queue_resource_find(q, name))
		return STATUS_ALREADY_EXISTS;
	while (bit < QUEUE_RESOURCES_MAX && q->resources[bit])
		bit++;
	r = bit < QUEUE_RESOURCES_MAX ? calloc(1, sizeof(*r)) : NULL;
	if (!r)
		return STATUS_RESOURCE_EXHAUSTED;
	r->payload = queue_blob_new(payload);
	if (!r->payload)
		return STATUS_RESOURCE_EXHAUSTED;
	r->refs = 1;
	r->bit = bit;
	r->order = ++q->next_order;
	memcpy(r->name, name, strlen(name) + 1);
	q->resources[bit] = TAKE_PTR(r);
	q->resource_bits |= UINT64_C(1) << bit;
	queue_note(q, QUEUE_REC_RESOURCE, -1, name);
	queue_fail_hopeless(q, now_ms);
	feed_all(q, now_ms);
	queue_settle(q, now_ms);
	return STATUS_OK;
}

/* --- dropped */

static void fail_leases(struct queues *q, const struct queue_resource *r, uint64_t bit,
	struct queue_err *err, uint64_t now_ms)
{
	struct queue_lease *l = NULL;
	int64_t at = -1;

	while ((l = queue_index_after(&q->leases, at))) {
		at = l->id;
		if (l->active && l->resource == r)
			queue_lease_cancel(q, l, QUEUE_CANCELLED, queue_err_ref(err), now_ms);
		if (!l->active || l->cancelled || !l->task || !(l->set->mask & bit))
			continue;
		queue_lease_fail(q, l, queue_err_ref(err), now_ms);
	}
}

static struct queue_task *queued_with(const struct queues *q, uint64_t bit)
{
	for (const struct queue_set *s = q->sets; s; s = s->next)
		if ((s->mask & bit) && queue_set_first(s))
			return queue_set_first(s);
	return NULL;
}

enum status queue_resource_drop(struct queues *q, const char *name, uint64_t now_ms)
{
	struct queue_resource *r = queue_resource_find(q, name);
	struct queue_set *s, *next;
	struct queue_task *t;
	struct queue_err *err;
	uint64_t bit;

	if (!r)
		return STATUS_NOT_FOUND;
	bit = UINT64_C(1) << r->bit;
	err = queue_err_printf(STATUS_NOT_FOUND, -1, -1, "resource %s was dropped", name);
	while ((t = queued_with(q, bit)))
		queue_task_fail(q, t, queue_err_ref(err), now_ms);
	fail_leases(q, r, bit, err, now_ms);
	/* The order of the failures is in the journal by now. */
	queue_note(q, QUEUE_REC_DROP, -1, name);
	for (s = q->sets; s; s = next) {
		next = s->next;
		if (s->mask & bit) {
			s->dropped = true;
			queue_set_drop(q, s);
		}
	}
	for (size_t i = 0; i < q->n_workers; i++) {
		struct queue_worker *k = q->workers[i];

		if (!k)
			continue;
		k->ready &= ~bit;
		k->failed &= ~bit;
		k->building &= ~bit;
		if (k->errors) {
			queue_err_unref(k->errors[r->bit]);
			k->errors[r->bit] = NULL;
		}
	}
	q->resources[r->bit] = NULL;
	q->resource_bits &= ~bit;
	r->bit = -1;
	queue_resource_unref(r);
	queue_err_unref(err);
	queue_fail_hopeless(q, now_ms);
	feed_all(q, now_ms);
	queue_settle(q, now_ms);
	return STATUS_OK;
}

/* --- built */

void queue_build_done(struct queue_lease *l, struct queue_err *err)
{
	struct queue_worker *k = l->worker;
	int bit = l->resource->bit;

	if (bit < 0) {
		queue_err_unref(err);
		return;
	}
	k->building &= ~(UINT64_C(1) << bit);
	if (!err) {
		k->ready |= UINT64_C(1) << bit;
		return;
	}
	k->failed |= UINT64_C(1) << bit;
	if (!k->errors)
		k->errors = calloc(QUEUE_RESOURCES_MAX, sizeof(struct queue_err *));
	if (!k->errors) {
		queue_err_unref(err);
		return;
	}
	queue_err_unref(k->errors[bit]);
	k->errors[bit] = err;
}

/* The i-th by name. */
static const struct queue_resource *resource_at(const struct queues *q, size_t i)
{
	const struct queue_resource *last = NULL;

	for (size_t n = 0; n <= i; n++) {
		const struct queue_resource *next = NULL;

		for (int j = 0; j < QUEUE_RESOURCES_MAX; j++) {
			const struct queue_resource *r = q->resources[j];

			if (r && (!last || strcmp(r->name, last->name) > 0) &&
				(!next || strcmp(r->name, next->name) < 0))
				next = r;
		}
		if (!next)
			return NULL;
		last = next;
	}
	return last;
}

bool queue_resource_view(const struct queues *q, size_t i, struct queue_resource_view *ret)
{
	const struct queue_resource *r = resource_at(q, i);

	if (!r)
		return false;
	*ret = (struct queue_resource_view){ .name = r->name };
	for (size_t j = 0; j < q->n_workers; j++) {
		const struct queue_worker *k = q->workers[j];

		if (!k)
			continue;
		ret->ready += k->ready >> r->bit & 1;
		ret->building += k->building >> r->bit & 1;
		ret->failed += k->failed >> r->bit & 1;
	}
	return true;
}

bool queue_resource_error(const struct queues *q, size_t i, int worker, struct queue_error *ret)
{
	const struct queue_resource *r = resource_at(q, i);
	const struct queue_worker *k = queue_worker_find(q, worker);

	if (!r || !k || !(k->failed >> r->bit & 1))
		return false;
	*ret = queue_err_view(k->errors ? k->errors[r->bit] : NULL);
	if (!k->errors || !k->errors[r->bit])
		*ret = (struct queue_error){ STATUS_UNKNOWN, "", "", worker, -1 };
	return true;
}
