/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/sweeper.h"

#include "common/base/proc.h"
#include "daemon/jobs/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/wait.h>

enum { LIMIT_MS = 30000 }; /* for one that hangs: a machine under load may take some seconds */

struct sweep_request {
	TAILQ_ENTRY(sweep_request) link;
	struct sweepers *sweepers;
	struct sweep_target target; /* its strings are owned */
	sweeper_fn fn;
	void *arg;
	struct child_watch *process; /* NULL: waits for its turn */
	pid_t pid;		     /* 0: not started, or reaped */
	int result_fd;
	struct loop_timer *limit;
};

struct sweepers {
	struct loop *loop;
	TAILQ_HEAD(, sweep_request) requests;
	struct child_orphans orphans;
};

int sweepers_new(struct loop *loop, struct sweepers **ret)
{
	struct sweepers *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	TAILQ_INIT(&s->requests);
	*ret = s;
	return 0;
}

static void start_next(void *arg);

struct sweepers *sweepers_free(struct sweepers *s)
{
	if (!s)
		return NULL;
	loop_cancel(s->loop, start_next, s);
	child_orphans_fini(&s->orphans);
	free(s);
	return NULL;
}

struct sweep_request *sweeper_cancel(struct sweep_request *r)
{
	if (!r)
		return NULL;
	TAILQ_REMOVE(&r->sweepers->requests, r, link);
	(void)!loop_defer(r->sweepers->loop, start_next, r->sweepers);
	/* A process that reads a file on a hanging file system may outlive even SIGKILL. */
	if (r->pid)
		kill(r->pid, SIGKILL);
	child_orphans_add(&r->sweepers->orphans, r->process);
	close_fd(r->result_fd);
	loop_timer_free(r->limit);
	free((char *)r->target.run);
	free((char *)r->target.cgroup);
	free(r);
	return NULL;
}

static void end(struct sweep_request *r, int n)
{
	sweeper_fn fn = r->fn;
	void *arg = r->arg;

	sweeper_cancel(r);
	fn(arg, n);
}

static void on_limit(void *arg)
{
	end(arg, -ETIMEDOUT);
}

static void on_end(void *arg, int code, int status)
{
	struct sweep_request *r = arg;
	int n;

	r->pid = 0;
	if (read(r->result_fd, &n, sizeof(n)) != sizeof(n))
		n = -EIO;
	end(r, n);
}

static void __attribute__((noreturn)) sweep(const struct sweep_target *target, int fd)
{
	sigset_t none;
	int n;

	/* The child must not keep connections open. */
	if (dup2(fd, 3) < 0)
		_exit(1);
	close_range(4, ~0U, 0);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "elasticd-sweep");
	n = sweep_run(target, NULL);
	_exit(write(3, &n, sizeof(n)) == sizeof(n) ? 0 : 1);
}

static int start(struct sweep_request *r)
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
		sweep(&r->target, out);
	pidfd = proc_pidfd(pid);
	code = pidfd < 0 ? pidfd
			 : child_watch_new(r->sweepers->loop, pidfd, on_end, r, &r->process);
	if (code < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return code;
	}
	r->pid = pid;
	loop_timer_arm(r->limit, LIMIT_MS);
	return 0;
}

static bool has_one(const struct sweepers *s, uid_t uid)
{
	const struct sweep_request *r;

	TAILQ_FOREACH (r, &s->requests, link)
		if (r->process && r->target.uid == uid)
			return true;
	return false;
}

static void start_next(void *arg)
{
	struct sweepers *s = arg;
	struct sweep_request *r;
	int n;

	TAILQ_FOREACH (r, &s->requests, link) {
		if (r->process || has_one(s, r->target.uid))
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

int sweeper_begin(struct sweepers *s, const struct sweep_target *target, sweeper_fn fn, void *arg,
	struct sweep_request **ret)
{
	struct sweep_request *r = calloc(1, sizeof(*r));
	int code;

	if (!r)
		return -ENOMEM;
	*r = (struct sweep_request){
		.sweepers = s, .target = *target, .fn = fn, .arg = arg, .result_fd = -1
	};
	TAILQ_INSERT_TAIL(&s->requests, r, link);
	r->target.run = strdup(target->run);
	r->target.cgroup = target->cgroup ? strdup(target->cgroup) : NULL;
	code = loop_timer_new(s->loop, on_limit, r, &r->limit);
	if (!code && (!r->target.run || (target->cgroup && !r->target.cgroup)))
		code = -ENOMEM;
	if (!code)
		code = loop_defer(s->loop, start_next, s);
	if (code < 0) {
		sweeper_cancel(r);
		return code;
	}
	*ret = r;
	return 0;
}
