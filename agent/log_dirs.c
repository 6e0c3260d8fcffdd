/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/log_dirs.h"

#include "common/log.h"
#include "common/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Makes path and its parents. */
static int make_parents(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	for (char *p = copy + 1;; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return -errno;
		*p = c;
		if (c == '\0')
			return 0;
	}
}

/* A link of another name takes the place of the old one, so that there is always one. */
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

static int root_error(struct error *err, int code, const char *root)
{
	struct stat st;

	if (stat(root, &st) == 0 && !S_ISDIR(st.st_mode))
		return error_set(err, -ENOTDIR, "%s: is a file, expected a directory", root);
	return error_set(err, code, "%s: %s", root, strerror(-code));
}

int log_dirs_make_run(
	const char *root, const char *job, const char *run, char **ret, struct error *err)
{
	_cleanup_free_ char *real = NULL, *dir = NULL;
	struct stat st;
	int r = make_parents(root);

	if (r < 0)
		return root_error(err, r, root);
	if (stat(root, &st) < 0)
		return root_error(err, -errno, root);
	if (!S_ISDIR(st.st_mode))
		return root_error(err, -ENOTDIR, root);
	real = realpath(root, NULL);
	if (!real)
		return root_error(err, -errno, root);
	if (asprintf(&dir, "%s/%s", real, run) < 0) {
		dir = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	r = log_dirs_make(dir);
	if (r < 0)
		return error_set(err, r, "%s: %s", dir, strerror(-r));
	make_latest(real, job, run);
	*ret = TAKE_PTR(dir);
	return 0;
}

int log_dirs_make(const char *path)
{
	return mkdir(path, 0750) < 0 && errno != EEXIST ? -errno : 0;
}

static int write_text(const char *path, const char *text)
{
	size_t left = strlen(text);
	int r = 0, fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);

	if (fd < 0)
		return -errno;
	while (left > 0) {
		ssize_t n = write(fd, text, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			r = -errno;
			break;
		}
		text += n;
		left -= n;
	}
	close(fd);
	return r;
}

int log_dirs_write_task(const char *dir, const struct log_task_info *info)
{
	_cleanup_json_ json_t *j = json_pack("{s:s, s:i, s:i, s:i, s:b, s:b}", "role", info->role,
		"index", info->index, "rank", info->rank, "local_rank", info->local_rank, "stamped",
		info->stamped, "merged", info->merged);
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], fresh[PATH_MAX];
	int r;

	if (!j || !(text = json_dumps(j, 0)))
		return -ENOMEM;
	if (snprintf(path, sizeof(path), "%s/task.json", dir) >= (int)sizeof(path) ||
		snprintf(fresh, sizeof(fresh), "%s/.task.json", dir) >= (int)sizeof(fresh))
		return -ENAMETOOLONG;
	r = write_text(fresh, text);
	if (r == 0 && rename(fresh, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(fresh);
	return r;
}

void log_dirs_read_task(const char *dir, int local_rank, struct log_task_info *ret)
{
	_cleanup_json_ json_t *j = NULL;
	char path[PATH_MAX];
	const char *role = "worker";

	*ret = (struct log_task_info){
		.index = local_rank, .rank = local_rank, .local_rank = local_rank
	};
	if (snprintf(path, sizeof(path), "%s/task.json", dir) < (int)sizeof(path))
		j = json_load_file(path, 0, NULL);
	if (json_is_object(j)) {
		int stamped = 0, merged = 0;

		json_unpack(j, "{s?s, s?i, s?i, s?b, s?b}", "role", &role, "index", &ret->index,
			"rank", &ret->rank, "stamped", &stamped, "merged", &merged);
		ret->stamped = stamped;
		ret->merged = merged;
	}
	snprintf(ret->role, sizeof(ret->role), "%s", role);
}

int log_dirs_open_append(const char *path)
{
	int fd =
		open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0640);

	return fd < 0 ? -errno : fd;
}

void log_dirs_keep_error_file(const char *path)
{
	char other[PATH_MAX];

	if (access(path, F_OK) < 0)
		return;
	for (int i = 1; i < 1000; i++) {
		if (snprintf(other, sizeof(other), "%s.%d", path, i) >= (int)sizeof(other))
			return;
		if (access(other, F_OK) < 0) {
			if (rename(path, other) < 0)
				log_debug("%s: %m", path);
			return;
		}
	}
}

int log_dirs_attempt_number(const char *name)
{
	uint64_t n;

	if (strncmp(name, "attempt_", 8) != 0 || scan_whole(name + 8, INT_MAX, &n) < 0)
		return -1;
	return (int)n;
}

int log_dirs_last_attempt(const char *run_dir)
{
	_cleanup_dir_ DIR *d = opendir(run_dir);
	struct dirent *e;
	int last = -1;

	while (d && (e = readdir(d))) {
		int n = log_dirs_attempt_number(e->d_name);

		if (n > last)
			last = n;
	}
	return last;
}
