/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/pool.h"

#include "common/varlink_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

enum { CONNECT_RETRY_MS = 10 }; /* the agent's queue of connections is full */

int conn_fd(const struct conn *c)
{
	return c->fd;
}

void conn_free(struct conn *c)
{
	close_fd(c->fd);
	varlink_frame_fini(&c->in);
	varlink_buffer_fini(&c->call);
	free(c);
}

/* A blocking socket; waits while the agent's queue is full. */
static int socket_open(
	struct pool *p, const char *path, const struct deadline *d, int *ret, struct error *err)
{
	const struct timespec pause = { .tv_nsec = CONNECT_RETRY_MS * 1000000 };
	int r, fd = -1;

	while ((r = varlink_socket_connect(path, SOCK_NONBLOCK, &fd, err)) == -EAGAIN) {
		if (d->end >= 0 && clock_ms() >= d->end)
			return -ETIMEDOUT;
		if (pool_closing(p))
			return -ECONNRESET;
		if (nanosleep(&pause, NULL) < 0 && d->interruptible && signal_interrupts())
			return -EINTR;
	}
	if (r == 0 && fcntl(fd, F_SETFL, O_RDWR) < 0)
		r = -errno;
	if (r == 0)
		*ret = fd;
	else
		close_fd(fd);
	return r;
}

int conn_new(struct pool *p, const char *path, const struct deadline *d, struct conn **ret,
	struct error *err)
{
	struct conn *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	varlink_frame_init(&c->in, VARLINK_ANSWER_MAX);
	r = socket_open(p, path, d, &c->fd, err);
	if (r < 0) {
		c->fd = -1;
		conn_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

struct deadline deadline_of(const struct elasticd *h, struct wait wait)
{
	struct deadline d = { .end = -1, .interruptible = wait.interruptible };

	if (wait.prompt) {
		d.interruptible = atomic_load(&h->interruptible);
		d.from_last = true;
		d.whole_ms = h->silence_ms;
		d.end = clock_ms() + d.whole_ms;
	} else if (wait.timeout_ms >= 0) {
		d.whole_ms = (int64_t)wait.timeout_ms + wait.margin_ms;
		d.end = clock_ms() + d.whole_ms;
	}
	return d;
}

static void deadline_progress(struct deadline *d)
{
	if (!d->from_last)
		return;
	d->end = clock_ms() + d->whole_ms;
	d->begun = false;
}

/* Whether the first recv() of a call may do with the limit that is set, which is no longer than its
 * own: hardly an answer takes that long, and if it does, the next has the right one. */
static bool conn_limit_serves(const struct conn *c, const struct deadline *d)
{
	if (!c->limit_ms || d->begun)
		return false;
	/* Without a limit, what a signal does is left to the kernel. */
	return d->end < 0 ? !d->interruptible : c->limit_ms <= d->whole_ms;
}

/* Has the next recv() wait so long. The first of a call is given the whole time. */
static int conn_limit(struct conn *c, struct deadline *d)
{
	bool serves = conn_limit_serves(c, d);
	int64_t ms = 0;
	struct timeval tv;

	if (d->end >= 0) {
		ms = d->begun ? d->end - clock_ms() : d->whole_ms;
		if (ms <= 0)
			return -ETIMEDOUT;
	}
	d->begun = true;
	if (serves || ms == c->limit_ms)
		return 0;
	tv = (struct timeval){ .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	if (setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0)
		return -errno;
	c->limit_ms = ms;
	return 0;
}

/* Reads once. 0, -ETIMEDOUT, -EINTR, -ECONNRESET or another negative errno. */
static int conn_fill(struct conn *c, struct deadline *d)
{
	char data[32768];
	int late = conn_limit(c, d);
	ssize_t n;

	if (late < 0 && late != -ETIMEDOUT)
		return late;
	n = recv(c->fd, data, sizeof(data), late ? MSG_DONTWAIT : 0);
	if (n > 0)
		deadline_progress(d);
	if (n > 0)
		return varlink_frame_feed(&c->in, data, (size_t)n);
	if (n == 0)
		return -ECONNRESET;
	if (errno == EAGAIN)
		return late;
	if (errno != EINTR)
		return -errno;
	/* Without a limit the kernel itself goes on after a handler with SA_RESTART. */
	return d->interruptible && (!c->limit_ms || signal_interrupts()) ? -EINTR : 0;
}

int conn_receive(struct conn *c, struct deadline *d, char **ret, size_t *ret_len)
{
	int r;

	while ((r = varlink_frame_next(&c->in, ret, ret_len)) == 0) {
		r = conn_fill(c, d);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

/* Until the agent has read some: only values are longer than what a socket takes. */
static int conn_await_room(const struct conn *c, const struct deadline *d)
{
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };
	int64_t left = d->end < 0 ? -1 : d->end - clock_ms();

	if (d->end >= 0 && left <= 0)
		return -ETIMEDOUT;
	if (poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left) >= 0)
		return 0;
	if (errno != EINTR)
		return -errno;
	return d->interruptible && signal_interrupts() ? -EINTR : 0;
}

int conn_send_rest(struct conn *c, const struct varlink_buffer *b, struct deadline *d)
{
	int r = 0;

	while (c->unsent && r == 0) {
		ssize_t n = send(c->fd, b->data + b->end - c->unsent, c->unsent,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			c->unsent -= (size_t)n;
			deadline_progress(d);
		} else if (errno == EAGAIN) {
			r = conn_await_room(c, d);
		} else if (errno != EINTR) {
			r = -errno;
		}
	}
	return r;
}

int conn_send(struct conn *c, const struct varlink_buffer *b, struct deadline *d)
{
	c->unsent = varlink_buffer_len(b);
	return conn_send_rest(c, b, d);
}
