/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The steps of the world in queue_world.h. Each step has two numbers, which choose the worker, the
 * task and the variant; a step that is impossible at that moment does nothing.
 */

#include "tests/unit/queue_world.h"

static struct wwait *new_wait(int queue)
{
	for (int i = 0; i < w.n_waits; i++) {
		struct wwait *x = &w.waits[i];

		if (x->used || holder_used(x))
			continue;
		*x = (struct wwait){ .used = true, .began = w.steps, .queue = queue, .w.arg = x };
		return x;
	}
	return NULL;
}

/* The tasks of a queue that are not over; only those in ids, if there are any. */
static void live(struct wwait *x)
{
	struct queue_outcome o;

	for (int64_t at = -1; queue_after(w.q, queue_names[x->queue], at, &o); at = o.task)
		if (o.state < QUEUE_SUCCEEDED && x->n_live < 64)
			x->live[x->n_live++] = o.task;
}

static uint64_t until_when(unsigned b)
{
	return b % 3 == 0 ? w.now : b % 3 == 1 ? w.now + 50 : UINT64_MAX;
}

/* The a-th task that is not released; -1: none. */
static int64_t some_task(unsigned a)
{
	int64_t ids[32];
	unsigned n = 0;

	for (int64_t id = max_task; id > 0 && n < 32; id--)
		if (wtasks[id].accepted && !wtasks[id].released)
			ids[n++] = id;
	return n ? ids[a % n] : -1;
}

static void do_submit(unsigned a, unsigned b)
{
	struct wwait *x = max_task + 70 > TASKS ? NULL : new_wait((int)(a % (unsigned)w.n_queues));
	size_t n = 1 + b / 4 % 3;

	if (!x)
		return;
	for (size_t i = 0; i < n; i++) {
		x->tasks[i] = (struct queue_new){ { "payload", 7, "f" }, x->needs, 0,
			b / 12 % 8 == 1 ? 30 : -1, b / 12 % 8 == 2 };
		if (b / 96 % 4 == 1 && w.resources[b / 384 % RESOURCES]) {
			x->needs[0] = resource_names[b / 384 % RESOURCES];
			x->tasks[i].n_needs = 1;
		}
	}
	queue_submit(w.q, &x->w, queue_names[x->queue], x->tasks, n, b / 7 % 8 == 3, until_when(b),
		w.now);
}

static void do_join(unsigned a, unsigned b)
{
	struct wwait *x = new_wait((int)(a % (unsigned)w.n_queues));

	if (!x)
		return;
	live(x);
	if (b % 4 == 3)
		queue_done(w.q, &x->w, queue_names[x->queue], UINT64_MAX, w.now);
	else
		queue_join(w.q, &x->w, queue_names[x->queue], until_when(b), w.now);
}

static void do_fetch(unsigned a, unsigned b)
{
	struct wwait *x = some_task(a) < 0 ? NULL : new_wait(0);

	if (!x)
		return;
	x->n = 1 + b / 3 % 3;
	for (size_t i = 0; i < x->n; i++)
		x->ids[i] = some_task(a + (unsigned)i);
	queue_fetch(w.q, &x->w, x->ids, x->n, b & 1, until_when(b), w.now);
}

static void do_cancel(unsigned a, unsigned b)
{
	struct wwait *x = new_wait((int)(a % (unsigned)w.n_queues));
	int64_t id = some_task(a);

	if (!x)
		return;
	if (b & 1 || id < 0) {
		live(x);
		queue_cancel(
			w.q, &x->w, queue_names[x->queue], NULL, 0, "", until_when(b / 2), w.now);
		return;
	}
	x->ids[0] = id;
	if (!wtasks[id].over)
		x->live[x->n_live++] = id;
	queue_cancel(w.q, &x->w, "", x->ids, 1, "why", until_when(b / 2), w.now);
}

static void do_release(unsigned a, unsigned b)
{
	int64_t id = some_task(a);

	if (id < 0)
		return;
	wtasks[id].released = true;
	if (queue_release(w.q, &id, 1, w.now) != 1)
		wrong("task %lld could not be released", (long long)id);
}

static void start(int worker, unsigned b)
{
	struct wworker *k = &w.workers[worker];
	struct queue_bytes init = { "init", 4, "" };

	*k = (struct wworker){ .alive = true, .start = k->start + 1 };
	ck_assert_int_eq(queue_worker_started(
				 w.q, worker, k->start, b % 4 == 1 ? &init : NULL, b & 1, w.now),
		0);
}

static bool is_among(const int64_t *ids, int n, int64_t id)
{
	for (int i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* A process dies with the tasks that it has, with those that were leased to it and have not
 * arrived, and with those that it dropped before; with each once. */
static void dies_with(int worker)
{
	struct wworker *k = &w.workers[worker];
	int64_t ids[3 * HOLDS + WAITS];
	int n = 0;

	for (int i = 0; i < HOLDS; i++)
		if (w.holds[i].used && w.holds[i].worker == worker && w.holds[i].task >= 0 &&
			!w.holds[i].cancelled)
			ids[n++] = w.holds[i].task;
	for (int i = 0; i < w.n_waits; i++) {
		const struct wwait *x = &w.waits[i];
		struct queue_item_view v;
		const char *why;
		bool cancelled;

		if (!x->used || x->w.kind != QUEUE_WAIT_WORK || x->worker != worker || !x->w.lease)
			continue;
		queue_item(x->w.lease, &v);
		queue_look(w.q, worker, v.lease, &cancelled, &why);
		if (v.task >= 0 && !cancelled)
			ids[n++] = v.task;
	}
	for (int i = 0; i < k->n_dropped; i++) {
		const struct whold *h = hold_of(k->dropped[i]);

		if (is_among(ids, n, k->dropped[i]) || wtask(k->dropped[i])->over ||
			(h && h->cancelled))
			continue;
		ids[n++] = k->dropped[i];
		w.late_deaths++;
	}
	for (int i = 0; i < n; i++)
		wtask(ids[i])->deaths++;
}

static void gone(int worker, unsigned b)
{
	if (!(b & 1))
		dies_with(worker);
	w.workers[worker].n_dropped = 0;
	w.workers[worker].alive = false;
	w.kills &= ~(1u << worker);
	for (int i = 0; i < HOLDS; i++)
		if (w.holds[i].worker == worker)
			w.holds[i].used = false;
	queue_worker_gone(w.q, worker, "was killed", b & 1, b & 2, w.now);
}

static void do_worker(unsigned a, unsigned b)
{
	int worker = (int)(a % (unsigned)w.n_workers);

	if (w.workers[worker].alive)
		gone(worker, b);
	else
		start(worker, b);
}

static void do_work(unsigned a, unsigned b)
{
	int worker = (int)(a % (unsigned)w.n_workers);
	struct wwait *x = w.workers[worker].alive ? new_wait(0) : NULL;

	if (!x)
		return;
	x->worker = worker;
	queue_work(w.q, &x->w, worker, &x->holder, until_when(b + 2), w.now);
}

/* The worker is gone before it gets the lease. */
static void do_burst(unsigned a, unsigned b)
{
	do_submit(a, 4 * (b % 3));
	for (int i = 0; i < w.n_waits; i++) {
		struct wwait *x = &w.waits[i];

		if (!x->used || !x->w.is_over || !x->w.lease)
			continue;
		if (b & 4)
			gone(x->worker, b);
		else if (b & 8)
			queue_holder_gone(w.q, &x->holder, w.now);
	}
}

static struct whold *some_hold(unsigned a)
{
	for (unsigned i = 0; i < HOLDS; i++)
		if (w.holds[(a + i) % HOLDS].used)
			return &w.holds[(a + i) % HOLDS];
	return NULL;
}

/* Its connection ends with it. */
static void drops(const struct whold *h)
{
	struct wworker *k = &w.workers[h->worker];

	if (h->task < 0 || h->cancelled)
		return;
	k->drop = w.steps;
	if (!is_among(k->dropped, k->n_dropped, h->task) && k->n_dropped < w.opt.slots)
		k->dropped[k->n_dropped++] = h->task;
}

/* The lease has ended, and so has its build. */
static void let_go(struct whold *h, bool ok, bool done)
{
	struct wworker *k = &w.workers[h->worker];

	if (h->asked > k->drop)
		k->n_dropped = 0;
	h->used = false;
	if (h->kind != QUEUE_ITEM_BUILD || h->cancelled || !done)
		return;
	k->tried |= 1u << h->resource;
	k->ready |= (unsigned)ok << h->resource;
}

static void ended_as(const struct whold *h, enum status s)
{
	if (s != (h->cancelled ? STATUS_ABORTED : STATUS_OK))
		wrong("the end of lease %lld is %s", (long long)h->lease, status_name(s));
}

static void do_finish(unsigned a, unsigned b)
{
	struct whold *h = some_hold(a);
	char value[24];
	struct queue_bytes v = { value, 0, "" };

	if (!h)
		return;
	snprintf(value, sizeof(value), "v%lld", (long long)h->task);
	v.len = strlen(value);
	let_go(h, true, true);
	ended_as(h, queue_finish(w.q, h->holder, h->lease, &v, w.now));
}

static void do_fail(unsigned a, unsigned b)
{
	struct whold *h = some_hold(a);
	struct queue_failure f = { STATUS_INTERNAL, "it went wrong", "where", b & 1,
		b & 2 ? "ps:0" : NULL };

	if (!h)
		return;
	let_go(h, false, true);
	ended_as(h, queue_fail(w.q, h->holder, h->lease, &f, w.now));
	if (h->kind != QUEUE_ITEM_INIT)
		return;
	/* Such a process is not used any more. */
	drain();
	gone(h->worker, 2);
}

static void lose(struct whold *h)
{
	h->used = false;
	drops(h);
	queue_holder_gone(w.q, h->holder, w.now);
}

static void do_put_back(unsigned a, unsigned b)
{
	struct whold *h = some_hold(a);

	if (h && b & 1) {
		let_go(h, false, false);
		ended_as(h, queue_put_back(w.q, h->holder, h->lease, w.now));
	} else if (h) {
		lose(h);
	}
}

/* Ends all or some connections of a process that dies, and mostly the process at once. */
static void do_die(unsigned a, unsigned b)
{
	int worker = (int)(a % (unsigned)w.n_workers);

	if (!slots_of(worker)) {
		do_submit(a, 0);
		do_work(a, 1);
		drain();
	}
	for (int i = 0; i < HOLDS; i++)
		if (w.holds[i].used && w.holds[i].worker == worker && b >> i % 4 & 1) {
			lose(&w.holds[i]);
			drain();
			see_all();
		}
	if (w.workers[worker].alive && b >> 4 & 3)
		gone(worker, b >> 6 & 1);
}

static void do_lives(unsigned a, unsigned b)
{
	int worker = (int)(a % (unsigned)w.n_workers);

	w.workers[worker].n_dropped = 0;
	queue_worker_lives(w.q, worker);
}

static void do_away(unsigned a, unsigned b)
{
	struct wwait *x = &w.waits[a % (unsigned)w.n_waits];

	if (!x->used)
		return;
	/* Its accepted tasks stay, though no client knows their numbers. */
	x->used = false;
	queue_wait_fini(w.q, &x->w, w.now);
}

static void do_time(unsigned a, unsigned b)
{
	w.now += b % 3 == 0 ? 1 : b % 3 == 1 ? 60 : 200;
	queue_expire(w.q, w.now);
	drain();
	for (int i = 0; i < w.n_workers; i++)
		if (w.kills >> i & 1) {
			gone(i, 3);
			drain();
			start(i, 1);
		}
	if (queue_due_ms(w.q) <= w.now)
		wrong("something is overdue");
}

static void do_resource(unsigned a, unsigned b)
{
	int r = (int)(a % RESOURCES);
	struct queue_bytes p = { "make", 4, "" };

	if (!w.resources[r]) {
		w.resources[r] = true;
		ck_assert_int_eq(queue_resource_create(w.q, resource_names[r], &p, w.now), 0);
	} else if (b % 4 == 0) {
		w.resources[r] = false;
		for (int i = 0; i < WORKERS; i++) {
			w.workers[i].tried &= ~(1u << r);
			w.workers[i].ready &= ~(1u << r);
		}
		ck_assert_int_eq(queue_resource_drop(w.q, resource_names[r], w.now), 0);
	}
}

static void do_call(unsigned a, unsigned b)
{
	struct wwait *x = new_wait(0);
	struct queue_bytes p = { "call", 4, "" };
	int one = (int)(a % (unsigned)w.n_workers);

	if (x)
		queue_call(w.q, &x->w, &one, b & 1, &p, until_when(b), 40, w.now);
}

static void do_keep(unsigned a, unsigned b)
{
	int i = (int)(a % (unsigned)w.n_queues);

	if (b & 1) {
		w.kept = true;
		w.keepers[i] += queue_keep(w.q, queue_names[i]) == STATUS_OK;
		return;
	}
	if (!w.keepers[i])
		return;
	for (int64_t id = 1; !(w.keepers[i] - 1) && id <= max_task; id++)
		if (wtasks[id].queue == i)
			wtasks[id].released = true;
	w.keepers[i]--;
	queue_unkeep(w.q, queue_names[i], w.now);
}

static void do_whole(unsigned a, unsigned b)
{
	struct queue_error e = { STATUS_UNAVAILABLE, "ps:0 was killed", "", -1, -1 };

	if (a % 4 == 0) {
		w.stopped = !w.stopped;
		if (w.stopped)
			queue_stop(w.q, STATUS_CANCELLED, "it stops", false);
		else
			queue_go(w.q);
	} else if (a % 4 == 1) {
		w.failed = !w.failed;
		if (w.failed)
			queue_fail_all(w.q, &e, 7, w.now);
		else
			queue_unfail(w.q, w.now);
	} else {
		queue_whole(w.q, w.now);
	}
}

/* --- the agent dies, and comes back with what was written down */

static void forget_machine(void)
{
	for (int i = 0; i < w.n_waits; i++)
		if (w.waits[i].used)
			queue_wait_fini(w.q, &w.waits[i].w, w.now);
	w.q = queues_free(w.q);
	memset(w.waits, 0, sizeof(w.waits));
	memset(w.holds, 0, sizeof(w.holds));
	memset(w.workers, 0, sizeof(w.workers));
	memset(w.keepers, 0, sizeof(w.keepers));
	w.kills = 0;
	w.stopped = w.failed = false;
	w.put_back = 0;
	w.n_queued = SIZE_MAX / 2; /* running tasks are queued again */
}

static void is_as_before(int64_t id, enum queue_state before)
{
	struct queue_outcome o;

	if (!queue_outcome(w.q, id, &o)) {
		if (!wtasks[id].released)
			wrong("task %lld is lost with the machine", (long long)id);
		return;
	}
	if (before >= QUEUE_SUCCEEDED ? o.state != before : o.state == QUEUE_SUCCEEDED)
		wrong("task %lld was %d and is %d after it", (long long)id, before, o.state);
	if (before == QUEUE_QUEUED && o.state != QUEUE_QUEUED)
		wrong("task %lld was queued and is %d", (long long)id, o.state);
}

static void do_crash(unsigned a, unsigned b)
{
	static enum queue_state before[TASKS];
	static bool there[TASKS];
	bool errors[QUEUES];
	struct queue_outcome o;
	struct queue_stats s;
	struct queues *q;

	for (int i = 0; i < QUEUES; i++) {
		queue_stats(w.q, queue_names[i], &s);
		errors[i] = s.has_error && !w.failed && !w.keepers[i];
	}
	if (b & 1)
		journal_dump();
	for (int64_t id = 1; id <= max_task; id++) {
		there[id] = queue_outcome(w.q, id, &o);
		wtasks[id].excused |= there[id] && o.state == QUEUE_RUNNING;
		if (there[id])
			before[id] = o.state;
		if (!there[id] || !w.keepers[wtasks[id].queue])
			continue;
		/* It ends with its keeper. */
		wtasks[id].released = true;
		there[id] = false;
	}
	if (w.kept) /* as an agent does, so that no number is used twice */
		w.opt.first_task = max_task + 1;
	forget_machine();
	ck_assert_int_eq(queues_new(&w.opt, &q), 0);
	w.q = q;
	for (size_t i = 0; i < w.n_journal; i++) {
		struct queue_record r = w.journal[i].r;
		int k;

		r.needs = w.journal[i].needs;
		k = queue_restore(q, &r);
		if (k != 0 && k != -EINVAL)
			wrong("a record is not taken: %d", k);
	}
	for (int64_t id = 1; id <= max_task; id++)
		if (there[id])
			is_as_before(id, before[id]);
		else if (queue_outcome(q, id, &o))
			wrong("task %lld comes back", (long long)id);
	for (int i = 0; i < QUEUES; i++) {
		queue_stats(w.q, queue_names[i], &s);
		if (s.has_error != errors[i])
			wrong("queue %d had an error: %d, and has: %d", i, errors[i], s.has_error);
	}
	w.restores++;
}

/* Ends the waits for work, which take the room of other waits. */
static void workers_away(void)
{
	for (int i = 0; i < w.n_waits; i++)
		if (w.waits[i].used && w.waits[i].w.kind == QUEUE_WAIT_WORK)
			do_away((unsigned)i, 0);
}

static void do_nothing_more(unsigned a, unsigned b)
{
	/* Workers that wait get work and finish it, submits that wait for room get it. */
	w.stopped = false;
	queue_go(w.q);
	if (w.failed)
		queue_unfail(w.q, w.now);
	w.failed = false;
	queue_whole(w.q, w.now);
	drain();
	for (int turn = 0; turn < 120; turn++) {
		int worker = turn % w.n_workers;

		if (!w.workers[worker].alive)
			start(worker, 0);
		drain();
		while (some_hold(0)) {
			do_finish(0, 0);
			drain();
		}
		if (turn % 3 == 0 && some_task(0) > 0 && wtasks[some_task(0)].over)
			do_release(0, 0);
		for (int64_t id = 1; turn % 8 == 7 && id <= max_task; id++)
			if (wtasks[id].accepted && wtasks[id].over && !wtasks[id].released) {
				wtasks[id].released = true;
				queue_release(w.q, &id, 1, w.now);
			}
		drain();
		if (turn >= 60)
			workers_away();
		do_work((unsigned)worker, 0);
		drain();
		do_time(0, 1);
		drain();
	}
	while (some_hold(0)) {
		do_finish(0, 0);
		drain();
	}
	for (int i = 0; i < w.n_waits; i++)
		if (w.waits[i].used && w.waits[i].w.kind != QUEUE_WAIT_WORK)
			wrong("a wait of kind %d has no end", w.waits[i].w.kind);
}

struct op {
	const char *name;
	void (*fn)(unsigned a, unsigned b);
};

static void step(const struct op *op, unsigned a, unsigned b)
{
	size_t at = strlen(trail);

	if (at > sizeof(trail) - 64) {
		memmove(trail, trail + sizeof(trail) / 2, sizeof(trail) / 2);
		at = strlen(trail);
	}
	snprintf(trail + at, sizeof(trail) - at, " %s(%u,%u)", op->name, a, b);
	w.steps++;
	op->fn(a, b);
	drain();
	see_all();
}

static void world_begin(const struct queue_options *opt, int queues, int workers, int waits)
{
	memset(&w, 0, sizeof(w));
	memset(wtasks, 0, sizeof(wtasks[0]) * (size_t)(max_task + 1));
	max_task = 0;
	trail[0] = '\0';
	w.opt = *opt;
	w.now = 1000;
	w.n_queues = queues;
	w.n_workers = workers;
	w.n_waits = waits;
	ck_assert_int_eq(queues_new(opt, &w.q), 0);
	for (int i = 0; i < workers; i++)
		start(i, 0);
}

static void world_end(void)
{
	forget_machine();
	journal_free();
}
