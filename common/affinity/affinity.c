/* SPDX-License-Identifier: Apache-2.0 */
#include "common/affinity/affinity.h"

#include "common/base/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Claimants are the GPUs of the host, then the workers without one. */
struct affinity {
	const struct host_map *map;
	enum spec_affinity how;
	int *nodes; /* NUMA node of each claimant */
	size_t n;
};

/* CPUs of a node that are one core, or share one cache. */
struct affinity_part {
	int lowest; /* names it */
	int cpus;
};

/* --- NUMA nodes --- */

/* The lowest CPU of a node, or NULL. */
static const struct host_cpu *affinity_first(const struct host_map *m, int node)
{
	for (size_t i = 0; i < m->n_cpus; i++)
		if (m->cpus[i].node == node)
			return &m->cpus[i];
	return NULL;
}

/* The next node after node that has CPUs, or -1. */
static int affinity_next_node(const struct host_map *m, int node)
{
	int next = -1;

	for (size_t i = 0; i < m->n_cpus; i++)
		if (m->cpus[i].node > node && (next < 0 || m->cpus[i].node < next))
			next = m->cpus[i].node;
	return next;
}

/* The node of the place-th of n workers without a GPU. */
static int affinity_spread(const struct host_map *m, size_t place, size_t n)
{
	size_t nodes = 0, skip;
	int node = -1;

	for (int k = affinity_next_node(m, -1); k >= 0; k = affinity_next_node(m, k))
		nodes++;
	skip = place * nodes / n;
	do
		node = affinity_next_node(m, node);
	while (skip--);
	return node;
}

static int affinity_find_nodes(struct affinity *a, const struct affinity_worker *workers, size_t n)
{
	const struct host_map *m = a->map;
	size_t plain = 0, place = 0;

	a->nodes = calloc(m->n_gpus + n + 1, sizeof(*a->nodes));
	if (!a->nodes)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_gpus; i++)
		a->nodes[a->n++] = m->gpus[i].node;
	for (size_t i = 0; i < n; i++)
		plain += !workers[i].n_gpus;
	while (place < plain)
		a->nodes[a->n++] = affinity_spread(m, place++, plain);
	return 0;
}

/* --- parts of a node --- */

static int affinity_part_of(const struct affinity *a, const struct host_cpu *c)
{
	return a->how == SPEC_AFFINITY_EXCLUSIVE ? c->core : c->complex;
}

static int affinity_compare_lowest(const void *x, const void *y)
{
	const struct affinity_part *a = x, *b = y;

	return a->lowest < b->lowest ? -1 : a->lowest > b->lowest;
}

static int affinity_compare_size(const void *x, const void *y)
{
	const struct affinity_part *a = x, *b = y;

	return a->cpus == b->cpus ? affinity_compare_lowest(x, y) : a->cpus > b->cpus ? -1 : 1;
}

/* The cores or caches of node, in the order in which they are given out. Owned, or NULL. */
static struct affinity_part *affinity_parts(const struct affinity *a, int node, size_t *ret_n)
{
	const struct host_map *m = a->map;
	struct affinity_part *parts = calloc(m->n_cpus + 1, sizeof(*parts));
	size_t n = 0;

	for (size_t i = 0; parts && i < m->n_cpus; i++) {
		int lowest = affinity_part_of(a, &m->cpus[i]);
		size_t k = 0;

		if (m->cpus[i].node != node)
			continue;
		while (k < n && parts[k].lowest != lowest)
			k++;
		parts[k].lowest = lowest;
		parts[k].cpus++;
		n += k == n;
	}
	if (n)
		qsort(parts, n, sizeof(*parts),
			a->how == SPEC_AFFINITY_EXCLUSIVE ? affinity_compare_lowest
							  : affinity_compare_size);
	*ret_n = n;
	return parts;
}

static void affinity_add_parts(const struct affinity *a, int node,
	const struct affinity_part *parts, size_t first, size_t end, struct cpus *c)
{
	for (size_t i = 0; i < a->map->n_cpus; i++) {
		const struct host_cpu *cpu = &a->map->cpus[i];

		for (size_t k = first; cpu->node == node && k < end; k++)
			if (parts[k].lowest == affinity_part_of(a, cpu))
				cpus_add(c, cpu->cpu);
	}
}

static int affinity_add_share(
	const struct affinity *a, size_t claimant, struct cpus *c, struct error *err)
{
	int node = a->nodes[claimant];
	size_t n, place = 0, of = 0;
	_cleanup_free_ struct affinity_part *parts = affinity_parts(a, node, &n);

	if (!parts)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < a->n; i++) {
		place += i < claimant && a->nodes[i] == node;
		of += a->nodes[i] == node;
	}
	if (a->how == SPEC_AFFINITY_CORE_COMPLEX) {
		affinity_add_parts(a, node, parts, place % n, place % n + 1, c);
		return 0;
	}
	if (n < of)
		return error_set(err, -ERANGE,
			"\"exclusive\" needs a core for each of %zu GPUs, or workers without one, "
			"of NUMA node %d, which has %zu that this job may use",
			of, node, n);
	affinity_add_parts(
		a, node, parts, share_begin(n, of, place), share_begin(n, of, place + 1), c);
	return 0;
}

/* Adds the CPUs of one claimant. */
static int affinity_add(
	const struct affinity *a, size_t claimant, struct cpus *c, struct error *err)
{
	int node = a->nodes[claimant];
	const struct host_map *m = a->map;
	const struct host_cpu *first = affinity_first(m, node), *other;

	if (node < 0)
		return error_set(err, -ERANGE, "the NUMA node of GPU %zu (%s) is not known",
			claimant, m->gpus[claimant].address);
	if (!first)
		return error_set(err, -ERANGE,
			"NUMA node %d, on which GPU %zu (%s) is, has no CPU that this job may use",
			node, claimant, m->gpus[claimant].address);
	if (a->how == SPEC_AFFINITY_EXCLUSIVE || a->how == SPEC_AFFINITY_CORE_COMPLEX)
		return affinity_add_share(a, claimant, c, err);
	for (size_t i = 0; i < m->n_cpus; i++) {
		other = a->how == SPEC_AFFINITY_SOCKET ? affinity_first(m, m->cpus[i].node) : NULL;
		if (other ? other->package == first->package : m->cpus[i].node == node)
			cpus_add(c, m->cpus[i].cpu);
	}
	return 0;
}

/* --- workers --- */

/* Whether set has a CPU before the i-th that is the same core. */
static bool affinity_has_core(const struct host_map *m, const struct cpus *set, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (m->cpus[k].core == m->cpus[i].core && cpus_has(set, m->cpus[k].cpu))
			return true;
	return false;
}

/* The cores of a worker; one that several workers have counts as a part for each of them. */
static int affinity_threads(
	const struct host_map *m, const struct affinity_worker *workers, size_t n, size_t of)
{
	const struct cpus *set = &workers[of].cpus;
	double cores = 0.001;

	for (size_t i = 0; i < m->n_cpus; i++) {
		int users = 0;

		if (!cpus_has(set, m->cpus[i].cpu) || affinity_has_core(m, set, i))
			continue;
		for (size_t k = 0; k < n; k++)
			users += cpus_has(&workers[k].cpus, m->cpus[i].cpu);
		cores += 1.0 / users;
	}
	return cores < 1 ? 1 : (int)cores;
}

int affinity_choose(const struct host_map *m, enum spec_affinity how,
	struct affinity_worker *workers, size_t n, struct error *err)
{
	struct affinity a = { .map = m, .how = how };
	size_t plain = m->n_gpus;
	int r = affinity_find_nodes(&a, workers, n);

	if (r < 0)
		return error_set(err, r, "out of memory");
	for (size_t i = 0; i < n && r == 0; i++) {
		struct affinity_worker *w = &workers[i];

		memset(&w->cpus, 0, sizeof(w->cpus));
		for (size_t k = 0; k < w->n_gpus && r == 0; k++)
			r = affinity_add(&a, (size_t)w->gpus[k], &w->cpus, err);
		if (!w->n_gpus)
			r = affinity_add(&a, plain++, &w->cpus, err);
	}
	for (size_t i = 0; i < n && r == 0; i++)
		workers[i].threads = affinity_threads(m, workers, n, i);
	free(a.nodes);
	return r;
}

/* --- GPUs of a worker --- */

static int affinity_find(const struct host_map *m, const char *id, int *ret, struct error *err)
{
	size_t len = strcspn(id, ",");

	*ret = host_map_find_gpu(m, id, len);
	return *ret >= 0
		       ? 0
		       : error_set(err, -ENODEV,
				 "cannot tell where device \"%.*s\" is, and so which CPUs are near",
				 (int)(len < 64 ? len : 64), id);
}

int affinity_gpus(const struct host_map *m, const char *list, bool own, int local_rank, int **ret,
	size_t *ret_n, struct error *err)
{
	size_t n = 0, most = 1;
	_cleanup_free_ int *gpus = NULL;
	int r = 0;

	*ret = NULL;
	*ret_n = 0;
	for (const char *p = list; p && *p; p++)
		most += *p == ',';
	gpus = calloc(most, sizeof(*gpus));
	if (!gpus)
		return error_set(err, -ENOMEM, "out of memory");
	if (!list && (size_t)local_rank < m->n_gpus)
		gpus[n++] = local_rank;
	/* "-1" and what follows are no devices (CUDA). */
	for (int i = 0; m->n_gpus && list && *list && *list != '-' && r == 0; i++) {
		if (own || i == local_rank)
			r = affinity_find(m, list, &gpus[n++], err);
		list += strcspn(list, ",");
		list += *list == ',';
	}
	if (r < 0 || !n)
		return r;
	*ret = TAKE_PTR(gpus);
	*ret_n = n;
	return 0;
}
