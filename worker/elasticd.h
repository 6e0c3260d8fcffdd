/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libelasticd: what a worker of elasticd shares with the others of its group. See elasticd(3).
 *
 * A handle comes from the environment that the agent gives to workers. Outside elasticd the process
 * is a group of one: when it first shares something the library starts an agent for it alone, which
 * its children of fork() use, too, and which ends with the last of them. So the same program runs
 * by hand.
 *
 * All functions may be called from any thread at any time, on one handle. After fork() the child
 * uses the same handle as the same task. A function that waits ends with ELASTICD_CANCELLED when
 * the group is stopped, with ELASTICD_DEADLINE_EXCEEDED when timeout_ms is over (negative: no
 * limit, 0: what is there now), and with ELASTICD_UNAVAILABLE when the agent is gone. A signal
 * whose handler was installed without SA_RESTART ends it with ELASTICD_INTERRUPTED.
 *
 * A function without timeout_ms does not wait for others. It ends with ELASTICD_UNAVAILABLE when
 * the agent neither takes nor says anything for a minute, and no signal ends it, unless
 * elasticd_interruptible() says so.
 *
 * Functions that can fail return 0 or an error below; elasticd_error_text() then says more.
 * What is returned in an out-parameter is untouched on failure.
 */
#ifndef ELASTICD_H
#define ELASTICD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ELASTICD_ABI 0 /* libelasticd.so.0 */

/* The canonical status codes; INTERRUPTED is the library's own. */
enum {
	ELASTICD_OK = 0,
	ELASTICD_CANCELLED = 1,
	ELASTICD_UNKNOWN = 2,
	ELASTICD_INVALID_ARGUMENT = 3,
	ELASTICD_DEADLINE_EXCEEDED = 4,
	ELASTICD_NOT_FOUND = 5,
	ELASTICD_ALREADY_EXISTS = 6,
	ELASTICD_PERMISSION_DENIED = 7,
	ELASTICD_RESOURCE_EXHAUSTED = 8,
	ELASTICD_FAILED_PRECONDITION = 9,
	ELASTICD_ABORTED = 10,
	ELASTICD_OUT_OF_RANGE = 11,
	ELASTICD_UNIMPLEMENTED = 12,
	ELASTICD_INTERNAL = 13,
	ELASTICD_UNAVAILABLE = 14,
	ELASTICD_DATA_LOSS = 15,
	ELASTICD_UNAUTHENTICATED = 16,
	ELASTICD_INTERRUPTED = 100
};

struct elasticd;
struct elasticd_watch;
struct elasticd_events;

/* "0.1.0"; borrowed for ever. */
const char *elasticd_version(void);
/* "DeadlineExceeded"; borrowed for ever. */
const char *elasticd_status_name(int status);
/* What this thread's last failed call had to say; "" before the first. Borrowed until this thread's
 * next failed call. */
const char *elasticd_error_text(void);
/* The tasks that it named, as "worker:1 worker:2"; "" where it named none. Borrowed likewise. */
const char *elasticd_error_missing(void);

/* Opens the handle of this process's task. INVALID_ARGUMENT for an environment that makes no sense,
 * UNAVAILABLE where its agent does not answer, ABORTED for a token that is stale. Each call gives
 * a handle of its own. */
int elasticd_open(struct elasticd **ret);
/* Waiting calls of other threads end CANCELLED first. Its watches and events are closed before it.
 * NULL is accepted. */
void elasticd_close(struct elasticd *h);
/* Calls that wait end CANCELLED, and so do later ones; the handle stays until elasticd_close(). For
 * programs in which the last to use a handle closes it. */
void elasticd_cancel(struct elasticd *h);

/* Whether signals end calls without timeout_ms, too (not so at first). One that was so ended with
 * INTERRUPTED is still under way: made again with the same arguments by the same thread, it goes
 * on. A thread that does not make it again says so by calling this; the agent may or may not have
 * done it. */
void elasticd_interruptible(struct elasticd *h, int on);

/* Who this is. Outside elasticd: not supervised, job and run "", "worker", 0, 0, 0, 1, 0, 0. Text
 * is borrowed until elasticd_close(). */
int elasticd_supervised(const struct elasticd *h);
const char *elasticd_job(const struct elasticd *h);
const char *elasticd_run(const struct elasticd *h);
const char *elasticd_role(const struct elasticd *h);
int elasticd_index(const struct elasticd *h);
int elasticd_rank(const struct elasticd *h);
int elasticd_local_rank(const struct elasticd *h);
int elasticd_world_size(const struct elasticd *h);
int elasticd_attempt(const struct elasticd *h); /* incarnations of the group before */
int elasticd_incarnation(
	const struct elasticd *h); /* starts of this task before, in this attempt */

/* Plain memory accesses, no system call. beat: this task lives. notice: non-zero while a notice of
 * preemption is up. stopping: non-zero once the group is being stopped. */
void elasticd_beat(struct elasticd *h);
int elasticd_notice(const struct elasticd *h);
int elasticd_stopping(const struct elasticd *h);

/*
 * Begins step n (it beats, too) and says what to do before it, at this moment: CONTINUE; SAVE a
 * checkpoint, the same step on all tasks, and go on; SAVE_AND_EXIT: save, then exit with
 * elasticd_exit_code(); EXIT: exit so with nothing to save. Plain memory accesses and CONTINUE
 * while neither a notice nor an error of the group is up; it waits only while the tasks agree on
 * the step.
 *
 * Otherwise the negative of a status: of an error that a task has reported, with its code and its
 * text, on all tasks alike (elasticd_error_missing() names whose it is); -ELASTICD_CANCELLED where
 * the group was stopped meanwhile; -ELASTICD_UNAVAILABLE where the agent is gone. The step counts
 * as begun all the same. One thread of a task at a time can be asked to save.
 */
enum { ELASTICD_CONTINUE = 0, ELASTICD_SAVE = 1, ELASTICD_SAVE_AND_EXIT = 2, ELASTICD_EXIT = 3 };
int elasticd_step(struct elasticd *h, int64_t n);

/* The checkpoint that elasticd_step(h, n) asked for is written. path, 4096 bytes at most, is shown
 * to people and kept with the run; NULL: not told. The next elasticd_step(), and the exit, say so
 * without a path. FAILED_PRECONDITION without a notice, OUT_OF_RANGE where it was not asked for. */
int elasticd_saved(struct elasticd *h, int64_t n, const char *path);

struct elasticd_preemption {
	char source[32];     /* "operator", "signal", "gce", "worker" */
	char reason[512];    /* for people */
	int64_t time_us;     /* of the notice, since the epoch */
	int64_t deadline_us; /* when the machine is gone; -1: not known */
	int64_t step;	     /* agreed; -1: not yet */
	int final;	     /* tasks leave once they have saved there */
	int exit_code;
};
/* 1: a notice is up (ret, which may be NULL, is filled in); 0: none, without a system call; else
 * the negative of a status. */
int elasticd_preempted(struct elasticd *h, struct elasticd_preemption *ret);

/* Gives the job notice, as a worker that got a signal or asked its cloud does. grace_ms: for so
 * long the machine is still there (0: save and leave at once; -1: not known). reason is cut after
 * 511 bytes. FAILED_PRECONDITION where the job is at its end, or this task is being stopped: the
 * signal was no notice then. Not from within a signal handler: set a flag there, and call it before
 * the next step. */
int elasticd_notify(struct elasticd *h, const char *reason, int64_t grace_ms);

/* The code with which a task leaves: preemption.exit_code of the job, 42 outside elasticd. */
int elasticd_exit_code(const struct elasticd *h);

/* Writes the checkpoint of step and may say where: path, of path_size bytes, is "" before it. 0, or
 * anything else where it has failed. */
typedef int (*elasticd_save_fn)(void *arg, int64_t step, char *path, size_t path_size);
/* Leaves with code; need not return. */
typedef void (*elasticd_exit_fn)(void *arg, int code);
/*
 * elasticd_step() that does what it says: calls save where there is something to save, and tells
 * elasticd_saved(); calls leave (NULL: exit(3)) where the task is to leave. Returns what
 * elasticd_step() does, after that has been done. -ELASTICD_ABORTED where save has failed: nothing
 * is told as saved, nobody leaves, and what becomes of it is the caller's business.
 */
int elasticd_checkpoint(
	struct elasticd *h, int64_t n, elasticd_save_fn save, elasticd_exit_fn leave, void *arg);

/*
 * The key-value store. Keys are normalised ("//a//b/" is "a/b"), 1..1024 bytes; values are any
 * bytes, at most 1 MiB. What is stored is gone with this incarnation of the group, unless it is
 * PERSISTENT.
 */
enum { ELASTICD_OVERWRITE = 1, ELASTICD_PERSISTENT = 2, ELASTICD_NOWAIT = 4 };
/* ALREADY_EXISTS without OVERWRITE where the key is there. */
int elasticd_put(struct elasticd *h, const char *key, const void *value, size_t len, int flags);
/*
 * With NOWAIT, which needs OVERWRITE, elasticd_put() need not wait until the agent has answered:
 * the write is handed over, and is done even if the process ends at once. Every later call through
 * this handle happens after it, and waits for it where it has to; an elasticd_get() of the key has
 * this value. The first error of such writes is returned by the next elasticd_flush(), or by the
 * next elasticd_put() with NOWAIT, which has then done nothing.
 *
 * elasticd_flush() waits until the agent has answered all of them. UNAVAILABLE: it is gone, and
 * some may or may not have happened. After DEADLINE_EXCEEDED and INTERRUPTED they are still under
 * way. elasticd_close() does not wait for them, and drops their errors.
 */
int elasticd_flush(struct elasticd *h, int timeout_ms);
/* Waits for the key. timeout_ms 0: NOT_FOUND where it is not there. ret_value is owned (free()) and
 * has a NUL behind its ret_len bytes. */
int elasticd_get(
	struct elasticd *h, const char *key, int timeout_ms, void **ret_value, size_t *ret_len);
/* The key and all below it. ret_deleted may be NULL. */
int elasticd_delete(struct elasticd *h, const char *key, int64_t *ret_deleted);

struct elasticd_entry {
	char *key;
	void *value; /* NULL: deleted, in a change */
	size_t len;
	int64_t revision;
};
/* All below key, sorted; owned: elasticd_entries_free(). */
int elasticd_list(struct elasticd *h, const char *key, struct elasticd_entry **ret, size_t *ret_n);
void elasticd_entries_free(struct elasticd_entry *entries, size_t n);

/*
 * Several calls that go together, in one write, and happen in this order; what others do may come
 * between them. A zeroed one has nothing done yet.
 */
enum { ELASTICD_PUT = 1, ELASTICD_GET = 2, ELASTICD_DELETE = 3 };
struct elasticd_op {
	int op;
	int flags; /* of a put */
	const char *key;
	const void *value; /* of a put */
	size_t len;
	/* What became of it. */
	int done;	 /* made, whatever came of it: it is not made again */
	int status;	 /* its own */
	void *ret_value; /* of a get; has a NUL behind its ret_len bytes */
	size_t ret_len;
	int64_t ret_deleted; /* of a delete */
	char *text;	     /* of what failed; NULL: none */
};
/*
 * Makes those of the n ops that are not done. timeout_ms is for all gets together, as that of
 * elasticd_get(). Returns 0 where all have succeeded, else the status and the text of the first
 * that has not; the others are made all the same. Where the agent is gone, what it has not answered
 * is UNAVAILABLE, and may or may not have happened.
 *
 * INTERRUPTED (also elasticd_interruptible()): some are not done; the same call, made again by the
 * same thread, goes on with them. A thread that does not says so by elasticd_interruptible().
 */
int elasticd_pipeline(struct elasticd *h, struct elasticd_op *ops, size_t n, int timeout_ms);
/* Frees what became of them, not the array: they can be made again. */
void elasticd_ops_clear(struct elasticd_op *ops, size_t n);
/* The changes of key and all below it, after revision since (-1: from now on; whatever is written
 * once this has returned is told). OUT_OF_RANGE: since is no longer remembered. One thread at a
 * time may use a watch. */
int elasticd_watch_open(
	struct elasticd *h, const char *key, int64_t since, struct elasticd_watch **ret);
/* One change (free with elasticd_entries_free(ret, 1)). OUT_OF_RANGE: changes were lost; list, and
 * open a new one. */
int elasticd_watch_next(struct elasticd_watch *w, int timeout_ms, struct elasticd_entry **ret);
/* For poll(), once elasticd_watch_next(w, 0, ...) has said DEADLINE_EXCEEDED: readable when there
 * may be more. */
int elasticd_watch_fd(const struct elasticd_watch *w);
void elasticd_watch_close(struct elasticd_watch *w);

/*
 * Waits until all members ("role:index"; NULL: all tasks but those of evaluators) have come here. A
 * list of none is INVALID_ARGUMENT, here and wherever names are given.
 * The first one fixes members and time limit. On failure elasticd_error_missing() names all who are
 * missing. A name can be used again and again. INTERNAL: a member failed, ended or left;
 * FAILED_PRECONDITION: an operator stopped one, or this task has left.
 */
int elasticd_barrier(
	struct elasticd *h, const char *name, const char *const *members, size_t n, int timeout_ms);
/* Those who wait there get CANCELLED with message (NULL: none). FAILED_PRECONDITION where nobody
 * waits: not yet, or all have passed. */
int elasticd_barrier_cancel(struct elasticd *h, const char *name, const char *message);

/* Which of members (NULL: all) live, the same answer for all who ask; each that lives must ask.
 * Owned names, to be freed with elasticd_names_free(). */
int elasticd_alive(struct elasticd *h, const char *const *members, size_t n, int timeout_ms,
	char ***ret, size_t *ret_n);
void elasticd_names_free(char **names, size_t n);

struct elasticd_error {
	int code;
	char *message;
	char *task;   /* "role:index" of its origin */
	int reported; /* by the task itself */
};
void elasticd_error_free(struct elasticd_error *e);

struct elasticd_member {
	char *task;
	char *state; /* "running" */
	int rank;
	int incarnation;
	int healthy;
	int left;
	struct elasticd_error *error; /* NULL: none */
};
/* The tasks of roles (NULL: all), by role and index. Owned: elasticd_members_free(). */
int elasticd_states(struct elasticd *h, const char *const *roles, size_t n,
	struct elasticd_member **ret, size_t *ret_n);
void elasticd_members_free(struct elasticd_member *members, size_t n);

/* This task's result, kept with the run; a later one replaces it. At most 1 MiB. */
int elasticd_result(struct elasticd *h, const void *value, size_t len);
/* Tells all others that this task has failed, and why. Does not end anything by itself. Also writes
 * the task's error.json where it has none yet. */
int elasticd_report_error(struct elasticd *h, int code, const char *message);
/* Waits for the group's error. Owned: elasticd_error_free(). */
int elasticd_wait_error(struct elasticd *h, int timeout_ms, struct elasticd_error **ret);
/* Takes leave and waits until all tasks that are not recoverable have. Barriers of this task are
 * FAILED_PRECONDITION from then on. */
int elasticd_leave(struct elasticd *h, int timeout_ms);

struct elasticd_event {
	char *event; /* "error", "joined", "gone", "stopping", "notice", "lost" */
	char *task;  /* or NULL */
	char *text;
	struct elasticd_error *error; /* or NULL */
};
/* What happens once this has returned. One thread at a time may use them. */
int elasticd_events_open(struct elasticd *h, struct elasticd_events **ret);
int elasticd_events_next(struct elasticd_events *e, int timeout_ms, struct elasticd_event **ret);
int elasticd_events_fd(const struct elasticd_events *e);
void elasticd_event_free(struct elasticd_event *event);
void elasticd_events_close(struct elasticd_events *e);

/*
 * Appends one JSON object as a line to the task's log.jsonl: time_us, level, message, rank,
 * attempt, and the members of fields (a JSON object as text, or NULL). One write() each, so that
 * lines of threads and children never mix; no supervisor is in between. Nothing happens without a
 * file.
 */
int elasticd_log(struct elasticd *h, const char *level, const char *message, const char *fields);

/* Writes the task's error.json, as torchelastic's record does: message, and traceback (NULL: none).
 * The first one stays. */
int elasticd_write_error(struct elasticd *h, const char *message, const char *traceback);

/*
 * The work queue: pieces of work, tasks here, each known by a number. Coordinators submit them and
 * fetch what comes of them; workers, which are processes of the job, do one at a time in each
 * thread that asks. A task is put back, and done by somebody else, where its worker dies before its
 * result is stored; it may so be begun twice. Payloads and values are any bytes, at most 1 MiB,
 * with a word for readers ("json"). Outside elasticd the threads of the process are the workers,
 * and so are its children of fork(): see elasticd_queue(3).
 *
 * A call with timeout_ms here that a signal has ended with INTERRUPTED is still under way: made
 * again by the same thread with the same arguments, but for the time, it goes on. A thread that
 * does not make it again calls elasticd_interruptible().
 */
struct elasticd_queue;
struct elasticd_work;

struct elasticd_bytes {
	const void *data;
	size_t len;
	const char *format; /* 31 bytes at most; NULL: none */
};

/* A handle to the queues of a job, for a program that is no task of it: elasticd_work_open() and
 * all that is not of the queue end with FAILED_PRECONDITION there. socket: of elasticd (NULL:
 * ELASTICD_SOCKET, else where it usually is). Nothing is asked yet: NOT_FOUND, where there is no
 * such job, comes from what is done with it. UNAVAILABLE where elasticd does not answer,
 * PERMISSION_DENIED where it runs as another user than root or the caller. */
int elasticd_connect(const char *job, const char *socket, struct elasticd **ret);

/* The queue of that name: 1 to 64 of A-Z a-z 0-9 _ . -, or "". NULL: one of its own, of which all
 * is cancelled and forgotten when it is closed, or this process or the agent is gone: in the latter
 * case its functions that wait end with UNAVAILABLE from then on. Each may be used by all threads;
 * it is closed before its handle. */
int elasticd_queue_open(struct elasticd *h, const char *name, struct elasticd_queue **ret);
void elasticd_queue_close(struct elasticd_queue *q);
const char *elasticd_queue_name(const struct elasticd_queue *q);

struct elasticd_new_task {
	struct elasticd_bytes payload;
	const char *const *resources; /* names of what its worker must have built, n_resources */
	size_t n_resources;
	int64_t limit_ms; /* of one try; 0: none */
	int alone;	  /* its failure is not the queue's */
};

/*
 * Submits n tasks, in this order. Where the queue is full, or somebody is in elasticd_join(), it
 * waits; RESOURCE_EXHAUSTED when the time is over and none is in. ret_tasks, with room for n
 * numbers, and ret_accepted are set whatever is returned: so many are in, the first ones. OK with
 * fewer than n: the time is over. FAILED_PRECONDITION after elasticd_close_queues().
 *
 * This one, elasticd_join() and elasticd_done() fail with the first error of a task of the queue,
 * once, when nothing of it runs any more; after that the queue is as new. Then
 * elasticd_error_task() is not -1. It can be any status: what failed is said by the text.
 */
int elasticd_submit(struct elasticd_queue *q, const struct elasticd_new_task *tasks, size_t n,
	int timeout_ms, int64_t *ret_tasks, size_t *ret_accepted);
/* Waits until nothing of the queue is queued or runs. What is submitted meanwhile waits.
 * FAILED_PRECONDITION, also of elasticd_cancel_tasks(): without a time limit it would wait for a
 * task that this thread was given and has not answered. */
int elasticd_join(struct elasticd_queue *q, int timeout_ms);
/* Whether that is so. */
int elasticd_done(struct elasticd_queue *q, int *ret_done);
/* Cancels these tasks (n 0: all of the queue) and waits until none of them runs; after OK none
 * will. reason may be NULL. ret_n: how many were cancelled; may be NULL. */
int elasticd_cancel_tasks(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	const char *reason, int timeout_ms, size_t *ret_n);

/* After such a call of this thread has failed with the error of a queue: the number of the task
 * that failed (0: none did), else -1. The code with which to leave, where the job has one for it,
 * else -1. What the worker had to say beyond the text, as a traceback, else "". Its name, else "".
 * Until this thread's next failed call. */
int64_t elasticd_error_task(void);
int elasticd_error_exit_code(void);
const char *elasticd_error_details(void);
const char *elasticd_error_worker(void);

enum {
	ELASTICD_QUEUED,
	ELASTICD_RUNNING,
	ELASTICD_SUCCEEDED,
	ELASTICD_FAILED,
	ELASTICD_TASK_CANCELLED
};

struct elasticd_outcome {
	int64_t task;
	int state;   /* one of the above */
	void *value; /* NULL: none; else with a NUL behind it */
	size_t len;
	char *format;		 /* "": none */
	int code;		 /* 0, or the status of the error */
	char *message, *details; /* of the error, or "" */
	char *worker;		 /* who has it, or had it last; "": nobody */
	int tries;		 /* how often it was begun */
};
enum {
	ELASTICD_ANY = 1,    /* as soon as one is over: those that are over by then */
	ELASTICD_RELEASE = 2 /* what is returned is forgotten there */
};
/* Waits until the n tasks, of any queue of the job, are over, and returns what became of them in
 * the same order. DEADLINE_EXCEEDED while one is not (with ANY: none is); NOT_FOUND for one that
 * was released, or never was. Owned: elasticd_outcomes_free(). */
int elasticd_fetch(struct elasticd_queue *q, const int64_t *tasks, size_t n, int flags,
	int timeout_ms, struct elasticd_outcome **ret, size_t *ret_n);
void elasticd_outcomes_free(struct elasticd_outcome *outcomes, size_t n);
/* Forgets them, those that are not over when they are. */
int elasticd_release(struct elasticd_queue *q, const int64_t *tasks, size_t n);

struct elasticd_queue_stats {
	int64_t queued, running, succeeded, failed, cancelled; /* tasks */
	int64_t put_back;				       /* how often, ever */
	int64_t bytes;					       /* of payloads, values, errors */
	int64_t waiting;				       /* submitters, for room */
	int64_t workers, free;				       /* and slots of theirs that wait */
	int closed;
};
/* q NULL: of all queues together. */
int elasticd_queue_stats(
	struct elasticd *h, struct elasticd_queue *q, struct elasticd_queue_stats *ret);

/* No more tasks, in any queue of the job: when all are done, workers are told that it is over. */
int elasticd_close_queues(struct elasticd *h);

/* Has all workers build this before their next task, and those that come later. ALREADY_EXISTS. */
int elasticd_resource_create(
	struct elasticd *h, const char *name, const struct elasticd_bytes *payload);
/* Tasks that need it and are not over fail. */
int elasticd_resource_drop(struct elasticd *h, const char *name);

struct elasticd_answer {
	char *worker; /* "role:index" */
	void *value;  /* NULL: none; else with a NUL behind it */
	size_t len;
	char *format;
	int code; /* 0, or the status of its error */
	char *message, *details;
};
/* Calls these workers (NULL: all that take work), each of which answers before its next task, and
 * returns when all have: their answers by rank, an error for one that has died, or not answered
 * after answer_timeout_ms. Negative limits are those of the job. Owned: elasticd_answers_free(). */
int elasticd_call(struct elasticd *h, const char *const *workers, size_t n,
	const struct elasticd_bytes *payload, int timeout_ms, int answer_timeout_ms,
	struct elasticd_answer **ret, size_t *ret_n);
void elasticd_answers_free(struct elasticd_answer *answers, size_t n);

/*
 * A worker's place at the queue, for one thread at a time: it has one item, or none. What it has is
 * put back where it is closed without an answer, or the process goes. FAILED_PRECONDITION where
 * this is no task of a job. A child of fork() does not have what its parent has: the place begins
 * anew there.
 */
int elasticd_work_open(struct elasticd *h, struct elasticd_work **ret);
void elasticd_work_close(struct elasticd_work *w);

enum {
	ELASTICD_ITEM_TASK,  /* the result of a task is its value */
	ELASTICD_ITEM_BUILD, /* build the resource name; no value */
	ELASTICD_ITEM_CALL,  /* elasticd_call(); its answer is the value */
	ELASTICD_ITEM_INIT   /* the same for the initializer of the role */
};
struct elasticd_item {
	int kind;
	int64_t lease;
	int64_t task;	     /* -1: no task */
	const char *name;    /* of a resource, or "" */
	const void *payload; /* with a NUL behind it */
	size_t len;
	const char *format; /* "": none */
	const char *const *resources;
	size_t n_resources;
	int64_t limit_ms;	/* of this try; 0: none */
	int index, incarnation; /* the worker's */
	int attempt;		/* tries of the task before this one */
};
/* What to do next. *ret is borrowed until the next call with w but elasticd_work_cancelled(); NULL
 * with OK: there will be nothing any more. FAILED_PRECONDITION where it has an item.
 * RESOURCE_EXHAUSTED: the process has as many as it may have. */
int elasticd_work_next(struct elasticd_work *w, int timeout_ms, const struct elasticd_item **ret);

struct elasticd_failure {
	int code; /* a status that is not OK */
	const char *message;
	const char *details; /* a traceback; NULL: none */
	int retryable;	     /* somebody else is to try again */
	const char *blame; /* with retryable: at fault; NULL: nobody. "worker:1", or another word */
};
/* How it went; value NULL: there is none. ABORTED: the item was cancelled, or put back meanwhile;
 * it is over all the same. FAILED_PRECONDITION without an item. RESOURCE_EXHAUSTED and
 * INVALID_ARGUMENT: it is still this one's. */
int elasticd_work_finish(struct elasticd_work *w, const struct elasticd_bytes *value);
int elasticd_work_fail(struct elasticd_work *w, const struct elasticd_failure *failure);
/* Somebody else is to do it, and nobody is to blame. */
int elasticd_work_put_back(struct elasticd_work *w);
/* The same, and then elasticd_work_next(), in one round trip. What comes of the wait says nothing
 * of the item, which is over; ABORTED as above, and nothing was waited for. One that a signal has
 * ended goes on with elasticd_work_next(). */
int elasticd_work_finish_next(struct elasticd_work *w, const struct elasticd_bytes *value,
	int timeout_ms, const struct elasticd_item **ret);
int elasticd_work_fail_next(struct elasticd_work *w, const struct elasticd_failure *failure,
	int timeout_ms, const struct elasticd_item **ret);
/* 1: the item was cancelled, or is not this one's any more, and need not be gone on with;
 * elasticd_error_text() says why. 0: not so, as a rule without a system call. Any thread may ask
 * while w is open. */
int elasticd_work_cancelled(struct elasticd_work *w);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
