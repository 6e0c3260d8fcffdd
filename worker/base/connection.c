/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/connection.h"
#include "worker/base/handle.h"
#include "worker/base/pool.h"
#include "worker/base/private_agent.h"
#include "worker/base/waiting.h"

#include "common/varlink/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
	CONNECT_RETRY_MS = 10, /* the agent's queue of connections is full */
	ALONE_CHECK_MS = 500,  /* how often an endless wait checks that someone could end it */
};

void conn_shut(struct conn *c)
{
	if (!atomic_exchange(&c->shut, true))
		shutdown(c->fd, SHUT_WR);
}

bool conn_ended(const struct conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

void conn_free(struct conn *c)
{
	close_fd(c->fd);
	varlink_frame_fini(&c->in);
	varlink_buffer_fini(&c->call);
	free(c);
}

/* To the agent at path, or (NULL) to the process's own. */
static int socket_connect(const char *path, int *ret, struct error *err)
{
	int r;

	if (!path)
		return private_agent_connect(ret, err);
	r = varlink_socket_connect(path, SOCK_NONBLOCK, ret, err);
	if (r == 0)
		r = varlink_socket_check_peer(*ret, path, (uid_t)-1, err);
	if (r == 0 && fcntl(*ret, F_SETFL, O_RDWR) < 0)
		r = -errno;
	return r;
}

/* A blocking socket; waits while the agent's queue is full. */
static int socket_open(
	struct pool *p, const char *path, const struct deadline *d, int *ret, struct error *err)
{
	const struct timespec pause = { .tv_nsec = CONNECT_RETRY_MS * 1000000 };
	int r, fd = -1;

	while ((r = socket_connect(path, &fd, err)) == -EAGAIN) {
		if (d->end >= 0 && clock_ms() >= d->end)
			return -ETIMEDOUT;
		if (pool_closing(p))
			return -ECONNRESET;
		if (nanosleep(&pause, NULL) < 0 && d->interruptible && signal_interrupts())
			return -EINTR;
	}
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
	c->pool = p;
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

struct deadline deadline_begin(const struct elasticd *h, struct wait wait)
{
	struct deadline d = {
		.end = -1,
		.interruptible = wait.interruptible,
		.beside = wait.beside,
		.endless = wait.endless,
		.stopped = wait.stopped,
	};

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

/* A byte went or came. */
static void deadline_progress(struct deadline *d)
{
	if (!d->from_last)
		return;
	d->end = clock_ms() + d->whole_ms;
	d->begun = false;
}

/* How long the next poll() may take. The first one of a call has the whole time, which saves a look
 * at the clock. */
static int deadline_left(struct deadline *d, int *ret_ms)
{
	int64_t ms = -1;

	if (d->end >= 0) {
		ms = d->begun ? d->end - clock_ms() : d->whole_ms;
		if (ms <= 0)
			return -ETIMEDOUT;
	}
	d->begun = true;
	*ret_ms = ms > INT_MAX ? INT_MAX : (int)ms;
	return 0;
}

/* Waits until there is something to read, or the time is over: 0. -EAGAIN: wait again. (A recv()
 * that waits would wake up twice, first when the agent has read what was sent.) */
static int conn_await_answer(struct conn *c, struct deadline *d)
{
	struct pollfd p[] = {
		{ .fd = c->fd, .events = POLLIN },
		{ .fd = d->beside ? d->beside->fd : -1, .events = POLLIN },
	};
	int ms, n, r = deadline_left(d, &ms);

	if (r < 0)
		return r;
	if (d->stopped && atomic_load(d->stopped))
		conn_shut(c);
	if (d->endless && (ms < 0 || ms > ALONE_CHECK_MS))
		ms = ALONE_CHECK_MS;
	n = poll(p, d->beside ? 2 : 1, ms);
	if (n == 0 && d->endless)
		return process_is_alone() ? -EDEADLK : -EAGAIN;
	if (n >= 0)
		return p[1].revents ? -EOWNERDEAD : 0;
	if (errno != EINTR)
		return -errno;
	return d->interruptible && signal_interrupts() ? -EINTR : -EAGAIN;
}

int conn_read(struct conn *c)
{
	char data[32768];
	ssize_t n = recv(c->fd, data, sizeof(data), MSG_DONTWAIT);
	int r;

	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	r = varlink_frame_feed(&c->in, data, (size_t)n);
	return r < 0 ? r : 1;
}

/* Waits, and reads the socket once. */
static int conn_fill(struct conn *c, struct deadline *d)
{
	int r = conn_await_answer(c, d), n;

	if (r < 0 && r != -ETIMEDOUT)
		return r == -EAGAIN ? 0 : r;
	n = conn_read(c);
	if (n > 0)
		deadline_progress(d);
	return n == 0 ? r : n < 0 ? n : 0;
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

/* Waits until the agent has read some: a value may be larger than the socket's buffer. */
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
