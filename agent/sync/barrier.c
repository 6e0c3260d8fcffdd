/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step first makes all its changes and puts the waits that it decides into a queue; then the
 * outermost step answers those in the queue. So a callback finds a consistent state, whatever it
 * calls, and a wait can be dropped until the moment of its answer.
 */
#include "agent/sync/barrier_private.h"

#include <errno.h>
#include <string.h>

static char barrier_ended_unknown[] = "ended";
char barrier_ended_stopped[] = "was stopped by an operator";

/* The text to show for why, which may be NULL or "". */
static const char *barrier_why(const char *why, const char *otherwise)
{
	return why && *why ? why : otherwise;
}

int barriers_new(barrier_answer_fn answer, slots_name_fn name, void *arg, struct barriers **ret)
{
	struct barriers *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->answer = answer;
	b->name = name;
	b->arg = arg;
	b->deadline_ms = UINT64_MAX;
	b->deadline_known = true;
	for (int i = 0; i < BARRIER_N_LISTS; i++)
		TAILQ_INIT(&b->lists[i]);
	TAILQ_INIT(&b->ready);
	*ret = b;
	return 0;
}

static struct barrier_wait *barrier_wait_find(const struct barriers *b, const void *token)
{
	struct chain_node *n = chain_first(&b->waits, chain_hash_pointer(token));

	while (n && ((struct barrier_wait *)n)->token != token)
		n = chain_next(n);
	return (struct barrier_wait *)n;
}

/* Answers the waits in the queue. */
static void barriers_drain(struct barriers *b)
{
	struct barrier_wait *w;

	if (b->draining)
		return;
	b->draining = true;
	while ((w = TAILQ_FIRST(&b->ready))) {
		struct barrier_answer own = { .status = w->status, .generation = w->generation };
		struct barrier_use *use = w->use;
		void *token = w->token;

		if (!use)
			slots_append(own.message, sizeof(own.message), w->text);
		TAILQ_REMOVE(&b->ready, w, link);
		chain_remove(&b->waits, &w->node);
		free(w);
		b->answer(b->arg, token, use ? &use->answer : &own);
		if (use)
			barrier_use_unref(b, use);
	}
	b->draining = false;
}

/* Gives w, which no place refers to, the answer of use. */
static void barrier_ready(struct barriers *b, struct barrier_wait *w, struct barrier_use *use)
{
	w->ready = true;
	w->use = use;
	if (use)
		use->refs++;
	TAILQ_INSERT_TAIL(&b->ready, w, link);
}

/* Gives w an answer of its own. text must outlive the answer. */
static void barrier_ready_own(struct barriers *b, struct barrier_wait *w, enum status status,
	const char *text, int64_t generation)
{
	w->status = status;
	w->text = text;
	w->generation = generation;
	barrier_ready(b, w, NULL);
}

/* Takes the place's wait, or NULL. */
static struct barrier_wait *barrier_take_wait(struct barrier_place *p)
{
	struct barrier_wait *w = p->wait;

	p->wait = NULL;
	return w;
}

static void barrier_deadline_removed(struct barriers *b, const struct barrier_use *use)
{
	if (use->deadline_ms <= b->deadline_ms && use->deadline_ms != UINT64_MAX)
		b->deadline_known = false;
}

/* A member that has missed both gets only the newer failure. */
static void barrier_supersede(
	struct barriers *b, struct barrier_name *name, const struct barrier_use *newer)
{
	struct barrier_use *next;

	for (struct barrier_use *use = TAILQ_FIRST(&name->failed); use; use = next) {
		size_t i = 0, n = newer->n;

		next = TAILQ_NEXT(use, link);
		use->refs++;
		while (i < n && use->n_late)
			barrier_delivered(b, name, use, newer->places[i++].slot);
		barrier_use_unref(b, use);
	}
}

void barriers_on_over(struct barriers *b, barrier_over_fn over)
{
	b->over = over;
}

static void barrier_over(struct barriers *b, const struct barrier_name *name)
{
	const struct barrier_over over = { .name = name->text,
		.answer = &name->open->answer,
		.opened_ms = name->open->opened_ms,
		.use = name->open };

	if (b->over)
		b->over(b->arg, &over);
}

static int barrier_arrival_order(const void *a, const void *b)
{
	const struct barrier_arrival *x = a, *y = b;

	return (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
}

struct barrier_arrival *barrier_arrivals(const struct barrier_over *over, size_t *ret_n)
{
	const struct barrier_use *use = over->use;
	struct barrier_arrival *all = calloc(use->n + 1, sizeof(*all));
	size_t n = 0;

	if (!all)
		return NULL;
	for (size_t i = 0; i < use->n; i++)
		if (use->places[i].after_ms != BARRIER_NEVER)
			all[n++] = (struct barrier_arrival){ use->places[i].slot,
				use->opened_ms + use->places[i].after_ms };
	qsort(all, n, sizeof(*all), barrier_arrival_order);
	*ret_n = n;
	return all;
}

/* Closes the open use of name; its answer is complete except for the generation. */
static void barrier_decide(struct barriers *b, struct barrier_name *name, enum status status)
{
	struct barrier_use *use = name->open;

	use->answer.status = status;
	use->answer.generation = name->uses++;
	use->answer.missing = use->missing;
	barrier_over(b, name);
	name->open = NULL;
	barrier_deadline_removed(b, use);
	for (size_t i = 0; i < use->n; i++) {
		struct barrier_place *p = &use->places[i];
		struct barrier_wait *w = barrier_take_wait(p);

		if (w)
			barrier_ready(b, w, use);
		if (!p->arrived && b->ended[p->slot])
			p->arrived = true; /* it has ended and will not call */
		if (!p->arrived)
			use->n_late++;
	}
	barrier_supersede(b, name, use);
	if (use->n_late > 0)
		TAILQ_INSERT_TAIL(&name->failed, use, link);
	else
		barrier_use_unref(b, use);
	barrier_name_touch(b, name);
}

static bool barrier_is_overdue(const struct barrier_use *use, uint64_t now_ms)
{
	return use->deadline_ms <= now_ms && use->deadline_ms != UINT64_MAX;
}

static void barrier_overdue(struct barriers *b, struct barrier_name *name)
{
	barrier_text_missing(b, name->open, name->text, NULL);
	barrier_decide(b, name, STATUS_DEADLINE_EXCEEDED);
}

/* Frees all names and gives all waits this answer. */
static void barriers_clear(struct barriers *b, enum status status, const char *text)
{
	struct barrier_name *name;

	for (int i = 0; i < BARRIER_N_LISTS; i++) {
		while ((name = TAILQ_FIRST(&b->lists[i]))) {
			if (name->open) {
				barrier_text_missing(b, name->open, name->text, text);
				barrier_decide(b, name, status);
			}
			barrier_name_forget(b, name);
		}
	}
}

static void barrier_ended_clear(struct barriers *b, int slot)
{
	if (!b->ended[slot])
		return;
	if (b->ended[slot] != barrier_ended_unknown && b->ended[slot] != barrier_ended_stopped)
		free(b->ended[slot]);
	b->ended[slot] = NULL;
	b->n_ended--;
}

struct barriers *barriers_free(struct barriers *b)
{
	struct barrier_wait *w;

	if (!b)
		return NULL;
	b->over = NULL;
	barriers_clear(b, STATUS_CANCELLED, "");
	while ((w = TAILQ_FIRST(&b->ready))) {
		TAILQ_REMOVE(&b->ready, w, link);
		if (w->use)
			barrier_use_unref(b, w->use);
		free(w);
	}
	for (int i = 0; i < BARRIER_SLOTS && b->n_ended; i++)
		barrier_ended_clear(b, i);
	chain_fini(&b->names);
	chain_fini(&b->waits);
	free(b);
	return NULL;
}

void barriers_reset(struct barriers *b)
{
	barriers_clear(b, STATUS_CANCELLED, "another attempt of the group begins");
	for (int i = 0; i < BARRIER_SLOTS && b->n_ended; i++)
		barrier_ended_clear(b, i);
	b->stopped = false;
	barriers_drain(b);
}

void barriers_stop(struct barriers *b, enum status status, const char *message)
{
	b->stopped = true;
	b->stop_status = status;
	b->stop_text[0] = '\0';
	slots_append(b->stop_text, sizeof(b->stop_text), message);
	barriers_clear(b, status, b->stop_text);
	barriers_drain(b);
}

/* The members of an arrival. */
struct barrier_members {
	struct slot_set set;
	bool by_default; /* the caller gave no list: these are the default members */
};

static bool barrier_set_valid(const struct slot_set *s)
{
	return s->n == 0 || (s->slots[0] >= 0 && s->slots[s->n - 1] < BARRIER_SLOTS);
}

static bool barrier_set_same(const struct slot_set *s, const struct barrier_use *use)
{
	if (s->n != use->n)
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->slots[i] != use->places[i].slot)
			return false;
	return true;
}

static bool barrier_any_ended(const struct barriers *b, const struct barrier_use *use)
{
	if (b->n_ended == 0)
		return false;
	for (size_t i = 0; i < use->n; i++)
		if (b->ended[use->places[i].slot])
			return true;
	return false;
}

/* Decides the open use of name as failed by a wrong call of slot, and answers w with it. */
static void barrier_fail_wrong_call(
	struct barriers *b, struct barrier_name *name, int slot, struct barrier_wait *w)
{
	struct barrier_use *use = name->open;
	struct barrier_place *p = barrier_place(use, slot);

	if (p)
		p->arrived = true;
	barrier_ready(b, w, use);
	barrier_decide(b, name, STATUS_INVALID_ARGUMENT);
}

/* Makes w the wait at slot's place. */
static void barrier_enter(struct barriers *b, struct barrier_name *name, int slot, uint64_t now_ms,
	struct barrier_wait *w)
{
	struct barrier_use *use = name->open;
	struct barrier_place *p = barrier_place(use, slot);
	struct barrier_wait *older = barrier_take_wait(p);

	if (older)
		barrier_ready_own(b, older, STATUS_CANCELLED,
			"the same worker arrived at the barrier again", name->uses);
	if (!p->arrived) {
		uint64_t after = now_ms - use->opened_ms;

		use->n_arrived++;
		p->after_ms = after < BARRIER_NEVER ? (uint32_t)after : BARRIER_NEVER - 1;
	}
	p->arrived = true;
	p->wait = w;
	w->use = use;
	w->place = (size_t)(p - use->places);
}

/* Decides the use if it is complete, overdue, or cannot be completed. opened: this arrival was the
 * first, so members that ended earlier fail it. */
static void barrier_settle(
	struct barriers *b, struct barrier_name *name, bool opened, uint64_t now_ms)
{
	struct barrier_use *use = name->open;

	if (opened && barrier_any_ended(b, use)) {
		barrier_decide(b, name, barrier_text_ended(b, use, name->text, -1, NULL));
	} else if (use->n_arrived == use->n) {
		barrier_decide(b, name, STATUS_OK);
	} else if (barrier_is_overdue(use, now_ms)) {
		barrier_overdue(b, name);
	}
}

/* Opens a use for its first arrival. 0, -ENOMEM, -ENOSPC. */
static int barrier_open(struct barriers *b, const char *text, int slot,
	const struct barrier_members *members, uint64_t deadline_ms, uint64_t now_ms,
	struct barrier_name **ret)
{
	struct barrier_name *name;
	struct barrier_use *use;
	int r = barrier_use_new(b, members->set.slots, members->set.n, &use);

	if (r < 0)
		return r;
	name = barrier_name_find(b, text); /* barrier_use_new() may have forgotten it */
	if (!name) {
		r = barrier_name_add(b, text, &name);
		if (r < 0) {
			barrier_use_unref(b, use);
			return r;
		}
	}
	use->first = slot;
	use->by_default = members->by_default;
	use->opened_ms = now_ms;
	use->deadline_ms = deadline_ms;
	name->open = use;
	barrier_name_touch(b, name);
	if (deadline_ms < b->deadline_ms)
		b->deadline_ms = deadline_ms;
	*ret = name;
	return 0;
}

/* The failed use that slot has not got, or NULL. */
static struct barrier_use *barrier_missed(struct barrier_name *name, int slot)
{
	struct barrier_use *use;

	TAILQ_FOREACH (use, &name->failed, link) {
		struct barrier_place *p = barrier_place(use, slot);

		if (p && !p->arrived)
			return use;
	}
	return NULL;
}

/* Answers a call that is wrong in itself, whatever the barrier. Returns true when it was. */
static bool barrier_call_invalid(struct barriers *b, const char *text,
	const struct barrier_members *members, int slot, struct barrier_wait *w)
{
	size_t len = strlen(text);

	if (b->stopped)
		barrier_ready_own(b, w, b->stop_status, b->stop_text, 0);
	else if (len == 0 || len > BARRIER_NAME_MAX)
		barrier_ready_own(
			b, w, STATUS_INVALID_ARGUMENT, "a barrier's name has 1 to 256 bytes", 0);
	else if (!barrier_set_valid(&members->set) || slot < 0 || slot >= BARRIER_SLOTS)
		barrier_ready_own(
			b, w, STATUS_INVALID_ARGUMENT, "a member of the barrier does not exist", 0);
	else
		return false;
	return true;
}

/* Joins slot to the open use of name. opened: by this arrival. */
static void barrier_join(struct barriers *b, struct barrier_name *name, int slot,
	const struct barrier_members *members, bool opened, uint64_t now_ms, struct barrier_wait *w)
{
	bool agreed = members->by_default && name->open->by_default;

	if (agreed && !opened && !barrier_place(name->open, slot)) {
		barrier_ready_own(b, w, STATUS_INVALID_ARGUMENT,
			"this worker was not a default member when the barrier began; pass members "
			"explicitly",
			name->uses);
	} else if (!slot_set_has(&members->set, slot)) {
		barrier_text_stranger(b, name->open, name->text, slot);
		barrier_fail_wrong_call(b, name, slot, w);
	} else if (!agreed && !barrier_set_same(&members->set, name->open)) {
		barrier_text_differs(b, name->open, name->text, slot, &members->set);
		barrier_fail_wrong_call(b, name, slot, w);
	} else {
		barrier_enter(b, name, slot, now_ms, w);
		barrier_settle(b, name, opened, now_ms);
	}
}

static int barrier_arrive(struct barriers *b, const char *text, int slot,
	const struct barrier_members *members, uint64_t deadline_ms, uint64_t now_ms,
	struct barrier_wait *w)
{
	struct barrier_name *name = barrier_name_find(b, text);
	struct barrier_use *missed;
	bool opened = false;
	int r;

	if (name && name->open && barrier_is_overdue(name->open, now_ms))
		barrier_overdue(b, name);
	missed = name ? barrier_missed(name, slot) : NULL;
	if (missed) {
		barrier_ready(b, w, missed);
		barrier_delivered(b, name, missed, slot);
		barrier_name_touch(b, name);
		return 0;
	}
	if (!name || !name->open) {
		r = barrier_open(b, text, slot, members, deadline_ms, now_ms, &name);
		if (r == -ENOSPC)
			barrier_ready_own(b, w, STATUS_RESOURCE_EXHAUSTED,
				"too many open barriers or members", 0);
		if (r < 0)
			return r == -ENOSPC ? 0 : r;
		opened = true;
	}
	barrier_join(b, name, slot, members, opened, now_ms, w);
	return 0;
}

static int barrier_new_arrival(struct barriers *b, const char *name, int slot,
	const struct barrier_members *members, uint64_t deadline_ms, uint64_t now_ms, void *token)
{
	struct barrier_wait *w;
	int r = chain_reserve(&b->waits);

	if (r < 0)
		return r;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->token = token;
	chain_put(&b->waits, &w->node, chain_hash_pointer(token));
	if (!barrier_call_invalid(b, name, members, slot, w))
		r = barrier_arrive(b, name, slot, members, deadline_ms, now_ms, w);
	if (r < 0) {
		chain_remove(&b->waits, &w->node);
		free(w);
	}
	barriers_drain(b);
	return r;
}

int barriers_arrive(struct barriers *b, const char *name, int slot, const int *members, size_t n,
	bool by_default, uint64_t deadline_ms, uint64_t now_ms, void *token)
{
	struct barrier_members m = { .by_default = by_default };
	int r = slot_set_init(&m.set, members, n);

	if (r == 0)
		r = barrier_new_arrival(b, name, slot, &m, deadline_ms, now_ms, token);
	slot_set_fini(&m.set);
	return r;
}

bool barriers_begun_default(const struct barriers *b, const char *name, uint64_t now_ms)
{
	const struct barrier_name *found = barrier_name_find(b, name);

	return found && found->open && found->open->by_default &&
	       !barrier_is_overdue(found->open, now_ms);
}

void barriers_forget(struct barriers *b, void *token)
{
	struct barrier_wait *w = barrier_wait_find(b, token);

	if (!w)
		return;
	if (w->ready) {
		TAILQ_REMOVE(&b->ready, w, link);
		if (w->use)
			barrier_use_unref(b, w->use);
	} else {
		w->use->places[w->place].wait = NULL;
	}
	chain_remove(&b->waits, &w->node);
	free(w);
}

int barriers_fail(
	struct barriers *b, const char *name, int slot, enum status status, const char *message)
{
	struct barrier_name *found = barrier_name_find(b, name);
	struct barrier_place *p;

	if (!found || !found->open)
		return -ENOENT;
	barrier_text_missing(b, found->open, found->text, barrier_why(message, "cancelled"));
	p = barrier_place(found->open, slot);
	if (p)
		p->arrived = true;
	barrier_decide(b, found, status);
	barriers_drain(b);
	return 0;
}

/* Applies slot's end to the open use of name. */
static void barrier_worker_ended(struct barriers *b, struct barrier_name *name, int slot, bool bad,
	bool recoverable, const char *why)
{
	struct barrier_use *use = name->open;
	struct barrier_place *p = barrier_place(use, slot);
	struct barrier_wait *w;

	if (!p || (p->arrived && !bad))
		return;
	if (!recoverable) {
		barrier_decide(b, name, barrier_text_ended(b, use, name->text, slot, why));
		return;
	}
	w = barrier_take_wait(p);
	if (w)
		barrier_ready_own(
			b, w, STATUS_CANCELLED, "the worker's process has ended", name->uses);
	if (p->arrived)
		use->n_arrived--;
	p->arrived = false;
	p->after_ms = BARRIER_NEVER;
}

void barriers_worker_ended(
	struct barriers *b, int slot, bool bad, bool recoverable, const char *why)
{
	struct barrier_name *next;

	if (slot < 0 || slot >= BARRIER_SLOTS)
		return;
	why = barrier_why(why, barrier_ended_unknown);
	if (!recoverable && !b->ended[slot]) {
		b->ended[slot] = why == barrier_ended_stopped ? barrier_ended_stopped : strdup(why);
		if (!b->ended[slot])
			b->ended[slot] = barrier_ended_unknown;
		b->n_ended++;
	}
	for (struct barrier_name *n = TAILQ_FIRST(&b->lists[BARRIER_OPEN]); n; n = next) {
		next = TAILQ_NEXT(n, link);
		barrier_worker_ended(b, n, slot, bad, recoverable, why);
	}
	barriers_drain(b);
}

void barriers_worker_stopped(struct barriers *b, int slot)
{
	barriers_worker_ended(b, slot, false, false, barrier_ended_stopped);
}

static void barrier_names_delivered(struct barriers *b, enum barrier_list list, int slot)
{
	struct barrier_name *next_name;
	struct barrier_use *next;

	for (struct barrier_name *n = TAILQ_FIRST(&b->lists[list]); n; n = next_name) {
		next_name = TAILQ_NEXT(n, link);
		for (struct barrier_use *use = TAILQ_FIRST(&n->failed); use; use = next) {
			next = TAILQ_NEXT(use, link);
			barrier_delivered(b, n, use, slot);
		}
		if (list == BARRIER_FAILED && TAILQ_EMPTY(&n->failed))
			barrier_name_touch(b, n);
	}
}

void barriers_worker_started(struct barriers *b, int slot)
{
	if (slot < 0 || slot >= BARRIER_SLOTS)
		return;
	barrier_ended_clear(b, slot);
	barrier_names_delivered(b, BARRIER_FAILED, slot);
	barrier_names_delivered(b, BARRIER_OPEN, slot);
}

/* Fails what is overdue, and finds the next deadline. */
static void barriers_scan(struct barriers *b, uint64_t now_ms)
{
	struct barrier_name *next;
	uint64_t deadline_ms = UINT64_MAX;

	for (struct barrier_name *n = TAILQ_FIRST(&b->lists[BARRIER_OPEN]); n; n = next) {
		next = TAILQ_NEXT(n, link);
		if (barrier_is_overdue(n->open, now_ms))
			barrier_overdue(b, n);
		else if (n->open->deadline_ms < deadline_ms)
			deadline_ms = n->open->deadline_ms;
	}
	b->deadline_ms = deadline_ms;
	b->deadline_known = true;
}

uint64_t barriers_expire(struct barriers *b, uint64_t now_ms)
{
	while (!b->deadline_known || (b->deadline_ms <= now_ms && b->deadline_ms != UINT64_MAX)) {
		barriers_scan(b, now_ms);
		barriers_drain(b);
	}
	return b->deadline_ms;
}
