/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_rm_rf() holds a descriptor for each level, so that it only ever removes what is below the
 * directory that it opened. Levels deeper than RM_DEPTH are first renamed to the top of the tree,
 * so that a deep tree needs no more descriptors.
 */
#include "common/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#define RM_DEPTH 32
/* A process that keeps making deeper levels cannot keep the removal going for ever. */
#define RM_MOVES 4096

static int read_all(int fd, size_t max_bytes, size_t room, char **ret, size_t *ret_len)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;

	for (;;) {
		char *more = realloc(text, room + 1);
		ssize_t n;

		if (!more)
			return -ENOMEM;
		text = more;
		n = read(fd, text + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += n;
		if (max_bytes && len > max_bytes)
			return -EFBIG;
		if (len == room)
			room *= 2;
	}
	text[len] = '\0';
	*ret = TAKE_PTR(text);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int file_read_fd(int fd, size_t max_bytes, char **ret, size_t *ret_len)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -ENOTSUP;
	if (max_bytes && st.st_size > 0 && (size_t)st.st_size > max_bytes)
		return -EFBIG;
	/* One byte more than the size: the read that finds the end needs no larger buffer. */
	return read_all(
		fd, max_bytes, st.st_size > 0 ? (size_t)st.st_size + 1 : 4096, ret, ret_len);
}

int file_read(const char *path, size_t max_bytes, char **ret, size_t *ret_len)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return fd < 0 ? -errno : file_read_fd(fd, max_bytes, ret, ret_len);
}

int file_write_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= n;
	}
	return 0;
}

/* The length of path's directory part, its slash included; 0 when it has none. */
static size_t dir_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash - path + 1 : 0;
}

static int sync_dir(const char *dir)
{
	_cleanup_close_ int fd = open(*dir ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

int file_write_temporary(char *path, const void *data, size_t len, mode_t mode, bool sync)
{
	_cleanup_close_ int fd = mkostemp(path, O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = file_write_all(fd, data, len);
	if (r == 0 && (fchmod(fd, mode) < 0 || (sync && fsync(fd) < 0)))
		r = -errno;
	/* Some file systems (NFS, quotas) report a full disk only here. */
	if (close(TAKE_FD(fd)) < 0 && r == 0)
		r = -errno;
	if (r < 0)
		unlink(path);
	return r;
}

int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, bool sync)
{
	size_t n = dir_len(path);
	_cleanup_free_ char *name = malloc(n + sizeof(".tmp-XXXXXX"));
	int r;

	if (!name)
		return -ENOMEM;
	memcpy(name, path, n);
	strcpy(name + n, ".tmp-XXXXXX");
	r = file_write_temporary(name, data, len, mode, sync);
	if (r < 0)
		return r;
	if (rename(name, path) < 0) {
		r = -errno;
		unlink(name);
		return r;
	}
	name[n] = '\0';
	return sync ? sync_dir(name) : 0;
}

static int make_dir(const char *path, mode_t mode)
{
	struct stat st;
	int r;

	if (mkdir(path, mode) == 0)
		return 0;
	r = -errno;
	/* For a read-only or forbidden parent mkdir() fails so even if the directory exists. */
	if (r != -EEXIST && r != -EROFS && r != -EACCES)
		return r;
	if (stat(path, &st) < 0)
		return r == -EEXIST ? -errno : r; /* a link to nothing */
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int file_mkdir_p(const char *path, mode_t mode)
{
	_cleanup_free_ char *p = NULL;
	int r = make_dir(path, mode);

	/* The usual case: all directories above it exist. */
	if (r != -ENOENT || !*path)
		return r;
	p = strdup(path);
	if (!p)
		return -ENOMEM;
	for (char *s = p + 1; *s; s++) {
		if (*s != '/' || s[-1] == '/')
			continue;
		*s = '\0';
		r = make_dir(p, mode);
		if (r < 0)
			return r;
		*s = '/';
	}
	return make_dir(path, mode);
}

struct removal {
	int top; /* the directory that levels too deep are moved to */
	dev_t dev;
	int error; /* the first one */
	int moved;
	bool again;
	bool full;	     /* the limits are reached */
	size_t files, bytes; /* that may still be removed */
};

static void removal_failed(struct removal *rm, int error)
{
	if (!rm->error)
		rm->error = -error;
}

static void remove_tree(struct removal *rm, int parent, const char *name, int depth);

static bool is_within_limits(struct removal *rm, int dir, const char *name)
{
	struct stat st;
	size_t bytes;

	if (rm->files == SIZE_MAX)
		return true;
	bytes = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)
			? (size_t)st.st_blocks * 512
			: 0;
	if (!rm->files || bytes > rm->bytes) {
		rm->full = true;
		return false;
	}
	rm->files--;
	rm->bytes -= bytes;
	return true;
}

static void remove_entry(struct removal *rm, int dir, const char *name, int depth)
{
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return;
	if (!is_within_limits(rm, dir, name) || unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return;
	if (errno == EISDIR)
		remove_tree(rm, dir, name, depth);
	else
		removal_failed(rm, errno);
}

/* Takes fd. */
static void remove_entries(struct removal *rm, int fd, int depth)
{
	_cleanup_dir_ DIR *d = fdopendir(fd);
	struct dirent *e;

	if (!d) {
		removal_failed(rm, errno);
		close(fd);
		return;
	}
	do {
		if (depth == 1)
			rm->again = false;
		while (!rm->full && (errno = 0, e = readdir(d)))
			remove_entry(rm, dirfd(d), e->d_name, depth);
		if (!rm->full && errno)
			removal_failed(rm, errno);
		rewinddir(d);
	} while (depth == 1 && rm->again && !rm->full);
}

/* Moves a directory to the top, where the next pass finds it. */
static void move_to_top(struct removal *rm, int parent, const char *name)
{
	char moved[32];
	int r;

	do {
		if (rm->moved == RM_MOVES) {
			removal_failed(rm, ELOOP);
			return;
		}
		snprintf(moved, sizeof(moved), ".rm-%d", rm->moved++);
		r = renameat2(parent, name, rm->top, moved, RENAME_NOREPLACE);
	} while (r < 0 && errno == EEXIST);
	if (r < 0 && errno != ENOENT)
		removal_failed(rm, errno);
	rm->again |= r == 0;
}

static void remove_tree(struct removal *rm, int parent, const char *name, int depth)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (depth > RM_DEPTH) {
		move_to_top(rm, parent, name);
		return;
	}
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		if (errno != ENOENT)
			removal_failed(rm, errno);
		return;
	}
	if (depth == 0) {
		rm->dev = st.st_dev;
		rm->top = fd;
	} else if (st.st_dev != rm->dev) {
		removal_failed(rm, EXDEV);
		return;
	}
	remove_entries(rm, TAKE_FD(fd), depth + 1);
	if (rm->full)
		return;
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		removal_failed(rm, errno);
}

int file_rm_rf(const char *path)
{
	return file_rm_rf_some(path, SIZE_MAX, SIZE_MAX);
}

int file_rm_rf_some(const char *path, size_t files, size_t bytes)
{
	_cleanup_free_ char *copy = strdup(path);
	_cleanup_close_ int parent = -1;
	struct removal rm = { .top = -1, .files = files, .bytes = bytes };
	size_t n = strlen(path);
	const char *name;

	if (!copy)
		return -ENOMEM;
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	name = copy + dir_len(copy);
	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return -EINVAL;
	if (unlink(copy) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	n = dir_len(copy);
	if (n)
		copy[n - 1] = '\0';
	parent = open(n > 1 ? copy : n ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return -errno;
	remove_tree(&rm, parent, name, 0);
	return rm.full ? -EAGAIN : rm.error;
}
