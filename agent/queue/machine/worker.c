// SPDX-License-Identifier: Apache-2.0
/*
 * Workers, and what each gets. A worker does its chores before tasks: init, resources, calls. It
 * gets a chore only when it holds nothing, and nothing else until the chore is done. Without chores
 * it takes the first task that it can do, or waits among the idle ones.
 */
#include "agent/queue/machine/private.h"
#include "common/base/array.h"

struct queue_worker *queue_worker_find(const struct queues *q, int worker)
{
	return worker >= 0 && (size_t)worker < q->n_workers ? q->workers[worker] : NULL;
}

bool queue_worker_has_lease(const struct queues *q, int worker)
{
	const struct queue_worker *k = queue_worker_find(q, worker);

	return k && k->n_leases;
}

const char *queue_worker_text(const struct queues *q, int worker, char *buf, size_t size)
{
	const struct queue_worker *k = queue_worker_find(q, worker);

	if (k && k->name)
		return k->name;
	snprintf(buf, size, "worker %d", worker);
	return buf;
}

static struct queue_worker *worker_get(struct queues *q, int worker)
{
	struct queue_worker *k = queue_worker_find(q, worker);
	size_t n = (size_t)worker + 1;

	if (k || worker < 0 || worker >= QUEUE_WORKERS_MAX)
		return k;
	if (n > q->n_workers) {
		void *p = array_grow(q->workers, q->n_workers, n, sizeof(struct queue_worker *));

		if (!p)
			return NULL;
		q->workers = p;
		q->n_workers = n;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->number = worker;
	link_init(&k->leases);
	link_init(&k->waits);
	link_init(&k->calls);
	q->workers[worker] = k;
	return k;
}

int queue_worker_name(struct queues *q, int worker, const char *name)
{
	struct queue_worker *k = worker_get(q, worker);
	char *copy = strdup(name);

	if (!k || !copy) {
		free(copy);
		return -ENOMEM;
	}
	free(k->name);
	k->name = copy;
	return 0;
}

/* The process is gone, and the resources that it built with it. */
static void worker_forget_built(struct queue_worker *k)
{
	k->ready = k->building = k->failed = 0;
	for (int i = 0; k->errors && i < QUEUE_RESOURCES_MAX; i++) {
		queue_err_unref(k->errors[i]);
		k->errors[i] = NULL;
	}
	free(k->init);
	k->init = NULL;
	k->init_state = QUEUE_INIT_NONE;
}

void queue_workers_fini(struct queues *q)
{
	for (size_t i = 0; i < q->n_workers; i++) {
		struct queue_worker *k = q->workers[i];

		if (!k)
			continue;
		worker_forget_built(k);
		free(k->errors);
		free(k->dropped);
		free(k->name);
		free(k);
	}
	free(q->workers);
}

/* --- giving out work */

static void wait_set_idle(struct queues *q, struct queue_wait *w, bool is)
{
	if (w->any == is)
		return;
	w->any = is;
	q->n_free += is ? 1 : -(size_t)1;
	if (is)
		link_add(&q->idle, &w->over);
	else
		link_del(&w->over);
}

void queue_work_unpark(struct queues *q, struct queue_wait *w)
{
	struct queue_worker *k = w->of;

	if (!k)
		return;
	k->n_waits--;
	wait_set_idle(q, w, false);
	queue_lease_free(q, w->more);
	w->more = NULL;
}

static void give_task(struct queues *q, struct queue_wait *w, struct queue_task *t, uint64_t now_ms)
{
	struct queue_worker *k = w->of;
	struct queue_lease *l = w->more;
	int64_t limit = queue_task_limit(t);

	queue_task_dequeue(q, t);
	queue_task_state(q, t, QUEUE_RUNNING);
	if (q->n[QUEUE_RUNNING] == 1)
		q->quiet_ms = now_ms;
	t->lease = l;
	t->tries += t->tries < UINT32_MAX;
	t->worker = (uint16_t)k->number;
	l->task = t;
	l->set = queue_lane_of(q, t)->set;
	link_add(&queue_lane_of(q, t)->of->leases, &l->by_queue);
	queue_lease_begin(q, l, QUEUE_ITEM_TASK, w, now_ms);
	if (limit >= 0)
		queue_heap_set(&q->lease_deadlines, &l->deadline, now_ms + (uint64_t)limit);
}

static bool can_do(const struct queue_worker *k, const struct queue_set *s)
{
	return !(s->mask & ~k->ready);
}

bool queue_match_task(struct queues *q, struct queue_task *t, uint64_t now_ms)
{
	const struct queue_set *s = queue_lane_of(q, t)->set;
	struct queue_link *l, *tmp;

	LINK_FOREACH(l, tmp, &q->idle)
	{
		struct queue_wait *w = container_of(l, struct queue_wait, over);

		if (can_do(w->of, s)) {
			give_task(q, w, t, now_ms);
			return true;
		}
	}
	return false;
}

static bool take_task(
	struct queues *q, struct queue_worker *k, struct queue_wait *w, uint64_t now_ms)
{
	struct queue_task *best = NULL;

	for (const struct queue_set *s = q->sets; s; s = s->next)
		if (queue_set_first(s) && can_do(k, s)) {
			struct queue_task *t = queue_set_first(s);

			best = best && best->seq < t->seq ? best : t;
		}
	if (best)
		give_task(q, w, best, now_ms);
	return best != NULL;
}

static struct queue_member *next_call(const struct queue_worker *k)
{
	struct queue_member *m = LINK_FIRST(&k->calls, struct queue_member, link);

	return m && !m->lease ? m : NULL;
}

static void give_chore(
	struct queues *q, struct queue_worker *k, struct queue_wait *w, uint64_t now_ms)
{
	struct queue_resource *r = queue_to_build(q, k);
	struct queue_member *m = next_call(k);
	struct queue_lease *l = w->more;

	if (k->init_state == QUEUE_INIT_DUE) {
		k->init_state = QUEUE_INIT_RUNS;
		queue_lease_begin(q, l, QUEUE_ITEM_INIT, w, now_ms);
	} else if (k->init_state != QUEUE_INIT_NONE || k->building) {
		return;
	} else if (r) {
		k->building |= UINT64_C(1) << r->bit;
		l->resource = r;
		r->refs++;
		queue_lease_begin(q, l, QUEUE_ITEM_BUILD, w, now_ms);
	} else if (m) {
		l->member = m;
		l->call = m->call;
		l->call->refs++;
		m->lease = l;
		queue_lease_begin(q, l, QUEUE_ITEM_CALL, w, now_ms);
		queue_heap_set(&q->lease_deadlines, &l->deadline,
			m->call->answer_ms > UINT64_MAX - now_ms - 1 ? UINT64_MAX
								     : now_ms + m->call->answer_ms);
	}
}

/* The chore may be one whose call is over. */
static bool is_at_chore(const struct queue_worker *k)
{
	const struct queue_lease *l = LINK_FIRST(&k->leases, struct queue_lease, by_worker);

	return l && l->kind != QUEUE_ITEM_TASK;
}

static bool has_chores(const struct queues *q, const struct queue_worker *k)
{
	return is_at_chore(k) || k->init_state != QUEUE_INIT_NONE || k->building ||
	       !link_empty(&k->calls) || queue_to_build(q, k);
}

void queue_worker_feed(struct queues *q, struct queue_worker *k, uint64_t now_ms)
{
	struct queue_wait *w = LINK_FIRST(&k->waits, struct queue_wait, link);
	struct queue_link *l, *tmp;
	bool chores = has_chores(q, k);

	if (w && chores && !k->n_leases)
		give_chore(q, k, w, now_ms);
	LINK_FOREACH(l, tmp, &k->waits)
	{
		w = container_of(l, struct queue_wait, link);
		if (chores)
			wait_set_idle(q, w, false);
		else if (!w->any && !take_task(q, k, w, now_ms))
			wait_set_idle(q, w, true);
	}
}

/* --- the steps */

static bool work_refused(struct queues *q, struct queue_wait *w, int worker)
{
	struct queue_worker *k = worker_get(q, worker);

	if (!k) {
		bool wrong = worker < 0 || worker >= QUEUE_WORKERS_MAX;

		queue_wait_end_text(q, w,
			wrong ? STATUS_INVALID_ARGUMENT : STATUS_RESOURCE_EXHAUSTED,
			wrong ? "worker: expected a number below 65535" : "no memory");
	} else if (!k->alive && k->known) {
		queue_wait_end_text(q, w, STATUS_CANCELLED, "its process is gone");
	} else if (q->opt.slots > 0 && k->n_leases + k->n_waits >= (size_t)q->opt.slots) {
		queue_wait_end(q, w,
			queue_err_printf(STATUS_RESOURCE_EXHAUSTED, -1, -1,
				"the worker has all of its %d slots (queue.slots)", q->opt.slots));
	}
	return w->is_over;
}

void queue_work(struct queues *q, struct queue_wait *w, int worker, void *holder,
	uint64_t deadline_ms, uint64_t now_ms)
{
	struct queue_worker *k;
	struct queue_lease *l;

	if (!queue_wait_begin(q, w, QUEUE_WAIT_WORK) || work_refused(q, w, worker))
		return;
	k = queue_worker_find(q, worker);
	l = queue_lease_new(q);
	if (!l) {
		queue_wait_end_text(q, w, STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	k->alive = true;
	if (!k->asked) {
		k->asked = k->takes = true;
		q->n_asked++;
		queue_fail_hopeless(q, now_ms);
	}
	l->holder = holder;
	w->more = l;
	w->of = k;
	link_add(&k->waits, &w->link);
	k->n_waits++;
	queue_calls_begin(q, now_ms);
	queue_worker_feed(q, k, now_ms);
	queue_settle(q, now_ms);
	queue_wait_park(q, w, deadline_ms, now_ms);
}

int queue_worker_started(struct queues *q, int worker, int start, const struct queue_bytes *init,
	bool serves, uint64_t now_ms)
{
	struct queue_worker *k = worker_get(q, worker);
	struct queue_blob *b = NULL;

	if (!k)
		return worker < 0 || worker >= QUEUE_WORKERS_MAX ? -EINVAL : -ENOMEM;
	if (init) {
		b = queue_blob_new(init);
		if (!b)
			return -ENOMEM;
	}
	if (k->alive)
		queue_worker_gone(q, worker, "was started again", true, true, now_ms);
	k->alive = k->known = true;
	k->asked = k->again = false;
	k->serves = serves;
	k->takes |= serves;
	k->start = start;
	k->init = b;
	k->init_state = b ? QUEUE_INIT_DUE : QUEUE_INIT_NONE;
	queue_calls_begin(q, now_ms);
	queue_fail_hopeless(q, now_ms);
	queue_settle(q, now_ms);
	return 0;
}

static void gone_leases(
	struct queues *q, struct queue_worker *k, const char *why, bool on_purpose, uint64_t now_ms)
{
	struct queue_lease *l;

	while ((l = LINK_FIRST(&k->leases, struct queue_lease, by_worker))) {
		struct queue_task *t = l->task;

		if (t && !l->cancelled) {
			if (!on_purpose)
				queue_died_with(k, t);
			if (!queue_deaths_reached(q, t))
				queue_event_put_back(q, k, (int64_t)t->id, why);
		}
		queue_lease_lost(q, l, now_ms);
	}
}

static void gone_calls(struct queues *q, struct queue_worker *k, const char *why)
{
	struct queue_member *m;
	char buf[32];

	while ((m = LINK_FIRST(&k->calls, struct queue_member, link)))
		queue_member_answer(q, m, NULL,
			queue_err_printf(STATUS_UNAVAILABLE, k->number, -1, "%s %s",
				queue_worker_text(q, k->number, buf, sizeof(buf)), why));
}

void queue_worker_gone(
	struct queues *q, int worker, const char *why, bool on_purpose, bool again, uint64_t now_ms)
{
	struct queue_worker *k = queue_worker_find(q, worker);
	struct queue_wait *w;

	if (!k)
		return;
	k->again = again;
	if (k->alive) {
		k->alive = false;
		q->n_asked -= k->asked;
		if (k->serves || k->asked)
			queue_pool_break(q, worker, why);
		k->asked = false;
		while ((w = LINK_FIRST(&k->waits, struct queue_wait, link)))
			queue_wait_end_text(q, w, STATUS_CANCELLED, "its process is gone");
		queue_drops_end(q, k, why, on_purpose, now_ms);
		gone_leases(q, k, why, on_purpose, now_ms);
		gone_calls(q, k, why);
		link_del(&k->kills);
		worker_forget_built(k);
	}
	queue_fail_hopeless(q, now_ms);
	queue_settle(q, now_ms);
}

void queue_worker_calls(struct queues *q, int worker, uint64_t now_ms)
{
	struct queue_worker *k = queue_worker_find(q, worker);

	if (!k || k->asked || !k->serves)
		return;
	k->serves = k->takes = false;
	queue_fail_hopeless(q, now_ms);
	queue_settle(q, now_ms);
}

void queue_whole(struct queues *q, uint64_t now_ms)
{
	q->whole = true;
	queue_pool_mend(q, now_ms);
	queue_settle(q, now_ms);
}

/* --- tasks that no worker can do */

/* True when some worker may still build the whole set. */
static bool set_can_be_built(const struct queues *q, const struct queue_set *s)
{
	bool any = false;

	for (size_t i = 0; i < q->n_workers; i++) {
		const struct queue_worker *k = q->workers[i];

		if (!k || !k->takes)
			continue;
		if (k->alive ? !(k->failed & s->mask) : k->again)
			return true;
		any |= k->alive;
	}
	return !any;
}

/* "needs resource R, which worker:0 could not build: why" */
static struct queue_err *hopeless_err(
	const struct queues *q, const struct queue_set *s, const struct queue_task *t)
{
	char buf[32];

	for (size_t i = 0; i < q->n_workers; i++) {
		const struct queue_worker *k = q->workers[i];

		for (size_t j = 0; k && k->alive && j < s->n; j++) {
			int bit = s->needs[j]->bit;

			if (bit < 0 || !(k->failed >> bit & 1))
				continue;
			return queue_err_printf(STATUS_FAILED_PRECONDITION, k->number,
				(int64_t)t->id, "needs resource %s, which %s could not build: %s",
				s->names[j], queue_worker_text(q, k->number, buf, sizeof(buf)),
				k->errors && k->errors[bit] ? k->errors[bit]->message : "");
		}
	}
	return NULL;
}

void queue_fail_hopeless(struct queues *q, uint64_t now_ms)
{
	struct queue_set *s;

	q->hopeless_due = false;
	for (s = q->sets; s; s = s->next)
		s->hopeless = s->mask && !set_can_be_built(q, s);
	s = q->sets;
	while (s) {
		struct queue_task *t = queue_set_first(s);

		if (!s->hopeless || !t) {
			s = s->next;
			continue;
		}
		queue_task_fail(q, t,
			queue_err_sure(STATUS_FAILED_PRECONDITION, hopeless_err(q, s, t)), now_ms);
		s = q->sets; /* the set may be gone with its last task */
	}
}
