/* SPDX-License-Identifier: Apache-2.0 */
#include "common/affinity/affinity.h"

#include "common/base/file.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root[64];
static struct host_map *map;

static void put(const char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(const char *text, const char *fmt, ...)
{
	char path[256], copy[256];
	va_list ap;
	int n = snprintf(path, sizeof(path), "%s", root);

	va_start(ap, fmt);
	vsnprintf(path + n, sizeof(path) - (size_t)n, fmt, ap);
	va_end(ap);
	strcpy(copy, path);
	ck_assert_int_eq(file_mkdir_p(dirname(copy), 0755), 0);
	ck_assert_int_eq(file_write_atomic(path, text, strlen(text), 0644, false), 0);
}

static void put_cpu(int cpu, int package, const char *core, const char *cache)
{
	char number[16];

	snprintf(number, sizeof(number), "%d\n", package);
	put(number, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
	put(core, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	put("1\n", "/sys/devices/system/cpu/cpu%d/cache/index0/level", cpu);
	put("Data\n", "/sys/devices/system/cpu/cpu%d/cache/index0/type", cpu);
	put(core, "/sys/devices/system/cpu/cpu%d/cache/index0/shared_cpu_list", cpu);
	put("4\n", "/sys/devices/system/cpu/cpu%d/cache/index1/level", cpu);
	put("Instruction\n", "/sys/devices/system/cpu/cpu%d/cache/index1/type", cpu);
	put("0-31\n", "/sys/devices/system/cpu/cpu%d/cache/index1/shared_cpu_list", cpu);
	put("3\n", "/sys/devices/system/cpu/cpu%d/cache/index2/level", cpu);
	put("Unified\n", "/sys/devices/system/cpu/cpu%d/cache/index2/type", cpu);
	put(cache, "/sys/devices/system/cpu/cpu%d/cache/index2/shared_cpu_list", cpu);
}

static void put_gpu(const char *address, const char *uuid, const char *node)
{
	char text[160];

	snprintf(text, sizeof(text),
		"Model: \t\t Some GPU\nIRQ:   \t\t 61\nGPU UUID: \t %s\nDevice Minor: \t 3\n",
		uuid);
	put(text, "/proc/driver/nvidia/gpus/%s/information", address);
	put(node, "/sys/bus/pci/devices/%s/numa_node", address);
}

/*
 * Two packages of 8 cores with two threads each, 0 and 16 being one core, and of two nodes each;
 * node 4 has only memory. Cores of 0-1, 2-3, 4-7, 8-11 and 12-15 share a cache. GPUs 0 to 2 are on
 * node 0, GPU 3 on node 2.
 */
static void make_files(void)
{
	static const char *const nodes[] = { "0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31",
		"" };

	strcpy(root, "/tmp/affinity-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	for (int i = 0; i < 5; i++)
		put(nodes[i], "/sys/devices/system/node/node%d/cpulist", i);
	put("0-4\n", "/sys/devices/system/node/possible");
	for (int i = 0; i < 32; i++) {
		int c = i % 16;
		char core[16];

		snprintf(core, sizeof(core), "%d,%d\n", c, c + 16);
		put_cpu(i, c / 8, core,
			c < 2	 ? "0-1,16-17\n"
			: c < 4	 ? "2-3,18-19\n"
			: c < 8	 ? "4-7,20-23\n"
			: c < 12 ? "8-11,24-27\n"
				 : "12-15,28-31\n");
	}
	put_gpu("0000:3b:00.0", "GPU-bb22", "0\n");
	put_gpu("0000:1A:00.0", "GPU-aa11", "-1\n");
	put_gpu("0000:86:00.0", "GPU-cc33", "0\n");
	put_gpu("10000:01:00.0", "GPU-dd44", "2\n");
	put("-1\n", "/sys/bus/pci/devices/0000:1a:00.0/numa_node");
}

static void remove_files(void)
{
	ck_assert_int_eq(file_rm_rf(root), 0);
}

static void free_map(void)
{
	map = host_map_free(map);
}

/* without: a CPU that may not be used, or -1. */
static void read_map(int n, int without)
{
	struct cpus allowed = { 0 };

	for (int i = 0; i < n; i++)
		if (i != without)
			cpus_add(&allowed, i);
	map = host_map_free(map);
	ck_assert_int_eq(host_map_read(root, &allowed, &map), 0);
}

/* "0-3/4 8/1": the CPUs and threads of each of n workers; with GPUs worker i has the i-th. */
static const char *chosen(enum spec_affinity how, size_t n, bool gpus)
{
	static char text[1024];
	static int numbers[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	struct affinity_worker workers[8] = { 0 };
	struct error err = { 0 };
	size_t len = 0;

	for (size_t i = 0; gpus && i < n; i++) {
		workers[i].gpus = &numbers[i];
		workers[i].n_gpus = i < map->n_gpus;
	}
	if (affinity_choose(map, how, workers, n, &err) < 0) {
		snprintf(text, sizeof(text), "%s", err.text);
		return text;
	}
	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *list = cpus_to_string(&workers[i].cpus);

		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s/%d", i ? " " : "",
			list, workers[i].threads);
	}
	return text;
}

/* The masks are those that torch.numa.binding of PyTorch 2.13 gives for these files. */
START_TEST(workers_with_gpus_run_near_them)
{
	read_map(32, -1);
	ck_assert_uint_eq(map->n_gpus, 4);
	ck_assert_str_eq(map->gpus[0].uuid, "GPU-aa11");
	ck_assert_str_eq(chosen(SPEC_AFFINITY_NODE, 4, true),
		"0-3,16-19/1 0-3,16-19/1 0-3,16-19/1 8-11,24-27/4");
	ck_assert_str_eq(chosen(SPEC_AFFINITY_SOCKET, 4, true),
		"0-7,16-23/2 0-7,16-23/2 0-7,16-23/2 8-15,24-31/8");
	ck_assert_str_eq(
		chosen(SPEC_AFFINITY_EXCLUSIVE, 4, true), "0,1,16,17/2 2,18/1 3,19/1 8-11,24-27/4");
	ck_assert_str_eq(chosen(SPEC_AFFINITY_CORE_COMPLEX, 4, true),
		"0,1,16,17/1 2,3,18,19/2 0,1,16,17/1 8-11,24-27/4");
	/* The larger part first. */
	read_map(32, 17);
	ck_assert_str_eq(chosen(SPEC_AFFINITY_CORE_COMPLEX, 2, true), "2,3,18,19/2 0,1,16/2");
	/* The CPUs of node 2 may not be used. */
	read_map(8, -1);
	ck_assert_str_eq(chosen(SPEC_AFFINITY_SOCKET, 1, true), "0-7/8");
	ck_assert_ptr_nonnull(strstr(chosen(SPEC_AFFINITY_NODE, 4, true),
		"NUMA node 2, on which GPU 3 (10000:01:00.0) is, has no CPU"));
	read_map(2, -1);
	ck_assert_ptr_nonnull(strstr(chosen(SPEC_AFFINITY_EXCLUSIVE, 3, true),
		"a core for each of 3 GPUs, or workers without one, of NUMA node 0, which has 2"));
}
END_TEST

START_TEST(workers_without_gpus_are_spread_over_nodes)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/proc", root);
	ck_assert_int_eq(file_rm_rf(path), 0);
	read_map(32, -1);
	ck_assert_uint_eq(map->n_gpus, 0);
	ck_assert_str_eq(chosen(SPEC_AFFINITY_NODE, 4, false),
		"0-3,16-19/4 4-7,20-23/4 8-11,24-27/4 12-15,28-31/4");
	ck_assert_str_eq(chosen(SPEC_AFFINITY_NODE, 2, false), "0-3,16-19/4 8-11,24-27/4");
	ck_assert_str_eq(chosen(SPEC_AFFINITY_SOCKET, 2, false), "0-7,16-23/8 8-15,24-31/8");
	ck_assert_str_eq(chosen(SPEC_AFFINITY_EXCLUSIVE, 6, false),
		"0,1,16,17/2 2,3,18,19/2 4-7,20-23/4 8,9,24,25/2 10,11,26,27/2 12-15,28-31/4");
	ck_assert_str_eq(chosen(SPEC_AFFINITY_CORE_COMPLEX, 5, false),
		"0,1,16,17/2 2,3,18,19/2 4-7,20-23/4 8-11,24-27/4 12-15,28-31/4");
	/* A kernel without NUMA, and a container without these files. */
	ck_assert_int_eq(file_rm_rf(root), 0);
	read_map(3, -1);
	ck_assert_str_eq(chosen(SPEC_AFFINITY_NODE, 2, false), "0-2/1 0-2/1");
	ck_assert_str_eq(chosen(SPEC_AFFINITY_EXCLUSIVE, 2, false), "0,1/2 2/1");
}
END_TEST

/* Workers with and without GPUs share the cores of a node. */
START_TEST(no_core_is_given_twice)
{
	read_map(32, -1);
	ck_assert_str_eq(chosen(SPEC_AFFINITY_EXCLUSIVE, 5, true),
		"0,16/1 1,17/1 2,18/1 8-11,24-27/4 3,19/1");
}
END_TEST

static const struct {
	const char *list;
	bool own;
	int local_rank;
	const char *gpus; /* NULL: refused */
} lists[] = {
	{ NULL, false, 2, "2" },
	{ NULL, false, 4, "" },
	{ "", false, 0, "" },
	{ "-1", false, 0, "" },
	{ "3,1", false, 0, "3" },
	{ "3,1", false, 1, "1" },
	{ "3,1", false, 2, "" },
	{ "3,1", true, 5, "3 1" },
	{ "GPU-bb22,GPU-d", true, 0, "1 3" },
	{ "4", true, 0, NULL },
	{ "MIG-7", false, 0, NULL },
	{ "0,MIG-7", false, 0, "0" },
};

START_TEST(a_variable_names_the_gpus_of_a_worker)
{
	struct error err = { 0 };
	int *gpus;
	size_t n;
	char text[64] = "";
	int r;

	read_map(32, -1);
	r = affinity_gpus(
		map, lists[_i].list, lists[_i].own, lists[_i].local_rank, &gpus, &n, &err);
	ck_assert_int_eq(r, lists[_i].gpus ? 0 : -ENODEV);
	for (size_t i = 0; r == 0 && i < n; i++)
		sprintf(text + strlen(text), "%s%d", i ? " " : "", gpus[i]);
	if (r == 0)
		ck_assert_str_eq(text, lists[_i].gpus);
	free(gpus);
}
END_TEST

START_TEST(gpus_of_amd_are_found_by_the_topology_of_their_driver)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/proc", root);
	ck_assert_int_eq(file_rm_rf(path), 0);
	put("0\n", "/sys/class/kfd/kfd/topology/nodes/0/gpu_id");
	put("51110\n", "/sys/class/kfd/kfd/topology/nodes/1/gpu_id");
	put("location_id 49408\ndomain 0\nunique_id 10\n",
		"/sys/class/kfd/kfd/topology/nodes/1/properties");
	put("3\n", "/sys/bus/pci/devices/0000:c1:00.0/numa_node");
	read_map(32, -1);
	ck_assert_uint_eq(map->n_gpus, 1);
	ck_assert_str_eq(map->gpus[0].address, "0000:c1:00.0");
	ck_assert_int_eq(map->gpus[0].node, 3);
	ck_assert_int_eq(host_map_find_gpu(map, "GPU-a", 5), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("affinity");
	TCase *same = tcase_create("same host"), *changed = tcase_create("changed host");

	/* Making the files costs more than the tests: once for all that leave them as they are. */
	tcase_add_unchecked_fixture(same, make_files, remove_files);
	tcase_add_checked_fixture(same, NULL, free_map);
	tcase_add_test(same, workers_with_gpus_run_near_them);
	tcase_add_test(same, no_core_is_given_twice);
	tcase_add_loop_test(same, a_variable_names_the_gpus_of_a_worker, 0,
		(int)(sizeof(lists) / sizeof(lists[0])));
	suite_add_tcase(s, same);
	tcase_add_checked_fixture(changed, make_files, remove_files);
	tcase_add_checked_fixture(changed, NULL, free_map);
	tcase_add_test(changed, workers_without_gpus_are_spread_over_nodes);
	tcase_add_test(changed, gpus_of_amd_are_found_by_the_topology_of_their_driver);
	suite_add_tcase(s, changed);
	return suite_run(s);
}
