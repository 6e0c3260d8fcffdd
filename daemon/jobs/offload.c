/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/offload.h"

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

struct offload_request {
	TAILQ_ENTRY(offload_request) link;
	struct offload *all;
	struct offload_work work;
	offload_fn fn;
	void *arg;
	struct child_watch *process; /* NULL: waits for its turn */
	pid_t pid;		     /* 0: not started, or reaped */
	int result_fd;
	struct loop_timer *limit;
};

struct offload {
	struct loop *loop;
	TAILQ_HEAD(, offload_request) requests;
	struct child_orphans orphans;
};

int offload_new(struct loop *loop, struct offload **ret)
{
	struct offload *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	TAILQ_INIT(&s->requests);
	*ret = s;
	return 0;
}

static void start_next(void *arg);

struct offload *offload_free(struct offload *s)
{
	if (!s)
		return NULL;
	while (!TAILQ_EMPTY(&s->requests))
		offload_cancel(TAILQ_FIRST(&s->requests));
	loop_cancel(s->loop, start_next, s);
	child_orphans_fini(&s->orphans);
	free(s);
	return NULL;
}

struct offload_request *offload_cancel(struct offload_request *r)
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

static void end_request(struct offload_request *r, int n)
{
	offload_fn fn = r->fn;
	void *arg = r->arg;

	offload_cancel(r);
	fn(arg, n);
}

static void on_limit(void *arg)
{
	end_request(arg, -ETIMEDOUT);
}

static void on_end(void *arg, int code, int status)
{
	struct offload_request *r = arg;
	int n;

	r->pid = 0;
	if (read(r->result_fd, &n, sizeof(n)) != sizeof(n))
		n = -EIO;
	end_request(r, n);
}

static void __attribute__((noreturn)) run_work(const struct offload_work *work, int fd)
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

static int start_request(struct offload_request *r)
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
		run_work(&r->work, out);
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

static bool has_one(const struct offload *s, uid_t uid)
{
	const struct offload_request *r;

	TAILQ_FOREACH (r, &s->requests, link)
		if (r->process && r->work.uid == uid)
			return true;
	return false;
}

static void start_next(void *arg)
{
	struct offload *s = arg;
	struct offload_request *r;
	int n;

	TAILQ_FOREACH (r, &s->requests, link) {
		if (r->process || has_one(s, r->work.uid))
			continue;
		n = start_request(r);
		if (n == 0)
			continue;
		/* fn may begin or cancel requests: start from the front again. */
		(void)!loop_defer(s->loop, start_next, s);
		end_request(r, n);
		return;
	}
}

int offload_begin(struct offload *s, const struct offload_work *work, offload_fn fn, void *arg,
	struct offload_request **ret)
{
	struct offload_request *r = calloc(1, sizeof(*r));
	int code;

	if (!r) {
		work->drop(work->arg);
		return -ENOMEM;
	}
	*r = (struct offload_request){
		.all = s, .work = *work, .fn = fn, .arg = arg, .result_fd = -1
	};
	TAILQ_INSERT_TAIL(&s->requests, r, link);
	code = loop_timer_new(s->loop, on_limit, r, &r->limit);
	if (!code)
		code = loop_defer(s->loop, start_next, s);
	if (code < 0) {
		offload_cancel(r);
		return code;
	}
	*ret = r;
	return 0;
}
