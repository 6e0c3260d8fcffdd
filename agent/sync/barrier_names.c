/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/barrier_private.h"

#include <errno.h>
#include <string.h>

struct barrier_name *barrier_name_find(const struct barriers *b, const char *text)
{
	uint64_t hash = chain_hash(text, strlen(text));

	for (struct chain_node *n = chain_first(&b->names, hash); n; n = chain_next(n)) {
		struct barrier_name *name = (struct barrier_name *)n;

		if (!strcmp(name->text, text))
			return name;
	}
	return NULL;
}

static struct barrier_name *barrier_name_oldest(struct barriers *b)
{
	struct barrier_name *idle = TAILQ_FIRST(&b->lists[BARRIER_IDLE]);

	return idle ? idle : TAILQ_FIRST(&b->lists[BARRIER_FAILED]);
}

int barrier_name_add(struct barriers *b, const char *text, struct barrier_name **ret)
{
	struct barrier_name *oldest = NULL, *name;
	size_t len = strlen(text);
	int r = chain_reserve(&b->names);

	if (r < 0)
		return r;
	if (b->names.n >= BARRIER_NAMES) {
		oldest = barrier_name_oldest(b);
		if (!oldest)
			return -ENOSPC;
	}
	name = calloc(1, sizeof(*name) + len + 1);
	if (!name)
		return -ENOMEM;
	if (oldest)
		barrier_name_forget(b, oldest);
	memcpy(name->text, text, len + 1);
	TAILQ_INIT(&name->failed);
	name->list = BARRIER_IDLE;
	TAILQ_INSERT_TAIL(&b->lists[BARRIER_IDLE], name, link);
	chain_put(&b->names, &name->node, chain_hash(text, len));
	*ret = name;
	return 0;
}

void barrier_name_touch(struct barriers *b, struct barrier_name *name)
{
	TAILQ_REMOVE(&b->lists[name->list], name, link);
	if (name->open)
		name->list = BARRIER_OPEN;
	else
		name->list = TAILQ_EMPTY(&name->failed) ? BARRIER_IDLE : BARRIER_FAILED;
	TAILQ_INSERT_TAIL(&b->lists[name->list], name, link);
}

static void barrier_failure_drop(
	struct barriers *b, struct barrier_name *name, struct barrier_use *use)
{
	TAILQ_REMOVE(&name->failed, use, link);
	barrier_use_unref(b, use);
}

void barrier_name_forget(struct barriers *b, struct barrier_name *name)
{
	while (!TAILQ_EMPTY(&name->failed))
		barrier_failure_drop(b, name, TAILQ_FIRST(&name->failed));
	TAILQ_REMOVE(&b->lists[name->list], name, link);
	chain_remove(&b->names, &name->node);
	free(name);
}

void barrier_delivered(
	struct barriers *b, struct barrier_name *name, struct barrier_use *use, int slot)
{
	struct barrier_place *p = barrier_place(use, slot);

	if (!p || p->arrived)
		return;
	p->arrived = true;
	if (--use->n_late == 0)
		barrier_failure_drop(b, name, use);
}

int barrier_use_new(struct barriers *b, const int *slots, size_t n, struct barrier_use **ret)
{
	struct barrier_name *name;
	struct barrier_use *use;

	if (n > BARRIER_MEMBERS)
		return -ENOSPC;
	while (b->members + n > BARRIER_MEMBERS && (name = TAILQ_FIRST(&b->lists[BARRIER_FAILED])))
		barrier_name_forget(b, name);
	if (b->members + n > BARRIER_MEMBERS)
		return -ENOSPC;
	use = calloc(1, sizeof(*use) + n * sizeof(struct barrier_place) + (n + 1) * sizeof(int));
	if (!use)
		return -ENOMEM;
	use->refs = 1;
	use->n = n;
	use->missing = (int *)(use->places + n);
	for (size_t i = 0; i < n; i++)
		use->places[i] = (struct barrier_place){ .slot = (uint16_t)slots[i],
			.after_ms = BARRIER_NEVER };
	b->members += n;
	*ret = use;
	return 0;
}

void barrier_use_unref(struct barriers *b, struct barrier_use *use)
{
	if (--use->refs)
		return;
	b->members -= use->n;
	free(use);
}

struct barrier_place *barrier_place(struct barrier_use *use, int slot)
{
	size_t low = 0, high = use->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (use->places[mid].slot < slot)
			low = mid + 1;
		else
			high = mid;
	}
	return low < use->n && use->places[low].slot == slot ? &use->places[low] : NULL;
}
