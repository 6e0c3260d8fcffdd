/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations are copied into a queue; each turn of the loop does those that were there at its
 * beginning, one after the other. After each, the watches get its
 * changes from the history, which they share, and then the caller gets the answer, with entries
 * that point into the map. Nothing changes the map while a callback runs, because operations
 * started by a callback wait for the next turn.
 */
#include "agent/store/store.h"

#include "agent/store/store_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void on_turn(void *arg);

int store_post(struct store *s)
{
	return loop_defer(s->loop, on_turn, s);
}

struct store_entry store_entry(const struct record *r)
{
	return (struct store_entry){
		.key = r->key,
		.value = record_value(r),
		.len = r->len,
		.revision = r->revision,
	};
}

static void op_free(struct store_op *op)
{
	record_unref(op->record);
	free(op);
}

static void ops_free(struct store_ops *ops)
{
	struct store_op *op;

	while ((op = STAILQ_FIRST(ops))) {
		STAILQ_REMOVE_HEAD(ops, link);
		op_free(op);
	}
}

static void store_destroy(struct store *s)
{
	loop_cancel(s->loop, on_turn, s);
	ops_free(&s->queue);
	ops_free(&s->now);
	store_watches_orphan(s);
	map_fini(&s->map);
	history_fini(&s->history);
	free(s->entries);
	free(s);
}

void store_enter(struct store *s)
{
	s->busy++;
}

void store_leave(struct store *s)
{
	if (--s->busy == 0 && s->dead)
		store_destroy(s);
}

struct store *store_free(struct store *s)
{
	if (!s)
		return NULL;
	s->dead = true;
	if (!s->busy)
		store_destroy(s);
	return NULL;
}

static void on_turn(void *arg)
{
	struct store *s = arg;
	struct store_op *op;

	store_enter(s);
	STAILQ_CONCAT(&s->now, &s->queue);
	while (!s->dead && (op = STAILQ_FIRST(&s->now))) {
		store_run(s, op);
		STAILQ_REMOVE_HEAD(&s->now, link);
		op_free(op);
	}
	store_report(s);
	store_leave(s);
}

int store_new(struct loop *loop, size_t max_bytes, struct store **ret)
{
	struct store *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->max_bytes = max_bytes;
	STAILQ_INIT(&s->queue);
	STAILQ_INIT(&s->now);
	TAILQ_INIT(&s->watches);
	map_init(&s->map);
	r = history_init(&s->history, max_bytes / 4);
	if (r < 0) {
		store_destroy(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* --- requests --- */

/* Borrowed during the call. */
struct request {
	enum store_kind kind;
	const struct store_put *put;	/* PUT */
	const struct store_span *spans; /* RANGE, DELETE */
	size_t n;
};

static char *copy_text(char **at, const char *key)
{
	size_t n = strlen(key) + 1;
	char *kept = memcpy(*at, key, n);

	*at += n;
	return kept;
}

static size_t text_size(const struct request *request)
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

static struct store_op *op_new(const struct request *request)
{
	const struct store_put *put = request->put;
	struct store_op *op = malloc(sizeof(*op) + text_size(request));
	char *at;

	if (!op)
		return NULL;
	at = op->text;
	op->kind = request->kind;
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
	op->other = put->other ? copy_text(&at, put->other) : NULL;
	op->record = store_record_new(put->key, put->value, put->len);
	if (!op->record) {
		free(op);
		return NULL;
	}
	return op;
}

static int store_start(struct store *s, const struct request *request, store_answer_fn fn,
	void *arg, struct store_op **ret)
{
	struct store_op *op = op_new(request);

	if (!op)
		return -ENOMEM;
	if (STAILQ_EMPTY(&s->queue) && store_post(s) < 0) {
		op_free(op);
		return -ENOMEM;
	}
	op->fn = fn;
	op->arg = arg;
	STAILQ_INSERT_TAIL(&s->queue, op, link);
	if (ret)
		*ret = op;
	return 0;
}

static bool key_fits(const char *key)
{
	size_t n = strnlen(key, STORE_KEY_MAX + 1);

	return n > 0 && n <= STORE_KEY_MAX;
}

bool store_span_fits(const struct store_span *span)
{
	if (!span->end)
		return key_fits(span->begin);
	return (!*span->begin || key_fits(span->begin)) && (!*span->end || key_fits(span->end));
}

static bool spans_fit(const struct store_span *spans, size_t n)
{
	if (n > STORE_SPANS_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!store_span_fits(&spans[i]))
			return false;
	return true;
}

int store_put(struct store *s, const struct store_put *put, store_answer_fn fn, void *arg,
	struct store_op **ret)
{
	const struct request request = { .kind = STORE_PUT, .put = put };

	if (!key_fits(put->key) || put->len > STORE_VALUE_MAX)
		return -EINVAL;
	if (put->other && (!key_fits(put->other) || strcmp(put->key, put->other) == 0))
		return -EINVAL;
	return store_start(s, &request, fn, arg, ret);
}

int store_range(struct store *s, const struct store_span *spans, size_t n, store_answer_fn fn,
	void *arg, struct store_op **ret)
{
	const struct request request = { .kind = STORE_RANGE, .spans = spans, .n = n };

	return spans_fit(spans, n) ? store_start(s, &request, fn, arg, ret) : -EINVAL;
}

int store_delete(struct store *s, const struct store_span *spans, size_t n, store_answer_fn fn,
	void *arg, struct store_op **ret)
{
	const struct request request = { .kind = STORE_DELETE, .spans = spans, .n = n };

	return spans_fit(spans, n) ? store_start(s, &request, fn, arg, ret) : -EINVAL;
}

struct store_op *store_cancel(struct store_op *op)
{
	if (op)
		op->fn = NULL;
	return NULL;
}
