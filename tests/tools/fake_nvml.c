/* SPDX-License-Identifier: Apache-2.0 */

/*
 * In place of NVIDIA's libnvidia-ml.so.1: two GPUs, of which the second has 9,000 MiB more in use
 * as long as the file $FAKE_NVML exists, but only for the first $FAKE_NVML_LOOKS looks of a process
 * (no limit: 0). A process that looks while it does not exist writes its pid to $FAKE_NVML.looked.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int gpus[2];
static int looks;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *ret);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **ret);
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *ret);
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, unsigned long long *ret);

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

int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, unsigned long long *ret)
{
	memset(ret, 0, 24);
	memcpy(ret, &(unsigned){ (unsigned)getppid() }, sizeof(unsigned));
	*n = d == &gpus[1];
	return 0;
}
