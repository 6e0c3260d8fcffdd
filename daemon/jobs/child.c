/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/child.h"

#include "common/base/proc.h"
#include "common/base/safe_open.h"
#include "common/base/scan.h"
#include "common/base/signals.h"
#include "common/base/user_name.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum {
	EXIT_NOT_STARTED = 125,
	GO_LIMIT_MS = 30 * 1000, /* a machine under load may take some seconds */
};

static struct rlimit nofile_at_start;

struct child_watch {
	struct loop_fd *watch;
	int pidfd;
	child_end_fn fn;
	void *arg;
	struct child_watch *next; /* among orphans */
};

/* A daemon in a container may run as a uid that is not in the user database. */
static int unknown_self(struct child_user *u)
{
	const char *home = getenv("HOME");

	if (asprintf(&u->name, "%u", (unsigned)u->uid) < 0)
		u->name = NULL;
	u->home = strdup(home ? home : "/");
	u->shell = strdup("/bin/sh");
	u->gid = getegid();
	return u->name && u->home && u->shell ? 0 : -ENOMEM;
}

int child_user_init(struct child_user *ret, uid_t uid, struct error *err)
{
	_cleanup_(child_user_fini) struct child_user u = { .uid = uid };
	const struct passwd *pw = getpwuid(uid);

	if (!pw && uid != geteuid())
		return error_set(
			err, -ENOENT, "user %u has no entry in the user database", (unsigned)uid);
	if (!pw) {
		if (unknown_self(&u) < 0)
			return error_set(err, -ENOMEM, "out of memory");
	} else {
		u.gid = pw->pw_gid;
		u.name = strdup(pw->pw_name);
		u.home = strdup(pw->pw_dir && *pw->pw_dir ? pw->pw_dir : "/");
		u.shell = strdup(pw->pw_shell && *pw->pw_shell ? pw->pw_shell : "/bin/sh");
		if (!u.name || !u.home || !u.shell)
			return error_set(err, -ENOMEM, "out of memory");
	}
	if (geteuid() == 0 && user_groups(u.name, u.gid, &u.groups, &u.n_groups) < 0)
		return error_set(err, -ENOMEM, "cannot find the groups of user %s", u.name);
	*ret = u;
	memset(&u, 0, sizeof(u));
	return 0;
}

void child_user_fini(struct child_user *u)
{
	free(u->name);
	free(u->home);
	free(u->shell);
	free(u->groups);
	memset(u, 0, sizeof(*u));
}

int child_user_uid(const char *name, uid_t *ret, struct error *err)
{
	const struct passwd *pw = getpwnam(name);
	uint64_t n;

	if (pw) {
		*ret = pw->pw_uid;
		return 0;
	}
	if (!scan_whole(name, UINT32_MAX - 1, &n)) {
		*ret = n;
		return 0;
	}
	return error_set(err, -ENOENT, "there is no user \"%s\"", name);
}

void child_raise_nofile(void)
{
	struct rlimit wanted;

	if (getrlimit(RLIMIT_NOFILE, &nofile_at_start) < 0) {
		nofile_at_start = (struct rlimit){ 0 };
		return;
	}
	wanted = nofile_at_start;
	wanted.rlim_cur = wanted.rlim_max;
	setrlimit(RLIMIT_NOFILE, &wanted);
}

/* From here to child_main(): in the child, which reports its problems by errno and place. */
struct child_problem {
	int code;
	char what[60];
};

static void __attribute__((noreturn)) give_up(int status_fd, const char *what)
{
	struct child_problem p = { .code = -errno };

	strncpy(p.what, what, sizeof(p.what) - 1);
	if (write(status_fd, &p, sizeof(p)) < 0) {
		/* The parent is gone: nothing to do but to exit. */
	}
	_exit(EXIT_NOT_STARTED);
}

static void join_cgroup(const char *dir)
{
	char path[4096];
	int fd;

	/* If this fails the job has no cgroup: the sweep finds its processes by their environment.
	 */
	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "0", 1) < 0)
		close(fd);
}

static void become(const struct child_user *u, int status_fd)
{
	if (geteuid() != 0)
		return;
	if (setgroups(u->n_groups, u->groups) < 0)
		give_up(status_fd, "setgroups");
	if (setgid(u->gid) < 0)
		give_up(status_fd, "setgid");
	if (setuid(u->uid) < 0)
		give_up(status_fd, "setuid");
}

/* The kernel's out-of-memory killer may be set to spare the daemon; it must not spare jobs. */
static void reset_oom_score(void)
{
	char text[16] = "";
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && text[0] == '-' &&
		pwrite(fd, "0", 1, 0) < 0) {
		/* The score stays as it is. */
	}
	close_fd(fd);
}

static void make_environment(const struct child_user *u, char *env[7], char text[6][1024])
{
	const char *path = getenv("PATH");
	const char *lang = getenv("LANG");
	int n = 0;

	snprintf(text[n++], 1024, "PATH=%s", path ? path : DEFAULT_PATH);
	snprintf(text[n++], 1024, "HOME=%s", u->home);
	snprintf(text[n++], 1024, "USER=%s", u->name);
	snprintf(text[n++], 1024, "LOGNAME=%s", u->name);
	snprintf(text[n++], 1024, "SHELL=%s", u->shell);
	if (lang)
		snprintf(text[n++], 1024, "LANG=%s", lang);
	for (int i = 0; i < n; i++)
		env[i] = text[i];
	env[n] = NULL;
}

static void set_descriptors(const struct child_request *q, int status_fd)
{
	int null_fd = open("/dev/null", O_RDWR);
	int log_fd = -1;

	/* Opened as the user, so that only files that the user may write are written. */
	if (q->log_dir_fd >= 0)
		log_fd = safe_open(q->log_dir_fd, CHILD_LOG, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (log_fd < 0)
		log_fd = null_fd;
	if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0)
		give_up(status_fd, "/dev/null");
	if (dup2(log_fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
		give_up(status_fd, "dup2");
	close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	for (int i = 0; i < CHILD_FDS_MAX && q->fds[i]; i++)
		if (fcntl(q->fds[i], F_SETFD, 0) < 0)
			give_up(status_fd, "fcntl");
}

static void __attribute__((noreturn))
child_main(const struct child_request *q, int gate_fd, int status_fd)
{
	char text[6][1024];
	char *env[7];
	char go;

	signals_reset();
	setsid();
	/* End of file without a byte: the daemon died or changed its mind. */
	if (read(gate_fd, &go, 1) != 1)
		_exit(EXIT_NOT_STARTED);
	if (q->cgroup)
		join_cgroup(q->cgroup);
	if (nofile_at_start.rlim_max)
		setrlimit(RLIMIT_NOFILE, &nofile_at_start);
	reset_oom_score();
	become(q->user, status_fd);
	umask(022);
	if (chdir("/") < 0)
		give_up(status_fd, "/");
	make_environment(q->user, env, text);
	set_descriptors(q, status_fd);
	execve(q->program, q->argv, env);
	give_up(status_fd, q->program);
}

int child_start(const struct child_request *q, struct child *ret, struct error *err)
{
	_cleanup_close_ int gate_read = -1, gate_write = -1, status_read = -1, status_write = -1;
	int pipes[4];
	pid_t pid;
	int pidfd;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return error_set(err, -errno, "pipe: %s", strerror(errno));
	gate_read = pipes[0];
	gate_write = pipes[1];
	if (pipe2(pipes + 2, O_CLOEXEC) < 0)
		return error_set(err, -errno, "pipe: %s", strerror(errno));
	status_read = pipes[2];
	status_write = pipes[3];
	pid = fork();
	if (pid < 0)
		return error_set(err, -errno, "fork: %s", strerror(errno));
	if (pid == 0) {
		close(gate_write);
		close(status_read);
		child_main(q, gate_read, status_write);
	}
	pidfd = proc_pidfd(pid);
	if (pidfd < 0) {
		/* Closing the gate makes the child exit. */
		gate_write = close_fd(gate_write);
		waitpid(pid, NULL, 0);
		return error_set(err, pidfd, "pidfd_open: %s", strerror(-pidfd));
	}
	*ret = (struct child){ .pid = pid,
		.pidfd = pidfd,
		.gate_fd = TAKE_FD(gate_write),
		.status_fd = TAKE_FD(status_read) };
	return 0;
}

static void forget_status(struct child *c)
{
	c->status = loop_fd_free(c->status);
	c->limit = loop_timer_free(c->limit);
	c->gate_fd = close_fd(c->gate_fd);
	c->status_fd = close_fd(c->status_fd);
}

static void on_limit(void *arg)
{
	struct child *c = arg;
	struct error err = { 0 };

	forget_status(c);
	error_set(&err, -ETIMEDOUT, "its process did not begin in %d s", GO_LIMIT_MS / 1000);
	c->went(c->arg, &err);
}

static void on_status(int fd, int events, void *arg)
{
	struct child *c = arg;
	struct child_problem p = { 0 };
	struct error err = { 0 };
	ssize_t n = read(fd, &p, sizeof(p));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	forget_status(c);
	p.what[sizeof(p.what) - 1] = '\0';
	if (n == sizeof(p))
		error_set(&err, p.code ? p.code : -EIO, "%s: %s", p.what, strerror(-p.code));
	else if (n != 0)
		error_set(&err, -EIO, "the process ended before it could start");
	c->went(c->arg, n == 0 ? NULL : &err);
}

void child_release(struct child *c)
{
	/* A child that died meanwhile needs no byte. */
	if (write(c->gate_fd, "", 1) < 0)
		errno = 0;
	forget_status(c);
}

int child_go(struct child *c, struct loop *loop, child_went_fn fn, void *arg)
{
	int r = loop_timer_new(loop, on_limit, c, &c->limit);

	c->went = fn;
	c->arg = arg;
	if (r == 0 && fcntl(c->status_fd, F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	if (r == 0)
		r = loop_fd_new(loop, c->status_fd, LOOP_READ, on_status, c, &c->status);
	if (r == 0 && write(c->gate_fd, "", 1) < 0)
		r = -errno;
	if (r < 0)
		return r;
	c->gate_fd = close_fd(c->gate_fd);
	loop_timer_arm(c->limit, GO_LIMIT_MS);
	return 0;
}

void child_catch_up(struct child *c)
{
	if (c->status)
		on_status(c->status_fd, LOOP_READ, c);
}

static void watch_ready(int fd, int events, void *arg)
{
	struct child_watch *w = arg;
	siginfo_t si = { 0 };
	int code = 0;
	int status = 0;

	/* If it is another process's child, only its end is known, not its status. */
	if (!waitid(P_PIDFD, fd, &si, WEXITED | WNOHANG)) {
		if (!si.si_pid)
			return;
		code = si.si_code;
		status = si.si_status;
	}
	w->watch = loop_fd_free(w->watch);
	w->fn(w->arg, code, status);
}

int child_watch_new(
	struct loop *loop, int pidfd, child_end_fn fn, void *arg, struct child_watch **ret)
{
	struct child_watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w) {
		close_fd(pidfd);
		return -ENOMEM;
	}
	*w = (struct child_watch){ .pidfd = pidfd, .fn = fn, .arg = arg };
	r = loop_fd_new(loop, pidfd, LOOP_READ, watch_ready, w, &w->watch);
	if (r < 0) {
		child_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

struct child_watch *child_watch_free(struct child_watch *w)
{
	if (!w)
		return NULL;
	loop_fd_free(w->watch);
	close_fd(w->pidfd);
	free(w);
	return NULL;
}

void child_watch_kill(struct child_watch *w, int signo)
{
	if (w->watch)
		proc_pidfd_kill(w->pidfd, signo);
}

static void orphan_ended(void *arg, int code, int status)
{
	struct child_orphans *o = arg;
	struct child_watch **p = &o->first;

	/* The child that ended is the one whose watch has stopped. */
	while (*p) {
		struct child_watch *w = *p;

		if (!w->watch) {
			*p = w->next;
			child_watch_free(w);
		} else {
			p = &w->next;
		}
	}
}

void child_orphans_add(struct child_orphans *o, struct child_watch *w)
{
	if (!w)
		return;
	if (!w->watch) { /* the child has ended already */
		child_watch_free(w);
		return;
	}
	w->fn = orphan_ended;
	w->arg = o;
	w->next = o->first;
	o->first = w;
}

void child_orphans_fini(struct child_orphans *o)
{
	while (o->first) {
		struct child_watch *w = o->first;

		o->first = w->next;
		child_watch_free(w);
	}
}

void child_abandon(struct child *c, struct loop *loop, struct child_orphans *o)
{
	struct child_watch *w;

	forget_status(c);
	if (c->pidfd < 0)
		return;
	proc_pidfd_kill(c->pidfd, SIGKILL);
	/* Without memory for the watch it stays a zombie. */
	if (child_watch_new(loop, TAKE_FD(c->pidfd), orphan_ended, o, &w) == 0)
		child_orphans_add(o, w);
}
