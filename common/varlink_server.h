/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A varlink service on UNIX sockets: frames, introspection (org.varlink.service), validation
 * against the interface's text before a handler runs, pipelining, "more", "oneway", limits, peer
 * credentials. Handlers get a call and know no socket. Replies leave in the order in which a
 * connection's calls came; a call that is not answered yet holds back later ones' replies, not
 * their handling.
 */

#include "common/budget.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct varlink_server;
struct varlink_call;
struct flat;

struct varlink_peer {
	uid_t uid;
	gid_t gid;
	pid_t pid;
};

/*
 * Handles one call. parameters is borrowed, valid and has the declared types. It answers
 * now or later: while it keeps the call it needs no reference; the final reply, error, or the
 * peer's vanishing ends the call, and after that the pointer is dead (see varlink_call_on_gone).
 * Returns 0, or a negative errno: the server then answers ERROR_PREFIX.Failed with strerror.
 */
typedef int (*varlink_method_fn)(struct varlink_call *call, json_t *parameters, void *arg);

/* The same for a method that is called often, with parameters that need no tree (see flat.h). It
 * gets most calls; the rest, and all with a flag such as "more", go to the other one. */
typedef int (*varlink_flat_fn)(struct varlink_call *call, const struct flat *parameters, void *arg);

struct varlink_method {
	const char *name; /* without the interface's name: "Status" */
	varlink_method_fn fn;
};

struct varlink_flat_method {
	const char *name;
	varlink_flat_fn fn;
};

/* A list of thousands is one answer; its readers (systemd's varlinkctl among them) take as much. */
enum { VARLINK_REPLY_BYTES = 16 << 20 };

/* What an integer may be that is a parameter of this name, of whatever method. */
struct varlink_range {
	const char *parameter;
	int64_t min, max;
};

struct varlink_limits {
	size_t message_bytes; /* one call (default 1 MiB) */
	size_t reply_bytes;   /* one answer (VARLINK_REPLY_BYTES) */
	size_t queued_bytes; /* unsent output of one connection before it counts as a slow reader (4
				MiB) */
	int connections;     /* (4096) */
	int calls_in_flight; /* per connection: reading pauses above it (64) */
	int message_ms;	     /* in which a message that has begun must be complete (30 s) */
	/* Of connections and of bytes that wait (see varlink_options.budget): what one account may
	 * have (connections: no less than all; bytes: a quarter), and what is left for trusted ones
	 * (0). */
	int account_connections, reserved_connections;
	size_t bytes, account_bytes,
		reserved_bytes;	  /* bytes: 64 MiB; none where a budget is given */
	const char *account_name; /* what an account is ("one user") */
};

/* Whom a connection counts for. */
struct varlink_account {
	uint64_t key;
	bool trusted; /* has no share but all there is, and the reserve */
};

/* One more interface of the same server; its handlers have an argument of their own. */
struct varlink_also {
	const char *idl;
	const struct varlink_method *methods;
	const struct varlink_flat_method *flat; /* or NULL */
	const struct varlink_range *ranges;	/* or NULL */
	const char *limit_error;		/* as below */
	void *arg;
};

struct varlink_options {
	const char *vendor, *product, *version, *url; /* org.varlink.service.GetInfo */
	const char *idl;			      /* interface text, borrowed for ever */
	const struct varlink_method *methods;	      /* ends with a NULL name; a method of the
						       * interface without a row: MethodNotImplemented */
	const struct varlink_flat_method *flat;	      /* of those that have one; ends likewise;
						       * or NULL */
	const struct varlink_range *ranges;	      /* ends with a NULL name; or NULL */
	const struct varlink_also *also;	      /* ends with a NULL idl; or NULL */
	struct varlink_limits limits;		      /* zeros mean the defaults */
	/* May be NULL. Called before each handler, of whatever interface
	 * (varlink_call_interface()): 0, or non-zero after having answered the call. parameters is
	 * NULL before a flat handler.
	 */
	int (*authorize)(
		struct varlink_call *call, const char *method, json_t *parameters, void *arg);
	/* May be NULL. Called when the last connection has closed. May not free the server. */
	void (*idle)(void *arg);
	/* May be NULL. A new connection: 0 and, in ret_user, its word (varlink_call_user()), or
	 * non-zero to have it refused as one over the limit. */
	int (*opened)(const struct varlink_peer *peer, void **ret_user, void *arg);
	/* May be NULL. A connection that has a word is at its end, all its calls are gone. */
	void (*closed)(void *user, void *arg);
	/* May be NULL. Called before answers leave on some connection: what they promise is to be
	 * kept by its end. Where it is given, answers leave together, in the end of the turn in
	 * which their calls have come. May answer no calls. */
	void (*leaving)(void *arg);
	/* May be NULL. Called before answers leave at the end of a connection's turn, never inside
	 * an answer: gives those that must be with others by then, and sends them
	 * (varlink_call_flush()). */
	void (*ahead)(void *arg);
	/* Connections may bring a descriptor with their calls (SCM_RIGHTS): varlink_call_brought().
	 * Where it is false these never come into this process. */
	bool descriptors;
	/* The error of the interface for what is over a limit, with message. NULL: LimitReached
	 * with what and limit. */
	const char *limit_error;
	/* What connections may hold, in bytes: of calls that have not come as a whole, and of
	 * answers that are not read yet. Borrowed, outlives the server. NULL: one of its own. */
	struct budget *budget;
	/* Calls that are not answered yet are held, too: for handlers that keep them, and count
	 * nothing themselves. */
	bool count_calls;
	/* May be NULL: all connections are trusted, each user's counting for that user. Whom a
	 * connection with that word, or NULL, counts for. Asked when it is new, after opened, and
	 * by varlink_call_recount(). */
	void (*account)(const struct varlink_peer *peer, void *user, struct varlink_account *ret,
		void *arg);
	void *arg; /* for all of these, and for all handlers but those of also */
};

_must_check_ int varlink_server_new(struct loop *loop, const struct varlink_options *opt,
	struct varlink_server **ret, struct error *err);
/* Ends all connections: what was answered is sent as far as it goes without waiting, open calls are
 * gone. Never called from inside a handler. */
struct varlink_server *varlink_server_free(struct varlink_server *s);
DEFINE_CLEANUP(struct varlink_server *, varlink_server_free)

/* Listens on a bound and listening socket (takes fd). */
_must_check_ int varlink_server_listen_fd(struct varlink_server *s, int fd, struct error *err);

/*
 * Binds path with mode, replacing a stale socket (one that nobody listens on) but not a live one:
 * -EADDRINUSE with a clear text. The socket is bound under a temporary name and renamed, so that
 * it is never visible before it has its mode. Removed at varlink_server_free().
 */
_must_check_ int varlink_server_listen_path(
	struct varlink_server *s, const char *path, mode_t mode, struct error *err);

/* Serves one connected socket (takes fd). */
_must_check_ int varlink_server_add_connection(struct varlink_server *s, int fd, struct error *err);

/* Accepts no more and closes each connection after its calls are answered; fn then runs once. */
void varlink_server_drain(struct varlink_server *s, loop_fn fn, void *arg);

/* From now on each answer is checked against the interface too, and one that does not fit is
 * replaced by Failed, saying what is wrong with it. For tests: it costs time. */
void varlink_server_check_replies(struct varlink_server *s, bool check);

int varlink_server_connections(const struct varlink_server *s);

/* Bytes that the sockets of all connections have taken so far: whether anybody still reads. */
uint64_t varlink_server_sent(const struct varlink_server *s);

/* What all connections hold together, in bytes: see varlink_options.budget. */
size_t varlink_server_bytes(const struct varlink_server *s);

/* Another limits.connections, or limits.bytes, from now on; what is there stays. */
void varlink_server_limit_connections(struct varlink_server *s, int connections);
void varlink_server_limit_bytes(struct varlink_server *s, size_t bytes);

/*
 * Accepts who waits and handles what lies in the sockets by now, as far as limits of calls and
 * bytes allow: what a process has sent before it ended, when its end is seen first. Answers leave
 * in the next turn. Does nothing from inside a handler.
 */
void varlink_server_receive(struct varlink_server *s);

/* Sends at once what answers there are, which is done in the next turn otherwise: for those who
 * have slow work to do in this one. No connection ends in it. */
void varlink_server_flush(struct varlink_server *s);

/*
 * The next four all take parameters (NULL means {}), also when they fail. They return 0,
 * -ECONNRESET when the peer is gone or no longer served, -EMSGSIZE for an answer over
 * limits.reply_bytes (the peer then gets Failed; a notification is left out), -EDQUOT or -ENOBUFS
 * for one that there is no room for (the peer then gets the error for what is over a limit; the
 * connection of a stream ends), or -ENOMEM. Connections never end inside them.
 */

/* Final answer; the call is dead afterwards. */
int varlink_reply(struct varlink_call *call, json_t *parameters);
/* One of several answers; only in a call with "more" (else -EBADE, nothing is sent). */
int varlink_notify(struct varlink_call *call, json_t *parameters);
/* name without a dot is one of the call's interface; the call is dead afterwards. */
int varlink_error(struct varlink_call *call, const char *name, json_t *parameters);
/* InvalidParameter of org.varlink.service, naming parameter. */
int varlink_error_parameter(struct varlink_call *call, const char *parameter);
/* ExpectedMore of org.varlink.service: the method is a stream and the call was without "more". */
int varlink_error_expected_more(struct varlink_call *call);
/*
 * A final answer with which descriptors go to the peer (SCM_RIGHTS): those of a ring (see ring.h),
 * by which the connection takes and answers calls from then on, too, and of also_fd, which stays
 * the caller's (-1: none). Takes parameters. 0: the call is dead; there is a ring now, unless the
 * call wants no answer. -ECONNRESET: the call is dead, and there is no ring, whatever the others
 * would have returned. The call is not answered yet: -EALREADY where the connection has a ring,
 * -EBUSY where another of its calls is open, or another negative errno where none can be had.
 */
int varlink_reply_ring(struct varlink_call *call, json_t *parameters, int also_fd);
/* Final answer from ready JSON text of the parameters object (len bytes, borrowed). */
int varlink_reply_text(struct varlink_call *call, const char *text, size_t len);

/* One of several answers from such text. */
int varlink_notify_text(struct varlink_call *call, const char *text, size_t len);

/* The error of the call's interface for what is over a limit; the call is dead afterwards. */
int varlink_error_limit(struct varlink_call *call, const char *what, int64_t limit);

bool varlink_call_more(const struct varlink_call *call);
bool varlink_call_oneway(const struct varlink_call *call);
const struct varlink_peer *varlink_call_peer(const struct varlink_call *call);
/* A word of the caller's own for the connection, the same for all its calls; NULL at first. */
void varlink_call_set_user(struct varlink_call *call, void *user);
void *varlink_call_user(const struct varlink_call *call);
/* Whom the connection counts for. */
struct varlink_account varlink_call_account(const struct varlink_call *call);
/* The connection may count for another account now. */
void varlink_call_recount(struct varlink_call *call);
/* What the connection's account holds, in bytes; lags by a turn for small messages. */
size_t varlink_call_account_bytes(const struct varlink_call *call);
/* Sends at once what answers the connection has, as far as its peer takes them. */
void varlink_call_flush(struct varlink_call *call);
/* The connection's socket: borrowed, for who hands it on. Where the server closes the connection
 * the peer sees that, but not at the server's end. */
int varlink_call_socket(struct varlink_call *call);
/* The descriptor that the connection has brought, borrowed for the life of the call, and still
 * there for who is told that the call is gone; -1: none. The next one replaces it. */
int varlink_call_brought(const struct varlink_call *call);
/* "io.elasticd.Manager" and "Status"; borrowed for the life of the call. */
const char *varlink_call_interface(const struct varlink_call *call);
const char *varlink_call_method(const struct varlink_call *call);
/* Calls fn(arg) when the call ends without an answer (peer vanished, server freed): drop the
 * pointer. Not called once a final answer was given. */
void varlink_call_on_gone(struct varlink_call *call, loop_fn fn, void *arg);
/* True while the connection's unsent output is over limits.queued_bytes, or a small part of that
 * while its account or all hold much: send no more notifications. fn(arg) then runs once, when it
 * has drained to half. */
bool varlink_call_congested(struct varlink_call *call, loop_fn fn, void *arg);
