/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/source.h"

#include "agent/files/file_system.h"
#include "agent/logs/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEP_BYTES (64 * 1024)

int log_source_init(struct log_source *s, const char *path)
{
	*s = (struct log_source){ .fd = -1, .path = strdup(path) };
	return s->path ? 0 : -ENOMEM;
}

static void source_close_part(struct log_source *s)
{
	s->zstd = log_zstd_free(s->zstd);
	s->fd = log_fs_close(s->fd);
	log_index_table_fini(&s->index);
	s->offset = 0;
}

void log_source_fini(struct log_source *s)
{
	source_close_part(s);
	free(s->path);
	s->path = NULL;
}

/* The number of the newest closed part, 0 without one. */
static int newest_part(const char *path)
{
	struct log_parts parts;
	int newest;

	if (log_parts_list(path, &parts) < 0)
		return 0;
	newest = parts.n ? parts.numbers[parts.n - 1] : 0;
	log_parts_fini(&parts);
	return newest;
}

/* The number of the first closed part after number, or 0. */
static int next_part(const char *path, int number)
{
	struct log_parts parts;
	int found = 0;

	if (log_parts_list(path, &parts) < 0)
		return 0;
	for (size_t i = 0; i < parts.n && !found; i++)
		if (parts.numbers[i] > number)
			found = parts.numbers[i];
	log_parts_fini(&parts);
	return found;
}

/* The newest part's number is read before and after the open: a rotation in between would give the
 * live file a wrong number. */
static int source_open_live(struct log_source *s)
{
	for (int i = 0; i < 10; i++) {
		int newest = newest_part(s->path);
		int fd = log_fs_open(s->path, O_RDONLY, 0);

		if (fd < 0)
			return fd;
		if (newest_part(s->path) == newest) {
			source_close_part(s);
			s->fd = fd;
			s->number = newest + 1;
			s->live = true;
			return 0;
		}
		log_fs_close(fd);
	}
	return -EAGAIN;
}

int log_source_open(struct log_source *s, int number)
{
	int compressed = 0, fd, r;

	if (number == 0) {
		r = source_open_live(s);
		if (r == 0)
			log_index_load(s->path, 0, &s->index);
		return r;
	}
	fd = log_parts_open(s->path, number, &compressed);
	if (fd < 0)
		return fd;
	source_close_part(s);
	s->fd = fd;
	s->number = number;
	s->live = false;
	if (compressed) {
		r = log_zstd_new(fd, &s->zstd);
		if (r < 0)
			return r;
	}
	log_index_load(s->path, number, &s->index);
	return 0;
}

/* Notes parts that were removed between part after and the present one. */
static void source_note_gap(struct log_source *s, int after)
{
	if (s->number > after + 1)
		s->missing = log_part_counts_missing(s->path, after, s->number);
}

int log_source_open_oldest(struct log_source *s)
{
	int r = log_source_open(s, next_part(s->path, 0));

	if (r == 0)
		source_note_gap(s, 0);
	return r;
}

ssize_t log_source_read(
	struct log_source *s, char *buf, size_t len, int64_t *ret_time_us, int64_t *ret_range_us)
{
	int64_t next = log_index_next(&s->index, s->offset);
	ssize_t n;

	if (s->fd < 0)
		return 0;
	if (next - s->offset < (int64_t)len)
		len = next - s->offset;
	*ret_time_us = log_index_time(&s->index, s->offset, ret_range_us);
	n = s->zstd ? log_zstd_read(s->zstd, buf, len) : log_fs_pread(s->fd, buf, len, s->offset);
	if (n > 0)
		s->offset += n;
	return n;
}

/* True when the open file is still the live one, under its name. *ret_more: it has unread bytes. */
static bool source_live_goes_on(struct log_source *s, bool *ret_more)
{
	struct stat ours, there;

	*ret_more = false;
	if (s->fd < 0)
		return false;
	if (log_fs_fstat(s->fd, &ours) < 0)
		return true;
	if (ours.st_size < s->offset)
		s->offset = 0;
	*ret_more = ours.st_size > s->offset;
	if (*ret_more)
		return true;
	return log_fs_stat(s->path, &there) == 0 && there.st_ino == ours.st_ino &&
	       there.st_dev == ours.st_dev;
}

/* Opens the first existing part after the present one. */
static bool source_open_next_part(struct log_source *s)
{
	/* A part may be removed between the listing and the open: try the next. */
	for (int next = next_part(s->path, s->number); next; next = next_part(s->path, next))
		if (log_source_open(s, next) == 0)
			return true;
	return log_source_open(s, 0) == 0;
}

bool log_source_next(struct log_source *s)
{
	int before = s->number;
	struct stat st;
	bool more;

	if (s->live) {
		if (source_live_goes_on(s, &more))
			return more;
		/* The worker may have written more before the file was moved. */
		if (s->fd >= 0 && log_fs_fstat(s->fd, &st) == 0 && st.st_size > s->offset)
			return true;
	}
	if (!source_open_next_part(s))
		return false;
	source_note_gap(s, before);
	return true;
}

int log_finder_init(struct log_finder *f, const struct log_source *log, int64_t n)
{
	struct log_parts parts;
	int r = log_parts_list(log->path, &parts);

	if (r < 0)
		return r;
	*f = (struct log_finder){ .log = log, .left = n, .fd = -1 };
	f->parts = calloc(parts.n + 1, sizeof(int));
	if (f->parts) {
		f->n_parts = parts.n + 1;
		for (size_t i = 0; i < parts.n; i++)
			f->parts[i + 1] = parts.numbers[parts.n - 1 - i];
	}
	log_parts_fini(&parts);
	return f->parts ? 0 : -ENOMEM;
}

void log_finder_fini(struct log_finder *f)
{
	log_zstd_free(f->zstd);
	log_fs_close(f->fd);
	free(f->parts);
	*f = (struct log_finder){ .fd = -1 };
}

/* Opens the next older part; f->fd is negative when it is gone. */
static int finder_open_next(struct log_finder *f)
{
	int compressed = 0, r;
	struct stat st;
	char last;

	f->number = f->parts[f->at];
	f->offset = f->skip = f->pos = 0;
	f->fd = f->number ? log_parts_open(f->log->path, f->number, &compressed)
			  : log_fs_open(f->log->path, O_RDONLY, 0);
	if (f->fd < 0)
		return f->fd == -ENOENT ? 0 : f->fd;
	if (compressed)
		return log_zstd_new(f->fd, &f->zstd);
	r = log_fs_fstat(f->fd, &st);
	if (r < 0)
		return r;
	f->pos = st.st_size;
	/* A newline at the very end does not begin a line. */
	if (f->pos > 0 && log_fs_pread(f->fd, &last, 1, f->pos - 1) == 1 && last == '\n')
		f->pos--;
	else if (f->pos == 0)
		f->pos = -1;
	return 0;
}

static bool finder_found(struct log_finder *f, int64_t offset)
{
	f->offset = offset;
	return --f->left <= 0;
}

/* Searches the block before pos. Returns 1: found all, 0: call again, 2: this part is done. */
static int finder_step_back(struct log_finder *f)
{
	static char buf[STEP_BYTES];
	int64_t from = f->pos > STEP_BYTES ? f->pos - STEP_BYTES : 0;
	ssize_t n;

	if (f->pos < 0)
		return 2;
	n = log_fs_pread(f->fd, buf, f->pos - from, from);
	if (n < 0)
		return n;
	for (const char *nl; n > 0 && (nl = memrchr(buf, '\n', n)); n = nl - buf)
		if (finder_found(f, from + (nl - buf) + 1))
			return 1;
	f->pos = from;
	if (from > 0)
		return 0;
	return finder_found(f, 0) ? 1 : 2;
}

/* A compressed part can be read forwards only: counts its lines from the start. */
static int finder_step_forward(struct log_finder *f)
{
	static char buf[STEP_BYTES];
	ssize_t n = log_zstd_read(f->zstd, buf, sizeof(buf));

	if (n < 0)
		return n;
	for (const char *p = buf, *nl; (nl = memchr(p, '\n', buf + n - p)); p = nl + 1)
		f->pos++;
	if (n > 0)
		return 0;
	f->offset = 0;
	f->skip = f->pos > f->left ? f->pos - f->left : 0;
	f->left -= f->pos;
	return f->left <= 0 ? 1 : 2;
}

int log_finder_step(struct log_finder *f)
{
	int r;

	if (f->at == f->n_parts)
		return 1;
	if (f->fd < 0) {
		r = finder_open_next(f);
		if (r < 0)
			return r;
	}
	r = f->fd < 0 ? 2 : f->zstd ? finder_step_forward(f) : finder_step_back(f);
	if (r != 2)
		return r;
	f->zstd = log_zstd_free(f->zstd);
	f->fd = log_fs_close(f->fd);
	f->at++;
	return f->at == f->n_parts;
}
