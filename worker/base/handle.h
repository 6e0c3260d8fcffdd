/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the library share.
 *
 * The library lives in processes that are not its own: it starts no thread, handles no signal,
 * writes to no standard stream, leaves the process no child, and keeps no lock that a child of
 * fork() could find taken.
 */

#include "common/base/board.h"
#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/base/status.h"
#include "worker/elasticd.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	WORKER_KEY_MAX = 1024,
	WORKER_VALUE_MAX = 1 << 20,
	WORKER_NAME_MAX = 256,	 /* of a barrier */
	WORKER_PATH_MAX = 4096,	 /* of a checkpoint */
	WORKER_REASON_MAX = 511, /* of a notice */
	WORKER_EXIT_CODE = 42,
};

struct pool;
struct queue_side;

struct who {
	char *job, *run, *role, *task;
	int index, rank, local_rank, world_size, attempt, incarnation;
};

/* What the public functions leave to a side. Arguments were checked, keys are normalised. */
struct side {
	void (*cancel)(struct elasticd *h);
	void (*forget)(struct elasticd *h); /* calls that a signal has ended, of this thread */
	void (*close)(struct elasticd *h);  /* waits until all threads have left */
	int (*put)(struct elasticd *h, const char *key, const void *value, size_t len, int flags);
	/* Waits for what was put with NOWAIT, and tells its first error; NULL: nothing ever is. */
	int (*flush)(struct elasticd *h, int timeout_ms);
	int (*get)(
		struct elasticd *h, const char *key, int timeout_ms, void **ret, size_t *ret_len);
	int (*delete)(struct elasticd *h, const char *key, int64_t *ret);
	int (*list)(
		struct elasticd *h, const char *key, struct elasticd_entry **ret, size_t *ret_n);
	/* Makes those that are not done; 0, or INTERRUPTED where some are left. */
	int (*pipeline)(struct elasticd *h, struct elasticd_op *ops, size_t n, int timeout_ms);
	int (*watch_open)(struct elasticd *h, const char *key, int64_t since, void **ret);
	int (*watch_next)(void *stream, int timeout_ms, struct elasticd_entry **ret);
	int (*events_open)(struct elasticd *h, void **ret);
	int (*events_next)(void *stream, int timeout_ms, struct elasticd_event **ret);
	int (*stream_fd)(const void *stream);
	void (*watch_close)(void *stream);
	void (*events_close)(void *stream);
	int (*barrier)(struct elasticd *h, const char *name, const char *const *members, size_t n,
		int timeout_ms);
	int (*barrier_cancel)(struct elasticd *h, const char *name, const char *message);
	int (*alive)(struct elasticd *h, const char *const *members, size_t n, int timeout_ms,
		char ***ret, size_t *ret_n);
	int (*states)(struct elasticd *h, const char *const *roles, size_t n,
		struct elasticd_member **ret, size_t *ret_n);
	int (*result)(struct elasticd *h, const void *value, size_t len);
	int (*report)(struct elasticd *h, int code, const char *message);
	int (*wait_error)(struct elasticd *h, int timeout_ms, struct elasticd_error **ret);
	int (*leave)(struct elasticd *h, int timeout_ms);
	int (*step)(struct elasticd *h, int64_t n, int *ret_action);
	int (*saved)(struct elasticd *h, int64_t n, const char *path);
	int (*preemption)(struct elasticd *h, struct elasticd_preemption *ret);
	int (*notify)(struct elasticd *h, const char *reason, int64_t grace_ms);
	const struct queue_side *queue;
};
extern const struct side side_remote;

struct elasticd {
	/* What beat and its like touch: the board's, or private memory without one. */
	struct board_header *header;
	struct board_slot *slot;
	uint64_t token;
	uint64_t attempt;
	const atomic_bool *fences; /* a step needs a barrier of its own behind it */

	const struct side *side;
	struct who who;
	void *board; /* mapped, BOARD_BYTES; or private, owned */
	bool board_mapped;
	char *socket, *token_text; /* NULL: alone */
	bool control;		   /* the socket is elasticd's: this is no task */
	bool alone; /* nobody supervises it: the agent is the process's own (private_agent.h) */
	char *log_file, *error_file; /* NULL: none */
	_Atomic int log_fd;	     /* -1: not open yet */
	atomic_bool log_cut;	     /* its last line was not written to its end */
	_Atomic(struct pool *) pool; /* of the remote side */
	atomic_bool interruptible;   /* signals end calls that do not wait, too */
	_Atomic int exit_code;	     /* with which to leave on a notice */
	int silence_ms;		     /* so long the agent may keep such a call waiting */
};

/* --- failure.c: each returns its status */

int fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Takes missing ("a:0 b:1", or NULL). */
int fail_missing(int status, char *missing, const char *message);
struct queue_failure_text {
	int code;
	const char *message, *details, *worker;
	int64_t task;  /* -1: none */
	int exit_code; /* -1: none */
};
int fail_queue(const struct queue_failure_text *q);
int fail_memory(void);
/* A wait that nobody can end. */
int fail_single(void);
/* The status of a negative errno, with err's text. */
int fail_errno(int r, const struct error *err);

/* --- values.c */

/* Valid UTF-8? */
bool text_valid(const char *s, size_t len);
/* Owned, normalised; NULL where there is no memory. */
char *key_normalise(const char *key);
/* Whether a value goes as text: it must be UTF-8 without NUL, and not much longer with its escapes
 * than as base64. */
bool value_is_text(const char *value, size_t len);
/* An owned copy with a NUL behind it. -ENOMEM. */
_must_check_ int value_copy(const char *text, size_t len, void **ret, size_t *ret_len);
/* The value of an Entry or a Change, owned, with a NUL behind it. -EBADMSG, -ENOMEM. */
_must_check_ int value_take(const json_t *entry, void **ret, size_t *ret_len);
/* A JSON string's copy, or ""; NULL where there is no memory. */
char *text_take(const json_t *obj, const char *key);
/* Copies what fits, with its NUL, and no half of a character. */
void text_cut(char *to, size_t size, const char *from);

/* --- process_id.c */

pid_t process_id(void);

/* --- waiting, in failure.c */

int64_t clock_ms(void);
/* When a wait of timeout_ms that begins now is over: -1 never. */
int64_t clock_end(int timeout_ms);
/* What is left until then as a timeout: -1 for never, at least 1 for a limit that was not 0. */
int clock_left(int64_t end, int timeout_ms);
/* After EINTR of a wait with a limit, which the kernel never restarts: whether a handler without
 * SA_RESTART can have been the cause. */
bool signal_interrupts(void);

/* --- worker/api/preemption.c */

/* Asks the kernel to make a barrier in all threads of this process when the agent wants one; once
 * per process, and again in its children. */
void preempt_register(void);
/* Whether it has refused; for ever. */
const atomic_bool *preempt_fences(void);
/* What elasticd_step() returns while something is up. */
int preempt_step(struct elasticd *h, int64_t n);

/* --- worker/api/open.c */

/* With what all handles have; NULL without memory. handle_free() accepts half-built ones. */
struct elasticd *handle_new(void);
void handle_free(struct elasticd *h);
int board_private(struct elasticd *h);

/* --- worker/api/error_file.c */

int errorfile_write(const struct elasticd *h, const char *message, const char *traceback);

/* --- worker/api/store.c */

/* INVALID_ARGUMENT where text is NULL, too long, or not UTF-8. */
int check_text(const char *what, const char *text, size_t max);
/* NULL: all are meant; a list of none is refused. */
int check_names(const char *what, const char *const *names, size_t n);

/* ret_key is owned and normalised. empty: whether all keys may be meant. */
int check_key(const char *key, bool empty, char **ret_key);
int check_put(const void *value, size_t len, int flags);

/* --- worker/api/pipeline.c */

/* What became of one, with this thread's last failure where status is one. */
void op_end(struct elasticd_op *op, int status);
/* Whether it can be made; ret_key is owned. Otherwise it has ended. */
bool op_check(struct elasticd_op *op, char **ret_key);

/* An owned copy; NULL without memory. */
struct elasticd_error *error_new(int code, const char *message, const char *task, bool reported);
