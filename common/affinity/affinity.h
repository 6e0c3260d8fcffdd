/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses the CPUs of each worker of a host, as torchrun's --numa-binding does. Pure: no I/O.
 *
 * The CPUs are divided among claimants: the GPUs of the host, and the workers without a GPU. A GPU
 * has its NUMA node; workers without one are spread over the nodes, neighbours together. Of the
 * CPUs that may be used, a claimant gets
 *
 *   node           all of its node
 *   socket         all of the nodes of its node's package
 *   exclusive      a share of the cores of its node; the node's first claimants get one more
 *   core-complex   the CPUs of its node that share one largest cache. The node's claimants take
 *                  such caches in turn, the largest first; where all are taken, from the first
 * again
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
	int threads; /* cores, at least 1; a core that n workers have counts as 1/n for each */
};

/* 0, -ERANGE with err where a worker would get no CPU, or -ENOMEM. */
_must_check_ int affinity_choose(const struct host_map *m, enum spec_affinity how,
	struct affinity_worker *workers, size_t n, struct error *err);

/*
 * The GPUs of a worker whose variable such as CUDA_VISIBLE_DEVICES is list; NULL: it has no such
 * variable, and sees all GPUs. own: the worker alone has this list, and uses all of it; else it
 * uses the GPU at local_rank, if there is one. Returns 0 with an owned array, NULL for none;
 * -ENODEV with err where the list names an unknown GPU; -ENOMEM.
 */
_must_check_ int affinity_gpus(const struct host_map *m, const char *list, bool own, int local_rank,
	int **ret, size_t *ret_n, struct error *err);
