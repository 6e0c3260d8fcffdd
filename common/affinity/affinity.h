/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses the CPUs of each worker of a host, as torchrun's --numa-binding does. Pure: no I/O.
 *
 * Each GPU of the host, and each worker without one, has a NUMA node; the latter are spread over
 * the nodes, neighbours together. It gets, of the CPUs that may be used,
 *
 *   node           all of its node
 *   socket         all of the nodes of its node's package
 *   exclusive      a share of the cores of its node; the first ones of the node have one more
 *   core-complex   those of the node that share one largest cache; each of the node gets the next
 *                  one, the largest first, and from the beginning again where there are too few
 *
 * and a worker gets the CPUs of all its GPUs.
 */

#include "common/affinity/host_map.h"
#include "common/base/error.h"
#include "common/spec/spec.h"

struct affinity_worker {
	/* In. */
	const int *gpus; /* places in the map */
	size_t n_gpus;	 /* 0: it has none */
	/* Out. */
	struct cpus cpus;
	int threads; /* cores, of which workers that share them count a part; at least 1 */
};

/* 0, -ERANGE with err where a worker would get no CPU, or -ENOMEM. */
_must_check_ int affinity_choose(const struct host_map *m, enum spec_affinity how,
	struct affinity_worker *workers, size_t n, struct error *err);

/*
 * The GPUs of a worker that finds list in a variable such as CUDA_VISIBLE_DEVICES; NULL: it finds
 * none there, and sees all. own: the worker uses all of the list, which no other one has; else the
 * one at local_rank, if there is one. Returns 0 with an owned array, NULL for none; -ENODEV with
 * err where the list names an unknown one; -ENOMEM.
 */
_must_check_ int affinity_gpus(const struct host_map *m, const char *list, bool own, int local_rank,
	int **ret, size_t *ret_n, struct error *err);
