/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/disk_reserve.h"

#include "agent/files/file_system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

struct space {
	struct log_fs_op op;
	off_t reserved;
	bool low;
	char path[];
};

static struct log_fs_op *space_new(int (*fn)(struct log_fs_op *op), const char *path)
{
	size_t n = strlen(path) + 1;
	struct space *s = calloc(1, sizeof(*s) + n);

	if (!s)
		return NULL;
	s->op.fn = fn;
	memcpy(s->path, path, n);
	return &s->op;
}

static int reserve(int fd, off_t from, off_t len)
{
	struct statvfs vfs;

	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, from, len) == 0)
		return 0;
	if (errno == ENOSPC || errno == EDQUOT)
		return -errno;
	/* Not supported, or interrupted: report only a disk that is full already. */
	if (fstatvfs(fd, &vfs) == 0 && vfs.f_blocks > 0 && vfs.f_bavail == 0)
		return -ENOSPC;
	return 0;
}

static int ahead(struct log_fs_op *op)
{
	struct space *s = (struct space *)op;
	_cleanup_close_ int fd = safe_open(AT_FDCWD, s->path, O_WRONLY, 0);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* At least half of the reservation is left. */
	if (st.st_size + LOG_SPACE_BYTES / 2 <= s->reserved)
		return 0;
	r = reserve(fd, st.st_size, LOG_SPACE_BYTES);
	if (r == 0)
		s->reserved = st.st_size + LOG_SPACE_BYTES;
	return r;
}

int log_space_ahead(const char *path, off_t *reserved)
{
	_cleanup_(log_fs_op_freep) struct log_fs_op *op = space_new(ahead, path);
	int r;

	if (!op)
		return -ENOMEM;
	((struct space *)op)->reserved = *reserved;
	r = log_fs_do(&op);
	if (op)
		*reserved = ((struct space *)op)->reserved;
	return r;
}

static int is_low(struct log_fs_op *op)
{
	struct statvfs vfs;

	return statvfs(((struct space *)op)->path, &vfs) == 0 && vfs.f_blocks > 0 &&
	       (unsigned long long)vfs.f_bavail * vfs.f_frsize < LOG_SPACE_LOW;
}

bool log_space_is_low(const char *path)
{
	_cleanup_(log_fs_op_freep) struct log_fs_op *op = space_new(is_low, path);

	return op && log_fs_do(&op) > 0;
}

static int release(struct log_fs_op *op)
{
	_cleanup_close_ int fd = safe_open(AT_FDCWD, ((struct space *)op)->path, O_WRONLY, 0);
	struct stat st;

	/* Truncating a file to its own size frees the blocks reserved behind it. */
	return fd >= 0 && fstat(fd, &st) == 0 && ftruncate(fd, st.st_size) < 0 ? -errno : 0;
}

void log_space_release(const char *path)
{
	struct log_fs_op *op = space_new(release, path);

	if (op)
		log_fs_later(op);
}
