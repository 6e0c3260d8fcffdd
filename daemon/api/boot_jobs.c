/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/boot_jobs.h"

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/proc.h"
#include "common/base/safe_open.h"
#include "common/base/signals.h"
#include "daemon/jobs/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

enum { BOOT_ID_MAX = 64 };

struct boot_jobs {
	const struct daemon *daemon;
	struct child_watch *client;
};

/* The kernel's name of this boot. */
static int boot_read(const char *path, char id[BOOT_ID_MAX])
{
	_cleanup_close_ int fd = safe_open(AT_FDCWD, path, O_RDONLY, 0);
	ssize_t n = fd < 0 ? fd : read(fd, id, BOOT_ID_MAX - 1);

	id[n > 0 ? n : 0] = '\0';
	return n > 0 ? 0 : -ENOENT;
}

/* Whether no elasticd of this boot has tried to start all jobs. A container has the name of its
 * host's boot, and its jobs ended with it. */
static bool boot_is_new(const struct daemon *d)
{
	_cleanup_free_ char *path = paths_join(d->paths.state_dir, "boot");
	char now[BOOT_ID_MAX], last[BOOT_ID_MAX];

	if (!path || boot_read(BOOT_ID, now) < 0)
		return false;
	return d->options.first_process || boot_read(path, last) < 0 || strcmp(now, last) != 0;
}

/* The next elasticd of this boot starts none. */
static void boot_note(const struct daemon *d)
{
	_cleanup_free_ char *path = paths_join(d->paths.state_dir, "boot");
	char now[BOOT_ID_MAX];
	int r = path ? boot_read(BOOT_ID, now) : -ENOMEM;

	if (!r)
		r = file_write_atomic(path, now, strlen(now), 0600, true);
	if (r < 0)
		log_warning("%s: %s", path ? path : "boot", strerror(-r));
}

static void on_client_end(void *arg, int code, int status)
{
	struct boot_jobs *b = arg;

	b->client = child_watch_free(b->client);
	if (code == CLD_EXITED && !b->daemon->leaving)
		boot_note(b->daemon);
	if (code != CLD_EXITED || status)
		log_warning("not all jobs of jobs.d were started: elasticctl update has said why");
}

/* Its messages go where elasticd's go. */
static void __attribute__((noreturn))
run_client(const struct daemon *d, const char *program, const char *dir)
{
	_cleanup_free_ char *socket = NULL, *directory = NULL;

	signals_reset();
	close_range(3, ~0U, 0);
	if (asprintf(&socket, "--socket=%s", d->paths.socket) < 0 ||
		asprintf(&directory, "--dir=%s", dir) < 0)
		_exit(1);
	execl(program, "elasticctl", "update", "--boot", socket, directory, (char *)NULL);
	_exit(1);
}

static int start_client(struct boot_jobs *b, const struct daemon *d, const char *dir)
{
	_cleanup_free_ char *program = paths_client_program();
	int pidfd, r;
	pid_t pid;

	if (!program)
		return -ENOENT;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		run_client(d, program, dir);
	pidfd = proc_pidfd(pid);
	r = pidfd < 0 ? pidfd : child_watch_new(d->loop, pidfd, on_client_end, b, &b->client);
	if (r < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return r;
}

struct boot_jobs *boot_jobs_begin(struct daemon *d)
{
	_cleanup_free_ char *dir = paths_jobs_dir(&d->paths);
	struct boot_jobs *b = NULL;
	int r;

	if (!dir || !boot_is_new(d))
		return NULL;
	if (access(dir, F_OK) < 0) {
		boot_note(d);
		return NULL;
	}
	b = calloc(1, sizeof(*b));
	if (b)
		b->daemon = d;
	r = b ? start_client(b, d, dir) : -ENOMEM;
	if (r == 0)
		return b;
	log_error("%s: its jobs are not started: elasticctl: %s", dir, strerror(-r));
	free(b);
	return NULL;
}

struct boot_jobs *boot_jobs_free(struct boot_jobs *b)
{
	if (b)
		child_watch_free(b->client);
	free(b);
	return NULL;
}
