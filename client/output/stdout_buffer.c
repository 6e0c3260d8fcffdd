/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/stdout_buffer.h"

#include "common/varlink/message.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { FULL = 256 * 1024 };

struct stdout_buffer {
	struct loop *loop;
	struct loop_fd *watch; /* NULL: a file, always ready */
	int fd;
	loop_fn drained;
	stdout_buffer_gone_fn gone;
	void *arg;
	struct varlink_buffer out;
	bool kept; /* something was written since drained ran */
	bool over, posted;
};

static void on_turn(void *arg);

static void post_turn(struct stdout_buffer *o)
{
	if (loop_defer(o->loop, on_turn, o) < 0)
		return; /* without memory: the next write tries again */
	o->posted = true;
}

/* Whether a write of PIPE_BUF bytes would not block, or would report that the reader is gone. */
static bool is_ready(const struct stdout_buffer *o)
{
	struct pollfd p = { .fd = o->fd, .events = POLLOUT };

	return !o->watch || (poll(&p, 1, 0) > 0 && p.revents);
}

static void end_output(struct stdout_buffer *o, int error)
{
	o->over = true;
	o->watch = loop_fd_free(o->watch);
	varlink_buffer_fini(&o->out);
	o->gone(o->arg, error);
}

/* Returns 0, or a negative errno. */
static int write_out(struct stdout_buffer *o)
{
	while (varlink_buffer_len(&o->out) > 0 && is_ready(o)) {
		size_t n = varlink_buffer_len(&o->out);
		ssize_t done =
			write(o->fd, o->out.data + o->out.begin, n < PIPE_BUF ? n : PIPE_BUF);

		if (done < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (done < 0)
			return -errno;
		o->out.begin += (size_t)done;
	}
	if (varlink_buffer_len(&o->out) == 0)
		varlink_buffer_fini(&o->out);
	return 0;
}

static void flush_out(struct stdout_buffer *o)
{
	int r = o->over ? 0 : write_out(o);

	if (r < 0) {
		end_output(o, r);
		return;
	}
	if (o->over)
		return;
	if (o->kept && stdout_buffer_empty(o)) {
		o->kept = false;
		o->drained(o->arg);
	}
}

static void on_turn(void *arg)
{
	struct stdout_buffer *o = arg;

	o->posted = false;
	flush_out(o);
}

static void on_ready(int fd, int events, void *arg)
{
	struct stdout_buffer *o = arg;
	struct pollfd p = { .fd = fd };

	/* Reports a reader that is gone even while nothing is to be written. */
	if (poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP))
		end_output(o, -EPIPE);
	else
		flush_out(o);
}

int stdout_buffer_new(struct loop *loop, int fd, loop_fn drained, stdout_buffer_gone_fn gone,
	void *arg, struct stdout_buffer **ret)
{
	_cleanup_(stdout_buffer_freep) struct stdout_buffer *o = calloc(1, sizeof(*o));
	struct stat st;
	int r;

	if (!o)
		return -ENOMEM;
	*o = (struct stdout_buffer){
		.loop = loop, .fd = fd, .drained = drained, .gone = gone, .arg = arg
	};
	/* epoll does not take files and /dev/null, which are always ready. */
	if (fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd))) {
		r = loop_fd_new(loop, fd, LOOP_WRITE | LOOP_EDGE, on_ready, o, &o->watch);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(o);
	return 0;
}

struct stdout_buffer *stdout_buffer_free(struct stdout_buffer *o)
{
	if (!o)
		return NULL;
	loop_cancel(o->loop, on_turn, o);
	loop_fd_free(o->watch);
	varlink_buffer_fini(&o->out);
	free(o);
	return NULL;
}

int stdout_buffer_write(struct stdout_buffer *o, const void *data, size_t len)
{
	int r = o->over ? 0 : varlink_buffer_append(&o->out, data, len);

	if (r < 0)
		return r;
	o->kept = true;
	if (!o->posted && !o->over)
		post_turn(o);
	return 0;
}

bool stdout_buffer_full(const struct stdout_buffer *o)
{
	return varlink_buffer_len(&o->out) >= FULL;
}

bool stdout_buffer_empty(const struct stdout_buffer *o)
{
	return varlink_buffer_len(&o->out) == 0;
}
