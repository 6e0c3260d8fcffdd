/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/sweep.h"

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/paths.h"
#include "common/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

enum {
	SWEEP_PASSES = 16,
	SWEEP_UNSURE_MS = 1000, /* for processes in the middle of an execve() */
};

struct sweep {
	char *entry;
	uid_t uid;
	const struct sweep_target *target; /* NULL: only the entry is known */
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

/* Kills every process of a cgroup at once; does not wait for anything. Returns 0 or a negative
 * errno, also where the kernel does not know how (before Linux 5.14). */
static int sweep_cgroup(const char *dir)
{
	_cleanup_free_ char *path = paths_join(dir, "cgroup.kill");
	_cleanup_close_ int fd = -1;

	if (!path)
		return -ENOMEM;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, "1", 1) < 0 ? -errno : 0;
}

static bool sweep_owned_by(pid_t pid, uid_t uid)
{
	uid_t owner;

	return uid == SWEEP_ANY || (!proc_uid(pid, &owner) && owner == uid);
}

/* Whether p was killed before: it exists for a while longer, but counts once. */
static bool sweep_was_killed(const struct sweep *s, const struct proc_stat *p)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->killed[i].pid == p->pid && s->killed[i].start_ticks == p->start_ticks)
			return true;
	return false;
}

static bool sweep_is_guard(const struct sweep *s, const struct proc_stat *p)
{
	const struct sweep_target *t = s->target;

	return t && t->guard && p->pid == t->guard &&
	       (!t->guard_ticks || p->start_ticks == t->guard_ticks);
}

/* Whether p belongs to the run by facts that it cannot hide: guard, session, cgroup. A session's
 * number stays taken as long as it has a process. */
static bool sweep_belongs(const struct sweep *s, const struct proc_stat *p)
{
	const struct sweep_target *t = s->target;
	const char *name;

	if (!t)
		return false;
	if (sweep_is_guard(s, p))
		return true;
	if (t->guard && p->session == t->guard && p->start_ticks >= t->guard_ticks)
		return true;
	name = t->cgroup ? strrchr(t->cgroup, '/') : NULL;
	return name && proc_in_cgroup(p->pid, name + 1);
}

enum sweep_mark { SWEEP_LEAVE, SWEEP_TAKE, SWEEP_NEVER };

/* All processes at one moment, and the decision about each. */
struct sweep_view {
	struct proc_stat *procs;
	char *marks; /* of enum sweep_mark */
	char *taken; /* by pid: whether it is one of SWEEP_TAKE */
	size_t n;
	pid_t last;
};

static void sweep_view_fini(struct sweep_view *v)
{
	free(v->procs);
	free(v->marks);
	free(v->taken);
}

static int sweep_view_init(struct sweep_view *v)
{
	int r = proc_stat_all(&v->procs, &v->n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < v->n; i++)
		if (v->procs[i].pid > v->last)
			v->last = v->procs[i].pid;
	v->marks = calloc(v->n + 1, 1);
	v->taken = calloc((size_t)v->last + 1, 1);
	return v->marks && v->taken ? 0 : -ENOMEM;
}

static enum sweep_mark sweep_decide(
	const struct sweep *s, const struct proc_stat *p, bool environ, bool *ret_unsure)
{
	int has;

	if (p->pid == getpid() || proc_stat_dead(p) || !sweep_owned_by(p->pid, s->uid))
		return SWEEP_NEVER;
	if (sweep_was_killed(s, p) || sweep_belongs(s, p))
		return SWEEP_TAKE;
	has = environ ? proc_environ_has(p->pid, s->entry) : 0;
	*ret_unsure |= has == -EAGAIN;
	return has > 0 ? SWEEP_TAKE : SWEEP_LEAVE;
}

static void sweep_mark(const struct sweep *s, struct sweep_view *v, bool environ, bool *ret_unsure)
{
	bool grew = s->target != NULL;

	for (size_t i = 0; i < v->n; i++) {
		v->marks[i] = (char)sweep_decide(s, &v->procs[i], environ, ret_unsure);
		v->taken[v->procs[i].pid] = v->marks[i] == SWEEP_TAKE;
	}
	/* Adds their descendants. */
	while (grew) {
		grew = false;
		for (size_t i = 0; i < v->n; i++) {
			pid_t parent = v->procs[i].ppid;

			if (v->marks[i] != SWEEP_LEAVE || parent > v->last || !v->taken[parent])
				continue;
			v->marks[i] = SWEEP_TAKE;
			v->taken[v->procs[i].pid] = grew = true;
		}
	}
}

static int sweep_kill_one(struct sweep *s, const struct proc_stat *p)
{
	struct proc_stat *bigger;

	if (proc_kill(p, SIGKILL) < 0)
		return 0;
	bigger = reallocarray(s->killed, s->n + 1, sizeof(*s->killed));
	if (!bigger)
		return -ENOMEM;
	s->killed = bigger;
	bigger[s->n++] = *p;
	return 0;
}

/* Looks once at all processes, and kills. Returns how many new ones were signalled. Kills the guard
 * last: as long as it lives, orphans of the run become its children. */
static int sweep_pass(struct sweep *s, bool environ, bool *ret_unsure)
{
	_cleanup_(sweep_view_fini) struct sweep_view v = { 0 };
	const struct proc_stat *guard = NULL;
	size_t before = s->n;
	int r = sweep_view_init(&v);

	*ret_unsure = false;
	if (r < 0)
		return r;
	sweep_mark(s, &v, environ, ret_unsure);
	for (size_t i = 0; i < v.n && r >= 0; i++) {
		if (v.marks[i] != SWEEP_TAKE || sweep_was_killed(s, &v.procs[i]))
			continue;
		if (sweep_is_guard(s, &v.procs[i]))
			guard = &v.procs[i];
		else
			r = sweep_kill_one(s, &v.procs[i]);
	}
	if (guard && s->n == before && r >= 0)
		r = sweep_kill_one(s, guard);
	return r < 0 ? r : (int)(s->n - before);
}

static int sweep_passes(struct sweep *s, bool environ, bool *ret_unsure)
{
	int found = 1;

	*ret_unsure = false;
	for (int i = 0; i < SWEEP_PASSES && found > 0; i++)
		found = sweep_pass(s, environ, ret_unsure);
	return found < 0 ? found : (int)s->n;
}

int sweep_kill(struct sweep *s, bool *ret_unsure)
{
	return sweep_passes(s, true, ret_unsure);
}

int sweep_run(const struct sweep_target *target, struct error *err)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	_cleanup_(sweep_freep) struct sweep *s = NULL;
	_cleanup_free_ char *entry = NULL;
	uint64_t end = monotonic_ms() + SWEEP_UNSURE_MS;
	bool unsure;
	int n;

	if (asprintf(&entry, "ELASTICD_RUN=%s", target->run) < 0)
		entry = NULL;
	if (!entry || sweep_new(entry, target->uid, &s) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	s->target = target;
	if (target->cgroup)
		/* The passes below kill the same processes, more slowly. */
		(void)sweep_cgroup(target->cgroup);
	/* First without the environments, whose reading can take long. */
	n = sweep_passes(s, false, &unsure);
	if (n >= 0)
		n = sweep_kill(s, &unsure);
	while (n >= 0 && unsure && monotonic_ms() < end) {
		nanosleep(&pause, NULL);
		n = sweep_kill(s, &unsure);
	}
	return n < 0 ? error_set(err, n, "/proc: %s", strerror(-n)) : n;
}
