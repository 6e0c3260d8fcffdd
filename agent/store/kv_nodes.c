/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that calls wait for, or that watches are on. */
#include "agent/store/kv_private.h"

#include <stdlib.h>
#include <string.h>

static struct kv_node *kv_node_in_chain(struct kv *kv, const char *key, size_t len, uint64_t hash)
{
	struct chain_node *at = kv->nodes.n ? chain_first(&kv->nodes, hash) : NULL;

	for (; at; at = chain_next(at)) {
		struct kv_node *node = (struct kv_node *)at;

		if (node->len == len && memcmp(node->key, key, len) == 0)
			return node;
	}
	return NULL;
}

struct kv_node *kv_node_find(struct kv *kv, const char *key, size_t len)
{
	return kv_node_in_chain(kv, key, len, chain_hash(key, len));
}

struct kv_node *kv_node_get(struct kv *kv, const char *key)
{
	size_t len = strlen(key);
	uint64_t hash = chain_hash(key, len);
	struct kv_node *node = kv_node_in_chain(kv, key, len, hash);

	if (node)
		return node;
	if (chain_reserve(&kv->nodes) < 0)
		return NULL;
	node = malloc(sizeof(*node) + len + 1);
	if (!node)
		return NULL;
	node->pins = 0;
	node->len = len;
	memcpy(node->key, key, len + 1);
	link_init(&node->waits);
	link_init(&node->watches);
	chain_put(&kv->nodes, &node->chain, hash);
	return node;
}

void kv_node_put(struct kv *kv, struct kv_node *node)
{
	if (node->pins || !link_alone(&node->waits) || !link_alone(&node->watches))
		return;
	chain_remove(&kv->nodes, &node->chain);
	free(node);
}
