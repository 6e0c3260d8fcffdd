/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/dirs.h"

#include "agent/files/file_system.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/scan.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

enum { WORKER_MAX = 65536 }; /* bytes of a worker.json */

/* Makes the link under another name and renames it, so that a latest link exists at all times. */
static void make_latest(const char *root, const char *job, const char *run)
{
	char link[PATH_MAX], fresh[PATH_MAX];

	if (snprintf(link, sizeof(link), "%s/%s.latest", root, job) >= (int)sizeof(link) ||
		snprintf(fresh, sizeof(fresh), "%s/.%s.latest", root, run) >= (int)sizeof(fresh))
		return;
	unlink(fresh);
	if (symlink(run, fresh) < 0 || rename(fresh, link) < 0) {
		log_debug("%s: %m", link);
		unlink(fresh);
	}
}

struct make_run {
	struct log_fs_op op;
	char *root, *job, *run, *dir;
	int lock;
	struct error err;
};

static void make_run_drop(struct log_fs_op *op)
{
	struct make_run *m = (struct make_run *)op;

	free(m->root);
	free(m->job);
	free(m->run);
	free(m->dir);
	close_fd(m->lock);
	free(m);
}

static int root_error(struct make_run *m, int code)
{
	struct stat st;

	if (stat(m->root, &st) == 0 && !S_ISDIR(st.st_mode))
		return error_set(&m->err, -ENOTDIR, "%s: is a file, expected a directory", m->root);
	return error_set(&m->err, code, "%s: %s", m->root, strerror(-code));
}

static int make_run(struct log_fs_op *op)
{
	struct make_run *m = (struct make_run *)op;
	_cleanup_free_ char *real = NULL;
	int r = file_mkdir_p(m->root, 0755);

	if (r < 0)
		return root_error(m, r);
	real = realpath(m->root, NULL);
	if (!real)
		return root_error(m, -errno);
	if (asprintf(&m->dir, "%s/%s", real, m->run) < 0) {
		m->dir = NULL;
		return error_set(&m->err, -ENOMEM, "out of memory");
	}
	if (mkdir(m->dir, 0750) < 0 && errno != EEXIST)
		return error_set(&m->err, -errno, "%s: %s", m->dir, strerror(errno));
	make_latest(real, m->job, m->run);
	m->lock = safe_open_dir(AT_FDCWD, m->dir);
	/* Without locks, agent/supervise/prune_logs.c never counts a run as ended. */
	if (m->lock >= 0 && flock(m->lock, LOCK_SH | LOCK_NB) < 0)
		m->lock = close_fd(m->lock);
	return 0;
}

int log_dirs_make_run(const char *root, const char *job, const char *run, char **ret, int *ret_lock,
	struct error *err)
{
	struct make_run *m = calloc(1, sizeof(*m));
	_cleanup_(log_fs_op_freep) struct log_fs_op *op = m ? &m->op : NULL;
	int r;

	if (!m)
		return error_set(err, -ENOMEM, "out of memory");
	op->fn = make_run;
	op->drop = make_run_drop;
	m->lock = -1;
	m->root = strdup(root);
	m->job = strdup(job);
	m->run = strdup(run);
	if (!m->root || !m->job || !m->run)
		return error_set(err, -ENOMEM, "out of memory");
	r = log_fs_do(&op);
	if (r < 0 && op && m->err.code)
		return error_set(err, r, "%s", m->err.text);
	if (r < 0)
		return error_set(err, r, "%s: %s", root, safe_open_text(r));
	*ret_lock = TAKE_FD(m->lock);
	*ret = TAKE_PTR(m->dir);
	return 0;
}

int log_dirs_make(const char *path)
{
	int r = log_fs_mkdir(path, 0750);

	return r == -EEXIST ? 0 : r;
}

int log_dirs_write_worker(const char *dir, const struct log_worker_info *info)
{
	_cleanup_json_ json_t *j = json_pack("{s:s, s:i, s:i, s:i, s:b, s:b}", "role", info->role,
		"index", info->index, "rank", info->rank, "local_rank", info->local_rank, "stamped",
		info->stamped, "merged", info->merged);
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];

	if (!j || !(text = json_dumps(j, 0)))
		return -ENOMEM;
	if (snprintf(path, sizeof(path), "%s/worker.json", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return log_fs_replace(path, text, strlen(text), 0640);
}

void log_dirs_read_worker(const char *dir, int local_rank, struct log_worker_info *ret)
{
	_cleanup_json_ json_t *j = NULL;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	const char *role = "worker";
	size_t len;

	*ret = (struct log_worker_info){
		.index = local_rank, .rank = local_rank, .local_rank = local_rank
	};
	if (snprintf(path, sizeof(path), "%s/worker.json", dir) < (int)sizeof(path) &&
		log_fs_read(path, WORKER_MAX, &text, &len) == 0)
		j = json_loadb(text, len, 0, NULL);
	if (json_is_object(j)) {
		int stamped = 0;

		json_unpack(j, "{s?s, s?i, s?i, s?b}", "role", &role, "index", &ret->index, "rank",
			&ret->rank, "stamped", &stamped);
		ret->stamped = stamped;
	}
	snprintf(ret->role, sizeof(ret->role), "%s", role);
}

int log_dirs_open_append(const char *path)
{
	return log_fs_open(path, O_WRONLY | O_APPEND | O_CREAT, 0640);
}

void log_dirs_move_error_file(const char *path)
{
	char other[PATH_MAX];
	struct stat st;

	if (log_fs_stat(path, &st) < 0)
		return;
	for (int i = 1; i < 1000; i++) {
		int r;

		if (snprintf(other, sizeof(other), "%s.%d", path, i) >= (int)sizeof(other))
			return;
		r = log_fs_stat(other, &st);
		if (r == 0)
			continue;
		if (r == -ENOENT)
			r = log_fs_rename(path, other);
		if (r < 0)
			log_debug("%s: %s", path, strerror(-r));
		return;
	}
}

/* N of "attempt_N", else -1. */
static int attempt_number(const char *name)
{
	uint64_t n;

	if (strncmp(name, "attempt_", 8) != 0 || scan_whole(name + 8, INT_MAX, &n) < 0)
		return -1;
	return (int)n;
}

int log_dirs_last_attempt(const char *run_dir)
{
	_cleanup_strings_ char **names = NULL;
	int last = -1;

	if (log_fs_names(run_dir, &names) < 0)
		return -1;
	for (char **name = names; *name; name++) {
		int n = attempt_number(*name);

		last = n > last ? n : last;
	}
	return last;
}

int log_dirs_next_attempt(const char *run_dir, int after)
{
	_cleanup_strings_ char **names = NULL;
	int next = -1;

	if (log_fs_names(run_dir, &names) < 0)
		return -1;
	for (char **name = names; *name; name++) {
		int n = attempt_number(*name);

		if (n > after && (next < 0 || n < next))
			next = n;
	}
	return next;
}
