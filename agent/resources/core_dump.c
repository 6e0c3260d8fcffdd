/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/resources/core_dump.h"

#include "agent/files/file_system.h"
#include "agent/resources/private.h"
#include "common/base/file.h"
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * After a worker has ended with a core dump, finds the file where the kernel has put it and, with
 * resources.core_dumps, moves it to the worker's log directory. A thread does that, because these
 * file systems may hang.
 */

#define PATTERN_FILE "/proc/sys/kernel/core_pattern"

bool core_dump_program(const char *pattern, pid_t pid, char *text, size_t size)
{
	if (*pattern != '|')
		return false;
	if (strstr(pattern, "systemd-coredump"))
		snprintf(text, size, "coredumpctl info %d", (int)pid);
	else
		snprintf(text, size, "handed to %.*s", (int)strcspn(pattern + 1, " "), pattern + 1);
	return true;
}

/* Characters of a name that mean something to fnmatch(). */
static bool core_is_special(char c)
{
	return strchr("*?[\\", c) != NULL;
}

int core_dump_name(const char *pattern, bool uses_pid, pid_t pid, char *dir, size_t dir_size,
	char *name, size_t name_size)
{
	const char *slash = strrchr(pattern, '/'), *p = slash ? slash + 1 : pattern;
	size_t n = 0, len = slash ? (size_t)(slash - pattern) : 0;
	bool has_pid = false;

	/* The name of the directory must not depend on the process. */
	if (len >= dir_size || memchr(pattern, '%', len))
		return -ENAMETOOLONG;
	snprintf(dir, dir_size, "%.*s", (int)(slash == pattern ? 1 : len), pattern);
	for (; *p && n + 24 < name_size; p++) {
		if (*p != '%') {
			n += (size_t)snprintf(name + n, name_size - n, "%s%c",
				core_is_special(*p) ? "\\" : "", *p);
			continue;
		}
		if (!*++p)
			break;
		has_pid = has_pid || *p == 'p';
		if (*p == 'p')
			n += (size_t)snprintf(name + n, name_size - n, "%d", (int)pid);
		else
			n += (size_t)snprintf(name + n, name_size - n, "%s", *p == '%' ? "%" : "*");
	}
	if (*p)
		return -ENAMETOOLONG;
	name[n] = '\0';
	if (uses_pid && !has_pid)
		snprintf(name + n, name_size - n, ".%d", (int)pid);
	return 0;
}

/* --- in the thread --- */

struct core_search {
	struct log_fs_op op;
	char dir[PATH_MAX], name[NAME_MAX + 1];
	int64_t since_s;
	char keep[PATH_MAX]; /* attempt_N/<rank>, where it goes; "": it stays where it is */
	int attempt, n_kept, local_rank;
	char found[PATH_MAX]; /* "": there is none */
};

/* Finds the newest file of that name that belongs to the job's user. */
static int core_search_dir(struct core_search *c)
{
	int fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int64_t newest = c->since_s;
	char file[NAME_MAX + 1] = "";
	struct stat st;

	while (d && (e = readdir(d))) {
		if (fnmatch(c->name, e->d_name, 0) != 0 ||
			fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mtime < newest)
			continue;
		newest = st.st_mtime;
		snprintf(file, sizeof(file), "%s", e->d_name);
	}
	if (!*file || snprintf(c->found, sizeof(c->found), "%s/%s", c->dir, file) >=
			      (int)sizeof(c->found))
		c->found[0] = '\0';
	return *c->found ? 0 : -ENOENT;
}

/* Removes this rank's core dumps of attempts before the newest n_kept. */
static void core_remove_old(const struct core_search *c)
{
	const char *end = strrchr(c->keep, '/');
	char path[PATH_MAX];

	while (end && end > c->keep && *--end != '/')
		;
	for (int i = 0; end && i <= c->attempt - c->n_kept; i++)
		if (snprintf(path, sizeof(path), "%.*s/attempt_%d/%d/core", (int)(end - c->keep),
			    c->keep, i, c->local_rank) < (int)sizeof(path))
			unlink(path);
}

static int core_search_run(struct log_fs_op *op)
{
	struct core_search *c = (struct core_search *)op;
	char path[PATH_MAX];
	int r = core_search_dir(c);

	if (r < 0 || !*c->keep)
		return r;
	/* On another file system it stays where it is. */
	if (snprintf(path, sizeof(path), "%s/core", c->keep) < (int)sizeof(path) &&
		rename(c->found, path) == 0)
		memcpy(c->found, path, sizeof(path));
	core_remove_old(c);
	return 0;
}

static void core_search_drop(struct log_fs_op *op)
{
	free(op);
}

/* --- in the agent --- */

static int core_search_place(struct core_search *c, const struct resources *x,
	const struct worker *w, const char *pattern)
{
	const struct spec *spec = supervisor_spec(x->sv);
	const char *cwd = w->role->cwd ? w->role->cwd : spec->cwd;
	_cleanup_free_ char *uses_pid = NULL;
	bool adds = file_read("/proc/sys/kernel/core_uses_pid", 16, &uses_pid, NULL) == 0 &&
		    *uses_pid == '1';
	char dir[PATH_MAX];
	size_t n;
	int r = core_dump_name(pattern, adds, w->pid, dir, sizeof(dir), c->name, sizeof(c->name));

	if (r < 0)
		return r;
	if (*dir != '/' && !cwd && !getcwd(c->dir, sizeof(c->dir)))
		return -errno;
	if (*dir != '/' && cwd)
		snprintf(c->dir, sizeof(c->dir), "%s", cwd);
	else if (*dir == '/')
		snprintf(c->dir, sizeof(c->dir), "%s", dir);
	if (*dir == '/' || !*dir)
		return 0;
	n = strlen(c->dir);
	r = snprintf(c->dir + n, sizeof(c->dir) - n, "/%s", dir);
	return (size_t)r < sizeof(c->dir) - n ? 0 : -ENAMETOOLONG;
}

static void core_dump_search(struct resources *x, struct worker *w, const char *pattern)
{
	const struct spec_core_dumps *dumps = &supervisor_spec(x->sv)->resources.core_dumps;
	const char *dir = logs_worker_dir(supervisor_logs(x->sv), w->local_rank);
	struct core_search *c = calloc(1, sizeof(*c));
	struct log_fs_op *op;
	int r;

	if (!c)
		return;
	c->op = (struct log_fs_op){
		.fn = core_search_run, .drop = core_search_drop, .aside = "the core dump"
	};
	c->since_s = w->started_us / 1000000;
	c->attempt = supervisor_attempt(x->sv);
	c->n_kept = dumps->keep;
	c->local_rank = w->local_rank;
	if (dumps->size != SPEC_UNSET && dir)
		snprintf(c->keep, sizeof(c->keep), "%s", dir);
	if (core_search_place(c, x, w, pattern) < 0) {
		free(c);
		return;
	}
	op = &c->op;
	r = log_fs_do(&op);
	if (r == 0 && op)
		w->exit.core_file = strdup(c->found);
	else if (r < 0)
		log_info("%s: its core dump is not found: %s", worker_name(w), strerror(-r));
	if (op)
		free(c);
}

void core_dump_find(struct resources *x, struct worker *w)
{
	_cleanup_free_ char *pattern = NULL;
	char text[256];

	if (!w->exit.core || file_read(PATTERN_FILE, 4096, &pattern, NULL) < 0)
		return;
	pattern[strcspn(pattern, "\n")] = '\0';
	if (core_dump_program(pattern, w->pid, text, sizeof(text)))
		w->exit.core_file = strdup(text);
	else
		core_dump_search(x, w, pattern);
}

void core_dump_limit(struct resources *x, struct spawn_request *req)
{
	int64_t size = supervisor_spec(x->sv)->resources.core_dumps.size;
	struct rlimit mine;
	size_t n = req->n_limits;

	for (size_t i = 0; i < n; i++)
		if (req->limits[i].resource == RLIMIT_CORE)
			return;
	if (size == SPEC_UNSET || n >= RLIM_NLIMITS || getrlimit(RLIMIT_CORE, &mine) < 0)
		return;
	if (n)
		memcpy(x->limits, req->limits, n * sizeof(x->limits[0]));
	x->limits[n] = (struct spec_rlimit){ RLIMIT_CORE,
		(rlim_t)size < mine.rlim_max ? (rlim_t)size : mine.rlim_max, mine.rlim_max };
	req->limits = x->limits;
	req->n_limits = n + 1;
}
