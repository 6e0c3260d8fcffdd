/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of the store in memory. There are few (one for each agent), so they are a plain list. A
 * keep-alive does not move their one timer, which saves a system call: a timer that fires too early
 * arms itself again.
 */
#include "agent/store/memory_private.h"

#include <stdlib.h>

struct lease *memory_lease(struct memory *m, int64_t id)
{
	struct lease *l;

	LIST_FOREACH (l, &m->leases, link) {
		if (l->id == id)
			return l;
	}
	return NULL;
}

static void arm_timer_by(struct memory *m, uint64_t ends_ms)
{
	uint64_t now = m->now_ms();

	if (loop_timer_armed(m->timer) && m->timer_ms <= ends_ms)
		return;
	m->timer_ms = ends_ms;
	loop_timer_arm(m->timer, ends_ms > now ? ends_ms - now : 0);
}

struct lease *memory_lease_new(struct memory *m, uint64_t ttl_ms)
{
	struct lease *l = malloc(sizeof(*l));

	if (!l)
		return NULL;
	LIST_INIT(&l->nodes);
	l->id = ++m->last_lease;
	l->ttl_ms = ttl_ms;
	LIST_INSERT_HEAD(&m->leases, l, link);
	return l;
}

void memory_lease_renew(struct memory *m, struct lease *l)
{
	l->ends_ms = m->now_ms() + l->ttl_ms;
	arm_timer_by(m, l->ends_ms);
}

void memory_node_lease(struct node *n, struct lease *l)
{
	if (n->lease)
		LIST_REMOVE(n, of_lease);
	n->lease = l;
	if (l)
		LIST_INSERT_HEAD(&l->nodes, n, of_lease);
}

int64_t memory_lease_end(struct memory *m, struct lease *l)
{
	struct map_place place;
	int64_t n = 0;

	LIST_REMOVE(l, link);
	if (!LIST_EMPTY(&l->nodes))
		m->revision++;
	while (!LIST_EMPTY(&l->nodes)) {
		map_seek(&m->map, LIST_FIRST(&l->nodes)->record->key, &place);
		memory_erase(m, &place);
		n++;
	}
	free(l);
	return n;
}

void memory_leases_expire(struct memory *m)
{
	uint64_t now = m->now_ms(), first = UINT64_MAX;
	struct lease *next;

	for (struct lease *l = LIST_FIRST(&m->leases); l; l = next) {
		next = LIST_NEXT(l, link);
		if (l->ends_ms <= now)
			memory_lease_end(m, l);
		else if (l->ends_ms < first)
			first = l->ends_ms;
	}
	if (first != UINT64_MAX)
		arm_timer_by(m, first);
}

void memory_leases_free(struct memory *m)
{
	struct lease *l;

	while ((l = LIST_FIRST(&m->leases))) {
		LIST_REMOVE(l, link);
		free(l);
	}
}
