/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the store in memory. An operation that fails changes nothing. */
#include "agent/store/memory_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An array larger than this is freed after the range that needed it. */
enum { ENTRIES_KEPT = 1024 };

static void op_answer(struct memory *m, struct memory_op *op, struct store_answer *a)
{
	store_answer_fn fn;

	/* The watches come first, so that a caller with an answer finds them up to date. Their
	 * callbacks may cancel the operation, or free the store. */
	memory_report(m);
	fn = op->fn;
	if (!fn || m->dead)
		return;
	op->fn = NULL;
	a->revision = m->revision;
	fn(op->arg, a);
}

static void op_answer_text(
	struct memory *m, struct memory_op *op, enum status status, const char *message)
{
	struct store_answer a = { .status = status, .message = message };

	op_answer(m, op, &a);
}

static void op_answer_found(
	struct memory *m, struct memory_op *op, enum status status, const struct node *node)
{
	struct store_entry entry = memory_entry(node->record);
	struct store_answer a = { .status = status, .entries = &entry, .n = 1 };

	if (status != STATUS_OK)
		a.message = "the key is there already";
	op_answer(m, op, &a);
}

void memory_erase(struct memory *m, struct map_place *place)
{
	memory_node_lease(*place->links[0], NULL);
	memory_changed(m, map_remove(&m->map, place), true);
}

/* Writes op's record into the map. NULL: no memory. */
static struct node *write_record(
	struct memory *m, struct node *at, struct map_place *place, struct memory_op *op)
{
	struct record *r = op->record;

	r->lease = op->lease;
	r->revision = m->revision + 1;
	r->create_revision = at ? at->record->create_revision : r->revision;
	if (at) {
		record_unref(map_replace(&m->map, at, r));
	} else {
		at = map_insert(&m->map, place, r);
		if (!at)
			return NULL;
	}
	op->record = NULL;
	m->revision++;
	return at;
}

static bool is_full(
	struct memory *m, const struct node *at, const struct node *other, const struct record *r)
{
	size_t gone = (at ? record_cost(at->record) : 0) + (other ? record_cost(other->record) : 0);

	return m->map.bytes - gone + record_cost(r) > m->max_bytes;
}

static void run_put(struct memory *m, struct memory_op *op)
{
	struct node *other = op->other ? map_find(&m->map, op->other) : NULL;
	struct lease *lease = op->lease ? memory_lease(m, op->lease) : NULL;
	struct record *r = op->record;
	struct map_place place;
	struct node *at = map_seek(&m->map, r->key, &place);

	if (op->create && (at || other)) {
		op_answer_found(m, op, STATUS_ALREADY_EXISTS, at ? at : other);
		return;
	}
	if (op->lease && !lease) {
		op_answer_text(m, op, STATUS_NOT_FOUND, "there is no such lease");
		return;
	}
	if (is_full(m, at, other, r)) {
		char text[128];

		snprintf(text, sizeof(text), "the store is full: %zu of %zu bytes are used",
			m->map.bytes, m->max_bytes);
		op_answer_text(m, op, STATUS_RESOURCE_EXHAUSTED, text);
		return;
	}
	at = write_record(m, at, &place, op);
	if (!at) {
		op_answer_text(m, op, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	memory_node_lease(at, lease);
	if (other) {
		map_seek(&m->map, op->other, &place);
		memory_erase(m, &place);
	}
	memory_changed(m, record_ref(r), false);
	op_answer(m, op, &(struct store_answer){ .status = STATUS_OK });
}

static bool span_has(const struct store_span *span, const char *key)
{
	if (!span->end)
		return strcmp(key, span->begin) == 0;
	return !*span->end || strcmp(key, span->end) < 0;
}

static bool more_room(struct memory *m)
{
	size_t room = m->room ? m->room * 2 : 16;
	struct store_entry *entries = reallocarray(m->entries, room, sizeof(*entries));

	if (!entries)
		return false;
	m->entries = entries;
	m->room = room;
	return true;
}

/* One key, without the array. */
static void run_get(struct memory *m, struct memory_op *op)
{
	struct node *n = map_find(&m->map, op->spans[0].begin);

	if (n)
		op_answer_found(m, op, STATUS_OK, n);
	else
		op_answer_text(m, op, STATUS_NOT_FOUND, "there is no such key");
}

static void run_range(struct memory *m, struct memory_op *op)
{
	struct store_answer a = { .status = STATUS_OK };

	if (!op->fn)
		return;
	for (size_t i = 0; i < op->n; i++) {
		const struct store_span *span = &op->spans[i];

		for (struct node *n = map_from(&m->map, span->begin);
			n && span_has(span, n->record->key); n = n->next[0]) {
			if (op->limit && a.n == op->limit)
				break;
			if (a.n == m->room && !more_room(m)) {
				op_answer_text(m, op, STATUS_RESOURCE_EXHAUSTED, "out of memory");
				return;
			}
			m->entries[a.n++] = memory_entry(n->record);
		}
	}
	a.entries = m->entries;
	op_answer(m, op, &a);
	if (m->room > ENTRIES_KEPT) {
		free(m->entries);
		m->entries = NULL;
		m->room = 0;
	}
}

static void run_delete(struct memory *m, struct memory_op *op)
{
	struct store_answer a = { .status = STATUS_OK };

	for (size_t i = 0; i < op->n; i++) {
		const struct store_span *span = &op->spans[i];
		struct map_place place;

		map_seek(&m->map, span->begin, &place);
		while (*place.links[0] && span_has(span, (*place.links[0])->record->key)) {
			if (!a.deleted++)
				m->revision++;
			memory_erase(m, &place);
		}
	}
	op_answer(m, op, &a);
}

static void run_lease(struct memory *m, struct memory_op *op)
{
	struct store_answer a = { .status = STATUS_OK };
	struct lease *l = op->kind == STORE_GRANT ? memory_lease_new(m, op->ttl_ms)
						  : memory_lease(m, op->lease);

	if (!l && op->kind == STORE_GRANT) {
		op_answer_text(m, op, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	if (!l) {
		op_answer_text(m, op, STATUS_NOT_FOUND, "there is no such lease");
		return;
	}
	a.lease = l->id;
	if (op->kind == STORE_REVOKE)
		a.deleted = memory_lease_end(m, l);
	else
		memory_lease_renew(m, l);
	op_answer(m, op, &a);
}

void memory_run(struct memory *m, struct memory_op *op)
{
	switch (op->kind) {
	case STORE_PUT:
		run_put(m, op);
		break;
	case STORE_GET:
		run_get(m, op);
		break;
	case STORE_RANGE:
		run_range(m, op);
		break;
	case STORE_DELETE:
		run_delete(m, op);
		break;
	case STORE_GRANT:
	case STORE_KEEP_ALIVE:
	case STORE_REVOKE:
		run_lease(m, op);
		break;
	}
}
