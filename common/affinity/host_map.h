/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The CPUs of this host that may be used: their NUMA nodes and packages, and which of them are one
 * core or share the largest cache. And the GPUs of NVIDIA's driver, else of AMD's, in the order of
 * their PCI addresses, as nvidia-smi has them.
 */

#include "common/affinity/cpus.h"

#include <stddef.h>

struct host_cpu {
	int cpu, node, package;
	/* Both are named by their lowest CPU, which may be one that may not be used. */
	int core;
	int complex; /* the CPUs that share its largest cache */
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

/* The place in gpus of the GPU that id, of len bytes, names in a variable such as
 * CUDA_VISIBLE_DEVICES: by its number, its UUID or the beginning of that. -1: there is none. */
int host_map_find_gpu(const struct host_map *m, const char *id, size_t len);
