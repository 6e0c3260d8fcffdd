/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/host_ranks.h"

#include "agent/rounds/natural.h"
#include "agent/rounds/numbers.h"
#include "agent/rounds/topology.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* `line` has three lines of hosts, one after the other: those with a node rank, those with a last
 * rank, newcomers. */
struct seating {
	int n;
	struct ranked_host **line;
	struct ranked_host **seats; /* by group rank; NULL: free */
	int *free;		    /* the free group ranks, ascending */
	int *below;		    /* for each group rank: how many free ones are below it */
	int n_free;
};

static int seating_class(const struct ranked_host *h)
{
	return h->node_rank >= 0 ? 0 : h->last_rank >= 0 ? 1 : 2;
}

static int compare_topologies(const struct ranked_host *a, const struct ranked_host *b)
{
	return topology_compare(
		a->topology ? a->topology : "", b->topology ? b->topology : "", TOPOLOGY_PARTS_MAX);
}

static int seating_compare(const void *x, const void *y)
{
	const struct ranked_host *a = *(struct ranked_host *const *)x,
				 *b = *(struct ranked_host *const *)y;
	int class = seating_class(a), r = compare_numbers(class, seating_class(b));

	if (!r && class == 0)
		r = compare_numbers(a->node_rank, b->node_rank);
	if (!r && class == 1)
		r = compare_numbers(a->last_rank, b->last_rank);
	if (!r && class == 2)
		r = compare_topologies(a, b);
	if (!r)
		r = natural_compare(a->name, b->name);
	return r ? r : natural_compare(a->boot, b->boot);
}

static void seating_count_free(struct seating *s)
{
	s->n_free = 0;
	for (int rank = 0; rank < s->n; rank++) {
		s->below[rank] = s->n_free;
		if (!s->seats[rank])
			s->free[s->n_free++] = rank;
	}
	s->below[s->n] = s->n_free;
}

/* The rank that h wants, as an index into s->free. */
static int seating_wish(const struct seating *s, const struct ranked_host *h)
{
	int rank = h->node_rank >= 0 ? h->node_rank : h->last_rank;

	if (rank < 0)
		return 0; /* whatever is free */
	return s->below[rank < s->n ? rank : s->n];
}

/*
 * Each of the k hosts in a line gets the free rank that it wants; a later one where the host before
 * it has that; an earlier one where the hosts behind it would find no room.
 */
static void seating_place(struct seating *s, struct ranked_host **line, int k)
{
	int next = 0;

	seating_count_free(s);
	for (int i = 0; i < k; i++) {
		int at = seating_wish(s, line[i]), last = s->n_free - (k - i);

		if (at < next)
			at = next;
		if (at > last)
			at = last;
		line[i]->group_rank = s->free[at];
		s->seats[s->free[at]] = line[i];
		next = at + 1;
	}
}

static int seating_one_node_rank(struct ranked_host *const *line, int n, struct error *err)
{
	for (int i = 1; i < n; i++)
		if (line[i]->node_rank >= 0 && line[i]->node_rank == line[i - 1]->node_rank)
			return error_set(err, -EINVAL,
				"node rank %d: expected one host to have it, but %s and %s do",
				line[i]->node_rank, line[i - 1]->name, line[i]->name);
	return 0;
}

static int seating_fill(struct seating *s, struct error *err)
{
	int r, end;

	qsort(s->line, (size_t)s->n, sizeof(struct ranked_host *), seating_compare);
	r = seating_one_node_rank(s->line, s->n, err);
	for (int at = 0; !r && at < s->n; at = end) {
		for (end = at + 1; end < s->n; end++)
			if (seating_class(s->line[end]) != seating_class(s->line[at]))
				break;
		seating_place(s, s->line + at, end - at);
	}
	return r;
}

int host_ranks_replicas(
	const struct ranked_host *host, const struct ranked_roles *roles, int role, int group_rank)
{
	return roles->first_only[role] && group_rank > 0 ? 0 : host->replicas[role];
}

static int seating_number_workers(const struct seating *s, const struct ranked_roles *roles,
	struct ranked_world *world, struct error *err)
{
	int64_t total = 0;

	world->hosts = s->n;
	for (int role = 0; role < roles->n; role++)
		world->roles[role] = 0;
	for (int rank = 0; rank < s->n; rank++) {
		struct ranked_host *h = s->seats[rank];
		int64_t before = total;

		h->first_rank = (int)total;
		for (int role = 0; role < roles->n; role++) {
			int replicas = host_ranks_replicas(h, roles, role, rank);

			h->first_index[role] = world->roles[role];
			total += replicas;
			if (total > RANKS_MAX)
				return error_set(err, -ERANGE,
					"expected at most %d workers on all hosts", RANKS_MAX);
			world->roles[role] += replicas;
		}
		h->workers = (int)(total - before);
	}
	world->workers = (int)total;
	return 0;
}

size_t host_ranks_space_bytes(int n)
{
	return (size_t)n * 2 * (sizeof(struct ranked_host *) + sizeof(int)) + sizeof(int);
}

int host_ranks_assign(struct ranked_host *hosts, int n, const struct ranked_roles *roles,
	void *space, struct ranked_world *ret_world, struct error *err)
{
	struct seating s = { .n = n, .line = space };
	int r;

	s.seats = s.line + n;
	s.free = (int *)(s.seats + n);
	s.below = s.free + n; /* of n + 1 */
	for (int i = 0; i < n; i++) {
		s.line[i] = &hosts[i];
		s.seats[i] = NULL;
	}
	r = seating_fill(&s, err);
	return r ? r : seating_number_workers(&s, roles, ret_world, err);
}
