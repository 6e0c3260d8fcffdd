/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key-value layer has one watch in the store, the stream, on all changes of all attempts. The
 * stream reports each change before the operation that made it is answered. So a get that finds its
 * key missing can wait for the next change that the stream reports, and misses none.
 */
#include "agent/store/kv_private.h"

#include <assert.h>
#include <string.h>

static void answer_waits(struct kv *kv, struct kv_node *node, const struct store_entry *entry)
{
	struct store_answer a = { .revision = entry->revision, .entries = entry, .n = 1 };

	node->pins++;
	while (!link_alone(&node->waits))
		kv_call_finish(link_entry(node->waits.next, struct kv_call, waits), &a);
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

void kv_changed(void *arg, const struct store_entry *entry, bool gap)
{
	struct kv *kv = arg;
	struct store_entry own;
	struct kv_node *node;

	assert(!gap); /* the store drops no change that an open watch has yet to report */
	kv->revision = entry->revision;
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
