/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/doctor.h"
#include "common/base/file.h"
#include "common/base/scan.h"
#include "common/text/size.h"

#include <dirent.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

enum {
	/* Descriptors of an agent: its own, those of the workers, and as head one for each host. */
	FILES_OWN = 256,
	FILES_OF_HOST = 2,
	FILES_OF_WORKER = 1024, /* the default of most systems, which few workers get by with */
	/* A worker on a GPU has hundreds of threads, and starts processes that load data. */
	PROCESSES_LEAST = 512,
	PROCESSES_FEW = 4096,
	PROCESSES_OF_PROCESSOR = 128,
};

static const char *limit_text(rlim_t n, char text[24])
{
	if (n == RLIM_INFINITY)
		return "no limit";
	snprintf(text, 24, "%" PRIu64, (uint64_t)n);
	return text;
}

static void check_files(struct doctor *d)
{
	rlim_t need = FILES_OWN + (rlim_t)FILES_OF_HOST * (rlim_t)d->spec->rendezvous.nodes_max;
	char soft[24], hard[24], advice[128];
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	limit_text(l.rlim_cur, soft);
	limit_text(l.rlim_max, hard);
	snprintf(advice, sizeof(advice), "raise the limit (ulimit -Hn, LimitNOFILE=) to %" PRIu64,
		(uint64_t)(need < 65536 ? 65536 : need));
	if (l.rlim_max < need)
		doctor_found(d, DOCTOR_PROBLEM, "open-files", NULL, advice,
			"at most %s, and the agent may need %" PRIu64, hard, (uint64_t)need);
	else if (l.rlim_cur < FILES_OF_WORKER)
		doctor_found(d, DOCTOR_WARNING, "open-files", NULL,
			"raise it (ulimit -n, LimitNOFILE=, or `limits` of the role)",
			"%s for each worker, which is few for one that loads data",
			limit_text(l.rlim_cur, soft));
	else
		doctor_found(d, DOCTOR_OK, "open-files", NULL, NULL,
			"%s for each worker, %s for the agent", limit_text(l.rlim_cur, soft),
			limit_text(l.rlim_max, hard));
}

/* The smallest limit of processes, and its name. */
struct fewest {
	uint64_t n;
	const char *name;
};

static void fewest_add(struct fewest *f, uint64_t n, const char *name)
{
	if (n >= f->n)
		return;
	f->n = n;
	f->name = name;
}

static void fewest_of_file(struct fewest *f, const char *path, const char *name)
{
	_cleanup_free_ char *text = NULL;
	uint64_t n;

	if (file_read(path, 64, &text, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (scan_whole(text, UINT64_MAX, &n) == 0)
		fewest_add(f, n, name);
}

/* The control group of this process, and those above it. */
static void fewest_of_cgroups(struct fewest *f)
{
	_cleanup_free_ char *text = NULL;
	char path[4096];
	char *at;

	if (file_read("/proc/self/cgroup", 0, &text, NULL) < 0 || !(at = strstr(text, "0::/")))
		return;
	at += strlen("0::");
	at[strcspn(at, "\n")] = '\0';
	for (char *slash; (slash = strrchr(at, '/')); *slash = '\0') {
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/pids.max", at);
		fewest_of_file(f, path, "pids.max of the control group");
	}
}

static void check_processes(struct doctor *d)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t few = PROCESSES_OF_PROCESSOR * (uint64_t)(processors > 0 ? processors : 1);
	struct fewest f = { UINT64_MAX, "no limit" };
	struct rlimit l;

	if (few < PROCESSES_FEW)
		few = PROCESSES_FEW;
	if (geteuid() && getrlimit(RLIMIT_NPROC, &l) == 0 && l.rlim_cur != RLIM_INFINITY)
		fewest_add(&f, l.rlim_cur, "ulimit -u");
	fewest_of_file(&f, "/proc/sys/kernel/pid_max", "kernel.pid_max");
	fewest_of_file(&f, "/proc/sys/kernel/threads-max", "kernel.threads-max");
	fewest_of_cgroups(&f);
	if (f.n < few)
		doctor_found(d, f.n < PROCESSES_LEAST ? DOCTOR_PROBLEM : DOCTOR_WARNING,
			"processes", NULL, "raise it: each thread counts",
			"%" PRIu64 " (%s), few for %ld processors", f.n, f.name, processors);
	else
		doctor_found(
			d, DOCTOR_OK, "processes", NULL, NULL, "%" PRIu64 " (%s)", f.n, f.name);
}

static bool has_infiniband(void)
{
	_cleanup_dir_ DIR *dir = opendir("/sys/class/infiniband");
	const struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (*e->d_name != '.')
			return true;
	return false;
}

/* Network cards that write into memory by themselves need it locked. */
static void check_locked_memory(struct doctor *d)
{
	char size[SIZE_TEXT_MAX];
	struct rlimit l;

	if (!has_infiniband() || getrlimit(RLIMIT_MEMLOCK, &l) < 0)
		return;
	if (l.rlim_cur == RLIM_INFINITY)
		doctor_found(d, DOCTOR_OK, "locked-memory", NULL, NULL, "no limit");
	else
		doctor_found(d, DOCTOR_PROBLEM, "locked-memory", NULL,
			"ulimit -l unlimited, LimitMEMLOCK=infinity, or `limits` of the role: "
			"{memlock: unlimited}",
			"%s, and this host has InfiniBand", size_text((int64_t)l.rlim_cur, size));
}

static void check_cgroup(struct doctor *d)
{
	static const char advice[] = "boot with systemd.unified_cgroup_hierarchy=1";
	_cleanup_free_ char *mounts = NULL;
	struct statfs fs;

	if (statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
		doctor_found(d, DOCTOR_OK, "cgroup", NULL, NULL, "version 2");
	else if (file_read("/proc/self/mountinfo", 0, &mounts, NULL) == 0 &&
		 strstr(mounts, " - cgroup2 "))
		doctor_found(d, DOCTOR_WARNING, "cgroup", NULL, advice,
			"version 2 beside version 1: the limits of `resources` cannot be kept");
	else
		doctor_found(d, DOCTOR_WARNING, "cgroup", NULL, advice,
			"not version 2: processes can escape from their job, and the limits of "
			"`resources` cannot be kept");
}

void doctor_check_limits(struct doctor *d)
{
	check_files(d);
	check_processes(d);
	check_locked_memory(d);
	check_cgroup(d);
}
