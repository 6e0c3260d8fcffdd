/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history of changes of the store, and its watches. A watch is a position in the
 * history. Open watches get their changes before the history drops them, so only a watch that
 * begins too far back has a gap. The youngest watch comes first.
 */
#include "agent/store/store_private.h"

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

void store_changed(struct store *s, struct record *record, bool deleted)
{
	struct history *h = &s->history;
	size_t cost = record_cost(record);

	while (h->first < h->next &&
		(h->next - h->first == STORE_HISTORY || h->bytes + cost > h->max_bytes)) {
		store_report(s);
		drop_oldest(h);
	}
	*change_at(h, h->next++) = (struct change){
		.record = record,
		.revision = s->revision,
		.deleted = deleted,
	};
	h->bytes += cost;
	s->behind = !TAILQ_EMPTY(&s->watches);
}

static bool watch_covers(const struct store_watch *w, const char *key)
{
	if (!w->end)
		return strcmp(key, w->begin) == 0;
	return strcmp(key, w->begin) >= 0 && (!*w->end || strcmp(key, w->end) < 0);
}

static void report_change(struct store_watch *w, const struct change *c)
{
	struct store_entry entry = store_entry(c->record);

	if (c->deleted)
		entry = (struct store_entry){ .key = c->record->key, .revision = c->revision };
	w->fn(w->arg, &entry, false);
}

static void report_to_watch(struct store *s, struct store_watch *w)
{
	/* A watch that a callback opened during an operation may lose its position before its turn.
	 */
	if (w->fn && (w->gap || w->cursor < s->history.first)) {
		store_change_fn fn = w->fn;

		w->fn = NULL;
		fn(w->arg, NULL, true);
		return;
	}
	while (w->fn && !s->dead && w->cursor < s->history.next) {
		const struct change *c = change_at(&s->history, w->cursor++);

		if (watch_covers(w, c->record->key))
			report_change(w, c);
	}
}

static void watch_release(struct store_watch *w)
{
	free(w->begin);
	free(w->end);
	free(w);
}

/* While the list is walked, freed watches stay in it, and new ones go to the front and wait. */
void store_report(struct store *s)
{
	struct store_watch *w, *next;

	if (!s->behind || s->reporting)
		return;
	s->behind = false;
	s->reporting = true;
	store_enter(s);
	TAILQ_FOREACH (w, &s->watches, link) {
		if (s->dead)
			break;
		report_to_watch(s, w);
	}
	s->reporting = false;
	for (w = TAILQ_FIRST(&s->watches); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->freed) {
			TAILQ_REMOVE(&s->watches, w, link);
			watch_release(w);
		}
	}
	store_leave(s);
}

/* The first change with a revision above since. */
static uint64_t cursor_after(struct history *h, int64_t since)
{
	uint64_t cursor = h->next;

	while (cursor > h->first && change_at(h, cursor - 1)->revision > since)
		cursor--;
	return cursor;
}

int store_watch_new(struct store *s, const struct store_span *span, int64_t since,
	store_change_fn fn, void *arg, struct store_watch **ret)
{
	struct store_watch *w;

	if (!store_span_fits(span))
		return -EINVAL;
	w = malloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct store_watch){ .store = s, .fn = fn, .arg = arg };
	w->begin = strdup(span->begin);
	w->end = span->end ? strdup(span->end) : NULL;
	if (!w->begin || (span->end && !w->end)) {
		watch_release(w);
		return -ENOMEM;
	}
	w->gap = since >= 0 && since < s->history.forgotten;
	w->cursor = since < 0 ? s->history.next : cursor_after(&s->history, since);
	TAILQ_INSERT_HEAD(&s->watches, w, link);
	if (w->gap || w->cursor < s->history.next) {
		s->behind = true;
		if (store_post(s) < 0) {
			store_watch_free(w);
			return -ENOMEM;
		}
	}
	*ret = w;
	return 0;
}

struct store_watch *store_watch_free(struct store_watch *w)
{
	if (!w)
		return NULL;
	w->fn = NULL;
	if (w->store && w->store->reporting) {
		w->freed = true;
		return NULL;
	}
	if (w->store)
		TAILQ_REMOVE(&w->store->watches, w, link);
	watch_release(w);
	return NULL;
}

void store_watches_orphan(struct store *s)
{
	struct store_watch *w;

	while ((w = TAILQ_FIRST(&s->watches))) {
		TAILQ_REMOVE(&s->watches, w, link);
		w->store = NULL;
		w->fn = NULL;
		if (w->freed)
			watch_release(w);
	}
}
