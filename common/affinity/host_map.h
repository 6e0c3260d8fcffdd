/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The CPUs of this host that may be used, and where they are: in which NUMA node and package, which
 * of them are one core, or share the largest cache. And the GPUs, in the order of their PCI
 * addresses, which is that of nvidia-smi: those of NVIDIA's driver, else of AMD's.
 */

#include "common/affinity/cpus.h"

#include <stddef.h>

struct host_cpu {
	int cpu, node, package;
	int core, complex; /* the lowest CPU, perhaps none that may be used, of its core; of those
			      that share its largest cache */
};

enum { HOST_GPU_ADDRESS = 24, HOST_GPU_UUID = 64 };

struct host_gpu {
	char address[HOST_GPU_ADDRESS]; /* "0000:3b:00.0" */
	char uuid[HOST_GPU_UUID];	/* "GPU-8932f937-...", or "" */
	int node;			/* 0 where the host has no NUMA; -1: not known */
};

struct host_map {
	struct host_cpu *cpus; /* by number */
	size_t n_cpus;
	struct host_gpu *gpus;
	size_t n_gpus;
};

/* root: "", or a directory with sys and proc, for tests. -ENOMEM. */
_must_check_ int host_map_read(const char *root, const struct cpus *allowed, struct host_map **ret);
struct host_map *host_map_free(struct host_map *m);
DEFINE_CLEANUP(struct host_map *, host_map_free)

/* The place in gpus of one that a variable such as CUDA_VISIBLE_DEVICES names: by its number, or by
 * its UUID or the beginning of that. len: of id. -1: there is none. */
int host_map_find_gpu(const struct host_map *m, const char *id, size_t len);
