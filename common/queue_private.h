/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the queue machine share. Nobody else includes it.
 *
 * A task is in one list at a time: queued, it is in the lane of its queue and of the set of
 * resources that it needs; running, its lease knows it; over, its queue lists it. A set keeps its
 * lanes in a heap by their first tasks, so that the next task for a worker is found among the sets
 * that it can serve. Errors are counted references: one serves all that were cancelled together.
 * What may be needed when there is no memory is made before: a wait for work has its lease, and
 * each lease and wait has room among the deadlines.
 *
 * queue.c: the whole; queue_index.c: tasks and leases by number; queue_bytes.c: bytes and errors;
 * queue_due.c: deadlines; queue_name.c: queues, sets and lanes; queue_task.c: a task's life;
 * queue_submit.c: room and joins; queue_fetch.c: outcomes; queue_cancel.c: cancellation and errors
 * of queues; queue_worker.c: workers and who gets what; queue_lease.c: leases and how they end;
 * queue_death.c: tasks with which workers die; queue_blame.c: what is absorbed; queue_resource.c,
 * queue_call.c: these; queue_next.c: what is to be done; queue_restore.c: the journal.
 */

#include "common/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define container_of(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

enum {
	QUEUE_WORKERS_MAX = 65535, /* numbers below this */
	QUEUE_NOBODY = 65535,	   /* as the worker of a task */
	QUEUE_LANES_MAX = 65535,
	QUEUE_BUCKETS = 256,
	QUEUE_PAGE = 64,
	QUEUE_BLAMES_MAX = 1024,     /* texts at once; the longest unused one is forgotten */
	QUEUE_BLAME_LIMIT_MAX = 256, /* with a window */
	QUEUE_BLAME_TEXT_MAX = 255,
	QUEUE_DEAD_MAX = 6,	/* workers that are named */
	QUEUE_EVENTS_MAX = 256, /* not yet taken; more are dropped */
};
#define QUEUE_NO_PLACE SIZE_MAX

/* --- lists of links: a ring with a head; an element that is in none has no next */

static inline void link_init(struct queue_link *head)
{
	head->prev = head->next = head;
}

static inline bool link_empty(const struct queue_link *head)
{
	return !head->next || head->next == head;
}

static inline bool link_in(const struct queue_link *l)
{
	return l->next != NULL;
}

static inline void link_add(struct queue_link *head, struct queue_link *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void link_add_first(struct queue_link *head, struct queue_link *l)
{
	link_add(head->next, l);
}

static inline void link_del(struct queue_link *l)
{
	if (!l->next)
		return;
	l->prev->next = l->next;
	l->next->prev = l->prev;
	l->prev = l->next = NULL;
}

/* The first element, NULL: none. */
#define LINK_FIRST(head, type, member) \
	(link_empty(head) ? NULL : container_of((head)->next, type, member))
/* Over all; the present one may go. */
#define LINK_FOREACH(l, tmp, head) \
	for ((l) = (head)->next; (l) && (l) != (head) && ((tmp) = (l)->next, true); (l) = (tmp))

/* --- bytes and errors */

struct queue_blob {
	uint32_t len : 24, format_len : 8;
	char data[]; /* the format and a NUL behind it, where there is one */
};

/* NULL: no memory. */
struct queue_blob *queue_blob_new(const struct queue_bytes *b);
struct queue_bytes queue_blob_bytes(const struct queue_blob *b);
bool queue_bytes_ok(const struct queue_bytes *b);
bool queue_name_ok(const char *name, bool may_be_empty);

struct queue_err {
	unsigned refs; /* 0: static, for when there is no memory */
	enum status code;
	int worker;
	int64_t task;
	int64_t counted; /* the task whose bytes it is among; 0: none yet */
	const char *details;
	char message[];
};

/* Both cut to what the header allows, at a character; NULL: no memory. */
struct queue_err *queue_err_new(
	enum status code, const char *message, const char *details, int worker, int64_t task);
struct queue_err *queue_err_printf(enum status code, int worker, int64_t task, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Never NULL: without memory one that says so. */
struct queue_err *queue_err_sure(enum status code, struct queue_err *e);
struct queue_err *queue_err_ref(struct queue_err *e);
void queue_err_unref(struct queue_err *e);
struct queue_error queue_err_view(const struct queue_err *e);
size_t queue_err_len(const struct queue_err *e);

/* --- by number */

struct queue_page;
struct queue_slot {
	uint64_t number; /* of the page */
	struct queue_page *page;
};
struct queue_index {
	struct queue_slot *slots; /* ascending, from `first` on */
	size_t first, n, cap;
};

int queue_index_set(struct queue_index *x, int64_t id, void *p);
void *queue_index_get(const struct queue_index *x, int64_t id);
void queue_index_del(struct queue_index *x, int64_t id);
/* The first with a greater number. */
void *queue_index_after(const struct queue_index *x, int64_t id);
void queue_index_fini(struct queue_index *x);

/* --- tasks */

struct queue_watch { /* a wait that looks at a task or a lease */
	struct queue_link link;
	struct queue_wait *wait;
};

struct queue_blame {
	struct queue_link link; /* the latest last */
	unsigned n;		/* ever, or of `at` */
	const char *text;
	uint64_t at[]; /* with a window: when, the oldest first; text is behind it */
};

struct queue_extra {
	int64_t limit_ms;	    /* negative: none */
	struct queue_link watchers; /* which also keep it, released as it may be */
	struct queue_blame *blame;  /* of failures that blame nobody */
	uint16_t dead[QUEUE_DEAD_MAX];
	uint8_t n_dead;
};

struct queue_task {
	uint64_t id : 54, state : 3, alone : 1, released : 1, raised : 1, kept : 1;
	uint64_t seq : 54, deaths : 10;
	/* kept: in no journal, as it is of a queue that had a keeper */
	struct queue_task *prev;
	union {
		struct queue_task *next;
		struct queue_lease *lease; /* RUNNING */
	};
	union {
		struct queue_blob *payload; /* QUEUED, RUNNING */
		struct queue_blob *value;   /* SUCCEEDED */
		struct queue_err *error;    /* FAILED, CANCELLED */
	};
	struct queue_extra *extra; /* NULL: none */
	uint32_t tries;
	uint16_t worker, lane;
};

struct queue_list {
	struct queue_task *first, *last;
};

struct queue_set {
	struct queue_set *next;
	uint64_t mask;
	struct queue_resource *needs[QUEUE_NEEDS_MAX]; /* references */
	const char *names[QUEUE_NEEDS_MAX];
	size_t n;
	struct queue_lane **heap; /* those with tasks */
	size_t n_heap, cap, n_lanes;
	bool hopeless; /* no worker can have it */
	bool dropped;  /* for no task any more */
};

struct queue_lane {
	struct queue_link link; /* of its queue */
	struct queue *of;
	struct queue_set *set;
	struct queue_list queued;
	size_t n, place; /* tasks in all states */
	uint16_t number;
};

struct queue {
	struct queue *next; /* of its bucket */
	struct queue_link all, dirty;
	struct queue_link lanes, leases, waits;
	struct queue_list over;
	size_t n[QUEUE_N_STATES], bytes, keepers, n_joins, n_waiting;
	uint64_t put_back, n_over, error_order;
	struct queue_err *error;
	bool outside;		/* somebody from outside uses it, or may do so */
	struct queue_err *loss; /* has cancelled some of it, and nobody from there was told */
	int loss_exit_code;
	uint64_t loss_order;
	char name[QUEUE_NAME_MAX + 1];
};

/* --- workers and leases */

struct queue_resource {
	unsigned refs;
	uint64_t order;
	int bit; /* -1: dropped */
	struct queue_blob *payload;
	char name[QUEUE_NAME_MAX + 1];
};

struct queue_member {		 /* of a call */
	struct queue_link link;	 /* of its worker, while it is asked or to be asked */
	struct queue_call *call; /* NULL: it is over */
	struct queue_lease *lease;
	int worker;
	bool answered;
	struct queue_blob *value;
	struct queue_err *error;
};

struct queue_call {
	unsigned refs; /* its wait's, and those of leases */
	struct queue_wait *wait;
	struct queue_blob *payload;
	uint64_t answer_ms;
	bool parked; /* for a pool that is not whole, or for the first worker */
	size_t n, left;
	struct queue_member *members;
};

enum queue_init_state { QUEUE_INIT_NONE, QUEUE_INIT_DUE, QUEUE_INIT_RUNS, QUEUE_INIT_FAILED };

struct queue_worker {
	int number, incarnation;
	bool alive, asked, serves, again;
	bool known; /* it was started */
	bool takes; /* it has asked at some time, or will */
	bool kill;  /* to be told of */
	struct queue_link kills;
	enum queue_init_state init_state;
	struct queue_blob *init;
	uint64_t ready, building, failed; /* resources */
	struct queue_err **errors;	  /* of the failed ones; QUEUE_RESOURCES_MAX */
	struct queue_link leases, waits, calls;
	size_t n_leases, n_waits;
	int64_t *dropped; /* tasks that were put back as a connection was gone, each once */
	size_t n_dropped, cap_dropped; /* at most its slots */
	int64_t drop_lease; /* leases from this number on were asked for after the last of these */
	char *name;
};

struct queue_lease {
	int64_t id;
	enum queue_item kind;
	bool active, cancelled, killed, seen; /* seen: its holder knows it */
	bool late;			      /* it has broken the pool, until it ends */
	enum queue_state becomes;	      /* where cancelled */
	int incarnation;
	struct queue_worker *worker;
	void *holder;
	struct queue_wait *wait; /* which is over with it, until it is seen */
	struct queue_task *task;
	const struct queue_set *set; /* of the task */
	struct queue_resource *resource;
	struct queue_member *member; /* NULL: its answer is not wanted any more */
	struct queue_call *call;     /* a reference */
	struct queue_link by_holder, by_worker, by_queue, tell, watchers;
	uint64_t since_ms;
	size_t place;
	struct queue_err *why;
};

/* --- deadlines */

enum queue_due_kind { QUEUE_DUE_WAIT, QUEUE_DUE_LEASE };
struct queue_due {
	uint64_t at;
	size_t *place;
	enum queue_due_kind kind;
};
struct queue_dues {
	struct queue_due *heap;
	size_t n, cap, reserved;
};

int queue_due_reserve(struct queue_dues *d);
void queue_due_unreserve(struct queue_dues *d);
/* UINT64_MAX: none. */
void queue_due_set(struct queue_dues *d, size_t *place, enum queue_due_kind kind, uint64_t at);

/* --- what is to be done */

struct queue_event {
	struct queue_link link;
	enum queue_what what;
	int worker;
	const char *event;
	char text[];
};

struct queue_note { /* a record to be */
	enum queue_record_kind kind;
	int64_t task;
	char *name;
};

struct queues {
	struct queue_options opt;
	int64_t next_task, next_lease;
	uint64_t next_seq, next_order;
	struct queue_index tasks, leases;
	struct queue *buckets[QUEUE_BUCKETS];
	struct queue_link all, dirty; /* queues */
	size_t n_queues;
	struct queue_lane **lanes;
	size_t n_lanes, cap_lanes, free_lane;
	struct queue_set *sets;
	size_t n[QUEUE_N_STATES], bytes;
	uint64_t put_back, n_over;
	struct queue_link room, fetches, cancels, calls; /* waits */
	struct queue_link idle;				 /* waits for work, of free workers */
	size_t n_waiting, n_free, n_asked, n_calls, n_late;
	struct queue_link over; /* waits that are */
	struct queue_worker **workers;
	size_t n_workers;
	struct queue_link holders[QUEUE_BUCKETS]; /* leases */
	struct queue_resource *resources[QUEUE_RESOURCES_MAX];
	uint64_t resource_bits; /* those there are */
	struct queue_dues dues;
	struct queue_link blames;
	size_t n_blames;
	bool closed, whole, stopped, final, settling, restoring;
	bool hopes_due; /* a task came that no worker can have */
	struct queue_err *broken, *failed, *stop;
	int exit_code;	   /* of failed */
	uint64_t quiet_ms; /* since when no task has ended while some run; UINT64_MAX: told */
	uint64_t alone_ms; /* since when tasks are queued and no worker asks or has any;
			    * UINT64_MAX: not so */
	/* to be done */
	struct queue_link tells, kills, events;
	size_t n_events;
	struct queue_note *notes;
	size_t first_note, n_notes, cap_notes;
	bool lost_note;
	bool stale_notes; /* what was written down is not to be kept */
	char *note_name;  /* of the record that was given out */
};

/* queue.c */
void queue_settle(struct queues *q, uint64_t now_ms);
/* The beginning of a wait. False: it is over already, as the queues are stopped. */
bool queue_wait_begin(struct queues *q, struct queue_wait *w, enum queue_wait_kind kind);
/* It waits, in `list`. False: it is over, without memory. */
bool queue_wait_park(
	struct queues *q, struct queue_wait *w, struct queue_link *list, uint64_t deadline_ms);
/* err: a reference that is taken; NULL: none. */
void queue_wait_end(
	struct queues *q, struct queue_wait *w, enum status status, struct queue_err *err);
void queue_wait_end_text(
	struct queues *q, struct queue_wait *w, enum status status, const char *text);
/* As the answer of a step: over by now, and not to come out of queue_over(). */
bool queue_wait_claim(struct queues *q, struct queue_wait *w);
void queue_watch_end(struct queue_watch *watches, size_t n);

/* queue_name.c */
struct queue *queue_find(const struct queues *q, const char *name);
/* NULL: no memory, or there are too many (*ret says which). */
struct queue *queue_get(struct queues *q, const char *name, enum status *ret);
void queue_dirty(struct queues *q, struct queue *of);
/* Forgets it where nothing of it is left. */
void queue_forget(struct queues *q, struct queue *of);
enum status queue_set_find(struct queues *q, const char *const *needs, size_t n,
	struct queue_set **ret, const char **ret_which);
struct queue_lane *queue_lane_get(struct queues *q, struct queue *of, struct queue_set *set);
void queue_lane_put(struct queues *q, struct queue_lane *l);
void queue_set_drop(struct queues *q, struct queue_set *s);
/* Its first task is another one. */
void queue_lane_moved(struct queue_lane *l);
void queue_names_fini(struct queues *q);

/* queue_task.c */
static inline struct queue_lane *queue_lane_of(const struct queues *q, const struct queue_task *t)
{
	return q->lanes[t->lane];
}
struct queue_task *queue_task_find(const struct queues *q, int64_t id);
/* NULL: no memory. It is queued by queue_task_enqueue(). */
struct queue_task *queue_task_new(
	struct queues *q, struct queue_lane *lane, int64_t id, const struct queue_new *n);
struct queue_extra *queue_task_extra(struct queue_task *t);
void queue_task_trim(struct queue_task *t);
/* To the tail, and to a worker that waits. */
void queue_task_enqueue(struct queues *q, struct queue_task *t, uint64_t now_ms);
void queue_task_dequeue(struct queues *q, struct queue_task *t);
/* Of a task that is queued, or whose lease ends: its last state. Takes value or error. */
void queue_task_over(struct queues *q, struct queue_task *t, enum queue_state state,
	struct queue_blob *value, struct queue_err *error, uint64_t now_ms);
/* Whether an outcome of so many bytes leaves it within what queue.memory allows. */
bool queue_task_fits(const struct queues *q, const struct queue_task *t, size_t n);
/* Forgets it where it is over, released, and nobody looks at it. */
void queue_task_forget(struct queues *q, struct queue_task *t);
void queue_task_free(struct queue_task *t);
void queue_task_state(struct queues *q, struct queue_task *t, enum queue_state state);
static inline size_t queue_live(const size_t n[QUEUE_N_STATES])
{
	return n[QUEUE_QUEUED] + n[QUEUE_RUNNING];
}
static inline bool queue_task_is_over(const struct queue_task *t)
{
	return t->state != QUEUE_QUEUED && t->state != QUEUE_RUNNING;
}
int64_t queue_task_limit(const struct queue_task *t);

/* queue_submit.c */
void queue_room(struct queues *q, uint64_t now_ms);
void queue_check(struct queues *q, struct queue *of, uint64_t now_ms);
/* Ends one by the deadline, or as another end has come: with what is in, if anything. */
void queue_submit_end(
	struct queues *q, struct queue_wait *w, enum status status, struct queue_err *err);
void queue_submit_late(struct queues *q, struct queue_wait *w);
/* Its queue has failed, and waits for who may be its caller: it ends at once. */
void queue_submit_exempt(struct queues *q, struct queue_wait *w);
/* It ends with that error of its queue, which is borrowed. */
void queue_raise(struct queues *q, struct queue_wait *w, struct queue_err *e);

/* queue_fetch.c */
void queue_task_release(struct queues *q, int64_t id);
/* It ends with the error of all queues; from outside, the queues of its tasks have told their loss.
 */
void queue_fetch_raise(struct queues *q, struct queue_wait *w);
void queue_fetch_fini(struct queues *q, struct queue_wait *w);
void queue_watchers_over(struct queues *q, struct queue_task *t);

/* queue_cancel.c */
/* Whether its failure would be the error of its queue. */
bool queue_is_first(const struct queues *q, const struct queue_task *t);
/* Of a task that is queued, or whose lease has ended. Takes err. */
void queue_task_fail(
	struct queues *q, struct queue_task *t, struct queue_err *err, uint64_t now_ms);
/* The first error of a queue; later ones are ignored. err is borrowed. */
void queue_error(struct queues *q, struct queue *of, struct queue_err *err, uint64_t now_ms);
/* It has lost what it had, which is yet to be told; one that it has already stays. */
void queue_lose(struct queues *q, struct queue *of, struct queue_err *err, int exit_code);
/* That was told, or nobody is to be told any more; of may be NULL. */
void queue_loss_told(struct queues *q, struct queue *of);
/* All that it has: nobody asks for it any more. queue_settle() follows. */
void queue_abandon(struct queues *q, struct queue *of, uint64_t now_ms);

/* queue_worker.c */
struct queue_worker *queue_worker_find(const struct queues *q, int worker);
const char *queue_worker_text(const struct queues *q, int worker, char *buf, size_t size);
bool queue_worker_clear(const struct queue_worker *k);
/* Gives it what it is to do where it waits, and makes its waits idle or not. */
void queue_worker_feed(struct queues *q, struct queue_worker *k, uint64_t now_ms);
/* A task for a wait, or a wait for a task. */
bool queue_match_task(struct queues *q, struct queue_task *t, uint64_t now_ms);
void queue_work_fini(struct queues *q, struct queue_wait *w, uint64_t now_ms);
void queue_work_unpark(struct queues *q, struct queue_wait *w);
void queue_workers_fini(struct queues *q);
void queue_hopes(struct queues *q, uint64_t now_ms);

/* queue_lease.c */
struct queue_lease *queue_lease_new(struct queues *q);
void queue_lease_free(struct queues *q, struct queue_lease *l);
void queue_lease_begin(struct queues *q, struct queue_lease *l, enum queue_item kind,
	struct queue_wait *w, uint64_t now_ms);
/* err is a reference that is taken. */
void queue_lease_cancel(struct queues *q, struct queue_lease *l, enum queue_state becomes,
	struct queue_err *err, uint64_t now_ms);
/* As its task fails while it runs: it is told, and may be the error of its queue. Takes err. */
void queue_lease_fail(
	struct queues *q, struct queue_lease *l, struct queue_err *err, uint64_t now_ms);
/* Ends it; what it was of is the caller's affair. */
void queue_lease_end(struct queues *q, struct queue_lease *l, uint64_t now_ms);
/* As it is when its holder or its process is gone. */
void queue_lease_lost(struct queues *q, struct queue_lease *l, uint64_t now_ms);
void queue_lease_due(struct queues *q, struct queue_lease *l, uint64_t now_ms);

/* queue_death.c */
/* It fails in place of being put back. */
bool queue_deaths_reached(const struct queues *q, const struct queue_task *t);
void queue_died_with(const struct queue_worker *k, struct queue_task *t);
/* Never NULL. */
struct queue_err *queue_deaths_err(const struct queues *q, const struct queue_task *t);
void queue_tell_put_back(
	struct queues *q, const struct queue_worker *k, int64_t task, const char *why);
/* Its connection is gone, and it is about to be put back. */
void queue_dropped(struct queues *q, const struct queue_lease *l);
/* What that was: its process is gone. Before its leases end. */
void queue_drops_end(struct queues *q, struct queue_worker *k, const char *why, bool on_purpose,
	uint64_t now_ms);

/* queue_blame.c */
/* Whether the failure is absorbed. -ENOMEM, 0, 1. */
int queue_blame(struct queues *q, struct queue_task *t, const char *blame, uint64_t now_ms);
void queue_blames_fini(struct queues *q);

/* queue_resource.c */
void queue_build_done(struct queues *q, struct queue_lease *l, struct queue_err *err);
struct queue_resource *queue_resource_unref(struct queue_resource *r);
/* The next that this worker is to build; NULL: none. */
struct queue_resource *queue_to_build(const struct queues *q, const struct queue_worker *k);

/* queue_call.c */
/* Takes value or error. */
void queue_member_answer(struct queues *q, struct queue_member *m, struct queue_blob *value,
	struct queue_err *error);
void queue_call_fini(struct queues *q, struct queue_wait *w, uint64_t now_ms);
/* Those that can begin, do. */
void queue_calls_begin(struct queues *q, uint64_t now_ms);
void queue_call_unref(struct queue_call *c);
void queue_pool_break(struct queues *q, int worker, const char *why);
/* It is broken until that lease, which is cancelled, has ended. */
void queue_pool_late(struct queues *q, struct queue_lease *l, const char *why);
void queue_pool_mend(struct queues *q, uint64_t now_ms);

/* queue_next.c */
/* False: it is lost, for want of memory, or as nobody takes what is told. */
bool queue_tell(struct queues *q, enum queue_what what, const char *event, int worker,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* All of it is to be written anew. */
void queue_note_all(struct queues *q);
void queue_note(struct queues *q, enum queue_record_kind kind, int64_t task, const char *name);
/* False: there is nothing to be said of it any more. */
bool queue_describe(const struct queues *q, const struct queue_note *n, struct queue_record *ret);
bool queue_error_is_bare(const struct queues *q, const struct queue *of);
void queue_next_fini(struct queues *q);
