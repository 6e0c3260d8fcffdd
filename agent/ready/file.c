/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/ready/file.h"

#include "agent/files/file_system.h"
#include "agent/files/inotify.h"
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* LOG_WATCH_MODIFY comes in addition where an old file is there: a program may write to it. */
enum { FILE_EVENTS = LOG_WATCH_NAMES | LOG_WATCH_GONE | LOG_WATCH_MUST };

/* Searches in a row: directories may come and go meanwhile, and later events cause more. */
enum { FILE_FINDS = 64, FILE_AGAIN_MS = 5000 /* where the file system has not answered */ };

struct ready_file {
	struct loop *loop;
	char *path;
	bool known;	 /* the first search has succeeded, and found: */
	bool was_there;	 /* whether the file was there, */
	struct stat was; /* and as what */
	struct loop_timer *again;
	struct log_watch *watch; /* of the deepest directory of path that is there */
	size_t dir_len;		 /* of its path */
	bool old;		 /* the file is there, as at first */
	bool failed;		 /* a failure was logged */
	loop_fn fn;
	void *arg;
};

/* A search for the file: where there is none, for the deepest directory of its path. */
struct file_found {
	struct log_fs_op op;
	struct stat st;
	bool there;
	int dir; /* the deepest directory of path that is there */
	size_t dir_len;
	char path[];
};

/* The operator may have named a link, or a directory behind one. */
static int file_find_run(struct log_fs_op *op)
{
	struct file_found *found = (struct file_found *)op;
	size_t n = strlen(found->path);

	found->there = stat(found->path, &found->st) == 0;
	while (n > 1 && found->dir < 0) {
		char *slash = memrchr(found->path, '/', n);

		n = slash > found->path ? (size_t)(slash - found->path) : 1;
		found->path[n] = '\0';
		found->dir = open(n > 1 ? found->path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (found->dir < 0 && errno != ENOENT && errno != ENOTDIR)
			return -errno;
	}
	found->dir_len = n;
	return found->dir < 0 ? -ENOENT : 0;
}

static void file_found_free(struct log_fs_op *op)
{
	close_fd(((struct file_found *)op)->dir);
	free(op);
}

/* ret is freed by file_found_free(). */
static int file_find(const struct ready_file *f, struct file_found **ret)
{
	size_t n = strlen(f->path) + 1;
	struct file_found *found = calloc(1, sizeof(*found) + n);
	struct log_fs_op *op = found ? &found->op : NULL;
	int r;

	if (!found)
		return -ENOMEM;
	memcpy(found->path, f->path, n);
	found->dir = -1;
	op->fn = file_find_run;
	op->drop = file_found_free;
	op->aside = "ready.file";
	r = log_fs_do(&op);
	if (r < 0 && op)
		file_found_free(op);
	if (r == 0)
		*ret = found;
	return r;
}

/* Keeps what the first search that succeeds has found. */
static void file_keep_first(struct ready_file *f, const struct file_found *found)
{
	if (f->known)
		return;
	f->known = true;
	f->was_there = found->there;
	f->was = found->st;
}

/* Whether the file was made, changed or replaced since the first search. */
static bool file_is_new(const struct ready_file *f, const struct file_found *found)
{
	const struct stat *a = &f->was, *b = &found->st;

	return found->there &&
	       !(f->was_there && a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
		       a->st_size == b->st_size && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
		       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec);
}

static void file_on_change(void *arg, int events);

/* Watches the directory that was found. Returns 1 where it does so already, 0, or a
 * negative errno. */
static int file_watch_dir(struct ready_file *f, const struct file_found *found)
{
	int events = FILE_EVENTS | (found->there ? LOG_WATCH_MODIFY : 0);

	if (f->watch && f->dir_len == found->dir_len && f->old == found->there)
		return 1;
	f->watch = log_watch_free(f->watch);
	f->dir_len = found->dir_len;
	f->old = found->there;
	return log_watch_new(f->loop, found->dir, events, file_on_change, f, &f->watch);
}

/* A directory or the file may appear before its parent is watched: searches again after each
 * new watch. */
static void file_check(void *arg)
{
	struct ready_file *f = arg;
	int r = 0;

	for (int i = 0; i < FILE_FINDS && r == 0; i++) {
		struct file_found *found = NULL;

		r = file_find(f, &found);
		if (r == 0)
			file_keep_first(f, found);
		if (r == 0 && file_is_new(f, found)) {
			file_found_free(&found->op);
			f->watch = log_watch_free(f->watch);
			f->fn(f->arg);
			return;
		}
		if (r == 0)
			r = file_watch_dir(f, found);
		if (found)
			file_found_free(&found->op);
	}
	if (r < 0 && !f->failed)
		log_warning("ready.file: %s cannot be waited for: %s", f->path, strerror(-r));
	f->failed |= r < 0;
	if (r == -ETIMEDOUT)
		loop_timer_arm(f->again, FILE_AGAIN_MS);
}

static void file_on_change(void *arg, int events)
{
	struct ready_file *f = arg;

	if (events & LOG_WATCH_GONE) /* the directory may be another one by now */
		f->watch = log_watch_free(f->watch);
	file_check(f);
}

int ready_file_new(
	struct loop *loop, const char *path, loop_fn fn, void *arg, struct ready_file **ret)
{
	struct ready_file *f = calloc(1, sizeof(*f));
	struct file_found *first = NULL;

	if (!f)
		return -ENOMEM;
	*f = (struct ready_file){ .loop = loop, .path = strdup(path), .fn = fn, .arg = arg };
	if (!f->path || loop_timer_new(loop, file_check, f, &f->again) < 0 ||
		loop_defer(loop, file_check, f) < 0) {
		ready_file_free(f);
		return -ENOMEM;
	}
	if (file_find(f, &first) == 0) {
		file_keep_first(f, first);
		file_found_free(&first->op);
	}
	*ret = f;
	return 0;
}

struct ready_file *ready_file_free(struct ready_file *f)
{
	if (!f)
		return NULL;
	loop_cancel(f->loop, file_check, f);
	log_watch_free(f->watch);
	loop_timer_free(f->again);
	free(f->path);
	free(f);
	return NULL;
}
