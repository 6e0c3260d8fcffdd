/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of the queue machine, and by no others.
 *
 * A task is in one list at a time: queued, in the lane of its queue and of the set of resources
 * that it needs; running, its lease points to it; over, in its queue's list. A set keeps its lanes
 * in a heap by their first tasks, so the next task for a worker is found among the sets that it can
 * serve. Errors are reference-counted: all tasks cancelled together share one. Memory that a later
 * step cannot do without is allocated early: a wait for work has its lease, and each lease and wait
 * has room among the deadlines.
 *
 *   queue.c      waits, steps, time
 *   submit.c     room for tasks, and joins
 *   fetch.c      outcomes
 *   cancel.c     cancellation, and errors of queues
 *   worker.c     workers, and what each gets
 *   lease.c      leases, and how they end
 *   death.c      tasks with which workers die
 *   blame.c      which failures are absorbed
 *   resource.c   resources
 *   call.c       calls to all workers
 *   orders.c     queue_next_order()
 *   restore.c    the journal: read into the machine, and written again
 *   task.c       a task's life
 *   lanes.c      queues by name, sets, lanes
 *   index.c      tasks and leases by number
 *   heap.c       heaps: lanes by their first tasks, deadlines
 *   bytes.c      bytes and errors
 */

#include "agent/queue/machine/queue.h"
#include "common/base/hash_chain.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define container_of(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

enum {
	QUEUE_WORKERS_MAX = 65535, /* numbers are below this */
	QUEUE_NO_WORKER = 65535,   /* in a task: no worker */
	QUEUE_LANES_MAX = 65535,
	QUEUE_HOLDER_LISTS = 256,
	QUEUE_PAGE = 64,
	QUEUE_BLAMES_MAX = 1024,     /* texts at once; the longest unused is forgotten */
	QUEUE_BLAME_LIMIT_MAX = 256, /* with a window */
	QUEUE_BLAME_TEXT_MAX = 255,
	QUEUE_DEAD_MAX = 6,	/* workers that an error names */
	QUEUE_EVENTS_MAX = 256, /* waiting to be taken; more are dropped */
};

/* --- lists of links: circular, with a head; an element in no list has next NULL */

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

/* The first element, or NULL. */
#define LINK_FIRST(head, type, member) \
	(link_empty(head) ? NULL : container_of((head)->next, type, member))
/* Walks the list; the body may remove the present element. */
#define LINK_FOREACH(l, tmp, head) \
	for ((l) = (head)->next; (l) && (l) != (head) && ((tmp) = (l)->next, true); (l) = (tmp))

/* --- bytes and errors */

struct queue_blob {
	uint32_t len : 24, format_len : 8;
	char data[]; /* the format and its NUL follow the data, if there is one */
};

/* NULL without memory. */
struct queue_blob *queue_blob_new(const struct queue_bytes *b);
struct queue_bytes queue_blob_bytes(const struct queue_blob *b);
bool queue_bytes_ok(const struct queue_bytes *b);

struct queue_err {
	unsigned refs; /* 0: static, used when there is no memory */
	enum status code;
	int worker;
	int64_t task;
	int64_t counted; /* the task whose bytes include it; 0: none yet */
	const char *details;
	char message[];
};

/* Both texts are cut to their limits, between characters. NULL without memory. */
struct queue_err *queue_err_new(
	enum status code, const char *message, const char *details, int worker, int64_t task);
/* Returns e, or for NULL a static error that says memory was short. Never NULL. */
struct queue_err *queue_err_sure(enum status code, struct queue_err *e);
/* An error without details. Never NULL, as queue_err_sure(). */
struct queue_err *queue_err_printf(enum status code, int worker, int64_t task, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* NULL without memory. */
struct queue_err *queue_err_copy(const struct queue_error *e);
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
	struct queue_slot *slots; /* ascending, used from `first` on */
	size_t first, n, cap;
};

int queue_index_set(struct queue_index *x, int64_t id, void *p);
void *queue_index_get(const struct queue_index *x, int64_t id);
void queue_index_del(struct queue_index *x, int64_t id);
/* The entry with the next greater number. */
void *queue_index_after(const struct queue_index *x, int64_t id);
void queue_index_fini(struct queue_index *x);

/* --- heaps */

struct queue_heap { /* of struct queue_heap_node */
	struct queue_heap_node **nodes;
	size_t n, cap, reserved;
};

/* Room for one more node, which queue_heap_set() needs. 0 or -ENOMEM. */
int queue_heap_reserve(struct queue_heap *h);
/* A node that is not in the heap needs its room no more. */
void queue_heap_unreserve(struct queue_heap *h);
/* Puts the node into the heap, moves it there, or (key UINT64_MAX) takes it out. */
void queue_heap_set(struct queue_heap *h, struct queue_heap_node *node, uint64_t key);
/* The node with the least key, or NULL. */
static inline struct queue_heap_node *queue_heap_first(const struct queue_heap *h)
{
	return h->n ? h->nodes[0] : NULL;
}

/* --- tasks */

struct queue_watch { /* a wait that watches a task or a lease */
	struct queue_link link;
	struct queue_wait *wait;
};

struct queue_blame {
	struct queue_link link; /* used last: last */
	unsigned n;		/* all, or the length of `at` */
	const char *text;
	uint64_t at[]; /* with a window: times, oldest first; text follows */
};

struct queue_extra {
	int64_t limit_ms;	    /* negative: none */
	struct queue_link watchers; /* a task with watchers is kept, even when released */
	struct queue_blame *blame;  /* of retryable failures without a blame */
	uint16_t dead[QUEUE_DEAD_MAX];
	uint8_t n_dead;
};

struct queue_task {
	uint64_t id : 54, state : 3, alone : 1, released : 1, raised : 1, kept : 1;
	uint64_t seq : 54, deaths : 10;
	/* kept: its queue had a keeper, so the task is in no journal */
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
	struct queue_heap heap; /* lanes with queued tasks, by their first ones */
	size_t n_lanes;
	bool hopeless; /* no worker can build all of it */
	bool dropped;  /* a resource was dropped: no new tasks */
};

struct queue_lane {
	struct queue_link link; /* in its queue's list */
	struct queue *of;
	struct queue_set *set;
	struct queue_list queued;
	struct queue_heap_node by_first; /* in its set's heap */
	size_t n;			 /* tasks in all states */
	uint16_t number;
};

struct queue {
	struct chain_node by_name;
	struct queue_link all, changed;
	struct queue_link lanes, leases, waits;
	struct queue_list over;
	size_t n[QUEUE_N_STATES], bytes, keepers, n_joins, n_waiting;
	uint64_t put_back, n_over, error_order;
	struct queue_err *error;
	bool outside;		/* a client outside the job uses it, or may do so */
	struct queue_err *loss; /* why tasks were cancelled; clients outside have not got it yet */
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

struct queue_member {		/* a worker's part of a call */
	struct queue_link link; /* in its worker's list until the worker has answered */
	struct queue_call *call;
	struct queue_lease *lease;
	int worker;
	bool answered;
	struct queue_blob *value;
	struct queue_err *error;
};

struct queue_call {
	unsigned refs; /* held by its wait and by leases */
	struct queue_wait *wait;
	struct queue_blob *payload;
	uint64_t answer_ms;
	bool parked; /* waits for the pool to be whole, or for the first worker */
	size_t n, left;
	struct queue_member *members;
};

enum queue_init_state { QUEUE_INIT_NONE, QUEUE_INIT_DUE, QUEUE_INIT_RUNS, QUEUE_INIT_FAILED };

struct queue_worker {
	int number, start;
	bool alive, asked, serves, again;
	bool known; /* it was started */
	bool takes; /* it has asked for work, or will */
	struct queue_link kills;
	enum queue_init_state init_state;
	struct queue_blob *init;
	uint64_t ready, building, failed; /* bits of resources */
	struct queue_err **errors;	  /* for failed resources; QUEUE_RESOURCES_MAX */
	struct queue_link leases, waits, calls;
	size_t n_leases, n_waits;
	int64_t *dropped; /* tasks put back because a connection closed, without duplicates */
	size_t n_dropped, cap_dropped; /* at most its slots */
	int64_t drop_lease; /* leases from this number on were asked for after the last of these */
	char *name;
};

struct queue_lease {
	int64_t id;
	enum queue_item kind;
	bool active, cancelled, seen; /* seen: its holder knows it */
	bool late;		      /* it has broken the pool, until it ends */
	enum queue_state becomes;     /* for a cancelled one: the task's next state */
	int start;
	struct queue_worker *worker;
	void *holder;
	struct queue_wait *wait; /* the wait that ended with it, until the holder has seen it */
	struct queue_task *task;
	const struct queue_set *set; /* the task's */
	struct queue_resource *resource;
	struct queue_member *member; /* NULL: its answer is no longer wanted */
	struct queue_call *call;     /* a reference */
	struct queue_link by_holder, by_worker, by_queue, to_cancel, watchers;
	uint64_t since_ms;
	struct queue_heap_node deadline;
	struct queue_err *why;
};

/* --- what is to be done */

struct queue_event {
	struct queue_link link;
	enum queue_order_what what;
	int worker;
	const char *event;
	char text[];
};

struct queue_note { /* a record to be written */
	struct queue_link link;
	enum queue_record_kind kind;
	int64_t task;
	const char *name; /* of a queue or resource; "": none */
	char text[];	  /* the name */
};

struct queues {
	struct queue_options opt;
	int64_t next_task, next_lease;
	uint64_t next_seq, next_order;
	struct queue_index tasks, leases;
	struct chain by_name;		/* queues */
	struct queue_link all, changed; /* queues */
	struct queue_lane **lanes;
	size_t n_lanes, cap_lanes, free_lane;
	struct queue_set *sets;
	size_t n[QUEUE_N_STATES], bytes;
	uint64_t put_back, n_over;
	struct queue_link room, fetches, cancels, calls; /* lists of waits */
	struct queue_link idle;				 /* waits for work of free workers */
	size_t n_waiting, n_free, n_asked, n_calls, n_late;
	struct queue_link over; /* waits that are over */
	struct queue_worker **workers;
	size_t n_workers;
	struct queue_link holders[QUEUE_HOLDER_LISTS]; /* leases, by the hash of their holder */
	struct queue_resource *resources[QUEUE_RESOURCES_MAX];
	uint64_t resource_bits; /* the bits in use */
	struct queue_heap wait_deadlines, lease_deadlines;
	struct queue_link blames;
	size_t n_blames;
	bool closed, whole, stopped, final, settling, restoring;
	bool hopeless_due; /* a task came that perhaps no worker can do */
	struct queue_err *broken, *failed, *stop;
	int exit_code;	   /* of failed */
	uint64_t quiet_ms; /* since when tasks run and none has ended; UINT64_MAX: a stall was
			      reported */
	uint64_t alone_ms; /* since when tasks are queued, and no worker asks for or has work;
			      UINT64_MAX: not now */
	/* for queue_next_order() */
	struct queue_link cancelled; /* leases whose holders are to learn it */
	struct queue_link kills, events, notes;
	size_t n_events;
	struct queue_note *note; /* of the last record that was returned */
	bool lost_note;
	bool stale_notes; /* the journal has records of tasks that need not be kept */
};

/* queue.c */
void queue_settle(struct queues *q, uint64_t now_ms);
/* Begins a wait. False: it is over already, since the queues are stopped. */
bool queue_wait_begin(struct queues *q, struct queue_wait *w, enum queue_wait_kind kind);
/* Sets the deadline of a wait, unless it is over; one whose deadline has passed is over then. */
void queue_wait_park(struct queues *q, struct queue_wait *w, uint64_t deadline_ms, uint64_t now_ms);
/* Ends a wait: with an error, which it takes, or (NULL) with OK. A submit that has accepted tasks
 * ends with OK, whatever the reason. */
void queue_wait_end(struct queues *q, struct queue_wait *w, struct queue_err *err);
/* The same for an error without memory of its own. */
void queue_wait_end_text(
	struct queues *q, struct queue_wait *w, enum status status, const char *text);
void queue_watch_end(struct queue_watch *watches, size_t n);

/* lanes.c */
struct queue *queue_find(const struct queues *q, const char *name);
/* NULL: no memory, or too many queues (*ret says which). */
struct queue *queue_get(struct queues *q, const char *name, enum status *ret);
void queue_changed(struct queues *q, struct queue *of);
/* Frees the queue if nothing of it is left. */
void queue_forget(struct queues *q, struct queue *of);
enum status queue_set_find(struct queues *q, const char *const *needs, size_t n,
	struct queue_set **ret, const char **ret_which);
struct queue_lane *queue_lane_get(struct queues *q, struct queue *of, struct queue_set *set);
void queue_lane_put(struct queues *q, struct queue_lane *l);
void queue_set_drop(struct queues *q, struct queue_set *s);
/* The lane's first task has changed. */
void queue_lane_moved(struct queue_lane *l);
/* The next task of the set, or NULL. */
struct queue_task *queue_set_first(const struct queue_set *s);
void queue_names_fini(struct queues *q);

/* task.c */
static inline struct queue_lane *queue_lane_of(const struct queues *q, const struct queue_task *t)
{
	return q->lanes[t->lane];
}
struct queue_task *queue_task_find(const struct queues *q, int64_t id);
/* NULL without memory. queue_task_enqueue() queues it. */
struct queue_task *queue_task_new(
	struct queues *q, struct queue_lane *lane, int64_t id, const struct queue_new *n);
struct queue_extra *queue_task_extra(struct queue_task *t);
void queue_task_trim(struct queue_task *t);
/* Appends it to its lane, and gives it to a worker that waits. */
void queue_task_enqueue(struct queues *q, struct queue_task *t, uint64_t now_ms);
void queue_task_dequeue(struct queues *q, struct queue_task *t);
/* Sets the last state of a task that is queued, or whose lease ends. Takes value or error. */
void queue_task_over(struct queues *q, struct queue_task *t, enum queue_state state,
	struct queue_blob *value, struct queue_err *error, uint64_t now_ms);
/* True when an outcome of n bytes keeps the total within queue.memory's limit. */
bool queue_task_fits(const struct queues *q, const struct queue_task *t, size_t n);
/* Frees the task if it is over, released, and not watched. */
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

/* submit.c */
/* Continues the submits that wait for room. */
void queue_submits_go_on(struct queues *q, uint64_t now_ms);
/* After a change in a queue: continues or ends the waits in it. */
void queue_waits_go_on(struct queues *q, struct queue *of);
/* Ends a submit whose time is over. */
void queue_submit_late(struct queues *q, struct queue_wait *w);
/* Its queue has failed, and this exempt submit waits: ends it at once. */
void queue_submit_exempt(struct queues *q, struct queue_wait *w);
/* Ends it with its queue's error, which is borrowed. */
void queue_wait_raise(struct queues *q, struct queue_wait *w, struct queue_err *e);

/* fetch.c */
/* False: there is no such task, or it was released before. */
bool queue_task_release(struct queues *q, int64_t id);
/* Ends it with the error of all queues. For a client outside, the queues of its tasks have then
 * reported their loss. */
void queue_fetch_raise(struct queues *q, struct queue_wait *w);
void queue_fetch_fini(struct queues *q, struct queue_wait *w);
void queue_watchers_over(struct queues *q, struct queue_task *t);

/* cancel.c */
/* True when t's failure would be the error of its queue. */
bool queue_task_sets_error(const struct queues *q, const struct queue_task *t);
/* Fails a task that is queued, or whose lease has ended. Takes err. */
void queue_task_fail(
	struct queues *q, struct queue_task *t, struct queue_err *err, uint64_t now_ms);
/* Sets the first error of a queue; later ones are ignored. err is borrowed. */
void queue_set_error(struct queues *q, struct queue *of, struct queue_err *err, uint64_t now_ms);
/* Notes that the queue's tasks were lost, to be reported. An earlier loss stays. */
void queue_set_loss(struct queues *q, struct queue *of, struct queue_err *err, int exit_code);
/* The loss was reported, or no client is left to report it to. of may be NULL. */
void queue_loss_told(struct queues *q, struct queue *of);
/* Cancels and releases all its tasks: their coordinator is gone. queue_settle() follows. */
void queue_abandon(struct queues *q, struct queue *of, uint64_t now_ms);

/* worker.c */
struct queue_worker *queue_worker_find(const struct queues *q, int worker);
const char *queue_worker_text(const struct queues *q, int worker, char *buf, size_t size);
/* Gives the worker's waits what they can get, and adds the rest to the idle ones or takes them out.
 */
void queue_worker_feed(struct queues *q, struct queue_worker *k, uint64_t now_ms);
/* Gives the task to a wait for work. False: no worker can take it now. */
bool queue_match_task(struct queues *q, struct queue_task *t, uint64_t now_ms);
void queue_work_unpark(struct queues *q, struct queue_wait *w);
void queue_workers_fini(struct queues *q);
void queue_fail_hopeless(struct queues *q, uint64_t now_ms);

/* lease.c */
struct queue_lease *queue_lease_new(struct queues *q);
void queue_lease_free(struct queues *q, struct queue_lease *l);
void queue_lease_begin(struct queues *q, struct queue_lease *l, enum queue_item kind,
	struct queue_wait *w, uint64_t now_ms);
/* Takes the reference err. */
void queue_lease_cancel(struct queues *q, struct queue_lease *l, enum queue_state becomes,
	struct queue_err *err, uint64_t now_ms);
/* Cancels the lease because its task fails. That may become the queue's error. Takes err. */
void queue_lease_fail(
	struct queues *q, struct queue_lease *l, struct queue_err *err, uint64_t now_ms);
/* Ends the lease as when its holder or its process is gone. */
void queue_lease_lost(struct queues *q, struct queue_lease *l, uint64_t now_ms);
void queue_lease_due(struct queues *q, struct queue_lease *l, uint64_t now_ms);

/* death.c */
/* True when the task must fail instead of being put back. */
bool queue_deaths_reached(const struct queues *q, const struct queue_task *t);
void queue_died_with(const struct queue_worker *k, struct queue_task *t);
/* Never NULL. */
struct queue_err *queue_deaths_err(const struct queues *q, const struct queue_task *t);
void queue_event_put_back(
	struct queues *q, const struct queue_worker *k, int64_t task, const char *why);
/* The lease's connection is gone, and its task is about to be put back. */
void queue_dropped(struct queues *q, const struct queue_lease *l);
/* The process of k is gone: counts its dropped tasks. Call it before its leases end. */
void queue_drops_end(struct queues *q, struct queue_worker *k, const char *why, bool on_purpose,
	uint64_t now_ms);

/* blame.c */
/* Returns 1 when the failure is absorbed, 0, or -ENOMEM. */
int queue_absorb(struct queues *q, struct queue_task *t, const char *blame, uint64_t now_ms);
void queue_blames_fini(struct queues *q);

/* resource.c */
/* NULL: there is no resource of that name. */
struct queue_resource *queue_resource_find(const struct queues *q, const char *name);
struct queue_resource *queue_resource_unref(struct queue_resource *r);
/* The worker has built the lease's resource (err NULL), or could not. Takes err. */
void queue_build_done(struct queue_lease *l, struct queue_err *err);
/* The next resource that this worker must build, or NULL. */
struct queue_resource *queue_to_build(const struct queues *q, const struct queue_worker *k);

/* call.c */
/* Takes value or error. */
void queue_member_answer(struct queues *q, struct queue_member *m, struct queue_blob *value,
	struct queue_err *error);
void queue_call_fini(struct queues *q, struct queue_wait *w, uint64_t now_ms);
/* Begins the calls that can begin. */
void queue_calls_begin(struct queues *q, uint64_t now_ms);
void queue_call_unref(struct queue_call *c);
void queue_pool_break(struct queues *q, int worker, const char *why);
/* Breaks the pool until this lease, which is cancelled, has ended. */
void queue_pool_late(struct queues *q, struct queue_lease *l, const char *why);
void queue_pool_mend(struct queues *q, uint64_t now_ms);

/* orders.c */
/* False: the event is lost, for lack of memory, or because too many wait. */
bool queue_event_add(struct queues *q, enum queue_order_what what, const char *event, int worker,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The whole journal must be written again. */
void queue_note_all(struct queues *q);
void queue_note(struct queues *q, enum queue_record_kind kind, int64_t task, const char *name);
/* False: the record is no longer needed. */
bool queue_describe(const struct queues *q, const struct queue_note *n, struct queue_record *ret);
bool queue_error_is_bare(const struct queues *q, const struct queue *of);
void queue_orders_fini(struct queues *q);
