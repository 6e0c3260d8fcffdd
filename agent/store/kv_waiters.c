/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/store/kv_private.h"

#include <stdlib.h>
#include <string.h>

static struct kv_spot *find(struct kv *kv, const char *key, size_t len, uint64_t hash)
{
	struct chain_node *node = kv->spots.n ? chain_first(&kv->spots, hash) : NULL;

	for (; node; node = chain_next(node)) {
		struct kv_spot *spot = (struct kv_spot *)node;

		if (spot->len == len && memcmp(spot->key, key, len) == 0)
			return spot;
	}
	return NULL;
}

struct kv_spot *kv_spot_find(struct kv *kv, const char *key, size_t len)
{
	return find(kv, key, len, chain_hash(key, len));
}

struct kv_spot *kv_spot_get(struct kv *kv, const char *key)
{
	size_t len = strlen(key);
	uint64_t hash = chain_hash(key, len);
	struct kv_spot *spot = find(kv, key, len, hash);

	if (spot)
		return spot;
	if (chain_reserve(&kv->spots) < 0)
		return NULL;
	spot = malloc(sizeof(*spot) + len + 1);
	if (!spot)
		return NULL;
	spot->pins = 0;
	spot->len = len;
	memcpy(spot->key, key, len + 1);
	link_init(&spot->waits);
	link_init(&spot->watches);
	chain_put(&kv->spots, &spot->node, hash);
	return spot;
}

void kv_spot_put(struct kv *kv, struct kv_spot *spot)
{
	if (spot->pins || !link_alone(&spot->waits) || !link_alone(&spot->watches))
		return;
	chain_remove(&kv->spots, &spot->node);
	free(spot);
}
