// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers to pointers. Numbers are given in order and freed in about that order, so they are kept
 * in pages, in an array that grows at its end and shrinks at its beginning.
 */
#include "agent/queue/machine/private.h"
#include "common/base/array.h"

struct queue_page {
	size_t used;
	void *at[QUEUE_PAGE];
};

/* The index of the first slot whose page is not below number. */
static size_t index_lower_bound(const struct queue_index *x, uint64_t number)
{
	size_t lo = x->first, hi = x->first + x->n;

	if (!x->n || number <= x->slots[lo].number)
		return lo;
	/* Without gaps it is exactly there; with gaps, earlier. */
	if (number - x->slots[lo].number < x->n)
		hi = lo + (size_t)(number - x->slots[lo].number) + 1;
	if (x->slots[hi - 1].number <= number)
		return x->slots[hi - 1].number == number ? hi - 1 : hi;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (x->slots[mid].number < number)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct queue_page *page_find(const struct queue_index *x, uint64_t number, size_t *ret_at)
{
	*ret_at = index_lower_bound(x, number);
	if (*ret_at < x->first + x->n && x->slots[*ret_at].number == number)
		return x->slots[*ret_at].page;
	return NULL;
}

static int index_grow(struct queue_index *x, size_t *at)
{
	if (x->first + x->n == x->cap && x->first > x->cap / 2) {
		memmove(x->slots, x->slots + x->first, x->n * sizeof(*x->slots));
		*at -= x->first;
		x->first = 0;
	}
	return array_reserve((void **)&x->slots, &x->cap, x->first + x->n + 1, sizeof(*x->slots));
}

int queue_index_set(struct queue_index *x, int64_t id, void *p)
{
	uint64_t number = (uint64_t)id / QUEUE_PAGE;
	size_t at;
	struct queue_page *page = page_find(x, number, &at);
	void **entry;

	if (!page) {
		if (index_grow(x, &at) < 0)
			return -ENOMEM;
		page = calloc(1, sizeof(*page));
		if (!page)
			return -ENOMEM;
		memmove(x->slots + at + 1, x->slots + at,
			(x->first + x->n - at) * sizeof(*x->slots));
		x->slots[at] = (struct queue_slot){ number, page };
		x->n++;
	}
	entry = &page->at[(uint64_t)id % QUEUE_PAGE];
	page->used += !*entry;
	*entry = p;
	return 0;
}

void *queue_index_get(const struct queue_index *x, int64_t id)
{
	size_t at;
	const struct queue_page *page =
		id < 0 ? NULL : page_find(x, (uint64_t)id / QUEUE_PAGE, &at);

	return page ? page->at[(uint64_t)id % QUEUE_PAGE] : NULL;
}

static void index_shrink(struct queue_index *x)
{
	void *p;

	if (x->cap <= 16 || x->n >= x->cap / 8)
		return;
	memmove(x->slots, x->slots + x->first, x->n * sizeof(*x->slots));
	x->first = 0;
	p = realloc(x->slots, x->cap / 4 * sizeof(*x->slots));
	if (!p)
		return;
	x->slots = p;
	x->cap /= 4;
}

void queue_index_del(struct queue_index *x, int64_t id)
{
	size_t at;
	struct queue_page *page = page_find(x, (uint64_t)id / QUEUE_PAGE, &at);
	void **entry = page ? &page->at[(uint64_t)id % QUEUE_PAGE] : NULL;

	if (!entry || !*entry)
		return;
	*entry = NULL;
	if (--page->used)
		return;
	free(page);
	if (at == x->first)
		x->first++;
	else
		memmove(x->slots + at, x->slots + at + 1,
			(x->first + x->n - at - 1) * sizeof(*x->slots));
	x->n--;
	index_shrink(x);
}

void *queue_index_after(const struct queue_index *x, int64_t id)
{
	uint64_t from = id < 0 ? 0 : (uint64_t)id + 1;
	uint64_t number = from / QUEUE_PAGE;

	for (size_t at = index_lower_bound(x, number); at < x->first + x->n; at++) {
		const struct queue_slot *s = &x->slots[at];

		for (size_t i = s->number == number ? from % QUEUE_PAGE : 0; i < QUEUE_PAGE; i++)
			if (s->page->at[i])
				return s->page->at[i];
	}
	return NULL;
}

void queue_index_fini(struct queue_index *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->slots[x->first + i].page);
	free(x->slots);
	*x = (struct queue_index){ 0 };
}
