/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/channel.h"

#include "agent/link/tls.h"
#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/base/socket_address.h"
#include "common/varlink/frame.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

enum {
	RECEIVE_BYTES = 65536,
	RECEIVES_PER_TURN = 8,
	SENDS_PER_TURN = 8,
	CLOSE_MS = 1000,
	TLS_HANDSHAKE = 0x16, /* the first byte of a TLS client's hello */
};

struct link_channel {
	struct loop *loop;
	LIST_ENTRY(link_channel) entry; /* while closing */
	int fd;
	struct loop_fd *watch;
	struct loop_timer *close_timer;
	struct varlink_frame in;
	struct varlink_buffer out;
	struct link_tls_session *tls; /* NULL: plain */
	bool accepted;		      /* the peer has made the connection */
	bool plain_peer;	      /* it speaks plain messages */
	const struct link_channel_events *events;
	void *arg;
	bool begun;	 /* bytes have come */
	bool blocked;	 /* the socket takes no bytes now */
	bool unwritable; /* it never will again; bytes of the peer may still have to be read */
	bool ended, closing;
	int callbacks; /* running now */
	bool freed;
};

static void channel_watch(struct link_channel *c)
{
	int r = loop_fd_set(c->watch, LOOP_READ | (c->blocked ? LOOP_WRITE : 0));

	if (r < 0)
		log_debug("link: cannot watch a connection: %s", strerror(-r));
}

/* To be called after each callback. Returns true if the callback freed the channel. */
static bool leave_callback(struct link_channel *c)
{
	c->callbacks--;
	if (!c->freed)
		return false;
	if (!c->callbacks)
		free(c);
	return true;
}

/* Reports the end to the owner, once. Returns true if the owner freed the channel. */
static bool channel_end(struct link_channel *c, const struct error *err)
{
	if (c->closing) {
		link_channel_free(c);
		return true;
	}
	if (c->ended)
		return false;
	c->ended = true;
	(void)!loop_fd_set(c->watch, 0);
	c->callbacks++;
	c->events->ended(c->arg, err);
	return leave_callback(c);
}

static bool channel_end_by(struct link_channel *c, int code)
{
	struct error err = { 0 };

	if (code == -ECONNRESET)
		error_set(&err, code, "the other side closed the connection");
	else
		error_set(&err, code, "%s", strerror(-code));
	return channel_end(c, &err);
}

/* Moves encrypted bytes to c->out. */
static int take_encrypted(struct link_channel *c)
{
	char data[16384];
	size_t n;
	int r = 0;

	while (r == 0 && (n = link_tls_take(c->tls, data, sizeof(data))))
		r = varlink_buffer_append(&c->out, data, n);
	return r;
}

static int encrypt(struct link_channel *c, const char *data, size_t len)
{
	int r = len ? link_tls_write(c->tls, data, len) : 0;

	return r < 0 ? r : take_encrypted(c);
}

/* Appends the owner's bytes to c->out, encrypted where there is TLS. */
static int channel_fill(struct link_channel *c)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer plain = { .data = NULL };
	int r = 0;

	if (c->closing || c->ended)
		return 0;
	if (!c->tls)
		return c->events->fill ? c->events->fill(c->arg, &c->out) : 0;
	if (c->events->fill && link_tls_ready(c->tls))
		r = c->events->fill(c->arg, &plain);
	return r < 0 ? r : encrypt(c, plain.data + plain.begin, varlink_buffer_len(&plain));
}

/* Sends what the socket takes. Returns 0 or -ENOMEM. */
static int send_out(struct link_channel *c)
{
	int r = 0;

	if (c->unwritable)
		return 0;
	for (int i = 0; i < SENDS_PER_TURN && r == 0; i++) {
		if (!varlink_buffer_len(&c->out))
			r = channel_fill(c);
		if (r < 0 || !varlink_buffer_len(&c->out))
			break;
		r = varlink_buffer_send(&c->out, c->fd, SIZE_MAX);
		if (i + 1 == SENDS_PER_TURN && r == 0)
			r = 1; /* other connections have their turn */
	}
	c->blocked = r > 0;
	if (r < 0 && r != -ENOMEM) {
		c->unwritable = true;
		varlink_buffer_fini(&c->out);
	}
	return r == -ENOMEM ? r : 0;
}

static void on_turn(void *arg)
{
	struct link_channel *c = arg;
	int r;

	if (c->blocked || (c->ended && !c->closing))
		return;
	r = send_out(c);
	if (r < 0)
		channel_end_by(c, r);
	else if (c->blocked)
		channel_watch(c);
}

void link_channel_kick(struct link_channel *c)
{
	/* Without memory to defer, readiness for writing causes the turn. */
	if (loop_defer(c->loop, on_turn, c) < 0) {
		c->blocked = true;
		channel_watch(c);
	}
}

void link_channel_flush(struct link_channel *c)
{
	if (!c->blocked && send_out(c) < 0)
		log_debug("link: what is left does not go out");
}

int link_channel_expects_tls(struct error *err)
{
	return error_field(err, -EPROTO, LINK_TOKEN_FIELD,
		"expected TLS, because there is a token or a certificate on this side, got plain "
		"messages");
}

bool link_channel_is_plain(const struct link_channel *c)
{
	return !c->tls;
}

/* The first bytes show what a peer speaks. */
static int check_first(struct link_channel *c, const char *data, size_t len, struct error *err)
{
	char start[33] = "", shown[128];

	if (c->begun || !len)
		return 0;
	c->begun = true;
	c->plain_peer = *data == '{';
	if (c->tls && c->plain_peer && !c->accepted)
		return link_channel_expects_tls(err);
	if (c->plain_peer) /* it may be a guard, which has no secret: the listener checks */
		c->tls = link_tls_session_free(c->tls);
	if (c->tls || c->plain_peer)
		return 0;
	if (*data == TLS_HANDSHAKE)
		return error_field(err, -EPROTO, LINK_TOKEN_FIELD,
			"expected plain messages, because there is neither token nor certificate "
			"on this side, got TLS");
	memcpy(start, data, len < sizeof(start) - 1 ? len : sizeof(start) - 1);
	printable_copy(shown, sizeof(shown), start);
	return error_field(
		err, -EPROTO, "message", "expected one of io.elasticd.Peer, got \"%s\"", shown);
}

/* Gives whole messages to the owner. Returns true if the channel is gone or has ended. */
static bool deliver(struct link_channel *c)
{
	struct error err = { 0 };
	char *text;
	size_t len;
	int r;

	for (;;) {
		r = varlink_frame_next(&c->in, &text, &len);
		if (r < 0) {
			error_field(&err, -EPROTO, "message",
				"expected at most %zu bytes, got more", c->in.max_bytes);
			return channel_end(c, &err) || true;
		}
		if (r == 0)
			break;
		c->callbacks++;
		c->events->message(c->arg, text, len);
		if (leave_callback(c) || c->ended || c->closing)
			return true;
	}
	varlink_frame_settle(&c->in);
	return false;
}

static char received[RECEIVE_BYTES];

/* Decrypts len bytes of received. Returns 0 or a negative errno, with err for -EPROTO. */
static int decrypt(struct link_channel *c, size_t len, struct error *err)
{
	bool was_ready = link_tls_ready(c->tls);
	char data[16384];
	ssize_t n = link_tls_put(c->tls, received, len);

	while (n == 0) {
		n = link_tls_get(c->tls, data, sizeof(data), err);
		if (n == 0)
			break;
		if (n > 0)
			n = varlink_frame_feed(&c->in, data, (size_t)n);
	}
	/* After a failure this sends an alert of TLS to the peer. */
	if (take_encrypted(c) < 0)
		return -ENOMEM;
	if (varlink_buffer_len(&c->out) || was_ready != link_tls_ready(c->tls))
		link_channel_kick(c);
	return (int)n;
}

static int feed(struct link_channel *c, size_t len, struct error *err)
{
	int r = check_first(c, received, len, err);

	if (r < 0)
		return r;
	return c->tls ? decrypt(c, len, err) : varlink_frame_feed(&c->in, received, len);
}

/* Reads once. Returns the number of bytes, or a negative errno. */
static ssize_t receive(struct link_channel *c)
{
	/* An unknown peer, whose limit is small, costs little. */
	size_t room = c->in.max_bytes < RECEIVE_BYTES ? c->in.max_bytes + 1 : RECEIVE_BYTES;
	ssize_t n;

	do
		n = recv(c->fd, received, c->closing ? RECEIVE_BYTES : room, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n == 0 ? -ECONNRESET : n;
}

/* Reads once. Returns true if there is nothing more to read now. */
static bool read_some(struct link_channel *c)
{
	struct error err = { 0 };
	ssize_t n = receive(c);
	int r;

	if (n == -EAGAIN)
		return true;
	if (n < 0)
		return channel_end_by(c, (int)n) || true;
	if (c->closing)
		return false;
	r = feed(c, (size_t)n, &err);
	if (r == -EPROTO)
		return channel_end(c, &err) || true;
	if (r < 0)
		return channel_end_by(c, r) || true;
	return deliver(c) || n < RECEIVE_BYTES;
}

static void on_fd(int fd, int events, void *arg)
{
	struct link_channel *c = arg;

	if (events & LOOP_WRITE) {
		c->blocked = false;
		channel_watch(c);
		link_channel_kick(c);
	}
	if (!(events & LOOP_READ))
		return;
	c->callbacks++;
	for (int i = 0; i < RECEIVES_PER_TURN && !read_some(c) && !c->freed; i++)
		;
	leave_callback(c);
}

int link_channel_new(struct loop *loop, int fd, size_t max_bytes,
	const struct link_channel_events *events, void *arg, struct link_channel **ret)
{
	_cleanup_(link_channel_freep) struct link_channel *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		close_fd(fd);
		return -ENOMEM;
	}
	*c = (struct link_channel){ .loop = loop, .fd = fd, .events = events, .arg = arg };
	varlink_frame_init(&c->in, max_bytes);
	r = loop_fd_new(loop, fd, LOOP_READ, on_fd, c, &c->watch);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}

struct link_channel *link_channel_free(struct link_channel *c)
{
	if (!c || c->freed)
		return NULL;
	if (c->closing)
		LIST_REMOVE(c, entry);
	loop_cancel(c->loop, on_turn, c);
	loop_timer_free(c->close_timer);
	loop_fd_free(c->watch);
	close_fd(c->fd);
	varlink_frame_fini(&c->in);
	varlink_buffer_fini(&c->out);
	link_tls_session_free(c->tls);
	c->freed = true;
	if (!c->callbacks)
		free(c);
	return NULL;
}

int link_channel_secure(struct link_channel *c, const struct link_tls *tls, const char *host)
{
	if (!tls)
		return 0;
	c->accepted = !host;
	c->tls = link_tls_session_new(tls, host);
	if (!c->tls)
		return -ENOMEM;
	if (host)
		link_channel_kick(c);
	return 0;
}

void link_channel_hand_over(struct link_channel *c, size_t max_bytes,
	const struct link_channel_events *events, void *arg)
{
	c->in.max_bytes = max_bytes;
	c->events = events;
	c->arg = arg;
}

static void on_close_late(void *arg)
{
	link_channel_free(arg);
}

void link_channel_close(
	struct link_channel *c, const char *text, size_t len, struct link_channels *list)
{
	int r = 0;

	if (!c->tls || c->plain_peer)
		r = varlink_buffer_append(&c->out, text, len);
	else
		r = encrypt(c, text, link_tls_ready(c->tls) ? len : 0);
	c->closing = list;
	if (list)
		LIST_INSERT_HEAD(list, c, entry);
	if (r == 0 && !c->blocked)
		r = varlink_buffer_len(&c->out) ? varlink_buffer_send(&c->out, c->fd, SIZE_MAX) : 0;
	if (r == 0 && list)
		r = loop_timer_new(c->loop, on_close_late, c, &c->close_timer);
	if (r == 0 && list)
		r = loop_fd_set(c->watch, LOOP_READ);
	if (r || !list || c->blocked || shutdown(c->fd, SHUT_WR) < 0) {
		link_channel_free(c);
		return;
	}
	loop_timer_arm(c->close_timer, CLOSE_MS);
}

void link_channel_peer_at(const struct link_channel *c, struct sockaddr_storage *ret)
{
	socklen_t len = sizeof(*ret);

	*ret = (struct sockaddr_storage){ .ss_family = AF_UNSPEC };
	(void)!getpeername(c->fd, (struct sockaddr *)ret, &len);
}

void link_channel_peer(const struct link_channel *c, char *text)
{
	struct sockaddr_storage a;

	link_channel_peer_at(c, &a);
	socket_address_text((struct sockaddr *)&a, sizeof(a), text);
}

void link_channel_tune(int fd, uint64_t timeout_ms)
{
	unsigned timeout = timeout_ms > UINT32_MAX ? UINT32_MAX : (unsigned)timeout_ms;
	int on = 1;

	(void)!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (timeout)
		(void)!setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

int link_channel_fd(const struct link_channel *c)
{
	return c->fd;
}
