/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/nvml.h"

#include "common/base/scan.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_SUCCESS = 0 };

typedef void *nvml_device;

/* The library's layouts. */
struct nvml_memory {
	unsigned long long total, free, used;
};
struct nvml_process {
	unsigned pid;
	unsigned long long memory;
	unsigned instances[2];
};
struct nvml_utilization {
	unsigned gpu, memory; /* percent */
};

/* All are in drivers since 2021. The last two may be missing: what they say is not known then. */
struct nvml_functions {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned *ret);
	int (*by_index)(unsigned index, nvml_device *ret);
	int (*by_uuid)(const char *uuid, nvml_device *ret);
	int (*memory)(nvml_device d, struct nvml_memory *ret);
	int (*processes)(nvml_device d, unsigned *n, struct nvml_process *ret);
	int (*utilization)(nvml_device d, struct nvml_utilization *ret);
};

struct nvml {
	void *handle;
	struct nvml_functions f;
};

static int nvml_find(void *handle, const char *name, void *ret)
{
	void *function = dlsym(handle, name);

	memcpy(ret, &function, sizeof(function));
	return function ? 0 : -EOPNOTSUPP;
}

static int nvml_resolve(struct nvml *n)
{
	int r = nvml_find(n->handle, "nvmlInit_v2", &n->f.init);

	r = r ? r : nvml_find(n->handle, "nvmlShutdown", &n->f.shutdown);
	r = r ? r : nvml_find(n->handle, "nvmlDeviceGetCount_v2", &n->f.count);
	r = r ? r : nvml_find(n->handle, "nvmlDeviceGetHandleByIndex_v2", &n->f.by_index);
	r = r ? r : nvml_find(n->handle, "nvmlDeviceGetHandleByUUID", &n->f.by_uuid);
	r = r ? r : nvml_find(n->handle, "nvmlDeviceGetMemoryInfo", &n->f.memory);
	(void)nvml_find(n->handle, "nvmlDeviceGetComputeRunningProcesses_v3", &n->f.processes);
	(void)nvml_find(n->handle, "nvmlDeviceGetUtilizationRates", &n->f.utilization);
	return r;
}

int nvml_open(struct nvml **ret, struct error *err)
{
	struct nvml *n = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return error_set(err, -ENOMEM, "out of memory");
	n->handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!n->handle) {
		free(n);
		return error_set(err, -EOPNOTSUPP, "%s", dlerror());
	}
	r = nvml_resolve(n);
	if (r == 0 && n->f.init() == NVML_SUCCESS) {
		*ret = n;
		return 0;
	}
	dlclose(n->handle);
	free(n);
	return error_set(
		err, -EOPNOTSUPP, "libnvidia-ml.so.1 %s", r < 0 ? "is too old" : "finds no driver");
}

struct nvml *nvml_close(struct nvml *n)
{
	if (n) {
		n->f.shutdown();
		dlclose(n->handle);
		free(n);
	}
	return NULL;
}

int nvml_count(const struct nvml *n)
{
	unsigned count = 0;

	return n->f.count(&count) == NVML_SUCCESS ? (int)count : -ENODEV;
}

static int nvml_find_device(const struct nvml *n, const char *id, nvml_device *ret)
{
	uint64_t index;

	if (!isdigit((unsigned char)*id))
		return n->f.by_uuid(id, ret) == NVML_SUCCESS ? 0 : -ENODEV;
	if (scan_whole(id, UINT_MAX, &index) < 0)
		return -ENODEV;
	return n->f.by_index((unsigned)index, ret) == NVML_SUCCESS ? 0 : -ENODEV;
}

int nvml_used(const struct nvml *n, const char *id, uint64_t *ret_bytes)
{
	struct nvml_memory memory = { 0 };
	nvml_device d;
	int r = nvml_find_device(n, id, &d);

	if (r == 0 && n->f.memory(d, &memory) != NVML_SUCCESS)
		r = -ENODEV;
	if (r == 0)
		*ret_bytes = memory.used;
	return r;
}

size_t nvml_holders(const struct nvml *n, const char *id, struct nvml_holder *holders)
{
	struct nvml_process processes[NVML_HOLDERS_MAX];
	unsigned count = NVML_HOLDERS_MAX;
	nvml_device d;

	if (!n->f.processes || nvml_find_device(n, id, &d) < 0 ||
		n->f.processes(d, &count, processes) != NVML_SUCCESS)
		return 0;
	for (size_t i = 0; i < count; i++)
		holders[i] = (struct nvml_holder){ (pid_t)processes[i].pid, processes[i].memory };
	return count;
}

int nvml_busy(const struct nvml *n, const char *id)
{
	struct nvml_utilization busy;
	nvml_device d;

	if (!n->f.utilization)
		return -EOPNOTSUPP;
	if (nvml_find_device(n, id, &d) < 0 || n->f.utilization(d, &busy) != NVML_SUCCESS)
		return -ENODEV;
	return (int)busy.gpu;
}
