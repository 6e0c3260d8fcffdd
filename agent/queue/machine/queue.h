/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The work queue: tasks from submit to release, the workers that have them, their outcomes, the
 * resources that workers build, and calls to all workers. Pure: no clock, no loop, no connection,
 * no JSON; times are the caller's monotonic milliseconds. The agent serves a job's queue from it.
 *
 * A call that may take time has a struct queue_wait, embedded in an object of the caller's. Once
 * the wait is over, after its own step or a later one, queue_over() returns it; then the caller
 * answers and calls queue_wait_fini(). Until then everything the wait points to stays. queue_over()
 * returns waits in the order in which they were decided.
 * queue_next_order() returns, in the same way, what the caller must do (kill a worker, report an
 * event, write the journal). No function calls back.
 *
 * Guarantees: an accepted task is never lost: it is queued, leased, or over, and its outcome stays
 * until it is released. It is leased to one holder at a time. It runs at least once unless it is
 * cancelled, and never after its cancellation has ended. Tasks are leased in the order of their
 * numbers; tasks that are put back go behind all others. The first error of a queue is the one
 * reported.
 */

#include "common/base/cleanup.h"
#include "common/base/status.h"
#include "common/varlink/queue_limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queues;	   /* all queues of a job */
struct queue_task; /* opaque */
struct queue_lease;

/* Bytes with their format. Functions copy those passed in. */
struct queue_bytes {
	const void *data;
	size_t len;
	const char *format; /* "": none */
};

/* An error. Strings are borrowed from the object that it belongs to. */
struct queue_error {
	enum status code;
	const char *message, *details; /* details "": none */
	int worker;		       /* -1: none */
	int64_t task;		       /* -1: none */
};

struct queue_options {
	int64_t first_task; /* number of the first task; leases count from it, too */
	size_t max; /* queued tasks of all queues, checked by submit; tasks put back may exceed it;
		       0: no limit */
	size_t results; /* tasks over and not released; 0: no limit */
	size_t bytes;	/* of payloads, results and errors together, checked by submit; a value that
			   makes it twice as many fails its task; 0: no limit */
	int slots;	/* leases of one worker at once */
	uint64_t cancel_grace_ms;    /* then the worker of a cancelled task is killed */
	int64_t recovery_timeout_ms; /* limit while tasks are queued and no worker asks for or has
					work; negative: none */
	unsigned blame_limit;	     /* retryable failures with one blame; 0: no limit */
	int64_t blame_window_ms;     /* counted within this time; negative: for ever */
	unsigned deaths;  /* workers that may die with a task before it fails; 0: no limit */
	int64_t stall_ms; /* time in which tasks run and none ends; negative: off */
	uint64_t call_timeout_ms, answer_timeout_ms;
	bool pool;    /* a worker that dies breaks all calls until queue_whole(); one that does not
			 answer, until its call has ended */
	bool journal; /* return QUEUE_ORDER_RECORD */
};

_must_check_ int queues_new(const struct queue_options *opt, struct queues **ret);
/* The caller has fini'd all waits, or never touches them again. */
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
struct queue_heap_node {
	uint64_t key;
	size_t place; /* in its heap, from 1 on; 0: in none */
};

struct queue_wait {
	void *arg;    /* the caller's */
	bool outside; /* set by the caller: a client outside the job, which outlives the loss of
			 workers; see queue_fail_all() */

	bool is_over; /* the rest says how it ended */
	enum status status;
	const char *text;	  /* for people; "" for OK. Borrowed until queue_wait_fini() */
	bool failed_queue;	  /* `error` is the queue's own, reported here */
	struct queue_error error; /* with failed_queue */
	int exit_code;		  /* with failed_queue: its exit code, or -1 */
	int64_t first;		  /* SUBMIT: number of the first task */
	size_t accepted;	  /* SUBMIT: tasks accepted; CANCEL: tasks cancelled */
	size_t forgotten; /* SUBMIT with failed_queue: tasks that were accepted, and are released */
	struct queue_lease *lease;  /* WORK: what to do; NULL with status OK: closed */
	struct queue_call *answers; /* CALL: queue_answer() */

	/* private to the machine */
	enum queue_wait_kind kind;
	struct queue_heap_node deadline;
	struct queue_link link, over;
	void *of, *more;
	size_t n, left;
	bool exempt, any;
};

/* The next wait that is over, in order, each once; NULL: no more. */
struct queue_wait *queue_over(struct queues *q);
/* Ends a wait as if its deadline had passed. */
void queue_wait_expire(struct queues *q, struct queue_wait *w);
/* Its answer was given, or is not wanted. Removes the wait from all lists; it may be used again. A
 * SUBMIT keeps its accepted tasks; a WORK puts back a lease that its worker has not seen. */
void queue_wait_fini(struct queues *q, struct queue_wait *w, uint64_t now_ms);

/* --- coordinators. deadline_ms: UINT64_MAX for none, a past one for no wait. */

struct queue_new {
	struct queue_bytes payload;
	const char *const *needs; /* names of resources, n_needs */
	size_t n_needs;
	int64_t limit_ms; /* of one try; negative: none */
	bool alone;	  /* its failure is not its queue's error */
};

/* tasks (n > 0) are borrowed, unchanged, until w is over. exempt: a join does not hold this submit
 * up. OK with fewer than n accepted when the deadline has passed and at least one was accepted.
 * INVALID_ARGUMENT (a name, a size) or NOT_FOUND (a resource) when it can never be accepted; then
 * no task is. */
void queue_submit(struct queues *q, struct queue_wait *w, const char *queue,
	const struct queue_new *tasks, size_t n, bool exempt, uint64_t deadline_ms,
	uint64_t now_ms);
void queue_join(struct queues *q, struct queue_wait *w, const char *queue, uint64_t deadline_ms,
	uint64_t now_ms);
/* Like a join that does not wait, except for a pending error whose tasks are still being cancelled.
 * OK: all tasks are over. DEADLINE_EXCEEDED: some are not, or the cancelling takes too long. */
void queue_done(struct queues *q, struct queue_wait *w, const char *queue, uint64_t deadline_ms,
	uint64_t now_ms);
/* Waits for all of ids, or any one of them. Copies ids. On OK use queue_outcome(). The tasks stay
 * until queue_wait_fini(). NOT_FOUND names the first id that does not exist. */
void queue_fetch(struct queues *q, struct queue_wait *w, const int64_t *ids, size_t n, bool any,
	uint64_t deadline_ms, uint64_t now_ms);
/* ids NULL: all tasks of the queue. OK when none of them runs any more. */
void queue_cancel(struct queues *q, struct queue_wait *w, const char *queue, const int64_t *ids,
	size_t n, const char *reason, uint64_t deadline_ms, uint64_t now_ms);
/* Returns how many of them existed. */
size_t queue_release(struct queues *q, const int64_t *ids, size_t n, uint64_t now_ms);
/* Adds a keeper to the queue. When its last keeper goes, all its tasks are cancelled and released.
 * Tasks of a queue with a keeper are in no journal. */
_must_check_ enum status queue_keep(struct queues *q, const char *queue);
void queue_unkeep(struct queues *q, const char *queue, uint64_t now_ms);
/* No more tasks are accepted, for good. */
void queue_close(struct queues *q, uint64_t now_ms);

struct queue_outcome {
	int64_t task;
	const char *queue;
	enum queue_state state;
	struct queue_bytes value; /* SUCCEEDED */
	struct queue_error error; /* FAILED, CANCELLED */
	int worker;		  /* has it, or had it last; -1: none */
	unsigned tries;
	size_t bytes;	   /* of its payload and value */
	uint64_t since_ms; /* RUNNING: when this try began */
};
/* Borrowed until the next step. False: there is no such task. */
bool queue_outcome(const struct queues *q, int64_t task, struct queue_outcome *ret);
/* The task with the next greater number (of a queue, NULL: of all). False: none. */
bool queue_after(
	const struct queues *q, const char *queue, int64_t task, struct queue_outcome *ret);

struct queue_stats {
	size_t n[QUEUE_N_STATES];
	uint64_t put_back; /* how often tasks were put back, including released ones */
	uint64_t over;	   /* tasks that ended, including released ones */
	size_t bytes, waiting, workers, free;
	bool closed, has_error;
	struct queue_error error; /* the pending error; of all queues: the oldest */
};
/* queue NULL: all together. An unknown queue has zeros. */
void queue_stats(const struct queues *q, const char *queue, struct queue_stats *ret);

/* --- resources */

/* Returns OK, ALREADY_EXISTS, INVALID_ARGUMENT or RESOURCE_EXHAUSTED. */
enum status queue_resource_create(
	struct queues *q, const char *name, const struct queue_bytes *payload, uint64_t now_ms);
/* Tasks that need the resource and are not over fail with NOT_FOUND. */
enum status queue_resource_drop(struct queues *q, const char *name, uint64_t now_ms);
struct queue_resource_view {
	const char *name;
	int ready, building, failed;
};
/* The i-th resource by name. False: there are no more. */
bool queue_resource_view(const struct queues *q, size_t i, struct queue_resource_view *ret);
/* The error with which this worker (any number) failed to build the i-th resource. False: none. */
bool queue_resource_error(const struct queues *q, size_t i, int worker, struct queue_error *ret);

/* --- calls */

/* workers (n 0: all that have asked for work in their present process, or will, see
 * queue_worker_started()). Over when all have answered. UNAVAILABLE when the pool is broken. */
void queue_call(struct queues *q, struct queue_wait *w, const int *workers, size_t n,
	const struct queue_bytes *payload, uint64_t deadline_ms, uint64_t answer_ms,
	uint64_t now_ms);
struct queue_answer {
	int worker;
	bool ok;
	struct queue_bytes value;
	struct queue_error error;
};
/* The i-th answer of a call that is over, by worker. False: there are no more. */
bool queue_answer(const struct queue_call *c, size_t i, struct queue_answer *ret);

/* --- workers: numbers from 0, chosen by the caller */

/* Its process began. init: what it must do first (NULL: nothing). serves: calls (and, in a pool,
 * queue_whole()) wait for it even before it has asked for work. 0, -ENOMEM, or -EINVAL: its number
 * is 65535 or more. */
_must_check_ int queue_worker_started(struct queues *q, int worker, int start,
	const struct queue_bytes *init, bool serves, uint64_t now_ms);
/* The worker's name in texts ("worker:0"), copied; without it "worker 3". 0 or -ENOMEM. */
_must_check_ int queue_worker_name(struct queues *q, int worker, const char *name);
/* Its process is gone: puts its leases back. why: for people ("killed by SIGKILL"). on_purpose: a
 * person or queue_next_order() ended it, so its death does not count. again: another process of it
 * will follow. */
void queue_worker_gone(struct queues *q, int worker, const char *why, bool on_purpose, bool again,
	uint64_t now_ms);
/* It makes a call itself before it has asked for work: other calls leave it out until it asks. */
void queue_worker_calls(struct queues *q, int worker, uint64_t now_ms);
/* The group has started again: the pool is whole once all workers that serve have started. */
void queue_whole(struct queues *q, uint64_t now_ms);

/* holder: the connection on which the lease depends, never NULL. Over with a lease; with CANCELLED,
 * DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED (all its slots are used); or with OK and no lease:
 * closed. */
void queue_work(struct queues *q, struct queue_wait *w, int worker, void *holder,
	uint64_t deadline_ms, uint64_t now_ms);
/* The connection holder is gone: puts its leases back. If the worker turns out to have died, its
 * death counts for their tasks, in queue_worker_gone(). It does not count after the worker has
 * ended a lease for which it asked later, or after queue_worker_lives(). */
void queue_holder_gone(struct queues *q, void *holder, uint64_t now_ms);
/* The worker has connected again: it lives. */
void queue_worker_lives(struct queues *q, int worker);

enum queue_item { QUEUE_ITEM_TASK, QUEUE_ITEM_BUILD, QUEUE_ITEM_CALL, QUEUE_ITEM_INIT };
struct queue_item_view {
	enum queue_item kind;
	int64_t lease, task; /* task -1: not a task */
	const char *name;    /* of the resource */
	struct queue_bytes payload;
	const char *const *needs;
	size_t n_needs;
	int64_t limit_ms;
	int worker, start;
	unsigned tries;
};
/* True when the worker holds a lease. */
bool queue_worker_has_lease(const struct queues *q, int worker);
/* Borrowed until the lease ends. */
void queue_item(const struct queue_lease *l, struct queue_item_view *ret);

/* Ends a lease of holder. OK; ABORTED: there is no such lease, or it was cancelled (which ends it,
 * too); RESOURCE_EXHAUSTED: no memory, and the lease stays; INVALID_ARGUMENT for a size. */
enum status queue_finish(struct queues *q, void *holder, int64_t lease,
	const struct queue_bytes *value, uint64_t now_ms);
struct queue_failure {
	enum status code;
	const char *message, *details;
	bool retryable;
	const char *blame; /* NULL: none */
};
enum status queue_fail(struct queues *q, void *holder, int64_t lease, const struct queue_failure *f,
	uint64_t now_ms);
enum status queue_put_back(struct queues *q, void *holder, int64_t lease, uint64_t now_ms);
/* Tells whether this lease of this worker was cancelled: OK, or NOT_FOUND. ret_reason is borrowed.
 */
enum status queue_look(const struct queues *q, int worker, int64_t lease, bool *ret_cancelled,
	const char **ret_reason);

#define QUEUE_DEADLOCK_TEXT                                                                        \
	"this is a deadlock: it would wait for task %lld, which its caller is doing; answer that " \
	"first, or give a timeout"
/* The task of this lease of this worker, when a join of queue or a cancellation of ids would wait
 * for the end of that very task; else -1. */
int64_t queue_own_task(const struct queues *q, int worker, int64_t lease, const char *queue,
	const int64_t *ids, size_t n);

/* --- the whole */

/* All queues fail with this error (a parameter server is lost): tasks that are not over are
 * cancelled, and until queue_unfail() new ones fail at once. exit_code -1: none. A client outside
 * that uses such a queue (SUBMIT, JOIN or queue_keep()) gets the error from a wait that it had
 * open, from a FETCH, or else from its next SUBMIT or JOIN; the job's own workers find the queue
 * empty and without an error. The oldest losses are forgotten when their room is needed. */
void queue_fail_all(struct queues *q, const struct queue_error *e, int exit_code, uint64_t now_ms);
void queue_unfail(struct queues *q, uint64_t now_ms);
/* The group stops: ends all waits, and later ones until queue_go(), with this status. Tasks stay as
 * they are; leases end with their holders. final: the queues do not go on. */
void queue_stop(struct queues *q, enum status status, const char *text, bool final);
void queue_go(struct queues *q);
/* Ends waits and leases that are overdue. Returns the next deadline, UINT64_MAX: none. */
uint64_t queue_expire(struct queues *q, uint64_t now_ms);
/* When to call queue_expire(); any step may change it. */
uint64_t queue_due_ms(const struct queues *q);

enum queue_order_what {
	QUEUE_ORDER_NOTHING,
	QUEUE_ORDER_CANCEL, /* tell `worker` that `lease` is cancelled, with `text` as the reason;
			    if queue_over() has not yet returned the lease, only after that */
	QUEUE_ORDER_KILL,   /* `worker` goes on with a cancelled task: end it, and start it again */
	QUEUE_ORDER_EVENT,  /* report `event` with `text`; worker -1: of the group */
	QUEUE_ORDER_STALL,  /* the same, and dump the workers that hold leases */
	QUEUE_ORDER_RECORD, /* write `record` to the journal */
	QUEUE_ORDER_RECORD_LOST, /* a record was lost for lack of memory: write a new journal */
	QUEUE_ORDER_STALE, /* the same, at any time: the journal has tasks that need not be kept */
};

/* Changes of tasks, resources and queues; together they restore a machine. */
enum queue_record_kind {
	QUEUE_REC_SUBMIT,  /* task, queue, payload, needs, limit_ms, flag: alone */
	QUEUE_REC_SUCCEED, /* task, payload: its value, number: tries */
	QUEUE_REC_FAIL,	   /* task, error, number: tries, flag: it is the queue's error, too */
	QUEUE_REC_CANCEL,  /* task, error, number: tries */
	QUEUE_REC_TRY,	   /* task, number: tries, deaths in limit_ms: it was put back, or, with the
			      same number, one more worker has died with it */
	QUEUE_REC_RELEASE, /* task */
	QUEUE_REC_ERROR,   /* queue, error: not yet reported, and in no task */
	QUEUE_REC_RAISED,  /* queue: its error was reported, or no client is left */
	QUEUE_REC_RESOURCE, /* name in queue, payload */
	QUEUE_REC_DROP,	    /* name in queue */
	QUEUE_REC_CLOSE,
	QUEUE_REC_LOSS,	     /* queue, error, number: exit code: not yet reported, and in no task */
	QUEUE_REC_LOSS_TOLD, /* queue */
	QUEUE_REC_KEEP,	     /* queue: it has a keeper now, and its earlier tasks are forgotten */
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

struct queue_order {
	enum queue_order_what what;
	int worker;
	int64_t lease;
	/* "put-back", "task-failed", "cancel-kill", "stall", "no-worker", "pool-broken";
	 * "init-failed": `worker` failed its init, and gets no work */
	const char *event;
	char text[512];
	struct queue_record record; /* borrowed until the next queue_next_order() */
};
/* The next order; NOTHING when there is none. The record of a change comes before the waits that it
 * ends: so the caller takes all orders, writes the records, and only then answers the waits of
 * queue_over(). */
enum queue_order_what queue_next_order(struct queues *q, struct queue_order *ret);

/* Applies a record to a new machine, before its first step. 0; -EINVAL: the record does not fit,
 * and is ignored; -ENOMEM. */
_must_check_ int queue_restore(struct queues *q, const struct queue_record *r);
/* All records that restore the present state, one after the other, for a new journal. *cursor is 0
 * at first. False at the end. */
bool queue_dump(const struct queues *q, uint64_t *cursor, struct queue_record *ret);
