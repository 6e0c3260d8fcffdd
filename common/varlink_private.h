/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the varlink server share; nobody else includes this.
 *
 *   varlink_server.c      the server's life, its connections as a whole, draining
 *   varlink_listen.c      listening sockets and what happens when descriptors run out
 *   varlink_connection.c  one connection: bytes in and out, pausing, its end
 *   varlink_limits.c      what connections may hold together, and for how long
 *   varlink_dispatch.c    from a message to a handler; varlink_flat.c the short way
 *   varlink_ring.c        rings: bytes in and out, when they are looked at
 *   varlink_call.c        answers and their order
 *   varlink_service.c     org.varlink.service
 *
 * A connection ends only from its own readiness, from the server's turn (varlink_server_turn) or
 * with the server: never inside a handler or one of the answering functions. Whatever changes a
 * connection there "touches" it, and the turn looks at it once, after the current callbacks: so
 * many answers leave in one write.
 */

#include "common/ring.h"
#include "common/varlink_flat.h"
#include "common/varlink_frame.h"
#include "common/varlink_idl.h"
#include "common/varlink_message.h"
#include "common/varlink_server.h"

#include <sys/queue.h>

struct varlink_connection;
TAILQ_HEAD(varlink_calls, varlink_call);
TAILQ_HEAD(varlink_connections, varlink_connection);
TAILQ_HEAD(varlink_listeners, varlink_listener);

#define VARLINK_SERVICE "org.varlink.service."

struct varlink_interface {
	struct varlink_idl *idl;
	const char *text;
	const struct varlink_method *methods;
	const struct varlink_range *ranges;
	const char *limit_error;
	struct varlink_flat flat;
	void *arg;
};

/* Those of varlink_options.also are behind them. */
enum { VARLINK_STANDARD, VARLINK_OWN, VARLINK_ALSO };

enum {
	/* Small calls are taken so many bytes at a time: see receive(). */
	VARLINK_RECEIVE_BYTES = 8192,
	/* Messages as long as this are counted at once, shorter ones at the end of the turn. */
	VARLINK_LONG_BYTES = 65536,
};

/* Those of all connections. */
struct varlink_rings {
	struct varlink_connections hot;	 /* used lately: looked at, asleep and awake together */
	struct varlink_connection *next; /* while they are gone through */
	bool awake;			 /* they are looked at in each turn, which does not wait */
	struct loop_again *again;	 /* NULL: there has been no ring yet */
	int n_hot, cpus;		 /* that this process may run on */
	bool crowded; /* not more of them than of the hot: spinning would not pay */
	bool spun;
	int64_t turn_ns, used_ns, slept_ns; /* when the turn began, when one was used, all slept */
	int64_t spin_ns;		    /* for how long it pays to look on */
};

/* That of one. */
struct varlink_ring {
	struct ring ring;
	TAILQ_ENTRY(varlink_connection) entry;
	int fds[2]; /* go with the next byte over the socket; -1: none, or gone */
	bool hot;
	bool unread;	 /* nobody has looked, since the connection could take no calls */
	bool answers;	 /* the calls that are open came by it, and no answer was too long */
	bool partial;	 /* what the connection's frame holds came by it */
	size_t owed;	 /* bytes in it that belong to calls whose answers go over the socket */
	unsigned unused; /* looks that found nothing */
};

struct varlink_server {
	struct loop *loop;
	struct varlink_limits limits;
	struct varlink_interface *interfaces;
	size_t n_interfaces;
	int (*authorize)(struct varlink_call *, const char *, json_t *, void *);
	json_t *info; /* what GetInfo answers */
	void (*idle)(void *);
	bool descriptors; /* are taken from connections */
	int (*opened)(const struct varlink_peer *, void **, void *);
	void (*closed)(void *, void *);
	void (*leaving)(void *);
	void (*ahead)(void *);
	void *arg; /* of all these functions */
	bool check_replies;
	int handling; /* handlers that are being run */
	bool in_turn; /* varlink_server_turn() */

	struct varlink_connections connections, touched;
	struct varlink_connections unfinished; /* in the middle of a message, the oldest first */
	struct loop_timer *unfinished_timer;
	int n_connections;
	struct budget *places, *bytes; /* connections, and what they hold */
	struct budget *own_bytes;      /* NULL: they are somebody else's */
	bool count_calls;
	void (*account)(const struct varlink_peer *, void *, struct varlink_account *, void *);
	char received[65536];

	struct varlink_listeners listeners;
	struct loop_timer *accept_again;
	int spare_fd; /* given up for a moment to accept and drop, when descriptors have run out */
	bool exhausted;

	struct varlink_rings rings;
	uint64_t sent_bytes; /* that sockets and rings took, of all connections */
	bool draining, ends;
	loop_fn drained;
	void *drained_arg;
};

struct varlink_connection {
	struct varlink_server *server;
	TAILQ_ENTRY(varlink_connection) entry, touched_entry, unfinished_entry;
	struct varlink_account account;
	struct budget_holder place, bytes;
	int fd;
	struct loop_fd *watch;
	int watched;
	struct varlink_peer peer;
	void *user;
	int brought; /* a descriptor that came with its calls; -1: none */

	struct varlink_frame in;
	struct varlink_buffer out;
	struct varlink_ring *ring; /* NULL: it has none */
	size_t held;		   /* bytes of answers that wait for earlier calls */
	struct varlink_calls calls;
	int n_calls;
	size_t open_bytes;	/* of these calls, where they count */
	uint64_t unfinished_ms; /* since when it is in the middle of a message */

	bool eof;     /* the peer sends no more, but reads */
	bool closing; /* no further call is taken; closed when those that are open are answered */
	bool doomed;  /* closed at the next opportunity */
	bool deaf;    /* the peer takes no more */
	bool blocked; /* the socket takes no more now */
	bool handed;  /* others have its socket, too */
	bool touched;
	bool unfinished; /* is among these */
	bool busy;	 /* looked at right now: needs no touch */
};

struct varlink_call {
	struct varlink_connection *connection;
	TAILQ_ENTRY(varlink_call) entry;
	const struct varlink_interface *interface; /* VARLINK_OWN until it is known */
	const struct varlink_member *method;	   /* NULL for a call that reached none */
	bool more, oneway;
	bool answered;		    /* dead for its handler, its answer waits */
	size_t bytes;		    /* its own, until it is answered, where they count */
	struct varlink_buffer held; /* answers, until earlier calls are done */
	loop_fn gone;
	void *gone_arg;
	loop_fn uncongested;
	void *uncongested_arg;
	bool *dead; /* set when the call ends, for the dispatcher */
};

/* varlink_server.c */
void varlink_server_turn(void *arg);
void varlink_server_connection_gone(struct varlink_server *s);

/* varlink_listen.c */
void varlink_listen_fini(struct varlink_server *s);
/* Accepts who waits on any of the sockets. */
void varlink_listen_accept(struct varlink_server *s);
/* One unasked answer, so that the peer can say why it is not served. fd stays the caller's. */
void varlink_listen_refuse(const struct varlink_server *s, int fd, const char *what, int64_t limit);

/* varlink_connection.c: takes fd. */
_must_check_ int varlink_connection_new(struct varlink_server *s, int fd, struct error *err);
struct varlink_connection *varlink_connection_free(struct varlink_connection *c);
size_t varlink_connection_queued(const struct varlink_connection *c);
/* How much of it leaves before what the call says next. */
size_t varlink_connection_before(
	const struct varlink_connection *c, const struct varlink_call *call);
void varlink_connection_touch(struct varlink_connection *c);
bool varlink_connection_takes_calls(const struct varlink_connection *c);
/* Takes no more of it: what has not come as a whole is dropped and, where it is answered at all,
 * the error says which limit that was over. */
void varlink_connection_refuse(struct varlink_connection *c, const char *what, int64_t limit);
/* Sends what the peer takes now; never frees the connection. */
void varlink_connection_send(struct varlink_connection *c);
/* Handles, sends, and frees the connection when it is at its end. */
void varlink_connection_run(struct varlink_connection *c);
/* Takes in and handles what has come, and frees the connection when it is at its end. */
void varlink_connection_receive(struct varlink_connection *c);
/* Has it closed at the next opportunity; the text is for a debug line. */
void varlink_connection_doom(struct varlink_connection *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* varlink_limits.c */
_must_check_ int varlink_limits_init(struct varlink_server *s, const struct varlink_options *opt);
void varlink_limits_fini(struct varlink_server *s);
/* Counts a new connection. -EUSERS: it is one too many, and was told. */
_must_check_ int varlink_limits_join(struct varlink_connection *c);
void varlink_limits_leave(struct varlink_connection *c);
/* How much of a connection's output may wait before it is held back. */
size_t varlink_limits_queued(const struct varlink_connection *c);
/* Counts what it holds by now. 0, or as budget_hold(). */
_must_check_ int varlink_limits_count(struct varlink_connection *c);
/* The same at the end of its turn: what may not wait is refused. */
void varlink_limits_settle(struct varlink_connection *c);
/* A message has come as a whole. */
void varlink_limits_finished(struct varlink_connection *c);
/* In words, what budget_hold() of bytes has refused, and the limit of that. */
const char *varlink_limits_what(const struct varlink_server *s, int error, int64_t *ret_limit);

/* varlink_ring.c: the first two are for any server, the next ones for connections that have a ring
 */
void varlink_rings_init(struct varlink_server *s);
void varlink_rings_fini(struct varlink_server *s);
void varlink_ring_free(struct varlink_connection *c);
/* Whether there are bytes to be taken, or something is wrong. */
bool varlink_ring_ready(const struct varlink_connection *c);
/* Takes some bytes in, or leaves them for when the connection may take calls; false where there are
 * none. */
bool varlink_ring_take(struct varlink_connection *c);
/* len bytes have come over the socket: how many, of the first ones, are bells. */
size_t varlink_ring_bells(struct varlink_connection *c, const char *data, size_t len);
/* After the connection's turn: a ring that was left alone is looked at again. */
void varlink_ring_resume(struct varlink_connection *c);
/* As varlink_buffer_send(), of what is queued. */
_must_check_ int varlink_ring_send(struct varlink_connection *c);

/* varlink_call.c */
struct varlink_call *varlink_call_new(struct varlink_connection *c);
/* The connection is at its end: tells the handler and frees the call. */
void varlink_call_cancel(struct varlink_call *call);
/* Failed of the call's interface. */
int varlink_error_failed(struct varlink_call *call, int error, const char *message);
/* The parameters of the error for what is over a limit, owned, and its name. */
json_t *varlink_limit_error(
	const struct varlink_interface *i, const char *what, int64_t limit, const char **ret_name);

/* varlink_dispatch.c */
/* text is written to. */
void varlink_dispatch(struct varlink_connection *c, char *text, size_t len);
/* The interface that a call which begins so means, as far as can be seen. */
const struct varlink_interface *varlink_dispatch_guess(
	const struct varlink_server *s, const char *text, size_t len);

/* varlink_service.c */
extern const char varlink_service_idl[];
extern const struct varlink_method varlink_service_methods[];
json_t *varlink_service_info(const struct varlink_options *opt, const struct varlink_server *s);
