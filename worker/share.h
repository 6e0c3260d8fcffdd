/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a connection shares with the agent: after a few calls it asks for a ring, and from then on
 * calls that fit go through it instead of the socket. The first that brings a mirror gives it to
 * its pool. All of it is an offer: where there is none, or ELASTICD_SHARE is 0, all goes over the
 * socket.
 *
 * A call goes as a whole by the ring or as a whole by the socket, as do its answers, but for a ring
 * that has spilled: those that follow come over the socket. Only pool.h includes this.
 */

#include "common/key_mirror.h"
#include "common/ring.h"
#include "common/varlink_message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct conn;
struct deadline;
struct elasticd;
struct pool;

enum {
	SHARE_AFTER = 8, /* calls: what makes fewer is served well enough by the socket */
	SHARE_FDS = 2,	 /* of a ring and of a mirror */
};

enum share_state {
	SHARE_NOT_YET,
	SHARE_ASKED, /* what it answers is still to come, before anything else */
	SHARE_OVER,  /* there is a ring, or none to be had */
};

/* A connection's. All zeros: one that has just been made. */
struct share {
	struct ring ring; /* without memory: none */
	enum share_state state;
	bool by_ring;	/* what was asked last went by the ring; its answers come there, too */
	size_t asked;	/* so many bytes of it */
	unsigned calls; /* up to SHARE_AFTER */
	int fds[SHARE_FDS], n_fds;
	int64_t spin_ns; /* it looks so long before it sleeps */
	unsigned unspun; /* waits since it last tried to */
	uint64_t mirror; /* the number of the mirror that came with it; 0: none */
};

/* For a connection that is not used any more; in a child of fork() (ours false) its memory is the
 * parent's alone. */
void share_fini(struct share *s, bool ours);

/* Before a call of which nothing has gone: asks for memory where it is time for that, and waits for
 * the answer. 0, or a negative errno as conn_receive() has it; called again it goes on. */
_must_check_ int share_ready(struct conn *c, struct deadline *d);
/* Sends all of b. 1; 0: it is to go over the socket. A negative errno: nothing has gone, and the
 * connection is of no more use. */
_must_check_ int share_send(struct conn *c, const struct varlink_buffer *b);

/* Says that there is something in the ring. 0, or a negative errno where nobody will look. */
_must_check_ int share_bell(struct conn *c);
/* Takes what has come by the ring, without waiting. 1: there was something, or it has spilled; 0;
 * or a negative errno. */
_must_check_ int share_take(struct conn *c, struct deadline *d);
/* Looks for what comes by the ring, and waits for it a while. 1: look again at what there is; 0:
 * the socket is to be waited for, and share_received() to be called then. -ESTALE, -EINTR or
 * another negative errno. */
_must_check_ int share_receive(struct conn *c, struct deadline *d);
/* After a recv() that has returned n. 1: look again; 0: what was received counts as ever; or a
 * negative errno. */
_must_check_ int share_received(struct conn *c, struct deadline *d, const char *data, ssize_t n);
/* The agent has hung up: whether it has taken nothing of what was asked. */
bool share_untouched(const struct share *s);

/* --- the mirror; these take the pool's lock */

/* c, which is busy, has brought the descriptor of one, which stays the caller's. */
void share_mirror(struct pool *p, struct conn *c, int fd);
/* As key_mirror_get(); 0, too, where there is none, where its agent may be gone, or would not
 * answer with that: it refuses this process, or tells of the group's error. h is not looked at once
 * it is being closed. */
_must_check_ int share_get(
	struct elasticd *h, struct pool *p, const char *key, void *value, size_t *ret_len);
