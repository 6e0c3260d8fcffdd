/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store in this process's memory. Operations are copied into a queue; each turn of the loop
 * does those that were there at its beginning, one after the other. After each, the watches get its
 * changes from the history, which they share, and then the caller gets the answer, with entries
 * that point into the map. Nothing changes the map while a callback runs, because operations
 * started by a callback wait for the next turn.
 */
#include "agent/store/store.h"

#include "agent/store/memory_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void on_turn(void *arg);

void memory_post(struct memory *m)
{
	if (loop_defer(m->loop, on_turn, m) < 0) {
		m->timer_ms = 0;
		loop_timer_arm(m->timer, 0);
	}
}

struct store_entry memory_entry(const struct record *r)
{
	return (struct store_entry){
		.key = r->key,
		.value = record_value(r),
		.len = r->len,
		.revision = r->revision,
		.create_revision = r->create_revision,
		.lease = r->lease,
	};
}

static void op_free(struct memory_op *op)
{
	record_unref(op->record);
	free(op);
}

static void ops_free(struct memory_ops *ops)
{
	struct memory_op *op;

	while ((op = STAILQ_FIRST(ops))) {
		STAILQ_REMOVE_HEAD(ops, link);
		op_free(op);
	}
}

static void memory_destroy(struct memory *m)
{
	loop_cancel(m->loop, on_turn, m);
	ops_free(&m->queue);
	ops_free(&m->now);
	memory_watches_orphan(m);
	memory_leases_free(m);
	map_fini(&m->map);
	history_fini(&m->history);
	loop_timer_free(m->timer);
	free(m->entries);
	free(m);
}

void memory_enter(struct memory *m)
{
	m->busy++;
}

void memory_leave(struct memory *m)
{
	if (--m->busy == 0 && m->dead)
		memory_destroy(m);
}

static void memory_free(struct store *s)
{
	struct memory *m = (struct memory *)s;

	m->dead = true;
	if (!m->busy)
		memory_destroy(m);
}

static void on_turn(void *arg)
{
	struct memory *m = arg;
	struct memory_op *op;

	memory_enter(m);
	STAILQ_CONCAT(&m->now, &m->queue);
	while (!m->dead && (op = STAILQ_FIRST(&m->now))) {
		memory_run(m, op);
		STAILQ_REMOVE_HEAD(&m->now, link);
		op_free(op);
	}
	memory_report(m);
	memory_leave(m);
}

static void on_timer(void *arg)
{
	struct memory *m = arg;

	memory_enter(m);
	memory_leases_expire(m);
	on_turn(m);
	memory_leave(m);
}

static char *copy_text(char **at, const char *key)
{
	size_t n = strlen(key) + 1;
	char *kept = memcpy(*at, key, n);

	*at += n;
	return kept;
}

static size_t text_size(const struct store_request *request)
{
	size_t n = 0;

	for (size_t i = 0; i < request->n; i++) {
		n += strlen(request->spans[i].begin) + 1;
		n += request->spans[i].end ? strlen(request->spans[i].end) + 1 : 0;
	}
	if (request->put && request->put->other)
		n += strlen(request->put->other) + 1;
	return n;
}

static struct memory_op *op_new(const struct store_request *request)
{
	const struct store_put *put = request->put;
	struct memory_op *op = malloc(sizeof(*op) + text_size(request));
	char *at;

	if (!op)
		return NULL;
	at = op->text;
	op->kind = request->kind;
	op->fn = request->fn;
	op->arg = request->arg;
	op->limit = request->limit;
	op->ttl_ms = request->ttl_ms;
	op->lease = request->lease;
	op->record = NULL;
	op->other = NULL;
	op->n = request->n;
	for (size_t i = 0; i < op->n; i++) {
		const struct store_span *span = &request->spans[i];

		op->spans[i].begin = copy_text(&at, span->begin);
		op->spans[i].end = span->end ? copy_text(&at, span->end) : NULL;
	}
	if (!put)
		return op;
	op->create = put->create;
	op->lease = put->lease;
	op->other = put->other ? copy_text(&at, put->other) : NULL;
	op->record = store_record_new(put->key, put->value, put->len);
	if (!op->record) {
		free(op);
		return NULL;
	}
	return op;
}

static int memory_start(struct store *s, const struct store_request *request, struct store_op **ret)
{
	struct memory *m = (struct memory *)s;
	struct memory_op *op = op_new(request);

	if (!op)
		return -ENOMEM;
	op->base.ops = s->ops;
	if (STAILQ_EMPTY(&m->queue))
		memory_post(m);
	STAILQ_INSERT_TAIL(&m->queue, op, link);
	*ret = &op->base;
	return 0;
}

static void memory_cancel(struct store_op *op)
{
	((struct memory_op *)op)->fn = NULL;
}

static const struct store_ops ops = {
	.start = memory_start,
	.cancel = memory_cancel,
	.watch_new = memory_watch_new,
	.watch_free = memory_watch_free,
	.free = memory_free,
};

int store_memory_new(struct loop *loop, size_t max_bytes, struct store **ret)
{
	struct memory *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->base.ops = &ops;
	m->loop = loop;
	m->max_bytes = max_bytes;
	m->now_ms = loop_now_ms;
	STAILQ_INIT(&m->queue);
	STAILQ_INIT(&m->now);
	TAILQ_INIT(&m->watches);
	LIST_INIT(&m->leases);
	map_init(&m->map);
	r = history_init(&m->history, max_bytes / 4);
	if (r >= 0)
		r = loop_timer_new(loop, on_timer, m, &m->timer);
	if (r < 0) {
		memory_destroy(m);
		return r;
	}
	*ret = &m->base;
	return 0;
}

void store_memory_set_clock(struct store *s, uint64_t (*now_ms)(void))
{
	((struct memory *)s)->now_ms = now_ms;
}
