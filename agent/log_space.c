/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/log_space.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int reserve(int fd, off_t from, off_t len)
{
	struct statvfs vfs;

	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, from, len) == 0)
		return 0;
	if (errno == ENOSPC || errno == EDQUOT)
		return -errno;
	/* Not here, or interrupted: then only whether there is any room at all. */
	if (fstatvfs(fd, &vfs) == 0 && vfs.f_blocks > 0 && vfs.f_bavail == 0)
		return -ENOSPC;
	return 0;
}

int log_space_ahead(const char *path, off_t *reserved)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	/* Half of it is enough to wait for the next time. */
	if (st.st_size + LOG_SPACE_BYTES / 2 <= *reserved)
		return 0;
	r = reserve(fd, st.st_size, LOG_SPACE_BYTES);
	if (r == 0)
		*reserved = st.st_size + LOG_SPACE_BYTES;
	return r;
}

bool log_space_is_low(const char *path)
{
	struct statvfs vfs;

	return statvfs(path, &vfs) == 0 && vfs.f_blocks > 0 &&
	       (unsigned long long)vfs.f_bavail * vfs.f_frsize < LOG_SPACE_LOW;
}

void log_space_release(const char *path)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	struct stat st;

	/* Cutting a file at its size frees what is reserved behind it. */
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, st.st_size) < 0)
		return;
}
