/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pipe or terminal is opened a second time through /proc: the new description is the agent's own
 * and can be non-blocking. Where that is refused (it belongs to another user), poll() precedes each
 * write of at most 4096 bytes, which a pipe that polls writable takes without blocking. Regular
 * files are written through the inherited descriptor, because its offset is shared. Sockets have
 * MSG_DONTWAIT.
 */
#include "agent/logs/console.h"

#include "agent/logs/line_splitter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* A buffer that holds this much takes no further block. The last block may have gone beyond it. */
#define HIGH_WATER (256 * 1024)
/* A write that failed with a full disk or a passing error is tried again after this time. */
#define RETRY_MS 1000

enum out_kind { OUT_WRITE, OUT_SOCKET, OUT_POLL };

struct out {
	struct console *console;
	enum out_kind kind;
	int fd;
	int own_fd; /* to be closed; -1 where fd is borrowed */
	bool tty, closed;
	bool was_full;	    /* a caller was refused and waits for room */
	bool want_empty;    /* the caller waits until all is written */
	bool reported_full; /* the callback knows that the device is full */
	char *data;
	size_t start, end, room;
	uint64_t put, done;
	const void *open; /* source of the unfinished line on the console */
	struct loop_fd *writable;
	struct loop_timer *retry;
};

struct console {
	struct loop *loop;
	console_fn fn;
	void *arg;
	struct out outs[2];
	int index[2]; /* of stdout and stderr into outs; equal where both are one file */
};

static struct out *out_of(const struct console *c, int std)
{
	return (struct out *)&c->outs[c->index[std]];
}

static void out_wait_writable(struct out *o, bool on)
{
	if (o->writable && loop_fd_set(o->writable, on ? LOOP_WRITE : 0) == 0)
		return;
	if (on)
		loop_timer_arm(o->retry, RETRY_MS);
}

static void out_give_up(struct out *o, int error)
{
	out_wait_writable(o, false);
	loop_timer_disarm(o->retry);
	o->done += o->end - o->start;
	o->start = o->end = 0;
	o->closed = true;
	o->open = NULL;
	o->console->fn(o->console->arg, true, error);
}

/* Reports a full device once, until a write succeeds again. */
static void out_report_full(struct out *o, int error)
{
	if (o->reported_full)
		return;
	o->reported_full = true;
	o->console->fn(o->console->arg, false, error);
}

static ssize_t out_write(struct out *o)
{
	const char *p = o->data + o->start;
	size_t n = o->end - o->start;
	struct pollfd pfd = { .fd = o->fd, .events = POLLOUT };

	switch (o->kind) {
	case OUT_SOCKET:
		return send(o->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	case OUT_POLL:
		if (poll(&pfd, 1, 0) <= 0 || !(pfd.revents & (POLLOUT | POLLERR | POLLHUP))) {
			errno = EAGAIN;
			return -1;
		}
		return write(o->fd, p, n < 4096 ? n : 4096);
	case OUT_WRITE:
		break;
	}
	return write(o->fd, p, n);
}

static void out_flush(struct out *o)
{
	while (o->start < o->end) {
		ssize_t n = out_write(o);

		if (n > 0) {
			o->start += n;
			o->done += n;
			o->reported_full = false;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			out_wait_writable(o, true);
			return;
		}
		if (n == 0 || errno == ENOSPC || errno == EDQUOT || errno == ENOMEM ||
			errno == ENOBUFS) {
			out_wait_writable(o, false);
			loop_timer_arm(o->retry, RETRY_MS);
			out_report_full(o, n == 0 ? ENOSPC : errno);
			return;
		}
		out_give_up(o, errno);
		return;
	}
	o->start = o->end = 0;
	out_wait_writable(o, false);
}

/* Writes, and calls back once the buffer is half free or, if the caller wants that, empty. */
static void out_flush_and_report(struct out *o)
{
	size_t left;

	out_flush(o);
	left = o->end - o->start;
	if (o->closed || !((o->was_full && left < HIGH_WATER / 2) || (o->want_empty && left == 0)))
		return;
	o->was_full = false;
	if (left == 0)
		o->want_empty = false;
	o->console->fn(o->console->arg, false, 0);
}

static void on_writable(int fd, int events, void *arg)
{
	out_flush_and_report(arg);
}

static void on_retry(void *arg)
{
	out_flush_and_report(arg);
}

static int open_own(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

static int out_init(struct out *o, struct console *c, int fd)
{
	struct stat st;
	int r;

	*o = (struct out){ .console = c, .fd = fd, .own_fd = -1, .kind = OUT_WRITE };
	r = loop_timer_new(c->loop, on_retry, o, &o->retry);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0) {
		/* The agent was started without this descriptor. */
		o->closed = true;
		return 0;
	}
	if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
		return 0;
	o->tty = isatty(fd);
	if (S_ISSOCK(st.st_mode)) {
		o->kind = OUT_SOCKET;
	} else {
		o->own_fd = open_own(fd);
		if (o->own_fd >= 0)
			o->fd = o->own_fd;
		else
			o->kind = OUT_POLL;
	}
	/* epoll refuses /dev/null, which never blocks a writer. */
	r = loop_fd_new(c->loop, o->fd, 0, on_writable, o, &o->writable);
	return r == -ENOMEM ? r : 0;
}

static void out_fini(struct out *o)
{
	loop_fd_free(o->writable);
	loop_timer_free(o->retry);
	if (o->console)
		close_fd(o->own_fd);
	free(o->data);
}

static bool same_file(const int fds[2])
{
	struct stat a, b;

	return fstat(fds[0], &a) == 0 && fstat(fds[1], &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino && a.st_rdev == b.st_rdev;
}

int console_new(struct loop *loop, const int fds[2], console_fn fn, void *arg, struct console **ret)
{
	_cleanup_(console_freep) struct console *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	*c = (struct console){ .loop = loop, .fn = fn, .arg = arg };
	r = out_init(&c->outs[0], c, fds[0]);
	if (r == 0 && !same_file(fds)) {
		r = out_init(&c->outs[1], c, fds[1]);
		c->index[1] = 1;
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}

struct console *console_free(struct console *c)
{
	if (!c)
		return NULL;
	for (int i = 0; i < 2; i++) {
		struct out *o = &c->outs[i];

		if (o->console && !o->closed)
			while (o->start < o->end) {
				ssize_t n = out_write(o);

				if (n <= 0)
					break;
				o->start += n;
			}
		out_fini(o);
	}
	free(c);
	return NULL;
}

bool console_has_room(struct console *c, int std)
{
	struct out *o = out_of(c, std);

	if (o->closed || o->end - o->start < HIGH_WATER)
		return true;
	o->was_full = true;
	return false;
}

bool console_is_closed(const struct console *c, int std)
{
	return out_of(c, std)->closed;
}

bool console_is_tty(const struct console *c, int std)
{
	return out_of(c, std)->tty;
}

/* Makes room for n bytes behind end; false without memory. */
static bool out_reserve(struct out *o, size_t n)
{
	size_t room = o->room ? o->room : 4096;
	char *p;

	if (o->end + n <= o->room)
		return true;
	if (o->start > 0) {
		memmove(o->data, o->data + o->start, o->end - o->start);
		o->end -= o->start;
		o->start = 0;
		if (o->end + n <= o->room)
			return true;
	}
	while (room < o->end + n)
		room *= 2;
	p = realloc(o->data, room);
	if (!p)
		return false;
	o->data = p;
	o->room = room;
	return true;
}

static char *copy_bytes(char *p, const char *data, size_t n)
{
	memcpy(p, data, n);
	return p + n;
}

void console_put(struct console *c, int std, const void *source, const char *prefix,
	size_t prefix_len, const char *data, size_t len, unsigned flags)
{
	struct out *o = out_of(c, std);
	char *p, *begin;

	if (o->closed)
		return;
	/* An empty end of a line that was broken off already: nothing to add. */
	if (len == 0 && !(flags & LINE_START) && o->open != source)
		return;
	if (!out_reserve(o, prefix_len + len + 2)) {
		out_flush(o);
		if (o->closed || !out_reserve(o, prefix_len + len + 2))
			return;
	}
	p = begin = o->data + o->end;
	if (o->open && (o->open != source || (flags & LINE_START))) {
		*p++ = '\n';
		o->open = NULL;
	}
	if (!o->open)
		p = copy_bytes(p, prefix, prefix_len);
	p = copy_bytes(p, data, len);
	o->open = flags & LINE_END ? NULL : source;
	if (flags & LINE_END)
		*p++ = '\n';
	o->end += p - begin;
	o->put += p - begin;
}

void console_break(struct console *c, int std, const void *source)
{
	struct out *o = out_of(c, std);

	if (o->open != source || o->closed)
		return;
	o->open = NULL;
	if (!out_reserve(o, 1))
		return;
	o->data[o->end++] = '\n';
	o->put++;
}

void console_flush(struct console *c)
{
	out_flush(&c->outs[0]);
	if (c->index[1])
		out_flush(&c->outs[1]);
}

void console_want_empty(struct console *c)
{
	for (int i = 0; i < 2; i++)
		c->outs[i].want_empty = c->outs[i].start < c->outs[i].end;
}

uint64_t console_put_bytes(const struct console *c, int std)
{
	return out_of(c, std)->put;
}

uint64_t console_done_bytes(const struct console *c, int std)
{
	return out_of(c, std)->done;
}

void console_trim(struct console *c)
{
	for (int i = 0; i < 2; i++) {
		struct out *o = &c->outs[i];

		if (o->start < o->end || o->room <= 16384)
			continue;
		free(o->data);
		o->data = NULL;
		o->start = o->end = o->room = 0;
	}
}
