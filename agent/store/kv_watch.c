/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches of workers share one stream of changes. A watch that begins before the stream's position
 * has a watch of its own in the store until it has caught up.
 */
#include "agent/store/kv_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void watch_detach(struct kv_watch *w)
{
	link_remove(&w->watches);
	w->own = store_watch_free(w->own);
	if (!w->node)
		return;
	w->kv->n_watches--;
	kv_node_put(w->kv, w->node);
	w->node = NULL;
}

static void watch_end(struct kv_watch *w, enum status status)
{
	watch_detach(w);
	w->end = status;
	link_remove(&w->all);
	link_before(&w->kv->ended_watches, &w->all);
	kv_post_ended(w->kv);
}

void kv_watches_end(struct kv *kv, enum status status)
{
	struct link *next;

	for (struct link *l = kv->watches.next; l != &kv->watches; l = next) {
		next = l->next;
		watch_end(link_entry(l, struct kv_watch, all), status);
	}
}

void kv_watches_orphan(struct kv *kv)
{
	struct link *lists[] = { &kv->watches, &kv->ended_watches };

	for (size_t i = 0; i < 2; i++) {
		while (!link_alone(lists[i])) {
			struct kv_watch *w = link_entry(lists[i]->next, struct kv_watch, all);

			watch_detach(w);
			link_remove(&w->all);
			w->kv = NULL;
		}
	}
}

static bool node_covers(const struct kv_node *node, const char *key)
{
	return node->len == 0 || (strncmp(key, node->key, node->len) == 0 &&
					 (!key[node->len] || key[node->len] == '/'));
}

static void on_own(void *arg, const struct store_entry *entry, bool gap)
{
	struct kv_watch *w = arg;
	struct kv *kv = w->kv;
	struct store_entry own;

	if (gap) {
		watch_end(w, STATUS_OUT_OF_RANGE);
		return;
	}
	if (entry->revision > kv->revision) {
		w->after = entry->revision - 1;
		w->own = store_watch_free(w->own);
		return;
	}
	own = *entry;
	own.key = kv_own(kv, entry->key);
	if (!own.key || !node_covers(w->node, own.key))
		return;
	kv_enter(kv);
	w->fn(w->arg, &own, STATUS_OK);
	kv_leave(kv);
}

/* Callbacks may free watches of the node and add new ones; this change is too old for the new ones.
 */
void kv_watches_report(struct kv *kv, struct kv_node *node, const struct store_entry *entry)
{
	struct link todo;

	if (link_alone(&node->watches))
		return;
	link_init(&todo);
	link_before(&node->watches, &todo);
	link_remove(&node->watches);
	node->pins++;
	while (!link_alone(&todo)) {
		struct kv_watch *w = link_entry(todo.next, struct kv_watch, watches);

		link_remove(&w->watches);
		link_before(&node->watches, &w->watches);
		if (!w->own && w->after < entry->revision)
			w->fn(w->arg, entry, STATUS_OK);
	}
	node->pins--;
	kv_node_put(kv, node);
}

/* The stream does not repeat changes before its position: the watch gets those from a watch of its
 * own in the store. */
static int catch_up(struct kv_watch *w, int64_t since)
{
	struct store_span span = { .begin = KV_ROOT, .end = KV_ROOT_END };

	if (since < 0 || since >= w->kv->revision)
		return 0;
	return store_watch_new(w->kv->store, &span, since, on_own, w, &w->own);
}

int64_t kv_revision(const struct kv *kv)
{
	return kv->revision;
}

int kv_watch_new(struct kv *kv, const char *key, int64_t since, kv_change_fn fn, void *arg,
	struct kv_watch **ret, struct error *err)
{
	char name[KV_KEY_MAX + 1];
	struct kv_watch *w;
	int r = kv_key(key, true, name, err);

	if (r < 0)
		return r;
	w = calloc(1, sizeof(*w));
	if (!w)
		return error_set(err, -ENOMEM, "out of memory");
	w->kv = kv;
	w->fn = fn;
	w->arg = arg;
	w->after = since < 0 ? kv->revision : since;
	link_init(&w->watches);
	link_init(&w->all);
	link_before(&kv->watches, &w->all);
	w->node = kv_node_get(kv, name);
	if (w->node) {
		link_before(&w->node->watches, &w->watches);
		kv->n_watches++;
	}
	if (!w->node || catch_up(w, since) < 0) {
		kv_watch_free(w);
		return error_set(err, -ENOMEM, "out of memory");
	}
	if (kv->stopped)
		watch_end(w, kv->stop_status);
	*ret = w;
	return 0;
}

struct kv_watch *kv_watch_free(struct kv_watch *w)
{
	if (w) {
		if (w->kv)
			watch_detach(w);
		link_remove(&w->all);
		free(w);
	}
	return NULL;
}
