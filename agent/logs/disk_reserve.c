/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/disk_reserve.h"

#include "agent/files/file_system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

struct disk_op {
	struct log_fs_op op;
	off_t reserved;
	char path[];
};

static struct log_fs_op *disk_op_new(int (*fn)(struct log_fs_op *op), const char *path)
{
	size_t n = strlen(path) + 1;
	struct disk_op *s = calloc(1, sizeof(*s) + n);

	if (!s)
		return NULL;
	s->op.fn = fn;
	memcpy(s->path, path, n);
	return &s->op;
}

static int reserve_blocks(int fd, off_t from, off_t len)
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

static int do_reserve(struct log_fs_op *op)
{
	struct disk_op *s = (struct disk_op *)op;
	_cleanup_close_ int fd = safe_open(AT_FDCWD, s->path, O_WRONLY, 0);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* At least half of the reservation is left. */
	if (st.st_size + LOG_DISK_RESERVE_BYTES / 2 <= s->reserved)
		return 0;
	r = reserve_blocks(fd, st.st_size, LOG_DISK_RESERVE_BYTES);
	if (r == 0)
		s->reserved = st.st_size + LOG_DISK_RESERVE_BYTES;
	return r;
}

int log_disk_reserve(const char *path, off_t *reserved)
{
	_cleanup_(log_fs_op_freep) struct log_fs_op *op = disk_op_new(do_reserve, path);
	int r;

	if (!op)
		return -ENOMEM;
	((struct disk_op *)op)->reserved = *reserved;
	r = log_fs_do(&op);
	if (op)
		*reserved = ((struct disk_op *)op)->reserved;
	return r;
}

static int do_is_low(struct log_fs_op *op)
{
	struct statvfs vfs;

	return statvfs(((struct disk_op *)op)->path, &vfs) == 0 && vfs.f_blocks > 0 &&
	       (unsigned long long)vfs.f_bavail * vfs.f_frsize < LOG_DISK_LOW_BYTES;
}

bool log_disk_is_low(const char *path)
{
	_cleanup_(log_fs_op_freep) struct log_fs_op *op = disk_op_new(do_is_low, path);

	return op && log_fs_do(&op) > 0;
}

static int do_release(struct log_fs_op *op)
{
	_cleanup_close_ int fd = safe_open(AT_FDCWD, ((struct disk_op *)op)->path, O_WRONLY, 0);
	struct stat st;

	/* Truncating a file to its own size frees the blocks reserved behind it. */
	return fd >= 0 && fstat(fd, &st) == 0 && ftruncate(fd, st.st_size) < 0 ? -errno : 0;
}

void log_disk_release(const char *path)
{
	struct log_fs_op *op = disk_op_new(do_release, path);

	if (op)
		log_fs_later(op);
}
