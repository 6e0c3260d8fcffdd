/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The work queue: tasks from when they are submitted until they are released, who has them, what
 * came of them, the resources that workers build, and calls to all workers. Pure: no clock, no
 * loop, no connection, no JSON; times are the caller's monotonic milliseconds. The agent serves a
 * job's queue from it, and libelasticd that of a process without an agent.
 *
 * Who asks for something that may take time embeds a struct queue_wait in an object of its own. It
 * is over at once (the call then returns true), or comes out of queue_over() later, once, after
 * some step; in both cases queue_wait_fini() follows when its answer has been given, and until then
 * what it points to stays. The order of queue_over() is that in which things were decided. What the
 * caller must do meanwhile (kill a worker, tell people, write the journal) comes out of
 * queue_next() likewise. No function calls back.
 *
 * Guarantees: a task that was accepted is not lost: it is queued, leased, or over, and its outcome
 * stays until it is released. It is leased to one holder at a time. It runs at least once unless it
 * is cancelled; never after the end of a cancellation of it. Tasks are leased in the order of their
 * numbers; what is put back goes behind all others. First error of a queue wins.
 */

#include "common/cleanup.h"
#include "common/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	QUEUE_NAME_MAX = 64,	   /* bytes of a queue's or a resource's name: [A-Za-z0-9_.-] */
	QUEUE_FORMAT_MAX = 31,	   /* bytes of a format */
	QUEUE_VALUE_MAX = 1 << 20, /* of a payload, a value */
	QUEUE_TEXT_MAX = 4096,	   /* of an error's message; more is cut */
	QUEUE_DETAILS_MAX = 65536, /* of its details; more is cut */
	QUEUE_NEEDS_MAX = 16,	   /* resources of one task */
	QUEUE_QUEUES_MAX = 1024,   /* queues at once */
	QUEUE_RESOURCES_MAX = 64,  /* at once */
	QUEUE_CALLS_MAX = 1024,	   /* calls that are under way */
};

/* Numbers of tasks and leases are exact in JSON everywhere. */
#define QUEUE_TASK_MAX (INT64_C(1) << 53)

#define QUEUE_STATES(X)           \
	X(QUEUED, "queued")       \
	X(RUNNING, "running")     \
	X(SUCCEEDED, "succeeded") \
	X(FAILED, "failed")       \
	X(CANCELLED, "cancelled")

enum queue_state {
#define X(name, text) QUEUE_##name,
	QUEUE_STATES(X)
#undef X
		QUEUE_N_STATES
};

struct queues;	   /* all of a job */
struct queue_task; /* opaque */
struct queue_lease;

/* Bytes and what they are. Copied where they are passed in. */
struct queue_bytes {
	const void *data;
	size_t len;
	const char *format; /* "": none */
};

/* What went wrong. Strings are borrowed from what it is about. */
struct queue_error {
	enum status code;
	const char *message, *details; /* details "": none */
	int worker;		       /* -1: none */
	int64_t task;		       /* -1: none */
};

struct queue_options {
	int64_t first_task;	     /* the number of the first task; leases count from it, too */
	size_t max;		     /* tasks that are queued, of all queues, when one is
				      * submitted; what is put back may exceed it; 0: no limit */
	size_t results;		     /* tasks that are over and not released; 0: no limit */
	size_t bytes;		     /* of payloads, results and errors together, when a task is
				      * submitted; a value that makes twice as many fails its task;
				      * 0: no limit */
	int slots;		     /* leases of one worker at once */
	uint64_t cancel_grace_ms;    /* a worker that goes on for longer is killed */
	int64_t recovery_timeout_ms; /* while tasks are queued, and no worker asks for work or has
				      * any; negative: no limit */
	unsigned blame_limit;	     /* retryable failures of one blame; 0: no limit */
	int64_t blame_window_ms;     /* within so long; negative: ever */
	unsigned deaths;  /* workers that may die with one task before it fails; 0: no limit */
	int64_t stall_ms; /* without a task that ends while some run; negative: off */
	uint64_t call_timeout_ms, answer_timeout_ms;
	bool pool;    /* a worker that dies breaks calls until queue_whole(), one that does not
		       * answer until it has ended its call */
	bool journal; /* QUEUE_DO_RECORD is wanted */
};

_must_check_ int queues_new(const struct queue_options *opt, struct queues **ret);
/* All waits are over and fini'd by now, or will never be touched again. */
struct queues *queues_free(struct queues *q);
DEFINE_CLEANUP(struct queues *, queues_free)

/* --- waits */

enum queue_wait_kind {
	QUEUE_WAIT_SUBMIT,
	QUEUE_WAIT_FETCH,
	QUEUE_WAIT_JOIN,
	QUEUE_WAIT_CANCEL,
	QUEUE_WAIT_CALL,
	QUEUE_WAIT_WORK,
};

struct queue_link {
	struct queue_link *prev, *next;
};

struct queue_wait {
	void *arg;    /* the caller's */
	bool outside; /* the caller's: it goes on where the loss of others ends the workers; see
		       * queue_fail_all() */

	/* its end */
	enum status status;
	const char *text;	  /* for people; "" for OK. Borrowed until queue_wait_fini() */
	bool failed_queue;	  /* `error` is the queue's own, raised here */
	struct queue_error error; /* where failed_queue */
	int exit_code;		  /* ... and there is one for it, else -1 */
	int64_t first;		  /* SUBMIT: the number of the first task */
	size_t accepted;	  /* SUBMIT: how many are in; CANCEL: how many were cancelled */
	size_t forgotten; /* SUBMIT, where failed_queue: how many were in; they are released */
	struct queue_lease *lease;  /* WORK: what to do; NULL with status OK: closed */
	struct queue_call *answers; /* CALL: queue_answer() */

	/* the machine's own */
	enum queue_wait_kind kind;
	uint64_t deadline_ms;
	size_t place; /* among the deadlines */
	struct queue_link link, over;
	void *of, *more;
	size_t n, left;
	bool is_over, exempt, any;
};

/* Who is over by now, first to last, each once; NULL: nobody else. */
struct queue_wait *queue_over(struct queues *q);
/* Its answer was given, or nobody wants it: it is taken out of wherever it is (a SUBMIT keeps what
 * was accepted; a WORK that got a lease which nobody has seen puts it back), and free for any use.
 */
void queue_wait_fini(struct queues *q, struct queue_wait *w, uint64_t now_ms);

/* --- coordinators. deadline_ms: UINT64_MAX for none; a deadline that has passed: do not wait. Each
 * returns true where w is over already. */

struct queue_new {
	struct queue_bytes payload;
	const char *const *needs; /* names of resources, n_needs */
	size_t n_needs;
	int64_t limit_ms; /* of one try; negative: none */
	bool alone;	  /* its failure is not the queue's */
};

/* tasks (n > 0) stay the caller's, unchanged, until w is over. exempt: Join does not hold it up. OK
 * with fewer than n accepted where the deadline has passed, and at least one is in.
 * INVALID_ARGUMENT for what can never be (a name, a size, an unknown resource: NOT_FOUND), with
 * nothing accepted. */
_must_check_ bool queue_submit(struct queues *q, struct queue_wait *w, const char *queue,
	const struct queue_new *tasks, size_t n, bool exempt, uint64_t deadline_ms,
	uint64_t now_ms);
_must_check_ bool queue_join(struct queues *q, struct queue_wait *w, const char *queue,
	uint64_t deadline_ms, uint64_t now_ms);
/* As a join that does not wait, unless an error has yet to be cleaned up. OK: it is done;
 * DEADLINE_EXCEEDED: it is not; or, with that error still pending, it took too long. */
_must_check_ bool queue_done(struct queues *q, struct queue_wait *w, const char *queue,
	uint64_t deadline_ms, uint64_t now_ms);
/* Waits for all of ids, or any one of them. ids are copied. On OK look with queue_outcome(). What
 * it waits for is not forgotten before queue_wait_fini(). NOT_FOUND naming the first that is not
 * there. */
_must_check_ bool queue_fetch(struct queues *q, struct queue_wait *w, const int64_t *ids, size_t n,
	bool any, uint64_t deadline_ms, uint64_t now_ms);
/* ids NULL: all of the queue. OK when none of them runs any more. */
_must_check_ bool queue_cancel(struct queues *q, struct queue_wait *w, const char *queue,
	const int64_t *ids, size_t n, const char *reason, uint64_t deadline_ms, uint64_t now_ms);
/* Returns how many there were. */
size_t queue_release(struct queues *q, const int64_t *ids, size_t n, uint64_t now_ms);
/* queue has one keeper more; when the last one goes, all of it is cancelled and forgotten. What has
 * a keeper is in no journal. */
_must_check_ enum status queue_keep(struct queues *q, const char *queue);
void queue_unkeep(struct queues *q, const char *queue, uint64_t now_ms);
/* No more tasks, for good. */
void queue_close(struct queues *q, uint64_t now_ms);

struct queue_outcome {
	int64_t task;
	const char *queue;
	enum queue_state state;
	struct queue_bytes value; /* where it succeeded */
	struct queue_error error; /* FAILED, CANCELLED */
	int worker;		  /* who has or had it last; -1: nobody */
	unsigned tries;
	size_t bytes;	   /* of its payload and value */
	uint64_t since_ms; /* RUNNING: when this try began */
};
/* Borrowed until the next step. False: no such task. */
bool queue_outcome(const struct queues *q, int64_t task, struct queue_outcome *ret);
/* The first task with a greater number (of a queue, NULL: of all); false: none. */
bool queue_after(
	const struct queues *q, const char *queue, int64_t task, struct queue_outcome *ret);

struct queue_stats {
	size_t n[QUEUE_N_STATES];
	uint64_t put_back; /* how often, ever, also those that were released */
	uint64_t over;	   /* tasks that were over, ever */
	size_t bytes, waiting, workers, free;
	bool closed, has_error;
	struct queue_error error; /* the pending one; of all queues: the oldest */
};
/* queue NULL: of all together. An unknown one has zeros. */
void queue_stats(const struct queues *q, const char *queue, struct queue_stats *ret);

/* --- resources */

/* 0, ALREADY_EXISTS, INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
enum status queue_resource_create(
	struct queues *q, const char *name, const struct queue_bytes *payload, uint64_t now_ms);
/* Tasks that need it and are not over fail with NOT_FOUND. */
enum status queue_resource_drop(struct queues *q, const char *name, uint64_t now_ms);
struct queue_resource_view {
	const char *name;
	int ready, building, failed;
};
/* The i-th by name; false: there are no more. */
bool queue_resource_view(const struct queues *q, size_t i, struct queue_resource_view *ret);
/* The error of the worker'th (any int) build of that; false: none. */
bool queue_resource_error(const struct queues *q, size_t i, int worker, struct queue_error *ret);

/* --- calls */

/* workers (n 0: all that have asked for work in their present process, or are to, see
 * queue_worker_started()). Waits until all have answered. UNAVAILABLE where the pool is broken. */
_must_check_ bool queue_call(struct queues *q, struct queue_wait *w, const int *workers, size_t n,
	const struct queue_bytes *payload, uint64_t deadline_ms, uint64_t answer_ms,
	uint64_t now_ms);
struct queue_answer {
	int worker;
	bool ok;
	struct queue_bytes value;
	struct queue_error error;
};
/* The i-th answer of a call that is over, by worker; false: there are no more. */
bool queue_answer(const struct queue_call *c, size_t i, struct queue_answer *ret);

/* --- workers: numbers 0.., as the caller has them */

/* Its process began. init: what it is to do first (NULL: nothing); serves: it is one that calls
 * (and, in a pool, wholeness) count on before it has asked for work. 0 or -ENOMEM. */
_must_check_ int queue_worker_started(struct queues *q, int worker, int incarnation,
	const struct queue_bytes *init, bool serves, uint64_t now_ms);
/* What texts call it ("worker:0"), copied; "worker 3" where this was not said. 0 or -ENOMEM. */
_must_check_ int queue_worker_name(struct queues *q, int worker, const char *name);
/* It is gone: its leases are put back. why: for people ("killed by SIGKILL"). on_purpose: not a
 * death that counts (a person, or queue_next(), ended it). again: another process of it is to come.
 */
void queue_worker_gone(struct queues *q, int worker, const char *why, bool on_purpose, bool again,
	uint64_t now_ms);
/* It is about to call the others before it has asked for work: calls do not count on it any more,
 * until it asks. */
void queue_worker_calls(struct queues *q, int worker, uint64_t now_ms);
/* The group has begun anew: the pool is whole when all who serve have started. */
void queue_whole(struct queues *q, uint64_t now_ms);

/* holder: what a lease lasts as long as (a connection), never NULL. Over with a lease, or with
 * CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED (it has all its slots), or OK without one:
 * closed. */
_must_check_ bool queue_work(struct queues *q, struct queue_wait *w, int worker, void *holder,
	uint64_t deadline_ms, uint64_t now_ms);
/* All leases of holder are put back. Where the worker's process turns out to have died, it has died
 * with their tasks: queue_worker_gone() counts these, unless it has ended a lease since for which
 * it asked later, or: */
void queue_holder_gone(struct queues *q, void *holder, uint64_t now_ms);
/* It has another connection: it lives on. */
void queue_worker_lives(struct queues *q, int worker);

enum queue_item { QUEUE_ITEM_TASK, QUEUE_ITEM_BUILD, QUEUE_ITEM_CALL, QUEUE_ITEM_INIT };
struct queue_item_view {
	enum queue_item kind;
	int64_t lease, task; /* task -1: not one */
	const char *name;    /* of a resource */
	struct queue_bytes payload;
	const char *const *needs;
	size_t n_needs;
	int64_t limit_ms;
	int worker, incarnation;
	unsigned attempt;
};
/* Whether it holds any. */
bool queue_holds(const struct queues *q, int worker);
/* Borrowed until the lease ends. */
void queue_item(const struct queue_lease *l, struct queue_item_view *ret);

/* Ends a lease of holder: 0; ABORTED: it has no such lease, or the lease was cancelled (which ends
 * it, too); RESOURCE_EXHAUSTED: no memory, and the lease stays. INVALID_ARGUMENT for a size. */
enum status queue_finish(struct queues *q, void *holder, int64_t lease,
	const struct queue_bytes *value, uint64_t now_ms);
struct queue_failure {
	enum status code;
	const char *message, *details;
	bool retryable;
	const char *blame; /* NULL: nobody */
};
enum status queue_fail(struct queues *q, void *holder, int64_t lease, const struct queue_failure *f,
	uint64_t now_ms);
enum status queue_put_back(struct queues *q, void *holder, int64_t lease, uint64_t now_ms);
/* Whether that lease of that worker was cancelled: OK, or NOT_FOUND. ret_reason is borrowed. */
enum status queue_look(const struct queues *q, int worker, int64_t lease, bool *ret_cancelled,
	const char **ret_reason);

#define QUEUE_OWN_TEXT                                                                             \
	"this is a deadlock: it would wait for task %lld, which its caller is doing; answer that " \
	"first, or give a timeout"
/* The task of that lease of that worker, where a join of queue, or (ids) a cancellation of these
 * would wait for its end; else -1. */
int64_t queue_own(const struct queues *q, int worker, int64_t lease, const char *queue,
	const int64_t *ids, size_t n);

/* --- the whole */

/* All queues fail with this error (a parameter server is lost): whatever is not over is cancelled;
 * exit_code -1: none. New tasks fail at once, too, until queue_unfail(). Who is from
 * outside and uses a queue that has lost something so (a SUBMIT, JOIN or queue_keep()), but was not
 * told by one that waited or by a FETCH, is told by its next SUBMIT or JOIN; a worker's own finds
 * the queue as new. The oldest of these losses are forgotten where others need the room. */
void queue_fail_all(struct queues *q, const struct queue_error *e, int exit_code, uint64_t now_ms);
void queue_unfail(struct queues *q, uint64_t now_ms);
/* All waits end with this, later ones too (the group stops): until queue_go(). Tasks stay as they
 * are, but for leases, which end with their holders. final: nothing comes after it. */
void queue_stop(struct queues *q, enum status status, const char *text, bool final);
void queue_go(struct queues *q);
/* Ends what is overdue; returns the next deadline, UINT64_MAX: none. */
uint64_t queue_expire(struct queues *q, uint64_t now_ms);
/* When queue_expire() is wanted; it may have changed after any step. */
uint64_t queue_due_ms(const struct queues *q);

enum queue_what {
	QUEUE_DO_NOTHING,
	QUEUE_DO_CANCEL, /* tell `worker` that `lease` is cancelled, `text` says why; of a lease
			  * that has yet to come out of queue_over() only after that */
	QUEUE_DO_KILL,	 /* `worker` goes on with what was cancelled: end it, and start it again */
	QUEUE_DO_TELL,	 /* an event, `event`, for people: text; worker -1: of the group */
	QUEUE_DO_STALL,	 /* the same, and save what the workers that hold leases do */
	QUEUE_DO_RECORD, /* `record` for the journal */
	QUEUE_DO_DUMP,	 /* a record was lost for want of memory: write queue_dump() anew */
	QUEUE_DO_ANEW,	 /* the same when it suits: the records tell of what is not to be kept */
};

/* What has happened to tasks, resources and queues, enough to make it happen again. */
enum queue_record_kind {
	QUEUE_REC_SUBMIT,   /* task, queue, payload, needs, limit_ms, flag: alone */
	QUEUE_REC_SUCCEED,  /* task, payload: its value, number: tries */
	QUEUE_REC_FAIL,	    /* task, error, number: tries, flag: it is the queue's error, too */
	QUEUE_REC_CANCEL,   /* task, error, number: tries */
	QUEUE_REC_TRY,	    /* task, number: tries, deaths in limit_ms: it was put back, or with
			     * the same number: one more worker has died with it */
	QUEUE_REC_RELEASE,  /* task */
	QUEUE_REC_ERROR,    /* queue, error: yet to be told, and no task has it */
	QUEUE_REC_RAISED,   /* queue: its error was told, or nobody is to be told any more */
	QUEUE_REC_RESOURCE, /* name in queue, payload */
	QUEUE_REC_DROP,	    /* name in queue */
	QUEUE_REC_CLOSE,
	QUEUE_REC_LOSS, /* queue, error, number: exit code: yet to be told, and no task has it */
	QUEUE_REC_LOSS_TOLD, /* queue */
	QUEUE_REC_KEEP,	     /* queue: it has a keeper now, and what it had is forgotten */
	QUEUE_REC_N,
};
struct queue_record {
	enum queue_record_kind kind;
	int64_t task, limit_ms, number;
	const char *queue;
	struct queue_bytes payload;
	const char *const *needs;
	size_t n_needs;
	struct queue_error error;
	bool flag;
};

struct queue_do {
	enum queue_what what;
	int worker;
	int64_t lease;
	/* "put-back", "task-failed", "cancel-kill", "stall", "no-worker", "pool-broken";
	 * "init-failed": `worker` could not do its init, and gets nothing to do any more */
	const char *event;
	char text[512];
	struct queue_record record; /* borrowed until the next queue_next() */
};
/* The next thing to do, in order; NOTHING at last. A record comes before the wait that it lets end
 * comes out of queue_over(), or at the latest in the same drain: the caller drains queue_next()
 * first, writes what it must, and then answers. */
enum queue_what queue_next(struct queues *q, struct queue_do *ret);

/* Makes it so, in a new machine before its first step: 0, -EINVAL (nothing like that can be here;
 * ignored), -ENOMEM. */
_must_check_ int queue_restore(struct queues *q, const struct queue_record *r);
/* All that is needed to make it so again, one after the other: for a journal that is written anew.
 * *cursor is 0 at first. False at the end. */
bool queue_dump(const struct queues *q, uint64_t *cursor, struct queue_record *ret);
