/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue/line_reader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 64 * 1024 };

struct line_reader {
	struct loop *loop;
	struct loop_fd *watch; /* NULL: a file, always ready */
	int fd;
	size_t max;
	line_reader_fn fn;
	void *arg;
	char *data;
	size_t begin, end, room, scanned; /* no newline in [begin, scanned) */
	uint64_t number;
	int over; /* -ENODATA at the end, or the error that ends reading */
};

static void on_ready(int fd, int events, void *arg)
{
	struct line_reader *r = arg;

	if (loop_fd_set(r->watch, 0) < 0)
		r->over = -ENOMEM;
	r->fn(r->arg);
}

int line_reader_new(struct loop *loop, int fd, size_t max, line_reader_fn fn, void *arg,
	struct line_reader **ret)
{
	_cleanup_(line_reader_freep) struct line_reader *r = calloc(1, sizeof(*r));
	struct stat st;
	int e;

	if (!r)
		return -ENOMEM;
	*r = (struct line_reader){ .loop = loop, .fd = fd, .max = max, .fn = fn, .arg = arg };
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd)) {
		e = loop_fd_new(loop, fd, 0, on_ready, r, &r->watch);
		if (e < 0)
			return e;
	}
	*ret = TAKE_PTR(r);
	return 0;
}

struct line_reader *line_reader_free(struct line_reader *r)
{
	if (!r)
		return NULL;
	loop_fd_free(r->watch);
	free(r->data);
	free(r);
	return NULL;
}

static int make_room(struct line_reader *r)
{
	size_t have = r->end - r->begin;
	char *grown;

	if (r->begin > 0) {
		memmove(r->data, r->data + r->begin, have);
		r->scanned -= r->begin;
		r->begin = 0;
		r->end = have;
	}
	if (r->room - r->end >= CHUNK)
		return 0;
	grown = realloc(r->data, r->end + CHUNK);
	if (!grown)
		return -ENOMEM;
	r->data = grown;
	r->room = r->end + CHUNK;
	return 0;
}

static bool is_ready(const struct line_reader *r)
{
	struct pollfd p = { .fd = r->fd, .events = POLLIN };

	return !r->watch || poll(&p, 1, 0) > 0;
}

/* Reads once. Returns 1, 0 if there is no input now, or the value for over. */
static int read_more(struct line_reader *r)
{
	ssize_t n;
	int e = make_room(r);

	if (e < 0)
		return e;
	if (!is_ready(r)) {
		e = loop_fd_set(r->watch, LOOP_READ);
		return e;
	}
	n = read(r->fd, r->data + r->end, CHUNK);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 1 : -errno;
	if (n == 0)
		return -ENODATA;
	r->end += (size_t)n;
	return 1;
}

/* Returns the line that ends at end, and skips skip bytes after it. */
static int take_line(
	struct line_reader *r, size_t end, size_t skip, const char **ret, size_t *ret_len)
{
	*ret = r->data + r->begin;
	*ret_len = end - r->begin;
	r->number++;
	if (*ret_len > r->max) {
		r->over = -EMSGSIZE;
		return r->over;
	}
	r->begin = r->scanned = end + skip;
	return 1;
}

int line_reader_next(struct line_reader *r, const char **ret, size_t *ret_len)
{
	while (r->over != -EMSGSIZE) {
		const char *nl =
			r->data ? memchr(r->data + r->scanned, '\n', r->end - r->scanned) : NULL;
		int e;

		if (nl)
			return take_line(r, (size_t)(nl - r->data), 1, ret, ret_len);
		r->scanned = r->end;
		if (r->over == -ENODATA && r->end > r->begin)
			return take_line(r, r->end, 0, ret, ret_len);
		if (r->over)
			break;
		if (r->end - r->begin > r->max) {
			r->number++;
			r->over = -EMSGSIZE;
			break;
		}
		e = read_more(r);
		if (e == 0)
			return 0;
		if (e < 0)
			r->over = e;
	}
	return r->over;
}

uint64_t line_reader_number(const struct line_reader *r)
{
	return r->number;
}
