/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A store as it may be far away: everything takes some turns, in order; operations fail, before or
 * after they have happened; watches break off. What it keeps is in a store in memory.
 */

#include "agent/store/private.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/queue.h>

struct late_answer {
	struct store_answer answer;
	struct store_entry *entries;
};

struct late_op {
	struct store_op base;
	STAILQ_ENTRY(late_op) link;
	struct late *late;
	struct store_request request;
	struct store_put put;
	struct store_span spans[STORE_SPANS_MAX];
	void *kept[2 * STORE_SPANS_MAX + 3];
	size_t n_kept;
	store_answer_fn fn;
	void *arg;
	int turns;
	bool fails, happens;
	struct late_answer got;
};

struct late_change {
	STAILQ_ENTRY(late_change) link;
	struct store_entry entry;
	bool gap;
	int turns;
};

struct late_watch {
	struct store_watch base;
	LIST_ENTRY(late_watch) link;
	struct late *late;
	struct store_watch *inner;
	STAILQ_HEAD(, late_change) changes;
	store_change_fn fn; /* NULL: over */
	void *arg;
	bool telling, freed;
};

struct late {
	struct store base;
	struct loop *loop;
	struct store *inner;
	STAILQ_HEAD(late_ops, late_op) there, back; /* on their way */
	LIST_HEAD(, late_watch) watches;
	unsigned random;
	int turns_max, fail_percent, gap_percent;
};

static void late_tick(void *arg);

static inline unsigned late_random(struct late *l)
{
	l->random = l->random * 1664525u + 1013904223u;
	return l->random >> 8;
}

static inline int late_turns(struct late *l)
{
	return l->turns_max ? (int)(late_random(l) % (unsigned)(l->turns_max + 1)) : 0;
}

static inline bool late_chance(struct late *l, int percent)
{
	return (int)(late_random(l) % 100) < percent;
}

static inline void late_post(struct late *l)
{
	ck_assert_int_eq(loop_defer(l->loop, late_tick, l), 0);
}

static inline void *late_copy(const void *data, size_t len)
{
	char *copy = malloc(len + 1);

	ck_assert_ptr_nonnull(copy);
	if (len)
		memcpy(copy, data, len);
	copy[len] = '\0';
	return copy;
}

static inline struct store_entry late_entry(const struct store_entry *e)
{
	struct store_entry copy = *e;

	copy.key = late_copy(e->key, strlen(e->key));
	copy.value = e->value ? late_copy(e->value, e->len) : NULL;
	return copy;
}

static inline void late_entry_free(struct store_entry *e)
{
	free((void *)(uintptr_t)e->key);
	free((void *)(uintptr_t)e->value);
}

static inline const void *late_keep(struct late_op *op, const void *data, size_t len)
{
	return data ? op->kept[op->n_kept++] = late_copy(data, len) : NULL;
}

static inline const char *late_keep_key(struct late_op *op, const char *key)
{
	return late_keep(op, key, key ? strlen(key) : 0);
}

static inline void late_op_free(struct late_op *op)
{
	for (size_t i = 0; i < op->n_kept; i++)
		free(op->kept[i]);
	for (size_t i = 0; i < op->got.answer.n; i++)
		late_entry_free(&op->got.entries[i]);
	free(op->got.entries);
	free(op);
}

static inline int late_start(
	struct store *s, const struct store_request *request, struct store_op **ret)
{
	struct late *l = (struct late *)s;
	struct late_op *op = calloc(1, sizeof(*op));

	ck_assert_ptr_nonnull(op);
	op->base.ops = s->ops;
	op->late = l;
	op->request = *request;
	op->fn = request->fn;
	op->arg = request->arg;
	op->turns = late_turns(l);
	op->fails = late_chance(l, l->fail_percent);
	op->happens = !op->fails || late_chance(l, 50);
	if (request->put) {
		op->put = *request->put;
		op->put.key = late_keep_key(op, op->put.key);
		op->put.other = late_keep_key(op, op->put.other);
		op->put.value = late_keep(op, op->put.value, op->put.len);
	}
	for (size_t i = 0; i < request->n; i++) {
		op->spans[i].begin = late_keep_key(op, request->spans[i].begin);
		op->spans[i].end = late_keep_key(op, request->spans[i].end);
	}
	STAILQ_INSERT_TAIL(&l->there, op, link);
	late_post(l);
	*ret = &op->base;
	return 0;
}

static inline void late_cancel(struct store_op *op)
{
	((struct late_op *)op)->fn = NULL;
}

/* The answer comes back. */
static inline void late_answered(void *arg, const struct store_answer *answer)
{
	struct late_op *op = arg;

	op->turns = late_turns(op->late);
	if (op->fails) {
		op->got.answer = (struct store_answer){ .status = STATUS_UNAVAILABLE,
			.message = "the store is away" };
	} else {
		op->got.answer = *answer;
		op->got.entries = calloc(answer->n + 1, sizeof(*op->got.entries));
		ck_assert_ptr_nonnull(op->got.entries);
		for (size_t i = 0; i < answer->n; i++)
			op->got.entries[i] = late_entry(&answer->entries[i]);
		op->got.answer.entries = op->got.entries;
		op->got.answer.message = answer->status == STATUS_OK ? NULL : "late";
	}
	STAILQ_INSERT_TAIL(&op->late->back, op, link);
	late_post(op->late);
}

/* The request reaches the store. */
static inline void late_arrive(struct late_op *op)
{
	struct store *inner = op->late->inner;
	struct store_request r = op->request;
	struct store_op *started;

	r.put = r.put ? &op->put : NULL;
	r.spans = r.n ? op->spans : NULL;
	r.fn = late_answered;
	r.arg = op;
	/* One that never happens keeps its place in the order by a read. */
	if (!op->happens) {
		op->spans[0] = (struct store_span){ "nothing", NULL };
		r = (struct store_request){ .kind = STORE_GET,
			.spans = op->spans,
			.n = 1,
			.fn = late_answered,
			.arg = op };
	}
	ck_assert_int_eq(inner->ops->start(inner, &r, &started), 0);
}

static inline void late_changed(void *arg, const struct store_entry *entry, bool gap)
{
	struct late_watch *w = arg;
	struct late_change *c = calloc(1, sizeof(*c));

	ck_assert_ptr_nonnull(c);
	c->gap = gap || late_chance(w->late, w->late->gap_percent);
	if (entry)
		c->entry = late_entry(entry);
	c->turns = late_turns(w->late);
	STAILQ_INSERT_TAIL(&w->changes, c, link);
	late_post(w->late);
}

static inline void late_change_free(struct late_change *c)
{
	late_entry_free(&c->entry);
	free(c);
}

static inline void late_watch_release(struct late_watch *w)
{
	struct late_change *c;

	while ((c = STAILQ_FIRST(&w->changes))) {
		STAILQ_REMOVE_HEAD(&w->changes, link);
		late_change_free(c);
	}
	if (w->late)
		LIST_REMOVE(w, link);
	store_watch_free(w->inner);
	free(w);
}

static inline void late_watch_free(struct store_watch *base)
{
	struct late_watch *w = (struct late_watch *)base;

	w->fn = NULL;
	w->freed = true;
	if (!w->telling)
		late_watch_release(w);
}

/* All changes of the first one's revision. */
static inline void late_tell(struct late_watch *w)
{
	struct late_change *c = STAILQ_FIRST(&w->changes);
	int64_t revision = c->entry.revision;
	store_change_fn fn;

	w->telling = true;
	while (w->fn && (c = STAILQ_FIRST(&w->changes)) && c->entry.revision == revision) {
		STAILQ_REMOVE_HEAD(&w->changes, link);
		fn = w->fn;
		if (c->gap)
			w->fn = NULL;
		fn(w->arg, c->gap ? NULL : &c->entry, c->gap);
		late_change_free(c);
	}
	w->telling = false;
	if (w->freed)
		late_watch_release(w);
}

static inline int late_watch_new(struct store *s, const struct store_span *span, int64_t since,
	store_change_fn fn, void *arg, struct store_watch **ret)
{
	struct late *l = (struct late *)s;
	struct late_watch *w = calloc(1, sizeof(*w));

	ck_assert_ptr_nonnull(w);
	w->base.ops = s->ops;
	w->late = l;
	w->fn = fn;
	w->arg = arg;
	STAILQ_INIT(&w->changes);
	ck_assert_int_eq(store_watch_new(l->inner, span, since, late_changed, w, &w->inner), 0);
	LIST_INSERT_HEAD(&l->watches, w, link);
	*ret = &w->base;
	return 0;
}

/* A turn: the first of each line is a step nearer. */
static inline void late_tick(void *arg)
{
	struct late *l = arg;
	struct late_watch *w, *next;
	struct late_op *op;

	while ((op = STAILQ_FIRST(&l->back)) && op->turns-- <= 0) {
		STAILQ_REMOVE_HEAD(&l->back, link);
		if (op->fn)
			op->fn(op->arg, &op->got.answer);
		late_op_free(op);
	}
	while ((op = STAILQ_FIRST(&l->there)) && op->turns-- <= 0) {
		STAILQ_REMOVE_HEAD(&l->there, link);
		late_arrive(op);
	}
	/* Only one is told in a turn: its callback may free others. */
	for (w = LIST_FIRST(&l->watches); w; w = next) {
		next = LIST_NEXT(w, link);
		if (w->fn && !STAILQ_EMPTY(&w->changes) &&
			STAILQ_FIRST(&w->changes)->turns-- <= 0) {
			late_tell(w);
			break;
		}
	}
	if (!STAILQ_EMPTY(&l->back) || !STAILQ_EMPTY(&l->there))
		late_post(l);
	LIST_FOREACH (w, &l->watches, link) {
		if (w->fn && !STAILQ_EMPTY(&w->changes))
			late_post(l);
	}
}

static inline void late_free(struct store *s)
{
	struct late *l = (struct late *)s;
	struct late_ops *lists[] = { &l->there, &l->back };
	struct late_watch *w;
	struct late_op *op;

	loop_cancel(l->loop, late_tick, l);
	while ((w = LIST_FIRST(&l->watches))) {
		LIST_REMOVE(w, link);
		w->inner = store_watch_free(w->inner);
		w->fn = NULL;
		w->late = NULL;
	}
	for (int i = 0; i < 2; i++) {
		while ((op = STAILQ_FIRST(lists[i]))) {
			STAILQ_REMOVE_HEAD(lists[i], link);
			late_op_free(op);
		}
	}
	store_free(l->inner);
	free(l);
}

static const struct store_ops late_ops = {
	.start = late_start,
	.cancel = late_cancel,
	.watch_new = late_watch_new,
	.watch_free = late_watch_free,
	.free = late_free,
};

/* Operations that are with the store in memory when it is freed are lost to late_free(): let them
 * come back first. */
static inline struct late *late_new(struct loop *loop, size_t max_bytes, unsigned seed)
{
	struct late *l = calloc(1, sizeof(*l));

	ck_assert_ptr_nonnull(l);
	l->base.ops = &late_ops;
	l->loop = loop;
	l->random = seed;
	l->turns_max = 5;
	STAILQ_INIT(&l->there);
	STAILQ_INIT(&l->back);
	LIST_INIT(&l->watches);
	ck_assert_int_eq(store_memory_new(loop, max_bytes, &l->inner), 0);
	return l;
}
