// SPDX-License-Identifier: Apache-2.0
/* A heap of deadlines. Room for each is reserved before it is needed. */
#include "agent/queue/machine/private.h"

int queue_due_reserve(struct queue_dues *d)
{
	if (d->reserved == d->cap) {
		size_t cap = d->cap ? d->cap * 2 : 64;
		void *p = realloc(d->heap, cap * sizeof(*d->heap));

		if (!p)
			return -ENOMEM;
		d->heap = p;
		d->cap = cap;
	}
	d->reserved++;
	return 0;
}

void queue_due_unreserve(struct queue_dues *d)
{
	assert(d->reserved > d->n || !d->n);
	d->reserved--;
}

static void heap_put(struct queue_dues *d, size_t at, struct queue_due due)
{
	d->heap[at] = due;
	*due.place = at;
}

static void heap_up(struct queue_dues *d, size_t at, struct queue_due due)
{
	while (at && d->heap[(at - 1) / 2].at > due.at) {
		heap_put(d, at, d->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_put(d, at, due);
}

static void heap_down(struct queue_dues *d, size_t at, struct queue_due due)
{
	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < d->n && d->heap[child + 1].at < d->heap[child].at)
			child++;
		if (child >= d->n || d->heap[child].at >= due.at)
			break;
		heap_put(d, at, d->heap[child]);
		at = child;
	}
	heap_up(d, at, due);
}

void queue_due_set(struct queue_dues *d, size_t *place, enum queue_due_kind kind, uint64_t at)
{
	struct queue_due due = { at, place, kind };

	if (at == UINT64_MAX) {
		size_t from = *place;

		if (from == QUEUE_NO_PLACE)
			return;
		*place = QUEUE_NO_PLACE;
		if (from != --d->n)
			heap_down(d, from, d->heap[d->n]);
	} else if (*place == QUEUE_NO_PLACE) {
		assert(d->n < d->reserved);
		d->n++;
		heap_up(d, d->n - 1, due);
	} else {
		heap_down(d, *place, due);
	}
}
