/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A world around the machine of agent/queue/machine/queue.h: coordinators that submit, join, fetch,
 * cancel and go away, workers that take, finish, fail, put back and die, and a journal. It keeps
 * its own account of leases and guarantees, and compares the machine with it after each step. Steps
 * are numbers, so that a test can walk through all orders, or long random ones.
 */

#include "agent/queue/machine/queue.h"
#include "tests/unit/child.h"
#include "tests/unit/quiet.h"

#include <errno.h>
#include <stdio.h>

enum { TASKS = 1 << 14, WAITS = 24, WORKERS = 6, HOLDS = 16, QUEUES = 3, RESOURCES = 2 };

struct wwait {
	struct queue_wait w;
	bool used;
	unsigned long began; /* in which step */
	int queue;
	size_t n;
	int64_t ids[8];
	size_t n_live; /* it may be over only when these tasks are */
	int64_t live[64];
	struct queue_new tasks[3];
	char payload[3][16];
	const char *needs[RESOURCES];
	int worker;
	char holder; /* its address is the connection */
};

struct whold {
	bool used, cancelled;
	int64_t lease, task;
	enum queue_item kind;
	int worker, resource;
	void *holder;
	unsigned long asked; /* in which step */
};

struct wtask {
	bool accepted, released, over,
		done_for; /* done_for: cancelled, and the cancellation was reported */
	enum queue_state state;
	int queue;
	unsigned long raised; /* in which step */
	unsigned deaths;
	bool excused; /* it may be queued after too many deaths: it ran when the last one was
			 reported */
};

struct wworker {
	bool alive;
	int start;
	unsigned ready, tried;	/* resources */
	int64_t dropped[HOLDS]; /* tasks dropped with a connection; the worker may turn out to be
				   dead */
	int n_dropped;
	unsigned long drop; /* the step of the last drop */
};

struct wrecord {
	struct queue_record r;
	void *parts[5];
	const char *needs[QUEUE_NEEDS_MAX];
};

struct world {
	struct queues *q;
	struct queue_options opt;
	uint64_t now;
	int n_queues, n_workers, n_waits;
	struct wwait waits[WAITS];
	struct whold holds[HOLDS];
	struct wworker workers[WORKERS];
	bool resources[RESOURCES];
	int keepers[QUEUES];
	bool stopped, closed, failed, kept;
	struct wrecord *journal;
	size_t n_journal, cap_journal;
	unsigned kills;
	size_t n_queued; /* at the last check */
	uint64_t put_back;
	unsigned long steps, leases, restores, overs, errors, late_deaths;
};

static struct world w;
static struct wtask wtasks[TASKS];
static int64_t max_task; /* the greatest number so far */
static char trail[1 << 14];

#define wrong(...)                                                 \
	do {                                                       \
		fprintf(stderr, "after%s\n", trail);               \
		fprintf(stderr, __VA_ARGS__), fputc('\n', stderr); \
		ck_abort_msg(__VA_ARGS__);                         \
	} while (0)

static const char *const queue_names[QUEUES] = { "", "b", "c" };
static const char *const resource_names[RESOURCES] = { "r0", "r1" };

static int queue_number(const char *name)
{
	for (int i = 0; i < QUEUES; i++)
		if (strcmp(name, queue_names[i]) == 0)
			return i;
	return -1;
}

static struct wtask *wtask(int64_t id)
{
	ck_assert(id > 0 && id < TASKS);
	if (id > max_task)
		max_task = id;
	return &wtasks[id];
}

/* --- the journal */

static void *copy(struct wrecord *x, int part, const void *p, size_t n)
{
	x->parts[part] = malloc(n + 1);
	memcpy(x->parts[part], p, n);
	((char *)x->parts[part])[n] = '\0';
	return x->parts[part];
}

static void journal_add(const struct queue_record *r)
{
	struct wrecord *x;

	if (w.n_journal == w.cap_journal) {
		w.cap_journal = w.cap_journal ? w.cap_journal * 2 : 64;
		w.journal = realloc(w.journal, w.cap_journal * sizeof(*w.journal));
	}
	x = &w.journal[w.n_journal++];
	*x = (struct wrecord){ .r = *r };
	x->r.queue = copy(x, 0, r->queue, strlen(r->queue));
	x->r.payload.data = copy(x, 1, r->payload.data, r->payload.len);
	x->r.payload.format = copy(x, 2, r->payload.format, strlen(r->payload.format));
	x->r.error.message = copy(x, 3, r->error.message, strlen(r->error.message));
	x->r.error.details = copy(x, 4, r->error.details, strlen(r->error.details));
	for (size_t i = 0; i < r->n_needs; i++)
		x->needs[i] = strcmp(r->needs[i], "r0") == 0 ? "r0" : "r1";
}

static void journal_free(void)
{
	for (size_t i = 0; i < w.n_journal; i++)
		for (int j = 0; j < 5; j++)
			free(w.journal[i].parts[j]);
	free(w.journal);
	w.journal = NULL;
	w.n_journal = w.cap_journal = 0;
}

static void journal_dump(void)
{
	struct queue_record r;
	uint64_t cursor = 0;

	journal_free();
	while (queue_dump(w.q, &cursor, &r))
		journal_add(&r);
}

/* --- what is seen */

static struct whold *hold_of(int64_t task)
{
	for (int i = 0; i < HOLDS; i++)
		if (w.holds[i].used && w.holds[i].task == task)
			return &w.holds[i];
	return NULL;
}

/* A task fails with the last death that the limit permits, and not before. */
static void see_deaths(const struct queue_outcome *o)
{
	const struct wtask *t = wtask(o->task);
	bool enough = w.opt.deaths && t->deaths >= w.opt.deaths;

	if (o->state == QUEUE_QUEUED && enough && !t->excused)
		wrong("task %lld is queued after %u deaths", (long long)o->task, t->deaths);
	if (o->state != QUEUE_FAILED || o->error.code != STATUS_ABORTED)
		return;
	if (!enough || strtoul(o->error.message, NULL, 10) != t->deaths)
		wrong("task %lld failed of %s, after %u deaths", (long long)o->task,
			o->error.message, t->deaths);
}

static void see_outcome(const struct queue_outcome *o)
{
	struct wtask *t = wtask(o->task);
	bool over = o->state >= QUEUE_SUCCEEDED;
	char value[24];

	if (t->over && (!over || o->state != t->state))
		wrong("task %lld was over and is %d", (long long)o->task, o->state);
	if ((o->state == QUEUE_RUNNING) != (hold_of(o->task) != NULL))
		wrong("task %lld is in state %d, and held: %d", (long long)o->task, o->state,
			hold_of(o->task) != NULL);
	if (over && hold_of(o->task))
		wrong("task %lld is over and held", (long long)o->task);
	if (t->done_for && !over)
		wrong("task %lld was cancelled and is %d", (long long)o->task, o->state);
	snprintf(value, sizeof(value), "v%lld", (long long)o->task);
	if (o->state == QUEUE_SUCCEEDED &&
		(o->value.len != strlen(value) || memcmp(o->value.data, value, o->value.len) != 0))
		wrong("task %lld has another value", (long long)o->task);
	if (over && o->state != QUEUE_SUCCEEDED && !o->error.message[0])
		wrong("task %lld has an error without words", (long long)o->task);
	see_deaths(o);
	t->over = over;
	t->state = o->state;
	t->queue = queue_number(o->queue);
}

/* Checks that no submit is accepted beyond queue.max, and that one that waits only for it is
 * accepted. */
static void see_room(const struct queue_stats *s)
{
	size_t back = (size_t)(s->put_back - w.put_back), joins = 0;

	if (w.opt.max &&
		s->n[QUEUE_QUEUED] > back + (w.n_queued > w.opt.max ? w.n_queued : w.opt.max))
		wrong("more tasks than queue.max");
	w.n_queued = s->n[QUEUE_QUEUED];
	w.put_back = s->put_back;
	for (int i = 0; i < w.n_waits; i++)
		joins += w.waits[i].used && w.waits[i].w.kind == QUEUE_WAIT_JOIN;
	if (s->waiting && !joins && !s->has_error && !w.opt.results && !w.opt.bytes &&
		(!w.opt.max || s->n[QUEUE_QUEUED] < w.opt.max))
		wrong("%zu wait for room that there is", s->waiting);
}

static void see_all(void)
{
	size_t n[QUEUES + 1][QUEUE_N_STATES] = { 0 };
	struct queue_outcome o;
	struct queue_stats s;

	for (int64_t at = -1; queue_after(w.q, NULL, at, &o); at = o.task) {
		see_outcome(&o);
		n[QUEUES][o.state]++;
		n[wtasks[o.task].queue][o.state]++;
	}
	for (int64_t id = 1; id <= max_task; id++)
		if (wtasks[id].accepted && !wtasks[id].released && !queue_outcome(w.q, id, &o))
			wrong("task %lld is lost", (long long)id);
	for (int i = 0; i <= QUEUES; i++) {
		queue_stats(w.q, i == QUEUES ? NULL : queue_names[i], &s);
		if (s.n[QUEUE_QUEUED] != n[i][QUEUE_QUEUED] ||
			s.n[QUEUE_RUNNING] != n[i][QUEUE_RUNNING])
			wrong("queue %d counts %zu + %zu, expected %zu + %zu", i, s.n[QUEUE_QUEUED],
				s.n[QUEUE_RUNNING], n[i][QUEUE_QUEUED], n[i][QUEUE_RUNNING]);
	}
	see_room(&s);
	for (int i = 0; i < HOLDS; i++) {
		bool cancelled;
		const char *why;

		if (w.holds[i].used && queue_look(w.q, w.holds[i].worker, w.holds[i].lease,
					       &cancelled, &why) != STATUS_OK)
			wrong("lease %lld is gone", (long long)w.holds[i].lease);
		if (w.holds[i].used && cancelled != w.holds[i].cancelled)
			wrong("of lease %lld it was not told that it is cancelled",
				(long long)w.holds[i].lease);
	}
}

/* --- what ends */

static int slots_of(int worker)
{
	int n = 0;

	for (int i = 0; i < HOLDS; i++)
		n += w.holds[i].used && w.holds[i].worker == worker;
	return n;
}

static void got_lease(struct wwait *x)
{
	struct queue_item_view v;
	struct wworker *k = &w.workers[x->worker];
	struct whold *h = w.holds;

	queue_item(x->w.lease, &v);
	while (h->used)
		h++;
	ck_assert(h < w.holds + HOLDS);
	if (slots_of(x->worker) >= w.opt.slots)
		wrong("worker %d has more than its slots", x->worker);
	if (v.kind != QUEUE_ITEM_TASK && slots_of(x->worker))
		wrong("worker %d got a chore beside something else", x->worker);
	if (v.kind == QUEUE_ITEM_TASK) {
		struct wtask *t = wtask(v.task);

		t->excused = false;
		if (hold_of(v.task))
			wrong("task %lld is leased twice", (long long)v.task);
		if (t->over || t->done_for)
			wrong("task %lld runs after its end", (long long)v.task);
		for (size_t i = 0; i < v.n_needs; i++)
			if (!(k->ready >> (v.needs[i][1] - '0') & 1))
				wrong("task %lld needs %s", (long long)v.task, v.needs[i]);
		for (int i = 0; i < RESOURCES; i++)
			if (w.resources[i] && !(k->tried >> i & 1))
				wrong("task %lld came before r%d was built", (long long)v.task, i);
	}
	*h = (struct whold){ true, false, v.lease, v.kind == QUEUE_ITEM_TASK ? v.task : -1, v.kind,
		x->worker, v.kind == QUEUE_ITEM_BUILD ? v.name[1] - '0' : -1, &x->holder,
		x->began };
	w.leases++;
}

/* Each lease belongs to one connection. */
static bool holder_used(const struct wwait *x)
{
	for (int i = 0; i < HOLDS; i++)
		if (w.holds[i].used && w.holds[i].holder == &x->holder)
			return true;
	return false;
}

/* A submit after a join waits until the join is over. */
static void passes_no_join(const struct wwait *x)
{
	for (int i = 0; i < w.n_waits && !x->w.exempt; i++) {
		const struct wwait *j = &w.waits[i];

		if (j->used && j->w.kind == QUEUE_WAIT_JOIN && j->queue == x->queue &&
			j->began < x->began)
			wrong("task %lld has passed a join", (long long)x->w.first);
	}
}

static void accepted(struct wwait *x)
{
	passes_no_join(x);
	for (size_t i = 0; i < x->w.accepted; i++) {
		struct wtask *t = wtask(x->w.first + (int64_t)i);

		if (t->accepted)
			wrong("number %lld was given twice", (long long)x->w.first);
		t->accepted = true;
		t->queue = x->queue;
	}
}

static void queue_failed_is_right(struct wwait *x)
{
	struct queue_stats s;

	w.errors++;
	if (w.failed)
		return;
	if (x->w.error.task >= 0) {
		struct wtask *t = wtask(x->w.error.task);

		if (t->raised && t->raised != w.steps)
			wrong("task %lld is the error twice", (long long)x->w.error.task);
		t->raised = w.steps;
	}
	queue_stats(w.q, queue_names[x->queue], &s);
	if (s.has_error && s.error.task == x->w.error.task)
		wrong("the error was raised and is still there");
}

static void must_be_over(struct wwait *x, const char *what)
{
	struct queue_outcome o;

	for (size_t i = 0; i < x->n_live; i++) {
		if (!queue_outcome(w.q, x->live[i], &o))
			continue;
		if (o.state < QUEUE_SUCCEEDED)
			wrong("%s is over and task %lld is not", what, (long long)x->live[i]);
		if (x->w.kind == QUEUE_WAIT_CANCEL)
			wtask(x->live[i])->done_for = true;
	}
}

static void fetched(struct wwait *x)
{
	struct queue_outcome o;
	size_t over = 0;

	for (size_t i = 0; i < x->n; i++) {
		if (!queue_outcome(w.q, x->ids[i], &o))
			wrong("task %lld is forgotten before it was fetched", (long long)x->ids[i]);
		over += o.state >= QUEUE_SUCCEEDED;
	}
	if (!over || (over < x->n && !x->w.any))
		wrong("a fetch is over with %zu of %zu", over, x->n);
}

static void answer(struct wwait *x)
{
	enum status s = x->w.status;

	w.overs++;
	if (!x->used)
		wrong("a wait is over twice");
	if (x->w.failed_queue)
		queue_failed_is_right(x);
	else if (x->w.kind == QUEUE_WAIT_SUBMIT && s == STATUS_OK)
		accepted(x);
	else if (x->w.kind == QUEUE_WAIT_JOIN && s == STATUS_OK)
		must_be_over(x, "a join");
	else if (x->w.kind == QUEUE_WAIT_CANCEL && s == STATUS_OK)
		must_be_over(x, "a cancel");
	else if (x->w.kind == QUEUE_WAIT_FETCH && s == STATUS_OK)
		fetched(x);
	else if (x->w.kind == QUEUE_WAIT_WORK && s == STATUS_OK && x->w.lease)
		got_lease(x);
	if (s != STATUS_OK && !x->w.text[0])
		wrong("an end without words: %d %d", x->w.kind, s);
}

/* Does what a caller of the machine does: first all orders, then all answers. */
static void drain(void)
{
	static struct queue_order d;
	struct queue_wait *over;
	bool more;

	do {
		more = false;
		while (queue_next_order(w.q, &d)) {
			if (d.what == QUEUE_ORDER_RECORD)
				journal_add(&d.record);
			else if (d.what == QUEUE_ORDER_RECORD_LOST)
				journal_dump();
			else if (d.what == QUEUE_ORDER_KILL)
				w.kills |= 1u << d.worker;
			for (int i = 0; d.what == QUEUE_ORDER_CANCEL && i < HOLDS; i++)
				if (w.holds[i].used && w.holds[i].lease == d.lease)
					w.holds[i].cancelled = true;
		}
		while ((over = queue_over(w.q))) {
			struct wwait *x = over->arg;

			answer(x);
			x->used = false;
			more = true;
			queue_wait_fini(w.q, over, w.now);
		}
	} while (more);
}
