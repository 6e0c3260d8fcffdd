/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/safe_open.h"

#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SAFE_FLAGS (O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC)

/* Opens the next directory of a path, or returns a negative errno. With O_DIRECTORY a link fails
 * with ENOTDIR, too. */
static int open_step(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd;
	struct stat st;

	if (r == -ENOTDIR && !fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode))
		return -ELOOP;
	return r;
}

/* As safe_open(), step by step, for kernels without openat2() and containers that refuse it. */
static int open_by_steps(int dirfd, const char *path, int flags, mode_t mode)
{
	_cleanup_close_ int dir = -1;
	bool below = *path != '/';
	char name[NAME_MAX + 1];

	if (*path == '/') {
		dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0)
			return -errno;
		dirfd = dir;
	}
	for (;;) {
		size_t n = strcspn(path += strspn(path, "/"), "/");
		const char *rest = path + n + strspn(path + n, "/");
		int fd;

		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, n);
		name[n] = '\0';
		if (below && !strcmp(name, ".."))
			return -EXDEV;
		if (!*rest) {
			fd = openat(dirfd, n ? name : ".", flags, mode);
			return fd < 0 ? -errno : fd;
		}
		fd = open_step(dirfd, name);
		if (fd < 0)
			return fd;
		close_fd(dir);
		dirfd = dir = fd;
		path = rest;
	}
}

static int open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | SAFE_FLAGS),
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_NO_SYMLINKS | (*path == '/' ? 0 : RESOLVE_BENEATH),
	};
	long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return open_by_steps(dirfd, path, flags | SAFE_FLAGS, mode);
	return fd < 0 ? -errno : (int)fd;
}

int safe_open(int dirfd, const char *path, int flags, mode_t mode)
{
	_cleanup_close_ int fd = open_beneath(dirfd, path, flags, mode);
	struct stat st;

	/* A FIFO without a reader, a socket. */
	if (fd == -ENXIO || fd == -ENODEV)
		return -ENOTSUP;
	if (fd < 0)
		return TAKE_FD(fd);
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -ENOTSUP;
	/* O_NONBLOCK was only for open(): a worker may get this descriptor as its stdout. */
	if (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags & (O_APPEND | O_DIRECT)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int safe_open_dir(int dirfd, const char *path)
{
	return open_beneath(dirfd, path, O_RDONLY | O_DIRECTORY, 0);
}

const char *safe_open_text(int r)
{
	switch (r) {
	case -ELOOP:
		return "is a symbolic link, expected a regular file";
	case -EISDIR:
		return "is a directory, expected a regular file";
	case -ENOTSUP:
		return "expected a regular file";
	case -ETIMEDOUT:
		return "the file system does not answer";
	default:
		return strerror(-r);
	}
}
