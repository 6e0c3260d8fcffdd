/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A varlink service on UNIX sockets: frames, introspection (org.varlink.service), validation
 * against the interface's text before a handler runs, pipelining, "more", "oneway", limits, peer
 * credentials. Handlers get a call and know no socket. Replies leave in the order in which a
 * connection's calls came; a call that is not answered yet holds back later ones' replies, not
 * their handling.
 */

#include "common/base/budget.h"
#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"
#include "common/varlink/validate.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct varlink_server;
struct varlink_connection;
struct varlink_call;
struct flat;

struct varlink_peer {
	uid_t uid;
	gid_t gid;
	pid_t pid;
};

/*
 * Handles one call. parameters is borrowed, valid and has the declared types. The handler answers
 * now or later. It may keep the call without a reference: the final reply or error ends the call,
 * or the peer goes (see varlink_call_on_gone); after that the pointer is invalid. Returns 0, or a
 * negative errno: the server then answers ERROR_PREFIX.Internal with strerror.
 */
typedef int (*varlink_method_fn)(struct varlink_call *call, json_t *parameters, void *arg);

/* For a method that is called often, with a view of its parameters (see common/text/json_flat.h):
 * a plain call is read in place, any other is parsed first. */
typedef int (*varlink_flat_fn)(struct varlink_call *call, const struct flat *parameters, void *arg);

struct varlink_method {
	const char *name; /* without the interface's name: "Status" */
	varlink_method_fn fn;
};

struct varlink_flat_method {
	const char *name;
	varlink_flat_fn fn;
};

/* A list of thousands is one answer; readers such as systemd's varlinkctl accept that much. */
enum { VARLINK_REPLY_BYTES = 16 << 20 };

struct varlink_limits {
	size_t message_bytes; /* one call (default 1 MiB) */
	size_t message_units; /* of values in one call: see json_units() (any) */
	size_t reply_bytes;   /* the longest answer (VARLINK_REPLY_BYTES) */
	size_t queued_bytes; /* unsent output of one connection before it counts as a slow reader (4
				MiB) */
	int connections;     /* (4096) */
	int calls_in_flight; /* per connection: reading pauses above it (64) */
	int message_ms;	     /* how long a message may take from its first byte to its end (30 s) */
	/* Of connections, and of bytes that wait (see varlink_options.budget): the most for one
	 * account (connections: all; bytes: a quarter), and a reserve for trusted ones (0). */
	int account_connections, reserved_connections;
	size_t bytes, account_bytes,
		reserved_bytes;	  /* bytes: 64 MiB; unused if a budget is given */
	const char *account_name; /* for errors, such as "one user" */
};

/* The account of a connection. */
struct varlink_account {
	uint64_t key;
	bool trusted; /* may use all there is, and the reserve */
};

/* One more interface of the same server; its handlers have an argument of their own. */
struct varlink_interface_options {
	const char *idl;
	const struct varlink_method *methods;
	const struct varlink_flat_method *flat; /* or NULL */
	const struct varlink_range *ranges;	/* of parameters, in all methods; or NULL */
	bool promises;				/* answers wait for varlink_options.holds */
	void *arg;
};

struct varlink_options {
	const char *vendor, *product, *version, *url; /* org.varlink.service.GetInfo */
	const char *idl;			      /* interface text, borrowed for ever */
	const struct varlink_method *methods;	      /* ends with a NULL name; a method of the
						       * interface without a row: MethodNotImplemented */
	const struct varlink_flat_method *flat;	      /* others of it; ends likewise; or NULL */
	const struct varlink_range *ranges;	      /* ends with a NULL name; or NULL */
	const struct varlink_interface_options *more_interfaces; /* ends with a NULL idl; or NULL */
	struct varlink_limits limits;				 /* zeros mean the defaults */
	/* May be NULL. Runs before each handler, of every interface (varlink_call_interface()).
	 * Returns 0, or non-zero after having answered the call. parameters is NULL if they were
	 * read in place. */
	int (*authorize)(
		struct varlink_call *call, const char *method, json_t *parameters, void *arg);
	/* May be NULL. Runs after authorize. Returns true if it has the call answered, now or
	 * later, in place of the handler. */
	bool (*relay)(struct varlink_call *call, const char *method, json_t *parameters, void *arg);
	/* May be NULL. Runs when the last connection has closed. May not free the server. */
	void (*idle)(void *arg);
	/* May be NULL. Runs for a new connection, before anything is read. Returns NULL to serve
	 * it, or the name of the error that the peer gets, with ret_parameters (owned). */
	const char *(*refuses)(const struct varlink_peer *peer, json_t **ret_parameters, void *arg);
	/* May be NULL. Runs for a new connection. Returns 0 and, in ret_user, a pointer for it
	 * (varlink_call_user()), or non-zero to refuse it as one over the limit. */
	int (*opened)(const struct varlink_peer *peer, void **ret_user, void *arg);
	/* May be NULL. Runs when the peer of a connection with such a pointer sends no more, with
	 * calls that wait: it still reads their answers. May answer them. */
	void (*shut)(void *user, void *arg);
	/* May be NULL. Runs when a connection with such a pointer ends; all its calls are gone. */
	void (*closed)(void *user, void *arg);
	/* May be NULL. Runs before answers are sent on any connection: what they promise must be
	 * kept by its end. If it is given, answers are sent together, at the end of the turn in
	 * which their calls came. May answer no calls. */
	void (*leaving)(void *arg);
	/* May be NULL. Runs after leaving, where answers of an interface that promises are about to
	 * be sent, and those behind them. *mark is 0 for answers that it has not seen: it sets it
	 * to what they rely on. Returns 0: they may be sent; 1: they wait for
	 * varlink_server_kept(); -1: what they rely on is lost, and the connection ends. */
	int (*holds)(void *arg, uint64_t *mark);
	/* May be NULL. Runs before answers are sent at the end of a connection's turn, never inside
	 * an answer: it answers the calls whose answers have to go out first, and sends these
	 * (varlink_call_flush()). */
	void (*ahead)(void *arg);
	/* Whether calls may bring a descriptor (SCM_RIGHTS): varlink_call_descriptor(). If false,
	 * descriptors never enter this process. */
	bool descriptors;
	/* Limits what connections hold, in bytes, of unfinished calls and unread answers. Borrowed,
	 * outlives the server. NULL: the server has one of its own. */
	struct budget *budget;
	/* Also count calls without an answer: for handlers that keep calls and count nothing
	 * themselves. */
	bool count_calls;
	/* May be NULL: then all connections are trusted, each in its user's account. Sets the
	 * account of a connection with that pointer, or NULL. Runs for a new connection, after
	 * opened, and in varlink_call_recount(). */
	void (*account)(const struct varlink_peer *peer, void *user, struct varlink_account *ret,
		void *arg);
	void *arg; /* for all of these, and for all handlers but those in more_interfaces */
};

_must_check_ int varlink_server_new(struct loop *loop, const struct varlink_options *opt,
	struct varlink_server **ret, struct error *err);
/* Ends all connections: answers go out as far as the sockets take them at once, open calls get
 * on_gone. Never call it inside a handler. */
struct varlink_server *varlink_server_free(struct varlink_server *s);
DEFINE_CLEANUP(struct varlink_server *, varlink_server_free)

/* Listens on a bound and listening socket (takes fd). */
_must_check_ int varlink_server_listen_fd(struct varlink_server *s, int fd, struct error *err);

/*
 * Binds path with mode. Replaces a stale socket (on which no process listens), but not a live one:
 * -EADDRINUSE with a clear text. Binds a temporary name and renames it, so that the socket is never
 * visible without its mode. varlink_server_free() removes it.
 */
_must_check_ int varlink_server_listen_path(
	struct varlink_server *s, const char *path, mode_t mode, struct error *err);

/* Serves one connected socket (takes fd). */
_must_check_ int varlink_server_add_connection(struct varlink_server *s, int fd, struct error *err);

/*
 * A connection without a socket, whose calls come by another way, such as the link between two
 * hosts. It is served as any other: order, limits, streams, turns. send() gets one message of the
 * server (len bytes, no NUL), borrowed, and returns whether it takes another one now; if not,
 * varlink_carried_ready() says when. ended() runs once, when the server ends the connection, whose
 * pointer is then invalid, and before closed(). Both run in a turn of the server, never inside the
 * functions below.
 */
struct varlink_carrier {
	bool (*send)(void *arg, const char *text, size_t len);
	void (*ended)(void *arg);
	void *arg;
};
/* user: as of varlink_options.opened, which does not run, nor does refuses; its closed() runs. 0,
 * -EUSERS where the server has no place for one more, -ESHUTDOWN or -ENOMEM. */
_must_check_ int varlink_carried_new(struct varlink_server *s, const struct varlink_peer *peer,
	void *user, const struct varlink_carrier *carrier, struct varlink_connection **ret);
/* A call of len bytes has come, as a whole. 0 or -ENOMEM. Ends a connection where more wait to be
 * handled than one message and limits.queued_bytes. */
_must_check_ int varlink_carried_feed(struct varlink_connection *c, const char *text, size_t len);
/* send() is not to be called before varlink_carried_ready(), as where it has returned false. */
void varlink_carried_hold(struct varlink_connection *c);
/* send() takes messages again. */
void varlink_carried_ready(struct varlink_connection *c);
/* The peer reads no more, as one whose socket is full; or it reads again. */
void varlink_carried_pause(struct varlink_connection *c, bool paused);
/* The peer sends no more, and still gets its answers. */
void varlink_carried_shut(struct varlink_connection *c);
/* Handles all calls that have come, before what has come after them. May end the connection. */
void varlink_carried_receive(struct varlink_connection *c);
/* The peer is gone: c is invalid, its calls end in the server's next turn, ended() does not run. */
void varlink_carried_close(struct varlink_connection *c);

/* Accepts no more connections and closes each after its calls are answered; then fn runs once. */
void varlink_server_drain(struct varlink_server *s, loop_fn fn, void *arg);

/* From now on also checks answers against the interface, and replaces a wrong one by Internal with
 * the reason. For tests: it costs time. */
void varlink_server_check_replies(struct varlink_server *s, bool check);

int varlink_server_connections(const struct varlink_server *s);

/* Bytes that the sockets of all connections have taken so far, which shows whether peers still
 * read. */
uint64_t varlink_server_sent(const struct varlink_server *s);

/* The bytes that all connections hold: see varlink_options.budget. */
size_t varlink_server_bytes(const struct varlink_server *s);

/* Changes limits.connections, or limits.bytes; connections that are there stay. */
void varlink_server_limit_connections(struct varlink_server *s, int connections);
void varlink_server_limit_bytes(struct varlink_server *s, size_t bytes);

/*
 * Accepts waiting connections and handles what their sockets have now, within the limits of calls
 * and bytes: used when a process's end is seen before what it sent. Answers are sent in the next
 * turn. Does nothing inside a handler.
 */
void varlink_server_receive(struct varlink_server *s);

/* Takes no calls of any connection for a while; varlink_server_receive() takes them all the same.
 */
void varlink_server_pause(struct varlink_server *s, bool paused);

/* Asks holds() again about answers that wait. */
void varlink_server_kept(struct varlink_server *s);

/* Sends answers at once instead of in the next turn, for callers that do slow work in this one.
 * Ends no connection. */
void varlink_server_flush(struct varlink_server *s);

/*
 * The next four all take parameters (NULL means {}), also on failure. They return 0, -ECONNRESET if
 * the peer is gone or not served any more, -EMSGSIZE for an answer over limits.reply_bytes (the
 * peer then gets Internal; a notification is left out), -EDQUOT or -ENOBUFS for one over a limit of
 * bytes (the peer then gets the error for the limit; the connection of a stream ends), or -ENOMEM.
 * Connections never end inside them.
 */

/* Final answer; the call is invalid afterwards. */
int varlink_reply(struct varlink_call *call, json_t *parameters);
/* One of several answers, for a call with "more" (else -EBADE, and nothing is sent). */
int varlink_notify(struct varlink_call *call, json_t *parameters);
/* A name without a dot belongs to the call's interface; the call is invalid afterwards. */
int varlink_error(struct varlink_call *call, const char *name, json_t *parameters);
/* Answers with InvalidParameter of org.varlink.service, naming parameter. */
int varlink_error_parameter(struct varlink_call *call, const char *parameter);
/* Answers with ExpectedMore of org.varlink.service: the method is a stream, but the call had no
 * "more". */
int varlink_error_expected_more(struct varlink_call *call);
/* Final answer from ready JSON text of the parameters object (len bytes, borrowed). */
int varlink_reply_text(struct varlink_call *call, const char *text, size_t len);

/* As varlink_notify(), from ready text. */
int varlink_notify_text(struct varlink_call *call, const char *text, size_t len);

/* Answers with the error of the call's interface for a limit; the call is invalid afterwards. */
int varlink_error_limit(struct varlink_call *call, const char *what, int64_t limit);

bool varlink_call_more(const struct varlink_call *call);
bool varlink_call_oneway(const struct varlink_call *call);
const struct varlink_peer *varlink_call_peer(const struct varlink_call *call);
/* A pointer of the server's owner for the connection, the same in all its calls; NULL at first. */
void varlink_call_set_user(struct varlink_call *call, void *user);
void *varlink_call_user(const struct varlink_call *call);
/* The connection's account. */
struct varlink_account varlink_call_account(const struct varlink_call *call);
/* Asks again for the connection's account. */
void varlink_call_recount(struct varlink_call *call);
/* The bytes that the connection's account holds; a turn behind for small messages. */
size_t varlink_call_account_bytes(const struct varlink_call *call);
/* Sends the connection's answers at once, as far as its peer takes them. */
void varlink_call_flush(struct varlink_call *call);
/* The connection's socket: borrowed, for handing it to another process. The peer sees it when the
 * server closes the connection, but not when the server's process ends. */
int varlink_call_socket(struct varlink_call *call);
/* The descriptor that came with the connection's last call that brought one; borrowed for the life
 * of the call, and until on_gone has run; -1: none. */
int varlink_call_descriptor(const struct varlink_call *call);
/* "io.elasticd.Manager" and "Status"; borrowed for the life of the call. */
const char *varlink_call_interface(const struct varlink_call *call);
const char *varlink_call_method(const struct varlink_call *call);
/* Runs fn(arg) if the call ends without an answer (the peer is gone, the server is freed): drop the
 * pointer. Does not run after a final answer. */
void varlink_call_on_gone(struct varlink_call *call, loop_fn fn, void *arg);
/* True while the connection's unsent output is over limits.queued_bytes, or over a small part of
 * that while its account or all connections hold much: send no more notifications. fn(arg) then
 * runs once, when half of it has been sent. */
bool varlink_call_congested(struct varlink_call *call, loop_fn fn, void *arg);
