/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each event changes the state and sets marks; preempt_next() takes the marks one after the other.
 * So only a worker's first start needs memory. A round begins with the value that makes all workers
 * ask (ANNOUNCE, or PUBLISH of INT64_MIN), goes by READ to the agreed step, and ends when all
 * living participants have saved. The state at the moment when preempt_next() takes a question
 * decides its answer.
 */
#include "agent/preempt/machine_private.h"

#include "agent/sync/slots_text.h"
#include "common/base/array.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct preempt *preempt_new(const struct spec_preemption *spec, uint64_t stop_ms)
{
	struct preempt *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->spec = spec;
	p->stop_ms = stop_ms;
	p->step = -1;
	p->deadline_ms = SPEC_UNSET;
	TAILQ_INIT(&p->questions);
	TAILQ_INIT(&p->due);
	return p;
}

struct preempt *preempt_free(struct preempt *p)
{
	if (!p)
		return NULL;
	for (int i = 0; i < p->n_workers; i++) {
		if (p->workers[i])
			free(p->workers[i]->name);
		free(p->workers[i]);
	}
	free(p->workers);
	free(p);
	return NULL;
}

struct preempt_worker *preempt_find(const struct preempt *p, int slot)
{
	return slot >= 0 && slot < p->n_workers ? p->workers[slot] : NULL;
}

/* The entry of slot, made if there is none; NULL without memory. */
static struct preempt_worker *preempt_worker(struct preempt *p, int slot)
{
	if (slot >= p->n_workers) {
		int n = slot + 1 > 2 * p->n_workers ? slot + 1 : 2 * p->n_workers;
		struct preempt_worker **workers =
			array_grow(p->workers, (size_t)p->n_workers, (size_t)n, sizeof(*workers));

		if (!workers)
			return NULL;
		p->workers = workers;
		p->n_workers = n;
	}
	if (!p->workers[slot]) {
		p->workers[slot] = calloc(1, sizeof(*p->workers[slot]));
		if (p->workers[slot])
			p->workers[slot]->slot = slot;
	}
	return p->workers[slot];
}

static void preempt_enter(struct preempt *p, struct preempt_worker *w)
{
	w->has_question = true;
	TAILQ_INSERT_TAIL(&p->questions, w, question_link);
}

void preempt_drop_question(struct preempt *p, int slot)
{
	struct preempt_worker *w = preempt_find(p, slot);

	if (!w || !w->has_question)
		return;
	w->has_question = false;
	TAILQ_REMOVE(&p->questions, w, question_link);
}

/* Forgets what w did during this notice. */
static void preempt_reset(struct preempt *p, struct preempt_worker *w)
{
	struct preempt_worker fresh = {
		.slot = w->slot, .name = w->name, .running = w->running, .counted = w->counted
	};

	preempt_drop_question(p, w->slot);
	if (w->due)
		TAILQ_REMOVE(&p->due, w, due_link);
	*w = fresh;
	w->saved_step = -1;
	preempt_count(p, w);
}

bool preempt_is_up(const struct preempt *p)
{
	return p->state != PREEMPT_NONE && p->state != PREEMPT_OVER;
}

int preempt_started(struct preempt *p, int slot, const char *name)
{
	struct preempt_worker *w;
	char *copy = strdup(name);

	assert(slot >= 0);
	w = copy ? preempt_worker(p, slot) : NULL;
	if (!w) {
		free(copy);
		return -ENOMEM;
	}
	free(w->name);
	w->name = copy;
	w->running = true;
	preempt_reset(p, w);
	if (preempt_is_up(p) && p->spec->how == SPEC_PREEMPT_SIGNAL)
		preempt_give_signal(p, w);
	else if (preempt_is_up(p))
		preempt_want_read(p);
	return 0;
}

static enum preempt_meaning preempt_meaning(
	const struct preempt *p, const struct preempt_worker *w, enum preempt_end how)
{
	bool signalled = p->state == PREEMPT_OVER || (w && w->signalled);

	if (p->state == PREEMPT_NONE)
		return how == PREEMPT_END_DONE ? PREEMPT_SUCCEEDED : PREEMPT_FAILED;
	switch (how) {
	case PREEMPT_END_DONE:
		return signalled || (w && w->ordered_exit) ? PREEMPT_LEFT : PREEMPT_SUCCEEDED;
	case PREEMPT_END_LEFT:
		return PREEMPT_LEFT;
	case PREEMPT_END_SIGNAL:
		return signalled ? PREEMPT_LEFT : PREEMPT_FAILED;
	case PREEMPT_END_OTHER:
		break;
	}
	return PREEMPT_FAILED;
}

/* w failed: shortens the limit, since other participants may wait for w. Workers that get the
 * signal wait for no other. */
static void preempt_failed(struct preempt *p, const struct preempt_worker *w, uint64_t now_ms)
{
	char why[sizeof(p->no_second)] = "";

	if (!w->stepped && (p->spec->how == SPEC_PREEMPT_SIGNAL || w->signalled))
		return;
	if (now_ms + p->stop_ms < p->limit_ms)
		p->limit_ms = now_ms + p->stop_ms;
	if (!w->stepped)
		return;
	slots_append(why, sizeof(why), w->name);
	slots_append(why, sizeof(why), " failed");
	preempt_hurry(p, now_ms, why);
}

enum preempt_meaning preempt_ended(
	struct preempt *p, int slot, enum preempt_end how, uint64_t now_ms)
{
	struct preempt_worker *w = preempt_find(p, slot);
	enum preempt_meaning meaning = preempt_meaning(p, w, how);

	if (!w || !w->running)
		return meaning;
	preempt_drop_question(p, slot);
	w->running = false;
	preempt_count(p, w);
	w->signal_due = false;
	w->meaning = meaning;
	if (!preempt_is_up(p))
		return meaning;
	if (w->ordered && !w->saved && w->ordered_exit && meaning == PREEMPT_LEFT)
		preempt_mark_saved(p, w, now_ms);
	if (w->stepped && !w->saved) {
		w->report_due = true;
		preempt_due(p, w);
	}
	if (meaning == PREEMPT_FAILED)
		preempt_failed(p, w, now_ms);
	preempt_settle(p, now_ms, false);
	return meaning;
}

void preempt_add_question(struct preempt *p, int slot, int64_t step, uint64_t now_ms)
{
	struct preempt_worker *w = preempt_find(p, slot);

	if (!w || !w->running)
		return;
	preempt_drop_question(p, slot);
	preempt_enter(p, w);
	w->question_step = step;
	w->question_ms = now_ms;
	if (w->ordered && !w->saved)
		preempt_mark_saved(p, w, now_ms);
	if (!preempt_is_up(p) || p->spec->how == SPEC_PREEMPT_SIGNAL)
		return;
	w->stepped = true;
	w->classified = true;
	w->step = step;
	preempt_count(p, w);
	if (!p->agreed)
		preempt_want_read(p);
	/* Decide now whether there is time for two saves: the pace is best known here. */
	if (p->agreed && !p->final && !p->ordered && step >= p->step) {
		p->await_read = true;
		preempt_want_read(p);
	}
	preempt_settle(p, now_ms, false);
}

int preempt_saved(struct preempt *p, int slot, int64_t step, uint64_t now_ms)
{
	struct preempt_worker *w = preempt_find(p, slot);

	if (!w || p->state == PREEMPT_NONE)
		return -ERANGE;
	if (w->has_saved && w->saved_step == step && (w->saved || !w->ordered))
		return 1;
	if (!w->ordered || w->saved || w->order_step != step)
		return -ERANGE;
	preempt_mark_saved(p, w, now_ms);
	if (preempt_is_up(p))
		preempt_settle(p, now_ms, false);
	return 0;
}

/* The first notice. The workers keep the state they had before it. */
static void preempt_begin(struct preempt *p)
{
	p->state = PREEMPT_AGREEING;
	if (!p->counts.running) {
		preempt_over(p, "there is no worker to save");
		return;
	}
	p->announced = p->announce = true;
	p->save_at = INT64_MIN;
	if (p->spec->how != SPEC_PREEMPT_SIGNAL) {
		preempt_want_read(p);
		return;
	}
	p->state = PREEMPT_LEAVING;
	p->final = true;
	preempt_publish(p, INT64_MAX);
	for (int i = 0; i < p->n_workers; i++)
		if (p->workers[i] && p->workers[i]->running)
			preempt_give_signal(p, p->workers[i]);
}

/* Reports a notice that is the first, comes from a new source, or leaves less time than the last
 * reported one; others are only counted. hurries: it leaves no time. */
static void preempt_report_notice(
	struct preempt *p, const char *source, const char *reason, bool hurries)
{
	bool known = false;
	int max;

	for (int i = 0; i < p->n_reported; i++)
		known = known || !strncmp(p->reported[i], source, sizeof(p->reported[i]) - 1);
	max = known ? PREEMPT_REPORTED_AGAIN : PREEMPT_REPORTED_MAX;
	if (p->n_reported >= max)
		return;
	if (known && !hurries && p->limit_ms + PREEMPT_SHORTER_MS >= p->reported_limit_ms)
		return;
	snprintf(p->reported[p->n_reported], sizeof(p->reported[0]), "%s", source);
	p->n_reported++;
	p->reported_limit_ms = p->limit_ms;
	snprintf(p->source, sizeof(p->source), "%s", source);
	snprintf(p->reason, sizeof(p->reason), "%s", reason);
	p->news |= PREEMPT_NEWS_NOTICE;
}

void preempt_notice(struct preempt *p, const struct preempt_notice *n, bool grace)
{
	uint64_t limit = n->now_ms + (uint64_t)p->spec->timeout_ms;
	bool first = p->state == PREEMPT_NONE;

	/* Clocks differ: even with a deadline in the past the workers save. */
	grace = grace && n->deadline_ms != SPEC_UNSET && n->deadline_ms > (int64_t)n->now_ms;
	if (grace)
		limit = (uint64_t)n->deadline_ms;
	if (first || limit < p->limit_ms)
		p->limit_ms = limit;
	if (n->deadline_ms != SPEC_UNSET &&
		(p->deadline_ms == SPEC_UNSET || n->deadline_ms < p->deadline_ms))
		p->deadline_ms = n->deadline_ms;
	p->notices++;
	preempt_report_notice(
		p, n->source ? n->source : "", n->reason ? n->reason : "", !grace && !p->final);
	if (first) {
		p->final = !grace;
		p->since_ms = n->now_ms;
		preempt_begin(p);
	} else if (!grace && preempt_is_up(p)) {
		preempt_hurry(p, n->now_ms, "another notice leaves no time for it");
	}
	if (!preempt_is_up(p))
		return;
	preempt_check_later(p, n->now_ms);
	preempt_settle(p, n->now_ms, false);
}

void preempt_cancel(struct preempt *p)
{
	bool clear = p->announced && !p->announce;

	for (int i = 0; i < p->n_workers; i++) {
		struct preempt_worker *w = p->workers[i];
		bool asking = w && w->has_question;

		if (w)
			preempt_reset(p, w);
		if (asking)
			preempt_enter(p, w);
	}
	p->state = PREEMPT_NONE;
	p->deadline_ms = SPEC_UNSET;
	p->step = -1;
	p->notices = p->n_reported = 0;
	p->announced = p->announce = p->publish = p->stop = false;
	p->again = p->final = p->agreed = p->ordered = p->await_read = p->read_again = false;
	p->reading = PREEMPT_READ_NO;
	p->news = 0;
	p->longest_ms = 0;
	p->no_second[0] = '\0';
	p->clear = clear || p->clear;
}

uint64_t preempt_due_ms(const struct preempt *p)
{
	if (!preempt_is_up(p) || p->reading != PREEMPT_READ_NO)
		return UINT64_MAX;
	return p->final || p->check_ms > p->limit_ms ? p->limit_ms : p->check_ms;
}

int64_t preempt_saved_step(const struct preempt *p, int slot)
{
	const struct preempt_worker *w = preempt_find(p, slot);

	return w && p->state != PREEMPT_NONE ? w->saved_step : -1;
}

struct preempt_view preempt_view(const struct preempt *p)
{
	return (struct preempt_view){ .state = p->state,
		.final = p->final,
		.step = p->agreed ? p->step : -1,
		.deadline_ms = p->deadline_ms,
		.participants = p->counts.took_part,
		.saved = p->counts.saved,
		.notices = p->notices };
}
