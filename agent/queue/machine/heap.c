// SPDX-License-Identifier: Apache-2.0
/* Heaps: of nodes by their keys, the least first. */
#include "agent/queue/machine/private.h"
#include "common/base/array.h"

int queue_heap_reserve(struct queue_heap *h)
{
	if (array_reserve((void **)&h->nodes, &h->cap, h->reserved + 1, sizeof(void *)) < 0)
		return -ENOMEM;
	h->reserved++;
	return 0;
}

void queue_heap_unreserve(struct queue_heap *h)
{
	assert(h->reserved > h->n);
	h->reserved--;
}

static void heap_put(struct queue_heap *h, size_t at, struct queue_heap_node *node)
{
	h->nodes[at] = node;
	node->place = at + 1;
}

static void heap_up(struct queue_heap *h, size_t at, struct queue_heap_node *node)
{
	while (at && h->nodes[(at - 1) / 2]->key > node->key) {
		heap_put(h, at, h->nodes[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_put(h, at, node);
}

static void heap_down(struct queue_heap *h, size_t at, struct queue_heap_node *node)
{
	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < h->n && h->nodes[child + 1]->key < h->nodes[child]->key)
			child++;
		if (child >= h->n || h->nodes[child]->key >= node->key)
			break;
		heap_put(h, at, h->nodes[child]);
		at = child;
	}
	heap_up(h, at, node);
}

static void heap_remove(struct queue_heap *h, struct queue_heap_node *node)
{
	size_t at = node->place - 1;

	node->place = 0;
	if (at != --h->n)
		heap_down(h, at, h->nodes[h->n]);
}

void queue_heap_set(struct queue_heap *h, struct queue_heap_node *node, uint64_t key)
{
	node->key = key;
	if (key == UINT64_MAX) {
		if (node->place)
			heap_remove(h, node);
	} else if (node->place) {
		heap_down(h, node->place - 1, node);
	} else {
		assert(h->n < h->reserved);
		h->n++;
		heap_up(h, h->n - 1, node);
	}
}
