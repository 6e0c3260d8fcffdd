/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A ring: memory that a server and one of its clients share beside their socket. Bytes that would
 * go over the socket go through it instead, without a system call while both ends are awake. What
 * it carries is the same stream of messages, each ended by a NUL.
 *
 * The server makes it, with all its memory and sealed, so that nobody can cut it short, and hands
 * its descriptor over with an answer. A client can still punch holes in it: what was there is then
 * zeros, which is as if it had written these, and the next access of either end takes memory for
 * them again. Only where the machine has none to give would that be a signal (SIGBUS).
 *
 * The client begins each exchange: it writes requests only while it waits for no answer, or where
 * it knows that the ring has room for all answers, either all of them into the ring or all to the
 * socket, and the answers come the same way. Two things still go over the socket: a "bell", a
 * single NUL, which is an empty message and says "look into the ring" to an end that sleeps on its
 * socket; and answers for which the ring has no room: from the first of these on all answers to
 * what was asked come over the socket (ring_spilled()).
 *
 * An end believes nothing that the other end may write: it keeps its own counters to itself, copies
 * what it takes before it looks at it, and finds a counter that cannot be (-EBADMSG). So a broken
 * end harms its own connection alone.
 *
 * An end is used by one thread at a time.
 */

#include "common/cleanup.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RING_VERSION = 1,
	RING_BYTES = 16384, /* in each direction; a power of two */
};

/* How the client waits, as it says itself. */
enum ring_wait {
	RING_RUNS,     /* it does not */
	RING_ON_BELL,  /* in the kernel, for the word to change (futex) */
	RING_ON_SOCKET /* for its socket */
};

struct ring_memory; /* laid out in ring.c */
struct ring_line;

struct ring {
	struct ring_memory *memory;
	struct ring_line *own, *other; /* what this end says, and what it is told */
	unsigned char *out;
	const unsigned char *in;
	uint32_t sent, taken; /* this end's own counters of bytes, which run free */
	uint32_t news;	      /* how often it has said something */
	uint32_t spills;      /* server: how many; client: how many of them it has seen */
};

/* --- both ends */

/* Unmaps it; r may be all zeros. A child of fork() has no such memory: there it is not to be called
 * (nor anything else) for a ring of its parent's. */
void ring_fini(struct ring *r);
/* How many bytes can be written now; -EBADMSG where the other end counts what cannot be. */
_must_check_ int ring_room(const struct ring *r);
/* Writes all of it and shows it to the other end, or -EAGAIN where there is no room, -EBADMSG. */
_must_check_ int ring_write(struct ring *r, const void *data, size_t len);
/* How many bytes there are to be read; -EBADMSG. */
_must_check_ int ring_ready(const struct ring *r);
/* Takes up to len bytes. How many; 0: there are none; -EBADMSG. */
_must_check_ int ring_read(struct ring *r, void *data, size_t len);

/* --- the server's end */

/* The memory and its descriptor, which can be closed once it was handed over. 0 or a negative
 * errno. */
_must_check_ int ring_new(struct ring *ret, int *ret_fd);
/* What has to be done so that the client sees what was written, or that answers went to the socket,
 * or that the ring is closed: a futex is woken where that is enough. True: a bell is to be sent. */
bool ring_tell(struct ring *r);
/* The answers that follow go over the socket: call it before they are sent, and ring_tell() too. */
void ring_spill(struct ring *r);
/* From now on the client has to send a bell; false where something has come before it knew. */
bool ring_sleep(struct ring *r);
void ring_wake(struct ring *r);
/* Tells the client whether more of them are at work than there are processors: then none of them is
 * to spin, which would keep the processor from who has something to do. */
void ring_crowd(struct ring *r, bool crowded);
/* Says to the client that nobody looks into the ring any more. */
void ring_close(struct ring *r);

/* --- the client's end */

/* Maps what the server has handed over. 0; -EPROTO where it is not such memory; another negative
 * errno. fd stays the caller's. */
_must_check_ int ring_open(struct ring *ret, int fd);
/* Behind what was written: whether the server sleeps, and a bell is to be sent. */
bool ring_bell_due(struct ring *r);
/* Whether answers went over the socket since this was last asked. */
bool ring_spilled(struct ring *r);
bool ring_closed(const struct ring *r);
bool ring_crowded(const struct ring *r);
/* Whether the server has taken no byte of the last len bytes that were written. */
bool ring_untouched(const struct ring *r, size_t len);
/* Waits until there is something to be read, or the ring has spilled or is closed: 1. spin: looks
 * so many times before it asks the kernel. 0: the time (in microseconds; 0: only spins) is over;
 * -EINTR. */
_must_check_ int ring_await(struct ring *r, unsigned spin, int64_t timeout_us);
/* Before the client sleeps on its socket: from now on it gets a bell there. False where there is
 * something already. ring_runs() ends it. */
bool ring_on_socket(struct ring *r);
void ring_runs(struct ring *r);
