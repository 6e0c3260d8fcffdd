/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/dump.h"

#include "agent/files/file_system.h"
#include "agent/watchdog/dump_writer.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * One child for each dump, in a session of its own. The agent makes the directories first, so that
 * it can name them; the child fills them. When the time is over the agent kills the session, and
 * the dump is what was written by then. For a worker that another dump's child writes, this dump
 * waits for that child.
 */

struct dump_part {
	pid_t pid;	   /* of the worker */
	bool own;	   /* this dump's child writes it */
	struct dump *with; /* the other dump that writes it, while its child runs */
};

struct dump {
	LIST_ENTRY(dump) entry;
	struct dumps *owner;
	pid_t pid; /* of the child; 0: none, or it was reaped */
	struct loop_timer *timer;
	struct dump_part *parts;
	char **dirs; /* of the parts */
	size_t n;
	dump_done_fn fn;
	void *arg;
};

struct dumps {
	struct loop *loop;
	LIST_HEAD(, dump) dumps;
};

int dumps_new(struct loop *loop, struct dumps **ret)
{
	struct dumps *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->loop = loop;
	LIST_INIT(&h->dumps);
	*ret = h;
	return 0;
}

/* Kills the child's session. A process that left the session dies with its parent, the child, or
 * ends by itself. */
static void dump_kill(const struct dump *d)
{
	if (d->pid <= 0)
		return;
	kill(-d->pid, SIGKILL);
	kill(d->pid, SIGKILL); /* the child may not have its session yet */
}

static struct dump *dump_free(struct dump *d)
{
	if (!d)
		return NULL;
	dump_kill(d);
	loop_timer_free(d->timer);
	for (size_t i = 0; i < d->n; i++)
		free(d->dirs[i]);
	free(d->dirs);
	free(d->parts);
	free(d);
	return NULL;
}
DEFINE_CLEANUP(struct dump *, dump_free)

static bool dump_waits(const struct dump *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->parts[i].with)
			return true;
	return d->pid > 0;
}

/* Calls back with what there is. */
static void dump_end(struct dump *d)
{
	LIST_REMOVE(d, entry);
	d->fn(d->arg, d->dirs, d->n);
	dump_free(d);
}

struct dumps *dumps_free(struct dumps *h)
{
	struct dump *d;

	if (!h)
		return NULL;
	while ((d = LIST_FIRST(&h->dumps))) {
		dump_kill(d);
		dump_end(d);
	}
	free(h);
	return NULL;
}

static void dump_expired(void *arg)
{
	struct dump *d = arg;

	log_debug("a dump takes too long and is ended");
	for (size_t i = 0; i < d->n; i++)
		d->parts[i].with = NULL;
	if (dump_waits(d))
		dump_kill(d); /* the child is reaped soon, which ends the dump */
	else
		dump_end(d);
}

/* <dir>/hang, or the first of hang.1, hang.2, ... that is not there; NULL with errno set. */
static char *dump_make_dir(const char *dir)
{
	for (int i = 0; i < DUMP_DIRS_MAX; i++) {
		char *path;
		int r = i ? asprintf(&path, "%s/hang.%d", dir, i) : asprintf(&path, "%s/hang", dir);

		if (r < 0) {
			errno = ENOMEM;
			return NULL;
		}
		r = log_fs_mkdir(path, 0755);
		if (r == 0)
			return path;
		free(path);
		errno = -r;
		if (r != -EEXIST)
			return NULL;
	}
	return NULL;
}

/* The dump whose child writes this process, and as which part; or NULL. */
static struct dump *dump_writing(struct dumps *h, pid_t pid, size_t *ret_part)
{
	struct dump *d;

	LIST_FOREACH (d, &h->dumps, entry)
		for (size_t i = 0; d->pid > 0 && i < d->n; i++)
			if (d->parts[i].pid == pid && d->parts[i].own) {
				*ret_part = i;
				return d;
			}
	return NULL;
}

/* Sets a part's directory: a new one, or that of the dump that writes the worker already. */
static int dump_part_init(struct dump *d, size_t i, const struct dump_worker *worker)
{
	struct dump_part *p = &d->parts[i];
	size_t k;

	if (!worker->dir)
		return 0;
	p->pid = worker->pid;
	p->with = dump_writing(d->owner, worker->pid, &k);
	d->dirs[i] = p->with ? strdup(p->with->dirs[k]) : dump_make_dir(worker->dir);
	if (!d->dirs[i]) {
		p->with = NULL;
		return -errno;
	}
	p->own = !p->with;
	return 0;
}

/* In the child: uses the agent's memory, but none of its descriptors. */
static void dump_child(
	const struct dump *d, const struct dump_worker *workers, pid_t parent, uint64_t timeout_ms)
{
	const struct rlimit size = { DUMP_FILE_BYTES, DUMP_FILE_BYTES }, no_core = { 0, 0 };
	/* The child stops its debuggers itself a bit earlier: killing them can harm the process
	 * that they are attached to. */
	uint64_t deadline = monotonic_ms() + timeout_ms - timeout_ms / 8;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	setsid();
	signals_reset();
	signal(SIGXFSZ, SIG_IGN); /* a file that is too large ends at its limit */
	prctl(PR_SET_NAME, "hang-dump");
	close_range(0, ~0U, 0);
	if (open("/dev/null", O_RDWR) < 0 || dup(0) < 0 || dup(0) < 0)
		_exit(1);
	setrlimit(RLIMIT_FSIZE, &size);
	setrlimit(RLIMIT_CORE, &no_core);
	setpriority(PRIO_PROCESS, 0, 10);
	for (size_t i = 0; i < d->n; i++)
		if (d->parts[i].own)
			dump_write_kernel(&workers[i], d->dirs[i]);
	for (size_t i = 0; i < d->n; i++)
		if (d->parts[i].own)
			dump_write_stacks(&workers[i], d->dirs[i], deadline);
	kill(0, SIGKILL); /* kills itself and everything it started */
	_exit(0);
}

static int dump_start(struct dump *d, const struct dump_worker *workers, uint64_t timeout_ms)
{
	pid_t self = getpid();
	size_t own = 0;

	for (size_t i = 0; i < d->n; i++)
		own += d->parts[i].own;
	if (own) {
		d->pid = fork();
		if (d->pid < 0) {
			d->pid = 0;
			return -errno;
		}
		if (d->pid == 0)
			dump_child(d, workers, self, timeout_ms);
	}
	loop_timer_arm(d->timer, timeout_ms);
	return 0;
}

int dumps_begin(struct dumps *h, const struct dump_worker *workers, size_t n, uint64_t timeout_ms,
	dump_done_fn fn, void *arg, struct error *err)
{
	_cleanup_(dump_freep) struct dump *d = calloc(1, sizeof(*d));
	int r = -ENOENT, failed;

	if (!d || !(d->dirs = calloc(n ? n : 1, sizeof(*d->dirs))) ||
		!(d->parts = calloc(n ? n : 1, sizeof(*d->parts))) ||
		loop_timer_new(h->loop, dump_expired, d, &d->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	d->owner = h;
	d->n = n;
	d->fn = fn;
	d->arg = arg;
	for (size_t i = 0; i < n; i++) {
		failed = dump_part_init(d, i, &workers[i]);
		if (d->dirs[i])
			r = 0;
		else if (failed < 0 && r)
			r = failed;
	}
	if (r == -ENOENT)
		return error_set(err, r, "there is no directory for a dump: the job has no logs");
	if (r < 0)
		return error_set(err, r, "cannot make a directory for a dump: %s", strerror(-r));
	r = dump_start(d, workers, timeout_ms);
	if (r < 0)
		return error_set(err, r, "cannot start a dump: %s", strerror(-r));
	LIST_INSERT_HEAD(&h->dumps, d, entry);
	TAKE_PTR(d);
	return 0;
}

/* Ends the dumps that waited for one that has just ended. Their callbacks may begin new ones. */
static void dumps_settle(struct dumps *h)
{
	struct dump *d;

	do {
		LIST_FOREACH (d, &h->dumps, entry)
			if (!dump_waits(d))
				break;
		if (d)
			dump_end(d);
	} while (d);
}

bool dumps_child_exited(struct dumps *h, pid_t pid)
{
	struct dump *d, *other;

	if (!h)
		return false;
	LIST_FOREACH (d, &h->dumps, entry)
		if (d->pid == pid)
			break;
	if (!d)
		return false;
	d->pid = 0;
	LIST_FOREACH (other, &h->dumps, entry)
		for (size_t i = 0; i < other->n; i++)
			if (other->parts[i].with == d)
				other->parts[i].with = NULL;
	dumps_settle(h);
	return true;
}

size_t dumps_helper_pids(struct dumps *h, pid_t *pids, size_t max)
{
	struct dump *d;
	size_t n = 0;

	if (!h)
		return 0;
	LIST_FOREACH (d, &h->dumps, entry)
		if (n < max && d->pid > 0)
			pids[n++] = d->pid;
	return n;
}
