/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the store. An operation that fails changes nothing. */
#include "agent/store/store_private.h"
#include "common/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An array larger than this is freed after the range that needed it. */
enum { ENTRIES_KEPT = 1024 };

static void op_answer(struct store *s, struct store_op *op, struct store_answer *a)
{
	store_answer_fn fn;

	/* The watches come first, so that a caller with an answer finds them up to date. Their
	 * callbacks may cancel the operation, or free the store. */
	store_report(s);
	fn = op->fn;
	if (!fn || s->dead)
		return;
	op->fn = NULL;
	a->revision = s->revision;
	fn(op->arg, a);
}

static void op_answer_no_room(struct store *s, struct store_op *op, const char *message)
{
	struct store_answer a = { .status = STATUS_RESOURCE_EXHAUSTED, .message = message };

	op_answer(s, op, &a);
}

static void op_answer_exists(struct store *s, struct store_op *op, const struct node *node)
{
	struct store_entry entry = store_entry(node->record);
	struct store_answer a = { .status = STATUS_ALREADY_EXISTS,
		.message = "the key is there already",
		.entries = &entry,
		.n = 1 };

	op_answer(s, op, &a);
}

/* Removes the key at place, as part of the newest revision. */
static void erase_key(struct store *s, struct map_place *place)
{
	store_changed(s, map_remove(&s->map, place), true);
}

/* Writes op's record into the map. Returns false without memory. */
static bool write_record(
	struct store *s, struct node *at, struct map_place *place, struct store_op *op)
{
	struct record *r = op->record;

	r->revision = s->revision + 1;
	if (at)
		record_unref(map_replace(&s->map, at, r));
	else if (!map_insert(&s->map, place, r))
		return false;
	op->record = NULL;
	s->revision++;
	return true;
}

static bool is_full(
	struct store *s, const struct node *at, const struct node *other, const struct record *r)
{
	size_t gone = (at ? record_cost(at->record) : 0) + (other ? record_cost(other->record) : 0);

	return s->map.bytes - gone + record_cost(r) > s->max_bytes;
}

static void run_put(struct store *s, struct store_op *op)
{
	struct node *other = op->other ? map_find(&s->map, op->other) : NULL;
	struct record *r = op->record;
	struct map_place place;
	struct node *at = map_seek(&s->map, r->key, &place);

	if (op->create && (at || other)) {
		op_answer_exists(s, op, at ? at : other);
		return;
	}
	if (is_full(s, at, other, r)) {
		char text[128];

		snprintf(text, sizeof(text), "the store is full: %zu of %zu bytes are used",
			s->map.bytes, s->max_bytes);
		op_answer_no_room(s, op, text);
		return;
	}
	if (!write_record(s, at, &place, op)) {
		op_answer_no_room(s, op, "out of memory");
		return;
	}
	if (other) {
		map_seek(&s->map, op->other, &place);
		erase_key(s, &place);
	}
	store_changed(s, record_ref(r), false);
	op_answer(s, op, &(struct store_answer){ .status = STATUS_OK });
}

static bool span_has(const struct store_span *span, const char *key)
{
	if (!span->end)
		return strcmp(key, span->begin) == 0;
	return !*span->end || strcmp(key, span->end) < 0;
}

static void run_range(struct store *s, struct store_op *op)
{
	struct store_answer a = { .status = STATUS_OK };

	if (!op->fn)
		return;
	for (size_t i = 0; i < op->n; i++) {
		const struct store_span *span = &op->spans[i];

		for (struct node *n = map_from(&s->map, span->begin);
			n && span_has(span, n->record->key); n = n->next[0]) {
			if (array_reserve((void **)&s->entries, &s->room, a.n + 1,
				    sizeof(*s->entries)) < 0) {
				op_answer_no_room(s, op, "out of memory");
				return;
			}
			s->entries[a.n++] = store_entry(n->record);
		}
	}
	a.entries = s->entries;
	op_answer(s, op, &a);
	if (s->room > ENTRIES_KEPT) {
		free(s->entries);
		s->entries = NULL;
		s->room = 0;
	}
}

static void run_delete(struct store *s, struct store_op *op)
{
	struct store_answer a = { .status = STATUS_OK };

	for (size_t i = 0; i < op->n; i++) {
		const struct store_span *span = &op->spans[i];
		struct map_place place;

		map_seek(&s->map, span->begin, &place);
		while (*place.links[0] && span_has(span, (*place.links[0])->record->key)) {
			if (!a.deleted++)
				s->revision++;
			erase_key(s, &place);
		}
	}
	op_answer(s, op, &a);
}

void store_run(struct store *s, struct store_op *op)
{
	switch (op->kind) {
	case STORE_PUT:
		run_put(s, op);
		break;
	case STORE_RANGE:
		run_range(s, op);
		break;
	case STORE_DELETE:
		run_delete(s, op);
		break;
	}
}
