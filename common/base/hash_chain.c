/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/hash_chain.h"

#include <errno.h>

enum { CHAIN_FIRST_SIZE = 64 };

static struct chain_node **chain_bucket(const struct chain *c, uint64_t hash)
{
	return &c->buckets[hash & (c->size - 1)];
}

int chain_reserve(struct chain *c)
{
	struct chain bigger = { .size = c->size ? c->size * 2 : CHAIN_FIRST_SIZE };

	if (c->n < c->size)
		return 0;
	bigger.buckets = calloc(bigger.size, sizeof(struct chain_node *));
	if (!bigger.buckets)
		return c->size ? 0 : -ENOMEM; /* longer chains serve too */
	for (size_t i = 0; i < c->size; i++) {
		struct chain_node *next;

		for (struct chain_node *node = c->buckets[i]; node; node = next) {
			next = node->next;
			chain_put(&bigger, node, node->hash);
		}
	}
	free(c->buckets);
	*c = bigger;
	return 0;
}

void chain_put(struct chain *c, struct chain_node *node, uint64_t hash)
{
	struct chain_node **bucket = chain_bucket(c, hash);

	node->hash = hash;
	node->next = *bucket;
	*bucket = node;
	c->n++;
}

void chain_remove(struct chain *c, struct chain_node *node)
{
	struct chain_node **at = chain_bucket(c, node->hash);

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	node->next = NULL;
	c->n--;
}

void chain_fini(struct chain *c)
{
	free(c->buckets);
	*c = (struct chain){ 0 };
}

static struct chain_node *chain_same(struct chain_node *node, uint64_t hash)
{
	while (node && node->hash != hash)
		node = node->next;
	return node;
}

struct chain_node *chain_first(const struct chain *c, uint64_t hash)
{
	return c->size ? chain_same(*chain_bucket(c, hash), hash) : NULL;
}

struct chain_node *chain_next(const struct chain_node *node)
{
	return chain_same(node->next, node->hash);
}

/* FNV-1a, then mixed, because buckets are chosen by the low bits. */
uint64_t chain_hash(const void *data, size_t len)
{
	const unsigned char *byte = data;
	uint64_t h = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < len; i++)
		h = (h ^ byte[i]) * UINT64_C(1099511628211);
	return h ^ h >> 32;
}

uint64_t chain_hash_pointer(const void *p)
{
	uint64_t h = (uint64_t)(uintptr_t)p * UINT64_C(0x9e3779b97f4a7c15);

	return h ^ h >> 32;
}
