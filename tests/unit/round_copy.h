/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Models walk many ways from one state: copies of a head, and which states were seen. */

#include "agent/rounds/round_private.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* --- copies --- */

static inline void *copied(const void *p, size_t bytes)
{
	void *copy = malloc(bytes);

	if (!copy)
		ck_abort_msg("no memory");
	return memcpy(copy, p, bytes);
}

static inline struct round_host *copied_host(const struct round_host *h)
{
	struct round_host *c = copied(h, sizeof(*h));

	c->run = strdup(h->run);
	c->agent = strdup(h->agent);
	c->boot = strdup(h->boot);
	c->name = strdup(h->name);
	c->replicas = copied(h->replicas, 3 * sizeof(int));
	c->first_index = c->replicas + 1;
	return c;
}

/* The seats in their order, with the hosts that leave them or prepare for them. */
static inline void copy_seats(struct round *c, const struct round *r)
{
	struct round_seat *last = NULL, *s, *copy;

	LIST_INIT(&c->vacant);
	LIST_FOREACH (s, &r->vacant, entry) {
		copy = copied(s, sizeof(*s));
		copy->name = strdup(s->name);
		copy->replicas = copied(s->replicas, 3 * sizeof(int));
		copy->first_index = copy->replicas + 1;
		if (last)
			LIST_INSERT_AFTER(last, copy, entry);
		else
			LIST_INSERT_HEAD(&c->vacant, copy, entry);
		last = copy;
		if (!s->host)
			continue;
		copy->host = c->hosts[s->host->number];
		c->hosts[s->host->number]->seat = copy;
	}
}

/* A head whose job has one role. */
static inline struct round *copied_head(const struct round *r)
{
	struct round *c = copied(r, sizeof(*r));
	size_t n = (size_t)r->size;

	c->config.digest = strdup(r->config.digest);
	c->config.roles.first_only = copied(r->config.roles.first_only, 2 * sizeof(bool));
	if (r->config.alone)
		c->config.alone = copied(r->config.alone, 2 * sizeof(bool));
	c->world.roles = copied(r->world.roles, 2 * sizeof(int));
	c->by_node_rank = copied(r->by_node_rank, (size_t)r->config.max * sizeof(void *));
	c->hosts = copied(r->hosts, n * sizeof(void *));
	c->free_numbers = copied(r->free_numbers, n * sizeof(int));
	c->dropped = copied(r->dropped, n * sizeof(void *));
	c->ranked = copied(r->ranked, n * sizeof(*r->ranked));
	c->chosen = copied(r->chosen, n * sizeof(void *));
	c->space = copied(r->space, host_ranks_space_bytes(r->size));
	c->vacancies = copied(r->vacancies, n * sizeof(*r->vacancies));
	c->spares = copied(r->spares, n * sizeof(*r->spares));
	c->seat_parts = copied(r->seat_parts, n * sizeof(char *)); /* none is known */
	c->orders = copied(r->orders, (2 * n + 8) * sizeof(*r->orders));
	c->by_run = (struct chain){ 0 };
	if (chain_reserve(&c->by_run) < 0)
		ck_abort_msg("no memory");
	for (int i = 0; i < r->n_numbers; i++) {
		if (!r->hosts[i])
			continue;
		c->hosts[i] = copied_host(r->hosts[i]);
		if (c->hosts[i]->state != HOST_GONE)
			chain_put(&c->by_run, &c->hosts[i]->by_run, c->hosts[i]->by_run.hash);
	}
	for (int i = 0; i < r->n_dropped; i++)
		c->dropped[i] = c->hosts[r->dropped[i]->number];
	copy_seats(c, r);
	return c;
}

/* --- which states are alike --- */

enum { SEEN_STATES = 1 << 23 };

static uint64_t *seen;
static unsigned long states;

static inline void mix(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	*h ^= *h >> 29;
}

/* Times count from now, and what is long over is all the same. */
static inline void mix_ms(uint64_t *h, uint64_t ms, uint64_t now_ms, uint64_t long_ms)
{
	if (ms == UINT64_MAX)
		mix(h, 1);
	else if (ms + long_ms < now_ms)
		mix(h, 2);
	else
		mix(h, ms - now_ms + 1000000);
}

static inline void seen_begin(void)
{
	states = 0;
	seen = calloc(SEEN_STATES, sizeof(*seen));
	ck_assert_ptr_nonnull(seen);
}

static inline void seen_end(void)
{
	free(seen);
}

/* Whether a state of that hash was here before. */
static inline bool was_seen(uint64_t h)
{
	size_t i;

	h |= 1;
	for (i = h % SEEN_STATES; seen[i] && seen[i] != h;)
		i = (i + 1) % SEEN_STATES;
	if (seen[i])
		return true;
	seen[i] = h;
	if (++states > SEEN_STATES / 4 * 3)
		ck_abort_msg("too many states");
	return false;
}
