/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The ranks of hosts and of their workers in a round. Pure; the head calls it once for each round,
 * with the hosts that it has chosen.
 *
 * A host with a given node rank gets that group rank, or the nearest one that keeps the order of
 * node ranks without a gap. A host of the last round keeps its group rank; where fewer hosts are
 * left, they close the gaps and keep their order. Newcomers get the vacant ranks, in the natural
 * order of their topologies, then of their names.
 *
 * The workers of a host have contiguous ranks: its roles in their order, the replicas of each in
 * theirs. A worker's index within its role, which is also its ROLE_RANK, counts over all hosts in
 * the order of group ranks.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct ranked_host {
	const char *name;     /* borrowed */
	const char *boot;     /* orders hosts with one name; borrowed */
	const char *topology; /* its parts (topology.h); borrowed, NULL: none */
	int node_rank;	      /* -1: none was given */
	int last_rank;	      /* its group rank in the last round; -1: it was not there */
	const int *replicas;  /* of each role, also of first_only ones; borrowed */

	/* Results. */
	int group_rank;
	int first_rank;	  /* the global rank of its first worker */
	int workers;	  /* LOCAL_WORLD_SIZE */
	int *first_index; /* of each role: index of its first worker here; the caller's array */
};

struct ranked_roles {
	int n;
	const bool
		*first_only; /* of each role: it runs on the group's first host alone; borrowed */
};

struct ranked_world {
	int hosts;   /* GROUP_WORLD_SIZE */
	int workers; /* WORLD_SIZE */
	int *roles;  /* ROLE_WORLD_SIZE of each role; the caller's array */
};

/*
 * Sets the results of all n hosts, and ret_world. space: host_ranks_space_bytes(n) bytes of working
 * memory, aligned as malloc() does. Returns 0; -EINVAL where two hosts have one node rank; -ERANGE
 * for more workers than RANKS_MAX. After an error the results are undefined.
 */
_must_check_ int host_ranks_assign(struct ranked_host *hosts, int n,
	const struct ranked_roles *roles, void *space, struct ranked_world *ret_world,
	struct error *err);
size_t host_ranks_space_bytes(int n);

/* How many workers of a role run on the host of that group rank. */
int host_ranks_replicas(
	const struct ranked_host *host, const struct ranked_roles *roles, int role, int group_rank);
