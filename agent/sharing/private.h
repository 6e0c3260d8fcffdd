/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the workers' service share, and those of features whose methods workers call,
 * too (queue, preempt).
 *
 *   service.c         life, hooks of the agent, the names of tasks
 *   board.c           the board
 *   identity.c        whose a connection is, and how many each may have
 *   methods.c         the table, Hello, States, ReportError, errors as answers
 *   methods_kv.c      Put, Get, List, Delete; methods_watch.c Watch
 *   methods_wait.c    Barrier, CancelBarrier, Alive, WaitError, Leave, and their deadlines
 *   methods_events.c  Events
 *   lost.c            who waits for a task that is lost while a notice is up
 *   results.c         Result, and what is kept of all tasks
 *   entries_json.c    entries as JSON text
 */

#include "agent/sharing/service.h"
#include "agent/store/kv.h"
#include "agent/sync/barrier.h"
#include "agent/sync/members.h"
#include "common/text/json_scan.h"
#include "common/text/json_writer.h"
#include "common/varlink/server.h"

#include <sys/queue.h>

enum {
	WORKERS_INTERFACES = 4, /* of features, on worker.sock */
	WORKERS_PAST = 8,	/* tokens of earlier processes that a slot remembers */
	WORKERS_STORE_BYTES = 256 << 20,
	WORKERS_MESSAGE_BYTES = 8 << 20, /* a value of 1 MiB, each byte of it escaped */
	WORKERS_REPLY_BYTES = 64 << 20,
	WORKERS_QUEUED_BYTES = 4 << 20,
	/* Of entries in answers that are not read yet; one more answer is let through below it. */
	WORKERS_UNREAD_TASK_BYTES = 64 << 20, /* of all connections of one task */
	WORKERS_UNREAD_BYTES = 256 << 20,     /* of all tasks, and beside it */
	WORKERS_UNREAD_MORE_BYTES = 2 << 20,  /* for each of them */
	WORKERS_RESULT_BYTES = 1 << 20,
	WORKERS_RESULTS_BYTES = 8 << 20,
	WORKERS_CONNECTIONS = 256, /* at least, where descriptors allow */
	WORKERS_SHARED = 64,	   /* connections beyond those that each task is sure of */
	WORKERS_PER_TASK = 4,	   /* those */
};

/* One task for the agent's life, by its role and index. */
struct worker_slot {
	char *name;			   /* "role:index" */
	int rank;			   /* in a->tasks when it was last seen there */
	uint64_t token;			   /* of its present process; 0: it has none */
	uint64_t spoke;			   /* of the last one that has made a call */
	uint64_t past[WORKERS_PAST], told; /* told: the stale one that an event was written of */
	unsigned n_past;
	uint64_t cancels; /* as the board says */
	pid_t pid;
	int connections;
	/* what its last process said */
	void *result;
	size_t result_len;
	bool has_result;
	int64_t said_us;
	char *error_code, *error_message;
};

/* A connection; its word in the varlink server. */
struct worker_peer {
	struct workers *w;
	int slot;	/* whose it is, -1: not known yet */
	int counted;	/* the slot that it counts for, -1: nobody's */
	uint64_t token; /* of the process that it belongs to */
};

LIST_HEAD(worker_waits, worker_wait);
LIST_HEAD(worker_watches, worker_watch);
LIST_HEAD(worker_streams, worker_stream);
LIST_HEAD(worker_asks, worker_ask);
LIST_HEAD(worker_questions, worker_question);

struct workers {
	struct agent *a;
	uid_t uid; /* the job's user */
	char *socket_path, *board_path, *board_file_path;
	int board_fd, board_file_fd;		/* the memory, -1: none; the file */
	int board_slots;			/* those that have their memory */
	uint64_t board_attempt, board_stopping; /* what its header says */
	uint64_t board_notice, board_error;	/* ... too */
	int64_t board_save_at;
	struct board_slot board_seen; /* the last that was looked at */
	bool board_damaged;	      /* told */
	struct varlink_server *server;
	struct varlink_method *methods; /* of all features */
	void (*error_fn)(void *arg);	/* workers_on_error()'s */
	void *error_arg;
	struct store *store;
	struct kv *kv;
	struct barriers *barriers;
	struct members *members;
	struct loop_timer *timer; /* the next deadline of barriers and members */
	struct worker_slot *slots;
	int n_slots;
	int *by_name, n_named;		  /* the slots that have a name, in its order */
	int connections, max_connections; /* open; at most */
	int per_task;			  /* connections that each task is sure of */
	size_t results_bytes;
	bool stopping;
	char *why; /* of the stop */
	struct worker_waits waits;
	struct worker_watches watches;
	struct worker_streams streams;
	struct worker_questions gets; /* those that may wait */
	int lost_slot;
	char *lost;    /* that slot was, while a notice is up: for those who wait for it */
	bool error_up; /* as the board says */
};

/* service.c */
/* Whether t has a slot here: not where memory was short, and not before its first start. */
bool worker_has_slot(const struct workers *w, const struct task *t);
/* Has slots for all tasks, so that they are known by their names. */
void worker_give_slots(struct workers *w);
struct task *worker_task(const struct workers *w, int slot);
void worker_error_changed(struct workers *w);
/* The slot of "role:index", -1 where the job has no such task. */
int worker_slot_named(const struct workers *w, const char *name);
const char *worker_slot_name(void *arg, int slot);
/* Whether t is a member where members are left out. */
bool worker_is_default(const struct task *t);

/* board.c */
_must_check_ int worker_board_open(struct workers *w, struct error *err);
void worker_board_close(struct workers *w);
/* Has the memory of n slots ready; the board ends where that cannot be. */
void worker_board_reserve(struct workers *w, int n);
bool worker_board_has(const struct workers *w, int slot);
void worker_board_set(struct workers *w, uint64_t attempt, uint64_t stopping);
/* Its words about a notice of preemption: save_at is there before notice. */
void worker_board_notice(struct workers *w, uint64_t notice, int64_t save_at);
void worker_board_error(struct workers *w, bool up);
/* The token of the slot's new process; 0: it is gone, what it said last stays. After the slot has
 * that token. */
void worker_board_expect(struct workers *w, int slot, uint64_t token);
/* One more lease of the slot's process was cancelled. */
void worker_board_cancel(struct workers *w, int slot);
/* A copy, until the next look; NULL where there is none now. */
const struct board_slot *worker_board_look(struct workers *w, int slot);

/* identity.c */
int worker_opened(const struct varlink_peer *peer, void **ret_user, void *arg);
void worker_closed(void *user, void *arg);
int worker_authorize(struct varlink_call *call, const char *method, json_t *p, void *arg);
int worker_hello(struct varlink_call *call, json_t *p, void *arg);
/* How many connections there may be, and what they may hold, for that many tasks. */
void worker_limit_connections(struct workers *w);
/* In answers that are not read yet, before another long one is refused. */
size_t worker_unread_bytes(const struct workers *w);
/* For struct varlink_options: each task's connections count for that task. */
void worker_account(
	const struct varlink_peer *peer, void *user, struct varlink_account *ret, void *arg);
/* The slot of the call's connection, once worker_authorize() has let it pass. */
int worker_of(const struct varlink_call *call);

/* methods.c */
extern const struct varlink_method worker_methods[];
extern const struct varlink_flat_method worker_flat_methods[];
/* Final answers: an error with a text and, where the interface has them there, slots as missing. */
int worker_fail(struct varlink_call *call, enum status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int worker_fail_missing(struct workers *w, struct varlink_call *call, enum status status,
	const char *message, const int *slots, size_t n);
/* Final answer with one integer. */
int worker_reply_int(struct varlink_call *call, const char *name, int64_t n);
/* An io.elasticd.Worker.GroupError, owned. */
json_t *worker_error_json(const struct workers *w, const struct members_error *e);
json_t *worker_names_json(const struct workers *w, const int *slots, size_t n);
/* A value or its base64 as a call has it, each NULL where it does not. */
struct worker_bytes {
	const char *value, *base64;
	size_t value_len, base64_len;
};
struct worker_bytes worker_bytes_of(const struct flat *p);
/* The bytes: borrowed from what has them, or owned by ret_owned. Returns 0, or non-zero after
 * having answered the call. */
_must_check_ int worker_bytes(struct varlink_call *call, const struct worker_bytes *b,
	const void **ret, size_t *ret_len, void **ret_owned);

/* methods_kv.c */
/* Whether one more long answer is too much, which the call is then told. */
bool worker_too_much_unread(struct varlink_call *call);
int worker_put(struct varlink_call *call, const struct flat *p, void *arg);
int worker_get(struct varlink_call *call, const struct flat *p, void *arg);
int worker_list(struct varlink_call *call, json_t *p, void *arg);
int worker_delete(struct varlink_call *call, json_t *p, void *arg);

/* Whether a Get of slot waits for a key that is not there. */
bool worker_gets(const struct workers *w, int slot);

/* methods_watch.c */
int worker_watch(struct varlink_call *call, json_t *p, void *arg);
/* All of the incarnation get Cancelled. */
void worker_watches_end(struct workers *w);
void worker_watches_free(struct workers *w);

/* methods_wait.c */
int worker_barrier(struct varlink_call *call, const struct flat *p, void *arg);
int worker_cancel_barrier(struct varlink_call *call, json_t *p, void *arg);
int worker_alive(struct varlink_call *call, json_t *p, void *arg);
int worker_wait_error(struct varlink_call *call, json_t *p, void *arg);
int worker_leave(struct varlink_call *call, json_t *p, void *arg);
void worker_barrier_answer(void *arg, void *token, const struct barrier_answer *answer);
void worker_members_answer(void *arg, void *token, const struct members_answer *answer);
/* Whether slot waits for other tasks. */
bool worker_waits(const struct workers *w, int slot);
void worker_deadlines(void *arg); /* the timer's callback; also when a deadline was added */

/* methods_events.c */
int worker_events(struct varlink_call *call, json_t *p, void *arg);
/* Tells all streams. slot -1: of no task. error may be NULL. */
void worker_event(struct workers *w, const char *event, int slot, const struct members_error *error,
	const char *text);
void worker_streams_free(struct workers *w);

/* lost.c */
/* t, which others may wait for, has ended badly, or is not started any more. */
void worker_lost(struct workers *w, const struct task *t, const char *why);
/* One more task waits, or has ended; arg: the workers. */
void worker_lost_look(void *arg);
void worker_lost_clear(struct workers *w);

/* results.c */
void workers_record(struct agent *a); /* results.json, at the end of the run */
int workers_method_results(struct varlink_call *call, json_t *p, void *arg);
int worker_result(struct varlink_call *call, const struct flat *p, void *arg);
/* Nothing is kept of what slot's earlier processes said; of all. */
void worker_result_clear(struct workers *w, int slot);
void worker_results_clear(struct workers *w);
void worker_results_error(struct workers *w, int slot, const char *code, const char *message);

/* entries_json.c */
/* An Entry; with change, a Change. */
void worker_text_entry(struct json_writer *t, const struct store_entry *e, bool change);
/* "key":"..." or "base64":"...". */
void worker_text_bytes(struct json_writer *t, const char *key, const void *data, size_t len);
/* Final answer with this text. */
int worker_text_reply(struct varlink_call *call, const struct json_writer *t);
