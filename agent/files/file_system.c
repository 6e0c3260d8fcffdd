/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/files/file_system.h"

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>

/* Limits for listing a directory and adding up its files. A run's tree has three levels;
 * many files of a worker in it must not delay the agent. */
enum { USAGE_DEPTH = 8, ENTRIES_MAX = 100000, ENTRIES_MS = 500 };

/* One call with all that it needs, since its caller may have gone on. */
struct call {
	struct log_fs_op op;
	const char *path, *to; /* point into text */
	int fd, flags;
	mode_t mode;
	off_t offset;
	size_t len;
	struct stat st;
	char *data;   /* to write, or read; owned */
	char **names; /* owned */
	bool more;    /* names were left out */
	char text[];
};

static struct call *call_of(struct log_fs_op *op)
{
	return (struct call *)op;
}

static void call_drop(struct log_fs_op *op)
{
	struct call *c = call_of(op);

	free(c->data);
	strings_free(c->names);
	free(c);
}

static void call_dropp(struct call **c)
{
	if (*c)
		call_drop(&(*c)->op);
}

#define _cleanup_call_ _cleanup_(call_dropp)

static struct call *call_new(int (*fn)(struct log_fs_op *), const char *path, const char *to)
{
	size_t n = path ? strlen(path) + 1 : 0, m = to ? strlen(to) + 1 : 0;
	struct call *c = calloc(1, sizeof(*c) + n + m);

	if (!c)
		return NULL;
	c->op.fn = fn;
	c->op.drop = call_drop;
	c->fd = -1;
	c->path = path ? memcpy(c->text, path, n) : NULL;
	c->to = to ? memcpy(c->text + n, to, m) : NULL;
	return c;
}

/* Sets *c to NULL when the thread still works on it. */
static int call_do(struct call **c)
{
	struct log_fs_op *op = *c ? &(*c)->op : NULL;
	int r = op ? log_fs_do(&op) : -ENOMEM;

	if (!op)
		*c = NULL;
	return r;
}

static int do_open(struct log_fs_op *op)
{
	struct call *c = call_of(op);

	c->fd = c->flags & O_DIRECTORY ? safe_open_dir(AT_FDCWD, c->path)
				       : safe_open(AT_FDCWD, c->path, c->flags, c->mode);
	return c->fd;
}

static void drop_open(struct log_fs_op *op)
{
	close_fd(call_of(op)->fd);
	call_drop(op);
}

int log_fs_open(const char *path, int flags, mode_t mode)
{
	_cleanup_call_ struct call *c = call_new(do_open, path, NULL);

	if (!c)
		return -ENOMEM;
	c->op.drop = drop_open;
	c->flags = flags;
	c->mode = mode;
	return call_do(&c);
}

int log_fs_open_dir(const char *path)
{
	return log_fs_open(path, O_DIRECTORY, 0);
}

/* How many more entries the listing may read, and until when. */
struct allowance {
	int entries;
	uint64_t until_us;
};

static struct allowance allowance_new(void)
{
	return (struct allowance){ ENTRIES_MAX, monotonic_us() + ENTRIES_MS * 1000 };
}

/* The next entry, or NULL with errno: 0 at the end, EOVERFLOW beyond a limit. */
static const struct dirent *next_entry(DIR *d, struct allowance *left)
{
	const struct dirent *e;

	do {
		errno = 0;
		e = readdir(d);
	} while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")));
	if (!e || (left->entries-- > 0 && monotonic_us() < left->until_us))
		return e;
	errno = EOVERFLOW;
	return NULL;
}

static int do_names(struct log_fs_op *op)
{
	struct call *c = call_of(op);
	struct allowance left = allowance_new();
	_cleanup_close_ int fd = safe_open_dir(AT_FDCWD, c->path);
	_cleanup_dir_ DIR *d = NULL;
	const struct dirent *e;
	size_t n = 0;

	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (!d)
		return -ENOMEM;
	TAKE_FD(fd);
	while ((e = next_entry(d, &left))) {
		char **more;

		more = reallocarray(c->names, n + 2, sizeof(*more));
		if (!more)
			return -ENOMEM;
		c->names = more;
		more[n + 1] = NULL;
		more[n] = strdup(e->d_name);
		if (!more[n++])
			return -ENOMEM;
	}
	c->len = n;
	c->more = errno == EOVERFLOW;
	if (errno && !c->more)
		return -errno;
	if (!c->names)
		c->names = calloc(1, sizeof(*c->names));
	return c->names ? 0 : -ENOMEM;
}

int log_fs_names(const char *path, char ***ret)
{
	_cleanup_call_ struct call *c = call_new(do_names, path, NULL);
	static bool logged;
	int r = call_do(&c);

	if (r < 0)
		return r;
	if (c->more && !logged)
		log_warning("%s: there are too many names in it: only the first %zu are looked at, "
			    "and logs behind them are not found",
			path, c->len);
	logged |= c->more;
	*ret = TAKE_PTR(c->names);
	return 0;
}

static int do_mkdir(struct log_fs_op *op)
{
	return mkdir(call_of(op)->path, call_of(op)->mode) < 0 ? -errno : 0;
}

int log_fs_mkdir(const char *path, mode_t mode)
{
	_cleanup_call_ struct call *c = call_new(do_mkdir, path, NULL);

	if (c)
		c->mode = mode;
	return call_do(&c);
}

static int do_make_root(struct log_fs_op *op)
{
	struct call *c = call_of(op);
	int r = file_mkdir_p(c->path, c->mode);

	return !r && access(c->path, W_OK | X_OK) < 0 ? -errno : r;
}

int log_fs_make_root(const char *path, mode_t mode)
{
	_cleanup_call_ struct call *c = call_new(do_make_root, path, NULL);

	if (c) {
		c->op.aside = "the default log directory";
		c->mode = mode;
	}
	return call_do(&c);
}

static int do_stat(struct log_fs_op *op)
{
	struct call *c = call_of(op);
	int r = c->path ? lstat(c->path, &c->st) : fstat(c->fd, &c->st);

	return r < 0 ? -errno : 0;
}

static int stat_call(const char *path, int fd, struct stat *ret)
{
	_cleanup_call_ struct call *c = call_new(do_stat, path, NULL);
	int r;

	if (c)
		c->fd = fd;
	r = call_do(&c);
	if (r == 0)
		*ret = c->st;
	return r;
}

int log_fs_stat(const char *path, struct stat *ret)
{
	return stat_call(path, -1, ret);
}

int log_fs_fstat(int fd, struct stat *ret)
{
	return stat_call(NULL, fd, ret);
}

static int64_t usage(int dirfd, const char *name, int depth, struct allowance *left)
{
	int fd = safe_open_dir(dirfd, name);
	_cleanup_dir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int64_t sum = 0;

	if (!d)
		close_fd(fd);
	while (d && (e = next_entry(d, left))) {
		struct stat st;

		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		sum += (int64_t)st.st_blocks * 512;
		if (S_ISDIR(st.st_mode) && depth > 0)
			sum += usage(fd, e->d_name, depth - 1, left);
	}
	return sum;
}

static int do_usage(struct log_fs_op *op)
{
	struct call *c = call_of(op);
	struct allowance left = allowance_new();

	c->offset = usage(AT_FDCWD, c->path, USAGE_DEPTH, &left);
	return 0;
}

int log_fs_usage(const char *path, int64_t *ret)
{
	_cleanup_call_ struct call *c = call_new(do_usage, path, NULL);
	int r = call_do(&c);

	if (r == 0)
		*ret = c->offset;
	return r;
}

static int do_rename(struct log_fs_op *op)
{
	return rename(call_of(op)->path, call_of(op)->to) < 0 ? -errno : 0;
}

int log_fs_rename(const char *from, const char *to)
{
	_cleanup_call_ struct call *c = call_new(do_rename, from, to);

	return call_do(&c);
}

static int do_unlink(struct log_fs_op *op)
{
	return unlink(call_of(op)->path) < 0 ? -errno : 0;
}

int log_fs_unlink(const char *path)
{
	_cleanup_call_ struct call *c = call_new(do_unlink, path, NULL);

	return call_do(&c);
}

/* A call with a copy of len bytes at data, or with room for len where data is NULL. */
static struct call *data_call(
	int (*fn)(struct log_fs_op *), const char *path, int fd, const void *data, size_t len)
{
	struct call *c = call_new(fn, path, NULL);

	if (!c)
		return NULL;
	c->fd = fd;
	c->len = len;
	c->data = malloc(len ? len : 1);
	if (!c->data) {
		call_drop(&c->op);
		return NULL;
	}
	if (data)
		memcpy(c->data, data, len);
	return c;
}

static int do_append(struct log_fs_op *op)
{
	struct call *c = call_of(op);
	_cleanup_close_ int fd =
		safe_open(AT_FDCWD, c->path, O_WRONLY | O_APPEND | O_CREAT, c->mode);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	r = file_write_all(fd, c->data, c->len);
	return r < 0 && ftruncate(fd, st.st_size) < 0 ? -errno : r;
}

int log_fs_append(const char *path, const void *data, size_t len, mode_t mode)
{
	_cleanup_call_ struct call *c = data_call(do_append, path, -1, data, len);

	if (c)
		c->mode = mode;
	return call_do(&c);
}

static int do_replace(struct log_fs_op *op)
{
	struct call *c = call_of(op);

	return file_write_atomic(c->path, c->data, c->len, c->mode, false);
}

int log_fs_replace(const char *path, const void *data, size_t len, mode_t mode)
{
	_cleanup_call_ struct call *c = data_call(do_replace, path, -1, data, len);

	if (c)
		c->mode = mode;
	return call_do(&c);
}

static int do_read(struct log_fs_op *op)
{
	struct call *c = call_of(op);
	_cleanup_close_ int fd = safe_open(AT_FDCWD, c->path, O_RDONLY, 0);

	if (fd < 0)
		return fd;
	return fstat(fd, &c->st) < 0 ? -errno : file_read_fd(fd, c->len, &c->data, &c->len);
}

int log_fs_read_stat(
	const char *path, size_t max, char **ret, size_t *ret_len, struct stat *ret_stat)
{
	_cleanup_call_ struct call *c = call_new(do_read, path, NULL);
	int r;

	if (c)
		c->len = max;
	r = call_do(&c);
	if (r < 0)
		return r;
	*ret_len = c->len;
	*ret = TAKE_PTR(c->data);
	*ret_stat = c->st;
	return 0;
}

int log_fs_read(const char *path, size_t max, char **ret, size_t *ret_len)
{
	return log_fs_read_stat(path, max, ret, ret_len, &(struct stat){ 0 });
}

static int do_write(struct log_fs_op *op)
{
	struct call *c = call_of(op);
	ssize_t n;

	do
		n = write(c->fd, c->data, c->len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : (int)n;
}

ssize_t log_fs_write(int fd, const void *data, size_t len)
{
	_cleanup_call_ struct call *c =
		data_call(do_write, NULL, fd, data, len < INT_MAX ? len : INT_MAX);
	bool had = c != NULL;
	int r = call_do(&c);

	return had && !c ? (ssize_t)len : r;
}

static int do_pread(struct log_fs_op *op)
{
	struct call *c = call_of(op);
	ssize_t n;

	do
		n = pread(c->fd, c->data, c->len, c->offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : (int)n;
}

ssize_t log_fs_pread(int fd, void *buf, size_t len, off_t offset)
{
	_cleanup_call_ struct call *c =
		data_call(do_pread, NULL, fd, NULL, len < INT_MAX ? len : INT_MAX);
	int r;

	if (c)
		c->offset = offset;
	r = call_do(&c);
	if (r > 0)
		memcpy(buf, c->data, (size_t)r);
	return r;
}

struct stream {
	int fd;
	off_t at;
};

static ssize_t stream_read(void *arg, char *buf, size_t len)
{
	struct stream *s = arg;
	ssize_t n = log_fs_pread(s->fd, buf, len, s->at);

	s->at += n > 0 ? n : 0;
	return n;
}

static int stream_close(void *arg)
{
	struct stream *s = arg;

	log_fs_close(s->fd);
	free(s);
	return 0;
}

FILE *log_fs_stream(const char *path)
{
	const cookie_io_functions_t io = { .read = stream_read, .close = stream_close };
	_cleanup_log_fd_ int fd = log_fs_open(path, O_RDONLY, 0);
	struct stream *s = fd < 0 ? NULL : calloc(1, sizeof(*s));
	FILE *f;

	if (!s)
		return NULL;
	*s = (struct stream){ .fd = fd };
	f = fopencookie(s, "r", io);
	if (f)
		fd = -1;
	else
		free(s);
	return f;
}

static int do_watch(struct log_fs_op *op)
{
	struct call *c = call_of(op);
	int wd = inotify_add_watch(c->fd, c->path, (uint32_t)c->flags);

	return wd < 0 ? -errno : wd;
}

int log_fs_watch(int inotify_fd, const char *path, uint32_t mask)
{
	_cleanup_call_ struct call *c = call_new(do_watch, path, NULL);

	if (c) {
		c->fd = inotify_fd;
		c->flags = (int)mask;
	}
	return call_do(&c);
}

static int do_close(struct log_fs_op *op)
{
	close(call_of(op)->fd);
	return 0;
}

int log_fs_close(int fd)
{
	struct call *c;

	if (fd < 0)
		return -1;
	/* Closing a pipe never blocks, and its reader waits for that: close it now. */
	c = fcntl(fd, F_GETPIPE_SZ) >= 0 ? NULL : call_new(do_close, NULL, NULL);
	if (!c)
		return close_fd(fd);
	c->fd = fd;
	log_fs_later(&c->op);
	return -1;
}
