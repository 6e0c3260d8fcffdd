/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/resources/gpu_memory.h"

#include "agent/process/nvml.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	GPUS_MAX = 64,
	GPU_ID_MAX = 64,
	GPU_SLACK_MIB = 256, /* contexts of other programs come and go */
	GPU_FIRST_MS = 10,
	GPU_MOST_MS = 500,
	GPU_HOLDERS = 4,
};

struct gpu_list {
	struct gpu {
		char id[GPU_ID_MAX];
		uint64_t used, before; /* MiB */
	} gpus[GPUS_MAX];
	size_t n;
};

static void gpu_list_parse(struct gpu_list *l, const char *text)
{
	while (*text && l->n < GPUS_MAX) {
		size_t len = strcspn(text, ",");

		snprintf(l->gpus[l->n++].id, GPU_ID_MAX, "%.*s",
			(int)(len < GPU_ID_MAX ? len : GPU_ID_MAX - 1), text);
		text += len + (text[len] == ',');
	}
}

static void gpu_list_all(struct gpu_list *l, const struct nvml *n)
{
	int count = nvml_count(n);

	for (int i = 0; i < count && i < GPUS_MAX; i++)
		snprintf(l->gpus[l->n++].id, GPU_ID_MAX, "%d", i);
}

static int gpu_list_read(struct gpu_list *l, const struct nvml *n, struct error *err)
{
	for (size_t i = 0; i < l->n; i++) {
		uint64_t bytes;

		if (nvml_used(n, l->gpus[i].id, &bytes) < 0)
			return error_set(err, -ENODEV, "there is no GPU %s", l->gpus[i].id);
		l->gpus[i].used = bytes >> 20;
	}
	return l->n ? 0 : error_set(err, -ENODEV, "there is no GPU");
}

static void gpu_list_print(const struct gpu_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)l->gpus[i].used);
	putchar('\n');
}

static int gpu_list_parse_before(struct gpu_list *l, const char *text, struct error *err)
{
	for (size_t i = 0; i < l->n; i++) {
		if (scan_u64(&text, &l->gpus[i].before) < 0 || *text != (i + 1 < l->n ? ',' : '\0'))
			return error_set(err, -EINVAL, "the GPUs are others than before");
		text++;
	}
	return 0;
}

/* A GPU that is not free again, or NULL. */
static const struct gpu *gpu_list_busy(const struct gpu_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->gpus[i].used > l->gpus[i].before + GPU_SLACK_MIB)
			return &l->gpus[i];
	return NULL;
}

static void gpu_print_busy(const struct nvml *n, const struct gpu *g)
{
	struct nvml_holder holders[NVML_HOLDERS_MAX];
	size_t n_holders = nvml_holders(n, g->id, holders);

	printf("GPU %s has %llu MiB more in use than before the first attempt", g->id,
		(unsigned long long)(g->used - g->before));
	for (size_t i = 0; i < n_holders && i < GPU_HOLDERS; i++) {
		int pid = (int)holders[i].pid;
		char path[64];
		_cleanup_free_ char *name = NULL;

		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		if (file_read(path, 64, &name, NULL) == 0)
			name[strcspn(name, "\n")] = '\0';
		printf("%s pid %d%s%s%s", i ? "," : ", held by", pid, name ? " (" : "",
			name ? name : "", name ? ")" : "");
	}
	putchar('\n');
}

/* Polls: the library has no event for memory that becomes free. */
static int gpu_list_wait(
	struct gpu_list *l, const struct nvml *n, int64_t limit_ms, struct error *err)
{
	int64_t until = monotonic_ms() + limit_ms, pause = GPU_FIRST_MS;
	const struct gpu *busy;
	int r;

	while ((r = gpu_list_read(l, n, err)) == 0 && (busy = gpu_list_busy(l))) {
		int64_t left = until - monotonic_ms();

		if (left <= 0) {
			gpu_print_busy(n, busy);
			return 1;
		}
		usleep((useconds_t)(pause < left ? pause : left) * 1000);
		pause = pause * 2 < GPU_MOST_MS ? pause * 2 : GPU_MOST_MS;
	}
	return r;
}

int gpu_memory_run(const char *gpus, const char *before, int limit_ms)
{
	_cleanup_(nvml_closep) struct nvml *n = NULL;
	struct gpu_list list = { 0 };
	struct error err = { 0 };
	int r = nvml_open(&n, &err);

	if (r == 0 && *gpus)
		gpu_list_parse(&list, gpus);
	else if (r == 0)
		gpu_list_all(&list, n);
	if (r == 0 && before)
		r = gpu_list_parse_before(&list, before, &err);
	if (r == 0)
		r = before ? gpu_list_wait(&list, n, limit_ms, &err)
			   : gpu_list_read(&list, n, &err);
	if (r == 0 && !before)
		gpu_list_print(&list);
	if (r >= 0)
		return r;
	fprintf(stderr, "%s\n", err.text);
	return 2;
}
