/* SPDX-License-Identifier: Apache-2.0 */
#include "common/sweep.h"

#include "common/cleanup.h"
#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

enum { SWEEP_ROUNDS = 16 };

static void sweep_cgroup(const char *dir)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;

	if (asprintf(&path, "%s/cgroup.kill", dir) < 0) {
		path = NULL;
		return;
	}
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "1", 1) < 0) {
		/* The walk below does the same more slowly. */
	}
}

static bool sweep_owned_by(pid_t pid, uid_t uid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return !stat(path, &st) && st.st_uid == uid;
}

/* The descriptor pins the process, so that no stranger under a used-again pid is hit. */
static bool sweep_kill(pid_t pid, uid_t uid, const char *entry)
{
	_cleanup_close_ int pidfd = proc_pidfd(pid);

	if (pidfd < 0 || !sweep_owned_by(pid, uid) || !proc_environ_has(pid, entry))
		return false;
	return proc_pidfd_kill(pidfd, SIGKILL) == 0;
}

int sweep_run(const char *run, uid_t uid, const char *cgroup_dir, struct error *err)
{
	_cleanup_free_ char *entry = NULL;
	int total = 0, found = 1;

	if (asprintf(&entry, "ELASTICD_RUN=%s", run) < 0) {
		entry = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	if (cgroup_dir)
		sweep_cgroup(cgroup_dir);
	for (int round = 0; round < SWEEP_ROUNDS && found > 0; round++) {
		_cleanup_free_ struct proc_stat *procs = NULL;
		size_t n = 0;
		int r = proc_stat_all(&procs, &n);

		if (r < 0)
			return error_set(err, r, "/proc: %s", strerror(-r));
		found = 0;
		for (size_t i = 0; i < n; i++)
			if (procs[i].pid != getpid() && procs[i].state != 'Z' &&
				procs[i].state != 'X' && sweep_kill(procs[i].pid, uid, entry))
				found++;
		total += found;
	}
	return total;
}
