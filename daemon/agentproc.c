/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/agentproc.h"

#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/paths.h"
#include "common/proc.h"
#include "common/safe_open.h"
#include "common/scan.h"
#include "common/varlink_socket.h"
#include "daemon/cgroupfs.h"
#include "daemon/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { BACKLOG = 128, LOCK_TEXT_MAX = 32, SPEC_MAX = 4 << 20 };

/* A job's runtime directory on the way to being handed to its user. */
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
	r = files_write(rt->dir_fd, "spec.json", text, len, 0600, false, err);
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

/* A socket's address has room for 107 bytes; through /proc any directory fits. */
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
	int r = address_at(rt->dir_fd, rt->path, "agent.sock", &address);

	if (r < 0)
		return error_set(err, r, "agent.sock: %s", strerror(-r));
	rt->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (rt->listen_fd < 0 ||
		bind(rt->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		fchmodat(rt->dir_fd, "agent.sock", 0666, 0) < 0 ||
		listen(rt->listen_fd, BACKLOG) < 0)
		return error_set(err, -errno, "agent.sock: %s", strerror(errno));
	return 0;
}

static int give_away(struct runtime *rt, uid_t uid, struct error *err)
{
	static const char *const names[] = { "spec.json", "lock", "agent.sock" };

	if (uid == geteuid())
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (fchownat(rt->dir_fd, names[i], uid, -1, AT_SYMLINK_NOFOLLOW) < 0)
			return error_set(err, -errno, "%s: %s", names[i], strerror(errno));
	/* Last: from here on the user can put other things there. */
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
	code = file_rm_rf(rt->path);
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

static int connect_at(int dirfd, const char *name)
{
	/* A path descriptor of the socket itself: a link in its place would lead elsewhere. */
	_cleanup_close_ int node = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;

	if (node < 0)
		return -errno;
	if (fstat(node, &st) < 0 || !S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", node);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int open_runtime(const char *runtime_dir, const char *job)
{
	_cleanup_free_ char *path = paths_job_runtime(runtime_dir, job);

	return path ? files_open_dir(AT_FDCWD, path, NULL) : -ENOMEM;
}

int agentproc_connect(const char *runtime_dir, const char *job)
{
	_cleanup_close_ int dir = open_runtime(runtime_dir, job);

	_cleanup_close_ int fd = -1;
	struct error err;
	struct stat st;
	int r;

	if (dir < 0)
		return dir;
	fd = connect_at(dir, "agent.sock");
	if (fd < 0)
		return TAKE_FD(fd);
	/* Before the agent has its directory we listen there ourselves. */
	r = fstat(dir, &st) < 0 ? -errno
				: varlink_socket_check_peer(fd, "agent.sock", st.st_uid, &err);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Makes the job's cgroup where one is wanted; that it cannot be made is no reason not to run. */
static void make_cgroup(const struct agentproc_options *o, struct job_record *r)
{
	struct error err = { 0 };

	free(r->cgroup);
	r->cgroup = NULL;
	if (o->cgroup_parent &&
		cgroupfs_make(o->cgroup_parent, r->run, r->uid, &r->cgroup, &err) < 0)
		log_warning("job %s gets no cgroup: %s", r->name, err.text);
}

enum { ARGS_MAX = 12 };

struct args {
	char *argv[ARGS_MAX + 1];
	int n;
};

static void args_fini(struct args *a)
{
	for (int i = 0; i < a->n; i++)
		free(a->argv[i]);
}

__attribute__((format(printf, 2, 3))) static void add_arg(struct args *a, const char *fmt, ...)
{
	va_list ap;

	if (a->n < 0)
		return;
	va_start(ap, fmt);
	if (vasprintf(&a->argv[a->n], fmt, ap) >= 0)
		a->argv[++a->n] = NULL;
	va_end(ap);
}

static void agent_args(struct args *a, const struct agentproc_options *o,
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
}

static int fork_agent(const struct agentproc_options *o, struct job_record *r,
	const struct runtime *rt, struct child *ret, struct error *err)
{
	_cleanup_(child_user_fini) struct child_user user = { 0 };
	_cleanup_(args_fini) struct args a = { 0 };
	struct child_request q = { .program = o->program,
		.argv = a.argv,
		.user = &user,
		.fds = { rt->spec_fd, rt->listen_fd, rt->lock_fd },
		.lock_fd = rt->lock_fd };
	_cleanup_close_ int log_dir = files_open_dir(AT_FDCWD, o->record_dir, NULL);
	struct proc_stat st;
	int code = child_user_init(&user, r->uid, err);

	if (code < 0)
		return code;
	q.log_dir_fd = log_dir;
	agent_args(&a, o, r, rt);
	make_cgroup(o, r);
	q.cgroup = r->cgroup;
	code = child_start(&q, ret, err);
	if (code < 0)
		return code;
	r->agent_pid = ret->pid;
	r->agent_ticks = proc_stat_read(ret->pid, &st) < 0 ? 0 : st.start_ticks;
	return 0;
}

int agentproc_start(const struct agentproc_options *o, struct job_record *r, const json_t *spec,
	struct child *ret_child, int *ret_socket, struct error *err)
{
	_cleanup_(runtime_fini) struct runtime rt = {
		.dir_fd = -1, .spec_fd = -1, .lock_fd = -1, .listen_fd = -1
	};
	int code = make_runtime(&rt, o->runtime_dir, r, spec, err);
	int fd;

	if (code < 0)
		return code;
	/* While we hold the listening socket a connection is certain, and the agent's first words,
	 * however short its life, will be in it. */
	fd = connect_at(rt.dir_fd, "agent.sock");
	if (fd < 0)
		return error_set(err, fd, "%s/agent.sock: %s", rt.path, strerror(-fd));
	code = fork_agent(o, r, &rt, ret_child, err);
	if (code < 0) {
		close_fd(fd);
		return code;
	}
	*ret_socket = fd;
	return 0;
}

int agentproc_locked(const char *runtime_dir, const char *job)
{
	_cleanup_close_ int dir = open_runtime(runtime_dir, job);
	_cleanup_close_ int fd = -1;

	if (dir >= 0)
		fd = safe_open(dir, "lock", O_RDWR, 0);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

int agentproc_owner(const char *runtime_dir, const char *job, uid_t *ret_uid, json_t **ret_spec)
{
	_cleanup_close_ int dir = open_runtime(runtime_dir, job);
	struct stat st;

	if (dir < 0)
		return dir;
	if (fstat(dir, &st) < 0)
		return -errno;
	*ret_uid = st.st_uid;
	if (files_read_json(dir, "spec.json", SPEC_MAX, st.st_uid, ret_spec, NULL) < 0)
		*ret_spec = NULL;
	return 0;
}

/* The pid in the lock file; 0 where there is none that can be the guard's. */
static pid_t locked_by(const char *runtime_dir, const struct job_record *r)
{
	_cleanup_close_ int dir = open_runtime(runtime_dir, r->name);
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	uint64_t pid;

	if (dir < 0 || files_read(dir, "lock", LOCK_TEXT_MAX, r->uid, &text, &len, NULL) < 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	return scan_whole(text, INT32_MAX, &pid) < 0 ? 0 : (pid_t)pid;
}

/* A pidfd of pid where it started at ticks (0: any time). */
static int open_process(pid_t pid, uint64_t ticks, uint64_t *ret_ticks)
{
	_cleanup_close_ int fd = pid > 0 ? proc_pidfd(pid) : -ESRCH;
	struct proc_stat st;
	int r;

	if (fd < 0)
		return fd;
	/* Read after the descriptor is open: the pid cannot have changed hands since. */
	r = proc_stat_read(pid, &st);
	if (r < 0)
		return r;
	if (st.state == 'Z' || (ticks && st.start_ticks != ticks))
		return -ESRCH;
	*ret_ticks = st.start_ticks;
	return TAKE_FD(fd);
}

/* The lock of a name is also held for newer runs. */
static bool is_of_run(pid_t pid, const char *run)
{
	_cleanup_free_ char *argument = NULL;

	return asprintf(&argument, "--run=%s", run) >= 0 && proc_has_argument(pid, argument);
}

int agentproc_guard(const char *runtime_dir, struct job_record *r)
{
	uint64_t ticks = 0;
	int fd = r->agent_ticks ? open_process(r->agent_pid, r->agent_ticks, &ticks) : -ESRCH;
	pid_t pid;

	if (fd >= 0 || !agentproc_locked(runtime_dir, r->name))
		return fd;
	/* This daemon's predecessor died after the fork and before it wrote the record. */
	pid = locked_by(runtime_dir, r);
	fd = open_process(pid, 0, &ticks);
	if (fd < 0)
		return fd;
	if (!is_of_run(pid, r->run)) {
		close(fd);
		return -ESRCH;
	}
	r->agent_pid = pid;
	r->agent_ticks = ticks;
	return fd;
}

int agentproc_serve(const struct agentproc_options *o, const struct job_record *r,
	struct child *ret_child, int *ret_socket, struct error *err)
{
	_cleanup_(child_user_fini) struct child_user user = { 0 };
	_cleanup_(args_fini) struct args a = { 0 };
	_cleanup_close_ int ours = -1;
	_cleanup_close_ int theirs = -1;
	_cleanup_close_ int log_dir = files_open_dir(AT_FDCWD, o->record_dir, NULL);
	int pair[2];
	struct child_request q = { .program = o->program,
		.argv = a.argv,
		.user = &user,
		.lock_fd = -1,
		.log_dir_fd = log_dir };
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
	code = child_start(&q, ret_child, err);
	if (!code) {
		code = child_go(ret_child, err);
		if (code < 0)
			child_abandon(ret_child);
	}
	if (code < 0)
		return code;
	*ret_socket = TAKE_FD(ours);
	return 0;
}

void agentproc_clear(const char *runtime_dir, const char *job)
{
	_cleanup_free_ char *path = paths_job_runtime(runtime_dir, job);
	int r = path ? file_rm_rf(path) : -ENOMEM;

	if (r < 0)
		log_warning("%s/jobs/%s: %s", runtime_dir, job, strerror(-r));
}
