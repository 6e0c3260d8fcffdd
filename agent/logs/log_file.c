/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input is cut where the file is rotated, stamped block by block, and written. While bytes wait for
 * room (waiting), new ones queue up behind them, up to the limit; beyond it they are dropped and
 * counted, until all that waited is on the disk.
 */
#include "agent/logs/log_file.h"

#include "agent/files/file_system.h"
#include "agent/logs/dirs.h"
#include "agent/logs/part_counts.h"
#include "agent/logs/parts.h"
#include "agent/logs/time_index.h"
#include "agent/logs/timestamp.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64 * 1024)
/* A file may exceed max_size by this much before a line is cut in two. */
#define LONG_LINE (1024 * 1024)
#define INDEX_EVERY_US 1000000
/* How often a file that is being written is checked for having been removed or moved. */
#define CHECK_EVERY_US 1000000

struct log_file {
	struct log_file_options opt;
	char *path;
	int fd;		     /* -1 after a failure */
	int64_t size, lines; /* of the present file */
	bool mid;	     /* the worker's last byte was within a line */
	char last;	     /* last byte in the file or in waiting */
	int number;	     /* the number that the live file gets when it is closed */
	int head;	     /* the first part of this attempt */
	uint64_t indexed_us, written_us, checked_us;
	char *waiting;
	size_t waiting_len;
	uint64_t dropped;
};

static bool is_no_room(int error)
{
	return error == -ENOSPC || error == -EDQUOT || error == -ETIMEDOUT;
}

static int64_t count_lines(const char *data, size_t len)
{
	const char *nl;
	int64_t n = 0;

	for (; (nl = memchr(data, '\n', len)); data = nl + 1) {
		len -= nl + 1 - data;
		n++;
	}
	return n;
}

/* Writes until the disk is full. Returns bytes written or a negative errno. */
static ssize_t file_write_now(struct log_file *f, const char *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = log_fs_write(f->fd, data + done, len - done);

		if (n < 0 && is_no_room(n))
			break;
		if (n < 0)
			return n;
		if (f->opt.max_size > 0)
			f->lines += count_lines(data + done, n);
		done += n;
		f->size += n;
		f->last = data[done - 1];
	}
	return done;
}

static int file_fail(struct log_file *f, int r)
{
	f->fd = log_fs_close(f->fd);
	free(f->waiting);
	f->waiting = NULL;
	f->waiting_len = 0;
	f->dropped = 0;
	return r;
}

bool log_file_full(const struct log_file *f)
{
	return f->waiting_len > 0 || f->dropped > 0;
}

/* Keeps bytes for later, or counts them as dropped. input: how many of them the worker wrote, the
 * rest being stamps. */
static void file_wait_or_drop(struct log_file *f, const char *data, size_t len, size_t input)
{
	if (f->dropped == 0 && f->waiting_len + len <= f->opt.backlog) {
		if (!f->waiting)
			f->waiting = malloc(f->opt.backlog);
		if (f->waiting) {
			memcpy(f->waiting + f->waiting_len, data, len);
			f->waiting_len += len;
			f->last = data[len - 1];
			return;
		}
	}
	f->dropped += input < len ? input : len;
}

static int file_put(struct log_file *f, const char *data, size_t len, size_t input)
{
	ssize_t n = 0;

	if (len == 0)
		return 0;
	if (!log_file_full(f))
		n = file_write_now(f, data, len);
	if (n < 0)
		return file_fail(f, n);
	if ((size_t)n < len)
		file_wait_or_drop(f, data + n, len - n, input);
	return 0;
}

/* Adds stamps and writes. */
static int file_put_stamped(struct log_file *f, const char *data, size_t len, uint64_t real_us)
{
	static char block[BLOCK_BYTES];
	char stamp[LOG_STAMP_LEN];
	size_t used = 0, input = 0;
	int r = 0;

	log_stamp_write(stamp, real_us);
	while (len > 0 && r == 0) {
		const char *nl = memchr(data, '\n', len);
		size_t n = nl ? (size_t)(nl + 1 - data) : len;

		if (used + LOG_STAMP_LEN + n > sizeof(block)) {
			r = file_put(f, block, used, input);
			used = input = 0;
			if (n > sizeof(block) - LOG_STAMP_LEN) {
				n = sizeof(block) - LOG_STAMP_LEN;
				nl = NULL;
			}
		}
		if (!f->mid) {
			memcpy(block + used, stamp, LOG_STAMP_LEN);
			used += LOG_STAMP_LEN;
		}
		memcpy(block + used, data, n);
		used += n;
		input += n;
		f->mid = !nl;
		data += n;
		len -= n;
	}
	return r < 0 ? r : file_put(f, block, used, input);
}

/* Ends the index's present second with the time of the last write. */
static void file_close_index(struct log_file *f)
{
	if (f->indexed_us && !log_file_full(f))
		log_index_append(f->path, f->size, f->written_us);
	f->indexed_us = 0;
}

static int file_put_text(struct log_file *f, const char *data, size_t len, uint64_t real_us)
{
	if (f->opt.timestamps)
		return file_put_stamped(f, data, len, real_us);
	if (real_us - f->indexed_us >= INDEX_EVERY_US && !log_file_full(f)) {
		file_close_index(f);
		f->indexed_us = real_us;
		log_index_append(f->path, f->size, real_us);
	}
	f->written_us = real_us;
	f->mid = data[len - 1] != '\n';
	return file_put(f, data, len, len);
}

/* Moves the live file aside as the next part, with its index. */
static int file_close_part(struct log_file *f)
{
	char name[PATH_MAX], idx[PATH_MAX], idx_to[PATH_MAX];
	int r;

	if (snprintf(name, sizeof(name), "%s.%d", f->path, f->number) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	r = log_fs_rename(f->path, name);
	if (r < 0)
		return r;
	if (log_parts_beside(f->path, "idx", 0, idx) &&
		log_parts_beside(f->path, "idx", f->number, idx_to) &&
		log_fs_rename(idx, idx_to) < 0)
		log_fs_unlink(idx);
	f->number++;
	return 0;
}

static void file_undo_close_part(struct log_file *f)
{
	char name[PATH_MAX];

	f->number--;
	snprintf(name, sizeof(name), "%s.%d", f->path, f->number);
	if (log_fs_rename(name, f->path) < 0)
		return;
}

static void file_compress_part(struct log_file *f)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s.%d", f->path, f->number - 1);
	if (f->opt.compress)
		log_compress_add(f->opt.compress, name);
}

/* Keeps the first part of the attempt, and always the newest closed one: it may hold the last lines
 * that a report wants. */
static void file_prune_parts(struct log_file *f)
{
	int keep = f->opt.keep > 1 ? f->opt.keep : 1;

	log_parts_prune(f->path, f->head + 1, f->number - 1 - keep);
}

static int file_open_live(struct log_file *f)
{
	struct stat st;
	int fd = log_dirs_open_append(f->path);

	if (fd < 0)
		return fd;
	log_fs_close(f->fd);
	f->fd = fd;
	f->lines = 0;
	f->size = log_fs_fstat(fd, &st) == 0 ? st.st_size : 0;
	return 0;
}

static void file_report_rotated(struct log_file *f)
{
	int fd;

	if (!f->opt.rotated)
		return;
	fd = log_fs_open(f->path, O_RDONLY, 0);
	if (fd >= 0)
		f->opt.rotated(f->opt.arg, fd);
}

/* When this fails, the old file grows by another max_size before the next try. */
static void file_rotate(struct log_file *f)
{
	int64_t lines = f->lines, size = f->size;

	file_close_index(f);
	if (file_close_part(f) < 0) {
		f->size = 0;
		return;
	}
	if (file_open_live(f) < 0) {
		file_undo_close_part(f);
		f->size = 0;
		return;
	}
	f->mid = false;
	f->last = '\n';
	log_part_counts_add(f->path, f->number - 1, lines, size);
	file_compress_part(f);
	file_prune_parts(f);
	file_report_rotated(f);
}

/* A file that was removed or moved begins again under its name. */
static void file_check_exists(struct log_file *f, uint64_t real_us)
{
	struct stat ours, there;
	int r;

	if (real_us - f->checked_us < CHECK_EVERY_US)
		return;
	f->checked_us = real_us;
	if (log_fs_fstat(f->fd, &ours) < 0)
		return;
	r = log_fs_stat(f->path, &there);
	if (r == -ETIMEDOUT)
		return;
	if (r == 0 && there.st_ino == ours.st_ino && there.st_dev == ours.st_dev) {
		/* The worker or an operator may have truncated it. */
		f->size = ours.st_size;
		return;
	}
	if (file_open_live(f) < 0)
		return;
	f->mid = false;
	f->last = '\n';
	file_report_rotated(f);
	if (f->opt.vanished)
		f->opt.vanished(f->opt.arg, f->path);
}

/* How many of the bytes go to the present file. Rotates first when they belong to the next one. */
static size_t file_cut_at_part(struct log_file *f, const char *data, size_t len)
{
	int64_t left = f->opt.max_size - f->size;
	const char *nl;

	if (f->opt.max_size <= 0 || left >= (int64_t)len || log_file_full(f))
		return len;
	nl = left > 0 ? memrchr(data, '\n', left) : NULL;
	if (!nl && f->size > 0 && (!f->mid || -left >= LONG_LINE)) {
		/* The whole line goes to the next file. */
		file_rotate(f);
		return file_cut_at_part(f, data, len);
	}
	if (!nl)
		nl = memchr(data, '\n', len);
	return nl ? (size_t)(nl + 1 - data) : len;
}

int log_file_write(struct log_file *f, const char *data, size_t len, uint64_t real_us)
{
	if (f->fd >= 0)
		file_check_exists(f, real_us);
	while (len > 0 && f->fd >= 0) {
		size_t n = file_cut_at_part(f, data, len);
		int r = file_put_text(f, data, n, real_us);

		if (r < 0)
			return r;
		data += n;
		len -= n;
	}
	return 0;
}

/* Writes into the file how many bytes were dropped. */
static int file_write_loss_line(struct log_file *f, uint64_t real_us)
{
	char text[160];
	int n = snprintf(text, sizeof(text),
		"elasticd: %llu bytes of this log were lost while the disk was full\n",
		(unsigned long long)f->dropped);

	f->dropped = 0;
	f->mid = false;
	if (f->last != '\n') {
		int r = file_put(f, "\n", 1, 0);

		if (r < 0)
			return r;
	}
	return file_put_text(f, text, n, real_us);
}

int log_file_retry(struct log_file *f, uint64_t real_us)
{
	ssize_t n;

	if (f->fd < 0 || !log_file_full(f))
		return 0;
	n = file_write_now(f, f->waiting, f->waiting_len);
	if (n < 0)
		return file_fail(f, n);
	if (n > 0)
		memmove(f->waiting, f->waiting + n, f->waiting_len - n);
	f->waiting_len -= n;
	if (f->waiting_len > 0)
		return 0;
	free(f->waiting);
	f->waiting = NULL;
	return f->dropped > 0 ? file_write_loss_line(f, real_us) : 0;
}

int log_file_new(const struct log_file_options *opt, struct log_file **ret)
{
	struct log_file *f = calloc(1, sizeof(*f));
	struct log_parts s = { 0 };
	int r;

	if (!f)
		return -ENOMEM;
	*f = (struct log_file){ .opt = *opt, .fd = -1, .number = 1, .last = '\n' };
	f->path = strdup(opt->path);
	r = f->path ? log_parts_list(f->path, &s) : -ENOMEM;
	if (r == 0 && s.n > 0)
		f->number = s.numbers[s.n - 1] + 1;
	log_parts_fini(&s);
	if (r == 0)
		r = file_open_live(f);
	if (r == 0 && f->size > 0) {
		r = file_close_part(f);
		if (r == 0)
			r = file_open_live(f);
	}
	if (r < 0) {
		log_file_free(f);
		return r;
	}
	f->head = f->number;
	*ret = f;
	return 0;
}

struct log_file *log_file_free(struct log_file *f)
{
	if (!f)
		return NULL;
	if (f->fd >= 0 && f->waiting_len > 0)
		file_write_now(f, f->waiting, f->waiting_len);
	if (f->fd >= 0)
		file_close_index(f);
	log_fs_close(f->fd);
	free(f->waiting);
	free(f->path);
	free(f);
	return NULL;
}
