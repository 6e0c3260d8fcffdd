/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/resources/gpu_usage.h"

#include "agent/process/nvml.h"
#include "common/base/proc.h"
#include "common/text/json.h"

#include <stdio.h>
#include <unistd.h>

enum { USAGE_GPUS_MAX = 64, USAGE_PIDS_MAX = 32 };

/* The process and its ancestors: a worker may have started it. */
static json_t *usage_pids(pid_t pid)
{
	json_t *pids = json_array();

	for (int i = 0; i < USAGE_PIDS_MAX && pid > 1; i++) {
		struct proc_stat stat;

		(void)json_add(pids, json_integer(pid));
		if (proc_stat_read(pid, &stat) < 0)
			break;
		pid = stat.ppid;
	}
	return pids;
}

static json_t *usage_gpu(const struct nvml *n, int number)
{
	struct nvml_holder holders[NVML_HOLDERS_MAX];
	json_t *gpu = json_object(), *processes = json_array();
	size_t n_holders;
	char id[16];
	int busy;

	snprintf(id, sizeof(id), "%d", number);
	json_put_int(gpu, "gpu", number);
	busy = nvml_busy(n, id);
	if (busy >= 0)
		json_put_int(gpu, "percent", busy);
	n_holders = nvml_holders(n, id, holders);
	for (size_t i = 0; i < n_holders; i++) {
		json_t *process = json_object();

		json_put(process, "pids", usage_pids(holders[i].pid));
		if (holders[i].bytes <= INT64_MAX)
			json_put_int(process, "bytes", (int64_t)holders[i].bytes);
		(void)json_add(processes, process);
	}
	json_put(gpu, "processes", processes);
	return gpu;
}

static void usage_print(const struct nvml *n)
{
	_cleanup_json_ json_t *answer = json_object();
	_cleanup_free_ char *text = NULL;
	json_t *gpus = json_array();
	int count = nvml_count(n);

	for (int i = 0; i < count && i < USAGE_GPUS_MAX; i++)
		(void)json_add(gpus, usage_gpu(n, i));
	json_put(answer, "gpus", gpus);
	text = json_dump_text(answer, NULL);
	puts(text ? text : "{}");
	fflush(stdout);
}

int gpu_usage_run(void)
{
	_cleanup_(nvml_closep) struct nvml *n = NULL;
	struct error err = { 0 };
	char byte;

	if (nvml_open(&n, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 2;
	}
	while (read(STDIN_FILENO, &byte, 1) == 1)
		usage_print(n);
	return 0;
}
