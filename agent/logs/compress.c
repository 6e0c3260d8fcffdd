/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/compress.h"

#include "agent/files/file_system.h"
#include "agent/logs/zstd.h"
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MAX_CHILDREN 2

/* The compression of one file. */
struct compression {
	struct compression *next;
	pid_t pid; /* 0: waits for its turn */
	char path[];
};

struct log_compress {
	struct compression *queue; /* in order */
	int running;
};

int log_compress_new(struct log_compress **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

/* The last step of a compression, run by the thread for the logs' file system. */
struct replace_op {
	struct log_fs_op op;
	bool ok;
	char path[];
};

/* Puts the compressed file in place of the plain one, unless that was removed meanwhile. */
static int replace_plain_file(struct log_fs_op *op)
{
	const struct replace_op *f = (struct replace_op *)op;
	char from[PATH_MAX], to[PATH_MAX];
	struct stat st;

	snprintf(from, sizeof(from), "%s.zst.tmp", f->path);
	snprintf(to, sizeof(to), "%s.zst", f->path);
	if (f->ok && stat(f->path, &st) == 0) {
		/* Keep the time of the last write: viewer.c skips parts by it. */
		const struct timespec times[2] = { st.st_atim, st.st_mtim };

		if (utimensat(AT_FDCWD, from, times, 0) == 0 && rename(from, to) == 0)
			return unlink(f->path);
	}
	return unlink(from);
}

static void finish_compression(const struct compression *j, bool ok)
{
	size_t n = strlen(j->path) + 1;
	struct replace_op *f = calloc(1, sizeof(*f) + n);

	if (!f)
		return;
	f->op.fn = replace_plain_file;
	f->ok = ok;
	memcpy(f->path, j->path, n);
	log_fs_later(&f->op);
}

/* In the child: uses the agent's memory, but none of its descriptors. */
static void run_child(const char *path, pid_t parent)
{
	char to[PATH_MAX];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	signals_reset();
	prctl(PR_SET_NAME, "log-compress");
	close_range(0, ~0U, 0);
	setpriority(PRIO_PROCESS, 0, 19);
	/* IOPRIO_WHO_PROCESS, class idle */
	syscall(SYS_ioprio_set, 1, 0, 3 << 13);
	snprintf(to, sizeof(to), "%s.zst.tmp", path);
	_exit(log_zstd_compress(path, to) < 0);
}

static void start_children(struct log_compress *c)
{
	pid_t self = getpid();

	for (struct compression *j = c->queue; j && c->running < MAX_CHILDREN; j = j->next) {
		if (j->pid)
			continue;
		j->pid = fork();
		if (j->pid == 0)
			run_child(j->path, self);
		if (j->pid < 0) {
			/* Tried again when the next file is closed. */
			log_debug("fork: %m");
			j->pid = 0;
			return;
		}
		c->running++;
	}
}

void log_compress_add(struct log_compress *c, const char *path)
{
	size_t n = strlen(path) + 1;
	struct compression *j, **p;

	if (!HAVE_ZSTD || n + 16 > PATH_MAX)
		return;
	j = malloc(sizeof(*j) + n);
	if (!j)
		return;
	j->next = NULL;
	j->pid = 0;
	memcpy(j->path, path, n);
	for (p = &c->queue; *p; p = &(*p)->next)
		;
	*p = j;
	start_children(c);
}

size_t log_compress_pids(const struct log_compress *c, pid_t *pids, size_t max)
{
	size_t n = 0;

	for (const struct compression *j = c->queue; j && n < max; j = j->next)
		if (j->pid)
			pids[n++] = j->pid;
	return n;
}

bool log_compress_exited(struct log_compress *c, pid_t pid, bool ok)
{
	for (struct compression **p = &c->queue; pid > 0 && *p; p = &(*p)->next) {
		struct compression *j = *p;

		if (j->pid != pid)
			continue;
		*p = j->next;
		c->running--;
		finish_compression(j, ok);
		free(j);
		start_children(c);
		return true;
	}
	return false;
}

struct log_compress *log_compress_free(struct log_compress *c)
{
	while (c && c->queue) {
		struct compression *j = c->queue;

		c->queue = j->next;
		if (j->pid) {
			kill(j->pid, SIGKILL);
			while (waitpid(j->pid, NULL, 0) < 0 && errno == EINTR)
				;
			finish_compression(j, false);
		}
		free(j);
	}
	free(c);
	return NULL;
}
