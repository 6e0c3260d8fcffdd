/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * NVIDIA's management library, loaded at run time: how much memory of a GPU is in use, and by which
 * processes, and how busy it is. Its calls may block for as long as a GPU is sick, so only a
 * process that may be killed makes them (agent/resources/gpu_memory.h).
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdint.h>
#include <sys/types.h>

struct nvml;

/* -EOPNOTSUPP with err where there is no library, or no driver. */
_must_check_ int nvml_open(struct nvml **ret, struct error *err);
struct nvml *nvml_close(struct nvml *n);
DEFINE_CLEANUP(struct nvml *, nvml_close)

/* The number of GPUs, or a negative errno. */
int nvml_count(const struct nvml *n);

/* id: a number, or a UUID. 0, or -ENODEV. */
_must_check_ int nvml_used(const struct nvml *n, const char *id, uint64_t *ret_bytes);

enum { NVML_HOLDERS_MAX = 256 };

struct nvml_holder {
	pid_t pid;
	uint64_t bytes; /* UINT64_MAX: not known */
};

/* The processes that hold memory of the GPU, at most NVML_HOLDERS_MAX. Returns how many. */
size_t nvml_holders(const struct nvml *n, const char *id, struct nvml_holder *holders);

/* How much of the last second or so the GPU was busy, in percent; or -EOPNOTSUPP, -ENODEV. */
int nvml_busy(const struct nvml *n, const char *id);
