/* SPDX-License-Identifier: Apache-2.0 */
#include "common/affinity/host_map.h"

#include "common/base/file.h"
#include "common/base/scan.h"
#include "common/text/ranks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_FILE_MAX = 1 << 16 };

#define SYS_NODES "/sys/devices/system/node"
#define SYS_CPU "/sys/devices/system/cpu/cpu%d"
#define NVIDIA_GPUS "/proc/driver/nvidia/gpus"
#define AMD_NODES "/sys/class/kfd/kfd/topology/nodes"

/* The text of a file below root, owned and without a newline at its end; NULL: there is none. */
static char *host_file(const char *root, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static char *host_file(const char *root, const char *fmt, ...)
{
	char rest[512], path[PATH_MAX], *text = NULL;
	size_t len;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(rest, sizeof(rest), fmt, ap);
	va_end(ap);
	if (snprintf(path, sizeof(path), "%s%s", root, rest) >= (int)sizeof(path) ||
		file_read(path, HOST_FILE_MAX, &text, &len) < 0)
		return NULL;
	if (len && text[len - 1] == '\n')
		text[len - 1] = '\0';
	return text;
}

/* Takes text, which may be NULL. The number in it, or fallback. */
static int host_number(char *text, int fallback)
{
	uint64_t n;
	int r = text ? scan_whole(text, INT_MAX, &n) : -ENOENT;

	free(text);
	return r < 0 ? fallback : (int)n;
}

/* Takes text, which may be NULL. The lowest of a list such as "0-3,8", or fallback. */
static int host_lowest(char *text, int fallback)
{
	struct ranks list = { 0 };
	int lowest = fallback;

	if (text && ranks_parse(&list, text, NULL, NULL) == 0)
		lowest = ranks_next(&list, -1);
	ranks_fini(&list);
	free(text);
	return lowest;
}

static DIR *host_dir(const char *root, const char *rest)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s%s", root, rest) >= (int)sizeof(path))
		return NULL;
	return opendir(path);
}

/* The number of an entry such as "node12" with that prefix; -1: it is another one. */
static int host_entry(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);
	uint64_t number;

	if (strncmp(name, prefix, n) != 0 || scan_whole(name + n, INT_MAX, &number) < 0)
		return -1;
	return (int)number;
}

/* --- CPUs --- */

/* Sets the node of the CPUs in its list, "" for a node that has only memory. */
static void host_put_node(struct host_map *m, const char *root, int node)
{
	_cleanup_free_ char *text = host_file(root, SYS_NODES "/node%d/cpulist", node);
	struct ranks list = { 0 };

	if (text && ranks_parse(&list, text, NULL, NULL) == 0)
		for (size_t i = 0; i < m->n_cpus; i++)
			if (ranks_contains(&list, m->cpus[i].cpu))
				m->cpus[i].node = node;
	ranks_fini(&list);
}

static void host_put_nodes(struct host_map *m, const char *root)
{
	_cleanup_dir_ DIR *d = host_dir(root, SYS_NODES);
	const struct dirent *e;

	while (d && (e = readdir(d)))
		if (host_entry(e->d_name, "node") >= 0)
			host_put_node(m, root, host_entry(e->d_name, "node"));
}

/* The lowest of the CPUs that share the largest cache for data with cpu. */
static int host_complex(const char *root, int cpu)
{
	int best = -1, lowest = cpu;

	for (int i = 0; i < 16; i++) {
		_cleanup_free_ char *type = host_file(root, SYS_CPU "/cache/index%d/type", cpu, i);
		int level;

		if (!type)
			break;
		level = host_number(host_file(root, SYS_CPU "/cache/index%d/level", cpu, i), 0);
		if (level <= best || (strcmp(type, "Unified") != 0 && strcmp(type, "Data") != 0))
			continue;
		best = level;
		lowest = host_lowest(
			host_file(root, SYS_CPU "/cache/index%d/shared_cpu_list", cpu, i), cpu);
	}
	return lowest;
}

static int host_read_cpus(struct host_map *m, const char *root, const struct cpus *allowed)
{
	m->cpus = calloc((size_t)cpus_count(allowed) + 1, sizeof(*m->cpus));
	if (!m->cpus)
		return -ENOMEM;
	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		if (!cpus_has(allowed, cpu))
			continue;
		m->cpus[m->n_cpus++] = (struct host_cpu){ .cpu = cpu,
			.package = host_number(
				host_file(root, SYS_CPU "/topology/physical_package_id", cpu), 0),
			.core = host_lowest(
				host_file(root, SYS_CPU "/topology/thread_siblings_list", cpu),
				cpu),
			.complex = host_complex(root, cpu) };
	}
	host_put_nodes(m, root);
	return 0;
}

/* --- GPUs --- */

/* The value of a line such as "GPU UUID: \t GPU-8932", or "" in buf. */
static void host_value(const char *text, const char *key, char *buf, size_t size)
{
	const char *at = text ? strstr(text, key) : NULL;

	*buf = '\0';
	if (!at)
		return;
	at += strlen(key);
	at += strspn(at, ": \t");
	snprintf(buf, size, "%.*s", (int)strcspn(at, "\n"), at);
}

static int host_add_gpu(struct host_map *m, const char *root, const char *address, const char *uuid)
{
	struct host_gpu *more = reallocarray(m->gpus, m->n_gpus + 1, sizeof(*more));
	struct host_gpu *g;
	char *node;

	if (!more)
		return -ENOMEM;
	m->gpus = more;
	g = &more[m->n_gpus++];
	*g = (struct host_gpu){ .node = -1 };
	for (size_t i = 0; address[i] && i < sizeof(g->address) - 1; i++)
		g->address[i] = (char)tolower((unsigned char)address[i]);
	snprintf(g->uuid, sizeof(g->uuid), "%s", uuid);
	node = host_file(root, "/sys/bus/pci/devices/%s/numa_node", g->address);
	/* "-1" on a host without NUMA. */
	if (node)
		g->node = host_number(node, 0);
	return 0;
}

static int host_read_nvidia(struct host_map *m, const char *root)
{
	_cleanup_dir_ DIR *d = host_dir(root, NVIDIA_GPUS);
	const struct dirent *e;
	char uuid[HOST_GPU_UUID];
	int r = 0;

	while (d && r == 0 && (e = readdir(d))) {
		_cleanup_free_ char *text = NULL;

		if (e->d_name[0] == '.')
			continue;
		text = host_file(root, NVIDIA_GPUS "/%s/information", e->d_name);
		host_value(text, "GPU UUID", uuid, sizeof(uuid));
		r = host_add_gpu(m, root, e->d_name, uuid);
	}
	return r;
}

static int host_read_amd(struct host_map *m, const char *root)
{
	_cleanup_dir_ DIR *d = host_dir(root, AMD_NODES);
	char value[32], address[HOST_GPU_ADDRESS], uuid[HOST_GPU_UUID];
	const struct dirent *e;
	int r = 0;

	while (d && r == 0 && (e = readdir(d))) {
		_cleanup_free_ char *text = NULL;
		unsigned location, domain;

		if (e->d_name[0] == '.' ||
			!host_number(host_file(root, AMD_NODES "/%s/gpu_id", e->d_name), 0))
			continue;
		text = host_file(root, AMD_NODES "/%s/properties", e->d_name);
		host_value(text, "location_id", value, sizeof(value));
		location = (unsigned)strtoul(value, NULL, 10);
		host_value(text, "domain", value, sizeof(value));
		domain = (unsigned)strtoul(value, NULL, 10);
		snprintf(address, sizeof(address), "%04x:%02x:%02x.%x", domain & 0xffff,
			location >> 8 & 0xff, location >> 3 & 0x1f, location & 7);
		host_value(text, "unique_id", value, sizeof(value));
		snprintf(uuid, sizeof(uuid), "GPU-%llx", strtoull(value, NULL, 10));
		r = host_add_gpu(m, root, address, uuid);
	}
	return r;
}

/* Domains have 4 or, where that is not enough, 8 digits. */
static int host_gpu_compare(const void *a, const void *b)
{
	const struct host_gpu *x = a, *y = b;
	size_t n = strlen(x->address), k = strlen(y->address);

	return n == k ? strcmp(x->address, y->address) : n < k ? -1 : 1;
}

int host_map_read(const char *root, const struct cpus *allowed, struct host_map **ret)
{
	_cleanup_(host_map_freep) struct host_map *m = calloc(1, sizeof(*m));
	int r = m ? host_read_cpus(m, root, allowed) : -ENOMEM;

	if (r == 0)
		r = host_read_nvidia(m, root);
	if (r == 0 && !m->n_gpus)
		r = host_read_amd(m, root);
	if (r < 0)
		return r;
	if (m->n_gpus)
		qsort(m->gpus, m->n_gpus, sizeof(*m->gpus), host_gpu_compare);
	*ret = TAKE_PTR(m);
	return 0;
}

struct host_map *host_map_free(struct host_map *m)
{
	if (m) {
		free(m->cpus);
		free(m->gpus);
		free(m);
	}
	return NULL;
}

int host_map_find_gpu(const struct host_map *m, const char *id, size_t len)
{
	char number[16];
	uint64_t n;

	if (len && len < sizeof(number) && isdigit((unsigned char)*id)) {
		snprintf(number, sizeof(number), "%.*s", (int)len, id);
		return scan_whole(number, INT_MAX, &n) == 0 && n < m->n_gpus ? (int)n : -1;
	}
	for (size_t i = 0; i < m->n_gpus; i++)
		if (len > strlen("GPU-") && !strncmp(m->gpus[i].uuid, id, len))
			return (int)i;
	return -1;
}
