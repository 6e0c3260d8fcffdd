/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts are in a round, and with which ranks. */
#include "agent/rounds/round_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Hosts that are kept out come last. Of equal ones, hosts that had a place in the last round come
 * before others, and of these the first to join. */
static int round_compare_claims(const void *x, const void *y)
{
	const struct round_host *a = *(struct round_host *const *)x,
				*b = *(struct round_host *const *)y;

	if (!a->kept_until_ms != !b->kept_until_ms)
		return a->kept_until_ms ? 1 : -1;
	if ((a->wish < 0) != (b->wish < 0))
		return a->wish < 0 ? 1 : -1;
	return a->turn < b->turn ? -1 : 1;
}

static int round_choose(struct round *r)
{
	bool all = round_needs_all(r);
	int n = 0;

	for (int i = 0; i < r->n_numbers; i++) {
		struct round_host *h = r->hosts[i];

		if (!h || h->state != HOST_WAITING || (h->kept_until_ms && !all))
			continue;
		h->claim = h->turn + (h->kept_until_ms ? ROUND_LAST_CLAIM : 0);
		h->wish = h->last_round == r->last_round ? h->last_rank : -1;
		r->chosen[n++] = h;
	}
	if (r->config.segment > 1)
		return round_choose_blocks(r, n);
	round_fill_seats(r, n);
	if (n <= r->config.max)
		return n;
	qsort(r->chosen, (size_t)n, sizeof(struct round_host *), round_compare_claims);
	return r->config.max;
}

static void round_rank(struct round *r)
{
	int ret;

	for (int i = 0; i < r->seats; i++) {
		const struct round_host *h = r->chosen[i];

		r->ranked[i] = (struct ranked_host){ .name = h->name,
			.boot = h->boot,
			.node_rank = h->node_rank,
			.topology = h->parts,
			.last_rank = h->wish,
			.replicas = h->replicas,
			.first_index = h->first_index };
	}
	/* round_join() has checked node ranks and the number of workers. */
	ret = host_ranks_assign(r->ranked, r->seats, &r->config.roles, r->space, &r->world, NULL);
	assert(!ret);
	(void)ret;
}

void round_assign(struct round *r, uint64_t now_ms)
{
	r->seats = round_choose(r);
	round_rank(r);
	r->round = (r->known_round > r->round ? r->known_round : r->round) + 1;
	for (int i = 0; i < r->seats; i++) {
		struct round_host *h = r->chosen[i];

		h->round = r->round;
		h->group_rank = r->ranked[i].group_rank;
		h->first_rank = r->ranked[i].first_rank;
		h->workers = r->ranked[i].workers;
		round_host_change(r, h, HOST_EV_ASSIGN, ROUND_WHY_NONE, now_ms);
	}
	r->prepared_by_ms = now_ms + r->config.prepare_timeout_ms;
	r->recall_ms = ROUND_NEVER;
	r->next_ms = 0;
	r->saving = r->held = r->taken = r->record_due = r->recording = false;
}
