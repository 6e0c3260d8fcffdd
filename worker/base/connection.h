/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connections to the agent. Each call has one of its own while it lasts, so that no thread waits
 * for another's answer; those that are free are kept for the next call. A new one says Hello in the
 * same write as its first call. A call that is given up closes its connection, which takes it back
 * at the agent.
 *
 * A pool belongs to one process: after fork() the child makes its own and leaves its parent's,
 * whose lock another thread may have held, alone.
 */

#include "common/text/json_writer.h"
#include "common/varlink/message.h"
#include "worker/base/handle.h"

struct conn;

/* How long an answer may take. */
struct wait {
	int timeout_ms;	    /* negative: no limit */
	int margin_ms;	    /* added to a limit: the agent keeps it, and answers by then */
	bool interruptible; /* by a signal */
	bool prompt;	    /* instead of these: what the handle has for calls that do not wait */
	bool resumes;	    /* made again, one that a signal has ended goes on */
	size_t tail;	    /* bytes at its end that may then be others: the time that it has */
	const struct conn *beside; /* UNAVAILABLE once this one has ended; NULL: none */
	bool endless;  /* it has no limit, and is FAILED_PRECONDITION once nobody can end it */
	int *ret_lost; /* why it has no answer; NULL: nobody asks */
};
/* Nobody listens; the connection has ended amid it. */
enum { CALL_UNSENT = 1, CALL_LOST };
/* What the agent answers at once: UNAVAILABLE where no byte goes or comes for silence_ms. A handle
 * can have signals end it; the same call, made by the same thread again, then goes on. */
#define WAIT_PROMPT ((struct wait){ .timeout_ms = -1, .prompt = true })
/* The agent keeps this limit, and we do where it does not. */
#define WAIT_CALL(ms) \
	((struct wait){ .timeout_ms = (ms), .margin_ms = 5000, .interruptible = true })
/* For what comes on a stream. */
#define WAIT_STREAM(ms) ((struct wait){ .timeout_ms = (ms), .interruptible = true })

/* The parameters of a call, built up; what fails for want of memory shows at the call. */
struct args {
	struct json_writer text; /* room for what begins the call, and the members */
};
#define ARGS_EMPTY ((struct args){ .text = { .data = NULL } })
void args_fini(struct args *a);
void args_text(struct args *a, const char *name, const char *text); /* NULL: left out */
void args_int(struct args *a, const char *name, int64_t n);
void args_true(struct args *a, const char *name, bool set); /* false: left out */
void args_value(struct args *a, const void *value, size_t len);
void args_names(struct args *a, const char *name, const char *const *names, size_t n);
/* As args_value(), where what is text has this name. */
void args_bytes(struct args *a, const char *name, const void *value, size_t len);
/* The parameters of Put and Get. */
void args_put(struct args *a, const char *key, const void *value, size_t len, int flags);
void args_get(struct args *a, const char *key, int timeout_ms);
/* A name, for a value that follows; what is JSON already. */
void args_name(struct args *a, const char *name);
void args_raw(struct args *a, const char *text, size_t len);
/* The members so far, borrowed until the next one. */
const char *args_members(const struct args *a);
size_t args_length(const struct args *a);

/* The whole call: takes a, which ret (owned) has from then on. A method without a dot is one of
 * io.elasticd.Worker. Returns 0 or a negative errno. */
_must_check_ int args_message(
	struct args *a, const char *method, bool more, struct varlink_buffer *ret);

/* Takes an answer, as text, that needs no tree: 1; 0 where it is another one, which is parsed then;
 * -ENOMEM. An answer with an error is never taken. take NULL: none is. */
struct taker {
	int (*take)(char *text, size_t len, void *arg);
	void *arg;
};
/* Any that says that it is done. */
int answer_nothing(char *text, size_t len, void *arg);
/* Of Get; arg is a struct taken_entry. */
struct taken_entry {
	void *value; /* owned, with a NUL behind it; NULL: not taken */
	size_t len;
};
int answer_entry(char *text, size_t len, void *arg);

/* The status of an error that the agent has answered, with its text. */
int fail_answer(const struct varlink_in *in);
/* The same for the error of a queue, as fail_queue() has it. */
int fail_queue_answer(const json_t *parameters);

/* The status of a negative errno of value_take() and its like. */
int fail_taken(int r);

/* One call: takes a. Returns a status; ret (owned; may be NULL) only where it is OK. */
int remote_call(
	struct elasticd *h, const char *method, struct args *a, struct wait wait, json_t **ret);

/* The same, with an answer that taker may take: ret is NULL then. */
int remote_ask(struct elasticd *h, const char *method, struct args *a, struct wait wait,
	const struct taker *taker, json_t **ret);

/* Before it is made again; interruptible by a signal, or where the handle has it so. A status. */
int remote_pause(struct elasticd *h, int ms, bool interruptible);

/* A connection of the caller's alone, *c; NULL: a new one, which it has from then on. again: the
 * call was begun on it before; the rest is sent, and its answer waited for. Returns a status: on OK
 * ret has the answer, unless taker took it. An answer that is an error is in ret, too. Where there
 * is none, the connection is dropped and *c NULL, unless a signal came, or the time of one that was
 * sent before is over: it can then go on. */
int remote_call_on(struct elasticd *h, struct pool *p, struct conn **c,
	const struct varlink_buffer *call, bool again, struct wait wait, const struct taker *taker,
	struct varlink_in *ret);

/* Several calls in one write. */
struct calls {
	const void *who;	      /* the same where they are made again */
	struct varlink_buffer buffer; /* owned */
	size_t n;		      /* answers to come */
	/* One has come, in order: a status, and what it has where that is OK and it was not taken.
	 */
	void (*answered)(struct calls *calls, int status, json_t *parameters);
	/* How the next one is taken. */
	struct taker (*taker)(struct calls *calls);
	void *arg;
};
/* Makes them, or goes on with those of calls->who that a signal has ended, with their buffer and n.
 * A status that is not OK is no answer's: n answers are missing. INTERRUPTED: made again by the
 * same thread, it goes on. */
int remote_calls(struct elasticd *h, struct calls *calls, struct wait wait);

/* --- streams: a connection that a caller keeps */

/* The pool of this process, referenced; NULL without memory. */
struct pool *pool_ref(struct elasticd *h);
void pool_unref(struct pool *p);

/* Connects, says Hello, makes a "more" call and waits for its first answer, after which nothing is
 * missed; takes a. ret_first: that answer's parameters, owned. */
int remote_stream(struct elasticd *h, struct pool *p, const char *method, struct args *a,
	struct conn **ret, json_t **ret_first);
/* The next answer's parameters, owned. ret_last: no other follows. */
int remote_stream_next(struct elasticd *h, struct pool *p, struct conn *c, struct wait wait,
	json_t **ret, bool *ret_last);
int conn_fd(const struct conn *c);
/* Whether the agent has ended a stream of which no more answers come. */
bool conn_ended(const struct conn *c);
bool pool_is_ours(const struct pool *p);
/* NULL is accepted. */
void conn_drop(struct pool *p, struct conn *c);
/* In a child: closes the descriptor alone, which its parent goes on using. */
void conn_abandon(struct conn *c);

/* Drops the calls of this thread that a signal has ended. */
void pool_forget(struct elasticd *h);
/* Ends all calls, those to come too, with CANCELLED. Makes the pool where there is none. */
void pool_cancel(struct elasticd *h);
/* The same, and waits until their threads have left. */
void pool_close(struct pool *p);
