/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One TCP connection of peers: whole messages in, bytes out, one write in each turn of the loop. It
 * knows neither numbers nor what messages mean. Called by link.c, dial.c and listen.c. A callback
 * may free the channel.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"
#include "common/varlink/message.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

struct link_channel;
struct link_tls;
LIST_HEAD(link_channels, link_channel);

struct link_channel_events {
	/* A message of len bytes, with a NUL behind them. */
	void (*message)(void *arg, const char *text, size_t len);
	/* May be NULL. The socket takes bytes: appends what there is to send, or nothing. Returns 0
	 * or -ENOMEM. */
	int (*fill)(void *arg, struct varlink_buffer *out);
	/* The connection ended: by the peer, the kernel, or, with -EPROTO, because of what came on
	 * it. No other event follows. The channel can still send, where it was -EPROTO. */
	void (*ended)(void *arg, const struct error *err);
};

/* Takes fd, a connected, non-blocking socket. max_bytes limits a message. Returns 0 or a negative
 * errno. */
_must_check_ int link_channel_new(struct loop *loop, int fd, size_t max_bytes,
	const struct link_channel_events *events, void *arg, struct link_channel **ret);
struct link_channel *link_channel_free(struct link_channel *c);
DEFINE_CLEANUP(struct link_channel *, link_channel_free)

/* The connection speaks TLS from its first byte (tls NULL: it does not). host: whom this side
 * expects to reach; NULL where it was reached. tls is borrowed for the life of c. 0 or -ENOMEM. */
_must_check_ int link_channel_secure(
	struct link_channel *c, const struct link_tls *tls, const char *host);

/* Where this side was reached the peer may speak plain messages all the same: whether it does is
 * known from its first message on. */
bool link_channel_is_plain(const struct link_channel *c);
/* Sets the error for a peer that had to speak TLS. Returns -EPROTO. */
int link_channel_expects_tls(struct error *err);

/* Another owner, and another limit. */
void link_channel_hand_over(struct link_channel *c, size_t max_bytes,
	const struct link_channel_events *events, void *arg);

/* There is something to send: fill() will run at the end of this turn. */
void link_channel_kick(struct link_channel *c);
/* Sends now what there is, as far as the socket takes it. */
void link_channel_flush(struct link_channel *c);

/*
 * Sends text (a whole message with its NUL), and closes the connection when the peer has closed its
 * side, but after one second at most: closed earlier, the peer might not get to read it. Takes c,
 * which stands in list until then; link_channel_free() takes it from there. Without a list it
 * closes at once.
 */
void link_channel_part(
	struct link_channel *c, const char *text, size_t len, struct link_channels *list);

/* The peer's address; text of SOCKET_ADDRESS_MAX bytes. */
void link_channel_peer_at(const struct link_channel *c, struct sockaddr_storage *ret);
void link_channel_peer(const struct link_channel *c, char *text);

/* TCP_NODELAY, and TCP_USER_TIMEOUT where timeout_ms is not 0. */
void link_channel_tune(int fd, uint64_t timeout_ms);
int link_channel_fd(const struct link_channel *c);
