/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/progress.h"

#include "agent/files/file_system.h"
#include "common/base/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
	PROGRESS_AT_ONCE = 16 << 20, /* bytes that one check reads of a file: the newest */
	PROGRESS_ENTRIES = 10000,    /* in a directory and below, per check */
	PROGRESS_DEPTH = 4,	     /* levels below the watched directory */
};

static bool progress_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* For a directory: finds the newest change below it, and the sum of the sizes. */
static void progress_walk(int dir_fd, int depth, int *left, struct stat *sum)
{
	_cleanup_dir_ DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
	const struct dirent *e;

	if (!dir) {
		close_fd(dir_fd);
		return;
	}
	while (*left > 0 && (e = readdir(dir))) {
		struct stat st;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		(*left)--;
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		sum->st_size += st.st_size;
		if (st.st_mtim.tv_sec > sum->st_mtim.tv_sec ||
			(st.st_mtim.tv_sec == sum->st_mtim.tv_sec &&
				st.st_mtim.tv_nsec > sum->st_mtim.tv_nsec))
			sum->st_mtim = st.st_mtim;
		if (S_ISDIR(st.st_mode) && depth > 0)
			progress_walk(openat(dirfd(dir), e->d_name,
					      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
				depth - 1, left, sum);
	}
}

struct progress_op {
	struct log_fs_op op;
	struct stat st;
	char path[];
};

/* The operator may have named a link, or a directory behind one. */
static int progress_walk_all(struct log_fs_op *op)
{
	struct progress_op *p = (struct progress_op *)op;
	int left = PROGRESS_ENTRIES;

	if (stat(p->path, &p->st) < 0)
		return -errno;
	if (S_ISDIR(p->st.st_mode))
		progress_walk(open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), PROGRESS_DEPTH,
			&left, &p->st);
	return 0;
}

static int progress_stat(const char *path, bool aside, struct stat *ret)
{
	size_t n = strlen(path) + 1;
	struct progress_op *p = calloc(1, sizeof(*p) + n);
	_cleanup_(log_fs_op_freep) struct log_fs_op *op = p ? &p->op : NULL;
	int r;

	if (!p)
		return -ENOMEM;
	memcpy(p->path, path, n);
	op->fn = progress_walk_all;
	op->aside = aside ? "heartbeat.progress_file" : NULL;
	r = log_fs_do(&op);
	if (r == 0)
		*ret = p->st;
	return r;
}

/* True when the file was replaced, has grown, or was written to since the last check. */
static bool progress_changed(struct progress_file *f)
{
	struct stat st;

	if (!f->path || progress_stat(f->path, f->aside, &st) < 0)
		return false;
	if (f->seen && progress_same(&st, &f->last))
		return false;
	if (!f->seen || st.st_ino != f->last.st_ino || st.st_size < f->offset) {
		f->offset = 0;
		f->len = 0;
	}
	f->last = st;
	f->seen = true;
	return true;
}

static void progress_number(struct progress *p, const char *text, size_t len)
{
	_cleanup_free_ char *digits = strndup(text, len);
	uint64_t number;

	if (!digits || scan_whole(digits, INT64_MAX, &number) < 0)
		return;
	if (p->first_number < 0)
		p->first_number = (int64_t)number;
	p->last_number = (int64_t)number;
}

static void progress_line(struct progress *p, struct progress_file *f)
{
	regmatch_t found[2] = { { .rm_so = -1 }, { .rm_so = -1 } };

	f->line[f->len] = '\0';
	f->len = 0;
	if (regexec(p->pattern, f->line, 2, found, 0) != 0)
		return;
	if (found[1].rm_so >= 0)
		progress_number(
			p, f->line + found[1].rm_so, (size_t)(found[1].rm_eo - found[1].rm_so));
	p->matches++;
}

/* Counts matching lines in n new bytes; a NUL hides the rest of its line. */
static void progress_lines(struct progress *p, struct progress_file *f, const char *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (data[i] == '\n' || data[i] == '\r')
			progress_line(p, f);
		else if (f->len < sizeof(f->line) - 1)
			f->line[f->len++] = data[i];
	}
}

static void progress_read(struct progress *p, struct progress_file *f)
{
	_cleanup_log_fd_ int fd = log_fs_open(f->path, O_RDONLY, 0);
	char data[16384];
	off_t end = f->last.st_size;
	ssize_t n;

	if (fd < 0)
		return;
	if (end > f->offset + PROGRESS_AT_ONCE) {
		f->offset = end - PROGRESS_AT_ONCE;
		f->len = 0;
	}
	while (f->offset < end && (n = log_fs_pread(fd, data, sizeof(data), f->offset)) > 0) {
		f->offset += n;
		progress_lines(p, f, data, (size_t)n);
	}
}

void progress_check(struct progress *p)
{
	for (int i = 0; i < 2; i++) {
		bool empty = !p->logs[i].seen || !p->logs[i].last.st_size;

		/* A new, empty file is no output. */
		if (!progress_changed(&p->logs[i]) || (empty && !p->logs[i].last.st_size))
			continue;
		p->log_changes++;
		if (p->pattern)
			progress_read(p, &p->logs[i]);
	}
	p->file_changes += progress_changed(&p->file);
}

int progress_init(struct progress *p, const char *const logs[2], const char *file,
	const regex_t *pattern, bool fresh)
{
	*p = (struct progress){ .pattern = pattern, .first_number = -1, .last_number = -1 };
	for (int i = 0; i < 2; i++)
		p->logs[i].path = logs[i] ? strdup(logs[i]) : NULL;
	p->file.path = file ? strdup(file) : NULL;
	p->file.aside = true;
	if ((logs[0] && !p->logs[0].path) || (logs[1] && !p->logs[1].path) ||
		(file && !p->file.path)) {
		progress_fini(p);
		return -ENOMEM;
	}
	/* Changes by an earlier process do not count for this one. */
	(void)progress_changed(&p->file);
	for (int i = 0; i < 2 && !fresh; i++)
		if (progress_changed(&p->logs[i]))
			p->logs[i].offset = p->logs[i].last.st_size;
	return 0;
}

void progress_fini(struct progress *p)
{
	free(p->logs[0].path);
	free(p->logs[1].path);
	free(p->file.path);
	*p = (struct progress){ 0 };
}
