/* SPDX-License-Identifier: Apache-2.0 */
#include "common/sweep.h"

#include "common/cleanup.h"
#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
	SWEEP_ROUNDS = 16,
	SWEEP_LOOKS = 1000, /* at processes that cannot be told yet, 1 ms apart: an execve() ends */
};

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

/* A killed process is there for a while longer; it counts once. */
static bool sweep_again(const struct proc_stat *killed, size_t n, const struct proc_stat *p)
{
	for (size_t i = 0; i < n; i++)
		if (killed[i].pid == p->pid && killed[i].start_ticks == p->start_ticks)
			return true;
	return false;
}

/* One look at all processes. Returns how many were signalled that were not before; ret_unsure tells
 * that some could not be judged yet. */
static int sweep_round(
	const char *entry, uid_t uid, struct proc_stat **killed, size_t *n_killed, bool *ret_unsure)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	size_t n = 0, before = *n_killed;
	int r = proc_stat_all(&procs, &n);

	*ret_unsure = false;
	for (size_t i = 0; !r && i < n; i++) {
		struct proc_stat *bigger;
		int has;

		if (procs[i].pid == getpid() || procs[i].state == 'Z' || procs[i].state == 'X' ||
			sweep_again(*killed, *n_killed, &procs[i]) ||
			!sweep_owned_by(procs[i].pid, uid))
			continue;
		has = proc_environ_has(procs[i].pid, entry);
		*ret_unsure |= has == -EAGAIN;
		if (has <= 0 || proc_kill(&procs[i], SIGKILL) < 0)
			continue;
		bigger = reallocarray(*killed, *n_killed + 1, sizeof(**killed));
		if (!bigger)
			return -ENOMEM;
		*killed = bigger;
		bigger[(*n_killed)++] = procs[i];
	}
	return r < 0 ? r : (int)(*n_killed - before);
}

int sweep_run(const char *run, uid_t uid, const char *cgroup_dir, struct error *err)
{
	_cleanup_free_ struct proc_stat *killed = NULL;
	_cleanup_free_ char *entry = NULL;
	const struct timespec pause = { .tv_nsec = 1000000 };
	bool unsure = false;
	size_t n = 0;
	int found = 1, looks = 0;

	if (asprintf(&entry, "ELASTICD_RUN=%s", run) < 0) {
		entry = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	if (cgroup_dir)
		sweep_cgroup(cgroup_dir);
	for (int round = 0; round < SWEEP_ROUNDS && (found > 0 || unsure); round++) {
		found = sweep_round(entry, uid, &killed, &n, &unsure);
		if (found == 0 && unsure && looks++ < SWEEP_LOOKS) {
			nanosleep(&pause, NULL);
			round--;
		}
		if (found < 0)
			return error_set(err, found, "/proc: %s", strerror(-found));
	}
	return (int)n;
}
