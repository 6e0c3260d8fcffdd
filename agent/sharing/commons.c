/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/commons.h"
#include "common/base/array.h"
#include "common/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- who --- */

int commons_count(const struct commons *c)
{
	return c->owner.count(c->owner.arg);
}

struct worker *commons_at(const struct commons *c, int place)
{
	return c->owner.at(c->owner.arg, place);
}

struct commons_state commons_state(const struct commons *c)
{
	return c->owner.state(c->owner.arg);
}

struct worker *commons_worker(const struct commons *c, int slot)
{
	struct commons_slot *s = &c->slots[slot];
	int n = commons_count(c);

	if (s->place < n && commons_at(c, s->place)->slot == slot)
		return commons_at(c, s->place);
	for (int i = 0; i < n; i++)
		if (commons_at(c, i)->slot == slot) {
			s->place = i;
			return commons_at(c, i);
		}
	return NULL;
}

const char *commons_slot_name(void *arg, int slot)
{
	const struct commons *c = arg;

	return slot >= 0 && slot < c->n_slots && c->slots[slot].name ? c->slots[slot].name : "?";
}

/* So that each next index of a role comes behind the ones before it. */
static int compare_names(const char *a, const char *b)
{
	size_t x = strlen(a), y = strlen(b);

	return x == y ? strcmp(a, b) : x < y ? -1 : 1;
}

/* The position in by_name where the slot of that name is, or would be. */
static int name_position(const struct commons *c, const char *name)
{
	int low = 0, high = c->n_named;

	while (low < high) {
		int middle = low + (high - low) / 2;

		if (compare_names(c->slots[c->by_name[middle]].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int commons_slot_named(const struct commons *c, const char *name)
{
	int at = name_position(c, name), slot = at < c->n_named ? c->by_name[at] : -1;

	if (slot < 0 || strcmp(c->slots[slot].name, name) != 0)
		return -1;
	return commons_worker(c, slot) ? slot : -1;
}

static int name_slot(struct commons *c, int slot, const struct worker *w)
{
	struct commons_slot *s = &c->slots[slot];
	size_t n = (size_t)c->n_named;
	int *grown = reallocarray(c->by_name, n + 1, sizeof(*grown)), at;

	if (!grown)
		return -ENOMEM;
	c->by_name = grown;
	if (asprintf(&s->name, "%s:%d", w->role->name, w->index) < 0) {
		s->name = NULL;
		return -ENOMEM;
	}
	at = name_position(c, s->name);
	memmove(grown + at + 1, grown + at, (n - (size_t)at) * sizeof(*grown));
	grown[at] = slot;
	c->n_named++;
	return 0;
}

bool commons_is_default(const struct worker *w)
{
	return !w->role->evaluator && !w->extra;
}

int commons_give_slot(struct commons *c, const struct worker *w)
{
	struct commons_slot *grown, *s;

	if (w->slot < 0 || w->slot >= COMMONS_SLOTS)
		return -ENOSPC;
	if (w->slot >= c->n_slots) {
		grown = array_grow(
			c->slots, (size_t)c->n_slots, (size_t)w->slot + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		c->slots = grown;
		c->n_slots = w->slot + 1;
	}
	s = &c->slots[w->slot];
	if (!s->name && name_slot(c, w->slot, w) < 0)
		return -ENOMEM;
	s->place = w->place;
	s->rank = w->rank;
	return 0;
}

bool commons_has_slot(const struct commons *c, const struct worker *w)
{
	return w->slot >= 0 && w->slot < c->n_slots && c->slots[w->slot].name;
}

/* --- life --- */

static void on_group_error(void *arg, const struct members_error *error)
{
	struct commons *c = arg;
	const char *name = commons_slot_name(c, error->slot);

	log_debug("the group has an error: %s: %s", name, error->message);
	commons_event(c, "error", error->slot, error, error->message);
}

static int open_store(struct commons *c)
{
	struct members_options m = {
		.answer = commons_members_answer,
		.error = on_group_error,
		.name = commons_slot_name,
		.arg = c,
	};
	int r = store_new(c->loop, COMMONS_STORE_BYTES, &c->store);

	if (r == 0)
		r = kv_new(c->loop, c->store, &c->kv);
	if (r == 0)
		r = barriers_new(commons_barrier_answer, commons_slot_name, c, &c->barriers);
	if (r == 0)
		barriers_on_over(c->barriers, commons_barrier_over);
	if (r == 0)
		r = members_new(&m, &c->members);
	if (r == 0)
		kv_on_wait(c->kv, commons_lost_check, c);
	if (r == 0)
		r = loop_timer_new(c->loop, commons_deadlines, c, &c->timer);
	return r;
}

int commons_new(const struct commons_options *opt, struct commons **ret)
{
	struct commons *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->loop = opt->loop;
	c->spec = opt->spec;
	c->run = opt->run;
	c->reply_bytes = opt->reply_bytes;
	c->owner = opt->owner;
	r = open_store(c);
	if (r < 0) {
		commons_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

static void slot_fini(struct commons_slot *s)
{
	free(s->name);
	free(s->result);
	free(s->error_code);
	free(s->error_message);
}

struct commons *commons_free(struct commons *c)
{
	if (!c)
		return NULL;
	commons_watches_free(c);
	commons_lost_clear(c);
	commons_streams_free(c);
	loop_cancel(c->loop, commons_deadlines, c);
	members_free(c->members);
	barriers_free(c->barriers);
	kv_free(c->kv);
	store_free(c->store);
	loop_timer_free(c->timer);
	for (int i = 0; i < c->n_slots; i++)
		slot_fini(&c->slots[i]);
	free(c->slots);
	free(c->by_name);
	free(c->why);
	free(c);
	return NULL;
}

void commons_error_changed(struct commons *c)
{
	bool up = members_reported_error(c->members) != NULL;

	if (!up && !c->error_up)
		return;
	c->error_up = up;
	c->owner.error_changed(c->owner.arg, up);
}

/* --- what becomes of workers --- */

void commons_begin(struct commons *c)
{
	int attempt = c->owner.attempt(c->owner.arg);

	c->stopping = false;
	free(c->why);
	c->why = NULL;
	commons_results_clear(c);
	commons_lost_clear(c);
	commons_watches_end(c);
	kv_begin(c->kv, attempt);
	barriers_reset(c->barriers);
	members_reset(c->members);
	commons_error_changed(c);
}

void commons_worker_starting(struct commons *c, const struct worker *w)
{
	commons_result_clear(c, w->slot);
}

void commons_worker_started(struct commons *c, const struct worker *w)
{
	const char *name = c->slots[w->slot].name;
	char text[128];

	barriers_worker_started(c->barriers, w->slot);
	if (members_started(
		    c->members, w->slot, w->role->recoverable, w->role->evaluator || w->extra) < 0)
		log_error("%s: out of memory: the group does not count it as a member", name);
	commons_error_changed(c);
	snprintf(text, sizeof(text), "%.80s has started", name);
	commons_event(c, "joined", w->slot, NULL, text);
}

void commons_worker_ended(struct commons *c, const struct worker *w, bool may_restart)
{
	bool bad = w->state == WORKER_FAILED;
	char text[512];

	/* Its arrivals end with the process, even if the worker is started again. */
	barriers_worker_ended(
		c->barriers, w->slot, bad || w->state == WORKER_WAITING, may_restart, w->exit.text);
	members_ended(c->members, w->slot, bad, w->exit.text, w->ended_us);
	commons_error_changed(c);
	if (bad && !members_left(c->members, w->slot))
		commons_lost(c, w, w->exit.text);
	commons_lost_check(c);
	snprintf(text, sizeof(text), "%.80s has ended: %s", c->slots[w->slot].name, w->exit.text);
	commons_event(c, "gone", w->slot, NULL, text);
}

void commons_worker_stopped(struct commons *c, const struct worker *w)
{
	barriers_worker_stopped(c->barriers, w->slot);
}

void commons_worker_over(struct commons *c, const struct worker *w)
{
	const char *why = w->exit.ended ? w->exit.text : "it is not started";

	barriers_worker_ended(c->barriers, w->slot, true, false, why);
	if (!w->on_purpose)
		commons_lost(c, w, why);
}

void commons_stop(struct commons *c, const char *why)
{
	char text[800];

	if (c->stopping)
		return;
	c->stopping = true;
	snprintf(text, sizeof(text), "the group is being stopped%s%s", why && *why ? ": " : "",
		why ? why : "");
	free(c->why);
	c->why = strdup(text);
	commons_event(c, "stopping", -1, NULL, text);
	commons_watches_end(c);
	kv_stop(c->kv, STATUS_CANCELLED, text);
	barriers_stop(c->barriers, STATUS_CANCELLED, text);
	members_stop(c->members, STATUS_CANCELLED, text);
}
