/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One TCP connection between peers: reads whole messages, and writes its owner's bytes once in each
 * turn of the loop. It never looks at the numbers or the meaning of messages. Called by link.c,
 * dial.c and listen.c. A callback may free the channel.
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
	/* May be NULL. The socket takes bytes: the owner appends to out what it has to send.
	 * Returns 0 or -ENOMEM. */
	int (*fill)(void *arg, struct varlink_buffer *out);
	/* The peer or the kernel ended the connection; or, with -EPROTO, the peer broke the
	 * protocol, and the channel can still send. No other event follows. */
	void (*ended)(void *arg, const struct error *err);
};

/* Takes fd, a connected, non-blocking socket. max_bytes limits a message. Returns 0 or a negative
 * errno. */
_must_check_ int link_channel_new(struct loop *loop, int fd, size_t max_bytes,
	const struct link_channel_events *events, void *arg, struct link_channel **ret);
struct link_channel *link_channel_free(struct link_channel *c);
DEFINE_CLEANUP(struct link_channel *, link_channel_free)

/* The connection speaks TLS from its first byte (tls NULL: it does not). host: the name that the
 * other side's certificate must have; NULL on the side that accepted the connection. tls is
 * borrowed for the life of c. 0 or -ENOMEM. */
_must_check_ int link_channel_secure(
	struct link_channel *c, const struct link_tls *tls, const char *host);

/* Whether the peer speaks plain messages, which it may do even if the side that accepted the
 * connection expects TLS. Known from the first message on. */
bool link_channel_is_plain(const struct link_channel *c);
/* Sets err for a peer that speaks plain messages but had to speak TLS. Returns -EPROTO. */
int link_channel_expects_tls(struct error *err);

/* Changes the owner and the limit of a message. */
void link_channel_hand_over(struct link_channel *c, size_t max_bytes,
	const struct link_channel_events *events, void *arg);

/* The owner has something to send: fill() runs at the end of this turn. */
void link_channel_kick(struct link_channel *c);
/* Sends at once what the socket takes. */
void link_channel_flush(struct link_channel *c);

/*
 * Sends text (a whole message with its NUL, or nothing), and closes the connection when the peer
 * has closed its side, at the latest after one second: with an earlier end the peer might not read
 * the text. Takes c, which is in list until then; link_channel_free() removes it. With list NULL it
 * closes at once.
 */
void link_channel_close(
	struct link_channel *c, const char *text, size_t len, struct link_channels *list);

/* The peer's address; text of SOCKET_ADDRESS_MAX bytes. */
void link_channel_peer_at(const struct link_channel *c, struct sockaddr_storage *ret);
void link_channel_peer(const struct link_channel *c, char *text);

/* TCP_NODELAY, and TCP_USER_TIMEOUT where timeout_ms is not 0. */
void link_channel_tune(int fd, uint64_t timeout_ms);
int link_channel_fd(const struct link_channel *c);
