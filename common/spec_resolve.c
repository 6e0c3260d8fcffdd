/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* What "auto", "cpu" and "gpu" mean on this host. */

enum { CPUS_MAX = 8192 };

/* CPUs that this process may run on: in a container or under taskset fewer than the host has. */
static int count_cpus(void)
{
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	long n = 0;

	if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(CPUS_MAX), set) == 0)
		n = CPU_COUNT_S(CPU_ALLOC_SIZE(CPUS_MAX), set);
	if (set)
		CPU_FREE(set);
	if (n < 1)
		n = sysconf(_SC_NPROCESSORS_ONLN);
	return n < 1 ? 1 : n > SPEC_REPLICAS_MAX ? SPEC_REPLICAS_MAX : (int)n;
}

/* Entries of a directory for which fn holds; 0 where there is no directory. */
static int count_entries(const char *root, const char *dir, bool (*fn)(int dirfd, const char *name))
{
	_cleanup_free_ char *path = NULL;
	_cleanup_dir_ DIR *d = NULL;
	const struct dirent *entry;
	int n = 0;

	if (asprintf(&path, "%s%s", root, dir) < 0) {
		path = NULL;
		return 0;
	}
	d = opendir(path);
	while (d && (entry = readdir(d)) != NULL)
		if (fn(dirfd(d), entry->d_name))
			n++;
	return n;
}

/* "nvidia0", not "nvidiactl" or "nvidia-uvm". */
static bool is_nvidia_device(int dirfd, const char *name)
{
	if (strncmp(name, "nvidia", 6))
		return false;
	name += 6;
	return *name && strspn(name, "0123456789") == strlen(name);
}

static bool is_entry(int dirfd, const char *name)
{
	return name[0] != '.';
}

/* A node of AMD's topology is a GPU when its identifier is not 0; the CPUs are nodes as well. */
static bool is_amd_gpu(int dirfd, const char *name)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	char text[16] = "";

	if (!is_entry(dirfd, name) || asprintf(&path, "%s/gpu_id", name) < 0)
		return false;
	fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && text[0] > '0' && text[0] <= '9';
}

int spec_count_visible(const char *list)
{
	int n = 0;

	while (*list && *list != '-' && *list != ',' && strncmp(list, "NoDevFiles", 10)) {
		n++;
		list += strcspn(list, ",");
		if (!*list)
			break;
		list++;
	}
	return n;
}

int spec_count_gpus(const char *root, const char *visible)
{
	int n = count_entries(root, "/dev", is_nvidia_device);

	if (!n)
		n = count_entries(root, "/proc/driver/nvidia/gpus", is_entry);
	if (!n)
		n = count_entries(root, "/sys/class/kfd/kfd/topology/nodes", is_amd_gpu);
	if (n && visible) {
		int shown = spec_count_visible(visible);

		return shown < n ? shown : n;
	}
	return n;
}

/* What the role's workers will see: its own variable, else the agent's where they inherit it. */
static const char *visible_devices(const struct spec *s, const struct spec_role *role)
{
	static const char name[] = "CUDA_VISIBLE_DEVICES=";

	for (size_t i = 0; role->env && role->env[i]; i++)
		if (!strncmp(role->env[i], name, sizeof(name) - 1))
			return role->env[i] + sizeof(name) - 1;
	return s->inherit_env ? getenv("CUDA_VISIBLE_DEVICES") : NULL;
}

/* With virtual_local_rank each worker gets the entry of its local rank: there has to be one. */
static int check_virtual(const struct spec *s, struct error *err)
{
	int last = 0;

	/* Devices that are assigned were counted. */
	if (!s->virtual_local_rank || s->resources.devices.ids)
		return 0;
	for (size_t i = 0; i < s->n_roles; i++) {
		const char *list = visible_devices(s, &s->roles[i]);
		int entries = 1;

		last += s->roles[i].replicas;
		if (!list)
			continue;
		for (const char *p = list; *p; p++)
			entries += *p == ',';
		if (last > entries || !*list)
			return error_field(err, -EINVAL, "compat.virtual_local_rank",
				"%d workers need as many entries in CUDA_VISIBLE_DEVICES, got "
				"\"%.64s\"",
				last, list);
	}
	return 0;
}

int spec_resolve(struct spec *s, struct error *err)
{
	int r;

	for (size_t i = 0; i < s->n_roles; i++) {
		struct spec_role *role = &s->roles[i];
		int gpus;

		if (role->replicas > 0)
			continue;
		gpus = role->replicas == SPEC_REPLICAS_CPU
			       ? 0
			       : spec_count_gpus("", visible_devices(s, role));
		if (!gpus && role->replicas == SPEC_REPLICAS_GPU) {
			char path[64];

			snprintf(path, sizeof(path), "roles[%zu].replicas", i);
			return error_field(err, -EINVAL, path,
				"\"gpu\" was asked for, but no GPU was found on this host");
		}
		role->replicas = gpus ? gpus : count_cpus();
	}
	r = spec_find_devices(s, "", err);
	if (r == 0)
		r = spec_check(s, err);
	return r < 0 ? r : check_virtual(s, err);
}
