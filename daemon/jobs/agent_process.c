/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/agent_process.h"

#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/base/proc.h"
#include "common/base/safe_open.h"
#include "common/text/json.h"
#include "common/varlink/socket.h"
#include "daemon/jobs/cgroupfs.h"
#include "daemon/jobs/safe_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define AGENT_SOCK "agent.sock"

enum { BACKLOG = 128 };

/* A job's runtime directory while it is being made. */
struct runtime {
	char *path;
	int dir_fd, spec_fd, lock_fd, listen_fd;
};

static void runtime_fini(struct runtime *rt)
{
	free(rt->path);
	close_fd(rt->dir_fd);
	close_fd(rt->spec_fd);
	close_fd(rt->lock_fd);
	close_fd(rt->listen_fd);
}

static int write_spec(struct runtime *rt, const json_t *spec, struct error *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r;

	text = json_dump_text(spec, &len);
	if (!text)
		return error_set(err, -ENOMEM, "out of memory");
	r = files_write(rt->dir_fd, "spec.json", geteuid(), text, len, 0600, err);
	if (r < 0)
		return r;
	r = safe_open(rt->dir_fd, "spec.json", O_RDONLY, 0);
	if (r < 0)
		return error_set(err, r, "spec.json: %s", safe_open_text(r));
	rt->spec_fd = r;
	return 0;
}

static int take_lock(struct runtime *rt, struct error *err)
{
	rt->lock_fd = openat(
		rt->dir_fd, "lock", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (rt->lock_fd < 0 || flock(rt->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, -errno, "lock: %s", strerror(errno));
	return 0;
}

/* The address of a socket. It has room for 107 bytes only; /proc/self/fd makes any directory fit.
 */
static int address_at(int dirfd, const char *dir, const char *name, struct sockaddr_un *ret)
{
	int n;

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/%s", dir, name);
	if (n >= (int)sizeof(ret->sun_path))
		n = snprintf(
			ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dirfd, name);
	return n < (int)sizeof(ret->sun_path) ? 0 : -ENAMETOOLONG;
}

static int bind_socket(struct runtime *rt, struct error *err)
{
	struct sockaddr_un address;
	int r = address_at(rt->dir_fd, rt->path, AGENT_SOCK, &address);

	if (r < 0)
		return error_set(err, r, "agent.sock: %s", strerror(-r));
	rt->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (rt->listen_fd < 0 ||
		bind(rt->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		fchmodat(rt->dir_fd, AGENT_SOCK, 0666, 0) < 0 || listen(rt->listen_fd, BACKLOG) < 0)
		return error_set(err, -errno, "agent.sock: %s", strerror(errno));
	return 0;
}

static int give_away(struct runtime *rt, uid_t uid, struct error *err)
{
	static const char *const names[] = { "spec.json", "lock", AGENT_SOCK };

	if (uid == geteuid())
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (fchownat(rt->dir_fd, names[i], uid, -1, AT_SYMLINK_NOFOLLOW) < 0)
			return error_set(err, -errno, "%s: %s", names[i], strerror(errno));
	/* Last, because the user can put other things there from now on. */
	if (fchown(rt->dir_fd, uid, -1) < 0)
		return error_set(err, -errno, "%s", strerror(errno));
	return 0;
}

static int make_runtime(struct runtime *rt, const char *runtime_dir, const struct job_record *r,
	const json_t *spec, struct error *err)
{
	int code;

	rt->path = paths_job_runtime(runtime_dir, r->name);
	if (!rt->path)
		return error_set(err, -ENOMEM, "out of memory");
	code = files_remove_tree(rt->path);
	if (code < 0)
		return error_set(err, code, "%s: %s", rt->path, strerror(-code));
	if (mkdir(rt->path, 0700) < 0)
		return error_set(err, -errno, "%s: %s", rt->path, strerror(errno));
	rt->dir_fd = files_open_dir(AT_FDCWD, rt->path, err);
	if (rt->dir_fd < 0)
		return rt->dir_fd;
	code = write_spec(rt, spec, err);
	if (!code)
		code = take_lock(rt, err);
	if (!code)
		code = bind_socket(rt, err);
	if (!code)
		code = give_away(rt, r->uid, err);
	if (code < 0)
		error_prefix(err, "%s", rt->path);
	return code;
}

static int connect_at(int dirfd, const char *path, struct error *err)
{
	/* Open the socket itself with O_PATH: the user could replace its path by a link. */
	_cleanup_close_ int node = openat(dirfd, AGENT_SOCK, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;

	if (node < 0 || fstat(node, &st) < 0)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, -ENOTSOCK, "%s: %sexpected the agent's socket", path,
			S_ISLNK(st.st_mode)   ? "is a symbolic link, "
			: S_ISDIR(st.st_mode) ? "is a directory, "
					      : "");
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", node);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	return TAKE_FD(fd);
}

static int open_runtime(const char *runtime_dir, const char *job)
{
	_cleanup_free_ char *path = paths_job_runtime(runtime_dir, job);

	return path ? files_open_dir(AT_FDCWD, path, NULL) : -ENOMEM;
}

static int connect_agent(const char *dir_path, const char *path, struct error *err)
{
	_cleanup_close_ int dir = files_open_dir(AT_FDCWD, dir_path, err);
	_cleanup_close_ int fd = dir < 0 ? dir : connect_at(dir, path, err);
	struct stat st;
	int r;

	if (fd < 0)
		return TAKE_FD(fd);
	/* Until the agent's directory is complete, elasticd itself holds the listening socket. */
	r = fstat(dir, &st) < 0 ? error_set(err, -errno, "%s: %s", dir_path, strerror(errno))
				: varlink_socket_check_peer(fd, path, st.st_uid, err);
	return r < 0 ? r : TAKE_FD(fd);
}

int agent_process_connect(const char *runtime_dir, const char *job, struct error *err)
{
	static const int passed[] = { ENOENT, ECONNREFUSED, EAGAIN, EMFILE, ENFILE, ENOBUFS,
		ENOMEM };
	_cleanup_free_ char *dir = paths_job_runtime(runtime_dir, job);
	_cleanup_free_ char *path = dir ? paths_join(dir, AGENT_SOCK) : NULL;
	int r = path ? connect_agent(dir, path, err) : error_set(err, -ENOMEM, "out of memory");

	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		if (r == -passed[i])
			return r;
	return r < 0 ? -ENOTSOCK : r;
}

/* Makes the job's cgroup if wanted. A failure is logged and the job runs without one. */
static void make_cgroup(const struct agent_process_options *o, struct job_record *r)
{
	struct error err = { 0 };

	free(r->cgroup);
	r->cgroup = NULL;
	if (o->cgroup_parent &&
		cgroupfs_make(o->cgroup_parent, r->run, r->uid, &r->cgroup, &err) < 0)
		log_warning("job %s gets no cgroup: %s", r->name, err.text);
}

enum { ARGS_MAX = 13 };

struct args {
	char *argv[ARGS_MAX + 1];
	int n;
	bool failed; /* memory was short */
};

static void args_fini(struct args *a)
{
	for (int i = 0; i < a->n; i++)
		free(a->argv[i]);
}

__attribute__((format(printf, 2, 3))) static void add_arg(struct args *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&a->argv[a->n], fmt, ap) >= 0)
		a->argv[++a->n] = NULL;
	else
		a->failed = true;
	va_end(ap);
}

static void agent_args(struct args *a, const struct agent_process_options *o,
	const struct job_record *r, const struct runtime *rt)
{
	add_arg(a, "elastic-agent");
	add_arg(a, "--spec-fd=%d", rt->spec_fd);
	add_arg(a, "--run=%s", r->run);
	add_arg(a, "--listen-fd=%d", rt->listen_fd);
	add_arg(a, "--lock-fd=%d", rt->lock_fd);
	add_arg(a, "--state-dir=%s", o->record_dir);
	add_arg(a, "--runtime-dir=%s", rt->path);
	add_arg(a, "--log-dir=%s", r->log_dir);
	if (o->log_level)
		add_arg(a, "--log-level=%s", o->log_level);
	if (o->resume)
		add_arg(a, "--resume");
	if (o->lost)
		add_arg(a, "--lost=%s", o->lost);
}

static int fork_agent(const struct agent_process_options *o, struct job_record *r,
	const struct runtime *rt, struct child *ret, struct error *err)
{
	_cleanup_(child_user_fini) struct child_user user = { 0 };
	_cleanup_(args_fini) struct args a = { 0 };
	struct child_request q = { .program = o->program,
		.argv = a.argv,
		.user = &user,
		.fds = { rt->spec_fd, rt->listen_fd, rt->lock_fd } };
	_cleanup_close_ int log_dir = files_open_dir(AT_FDCWD, o->record_dir, NULL);
	struct proc_stat st;
	int code = child_user_init(&user, r->uid, err);

	if (code < 0)
		return code;
	q.log_dir_fd = log_dir;
	agent_args(&a, o, r, rt);
	if (a.failed)
		return error_set(err, -ENOMEM, "out of memory");
	make_cgroup(o, r);
	q.cgroup = r->cgroup;
	code = child_start(&q, ret, err);
	if (code < 0)
		return code;
	r->agent_pid = ret->pid;
	r->agent_ticks = proc_stat_read(ret->pid, &st) < 0 ? 0 : st.start_ticks;
	return 0;
}

int agent_process_start(const struct agent_process_options *o, struct job_record *r,
	const json_t *spec, struct child *ret_child, int *ret_socket, struct error *err)
{
	_cleanup_(runtime_fini) struct runtime rt = {
		.dir_fd = -1, .spec_fd = -1, .lock_fd = -1, .listen_fd = -1
	};
	_cleanup_free_ char *path = NULL;
	int code = make_runtime(&rt, o->runtime_dir, r, spec, err);
	int fd;

	if (code < 0)
		return code;
	/* While elasticd holds the listening socket the connection cannot fail, and it will get the
	 * agent's first words, however short the agent's life. */
	path = paths_join(rt.path, AGENT_SOCK);
	fd = path ? connect_at(rt.dir_fd, path, err) : error_set(err, -ENOMEM, "out of memory");
	if (fd < 0)
		return fd;
	code = fork_agent(o, r, &rt, ret_child, err);
	if (code < 0) {
		close_fd(fd);
		return code;
	}
	*ret_socket = fd;
	return 0;
}

int agent_process_locked(const char *runtime_dir, const char *job)
{
	_cleanup_close_ int dir = open_runtime(runtime_dir, job);
	_cleanup_close_ int fd = -1;

	if (dir >= 0)
		fd = safe_open(dir, "lock", O_RDWR, 0);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* A pidfd of the process pid that started at ticks. */
static int open_process(pid_t pid, uint64_t ticks)
{
	_cleanup_close_ int fd = pid > 0 ? proc_pidfd(pid) : -ESRCH;
	struct proc_stat st;
	int r;

	if (fd < 0)
		return TAKE_FD(fd);
	/* Read after the descriptor is open: it now pins the pid. */
	r = proc_stat_read(pid, &st);
	if (r < 0)
		return r;
	return st.state == 'Z' || st.start_ticks != ticks ? -ESRCH : TAKE_FD(fd);
}

int agent_process_guard(const struct record_store *living, struct job_record *r)
{
	struct job_record kept = { 0 };
	int fd = job_record_load(living, r->run, &kept, NULL, NULL);

	if (!fd)
		fd = open_process(kept.agent_pid, kept.agent_ticks);
	if (fd >= 0) {
		r->agent_pid = kept.agent_pid;
		r->agent_ticks = kept.agent_ticks;
	}
	job_record_fini(&kept);
	return fd >= 0 || !r->agent_pid ? fd : open_process(r->agent_pid, r->agent_ticks);
}

int agent_process_serve(const struct agent_process_options *o, const struct job_record *r,
	struct child *ret_child, int *ret_socket, struct error *err)
{
	_cleanup_(child_user_fini) struct child_user user = { 0 };
	_cleanup_(args_fini) struct args a = { 0 };
	_cleanup_close_ int ours = -1;
	_cleanup_close_ int theirs = -1;
	_cleanup_close_ int log_dir = files_open_dir(AT_FDCWD, o->record_dir, NULL);
	int pair[2];
	struct child_request q = {
		.program = o->program, .argv = a.argv, .user = &user, .log_dir_fd = log_dir
	};
	int code = child_user_init(&user, r->uid, err);

	if (code < 0)
		return code;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return error_set(err, -errno, "socketpair: %s", strerror(errno));
	ours = pair[0];
	theirs = pair[1];
	q.fds[0] = theirs;
	add_arg(&a, "elastic-agent");
	add_arg(&a, "--serve=%s", o->record_dir);
	add_arg(&a, "--conn-fd=%d", theirs);
	add_arg(&a, "--log-level=warning");
	if (a.failed)
		return error_set(err, -ENOMEM, "out of memory");
	code = child_start(&q, ret_child, err);
	if (code < 0)
		return code;
	child_release(ret_child);
	*ret_socket = TAKE_FD(ours);
	return 0;
}

void agent_process_clear(const char *runtime_dir, const char *job)
{
	_cleanup_free_ char *path = paths_job_runtime(runtime_dir, job);
	int r = path ? files_remove_tree(path) : -ENOMEM;

	if (r < 0)
		log_warning("%s/jobs/%s: %s", runtime_dir, job, strerror(-r));
}
