/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/aside.h"

#include "common/base/proc.h"
#include "common/base/signals.h"
#include "daemon/jobs/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/wait.h>

struct aside {
	TAILQ_ENTRY(aside) link;
	struct asides *all;
	struct aside_work work;
	aside_fn fn;
	void *arg;
	struct child_watch *process; /* NULL: waits for its turn */
	pid_t pid;		     /* 0: not started, or reaped */
	int result_fd;
	struct loop_timer *limit;
};

struct asides {
	struct loop *loop;
	TAILQ_HEAD(, aside) requests;
	struct child_orphans orphans;
};

int asides_new(struct loop *loop, struct asides **ret)
{
	struct asides *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	TAILQ_INIT(&s->requests);
	*ret = s;
	return 0;
}

static void start_next(void *arg);

struct asides *asides_free(struct asides *s)
{
	if (!s)
		return NULL;
	while (!TAILQ_EMPTY(&s->requests))
		aside_cancel(TAILQ_FIRST(&s->requests));
	loop_cancel(s->loop, start_next, s);
	child_orphans_fini(&s->orphans);
	free(s);
	return NULL;
}

struct aside *aside_cancel(struct aside *r)
{
	if (!r)
		return NULL;
	TAILQ_REMOVE(&r->all->requests, r, link);
	(void)!loop_defer(r->all->loop, start_next, r->all);
	/* A process that waits for a hanging file system may outlive even SIGKILL. */
	if (r->pid)
		kill(r->pid, SIGKILL);
	child_orphans_add(&r->all->orphans, r->process);
	close_fd(r->result_fd);
	loop_timer_free(r->limit);
	r->work.drop(r->work.arg);
	free(r);
	return NULL;
}

static void end(struct aside *r, int n)
{
	aside_fn fn = r->fn;
	void *arg = r->arg;

	aside_cancel(r);
	fn(arg, n);
}

static void on_limit(void *arg)
{
	end(arg, -ETIMEDOUT);
}

static void on_end(void *arg, int code, int status)
{
	struct aside *r = arg;
	int n;

	r->pid = 0;
	if (read(r->result_fd, &n, sizeof(n)) != sizeof(n))
		n = -EIO;
	end(r, n);
}

static void __attribute__((noreturn)) run(const struct aside_work *work, int fd)
{
	int n;

	/* The child must not keep connections open. */
	if (dup2(fd, 3) < 0)
		_exit(1);
	close_range(4, ~0U, 0);
	signals_reset();
	prctl(PR_SET_NAME, work->name);
	n = work->fn(work->arg);
	_exit(write(3, &n, sizeof(n)) == sizeof(n) ? 0 : 1);
}

static int start(struct aside *r)
{
	_cleanup_close_ int out = -1;
	int fds[2], pidfd, code;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	r->result_fd = fds[0];
	out = fds[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		run(&r->work, out);
	pidfd = proc_pidfd(pid);
	code = pidfd < 0 ? pidfd : child_watch_new(r->all->loop, pidfd, on_end, r, &r->process);
	if (code < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return code;
	}
	r->pid = pid;
	loop_timer_arm(r->limit, r->work.limit_ms);
	return 0;
}

static bool has_one(const struct asides *s, uid_t uid)
{
	const struct aside *r;

	TAILQ_FOREACH (r, &s->requests, link)
		if (r->process && r->work.uid == uid)
			return true;
	return false;
}

static void start_next(void *arg)
{
	struct asides *s = arg;
	struct aside *r;
	int n;

	TAILQ_FOREACH (r, &s->requests, link) {
		if (r->process || has_one(s, r->work.uid))
			continue;
		n = start(r);
		if (n == 0)
			continue;
		/* fn may begin or cancel requests: start from the front again. */
		(void)!loop_defer(s->loop, start_next, s);
		end(r, n);
		return;
	}
}

int aside_begin(
	struct asides *s, const struct aside_work *work, aside_fn fn, void *arg, struct aside **ret)
{
	struct aside *r = calloc(1, sizeof(*r));
	int code;

	if (!r) {
		work->drop(work->arg);
		return -ENOMEM;
	}
	*r = (struct aside){ .all = s, .work = *work, .fn = fn, .arg = arg, .result_fd = -1 };
	TAILQ_INSERT_TAIL(&s->requests, r, link);
	code = loop_timer_new(s->loop, on_limit, r, &r->limit);
	if (!code)
		code = loop_defer(s->loop, start_next, s);
	if (code < 0) {
		aside_cancel(r);
		return code;
	}
	*ret = r;
	return 0;
}
