/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key-value layer has one watch in the store, the stream, on all changes of all attempts. The
 * layer reads the store's revision first, and opens the stream at it, not at "now". So a read
 * answered after that can rely on the stream for every later change. After missed changes the layer
 * opens the stream again in the same way, and every waiting get checks its key again.
 */
#include "agent/store/kv_private.h"

#include <string.h>

static void stream_lost(struct kv *kv)
{
	kv->stream = store_watch_free(kv->stream);
	kv_watches_end(kv, STATUS_OUT_OF_RANGE, true);
	for (struct link *l = kv->calls.next; l != &kv->calls; l = l->next)
		link_entry(l, struct kv_call, all)->checked = false;
	kv_work_later(kv);
}

static void answer_waits(struct kv *kv, struct kv_node *node, const struct store_entry *entry)
{
	struct store_answer a = { .revision = entry->revision, .entries = entry, .n = 1 };
	struct link todo, *next;

	link_init(&todo);
	for (struct link *l = node->waits.next; l != &node->waits; l = next) {
		next = l->next;
		if (link_entry(l, struct kv_call, waits)->floor < entry->revision) {
			link_remove(l);
			link_before(&todo, l);
		}
	}
	node->pins++;
	while (!link_alone(&todo))
		kv_call_finish(link_entry(todo.next, struct kv_call, waits), &a);
	node->pins--;
	kv_node_put(kv, node);
}

/* Reports the change to the watches of the key and of all keys above it. */
static void report_to_watches(struct kv *kv, const struct store_entry *entry)
{
	const char *slash = entry->key;
	struct kv_node *node = kv_node_find(kv, "", 0);

	if (node)
		kv_watches_report(kv, node, entry);
	while (!kv->dead && slash) {
		slash = strchr(slash, '/');
		node = kv_node_find(
			kv, entry->key, slash ? (size_t)(slash - entry->key) : strlen(entry->key));
		if (node)
			kv_watches_report(kv, node, entry);
		slash = slash ? slash + 1 : NULL;
	}
}

static void on_change(void *arg, const struct store_entry *entry, bool gap)
{
	struct kv *kv = arg;
	struct store_entry own;
	struct kv_node *node;

	if (gap) {
		stream_lost(kv);
		return;
	}
	kv_know(kv, entry->revision);
	kv->seen = entry->revision;
	if (!kv->nodes.n)
		return;
	own = *entry;
	own.key = kv_own(kv, entry->key);
	if (!own.key)
		return;
	kv_enter(kv);
	if (kv->n_watches)
		report_to_watches(kv, &own);
	if (!kv->dead && own.value) {
		node = kv_node_find(kv, own.key, strlen(own.key));
		if (node)
			answer_waits(kv, node, &own);
	}
	kv_leave(kv);
}

static void on_probe(void *arg, const struct store_answer *answer)
{
	struct kv *kv = arg;
	struct store_span span = { .begin = KV_ROOT, .end = KV_ROOT_END };

	kv->probe = NULL;
	kv_know(kv, answer->revision);
	if (answer->status != STATUS_OK && answer->status != STATUS_NOT_FOUND) {
		kv_work_later(kv);
		return;
	}
	if (store_watch_new(kv->store, &span, answer->revision, on_change, kv, &kv->stream) < 0) {
		kv->stream = NULL;
		kv_work_later(kv);
		return;
	}
	kv->retry_ms = KV_RETRY_MS;
	kv->number++;
	kv->seen = answer->revision;
	kv_work(kv);
}

static void on_old_deleted(void *arg, const struct store_answer *answer)
{
	struct kv *kv = arg;

	kv->delete_old = NULL;
	kv_know(kv, answer->revision);
	if (answer->status == STATUS_OK)
		return;
	kv->delete_old_due = true;
	kv_work_later(kv);
}

/* Deletes all keys of earlier attempts, which sort before this attempt's. */
static int delete_old_keys(struct kv *kv)
{
	struct store_span span = { .begin = KV_ATTEMPTS, .end = kv->prefix };
	int r = store_delete(kv->store, &span, 1, on_old_deleted, kv, &kv->delete_old);

	kv->delete_old_due = r < 0;
	return r;
}

void kv_work(struct kv *kv)
{
	int r = 0;

	if (kv->delete_old_due && !kv->delete_old)
		r = delete_old_keys(kv);
	if (r >= 0 && !kv->stream && !kv->probe)
		r = store_get(kv->store, KV_ROOT, on_probe, kv, &kv->probe);
	if (r < 0)
		kv_work_later(kv);
	if (!kv->stream)
		return;
	for (struct link *l = kv->calls.next; l != &kv->calls; l = l->next) {
		struct kv_call *call = link_entry(l, struct kv_call, all);

		if (call->node && !call->checked && !call->op)
			kv_get_check(call);
	}
}

void kv_work_later(struct kv *kv)
{
	if (loop_timer_armed(kv->retry))
		return;
	loop_timer_arm(kv->retry, kv->retry_ms);
	kv->retry_ms = kv->retry_ms * 2 < KV_RETRY_MAX_MS ? kv->retry_ms * 2 : KV_RETRY_MAX_MS;
}
