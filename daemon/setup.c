/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/setup.h"

#include "common/log.h"
#include "common/private_dir.h"
#include "daemon/agentproc.h"
#include "daemon/files.h"
#include "daemon/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

enum {
	LOCK_WAIT_MS = 25,
	LOCK_TRIES = 40,
	LOCK_TRIES_MOST = 1200, /* where who has taken it is gone */
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

int setup_dirs(const struct paths *p, const char *log_dir, bool system, struct error *err)
{
	_cleanup_free_ char *jobs = paths_join(p->runtime_dir, "jobs");
	struct stat st;
	int r;

	if (!jobs)
		return error_set(err, -ENOMEM, "out of memory");
	/* Users pass through to their own jobs, and see nothing of the others. */
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
		r = files_make_dirs(log_dir, system ? 01777 : 0700, err);
	if (!r && !stat(log_dir, &st) && strcmp(log_dir, "/dev/null") && !S_ISDIR(st.st_mode))
		r = error_set(err, -ENOTDIR, "%s: is a file, expected a directory", log_dir);
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

/* A child of one that has died may have it for a moment, until it executes its program. */
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
	/* Whom the system's daemon serves is not for one group to say: see access.h. */
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
		if (e->d_name[0] != '.' && !keep(e->d_name, arg) &&
			!agentproc_locked(runtime_dir, e->d_name))
			agentproc_clear(runtime_dir, e->d_name);
}
