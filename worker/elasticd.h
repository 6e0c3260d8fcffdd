/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libelasticd lets the workers of a group share keys, barriers, results and errors. See
 * elasticd(3); the work queue is in elasticd_queue.h.
 *
 * A handle takes everything from the environment that the agent gives to its workers. Outside
 * elasticd the process is a group of one: when the program first shares something, the library
 * starts an agent for this program alone. Its threads, and children that it forks after that, use
 * the same agent, which ends with the last of these processes. So the same program runs by hand.
 *
 * Any thread may call any function at any time with the same handle. After fork() the child uses
 * the same handle as the same worker.
 *
 * Errors: a function that can fail returns ELASTICD_STATUS_OK, which is 0, or another status.
 * Results go to parameters called ret_..., which a failure leaves untouched. elasticd_error_text()
 * says more about a failure. Functions that cannot fail return their value, or nothing.
 *
 * Waiting: timeout_ms is a limit in milliseconds; -1 means no limit, 0 means do not wait. A
 * function that waits ends with CANCELLED when the group is stopped, with DEADLINE_EXCEEDED after
 * timeout_ms, with UNAVAILABLE when the agent is gone, and with INTERRUPTED on a signal whose
 * handler was installed without SA_RESTART. A function without timeout_ms does not wait for other
 * workers: signals do not end it, and it ends with UNAVAILABLE when the agent neither reads nor
 * writes anything for a minute.
 *
 * Calling again after INTERRUPTED: some calls go on where the signal ended them, when the same
 * thread makes them again with the same arguments (elasticd_pipeline() and all functions of
 * elasticd_queue.h with timeout_ms, which may be another one then). A thread that will not make
 * such a call again says so by elasticd_give_up().
 */
#ifndef ELASTICD_H
#define ELASTICD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ELASTICD_ABI 0 /* libelasticd.so.0 */

/* The canonical status codes. INTERRUPTED is the library's own. */
enum elasticd_status {
	ELASTICD_STATUS_OK = 0,
	ELASTICD_STATUS_CANCELLED = 1,
	ELASTICD_STATUS_UNKNOWN = 2,
	ELASTICD_STATUS_INVALID_ARGUMENT = 3,
	ELASTICD_STATUS_DEADLINE_EXCEEDED = 4,
	ELASTICD_STATUS_NOT_FOUND = 5,
	ELASTICD_STATUS_ALREADY_EXISTS = 6,
	ELASTICD_STATUS_PERMISSION_DENIED = 7,
	ELASTICD_STATUS_RESOURCE_EXHAUSTED = 8,
	ELASTICD_STATUS_FAILED_PRECONDITION = 9,
	ELASTICD_STATUS_ABORTED = 10,
	ELASTICD_STATUS_OUT_OF_RANGE = 11,
	ELASTICD_STATUS_UNIMPLEMENTED = 12,
	ELASTICD_STATUS_INTERNAL = 13,
	ELASTICD_STATUS_UNAVAILABLE = 14,
	ELASTICD_STATUS_DATA_LOSS = 15,
	ELASTICD_STATUS_UNAUTHENTICATED = 16,
	ELASTICD_STATUS_INTERRUPTED = 100
};

struct elasticd;
struct elasticd_watch;
struct elasticd_events;

/* "0.1.0"; a static string. */
const char *elasticd_version(void);
/* "DeadlineExceeded"; a static string. */
const char *elasticd_status_name(enum elasticd_status status);
/* The message of this thread's last failed call, "" before the first. Borrowed until this thread's
 * next failed call. */
const char *elasticd_error_text(void);
/* The workers that the failure names, as "worker:1 worker:2", or "". Borrowed likewise. */
const char *elasticd_error_missing(void);

/* --- the handle */

/* Opens a handle of this process's worker; each call gives another handle. INVALID_ARGUMENT for
 * variables that make no sense, UNAVAILABLE where the agent does not answer, ABORTED for a token
 * that is stale because the worker has another process by now. */
enum elasticd_status elasticd_open(struct elasticd **ret);
/* Frees the handle; calls of other threads that still wait end with CANCELLED first. Close the
 * handle's watches, events and queues before it. NULL is accepted. */
void elasticd_close(struct elasticd *h);
/* Ends waiting calls, and all later ones, with CANCELLED, and leaves the handle to be closed later:
 * for programs in which the last thread to use a handle closes it. */
void elasticd_cancel(struct elasticd *h);
/* Drops the calls of this thread that ended with INTERRUPTED: it will not make them again. The
 * agent may or may not have done what they asked for. */
void elasticd_give_up(struct elasticd *h);

/* Which worker this is. Outside elasticd: supervised false, job "", run "", role "worker", index 0,
 * rank 0, local_rank 0, world_size 1, attempt 0, start 0. Strings are borrowed until
 * elasticd_close(). */
bool elasticd_supervised(const struct elasticd *h);
const char *elasticd_job(const struct elasticd *h);
const char *elasticd_run(const struct elasticd *h);
const char *elasticd_role(const struct elasticd *h);
int elasticd_index(const struct elasticd *h);
int elasticd_rank(const struct elasticd *h);
int elasticd_local_rank(const struct elasticd *h);
int elasticd_world_size(const struct elasticd *h);
/* How often the group was started before. */
int elasticd_attempt(const struct elasticd *h);
/* How often this worker was started before in this attempt. */
int elasticd_start(const struct elasticd *h);

/* --- signs of life: plain memory accesses, no system call; the first step reads the clock */

/* Says that this worker lives. */
void elasticd_beat(struct elasticd *h);
/* Whether a notice of preemption is up. */
bool elasticd_notice(const struct elasticd *h);
/* Whether the group is being stopped. */
bool elasticd_stopping(const struct elasticd *h);

/* The thing to do before a step. */
enum elasticd_action {
	ELASTICD_ACTION_CONTINUE = 0,	   /* nothing */
	ELASTICD_ACTION_SAVE = 1,	   /* save a checkpoint, and go on */
	ELASTICD_ACTION_SAVE_AND_EXIT = 2, /* save, then exit with elasticd_exit_code() */
	ELASTICD_ACTION_EXIT = 3	   /* exit with that code; there is nothing to save */
};
/*
 * Begins step n, which is also a beat, and tells what to do before it, at this moment. All workers
 * of the group save at the same step. ret_action may be NULL for a program that never saves.
 *
 * While neither a notice nor an error of the group is up these are plain memory accesses, and the
 * action is CONTINUE. Otherwise the function asks the agent, and waits only while the workers agree
 * on the step.
 *
 * The step has begun also where the function fails. When a worker has reported an error, the next
 * step of every worker fails with the code and the text of that error; elasticd_error_missing()
 * names the worker. CANCELLED: the group was stopped. UNAVAILABLE: the agent is gone. Only one
 * thread of a worker at a time can be told to save.
 */
enum elasticd_status elasticd_step(struct elasticd *h, int64_t n, enum elasticd_action *ret_action);

/* --- readiness */

/* Says that this worker is ready, for a job whose specification asks for that (ready.call); others
 * wait for the job until all its workers have. Calling it again does nothing. */
enum elasticd_status elasticd_ready(struct elasticd *h);

/* --- preemption */

/* The checkpoint that elasticd_step(h, n) asked for is written. path, at most 4096 bytes, is shown
 * to people and kept with the run; it may be NULL. A worker that does not call this tells the same
 * by its next step, or its exit, but without a path. FAILED_PRECONDITION: no notice is up.
 * OUT_OF_RANGE: the worker was not asked to save at step n. */
enum elasticd_status elasticd_saved(struct elasticd *h, int64_t n, const char *path);

struct elasticd_preemption {
	char source[32];     /* "operator", "signal", "gce", "worker" */
	char reason[512];    /* for people */
	int64_t time_us;     /* of the notice, since the epoch */
	int64_t deadline_us; /* when the machine is gone; -1: not known */
	int64_t step;	     /* that the workers have agreed on; -1: not yet */
	bool final;	     /* workers exit once they have saved at that step */
	int exit_code;
};
/* The notice that is up. NOT_FOUND, without a system call, while there is none. */
enum elasticd_status elasticd_preempted(struct elasticd *h, struct elasticd_preemption *ret);

/* Gives the job notice, for a worker that got a signal or asked its cloud. grace_ms: how long the
 * machine is still there (0: save and leave at once; -1: not known). reason is cut after 511 bytes.
 * FAILED_PRECONDITION: the job is at its end, or this worker is being stopped, so that the signal
 * was no notice. Must not be called in a signal handler: set a flag there, and call this before the
 * next step. */
enum elasticd_status elasticd_notify(struct elasticd *h, const char *reason, int64_t grace_ms);

/* The code with which a worker leaves: preemption.exit_code of the job, 42 outside elasticd. */
int elasticd_exit_code(const struct elasticd *h);

/* Writes the checkpoint of step. It may store where: path has path_size bytes, and is "" before.
 * Returns 0, or anything else where it failed. */
typedef int (*elasticd_save_fn)(void *arg, int64_t step, char *path, size_t path_size);
/* Leaves with code; need not return. */
typedef void (*elasticd_exit_fn)(void *arg, int code);
/*
 * elasticd_step() that does what the action says: it calls save and then elasticd_saved(), and it
 * calls leave (NULL: exit(3)) where the worker has to exit. Fails as elasticd_step() does, as
 * elasticd_saved() does, and with ABORTED where save has failed; then nothing was told as saved,
 * and leave was not called. ret_action may be NULL.
 */
enum elasticd_status elasticd_checkpoint(struct elasticd *h, int64_t n, elasticd_save_fn save,
	elasticd_exit_fn leave, void *arg, enum elasticd_action *ret_action);

/* --- keys and values */

/*
 * Keys are normalised ("//a//b/" is "a/b") and have 1 to 1024 bytes; values are any bytes, at most
 * 1 MiB. A value is gone with the attempt in which it was stored, unless it is PERSISTENT.
 */
enum elasticd_put_flags {
	ELASTICD_PUT_OVERWRITE = 1,
	ELASTICD_PUT_PERSISTENT = 2,
	ELASTICD_PUT_NOWAIT = 4
};
/* Without OVERWRITE, ALREADY_EXISTS where the key is there. */
enum elasticd_status elasticd_put(
	struct elasticd *h, const char *key, const void *value, size_t len, int flags);
/*
 * With NOWAIT, which needs OVERWRITE, elasticd_put() hands the write over and need not wait for its
 * answer; the write is done even if the process ends at once. Every later call with this handle
 * happens after it, and waits for it where it has to; elasticd_get() of the key has this value. The
 * first error of such writes is returned by the next elasticd_flush(), or by the next
 * elasticd_put() with NOWAIT, which has then done nothing.
 *
 * elasticd_flush() waits until the agent has answered all of them. UNAVAILABLE: the agent is gone,
 * and some writes may or may not have been done. After DEADLINE_EXCEEDED and INTERRUPTED they are
 * still on their way. elasticd_close() does not wait for them, and drops their errors.
 */
enum elasticd_status elasticd_flush(struct elasticd *h, int timeout_ms);
/* Waits for the key; with a timeout_ms of 0, NOT_FOUND where it is not there. ret_value is owned
 * (free()) and has a NUL behind its ret_len bytes. */
enum elasticd_status elasticd_get(
	struct elasticd *h, const char *key, int timeout_ms, void **ret_value, size_t *ret_len);
/* Deletes the key and all below it. ret_deleted, how many there were, may be NULL. */
enum elasticd_status elasticd_delete(struct elasticd *h, const char *key, int64_t *ret_deleted);

struct elasticd_entry {
	char *key;
	void *value; /* NULL in a change: the key was deleted */
	size_t len;
	int64_t revision;
};
/* All keys below key, sorted. Owned: elasticd_entries_free(). */
enum elasticd_status elasticd_list(
	struct elasticd *h, const char *key, struct elasticd_entry **ret, size_t *ret_n);
void elasticd_entries_free(struct elasticd_entry *entries, size_t n);

/* One of several calls that go to the agent in one write. Zero it, then set kind, key and, for a
 * put, value, len and flags. */
enum elasticd_op_kind { ELASTICD_OP_PUT = 1, ELASTICD_OP_GET = 2, ELASTICD_OP_DELETE = 3 };
struct elasticd_op {
	enum elasticd_op_kind kind;
	int flags; /* of a put */
	const char *key;
	const void *value; /* of a put */
	size_t len;
	/* Set by elasticd_pipeline(): */
	bool done; /* it was made, with whatever status, and is not made again */
	enum elasticd_status status;
	void *ret_value; /* of a get; has a NUL behind its ret_len bytes */
	size_t ret_len;
	int64_t ret_deleted; /* of a delete */
	char *text;	     /* the message of a failure; may be NULL */
};
/*
 * Makes those of the n ops that are not done, in this order; other callers may come between them.
 * timeout_ms is for all gets together, and means what it means for elasticd_get(). Returns OK where
 * all have succeeded, else the status of the first op that failed; the ops behind it are made all
 * the same. Where the agent is gone, ops without an answer are UNAVAILABLE, and may or may not have
 * been done.
 *
 * INTERRUPTED: some ops are not done. The same call, made again by the same thread, goes on with
 * them.
 */
enum elasticd_status elasticd_pipeline(
	struct elasticd *h, struct elasticd_op *ops, size_t n, int timeout_ms);
/* Frees what elasticd_pipeline() has set, so that the same ops can be made again. */
void elasticd_ops_clear(struct elasticd_op *ops, size_t n);

/* Watches key and all below it for changes after revision since (-1: changes from now on; none is
 * missed once this has returned). OUT_OF_RANGE: the agent no longer remembers since. One thread at
 * a time may use a watch. */
enum elasticd_status elasticd_watch_open(
	struct elasticd *h, const char *key, int64_t since, struct elasticd_watch **ret);
/* The next change. Owned: elasticd_entries_free(ret, 1). OUT_OF_RANGE: changes were lost; list the
 * keys, and open another watch. */
enum elasticd_status elasticd_watch_next(
	struct elasticd_watch *w, int timeout_ms, struct elasticd_entry **ret);
/* For poll(), once elasticd_watch_next(w, 0, ...) has returned DEADLINE_EXCEEDED: readable when
 * there may be another change. */
int elasticd_watch_fd(const struct elasticd_watch *w);
void elasticd_watch_close(struct elasticd_watch *w);

/* --- the group */

/*
 * Waits until all members ("role:index"; NULL: all workers but evaluators) have called it with this
 * name. A list of none is INVALID_ARGUMENT, here and wherever names are given. The first caller
 * fixes members and time limit. A name can be used again and again.
 *
 * On failure elasticd_error_missing() names the members that did not come. INTERNAL: a member
 * failed, ended or left. FAILED_PRECONDITION: an operator stopped a member, or this worker has
 * left.
 */
enum elasticd_status elasticd_barrier(
	struct elasticd *h, const char *name, const char *const *members, size_t n, int timeout_ms);
/* Ends the wait of all workers at that barrier with CANCELLED and message (NULL: none).
 * FAILED_PRECONDITION where no worker waits there. */
enum elasticd_status elasticd_barrier_cancel(
	struct elasticd *h, const char *name, const char *message);

/* Which of members (NULL: all) live: the same answer for all callers. Every member that lives has
 * to call it. Owned: elasticd_names_free(). */
enum elasticd_status elasticd_alive(struct elasticd *h, const char *const *members, size_t n,
	int timeout_ms, char ***ret, size_t *ret_n);
void elasticd_names_free(char **names, size_t n);

struct elasticd_error {
	enum elasticd_status code;
	char *message;
	char *worker;  /* "role:index" of its origin */
	bool reported; /* by that worker itself */
};
void elasticd_error_free(struct elasticd_error *e);

struct elasticd_worker {
	char *worker; /* "role:index" */
	char *state;  /* "running" */
	int rank;
	int start;    /* how often it was started before in this attempt */
	bool healthy; /* it runs, has reported no error and has not left */
	bool left;
	struct elasticd_error *error; /* NULL: none */
};
/* The workers of roles (NULL: all), by role and index. Owned: elasticd_workers_free(). */
enum elasticd_status elasticd_states(struct elasticd *h, const char *const *roles, size_t n,
	struct elasticd_worker **ret, size_t *ret_n);
void elasticd_workers_free(struct elasticd_worker *workers, size_t n);

/* Stores this worker's result, at most 1 MiB, with the run; a later result replaces it. */
enum elasticd_status elasticd_result(struct elasticd *h, const void *value, size_t len);
/* Tells all other workers that this one has failed, and why; ends nothing by itself. Also writes
 * the worker's error.json where there is none yet. */
enum elasticd_status elasticd_report_error(
	struct elasticd *h, enum elasticd_status code, const char *message);
/* Waits for the group's error. Owned: elasticd_error_free(). */
enum elasticd_status elasticd_wait_error(
	struct elasticd *h, int timeout_ms, struct elasticd_error **ret);
/* Leaves the group, and waits until all workers that are not recoverable have left. After that this
 * worker's barriers are FAILED_PRECONDITION. */
enum elasticd_status elasticd_leave(struct elasticd *h, int timeout_ms);

struct elasticd_event {
	char *event;  /* "error", "joined", "gone", "stopping", "notice", "lost" */
	char *worker; /* or NULL */
	char *text;
	struct elasticd_error *error; /* or NULL */
};
/* Events of the group; none is missed once this has returned. One thread at a time may use them. */
enum elasticd_status elasticd_events_open(struct elasticd *h, struct elasticd_events **ret);
/* The next event. Owned: elasticd_event_free(). */
enum elasticd_status elasticd_events_next(
	struct elasticd_events *e, int timeout_ms, struct elasticd_event **ret);
/* For poll(), as elasticd_watch_fd(). */
int elasticd_events_fd(const struct elasticd_events *e);
void elasticd_event_free(struct elasticd_event *event);
void elasticd_events_close(struct elasticd_events *e);

/* --- files of the worker */

/*
 * Appends a line with one JSON object to the worker's log.jsonl: time_us, level, message, rank,
 * attempt, and the members of fields (a JSON object as text, or NULL). Each line is one write() to
 * the file itself, so lines of threads and children never mix. Does nothing where the worker has no
 * such file.
 */
enum elasticd_status elasticd_log(
	struct elasticd *h, const char *level, const char *message, const char *fields);

/* Writes the worker's error.json, in torchelastic's format: message, and traceback (NULL: none).
 * Does nothing where there is one already. */
enum elasticd_status elasticd_write_error(
	struct elasticd *h, const char *message, const char *traceback);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
