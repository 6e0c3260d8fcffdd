/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history of changes of the store in memory, and its watches. A watch is a position in the
 * history. Open watches get their changes before the history drops them, so only a watch that
 * begins too far back has a gap. The youngest watch comes first.
 */
#include "agent/store/memory_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int history_init(struct history *h, size_t max_bytes)
{
	*h = (struct history){ .max_bytes = max_bytes };
	h->ring = calloc(STORE_HISTORY, sizeof(*h->ring));
	return h->ring ? 0 : -ENOMEM;
}

static struct change *change_at(struct history *h, uint64_t number)
{
	return &h->ring[number % STORE_HISTORY];
}

static void drop_oldest(struct history *h)
{
	struct change *c = change_at(h, h->first++);

	h->forgotten = c->revision;
	h->bytes -= record_cost(c->record);
	c->record = record_unref(c->record);
}

void history_fini(struct history *h)
{
	while (h->ring && h->first < h->next)
		drop_oldest(h);
	free(h->ring);
	h->ring = NULL;
}

void memory_changed(struct memory *m, struct record *record, bool deleted)
{
	struct history *h = &m->history;
	size_t cost = record_cost(record);

	while (h->first < h->next &&
		(h->next - h->first == STORE_HISTORY || h->bytes + cost > h->max_bytes)) {
		memory_report(m);
		drop_oldest(h);
	}
	*change_at(h, h->next++) = (struct change){
		.record = record,
		.revision = m->revision,
		.deleted = deleted,
	};
	h->bytes += cost;
	m->behind = !TAILQ_EMPTY(&m->watches);
}

static bool watch_covers(const struct memory_watch *w, const char *key)
{
	if (!w->end)
		return strcmp(key, w->begin) == 0;
	return strcmp(key, w->begin) >= 0 && (!*w->end || strcmp(key, w->end) < 0);
}

static void report_change(struct memory_watch *w, const struct change *c)
{
	struct store_entry entry = memory_entry(c->record);

	if (c->deleted) {
		entry = (struct store_entry){ .key = c->record->key, .revision = c->revision };
	}
	w->fn(w->arg, &entry, false);
}

static void report_to_watch(struct memory *m, struct memory_watch *w)
{
	/* A watch that a callback opened during an operation may lose its position before its turn.
	 */
	if (w->fn && (w->gap || w->cursor < m->history.first)) {
		store_change_fn fn = w->fn;

		w->fn = NULL;
		fn(w->arg, NULL, true);
		return;
	}
	while (w->fn && !m->dead && w->cursor < m->history.next) {
		const struct change *c = change_at(&m->history, w->cursor++);

		if (watch_covers(w, c->record->key))
			report_change(w, c);
	}
}

static void watch_release(struct memory_watch *w)
{
	free(w->begin);
	free(w->end);
	free(w);
}

/* While the list is walked, freed watches stay in it, and new ones go to the front and wait. */
void memory_report(struct memory *m)
{
	struct memory_watch *w, *next;

	if (!m->behind || m->reporting)
		return;
	m->behind = false;
	m->reporting = true;
	memory_enter(m);
	TAILQ_FOREACH (w, &m->watches, link) {
		if (m->dead)
			break;
		report_to_watch(m, w);
	}
	m->reporting = false;
	for (w = TAILQ_FIRST(&m->watches); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->freed) {
			TAILQ_REMOVE(&m->watches, w, link);
			watch_release(w);
		}
	}
	memory_leave(m);
}

/* The first change with a revision above since. */
static uint64_t cursor_after(struct history *h, int64_t since)
{
	uint64_t cursor = h->next;

	while (cursor > h->first && change_at(h, cursor - 1)->revision > since)
		cursor--;
	return cursor;
}

int memory_watch_new(struct store *s, const struct store_span *span, int64_t since,
	store_change_fn fn, void *arg, struct store_watch **ret)
{
	struct memory *m = (struct memory *)s;
	struct memory_watch *w = malloc(sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct memory_watch){ .base.ops = s->ops, .m = m, .fn = fn, .arg = arg };
	w->begin = strdup(span->begin);
	w->end = span->end ? strdup(span->end) : NULL;
	if (!w->begin || (span->end && !w->end)) {
		watch_release(w);
		return -ENOMEM;
	}
	w->gap = since >= 0 && since < m->history.forgotten;
	w->cursor = since < 0 ? m->history.next : cursor_after(&m->history, since);
	TAILQ_INSERT_HEAD(&m->watches, w, link);
	if (w->gap || w->cursor < m->history.next) {
		m->behind = true;
		memory_post(m);
	}
	*ret = &w->base;
	return 0;
}

void memory_watch_free(struct store_watch *base)
{
	struct memory_watch *w = (struct memory_watch *)base;

	w->fn = NULL;
	if (w->m && w->m->reporting) {
		w->freed = true;
		return;
	}
	if (w->m)
		TAILQ_REMOVE(&w->m->watches, w, link);
	watch_release(w);
}

void memory_watches_orphan(struct memory *m)
{
	struct memory_watch *w;

	while ((w = TAILQ_FIRST(&m->watches))) {
		TAILQ_REMOVE(&m->watches, w, link);
		w->m = NULL;
		w->fn = NULL;
		if (w->freed)
			watch_release(w);
	}
}
