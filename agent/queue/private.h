/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the work queue's service share; nobody else includes this.
 *
 *   service.c         life, what follows a step of the machine, the timer
 *   waits.c           calls that wait for the machine
 *   methods.c         the table, the small methods
 *   method_submit.c   Submit, SubmitMany
 *   repeated_calls.c  calls that are made again
 *   method_fetch.c    Fetch, FetchMany
 *   method_list.c     List, Stats
 *   method_work.c     Work, Finish, Fail, PutBack, Look
 *   method_cancels.c  Cancels
 *   method_keep.c     Keep
 *   method_call.c     Call, resources
 *   queue_json.c      what goes out, as JSON text
 *   durable.c         what happens to tasks, kept on disk
 *   group_hooks.c     what happens to tasks and the group (group_hooks.h), with
 *                     fail_queue.c, effects.c, job_json.c
 *
 * After whatever may have changed the machine comes dispatch_run(): it has done what the machine
 * wants, answers, and sets the timer. The journal is written once in a turn of the loop, before the
 * answers leave (dispatch_leaving()).
 */

#include "agent/queue/machine/queue.h"
#include "agent/queue/service.h"
#include "agent/sharing/private.h"
#include "common/text/json_scan.h"

#include <sys/queue.h>

struct dispatch_once;
struct dispatch_group; /* group_hooks.c's own */
struct journal;
struct dispatch_wait;

struct dispatch_door {
	struct dispatch *d;
	bool workers; /* whether callers are workers, else they are coordinators only */
};

LIST_HEAD(dispatch_streams, dispatch_stream);
LIST_HEAD(dispatch_keepers, dispatch_keeper);
TAILQ_HEAD(dispatch_waits, dispatch_wait);
TAILQ_HEAD(dispatch_listings, dispatch_listing);
LIST_HEAD(dispatch_all, dispatch_wait);

enum {
	DISPATCH_ANSWER_BYTES = 4 << 20, /* a list ends with the element that goes beyond it */
	DISPATCH_LONG_BYTES = 4096, /* answers that are longer count as unread for their task */
	DISPATCH_SPARE = 64,
	DISPATCH_TEXT_KEPT = 1 << 20,	 /* memory of an answer that stays for the next one */
	DISPATCH_HELD_BYTES = 256 << 20, /* of what waits for room, of all submitters */
};

/* NULL: the queue is not there. */
struct dispatch *dispatch_of(const struct supervisor *sv);

struct dispatch {
	struct supervisor *sv;
	struct queues *q;
	struct queue_options options;
	struct dispatch_group *group;
	struct journal *journal; /* NULL: what happens is not kept */
	bool uncommitted;	 /* something was added to it that is yet to be written */
	struct dispatch_door doors[2];
	struct loop_timer *timer;
	uint64_t timer_ms;	     /* when it fires; UINT64_MAX: it is not armed */
	struct dispatch_waits ready; /* over, and not answered yet */
	struct dispatch_all waits;   /* all */
	char stopping[1024];	     /* what tasks get that would wait, "": nothing */
	struct dispatch_streams streams;
	struct dispatch_keepers keepers;
	struct dispatch_once *once;	   /* NULL: no call had a number */
	struct dispatch_listings listings; /* Lists that are not answered yet */
	struct json_writer text; /* of the answer that is being written; its memory stays */
	size_t held_bytes;	 /* of what waits for room */
	uint64_t now_ms;	 /* when the present step was made */
	LIST_HEAD(, dispatch_wait) spare; /* memory for the next ones */
	int n_spare;
	bool running, again; /* in dispatch_run(); somebody called it from there */
	struct queue_do todo;
};

/* A call that waits for the machine, from its step until its answer. */
struct dispatch_wait {
	struct queue_wait wait;
	TAILQ_ENTRY(dispatch_wait) entry; /* of d->ready */
	LIST_ENTRY(dispatch_wait) all;
	struct dispatch *d;
	struct varlink_call *call;
	void (*answer)(struct dispatch_wait *x); /* where it went well: the final answer */
	bool ready;
	bool workers;		/* its connection is a worker's */
	void *holder;		/* WORK */
	bool release;		/* FETCH */
	int64_t id;		/* FETCH of one */
	int64_t *ids;		/* ... of many; owned */
	size_t n;		/* ids, or tasks */
	uint64_t once;		/* SUBMIT, JOIN, DONE: see repeated_calls.c; 0: none */
	struct queue_new *many; /* SUBMIT of many; owned, else one */
	struct queue_new one;
	void *kept;	   /* what they point to; owned */
	size_t kept_bytes; /* as counted in d->held_bytes */
};

/* service.c */
/* After any step, or several. From inside itself it is put off until the outer one has its turn. */
void dispatch_run(struct dispatch *d);
/* The same later in this turn of the loop: where many steps come together, or where answers must
 * not be given yet. */
void dispatch_run_soon(struct dispatch *d);

/* durable.c: all but the first do nothing without a journal. */
_must_check_ int dispatch_journal_open(struct dispatch *d, struct error *err);
void dispatch_journal_close(struct dispatch *d);
void dispatch_journal_add(struct dispatch *d, const struct queue_record *r);
void dispatch_journal_lost(struct dispatch *d);
void dispatch_journal_stale(struct dispatch *d);
/* Whether it takes so much more, else the call was answered. */
bool dispatch_journal_room(struct dispatch *d, struct varlink_call *call, size_t bytes);

/* waits.c */
/* For a step at d->now_ms. NULL after having answered the call. */
struct dispatch_wait *dispatch_wait_new(
	struct dispatch *d, struct varlink_call *call, void (*answer)(struct dispatch_wait *x));
/* Nothing has been asked of the machine. */
void dispatch_wait_drop(struct dispatch_wait *x);
/* Counts bytes that it holds while it waits: false after having dropped it and answered the call,
 * as too many wait. */
_must_check_ bool dispatch_wait_hold(struct dispatch_wait *x, size_t bytes);
/* Its step was made, and said over: it is answered now, or when it is. Returns 0. */
int dispatch_wait_begun(struct dispatch_wait *x, bool over);
/* The same, unless it would wait for own (dispatch_own()): then the call is refused. */
int dispatch_wait_begun_by(struct dispatch_wait *x, bool over, int64_t own);
/* Answers one that is over, and forgets it. */
void dispatch_wait_over(struct dispatch_wait *x);
/* Before their end. */
void dispatch_waits_free(struct dispatch *d);
/* The time, read anew; it stays in d->now_ms for the answers. */
uint64_t dispatch_now(struct dispatch *d);
/* By d->now_ms; negative: none. */
uint64_t dispatch_deadline(const struct dispatch *d, int64_t timeout_ms);
/* Whatever tasks wait for is Cancelled with why, also what they would from now on. */
void dispatch_waits_stop(struct dispatch *d, const char *why);
void dispatch_waits_go(struct dispatch *d);

/* methods.c */
/* Whether job is this one, or NULL; else the call was answered. */
bool dispatch_is_job(const struct dispatch *d, struct varlink_call *call, const char *job);
/* The slot of a call's worker, or -1. */
/* methods.c: the interface; the methods' arg is a door. */
extern const struct varlink_method dispatch_methods[];
extern const struct varlink_flat_method dispatch_flat_methods[];
/* durable.c: whether answers rely on a journal, and the one call before they leave: it is written.
 */
bool dispatch_is_durable(const struct supervisor *sv);
void dispatch_leaving(struct supervisor *sv);
int dispatch_caller(const struct dispatch_door *door, const struct varlink_call *call);
/* How a call wants to wait. */
struct dispatch_asks {
	int64_t timeout_ms, lease, once; /* -1, -1, 0: none */
	bool release;
};
struct dispatch_asks dispatch_asks_of(const struct flat *p);
/* The task that the caller would wait for, where it waits for all of queue, or (ids) for these, and
 * that waits for the caller; -1: none. */
int64_t dispatch_own(const struct dispatch_door *door, const struct varlink_call *call,
	const struct dispatch_asks *asks, const char *queue, const int64_t *ids, size_t n);
int dispatch_refuse_own(struct varlink_call *call, int64_t task);
/* "tasks": sorted as given, owned. 0, or non-zero after having answered the call. */
_must_check_ int dispatch_ids(
	struct varlink_call *call, const json_t *list, int64_t **ret, size_t *ret_n);
/* Bytes as a call has them: as text (by one of two names) or as base64, each NULL where it does
 * not. */
struct dispatch_bytes {
	const char *name, *text, *base64, *format;
	size_t len, base64_len;
};
struct dispatch_bytes dispatch_bytes_of(const struct flat *p, const char *name);
/* Borrowed from what has them, or owned by ret_owned. 0, -EINVAL with err, -ENOMEM. */
_must_check_ int dispatch_bytes(const struct dispatch_bytes *b, struct queue_bytes *ret,
	void **ret_owned, struct error *err);
/* Final answer for what these functions return. */
int dispatch_refuse(struct varlink_call *call, int r, const struct error *err);
int dispatch_no_memory(struct varlink_call *call);

/* repeated_calls.c */
/* What a call with such a number (0: none) is known by; 0: not at all. */
uint64_t dispatch_once_key(int64_t number, const char *queue);
/* A submit is answered, or its caller has gone: what is in is told to who makes it again. Without
 * memory it is not. */
void dispatch_once_keep(const struct dispatch_wait *x);
/* The same for a call that is told the error of its queue. */
void dispatch_once_keep_error(const struct dispatch_wait *x, json_t *error);
/* Whether it was answered before, and is so again. */
bool dispatch_once_answer(struct dispatch *d, struct varlink_call *call, uint64_t key);
void dispatch_once_free(struct dispatch *d);
/* method_submit.c: the answer of SubmitMany. */
void dispatch_reply_many(
	struct dispatch *d, struct varlink_call *call, int64_t first, size_t accepted);

/* method_keep.c: those that have outlasted their calls. No queue ends by it. */
void dispatch_keepers_free(struct dispatch *d);

/* method_submit.c, method_fetch.c, method_list.c, method_work.c, method_cancels.c,
 * method_call.c: the methods, with a door as arg */
int dispatch_submit(struct varlink_call *call, const struct flat *p, void *arg);
int dispatch_submit_many(struct varlink_call *call, json_t *p, void *arg);
int dispatch_fetch(struct varlink_call *call, const struct flat *p, void *arg);
int dispatch_fetch_many(struct varlink_call *call, const struct flat *p, void *arg);
int dispatch_list(struct varlink_call *call, json_t *p, void *arg);
int dispatch_stats(struct varlink_call *call, json_t *p, void *arg);
int dispatch_work(struct varlink_call *call, const struct flat *p, void *arg);
int dispatch_finish(struct varlink_call *call, const struct flat *p, void *arg);
int dispatch_fail(struct varlink_call *call, json_t *p, void *arg);
int dispatch_put_back(struct varlink_call *call, json_t *p, void *arg);
int dispatch_look(struct varlink_call *call, json_t *p, void *arg);
int dispatch_cancels(struct varlink_call *call, json_t *p, void *arg);
int dispatch_keep(struct varlink_call *call, json_t *p, void *arg);
int dispatch_create_resource(struct varlink_call *call, const struct flat *p, void *arg);
int dispatch_drop_resource(struct varlink_call *call, json_t *p, void *arg);
int dispatch_resources(struct varlink_call *call, json_t *p, void *arg);
int dispatch_call_all(struct varlink_call *call, const struct flat *p, void *arg);

/* Whether the call's connection is of workers, else it was answered. */
bool dispatch_is_worker(const struct dispatch_door *door, struct varlink_call *call);
/* Tells whoever asked for Cancels. */
void dispatch_stream_cancelled(struct dispatch *d, const struct queue_do *todo);

/* queue_json.c: JSON text; literal pieces by dispatch_put(). */
#define dispatch_put(t, literal) json_write((t), (literal), sizeof(literal) - 1)
/* d->text, made empty. */
struct json_writer *dispatch_text_begin(struct dispatch *d);
/* Final answer with d->text. */
int dispatch_text_reply(struct dispatch *d, struct varlink_call *call);
const char *dispatch_worker_name(const struct dispatch *d, int worker);
/* "key":"...", or "base64":"...", and "format":"..." where there is one. */
void dispatch_text_bytes(struct json_writer *t, const char *key, const struct queue_bytes *b);
void dispatch_text_error(
	const struct dispatch *d, struct json_writer *t, const struct queue_error *e);
void dispatch_text_outcome(
	const struct dispatch *d, struct json_writer *t, const struct queue_outcome *o);
void dispatch_text_info(
	const struct dispatch *d, struct json_writer *t, const struct queue_outcome *o);
/* An Item for the worker's task. */
void dispatch_text_item(
	const struct dispatch *d, struct json_writer *t, const struct queue_item_view *item);
const char *dispatch_state_name(enum queue_state s);
/* A TaskError, owned. */
json_t *dispatch_error_json(const struct dispatch *d, const struct queue_error *e);

/* group_hooks.c, which service.c calls: */
/* What the specification says. */
void dispatch_group_options(const struct supervisor *sv, struct queue_options *ret);
/* After the machine was made, and before its end: d->group. */
_must_check_ int dispatch_group_new(struct dispatch *d, struct error *err);
void dispatch_group_free(struct dispatch *d);
/* What queue_next() says: QUEUE_DO_KILL, TELL, STALL; and of QUEUE_DO_CANCEL the word on the board.
 * They may post events and start things, and call dispatch_run(). */
void dispatch_group_do(struct dispatch *d, const struct queue_do *todo);
/* The caller is told that its queue has failed. */
void dispatch_group_told(struct dispatch *d, const struct varlink_call *call);
