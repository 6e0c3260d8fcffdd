/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of this room, and by features whose methods workers call (queue, preempt).
 *
 *   service.c         life, hooks of the agent
 *   commons.c         what the workers of a group share; who they are
 *   board.c           the board
 *   identity.c        which worker a connection belongs to, and how many each may open
 *   methods.c         the table, States, ReportError, errors as answers
 *   methods_kv.c      Put, Get, List, Delete; methods_watch.c Watch
 *   methods_wait.c    Barrier, CancelBarrier, Alive, WaitError, Leave, and their deadlines
 *   methods_events.c  Events
 *   barrier_event.c   the run's event of a long wait at a barrier
 *   lost.c            ends Gets that wait for a worker that is lost while a notice is up
 *   results.c         Result, and what is kept of all workers
 *   entries_json.c    entries as JSON text
 *   relay.c           calls that go to the head of a group of several hosts
 *   calls_out.c       calls over a link, at the end that makes them; calls_in.c at the other end
 *   group.c           the workers of all hosts, in the head; group_calls.c their calls
 *   socket_dir.c      the directory of worker.sock, where elasticd has not made one
 */

#include "agent/sharing/commons.h"
#include "agent/sharing/service.h"
#include "common/text/json_flat.h"
#include "common/text/json_writer.h"
#include "common/varlink/server.h"

#include <sys/queue.h>

enum {
	SHARING_INTERFACES = 4,		 /* of features, on worker.sock */
	SHARING_PAST = 8,		 /* tokens of earlier processes that a slot remembers */
	SHARING_MESSAGE_BYTES = 8 << 20, /* a value of 1 MiB, each byte of it escaped */
	SHARING_REPLY_BYTES = 64 << 20,
	SHARING_QUEUED_BYTES = 4 << 20,
	/* Bytes of entries in unread answers: below the limit, one more answer may go out. */
	SHARING_UNREAD_WORKER_BYTES = 64 << 20, /* of all connections of one worker */
	SHARING_UNREAD_BYTES = 256 << 20,	/* of all workers, and beyond it */
	SHARING_UNREAD_MORE_BYTES = 2 << 20,	/* for each of them */
	SHARING_CONNECTIONS = 256,		/* at least, where descriptors allow */
	SHARING_PER_WORKER = 4,			/* connections that each worker may always open */
	SHARING_SHARED = 64,			/* connections beyond those, for all */
};

/* The processes of one worker of this host, whose other half is the slot of the commons. */
struct sharing_slot {
	uint64_t token;		     /* of its present process; 0: it has none */
	uint64_t last_caller;	     /* token of the last process that made a call */
	uint64_t past[SHARING_PAST]; /* tokens of earlier processes */
	uint64_t stale_logged;	     /* the one of them whose last call has its event */
	unsigned n_past;
	uint64_t cancels; /* as on the board */
	pid_t pid;
	int connections;
};

struct calls_out_connection;
struct sharing_group;
struct sharing_relay;

/* A connection: what the varlink server keeps for it. */
struct sharing_peer {
	struct supervisor *sv;
	struct commons *commons;
	int slot; /* of its worker, -1: not known yet */
	struct sharing *sh;
	int counted; /* the slot that it counts for, -1: none */
	/* Of the process that it belongs to; in the head that is the number of its start. */
	uint64_t token;
	struct calls_out_connection *relayed; /* as the head knows it; NULL: it does not */
};

struct sharing {
	struct supervisor *sv;
	uid_t uid; /* the job's user */
	char *socket_path, *board_path, *board_file_path;
	int board_fd, board_file_fd;		/* the memory, -1: none; the file */
	int board_slots;			/* slots whose blocks are allocated */
	uint64_t board_attempt, board_stopping; /* as in its header */
	uint64_t board_notice, board_error;	/* likewise */
	int64_t board_save_at;
	struct board_slot board_seen; /* the last one that was read */
	bool board_damaged;	      /* it was logged */
	struct varlink_server *server;
	struct varlink_method *methods; /* of all features */
	struct commons *commons;
	struct sharing_relay *relay; /* NULL: this agent serves all calls itself */
	struct sharing_group *group; /* of several hosts, which this agent leads, or NULL */
	struct sharing_slot *slots;  /* as many as the commons have */
	int n_slots;
	int connections, max_connections; /* open, and their limit */
	int per_worker;			  /* connections that each worker may always open */
};

/* service.c */
/* NULL without sharing, and before it is initialised. */
struct sharing *sharing_of(const struct supervisor *sv);
/* The commons of this host's workers; NULL likewise. */
struct commons *sharing_commons(const struct supervisor *sv);
/* Gives all workers their slots, so that they can be named. */
void sharing_give_slots(struct sharing *sh);
/* The options that a server of io.elasticd.Worker has, of this host's workers or of all hosts'; the
 * supervisor is the arg of its callbacks. more: has room for SHARING_INTERFACES, borrowed. */
void sharing_server_options(struct supervisor *sv, const struct varlink_method *methods,
	struct varlink_interface_options *more, struct varlink_options *ret);
/* For struct varlink_options, where answers rely on the disk: makes their promises hold. */
void sharing_answers_leaving(void *arg);

/* board.c */
_must_check_ int sharing_board_open(struct sharing *sh, struct error *err);
void sharing_board_close(struct sharing *sh);
/* Allocates the blocks of n slots; without memory there is no board from then on. */
void sharing_board_reserve(struct sharing *sh, int n);
bool sharing_board_has(const struct sharing *sh, int slot);
void sharing_board_set(struct sharing *sh, uint64_t attempt, uint64_t stopping);
/* Writes the board's fields about a notice of preemption: save_at before notice. */
void sharing_board_notice(struct sharing *sh, uint64_t notice, int64_t save_at);
void sharing_board_error(struct sharing *sh, bool up);
/* Writes the token of the slot's new process, once the slot has that token. 0: the process is gone;
 * the rest of its slot stays. */
void sharing_board_expect(struct sharing *sh, int slot, uint64_t token);
/* Counts one more cancelled lease of the slot's process. */
void sharing_board_cancel(struct sharing *sh, int slot);
/* A copy of the slot, until the next call; NULL where there is none. */
const struct board_slot *sharing_board_read(struct sharing *sh, int slot);

/* identity.c: callbacks of the server of worker.sock, and Hello */
int sharing_opened(const struct varlink_peer *peer, void **ret_user, void *arg);
void sharing_shut(void *user, void *arg);
void sharing_closed(void *user, void *arg);
int sharing_authorize(struct varlink_call *call, const char *method, json_t *p, void *arg);
int sharing_hello(struct varlink_call *call, json_t *p, void *arg);
/* Sets the limits of connections for the present number of workers. */
void sharing_limit_connections(struct sharing *sh);
/* Bytes of unread answers from which on another long one is refused. */
size_t sharing_unread_bytes(const struct commons *c);
/* For struct varlink_options: each worker's connections count for that worker. */
void sharing_account(
	const struct varlink_peer *peer, void *user, struct varlink_account *ret, void *arg);
/* The slot of the call's connection, once sharing_authorize() has let it pass. */
int sharing_slot_of(const struct varlink_call *call);
/* True when the call came from the present process of its worker. */
bool sharing_is_present(const struct varlink_call *call);
/* The agent that serves the call, and the commons of the call's worker. */
struct supervisor *sharing_supervisor_of(const struct varlink_call *call);
struct commons *sharing_commons_of(const struct varlink_call *call);

/* methods.c */
extern const struct varlink_method sharing_methods[];
extern const struct varlink_flat_method sharing_flat_methods[];
/* Final answers: an error with a text and, where the error has that member, slots as missing. */
int sharing_fail(struct varlink_call *call, enum status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int sharing_fail_missing(const struct commons *c, struct varlink_call *call, enum status status,
	const char *message, const int *slots, size_t n);
/* Final answer with one integer. */
int sharing_reply_int(struct varlink_call *call, const char *name, int64_t n);
/* Final answer of Hello, for the worker that the connection belongs to. */
int sharing_hello_reply(struct varlink_call *call);
/* An io.elasticd.Worker.GroupError, owned. */
json_t *sharing_error_json(const struct commons *c, const struct members_error *e);
json_t *sharing_names_json(const struct commons *c, const int *slots, size_t n);
/* The bytes that the parameter value or base64 of a call gives: borrowed from p, or owned by the
 * caller in ret_owned. Returns 0, or non-zero after having answered the call. */
_must_check_ int sharing_bytes(struct varlink_call *call, const struct flat *p, const void **ret,
	size_t *ret_len, void **ret_owned);

/* methods_kv.c */
/* Answers the call with an error, and returns true, where one more long answer is too much. */
bool sharing_too_much_unread(struct varlink_call *call);
int sharing_put(struct varlink_call *call, const struct flat *p, void *arg);
int sharing_get(struct varlink_call *call, const struct flat *p, void *arg);
int sharing_list(struct varlink_call *call, json_t *p, void *arg);
int sharing_delete(struct varlink_call *call, json_t *p, void *arg);

/* methods_watch.c */
int sharing_watch(struct varlink_call *call, json_t *p, void *arg);

/* methods_wait.c */
int sharing_barrier(struct varlink_call *call, const struct flat *p, void *arg);
int sharing_cancel_barrier(struct varlink_call *call, json_t *p, void *arg);
int sharing_alive(struct varlink_call *call, json_t *p, void *arg);
int sharing_wait_error(struct varlink_call *call, json_t *p, void *arg);
int sharing_leave(struct varlink_call *call, json_t *p, void *arg);

/* methods_events.c */
int sharing_events(struct varlink_call *call, json_t *p, void *arg);

/* results.c */
void sharing_record(struct supervisor *sv); /* results.json, at the end of the run */
int sharing_method_results(struct varlink_call *call, json_t *p, void *arg);
int sharing_result(struct varlink_call *call, const struct flat *p, void *arg);
/* Sets the result that a call of Result gives. Returns false after having answered the call. */
bool sharing_set_result(struct varlink_call *call, const struct flat *p);

/* relay.c */
/* Has the head answer the call. */
int sharing_relay_call(struct varlink_call *call, json_t *p);
/* For struct varlink_options. */
bool sharing_relay_worker(struct varlink_call *call, const char *method, json_t *p, void *arg);
/* The hook relays_call. */
bool sharing_relay_operator(struct supervisor *sv, struct varlink_call *call, json_t *p);
void sharing_relay_shut(struct sharing_peer *peer);
void sharing_relay_closed(struct sharing_peer *peer);

/* entries_json.c */
/* An Entry; with change, a Change. */
void sharing_text_entry(struct json_writer *t, const struct store_entry *e, bool change);
/* "key":"..." or "base64":"...". */
void sharing_text_bytes(struct json_writer *t, const char *key, const void *data, size_t len);
/* Final answer with this text. */
int sharing_text_reply(struct varlink_call *call, const struct json_writer *t);
