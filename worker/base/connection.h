/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One connection to the agent: bytes out, messages in, and how long either may take. Functions
 * return 0 or a negative errno; pool.h says which connections there are, calls.h makes calls on
 * them.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/varlink/frame.h"
#include "common/varlink/message.h"
#include "worker/elasticd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

struct pool;

struct conn {
	TAILQ_ENTRY(conn) entry; /* of one of the pool's lists */
	struct pool *pool;
	int fd;
	struct varlink_frame in;
	bool greeted;	  /* the answer to its Hello has come */
	atomic_bool shut; /* nothing more is sent: the agent closes it */
	size_t unsent;	  /* bytes of the call that did not go yet: its last ones */
	/* Of one that is halted: a signal has ended its call, which thread made that, and when it
	 * has to end. Of several calls: `owner`, and how many have no answer yet. */
	struct varlink_buffer call;
	const void *owner;
	size_t n_calls;
	pthread_t thread;
	int64_t end;
};

/* How long an answer may take. */
struct wait {
	int timeout_ms;	    /* negative: no limit */
	int margin_ms;	    /* added to a limit that the agent keeps: it answers by then */
	bool interruptible; /* by a signal */
	/* For calls that the agent answers at once; used instead of the three above. */
	bool prompt;
	bool resumes;		   /* after INTERRUPTED the same call goes on */
	size_t tail;		   /* bytes at its end that may differ then: the time that it has */
	const struct conn *beside; /* UNAVAILABLE once this one has ended; NULL: none */
	bool endless;		   /* it fails once no other thread could end it */
	const atomic_bool *stopped; /* once it is set, the agent ends the call; NULL: never */
	int *ret_lost;		    /* why it has no answer; may be NULL */
};
/* The socket has no listener; the connection has ended before the answer came. */
enum { CALL_UNSENT = 1, CALL_LOST };
/* UNAVAILABLE when no byte goes or comes for the handle's silence_ms. By elasticd_interruptible()
 * signals end it; the same call, made again by the same thread, then goes on. */
#define WAIT_PROMPT ((struct wait){ .timeout_ms = -1, .prompt = true })
/* The agent keeps this limit, and the library does where the agent does not. */
#define WAIT_CALL(ms) \
	((struct wait){ .timeout_ms = (ms), .margin_ms = 5000, .interruptible = true })
/* For what comes on a stream. */
#define WAIT_STREAM(ms) ((struct wait){ .timeout_ms = (ms), .interruptible = true })

/* A wait that has begun. */
struct deadline {
	int64_t end; /* -1: none */
	int64_t whole_ms;
	bool interruptible;
	bool begun;		    /* it has waited before */
	bool from_last;		    /* whole_ms counts from the last byte that went or came */
	const struct conn *beside;  /* -EOWNERDEAD once this one has ended */
	bool endless;		    /* -EDEADLK once no other thread could end it */
	const atomic_bool *stopped; /* the connection is shut once it is set */
};
struct deadline deadline_begin(const struct elasticd *h, struct wait wait);

/* Connects to the agent at path (NULL: the process's own), and waits while the agent's queue of
 * connections is full. ret is in no list. -ETIMEDOUT, -EINTR, -ECONNRESET where the pool is
 * closing, or another negative errno with err set. */
_must_check_ int conn_new(struct pool *p, const char *path, const struct deadline *d,
	struct conn **ret, struct error *err);
void conn_free(struct conn *c);

/* Sends b; c->unsent counts the bytes that did not go. */
_must_check_ int conn_send(struct conn *c, const struct varlink_buffer *b, struct deadline *d);
/* Sends the last c->unsent bytes of b. */
_must_check_ int conn_send_rest(struct conn *c, const struct varlink_buffer *b, struct deadline *d);
/* Reads the socket once, without waiting. 1: something has come; 0: nothing; -ECONNRESET: the other
 * side has closed it. */
_must_check_ int conn_read(struct conn *c);
/* Waits for the next message; it ends with a NUL, and is borrowed until the next call. -ETIMEDOUT,
 * -EINTR, -ECONNRESET, -EOWNERDEAD, -EDEADLK. */
_must_check_ int conn_receive(struct conn *c, struct deadline *d, char **ret, size_t *ret_len);

/* Ends the sending side. The agent does what it has received, gives the calls up that it cannot
 * answer then, and closes the connection; so its end says that all of this is done. */
void conn_shut(struct conn *c);
/* Whether the agent has closed a connection on which nothing else is to come. */
bool conn_ended(const struct conn *c);
