/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/cgroupfs.h"

#include "common/base/cgroup_dir.h"
#include "common/base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 16, NAMES_MAX = 8, TIDY_AGE_S = 60 };

char *cgroupfs_own(void)
{
	_cleanup_free_ char *dir = cgroup_dir_of(getpid(), NULL);
	_cleanup_free_ char *procs = dir ? paths_join(dir, "cgroup.procs") : NULL;

	if (!procs || access(dir, W_OK) < 0 || access(procs, W_OK) < 0)
		return NULL;
	return TAKE_PTR(dir);
}

int cgroupfs_give(const char *path, uid_t uid, struct error *err)
{
	static const char *const files[] = { "cgroup.procs", "cgroup.subtree_control",
		"cgroup.threads" };

	if (uid == geteuid())
		return 0;
	if (chown(path, uid, -1) < 0)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		_cleanup_free_ char *file = paths_join(path, files[i]);

		if (!file)
			return error_set(err, -ENOMEM, "out of memory");
		if (chown(file, uid, -1) < 0 && errno != ENOENT)
			return error_set(err, -errno, "%s: %s", file, strerror(errno));
	}
	return 0;
}

static int remove_at(int dirfd, const char *name, int depth)
{
	_cleanup_dir_ DIR *dir = NULL;
	struct dirent *e;
	int fd;

	if (!unlinkat(dirfd, name, AT_REMOVEDIR) || errno == ENOENT)
		return 0;
	if (depth >= MAX_DEPTH)
		return -errno;
	/* The group has processes or sub-groups; only sub-groups can be removed here. */
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		close_fd(fd);
		return -errno;
	}
	while ((e = readdir(dir)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.' &&
			remove_at(fd, e->d_name, depth + 1) < 0)
			break;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int cgroupfs_remove(const char *path)
{
	return remove_at(AT_FDCWD, path, 0);
}

char *cgroupfs_name(const char *parent, const char *run)
{
	char *path;

	return asprintf(&path, "%s/elasticd.%s", parent, run) < 0 ? NULL : path;
}

/*
 * A group that cgroup.kill was used on cannot be used again: since Linux 6.14 a process that is
 * cloned into it from outside is killed at birth. So the group that an earlier agent left is
 * removed, or, if a process in it does not die, another name is taken.
 */
static int make_fresh(const char *parent, const char *run, char **ret)
{
	for (int n = 0; n < NAMES_MAX; n++) {
		_cleanup_free_ char *path = NULL;
		char suffix[16] = "";

		if (n)
			snprintf(suffix, sizeof(suffix), ".%d", n);
		if (asprintf(&path, "%s/elasticd.%s%s", parent, run, suffix) < 0)
			return -ENOMEM;
		if (cgroupfs_remove(path) < 0)
			continue;
		if (!mkdir(path, 0755)) {
			*ret = TAKE_PTR(path);
			return 0;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EBUSY;
}

int cgroupfs_make(const char *parent, const char *run, uid_t uid, char **ret, struct error *err)
{
	_cleanup_free_ char *path = NULL;
	int r = make_fresh(parent, run, &path);

	if (r < 0)
		return error_set(err, r, "%s/elasticd.%s: %s", parent, run, strerror(-r));
	r = cgroupfs_give(path, uid, err);
	if (r < 0) {
		rmdir(path);
		return r;
	}
	*ret = TAKE_PTR(path);
	return 0;
}

/* Whether anything lives in the group or below it; true where that is not known. */
static bool is_populated(int dirfd, const char *name)
{
	_cleanup_free_ char *file = paths_join(name, "cgroup.events");
	_cleanup_close_ int fd = -1;
	char text[256];
	ssize_t n;

	if (file)
		fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (n <= 0)
		return true;
	text[n] = '\0';
	return !strstr(text, "populated 0");
}

void cgroupfs_tidy(const char *parent, int64_t now_s)
{
	_cleanup_dir_ DIR *dir = opendir(parent);
	struct dirent *e;
	struct stat st;

	while (dir && (e = readdir(dir))) {
		if (e->d_type != DT_DIR || strncmp(e->d_name, "elasticd.", 9))
			continue;
		/* A young group may belong to another daemon whose agent has not joined it yet. */
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			st.st_mtime > now_s - TIDY_AGE_S)
			continue;
		if (!is_populated(dirfd(dir), e->d_name))
			(void)!remove_at(dirfd(dir), e->d_name, 0);
	}
}
