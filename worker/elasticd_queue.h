/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work queue of a job: see elasticd_queue(3). elasticd.h has the conventions.
 *
 * A task is a piece of work that is known by a number. Coordinators submit tasks and fetch what
 * became of them; workers, which are processes of the job, do one task at a time in each thread
 * that asks for one. When a worker dies before the result of its task is stored, the task is put
 * back and another worker does it; so a task may be begun more than once. Payloads and values are
 * any bytes, at most 1 MiB, with a word for their format ("json").
 *
 * Outside elasticd the threads of the process, and children that it forks, are the workers.
 */
#ifndef ELASTICD_QUEUE_H
#define ELASTICD_QUEUE_H

#include "elasticd.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct elasticd_queue;
struct elasticd_queue_work;

struct elasticd_queue_bytes {
	const void *data;
	size_t len;
	const char *format; /* at most 31 bytes; NULL: none */
};

/* --- coordinators */

/* A handle of a job's queues, for a program that is not a worker of the job;
 * elasticd_queue_work_open(), and all functions of elasticd.h that share something, end with
 * FAILED_PRECONDITION there. socket: elasticd's (NULL: ELASTICD_SOCKET, else the usual one).
 * UNAVAILABLE: elasticd does not answer. PERMISSION_DENIED: elasticd runs as another user than root
 * or the caller. The job is not looked up yet: where there is none of that name, the calls that use
 * the handle return NOT_FOUND. */
enum elasticd_status elasticd_queue_connect(
	const char *job, const char *socket, struct elasticd **ret);

/* Opens the queue of that name: 0 to 64 of A-Z a-z 0-9 _ . -. NULL: a queue that belongs to this
 * process. Everything in it is cancelled and forgotten when it is closed or this process ends. It
 * goes with the agent, too; functions that wait end with UNAVAILABLE from then on. Threads may
 * share a queue. Close it before its handle. */
enum elasticd_status elasticd_queue_open(
	struct elasticd *h, const char *name, struct elasticd_queue **ret);
void elasticd_queue_close(struct elasticd_queue *q);
/* Borrowed until elasticd_queue_close(). */
const char *elasticd_queue_name(const struct elasticd_queue *q);

struct elasticd_queue_new_task {
	struct elasticd_queue_bytes payload;
	const char *const *resources; /* names of resources that its worker must have built */
	size_t n_resources;
	int64_t limit_ms; /* of one try; 0: none */
	bool alone;	  /* its failure is its own, and not the queue's */
};
/*
 * Submits n tasks, in this order. Waits while the queue is full, and while another caller is in
 * elasticd_queue_join(). ret_tasks has room for n numbers; ret_accepted and so many of ret_tasks
 * are set whatever the function returns: the first ret_accepted tasks are in the queue. OK with
 * fewer than n: timeout_ms is over. RESOURCE_EXHAUSTED: timeout_ms is over, and none is in.
 * FAILED_PRECONDITION: the queues were closed.
 *
 * The first task that fails, unless it is alone, is the error of its queue: the other tasks of the
 * queue are cancelled. The next call of elasticd_queue_submit(), elasticd_queue_join() or
 * elasticd_queue_done() waits until none of them runs any more, then fails with that error; the
 * queue is usable again after that. elasticd_queue_error_task() tells such a failure from others,
 * which may have the same status.
 */
enum elasticd_status elasticd_queue_submit(struct elasticd_queue *q,
	const struct elasticd_queue_new_task *tasks, size_t n, int timeout_ms, int64_t *ret_tasks,
	size_t *ret_accepted);
/* Waits until no task of the queue is queued or runs; meanwhile elasticd_queue_submit() of other
 * callers waits. FAILED_PRECONDITION, also of elasticd_queue_cancel(): this thread has a task that
 * it has not answered, and would wait for it without a time limit. */
enum elasticd_status elasticd_queue_join(struct elasticd_queue *q, int timeout_ms);
/* Whether no task of the queue is queued or runs. */
enum elasticd_status elasticd_queue_done(struct elasticd_queue *q, bool *ret_done);
/* Cancels these tasks (n 0: all of the queue), and waits until none of them runs; after OK none
 * will. reason may be NULL. ret_n, how many were cancelled, may be NULL. */
enum elasticd_status elasticd_queue_cancel(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	const char *reason, int timeout_ms, size_t *ret_n);

/* About this thread's last failed call, where that has failed with the error of a queue (until the
 * thread's next failed call): the number of the task that failed, 0 where the error is not of a
 * task; -1 after any other failure. */
int64_t elasticd_queue_error_task(void);
/* The code with which the job wants its coordinator to exit, or -1. */
int elasticd_queue_error_exit_code(void);
/* More from the worker than the message, for example a traceback, or "". */
const char *elasticd_queue_error_details(void);
/* The worker ("role:index") whose task failed, or "". */
const char *elasticd_queue_error_worker(void);

enum elasticd_task_state {
	ELASTICD_TASK_QUEUED,
	ELASTICD_TASK_RUNNING,
	ELASTICD_TASK_SUCCEEDED,
	ELASTICD_TASK_FAILED,
	ELASTICD_TASK_CANCELLED
};
struct elasticd_queue_outcome {
	int64_t task;
	enum elasticd_task_state state;
	void *value; /* NULL: none; else with a NUL behind it */
	size_t len;
	char *format; /* "": none */
	enum elasticd_status code;
	char *message, *details; /* of the error, or "" */
	char *worker;		 /* that has the task, or had it last, or "" */
	int tries;		 /* how often it was begun */
};
enum elasticd_fetch_flags {
	ELASTICD_FETCH_ANY = 1,	   /* wait for one task to be over; get all that are by then */
	ELASTICD_FETCH_RELEASE = 2 /* the agent forgets what is returned */
};
/* Waits until the n tasks, of any queue of the job, are over, and returns what became of them in
 * the same order. That a task failed is in its outcome, and no failure of this function.
 * DEADLINE_EXCEEDED: a task is not over (with ANY: none is). NOT_FOUND: a task was released or
 * never was. Owned: elasticd_queue_outcomes_free(). */
enum elasticd_status elasticd_queue_fetch(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	int flags, int timeout_ms, struct elasticd_queue_outcome **ret, size_t *ret_n);
void elasticd_queue_outcomes_free(struct elasticd_queue_outcome *outcomes, size_t n);
/* Forgets these tasks, each as soon as it is over. */
enum elasticd_status elasticd_queue_release(
	struct elasticd_queue *q, const int64_t *tasks, size_t n);

struct elasticd_queue_stats {
	int64_t queued, running, succeeded, failed, cancelled; /* tasks */
	int64_t put_back;				       /* how often a task was put back */
	int64_t bytes;					       /* of payloads, values and errors */
	int64_t waiting;       /* callers of submit that wait for room */
	int64_t workers, free; /* workers, and how many of their slots wait for a task */
	bool closed;
};
/* q NULL: of all queues together. */
enum elasticd_status elasticd_queue_stats(
	struct elasticd *h, struct elasticd_queue *q, struct elasticd_queue_stats *ret);

/* Closes all queues of the job for new tasks. When the last task is done, workers that ask for the
 * next item get NULL. */
enum elasticd_status elasticd_queue_close_all(struct elasticd *h);

/* Has every worker of the job, later ones too, build this resource before its next task.
 * ALREADY_EXISTS. */
enum elasticd_status elasticd_queue_resource_create(
	struct elasticd *h, const char *name, const struct elasticd_queue_bytes *payload);
/* Drops a resource; tasks that need it and are not over fail. */
enum elasticd_status elasticd_queue_resource_drop(struct elasticd *h, const char *name);

struct elasticd_queue_answer {
	char *worker; /* "role:index" */
	void *value;  /* NULL: none; else with a NUL behind it */
	size_t len;
	char *format;
	enum elasticd_status code;
	char *message, *details; /* of the error, or "" */
};
/* Calls these workers (NULL: all that take tasks), each of which answers before its next task.
 * Returns, when all have, their answers by rank; the answer of a worker that has died, or has not
 * answered after answer_timeout_ms, is an error. Negative limits: those of the job
 * (queue.call_timeout and queue.answer_timeout). Owned: elasticd_queue_answers_free(). */
enum elasticd_status elasticd_queue_call(struct elasticd *h, const char *const *workers, size_t n,
	const struct elasticd_queue_bytes *payload, int timeout_ms, int answer_timeout_ms,
	struct elasticd_queue_answer **ret, size_t *ret_n);
void elasticd_queue_answers_free(struct elasticd_queue_answer *answers, size_t n);

/* --- workers */

/*
 * One slot of this worker at the queue, for one thread at a time: it has one item, or none. An item
 * that is not answered is put back when the slot is closed, or the process ends. A child of fork()
 * does not have its parent's item; the slot starts without one there. FAILED_PRECONDITION where
 * this is not a worker of a job.
 */
enum elasticd_status elasticd_queue_work_open(struct elasticd *h, struct elasticd_queue_work **ret);
void elasticd_queue_work_close(struct elasticd_queue_work *w);

enum elasticd_item_kind {
	ELASTICD_ITEM_TASK,  /* do a task; the answer is its value */
	ELASTICD_ITEM_BUILD, /* build the resource `name`; the answer has no value */
	ELASTICD_ITEM_CALL,  /* elasticd_queue_call(): the answer is the value */
	ELASTICD_ITEM_INIT   /* the same for the initializer of the role */
};
struct elasticd_queue_item {
	enum elasticd_item_kind kind;
	int64_t lease;
	int64_t task;	     /* -1: no task */
	const char *name;    /* of a resource, or "" */
	const void *payload; /* with a NUL behind it */
	size_t len;
	const char *format; /* "": none */
	const char *const *resources;
	size_t n_resources;
	int64_t limit_ms; /* of this try; 0: none */
	int index, start; /* the worker's */
	int tries;	  /* how often the task was begun before */
};
/* Waits for the next item. *ret is borrowed until the next call with w, except
 * elasticd_queue_work_cancelled(). NULL with OK: the queues are closed and empty, and no item will
 * come. FAILED_PRECONDITION: w has an item that is not answered. RESOURCE_EXHAUSTED: the process
 * has as many items as its job allows. */
enum elasticd_status elasticd_queue_work_next(
	struct elasticd_queue_work *w, int timeout_ms, const struct elasticd_queue_item **ret);

struct elasticd_queue_failure {
	enum elasticd_status code; /* not OK */
	const char *message;
	const char *details; /* for example a traceback; NULL: none */
	bool retryable;	     /* another worker should try again */
	const char
		*blame; /* with retryable: what is at fault, "worker:1" or another word, or NULL */
};
/* Answers the item: it succeeded, with value (NULL: none), or it failed. ABORTED: the item was
 * cancelled or put back meanwhile, and the answer is not used. FAILED_PRECONDITION: w has no item.
 * After RESOURCE_EXHAUSTED and INVALID_ARGUMENT w still has its item. */
enum elasticd_status elasticd_queue_work_finish(
	struct elasticd_queue_work *w, const struct elasticd_queue_bytes *value);
enum elasticd_status elasticd_queue_work_fail(
	struct elasticd_queue_work *w, const struct elasticd_queue_failure *failure);
/* Gives the item back: another worker does it, and no one is to blame. */
enum elasticd_status elasticd_queue_work_put_back(struct elasticd_queue_work *w);
/* Answers the item and waits for the next one, in one round trip. ABORTED as above; then it has not
 * waited. Any other failure is of the wait: the item is answered. After INTERRUPTED,
 * elasticd_queue_work_next() goes on. */
enum elasticd_status elasticd_queue_work_finish_next(struct elasticd_queue_work *w,
	const struct elasticd_queue_bytes *value, int timeout_ms,
	const struct elasticd_queue_item **ret);
enum elasticd_status elasticd_queue_work_fail_next(struct elasticd_queue_work *w,
	const struct elasticd_queue_failure *failure, int timeout_ms,
	const struct elasticd_queue_item **ret);
/* CANCELLED: the item was cancelled, or this worker has lost it, so there is no use in going on;
 * elasticd_error_text() says why. OK: go on; mostly without a system call. Any thread may call it
 * while w is open. */
enum elasticd_status elasticd_queue_work_cancelled(struct elasticd_queue_work *w);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
