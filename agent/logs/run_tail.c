/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of logs.h that read the end of a worker's logs, for reports and status. */
#include "agent/files/file_system.h"
#include "agent/logs/file_tail.h"
#include "agent/logs/parts.h"
#include "agent/logs/private.h"

#include <stdlib.h>
#include <string.h>

/* Limits of a report: bytes of a line, and bytes read of a file. */
#define TAIL_LINE_BYTES 4096
#define TAIL_BYTES (256 * 1024)

/* When the live file is short, the part closed before it may hold the wanted lines. */
static json_t *tail_of_part(const struct log_stream *s, bool stamped, int n)
{
	struct log_parts parts;
	_cleanup_log_fd_ int fd = -1;
	int compressed = 0;

	if (log_parts_list(s->path, &parts) < 0)
		return NULL;
	if (parts.n > 0)
		fd = log_parts_open(s->path, parts.numbers[parts.n - 1], &compressed);
	log_parts_fini(&parts);
	if (fd < 0 || compressed)
		return NULL;
	return log_tail_lines(fd, stamped, n, TAIL_LINE_BYTES, TAIL_BYTES);
}

static json_t *tail_of_file(const struct log_stream *s, bool stamped, int n)
{
	_cleanup_log_fd_ int fd = log_fs_open(s->path, O_RDONLY, 0);
	_cleanup_json_ json_t *lines = NULL;
	json_t *more;

	if (fd >= 0)
		lines = log_tail_lines(fd, stamped, n, TAIL_LINE_BYTES, TAIL_BYTES);
	if (!lines || (int)json_array_size(lines) >= n)
		return TAKE_PTR(lines);
	more = tail_of_part(s, stamped, n - (int)json_array_size(lines));
	if (!more)
		return TAKE_PTR(lines);
	json_array_extend(more, lines);
	return more;
}

json_t *logs_tail(struct logs *l, int local_rank, int std, int n)
{
	struct log_worker *w = logs_find_worker(l, local_rank);
	json_t *lines = NULL;
	const char *recent;
	size_t len;

	if (w && logs_is_merged(w))
		std = 0;
	if (w && w->std[std].path) {
		lines = tail_of_file(&w->std[std], l->opt.spec->timestamps, n);
	} else if (w && w->std[std].pipe) {
		recent = log_pipe_recent(w->std[std].pipe, &len);
		lines = log_tail_of(recent, len, true, false, n, TAIL_LINE_BYTES);
	}
	return lines ? lines : json_array();
}

static char *last_line_of(const struct logs *l, const struct log_worker *w, int std)
{
	_cleanup_log_fd_ int fd = -1;

	if (!w->std[std].path)
		return NULL;
	fd = log_fs_open(w->std[std].path, O_RDONLY, 0);
	return fd < 0 ? NULL : log_tail_last(fd, l->opt.spec->timestamps, 200);
}

char *logs_last_line(struct logs *l, int local_rank)
{
	const struct log_worker *w = logs_find_worker(l, local_rank);
	struct stat st[2] = { 0 };
	bool err_newer;
	char *line;

	if (!w)
		return NULL;
	for (int i = 0; i < 2; i++)
		if (w->std[i].path && log_fs_stat(w->std[i].path, &st[i]) < 0)
			st[i].st_size = 0;
	err_newer = st[1].st_size > 0 &&
		    (st[0].st_size == 0 || st[1].st_mtim.tv_sec > st[0].st_mtim.tv_sec ||
			    (st[1].st_mtim.tv_sec == st[0].st_mtim.tv_sec &&
				    st[1].st_mtim.tv_nsec > st[0].st_mtim.tv_nsec));
	line = last_line_of(l, w, err_newer);
	return line ? line : last_line_of(l, w, !err_newer);
}
