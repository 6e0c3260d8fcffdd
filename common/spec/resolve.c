/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/strings.h"
#include "common/spec/table.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Resolves "auto", "cpu", "gpu" and "xpu" on this host. */

enum { CPUS_MAX = 8192 };

/* CPUs that this process may use: in a container or under taskset fewer than the host has. */
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

static bool is_tile(int dirfd, const char *name)
{
	return !strncmp(name, "tile", 4) && isdigit((unsigned char)name[4]);
}

/* The devices of an Intel render node, "renderD128": one, or one for each tile. */
static int count_xpu(const char *root, const char *node, bool tiles)
{
	char dir[NAME_MAX + 32], path[PATH_MAX], vendor[16] = "";
	_cleanup_close_ int fd = -1;
	int n = 0;

	if (strncmp(node, "renderD", 7))
		return 0;
	snprintf(dir, sizeof(dir), "/sys/class/drm/%s/device", node);
	if (snprintf(path, sizeof(path), "%s%s/vendor", root, dir) >= (int)sizeof(path))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, vendor, sizeof(vendor) - 1) < 6 || strncmp(vendor, "0x8086", 6))
		return 0;
	if (tiles)
		n = count_entries(root, dir, is_tile);
	return n ? n : 1;
}

int spec_count_xpus(const char *root, const char *visible, bool tiles)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_dir_ DIR *d = NULL;
	const struct dirent *entry;
	int n = 0, shown = 0;

	if (asprintf(&path, "%s/sys/class/drm", root) < 0) {
		path = NULL;
		return 0;
	}
	d = opendir(path);
	while (d && (entry = readdir(d)) != NULL)
		n += count_xpu(root, entry->d_name, tiles);
	if (!visible || !*visible)
		return n;
	for (const char *p = visible; p; p = strchr(p, ','), p = p ? p + 1 : NULL)
		shown++;
	return shown < n ? shown : n;
}

/* A variable as the role's workers will see it: the role's own, else the agent's if they inherit
 * it. */
static const char *variable_of(const struct spec *s, const struct spec_role *role, const char *name)
{
	const char *own = strings_value(role->env, name);

	return own || !s->inherit_env ? own : getenv(name);
}

static const char *visible_devices(const struct spec *s, const struct spec_role *role)
{
	return variable_of(s, role, "CUDA_VISIBLE_DEVICES");
}

static int count_devices(const struct spec *s, const struct spec_role *role)
{
	const char *hierarchy = variable_of(s, role, "ZE_FLAT_DEVICE_HIERARCHY");

	if (role->replicas == SPEC_REPLICAS_CPU)
		return 0;
	if (role->replicas == SPEC_REPLICAS_XPU)
		return spec_count_xpus("", variable_of(s, role, "ZE_AFFINITY_MASK"),
			!hierarchy || strcmp(hierarchy, "COMPOSITE") != 0);
	return spec_count_gpus("", visible_devices(s, role));
}

static int refuse_none(const struct spec_role *role, size_t i, struct error *err)
{
	bool xpu = role->replicas == SPEC_REPLICAS_XPU;
	char path[64];

	snprintf(path, sizeof(path), "roles[%zu].replicas", i);
	return error_field(err, -EINVAL, path,
		"\"%s\" was asked for, but no %s was found on this host", xpu ? "xpu" : "gpu",
		xpu ? "Intel GPU" : "GPU");
}

/* With virtual_local_rank each worker uses the device entry of its local rank, so that must exist.
 */
static int check_virtual(const struct spec *s, struct error *err)
{
	int last = 0;

	/* Assigned devices were counted before. */
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
	struct spec_ctx ctx = { .err = err };
	int r;

	for (size_t i = 0; i < s->n_roles; i++) {
		struct spec_role *role = &s->roles[i];
		int devices;

		if (role->replicas > 0)
			continue;
		devices = count_devices(s, role);
		if (!devices && role->replicas != SPEC_REPLICAS_CPU &&
			role->replicas != SPEC_REPLICAS_AUTO)
			return refuse_none(role, i, err);
		role->replicas = devices ? devices : count_cpus();
	}
	r = spec_find_devices(s, "", err);
	if (r == 0)
		r = spec_check(&ctx, s);
	return r < 0 ? r : check_virtual(s, err);
}
