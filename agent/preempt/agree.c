/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds: agrees on a step from what the board shows, and decides when a round is over and what
 * follows. */
#include "agent/preempt/machine_private.h"

#include <stdio.h>

void preempt_want_read(struct preempt *p)
{
	if (p->reading == PREEMPT_READ_NO)
		p->reading = PREEMPT_READ_WANTED;
}

void preempt_publish(struct preempt *p, int64_t save_at)
{
	if (p->save_at == save_at)
		return;
	p->save_at = save_at;
	p->publish = true;
}

void preempt_due(struct preempt *p, struct preempt_worker *w)
{
	if (w->due)
		return;
	w->due = true;
	TAILQ_INSERT_TAIL(&p->due, w, due_link);
}

void preempt_give_signal(struct preempt *p, struct preempt_worker *w)
{
	w->classified = w->signalled = w->signal_due = true;
	preempt_count(p, w);
	preempt_due(p, w);
}

void preempt_over(struct preempt *p, const char *why)
{
	p->state = PREEMPT_OVER;
	p->stop = true;
	p->await_read = p->publish = false;
	p->reading = PREEMPT_READ_NO;
	snprintf(p->why, sizeof(p->why), "%s", why);
}

void preempt_mark_saved(struct preempt *p, struct preempt_worker *w, uint64_t now_ms)
{
	uint64_t took = now_ms - w->order_ms;

	w->saved = w->has_saved = true;
	preempt_count(p, w);
	w->saved_step = w->order_step;
	w->saving_ms += (int64_t)took;
	if (took > p->longest_ms)
		p->longest_ms = took;
}

/* Begins the second round: a step for the last save must be agreed on. */
static void preempt_last_round(struct preempt *p)
{
	p->again = p->final = true;
	p->agreed = false;
	p->state = PREEMPT_AGREEING;
	for (int i = 0; i < p->n_workers; i++) {
		if (!p->workers[i])
			continue;
		p->workers[i]->ordered = p->workers[i]->saved = false;
		preempt_count(p, p->workers[i]);
	}
	preempt_publish(p, INT64_MIN);
	p->read_again = p->reading == PREEMPT_READ_OUT;
	preempt_want_read(p);
}

/* Makes the agreed step the last. why: the reason why there is no second save. */
static void preempt_no_second(struct preempt *p, const char *why)
{
	p->final = true;
	snprintf(p->no_second, sizeof(p->no_second), "%s", why);
	if (p->state != PREEMPT_COUNTDOWN)
		return;
	p->state = PREEMPT_SAVING;
	preempt_publish(p, p->step);
}

/* Makes the next save, or the one just done, the last. why NULL: the time is short. */
static void preempt_finish(struct preempt *p, uint64_t now_ms, const char *why)
{
	bool enough = preempt_rest(p, now_ms) >= preempt_need(p).least_ms;
	char text[sizeof(p->no_second)];

	if (p->state == PREEMPT_COUNTDOWN && enough) {
		preempt_last_round(p);
		return;
	}
	if (p->ordered)
		p->news |= PREEMPT_NEWS_SHORT;
	preempt_short_text(p, now_ms, text, sizeof(text));
	preempt_no_second(p, why ? why : text);
}

/* All living participants have saved for the first time. */
static void preempt_count_down(struct preempt *p, uint64_t now_ms)
{
	p->state = PREEMPT_COUNTDOWN;
	if (preempt_rest(p, now_ms) <= preempt_need(p).margin_ms) {
		preempt_finish(p, now_ms, NULL);
		return;
	}
	p->news |= PREEMPT_NEWS_COUNTDOWN;
	preempt_publish(p, INT64_MAX);
	preempt_check_later(p, now_ms);
}

enum { COUNT_RUNNING = 1, COUNT_STEPPED = 2, COUNT_SAVED = 4, COUNT_SIGNALLED = 8 };

static void preempt_add_counts(struct preempt_counts *c, unsigned of, int by)
{
	bool stepped = of & COUNT_STEPPED, saved = of & COUNT_SAVED;

	c->took_part += stepped ? by : 0;
	c->saved += stepped && saved ? by : 0;
	if (!(of & COUNT_RUNNING))
		return;
	c->running += by;
	c->living += stepped ? by : 0;
	c->unsaved += stepped && !saved ? by : 0;
	c->signalled += !stepped && of & COUNT_SIGNALLED ? by : 0;
	c->silent += stepped ? 0 : by;
}

void preempt_count(struct preempt *p, struct preempt_worker *w)
{
	preempt_add_counts(&p->counts, w->counted, -1);
	w->counted = (w->running ? COUNT_RUNNING : 0) | (w->stepped ? COUNT_STEPPED : 0) |
		     (w->saved ? COUNT_SAVED : 0) | (w->signalled ? COUNT_SIGNALLED : 0);
	preempt_add_counts(&p->counts, w->counted, 1);
}

void preempt_hurry(struct preempt *p, uint64_t now_ms, const char *why)
{
	if (p->final)
		return;
	if (p->counts.living)
		preempt_finish(p, now_ms, why);
	else
		preempt_no_second(p, why);
}

/* The last participant is gone. A worker that begins to report steps now becomes one. */
static void preempt_no_participants(struct preempt *p, const struct preempt_counts *c, bool fresh)
{
	if (c->silent && !fresh) {
		preempt_want_read(p);
	} else if (!c->signalled) {
		preempt_over(p, "all participants have left");
	} else {
		p->state = PREEMPT_LEAVING;
		if (p->agreed)
			preempt_publish(p, p->step);
	}
}

static void preempt_all_saved(
	struct preempt *p, const struct preempt_counts *c, uint64_t now_ms, bool fresh)
{
	/* Read first: a worker that has just begun to report steps must save too, and each one's
	 * pace decides whether there is time for another save. */
	if (!p->final && !fresh) {
		preempt_want_read(p);
		return;
	}
	if (!p->final)
		preempt_count_down(p, now_ms);
	if (!p->final || !p->agreed || p->state == PREEMPT_LEAVING)
		return;
	p->state = PREEMPT_LEAVING;
	p->news |= PREEMPT_NEWS_SAVED;
}

void preempt_settle(struct preempt *p, uint64_t now_ms, bool fresh)
{
	struct preempt_counts c = p->counts;

	if (c.running == 0) {
		preempt_over(p, "all have left");
		return;
	}
	if (p->spec->how == SPEC_PREEMPT_SIGNAL)
		return;
	if (c.took_part && !c.living)
		preempt_no_participants(p, &c, fresh);
	else if (p->state == PREEMPT_COUNTDOWN)
		return;
	else if (p->agreed && c.living && !c.unsaved)
		preempt_all_saved(p, &c, now_ms, fresh);
	else
		p->state = p->agreed ? PREEMPT_SAVING : PREEMPT_AGREEING;
}

/* Agrees on the step after the last that any participant has begun. */
static void preempt_agree(struct preempt *p)
{
	int64_t front = preempt_front(p);

	if (!p->counts.living)
		return;
	/* INT64_MAX has a meaning of its own on the board. */
	p->step = front < INT64_MAX - 2 ? front + 1 : INT64_MAX - 1;
	p->agreed = true;
	p->state = PREEMPT_SAVING;
	p->news |= PREEMPT_NEWS_STEP;
	preempt_publish(p, p->step);
}

void preempt_add_sample(struct preempt *p, const struct preempt_sample *s, uint64_t now_ms)
{
	struct preempt_worker *w = preempt_find(p, s->slot);

	if (!preempt_is_up(p) || p->spec->how == SPEC_PREEMPT_SIGNAL)
		return;
	if (!w || !w->running || !s->stepped)
		return;
	w->stepped = w->classified = true;
	preempt_count(p, w);
	w->step = s->step;
	preempt_measure(p, w, s->steps, now_ms);
}

/* Decides once, for a worker that reports no steps, whether it gets the signal. */
static void preempt_classify(struct preempt *p, const struct preempt_sample *s, bool alone)
{
	struct preempt_worker *w = preempt_find(p, s->slot);

	if (!w || !w->running || w->classified)
		return;
	if (p->spec->how == SPEC_PREEMPT_AUTO && (alone || !s->connected))
		preempt_give_signal(p, w);
	w->classified = true;
}

/* True when the next save must be the last. */
static bool preempt_is_short(const struct preempt *p, uint64_t now_ms)
{
	uint64_t rest = preempt_rest(p, now_ms), margin = preempt_need(p).margin_ms;

	if (p->state != PREEMPT_COUNTDOWN && !p->ordered)
		return rest < 2 * margin || rest == 0;
	return rest <= margin;
}

static void preempt_limit(struct preempt *p)
{
	char missing[192];

	preempt_missing(p, missing, sizeof(missing));
	preempt_over(p, "");
	snprintf(p->why, sizeof(p->why), "the time is over%s%s", *missing ? ": " : "", missing);
}

void preempt_read(struct preempt *p, const struct preempt_sample *s, size_t n, uint64_t now_ms)
{
	bool fresh = p->reading == PREEMPT_READ_OUT && !p->read_again;
	bool alone;

	if (p->state == PREEMPT_NONE || p->state == PREEMPT_OVER)
		return;
	if (p->reading == PREEMPT_READ_OUT)
		p->reading = p->read_again ? PREEMPT_READ_WANTED : PREEMPT_READ_NO;
	p->read_again = false;
	if (p->spec->how != SPEC_PREEMPT_SIGNAL) {
		for (size_t i = 0; i < n; i++)
			preempt_add_sample(p, &s[i], now_ms);
		alone = p->counts.took_part == 0;
		for (size_t i = 0; i < n; i++)
			preempt_classify(p, &s[i], alone);
	}
	if (now_ms >= p->limit_ms) {
		preempt_limit(p);
		return;
	}
	if (fresh && !p->agreed)
		preempt_agree(p);
	if (fresh)
		p->await_read = false;
	preempt_check_later(p, now_ms);
	preempt_settle(p, now_ms, fresh);
	if (!preempt_is_up(p) || p->final || !preempt_is_short(p, now_ms))
		return;
	preempt_finish(p, now_ms, NULL);
	preempt_settle(p, now_ms, fresh);
}
