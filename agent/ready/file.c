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

/* A file that is there but old may be written to, or replaced: then its directory's events are
 * those of the files in it, too. */
enum { FILE_EVENTS = LOG_WATCH_NAMES | LOG_WATCH_GONE | LOG_WATCH_MUST };

/* Directories may come and go while this looks; later events make it look again. */
enum { FILE_LOOKS = 64, FILE_AGAIN_MS = 5000 /* where the file system has not answered */ };

struct ready_file {
	struct loop *loop;
	char *path;
	bool known;	 /* the first look has succeeded: */
	bool was_there;	 /* at first, */
	struct stat was; /* as this */
	struct loop_timer *again;
	struct log_watch *watch; /* of the deepest directory of path that is there */
	size_t dir_len;		 /* of its path */
	bool old;		 /* path is there, and not new */
	bool failed;		 /* logged */
	loop_fn fn;
	void *arg;
};

/* One look at path. */
struct look {
	struct log_fs_op op;
	struct stat st;
	bool there;
	int dir; /* the deepest directory */
	size_t dir_len;
	char path[];
};

/* The operator may have named a link, or a directory behind one. */
static int look_now(struct log_fs_op *op)
{
	struct look *l = (struct look *)op;
	size_t n = strlen(l->path);

	l->there = stat(l->path, &l->st) == 0;
	while (n > 1 && l->dir < 0) {
		char *slash = memrchr(l->path, '/', n);

		n = slash > l->path ? (size_t)(slash - l->path) : 1;
		l->path[n] = '\0';
		l->dir = open(n > 1 ? l->path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (l->dir < 0 && errno != ENOENT && errno != ENOTDIR)
			return -errno;
	}
	l->dir_len = n;
	return l->dir < 0 ? -ENOENT : 0;
}

static void look_drop(struct log_fs_op *op)
{
	close_fd(((struct look *)op)->dir);
	free(op);
}

/* ret is freed by look_drop(). */
static int file_look(const struct ready_file *f, struct look **ret)
{
	size_t n = strlen(f->path) + 1;
	struct look *l = calloc(1, sizeof(*l) + n);
	struct log_fs_op *op = l ? &l->op : NULL;
	int r;

	if (!l)
		return -ENOMEM;
	memcpy(l->path, f->path, n);
	l->dir = -1;
	op->fn = look_now;
	op->drop = look_drop;
	op->aside = "ready.file";
	r = log_fs_do(&op);
	if (r < 0 && op)
		look_drop(op);
	if (r == 0)
		*ret = l;
	return r;
}

/* Notes the file as the first look that succeeds finds it. */
static void file_know(struct ready_file *f, const struct look *l)
{
	if (f->known)
		return;
	f->known = true;
	f->was_there = l->there;
	f->was = l->st;
}

/* Whether the file was made, changed or replaced since the first look. */
static bool look_is_new(const struct ready_file *f, const struct look *l)
{
	const struct stat *a = &f->was, *b = &l->st;

	return l->there &&
	       !(f->was_there && a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
		       a->st_size == b->st_size && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
		       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec);
}

static void file_on_change(void *arg, int events);

/* Watches the directory. Returns 1 where that is done already. */
static int file_watch(struct ready_file *f, const struct look *l)
{
	int events = FILE_EVENTS | (l->there ? LOG_WATCH_MODIFY : 0);

	if (f->watch && f->dir_len == l->dir_len && f->old == l->there)
		return 1;
	f->watch = log_watch_free(f->watch);
	f->dir_len = l->dir_len;
	f->old = l->there;
	return log_watch_new(f->loop, l->dir, events, file_on_change, f, &f->watch);
}

/* A directory or the file may appear before the watch of its parent stands: looks again after each
 * new watch. */
static void file_check(void *arg)
{
	struct ready_file *f = arg;
	int r = 0;

	for (int i = 0; i < FILE_LOOKS && r == 0; i++) {
		struct look *l = NULL;

		r = file_look(f, &l);
		if (r == 0)
			file_know(f, l);
		if (r == 0 && look_is_new(f, l)) {
			look_drop(&l->op);
			f->watch = log_watch_free(f->watch);
			f->fn(f->arg);
			return;
		}
		if (r == 0)
			r = file_watch(f, l);
		if (l)
			look_drop(&l->op);
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
	struct look *first = NULL;

	if (!f)
		return -ENOMEM;
	*f = (struct ready_file){ .loop = loop, .path = strdup(path), .fn = fn, .arg = arg };
	if (!f->path || loop_timer_new(loop, file_check, f, &f->again) < 0 ||
		loop_defer(loop, file_check, f) < 0) {
		ready_file_free(f);
		return -ENOMEM;
	}
	if (file_look(f, &first) == 0) {
		file_know(f, first);
		look_drop(&first->op);
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
