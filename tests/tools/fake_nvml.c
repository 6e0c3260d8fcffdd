/* SPDX-License-Identifier: Apache-2.0 */

/*
 * In place of NVIDIA's libnvidia-ml.so.1: two GPUs, of which the second has 9,000 MiB more in use
 * as long as the file $FAKE_NVML exists, but only for the first $FAKE_NVML_LOOKS looks of a process
 * (no limit: 0). A process that looks while it does not exist writes its pid to $FAKE_NVML.looked.
 * $FAKE_NVML.processes may name the processes that hold memory, each by a line "GPU PID MIB". Asked
 * how busy a GPU is, it hangs while $FAKE_NVML.hangs exists.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process {
	unsigned pid;
	unsigned long long memory;
	unsigned instances[2];
};

static int gpus[2];
static int looks;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *ret);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **ret);
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *ret);
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *ret);
int nvmlDeviceGetUtilizationRates(void *d, unsigned *ret);

int nvmlInit_v2(void)
{
	return getenv("FAKE_NVML") ? 0 : 9;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *ret)
{
	*ret = 2;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret)
{
	if (index > 1)
		return 2;
	*ret = &gpus[index];
	return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **ret)
{
	return nvmlDeviceGetHandleByIndex_v2(!strcmp(uuid, "GPU-b") ? 1 : 2, ret);
}

int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *ret)
{
	const char *file = getenv("FAKE_NVML"), *limit = getenv("FAKE_NVML_LOOKS");
	int most = limit ? atoi(limit) : 0;
	char path[512];
	int fd;

	ret[0] = 80000ULL << 20;
	ret[2] = 600ULL << 20;
	if (d != &gpus[1])
		return 0;
	if (access(file, F_OK) == 0) {
		ret[2] += !most || looks++ < most ? 9000ULL << 20 : 0;
	} else {
		snprintf(path, sizeof(path), "%s.looked", file);
		fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
		dprintf(fd, "%d", (int)getpid());
		close(fd);
	}
	ret[1] = ret[0] - ret[2];
	return 0;
}

static FILE *open_beside(const char *suffix)
{
	char path[512];

	snprintf(path, sizeof(path), "%s.%s", getenv("FAKE_NVML"), suffix);
	return fopen(path, "re");
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *ret)
{
	FILE *f = open_beside("processes");
	unsigned gpu, pid, mib, most = *n;

	memset(ret, 0, sizeof(*ret));
	ret->pid = (unsigned)getppid();
	*n = !f && d == &gpus[1];
	while (f && *n < most && fscanf(f, "%u %u %u", &gpu, &pid, &mib) == 3)
		if (d == &gpus[gpu])
			ret[(*n)++] = (struct process){ .pid = pid,
				.memory = (unsigned long long)mib << 20 };
	if (f)
		fclose(f);
	return 0;
}

int nvmlDeviceGetUtilizationRates(void *d, unsigned *ret)
{
	FILE *f = open_beside("hangs");

	while (f)
		pause();
	ret[0] = d == &gpus[1] ? 80 : 30;
	ret[1] = 1;
	return 0;
}
