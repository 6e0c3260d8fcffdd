/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/setup.h"

#include "common/base/log.h"
#include "common/base/private_dir.h"
#include "daemon/host/service_manager.h"
#include "daemon/jobs/agent_process.h"
#include "daemon/jobs/safe_files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum {
	LOCK_WAIT_MS = 25,
	LOCK_TRIES = 40,
	LOCK_TRIES_MOST = 1200, /* while the process that took the lock is gone */
	LOG_DIR_MS = 3000,
};

static int check_owner(const char *dir, struct error *err)
{
	struct stat st;

	if (lstat(dir, &st) < 0)
		return error_set(err, -errno, "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
		return error_set(err, -ENOTDIR, "%s: expected a directory", dir);
	if (st.st_uid != geteuid())
		return error_set(err, -EPERM, "%s: belongs to user %u, expected %u", dir,
			(unsigned)st.st_uid, (unsigned)geteuid());
	if (S_ISDIR(st.st_mode) && st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX))
		return error_set(err, -EPERM, "%s: others may write there", dir);
	return 0;
}

static void make_log_dir(const char *dir, bool system, struct error *err)
{
	struct stat st;

	if (files_make_dirs(dir, system ? 01777 : 0700, err) == 0 && !stat(dir, &st) &&
		!S_ISDIR(st.st_mode))
		error_set(err, -ENOTDIR, "%s: is a file, expected a directory", dir);
}

/* The log directory's file system may hang, so a process of its own makes it; the parent exits at
 * once. */
static void __attribute__((noreturn)) log_dir_child(int fd, const char *dir, bool system)
{
	struct error err = { 0 };

	if (fork() != 0)
		_exit(0);
	if (dup2(fd, 0) < 0)
		_exit(1);
	close_range(1, ~0U, 0);
	make_log_dir(dir, system, &err);
	_exit(write(0, &err, sizeof(err)) != sizeof(err));
}

static int make_log_dir_in_child(const char *dir, bool system, struct error *err)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	struct error result = { 0 };
	struct pollfd p = { .events = POLLIN };
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, -errno, "pipe: %s", strerror(errno));
	p.fd = ours = fds[0];
	theirs = fds[1];
	pid = fork();
	if (pid < 0)
		return error_set(err, -errno, "fork: %s", strerror(errno));
	if (pid == 0)
		log_dir_child(theirs, dir, system);
	theirs = close_fd(theirs);
	waitpid(pid, NULL, 0);
	if (poll(&p, 1, LOG_DIR_MS) == 0) {
		log_warning("%s: the file system does not answer; going on without it", dir);
		return 0;
	}
	if (read(ours, &result, sizeof(result)) != sizeof(result))
		return error_set(
			err, -EIO, "%s: cannot be made: the process that makes it has died", dir);
	if (result.code < 0)
		*err = result;
	return result.code;
}

int setup_dirs(const struct paths *p, const char *log_dir, bool system, struct error *err)
{
	_cleanup_free_ char *jobs = paths_join(p->runtime_dir, "jobs");
	int r;

	if (!jobs)
		return error_set(err, -ENOMEM, "out of memory");
	/* Users may enter the directories of their own jobs, but not list the others. */
	r = files_make_dirs(p->runtime_dir, system ? 0755 : 0700, err);
	if (!r)
		r = private_dir_check(p->runtime_dir, err);
	if (!r)
		r = files_make_dirs(jobs, 0711, err);
	if (!r)
		r = files_make_dirs(p->state_dir, system ? 0711 : 0700, err);
	if (!r)
		r = check_owner(p->state_dir, err);
	/* Each user's agent makes its runs' directories there. */
	if (!r && strcmp(log_dir, "/dev/null"))
		r = make_log_dir_in_child(log_dir, system, err);
	return r;
}

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

static int held_by(int fd)
{
	char text[32];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return atoi(text);
}

/* Whether the process that took the lock lives. After its death a child may hold it for a moment,
 * until it executes its program. */
static bool holder_lives(int fd)
{
	pid_t pid = held_by(fd);

	return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

int setup_lock(const char *dir, struct error *err)
{
	_cleanup_free_ char *path = paths_join(dir, "elasticd.lock");
	_cleanup_close_ int fd = -1;
	char text[32];
	int n;

	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK)
			return error_set(err, -errno, "%s: %s", path, strerror(errno));
		if (i >= LOCK_TRIES_MOST || (i >= LOCK_TRIES && holder_lives(fd)))
			return error_set(err, -EADDRINUSE,
				"%s: another elasticd (pid %d) works in this directory", dir,
				held_by(fd));
		sleep_ms(LOCK_WAIT_MS);
	}
	n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, n, 0) != n)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	return TAKE_FD(fd);
}

static int listen_passed(struct varlink_server *server, int first, int n, struct error *err)
{
	for (int i = 0; i < n; i++) {
		int r = varlink_server_listen_fd(server, first + i, err);

		if (r < 0)
			return r;
	}
	return 0;
}

int setup_listen(struct varlink_server *server, const struct paths *p, const struct config *c,
	bool system, struct error *err)
{
	/* On the system's daemon one group must not decide who may connect: see
	 * daemon/api/access.h. */
	int mode = c->socket_mode >= 0 ? c->socket_mode : system ? 0666 : 0600;
	int first = -1;
	int n = notify_sockets(&first);
	int r;

	if (n < 0)
		return error_set(err, n,
			"the sockets that systemd passed are not listening UNIX "
			"stream sockets");
	if (n > 0)
		return listen_passed(server, first, n, err);
	r = paths_check_socket(p->socket, err);
	if (!r)
		r = varlink_server_listen_path(server, p->socket, mode, err);
	return r;
}

void setup_clean_runtime(
	const char *runtime_dir, bool (*keep)(const char *name, void *arg), void *arg)
{
	_cleanup_free_ char *jobs = paths_join(runtime_dir, "jobs");
	_cleanup_dir_ DIR *dir = jobs ? opendir(jobs) : NULL;
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (!strncmp(e->d_name, FILES_GONE, strlen(FILES_GONE)) ||
			(e->d_name[0] != '.' && !keep(e->d_name, arg) &&
				!agent_process_locked(runtime_dir, e->d_name)))
			agent_process_clear(runtime_dir, e->d_name);
}
