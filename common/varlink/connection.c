/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While a connection may take calls it is watched for reading. While it may not (too many calls or
 * bytes are open, the peer has shut down its sending side, the server drains) it is watched for
 * writing, edge-triggered: only that reports when a blocked peer reads again, and when it is gone.
 */
#include "common/base/log.h"
#include "common/varlink/private.h"
#include "common/varlink/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

enum {
	RECEIVES_AT_ONCE = 64,
	/* Calls of one account in one turn, and the time for them: other accounts wait no longer
	 * than that, and for the end of one call. */
	CALLS_AT_ONCE = 128,
	WORK_AT_ONCE_MS = 5,
};

void varlink_connection_doom(struct varlink_connection *c, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (c->doomed)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_debug("varlink: closing the connection of pid %d, uid %u: %s", c->peer.pid, c->peer.uid,
		text);
	c->doomed = true;
	varlink_connection_touch(c);
}

size_t varlink_connection_queued(const struct varlink_connection *c)
{
	return varlink_buffer_len(&c->out) + c->held;
}

/* Gets a turn after other connections'. */
static void take_turn(struct varlink_connection *c)
{
	if (c->waiting)
		return;
	c->waiting = true;
	TAILQ_INSERT_TAIL(&c->server->waiting, c, waiting_entry);
	loop_again_arm(c->server->next_turn);
}

void varlink_connection_touch(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;

	if (c->touched || c->busy)
		return;
	if (TAILQ_EMPTY(&s->touched) && loop_defer(s->loop, varlink_server_turn, s) < 0) {
		/* Without memory to defer, another turn comes, or the descriptor's readiness. */
		if (c->fd < 0) {
			take_turn(c);
			return;
		}
		c->watched = LOOP_WRITE;
		if (loop_fd_set(c->watch, c->watched) < 0)
			log_debug("varlink: cannot watch a connection");
		return;
	}
	c->touched = true;
	TAILQ_INSERT_TAIL(&s->touched, c, touched_entry);
}

bool varlink_connection_takes_calls(const struct varlink_connection *c)
{
	size_t most = varlink_limits_queued(c);

	return !c->doomed && !c->closing && !c->server->paused &&
	       c->n_calls < c->server->limits.calls_in_flight &&
	       varlink_connection_queued(c) <= most && c->open_bytes <= most;
}

void varlink_connection_refuse(struct varlink_connection *c, const char *what, int64_t limit)
{
	struct varlink_call *call = varlink_call_new(c);
	const struct varlink_interface *i = varlink_dispatch_guess(
		c->server, c->in.data + c->in.begin, c->in.end - c->in.begin);

	log_debug("varlink: a call of pid %d is over the limit of %" PRId64 " %s", c->peer.pid,
		limit, what);
	c->closing = true;
	varlink_frame_fini(&c->in);
	if (!call) {
		varlink_connection_doom(c, "out of memory");
		return;
	}
	call->interface = i;
	varlink_error_limit(call, what, limit);
}

/* How many calls the connection may handle in a turn: a share of its account's. */
static int calls_at_once(const struct varlink_connection *c)
{
	size_t n = budget_of_account(&c->place);

	if (c->account.trusted)
		return INT_MAX;
	return n < 2 ? CALLS_AT_ONCE : n < CALLS_AT_ONCE ? CALLS_AT_ONCE / (int)n : 1;
}

bool varlink_connection_has_time(const struct varlink_connection *c)
{
	return budget_may_work(&c->bytes, loop_turn(c->server->loop), WORK_AT_ONCE_MS);
}

/* Where all calls that have come are wanted, time does not count. */
static bool has_time(const struct varlink_connection *c, int most)
{
	return most == INT_MAX || varlink_connection_has_time(c);
}

static void handle_call(struct varlink_connection *c, char *text, size_t len)
{
	uint64_t begun = loop_now_ms();

	varlink_dispatch(c, text, len);
	budget_worked(&c->bytes, loop_turn(c->server->loop), loop_now_ms() - begun);
}

static void take_calls(struct varlink_connection *c, int most)
{
	char *text;
	size_t len;
	int r;

	while (c->taken < most && has_time(c, most) && varlink_connection_takes_calls(c)) {
		r = varlink_frame_next(&c->in, &text, &len);
		if (r == 0)
			return;
		if (r < 0) {
			varlink_connection_refuse(
				c, "message_bytes", (int64_t)c->server->limits.message_bytes);
			return;
		}
		varlink_limits_finished(c);
		c->taken++;
		handle_call(c, text, len);
	}
}

static void send_bytes(struct varlink_connection *c, size_t most)
{
	size_t before = varlink_buffer_len(&c->out), sent;
	int r = 0;

	if (c->fd < 0)
		varlink_carried_send(c, most);
	else
		r = varlink_buffer_send(&c->out, c->fd, most);
	sent = before - varlink_buffer_len(&c->out);
	varlink_promises_sent(c, sent);
	if (c->fd < 0)
		return;
	c->server->sent_bytes += sent;
	c->blocked = r > 0;
	if (r >= 0)
		return;
	/* The peer may have sent calls that need no answer before it went. */
	c->deaf = true;
	varlink_buffer_fini(&c->out);
}

void varlink_connection_send(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;
	size_t most;

	if (c->doomed || c->blocked || c->deaf || !varlink_buffer_len(&c->out))
		return;
	if (s->leaving)
		s->leaving(s->arg);
	while (!c->blocked && !c->paused && !c->deaf && (most = varlink_promises_sendable(c)))
		send_bytes(c, most);
}

/* The bytes in front of the call's next answer. Answers of later calls wait behind those of the
 * first call, so they do not count for it. */
size_t varlink_connection_before(
	const struct varlink_connection *c, const struct varlink_call *call)
{
	return call == TAILQ_FIRST(&c->calls) ? varlink_buffer_len(&c->out)
					      : varlink_connection_queued(c);
}

/* Resumes streams when their unsent output is down to half the limit. */
static void wake_streams(struct varlink_connection *c)
{
	const size_t half = varlink_limits_queued(c) / 2;
	struct varlink_call *call;

	for (;;) {
		loop_fn fn;

		TAILQ_FOREACH (call, &c->calls, entry)
			if (call->uncongested && varlink_connection_before(c, call) <= half)
				break;
		if (!call)
			return;
		fn = call->uncongested;
		call->uncongested = NULL;
		fn(call->uncongested_arg);
	}
}

static bool at_its_end(struct varlink_connection *c)
{
	if (c->doomed || (c->deaf && (c->eof || !varlink_connection_takes_calls(c))))
		return true;
	if (c->n_calls || varlink_connection_queued(c))
		return false;
	return c->closing || (c->eof && !varlink_frame_ready(&c->in));
}

/* All calls that came were begun, and no other will come. */
static void announce_shut(struct varlink_connection *c)
{
	const struct varlink_server *s = c->server;

	if (!c->eof || c->shut || c->doomed || !c->n_calls || varlink_frame_ready(&c->in))
		return;
	c->shut = true;
	if (s->shut && c->user)
		s->shut(c->user, s->arg);
}

/* Calls that came but were not handled yet get a turn after other connections'. */
static void wait_for_turn(struct varlink_connection *c)
{
	if (!varlink_frame_ready(&c->in)) {
		c->taken = 0;
	} else if (varlink_connection_takes_calls(c)) {
		take_turn(c);
	}
}

static int watch_events(struct varlink_connection *c)
{
	int events = LOOP_WRITE | LOOP_EDGE;

	if (c->fd < 0)
		return 0;
	if (!c->eof && varlink_connection_takes_calls(c))
		events = LOOP_READ | (c->blocked ? LOOP_WRITE : 0);
	c->watched = events;
	return loop_fd_set(c->watch, events);
}

void varlink_connection_run(struct varlink_connection *c)
{
	const struct varlink_server *s = c->server;
	const int most = calls_at_once(c);
	bool later = s->leaving && !s->in_turn;

	c->busy = true;
	do {
		take_calls(c, most);
		announce_shut(c);
		if (!later && s->ahead && varlink_buffer_len(&c->out))
			s->ahead(s->arg);
		if (!later)
			varlink_connection_send(c);
	} while (c->taken < most && has_time(c, most) && varlink_connection_takes_calls(c) &&
		 varlink_frame_ready(&c->in));
	wait_for_turn(c);
	varlink_limits_settle(c);
	c->busy = false;
	if (!c->doomed && !c->deaf)
		wake_streams(c);
	if (at_its_end(c) || watch_events(c) < 0) {
		varlink_connection_free(c);
		return;
	}
	if (later && varlink_buffer_len(&c->out))
		varlink_connection_touch(c);
}

static bool hung_up(const struct varlink_connection *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR));
}

/* As recv(); also takes descriptors, if the server wants them. */
static ssize_t receive_bytes(struct varlink_connection *c, size_t len)
{
	struct varlink_server *s = c->server;
	ssize_t n;
	int fd;

	if (!s->descriptors)
		return recv(c->fd, s->received, len, MSG_DONTWAIT);
	n = varlink_socket_receive_fd(c->fd, s->received, len, &fd);
	if (fd >= 0) {
		close_fd(c->descriptor);
		c->descriptor = fd;
	}
	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

/*
 * Reads small calls a few at a time, so that a peer that pipelines thousands delays others by no
 * more than some hundred; a long message may come in larger pieces.
 */
static void receive_calls(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;
	bool is_long = c->in.end - c->in.begin > VARLINK_RECEIVE_BYTES;
	ssize_t n = receive_bytes(c, is_long ? sizeof(s->received) : VARLINK_RECEIVE_BYTES);
	bool failed = n < 0 && errno != EAGAIN && errno != EINTR;

	if (n > 0) {
		if (varlink_frame_feed(&c->in, s->received, (size_t)n) < 0)
			varlink_connection_doom(c, "out of memory");
	} else if (n == 0) {
		c->eof = true;
		if (hung_up(c))
			c->doomed = true;
	} else if (failed) {
		c->doomed = true;
	}
}

/* Reads as much as a socket can hold and no more, since the peer may go on sending. */
void varlink_connection_receive(struct varlink_connection *c)
{
	size_t before;

	c->busy = true;
	take_calls(c, INT_MAX);
	for (int i = 0;
		i < RECEIVES_AT_ONCE && c->fd >= 0 && !c->eof && varlink_connection_takes_calls(c);
		i++) {
		c->busy = true;
		before = c->in.end - c->in.begin;
		receive_calls(c);
		if (!c->eof && !c->doomed && c->in.end - c->in.begin == before)
			break;
		take_calls(c, INT_MAX);
	}
	c->busy = true;
	varlink_connection_run(c);
}

static void on_ready(int fd, int events, void *arg)
{
	struct varlink_connection *c = arg;

	/* It has unhandled calls: no need to read. */
	if (c->waiting && !(events & LOOP_WRITE))
		return;
	c->busy = true;
	if (events & LOOP_READ && !c->waiting)
		receive_calls(c);
	if (events & LOOP_WRITE)
		c->blocked = false;
	if (!(c->watched & LOOP_READ) && hung_up(c))
		c->doomed = true;
	varlink_connection_run(c);
}

/* Whether the connection is refused, or one too many; the peer was told. */
static bool is_refused(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;
	json_t *why = NULL;
	const char *error = s->refuses ? s->refuses(&c->peer, &why, s->arg) : NULL;

	if (error) {
		varlink_listen_send_error(s, c->fd, error, why);
		return true;
	}
	if (!s->opened || s->opened(&c->peer, &c->user, s->arg) == 0)
		return false;
	varlink_listen_refuse(s, c->fd, "connections", s->limits.connections);
	return true;
}

struct varlink_connection *varlink_connection_make(struct varlink_server *s, int fd)
{
	struct varlink_connection *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->server = s;
	c->fd = fd;
	c->descriptor = -1;
	TAILQ_INIT(&c->calls);
	varlink_frame_init(&c->in, s->limits.message_bytes);
	TAILQ_INSERT_TAIL(&s->connections, c, entry);
	s->n_connections++;
	return c;
}

int varlink_connection_new(struct varlink_server *s, int fd, struct error *err)
{
	struct varlink_connection *c = varlink_connection_make(s, fd);
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int r;

	if (!c) {
		close(fd);
		return error_set(err, -ENOMEM, "out of memory");
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
		fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
		r = error_set(err, -errno, "not a UNIX socket: %s", strerror(errno));
		varlink_connection_free(c);
		return r;
	}
	c->peer = (struct varlink_peer){ .uid = cred.uid, .gid = cred.gid, .pid = cred.pid };
	if (is_refused(c)) {
		varlink_connection_free(c);
		return error_set(err, -EUSERS, "it is refused");
	}
	r = varlink_limits_join(c);
	if (r < 0) {
		varlink_connection_free(c);
		return error_set(err, r, "%s", strerror(-r));
	}
	c->watched = LOOP_READ;
	r = loop_fd_new(s->loop, fd, c->watched, on_ready, c, &c->watch);
	if (r < 0) {
		r = error_set(err, r, "cannot watch a connection: %s", strerror(-r));
		varlink_connection_free(c);
	}
	return r;
}

struct varlink_connection *varlink_connection_free(struct varlink_connection *c)
{
	struct varlink_server *s;

	if (!c)
		return NULL;
	s = c->server;
	if (c->touched)
		TAILQ_REMOVE(&s->touched, c, touched_entry);
	c->touched = false;
	if (c->waiting)
		TAILQ_REMOVE(&s->waiting, c, waiting_entry);
	varlink_promises_leave(c);
	c->busy = true;
	c->doomed = true;
	TAILQ_REMOVE(&s->connections, c, entry);
	s->n_connections--;
	varlink_limits_leave(c);
	loop_fd_free(c->watch);
	if (c->handed && !s->ends)
		shutdown(c->fd, SHUT_RDWR);
	close_fd(c->fd);
	/* on_gone functions may answer other calls of this connection: these answers are never
	 * sent. */
	while (!TAILQ_EMPTY(&c->calls))
		varlink_call_cancel(TAILQ_FIRST(&c->calls));
	close_fd(c->descriptor); /* last, since on_gone functions may use it */
	if (c->carrier.ended)
		c->carrier.ended(c->carrier.arg);
	if (c->user && s->closed) /* may free what the carrier has */
		s->closed(c->user, s->arg);
	varlink_frame_fini(&c->in);
	varlink_buffer_fini(&c->out);
	free(c);
	varlink_server_connection_gone(s);
	return NULL;
}
