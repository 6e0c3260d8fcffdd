/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of the varlink server; no other file includes it.
 *
 *   server.c      the server's life, its connections as a whole, draining
 *   listen.c      listening sockets and what happens when descriptors run out
 *   connection.c  one connection: bytes in and out, pausing, its end
 *   carried.c     one without a socket
 *   promises.c    answers that wait until what they promise is kept elsewhere
 *   limits.c      what connections may hold together, and for how long
 *   dispatch.c    from a message to a handler; flat.c does it fast
 *   call.c        answers and their order
 *   service.c     org.varlink.service
 *
 * A connection ends only when its descriptor is ready, in the server's turn (varlink_server_turn)
 * or with the server: never inside a handler or one of the answering functions. These "touch" the
 * connections that they change, and the turn handles each of those once, after the current
 * callbacks: so many answers leave in one write.
 */

#include "common/varlink/flat.h"
#include "common/varlink/frame.h"
#include "common/varlink/idl.h"
#include "common/varlink/message.h"
#include "common/varlink/server.h"

#include <sys/queue.h>

struct varlink_connection;
TAILQ_HEAD(varlink_calls, varlink_call);
TAILQ_HEAD(varlink_connections, varlink_connection);
TAILQ_HEAD(varlink_listeners, varlink_listener);

#define VARLINK_SERVICE "org.varlink.service."

struct varlink_interface {
	struct varlink_idl *idl;
	const char *text;
	char *described; /* the answer with text, once a peer asked for it */
	size_t described_len;
	const struct varlink_method *methods;
	const struct varlink_range *ranges;
	struct varlink_flat flat;
	bool promises;
	void *arg;
};

/* The interfaces of varlink_options.more_interfaces come after these. */
enum { VARLINK_STANDARD, VARLINK_OWN, VARLINK_MORE };

enum {
	/* Small calls are read in pieces of this size: see receive_calls(). */
	VARLINK_RECEIVE_BYTES = 8192,
	/* Longer messages are counted at once, shorter ones at the end of the turn. */
	VARLINK_LONG_BYTES = 65536,
};

struct varlink_server {
	struct loop *loop;
	struct varlink_limits limits;
	struct varlink_interface *interfaces;
	size_t n_interfaces;
	int (*authorize)(struct varlink_call *, const char *, json_t *, void *);
	bool (*relay)(struct varlink_call *, const char *, json_t *, void *);
	json_t *info; /* the answer to GetInfo */
	void (*idle)(void *);
	bool descriptors; /* whether descriptors are accepted from peers */
	const char *(*refuses)(const struct varlink_peer *, json_t **, void *);
	int (*opened)(const struct varlink_peer *, void **, void *);
	void (*shut)(void *, void *);
	void (*closed)(void *, void *);
	void (*leaving)(void *);
	int (*holds)(void *, uint64_t *);
	void (*ahead)(void *);
	void *arg; /* of all these functions */
	bool check_replies;
	int handling; /* number of handlers that are running now */
	bool in_turn; /* varlink_server_turn() is running */
	bool paused;

	struct varlink_connections connections, touched;
	struct varlink_connections withheld; /* their answers wait for varlink_server_kept() */
	struct varlink_connections
		waiting; /* their unhandled calls wait for another turn, in this order */
	struct loop_again *next_turn;
	struct varlink_connections unfinished; /* in the middle of a message, the oldest first */
	struct loop_timer *unfinished_timer;
	int n_connections;
	struct budget *places, *bytes; /* limits of connections, and of the bytes that they hold */
	struct budget *own_bytes;      /* NULL: the caller gave a budget */
	bool count_calls;
	void (*account)(const struct varlink_peer *, void *, struct varlink_account *, void *);
	char received[65536];

	struct varlink_listeners listeners;
	struct loop_timer *accept_again;
	int spare_fd; /* closed for a moment to accept and drop a connection, when descriptors have
			 run out */
	bool exhausted;

	uint64_t sent_bytes; /* that the sockets of all connections took */
	bool draining, ends;
	loop_fn drained;
	void *drained_arg;
};

struct varlink_connection {
	struct varlink_server *server;
	TAILQ_ENTRY(varlink_connection)
	entry, touched_entry, waiting_entry, unfinished_entry, withheld_entry;
	struct varlink_account account;
	struct budget_holder place, bytes;
	int fd; /* -1: it is carried (server.h) */
	struct varlink_carrier carrier;
	struct loop_fd *watch;
	int watched;
	struct varlink_peer peer;
	void *user;
	int descriptor; /* a descriptor that came with a call; -1: none */

	struct varlink_frame in;
	struct varlink_buffer out;
	size_t held; /* bytes of answers that wait for earlier calls */
	/* Where answers promise: how many bytes of out may be sent; how many behind them wait, and
	 * for what. */
	size_t free_bytes, marked_bytes;
	uint64_t mark;
	struct varlink_calls calls;
	int n_calls;
	int taken;		/* calls handled since the last turn, or since all were */
	size_t open_bytes;	/* of open calls, if these are counted */
	uint64_t unfinished_ms; /* since when a message is unfinished */

	bool eof;      /* the peer sends no more, but still reads */
	bool shut;     /* the server's shut() has run */
	bool closing;  /* takes no more calls; closed when the open ones are answered */
	bool doomed;   /* closed at the next opportunity */
	bool deaf;     /* the peer reads no more */
	bool blocked;  /* the socket, or the carrier, takes no bytes now */
	bool paused;   /* the peer of a carried one reads no more */
	bool handed;   /* other processes have its socket, too */
	bool promises; /* out has answers of an interface that promises, and no mark for them */
	bool touched, waiting, unfinished, withheld; /* it is in the lists of these names */
	bool busy;				     /* being handled now: needs no touch */
};

struct varlink_call {
	struct varlink_connection *connection;
	TAILQ_ENTRY(varlink_call) entry;
	const struct varlink_interface *interface; /* VARLINK_OWN until it is known */
	const struct varlink_member *method;	   /* NULL for a call without a known method */
	bool more, oneway;
	bool answered;		    /* the handler is done; the answer waits */
	size_t bytes;		    /* its own size, until it is answered, if calls are counted */
	struct varlink_buffer held; /* its answers, until earlier calls are done */
	loop_fn gone;
	void *gone_arg;
	loop_fn uncongested;
	void *uncongested_arg;
	bool *dead; /* set to true when the call ends, for the dispatcher */
};

/* server.c */
void varlink_server_turn(void *arg);
void varlink_server_connection_gone(struct varlink_server *s);

/* listen.c */
void varlink_listen_fini(struct varlink_server *s);
/* Accepts waiting connections on all of the sockets. */
void varlink_listen_accept(struct varlink_server *s);
/* Sends one error of the server's own interface, unasked, to a peer that is not served. The caller
 * keeps fd; takes parameters. */
void varlink_listen_send_error(
	const struct varlink_server *s, int fd, const char *error, json_t *parameters);
/* Sends a peer the error that it is over a limit. */
void varlink_listen_refuse(const struct varlink_server *s, int fd, const char *what, int64_t limit);

/* connection.c */
/* Takes fd. */
_must_check_ int varlink_connection_new(struct varlink_server *s, int fd, struct error *err);
struct varlink_connection *varlink_connection_free(struct varlink_connection *c);
/* A connection of that descriptor (-1: none) among the server's; it serves nothing yet. */
struct varlink_connection *varlink_connection_make(struct varlink_server *s, int fd);
size_t varlink_connection_queued(const struct varlink_connection *c);
/* How many bytes of the connection go out before the call's next answer. */
size_t varlink_connection_before(
	const struct varlink_connection *c, const struct varlink_call *call);
void varlink_connection_touch(struct varlink_connection *c);
bool varlink_connection_takes_calls(const struct varlink_connection *c);
/* Whether its account has had less than its time in this turn. */
bool varlink_connection_has_time(const struct varlink_connection *c);
/* Takes no more calls: drops an unfinished one, and answers it, if possible, with the error for
 * that limit. */
void varlink_connection_refuse(struct varlink_connection *c, const char *what, int64_t limit);
/* Sends what the socket takes now; never frees the connection. */
void varlink_connection_send(struct varlink_connection *c);
/* Handles calls, sends answers, and frees the connection if it is at its end. */
void varlink_connection_run(struct varlink_connection *c);
/* Reads and handles what has come, and frees the connection if it is at its end. */
void varlink_connection_receive(struct varlink_connection *c);
/* Closes the connection at the next opportunity; the text is for a debug line. */
void varlink_connection_doom(struct varlink_connection *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* carried.c */
/* Gives the carrier what it takes of the messages in the first so many bytes. */
void varlink_carried_send(struct varlink_connection *c, size_t most);

/* promises.c */
/* How many bytes of its output may be sent. */
size_t varlink_promises_sendable(struct varlink_connection *c);
/* Call it when so many of them were sent. */
void varlink_promises_sent(struct varlink_connection *c, size_t bytes);
/* Takes the connection off the list of those that wait for varlink_server_kept(). */
void varlink_promises_leave(struct varlink_connection *c);

/* limits.c */
_must_check_ int varlink_limits_init(struct varlink_server *s, const struct varlink_options *opt);
void varlink_limits_fini(struct varlink_server *s);
/* Counts a new connection. -EUSERS: it is one too many, and the peer got the error. */
_must_check_ int varlink_limits_join(struct varlink_connection *c);
void varlink_limits_leave(struct varlink_connection *c);
/* How much of a connection's output may wait before streams have to pause. */
size_t varlink_limits_queued(const struct varlink_connection *c);
/* Counts the bytes that the connection holds now. Returns as budget_hold(). */
_must_check_ int varlink_limits_count(struct varlink_connection *c);
/* As varlink_limits_count(), at the end of the turn: refuses what is over the limit. */
void varlink_limits_settle(struct varlink_connection *c);
/* Call it when a message is complete. */
void varlink_limits_finished(struct varlink_connection *c);
/* Names what budget_hold() of bytes has refused, and its limit. */
const char *varlink_limits_what(const struct varlink_server *s, int error, int64_t *ret_limit);

/* call.c */
struct varlink_call *varlink_call_new(struct varlink_connection *c);
/* The connection ends: runs on_gone and frees the call. */
void varlink_call_cancel(struct varlink_call *call);
/* Answers with the error Internal of the call's interface. */
int varlink_error_failed(struct varlink_call *call, int error, const char *message);
/* The error for a limit, which each interface declares with message and limit; owned. */
#define VARLINK_LIMIT_ERROR "ResourceExhausted"
json_t *varlink_limit_error(const char *what, int64_t limit);

/* dispatch.c */
/* Handles one message; changes text. */
void varlink_dispatch(struct varlink_connection *c, char *text, size_t len);
/* The interface of an unfinished call, guessed from its beginning. */
const struct varlink_interface *varlink_dispatch_guess(
	const struct varlink_server *s, const char *text, size_t len);

/* service.c */
extern const char varlink_service_idl[];
extern const struct varlink_method varlink_service_methods[];
json_t *varlink_service_info(const struct varlink_options *opt, const struct varlink_server *s);
