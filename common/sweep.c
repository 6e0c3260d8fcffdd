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

struct sweep {
	char *entry;
	uid_t uid;
	struct proc_stat *killed;
	size_t n;
};

int sweep_new(const char *entry, uid_t uid, struct sweep **ret)
{
	struct sweep *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->uid = uid;
	s->entry = strdup(entry);
	if (!s->entry) {
		sweep_free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

struct sweep *sweep_free(struct sweep *s)
{
	if (!s)
		return NULL;
	free(s->entry);
	free(s->killed);
	free(s);
	return NULL;
}

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
	return uid == SWEEP_ANY || (!stat(path, &st) && st.st_uid == uid);
}

/* A killed process is there for a while longer; it counts once. */
static bool sweep_before(const struct sweep *s, const struct proc_stat *p)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->killed[i].pid == p->pid && s->killed[i].start_ticks == p->start_ticks)
			return true;
	return false;
}

/* One look at all processes. Returns how many were signalled that were not before. */
static int sweep_round(struct sweep *s, bool *ret_unsure)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	size_t n = 0, before = s->n;
	int r = proc_stat_all(&procs, &n);

	*ret_unsure = false;
	for (size_t i = 0; !r && i < n; i++) {
		struct proc_stat *bigger;
		int has;

		if (procs[i].pid == getpid() || procs[i].state == 'Z' || procs[i].state == 'X' ||
			sweep_before(s, &procs[i]) || !sweep_owned_by(procs[i].pid, s->uid))
			continue;
		has = proc_environ_has(procs[i].pid, s->entry);
		*ret_unsure |= has == -EAGAIN;
		if (has <= 0 || proc_kill(&procs[i], SIGKILL) < 0)
			continue;
		bigger = reallocarray(s->killed, s->n + 1, sizeof(*s->killed));
		if (!bigger)
			return -ENOMEM;
		s->killed = bigger;
		bigger[s->n++] = procs[i];
	}
	return r < 0 ? r : (int)(s->n - before);
}

int sweep_look(struct sweep *s, bool *ret_unsure)
{
	int found = 1;

	*ret_unsure = false;
	for (int round = 0; round < SWEEP_ROUNDS && found > 0; round++)
		found = sweep_round(s, ret_unsure);
	return found < 0 ? found : (int)s->n;
}

int sweep_run(const char *run, uid_t uid, const char *cgroup_dir, struct error *err)
{
	_cleanup_(sweep_freep) struct sweep *s = NULL;
	_cleanup_free_ char *entry = NULL;
	const struct timespec pause = { .tv_nsec = 1000000 };
	bool unsure;
	int n;

	if (asprintf(&entry, "ELASTICD_RUN=%s", run) < 0)
		entry = NULL;
	if (!entry || sweep_new(entry, uid, &s) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	if (cgroup_dir)
		sweep_cgroup(cgroup_dir);
	n = sweep_look(s, &unsure);
	for (int looks = 0; n >= 0 && unsure && looks < SWEEP_LOOKS; looks++) {
		nanosleep(&pause, NULL);
		n = sweep_look(s, &unsure);
	}
	return n < 0 ? error_set(err, n, "/proc: %s", strerror(-n)) : n;
}
