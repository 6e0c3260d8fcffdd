/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of this room, and by no others:
 *
 *   service.c         life, the steps of the machine, the timer
 *   waits.c           calls that wait for the machine
 *   methods.c         the table, the small methods
 *   method_submit.c   Submit, SubmitMany
 *   repeated_calls.c  answers of calls that are repeated
 *   method_fetch.c    Fetch, FetchMany
 *   method_list.c     List, Stats
 *   method_work.c     Work, Finish, Fail, PutBack, Look
 *   method_cancels.c  Cancels
 *   method_keep.c     Keep
 *   method_call.c     Call, resources
 *   queue_json.c      answers as JSON text
 *   durable.c         the journal
 *   elected.c         the queue of a group whose head etcd elects
 *   copy_out.c        a deputy's copy of the journal: what it gets, and what waits for it
 *   copy_in.c         the copy that this host keeps as a deputy
 *   group_hooks.c     workers and the group (group_hooks.h), and beside it fail_queue.c,
 *                     effects.c and job_json.c
 *
 * Each change of the machine is followed by dispatch_run(), which carries out the machine's orders,
 * answers calls, and sets the timer. The journal is written once in a turn of the loop, before the
 * answers leave (dispatch_leaving()).
 */

#include "agent/queue/journal/copy.h"
#include "agent/queue/machine/queue.h"
#include "agent/queue/service.h"
#include "agent/sharing/private.h"
#include "common/text/json_flat.h"

#include <sys/queue.h>

struct dispatch_repeated;
struct dispatch_group; /* group_hooks.c's own */
struct journal;
struct dispatch_wait;

struct dispatch_endpoint {
	struct dispatch *d;
	bool workers; /* callers are workers (worker.sock), else coordinators only (agent.sock) */
};

LIST_HEAD(dispatch_streams, dispatch_stream);
LIST_HEAD(dispatch_keepers, dispatch_keeper);
TAILQ_HEAD(dispatch_listings, dispatch_listing);
LIST_HEAD(dispatch_all, dispatch_wait);

enum {
	DISPATCH_ANSWER_BYTES = 4 << 20,    /* a list ends with the element that exceeds it */
	DISPATCH_LONG_BYTES = 4096,	    /* longer answers count as unread for their worker */
	DISPATCH_TEXT_KEPT = 1 << 20,	    /* memory of an answer that stays for the next one */
	DISPATCH_WAITING_BYTES = 256 << 20, /* of all waiting calls together */
};

enum { DISPATCH_EDITION = 40 };

/* The copy of the journal of the agent that leads. */
struct dispatch_copy {
	int fd; /* -1: none is being written */
	uint64_t size;
	char edition[DISPATCH_EDITION], before[DISPATCH_EDITION];
};

/* NULL: there is no queue. */
struct dispatch *dispatch_of(const struct supervisor *sv);

struct dispatch {
	struct supervisor *sv;
	/* Of its workers; NULL without sharing, and where another host leads the group. */
	struct commons *commons;
	bool several;		/* the group has several hosts */
	bool elected;		/* ... and etcd elects the one that leads */
	bool durable;		/* it has a journal while it leads, and there is a place for that */
	bool over;		/* the job has ended */
	struct hosts_lead lead; /* elected: while this host leads, or when it did last */
	uint64_t leads;		/* how often this host has begun to lead */
	char lost[256];		/* why the tasks of the head before are gone; "": they are not */
	/* The deputy's copy of the journal. */
	bool copies; /* this host leads, and its queue is durable */
	struct copy copy;
	char edition[DISPATCH_EDITION], edition_before[DISPATCH_EDITION];
	char noted[DISPATCH_EDITION], asked[DISPATCH_EDITION]; /* in etcd; on its way there */
	char deputy[80];				       /* its host; "": none */
	char unable[80]; /* a deputy that could not keep a copy in this attempt; "": none */
	int unsaved;	 /* errno: why the present edition cannot be saved; 0: it can */
	struct loop_timer *retry_timer; /* for saving it */
	struct dispatch_copy copy_in;
	struct queues *q;
	struct queue_options options;
	struct dispatch_group *group;
	struct journal *journal; /* NULL: the queue is not durable */
	bool uncommitted;	 /* records were added that are not written */
	struct dispatch_endpoint endpoints[2];
	struct loop_timer *timer;
	uint64_t timer_ms;	   /* when it fires; UINT64_MAX: it is not armed */
	struct dispatch_all waits; /* all */
	char stopping[1024];	   /* the error for workers that would wait; "": they may wait */
	struct dispatch_streams streams;
	struct dispatch_keepers keepers;
	struct dispatch_repeated *repeated; /* NULL: no call had a number */
	struct dispatch_listings listings;  /* Lists that are not answered yet */
	struct json_writer text;	    /* the answer that is being written; its memory stays */
	size_t waiting_bytes;		    /* of calls that wait for room */
	uint64_t now_ms;		    /* the time of the present step */
	bool running, again;		    /* in dispatch_run(); it was called again from inside */
	struct queue_order order;
};

/* A call that waits for the machine, from its step until its answer. */
struct dispatch_wait {
	struct queue_wait wait;
	LIST_ENTRY(dispatch_wait) all;
	struct dispatch *d;
	struct varlink_call *call;
	void (*answer)(struct dispatch_wait *x); /* gives the final answer after success */
	bool workers;				 /* its connection is a worker's */
	void *holder;				 /* of Work alone */
	bool release;				 /* FETCH */
	int64_t id;				 /* FETCH of one */
	int64_t *ids;				 /* ... of many; owned */
	size_t n;				 /* ids, or tasks */
	uint64_t repeat_key;	/* SUBMIT, JOIN, DONE: see repeated_calls.c; 0: none */
	struct queue_new *many; /* SUBMIT of many; owned, else one */
	struct queue_new one;
	void *kept;	   /* the copy that they point to; owned */
	size_t kept_bytes; /* as counted in d->waiting_bytes */
};

/* service.c */
/* Call it after each step, or after several. A call from inside itself makes the outer one run
 * again. */
void dispatch_run(struct dispatch *d);
/* Runs it later in this turn of the loop: after many steps, or when calls must not be answered yet.
 */
void dispatch_run_soon(struct dispatch *d);
/* Adds an event of the group to the run's events. */
void dispatch_event(const struct dispatch *d, const char *event, const char *text);

/* durable.c: functions about the journal do nothing where there is none. */
/* The directory of the journal's file; NULL: there is no place for it. */
const char *dispatch_journal_dir(const struct dispatch *d);
_must_check_ int dispatch_journal_open(struct dispatch *d, struct error *err);
void dispatch_journal_close(struct dispatch *d);
void dispatch_journal_add(struct dispatch *d, const struct queue_record *r);
void dispatch_journal_lost(struct dispatch *d);
void dispatch_journal_stale(struct dispatch *d);
/* True when the journal has room for so much more, else it has answered the call. */
bool dispatch_journal_room(struct dispatch *d, struct varlink_call *call, size_t bytes);

/* elected.c: hosts_lead */
void dispatch_lead(struct supervisor *sv, const struct hosts_lead *lead);
/* This host leaves a group that goes on. */
void dispatch_step_down(struct dispatch *d);
/* True when the task was one of a head whose tasks are lost: it has answered the call. */
bool dispatch_refuses_lost(struct dispatch *d, struct varlink_call *call, int64_t task);

/* copy_out.c */
/* noted: the name of the edition that this host goes on from; "": of none. */
void dispatch_copy_begin(struct dispatch *d, const char *noted);
void dispatch_copy_end(struct dispatch *d);
/* The journal was written: sends the deputy what it may have. */
void dispatch_copy_run(struct dispatch *d);
void dispatch_copy_replaced(void *arg);
/* Tries again to save an edition. */
void dispatch_copy_timer(void *arg);
/* An attempt begins: a deputy that could not keep a copy may do so now. */
void dispatch_copy_retry(struct dispatch *d);
/* The hooks. */
int dispatch_holds(const struct supervisor *sv, uint64_t *mark);
void dispatch_deputy(struct supervisor *sv, const char *host);
void dispatch_noted(struct supervisor *sv);
int dispatch_recorded(struct supervisor *sv, const json_t *p, struct error *err);

/* copy_in.c */
json_t *dispatch_hear_records(struct supervisor *sv, const json_t *p);
bool dispatch_has_records(const struct supervisor *sv, const json_t *edition);
_must_check_ int dispatch_edition_save(
	const struct supervisor *sv, const char *name, const char *before);
/* This host begins to lead, or its run has ended. keep: its files. */
void dispatch_copy_in_end(struct dispatch *d, bool keep);

/* waits.c */
/* For a step at d->now_ms. NULL: it has answered the call. */
struct dispatch_wait *dispatch_wait_new(
	struct dispatch *d, struct varlink_call *call, void (*answer)(struct dispatch_wait *x));
/* Frees x, whose step was not made. */
void dispatch_wait_drop(struct dispatch_wait *x);
/* Counts bytes that x takes while it waits. False: too many wait already. */
_must_check_ bool dispatch_wait_charge(struct dispatch_wait *x, size_t bytes);
/* The step of x was made: answers the call once x is over. Returns 0. */
int dispatch_wait_begun(struct dispatch_wait *x);
/* The same, but refuses the call if it would wait for own (dispatch_own_task()). */
int dispatch_wait_begun_by(struct dispatch_wait *x, int64_t own);
/* Answers x, which is over, and frees it. */
void dispatch_wait_over(struct dispatch_wait *x);
/* Reads the time, and sets d->now_ms for the answers. */
uint64_t dispatch_now(struct dispatch *d);
/* From d->now_ms; negative timeout_ms: none. */
uint64_t dispatch_deadline(const struct dispatch *d, int64_t timeout_ms);
/* Ends all waits of workers, and those to come, as Cancelled with why; until dispatch_waits_go().
 */
void dispatch_waits_stop(struct dispatch *d, const char *why);
/* Ends the Work of a connection that cannot answer an item any more. */
void dispatch_waits_shut(struct dispatch *d, const void *holder);
void dispatch_waits_go(struct dispatch *d);

/* methods.c */
/* True when job is this one, or NULL; else it has answered the call. */
bool dispatch_is_job(const struct dispatch *d, struct varlink_call *call, const char *job);
/* The interface; the methods' arg is an endpoint. */
extern const struct varlink_method dispatch_methods[];
extern const struct varlink_flat_method dispatch_flat_methods[];
/* durable.c: whether answers rely on a journal; and writes it before they leave. */
bool dispatch_is_durable(const struct supervisor *sv);
void dispatch_leaving(struct supervisor *sv);
/* The slot of a call's worker, or -1. */
int dispatch_caller(const struct dispatch_endpoint *endpoint, const struct varlink_call *call);
/* The parameters of calls that wait. number: of a call that may be repeated ("once"). */
struct dispatch_wait_options {
	int64_t timeout_ms, lease, number; /* -1, -1, 0: none */
	bool release;
};
struct dispatch_wait_options dispatch_wait_options_of(const struct flat *p);
/* A task of the caller itself that a wait for all of queue, or (ids) for these, would wait for, so
 * that it could never end; -1: none. */
int64_t dispatch_own_task(const struct dispatch_endpoint *endpoint, const struct varlink_call *call,
	const struct dispatch_wait_options *opt, const char *queue, const int64_t *ids, size_t n);
int dispatch_refuse_own_task(struct varlink_call *call, int64_t task);
/* "tasks", in the given order; owned. 0, or non-zero: it has answered the call. */
_must_check_ int dispatch_ids(
	struct varlink_call *call, const json_t *list, int64_t **ret, size_t *ret_n);
/* The bytes of a call, of its member name (text) or base64, and their format: borrowed from p, or
 * decoded into *ret_owned, which the caller frees in any case. 0, -EINVAL with err, -ENOMEM. */
_must_check_ int dispatch_bytes(const struct flat *p, const char *name, struct queue_bytes *ret,
	void **ret_owned, struct error *err);
/* Final answer for a negative result r of these functions. */
int dispatch_refuse(struct varlink_call *call, int r, const struct error *err);
int dispatch_no_memory(struct varlink_call *call);

/* repeated_calls.c */
/* The key of a call with this number (0: none); 0: none. */
uint64_t dispatch_repeat_key(int64_t number, const char *queue);
/* A submit is answered, or its caller has gone: remembers the accepted tasks for a repeated call.
 * Without memory it does not. */
void dispatch_repeat_remember(const struct dispatch_wait *x);
/* The same for a call that gets the error of its queue. */
void dispatch_repeat_remember_error(const struct dispatch_wait *x, json_t *error);
/* True when the call was answered before: it has given the same answer again. */
bool dispatch_repeat_answer(struct dispatch *d, struct varlink_call *call, uint64_t key);
void dispatch_repeated_free(struct dispatch *d);
/* method_submit.c: the answer of SubmitMany. */
void dispatch_reply_many(
	struct dispatch *d, struct varlink_call *call, int64_t first, size_t accepted);

/* method_keep.c: frees all keepers; no call may be open. This ends no queue. */
void dispatch_keepers_free(struct dispatch *d);
/* Ends their calls, too. */
void dispatch_keepers_end(struct dispatch *d, const char *why);

/* method_submit.c, method_fetch.c, method_list.c, method_work.c, method_cancels.c,
 * method_call.c: the methods, with an endpoint as arg */
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

/* True when the call came on worker.sock, else it has answered the call. */
bool dispatch_is_worker(const struct dispatch_endpoint *endpoint, struct varlink_call *call);
/* Sends the cancelled lease to the worker's streams of Cancels. */
void dispatch_stream_cancelled(struct dispatch *d, const struct queue_order *order);

/* queue_json.c writes JSON text; dispatch_put() writes a literal. */
#define dispatch_put(t, literal) json_write((t), (literal), sizeof(literal) - 1)
/* Returns d->text, empty. */
struct json_writer *dispatch_text_begin(struct dispatch *d);
/* Final answer with d->text. */
int dispatch_text_reply(struct dispatch *d, struct varlink_call *call);
const char *dispatch_worker_name(const struct dispatch *d, int worker);
/* "key":"...", or "base64":"...", and "format":"..." if there is one. */
void dispatch_text_bytes(struct json_writer *t, const char *key, const struct queue_bytes *b);
void dispatch_text_error(
	const struct dispatch *d, struct json_writer *t, const struct queue_error *e);
void dispatch_text_outcome(
	const struct dispatch *d, struct json_writer *t, const struct queue_outcome *o);
void dispatch_text_info(
	const struct dispatch *d, struct json_writer *t, const struct queue_outcome *o);
/* An Item. */
void dispatch_text_item(
	const struct dispatch *d, struct json_writer *t, const struct queue_item_view *item);
const char *dispatch_state_name(enum queue_state s);
/* A TaskError, owned. */
json_t *dispatch_error_json(const struct dispatch *d, const struct queue_error *e);

/* group_hooks.c */
/* The options of the machine, from the specification. */
void dispatch_group_options(const struct supervisor *sv, struct queue_options *ret);
/* Makes d->group, after the machine; frees it before the machine. */
_must_check_ int dispatch_group_new(struct dispatch *d, struct error *err);
void dispatch_group_free(struct dispatch *d);
/* Carries out an order of queue_next_order() that is not about the journal. It may post events,
 * start workers, and call dispatch_run(). */
void dispatch_group_do(struct dispatch *d, const struct queue_order *order);
/* The caller gets the error that its queue has failed. */
void dispatch_group_told(struct dispatch *d, const struct varlink_call *call);
