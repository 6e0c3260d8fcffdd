/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast each worker is, and how much of the time left the last save needs. Workers that do not
 * wait for each other drift apart: the last step is one that the fastest has not begun, and the
 * slowest must still get there. The time for that, at its own pace, is its lag, and it grows
 * meanwhile.
 */
#include "agent/preempt/machine_private.h"

#include "agent/sync/slots_text.h"
#include "common/text/duration.h"

#include <stdio.h>

enum {
	PREEMPT_CHECK_MS = 250, /* the need is measured again after half of the time left, or after
				  the time spent measuring so far, until that is less than this */
	PREEMPT_CHECK_LEAST_MS = 20,
	PREEMPT_LAG_MAX = 1 << 22, /* larger lags count as this */
};

#define PREEMPT_TOOK_MAX (UINT64_C(1) << 40)

void preempt_measure(struct preempt *p, struct preempt_worker *w, uint64_t steps, uint64_t now_ms)
{
	uint64_t took, made;

	if (!w->based) {
		w->based = true;
		w->base_steps = steps;
		w->base_step = w->step;
		w->base_ms = now_ms;
		/* Time before the first measurement does not count. */
		if (w->has_question)
			w->question_ms = now_ms;
		w->saving_ms = w->ordered && !w->saved ? (int64_t)(w->order_ms - now_ms) : 0;
	}
	took = now_ms - w->base_ms - (uint64_t)w->saving_ms;
	if (w->ordered && !w->saved)
		took -= now_ms - w->order_ms;
	w->took_ms = took < PREEMPT_TOOK_MAX ? took : PREEMPT_TOOK_MAX;
	if (steps <= w->base_steps)
		return;
	made = steps - w->base_steps;
	w->six_ms = (6 * w->took_ms + made - 1) / made;
	/* A worker may count by more than one per step. */
	w->advance = w->step > w->base_step ? (uint64_t)w->step - (uint64_t)w->base_step : 0;
	if (w->advance < made)
		w->advance = made;
}

uint64_t preempt_rest(const struct preempt *p, uint64_t now_ms)
{
	return p->limit_ms > now_ms ? p->limit_ms - now_ms : 0;
}

static bool preempt_trains(const struct preempt_worker *w)
{
	return w && w->running && w->stepped;
}

int64_t preempt_front(const struct preempt *p)
{
	int64_t front = INT64_MIN;

	for (int i = 0; i < p->n_workers; i++)
		if (preempt_trains(p->workers[i]) && p->workers[i]->step > front)
			front = p->workers[i]->step;
	return front;
}

/* The steps by which w is behind. */
static uint64_t preempt_lag(const struct preempt_worker *w, int64_t front)
{
	uint64_t lag = preempt_trains(w) ? (uint64_t)front - (uint64_t)w->step : 0;

	return lag < PREEMPT_LAG_MAX ? lag : PREEMPT_LAG_MAX;
}

/* The time that w needs for its lag. For a worker that has not finished a step yet: at least the
 * time since it began. */
static uint64_t preempt_lag_ms(const struct preempt_worker *w, int64_t front)
{
	return preempt_lag(w, front) * w->took_ms / (w->advance ? w->advance : 1);
}

struct preempt_need preempt_need(const struct preempt *p)
{
	bool apart = p->state == PREEMPT_COUNTDOWN; /* else no participant has passed the step */
	int64_t front = preempt_front(p);
	struct preempt_need n = { .last = -1 };

	for (int i = 0; i < p->n_workers; i++) {
		const struct preempt_worker *w = p->workers[i];
		uint64_t lag_ms, margin;

		if (!w || !w->running)
			continue;
		lag_ms = apart ? preempt_lag_ms(w, front) : 0;
		margin = w->six_ms + lag_ms + lag_ms / 4;
		if (margin > n.margin_ms) {
			n.margin_ms = margin;
			n.last = i;
			n.lag = apart ? preempt_lag(w, front) : 0;
		}
		if (w->six_ms / 2 + lag_ms > n.least_ms)
			n.least_ms = w->six_ms / 2 + lag_ms;
	}
	n.margin_ms += 2 * p->longest_ms;
	n.least_ms += p->longest_ms;
	return n;
}

/* By how much the margin grows in a millisecond, while the fastest participant goes on. */
static double preempt_growth(const struct preempt *p)
{
	double fastest = 0, slowest = 0;

	for (int i = 0; i < p->n_workers; i++) {
		const struct preempt_worker *w = p->workers[i];
		double pace;

		if (!preempt_trains(w) || !w->advance || !w->took_ms)
			continue;
		pace = (double)w->took_ms / (double)w->advance;
		if (fastest == 0 || pace < fastest)
			fastest = pace;
		if (pace > slowest)
			slowest = pace;
	}
	return fastest > 0 ? (slowest / fastest - 1) * 5 / 4 : 0;
}

void preempt_check_later(struct preempt *p, uint64_t now_ms)
{
	uint64_t rest = preempt_rest(p, now_ms), margin = preempt_need(p).margin_ms;
	uint64_t wait = rest > margin ? rest - margin : 0, known = now_ms - p->since_ms;

	if (p->state == PREEMPT_COUNTDOWN) {
		wait = (uint64_t)((double)wait / (1 + preempt_growth(p)));
		if (known < PREEMPT_CHECK_MS)
			known = PREEMPT_CHECK_MS;
		if (wait > known)
			wait = known;
	}
	if (wait > PREEMPT_CHECK_MS)
		wait /= 2;
	else if (rest > margin && wait < PREEMPT_CHECK_LEAST_MS)
		wait = PREEMPT_CHECK_LEAST_MS;
	p->check_ms = now_ms + wait;
}

void preempt_short_text(const struct preempt *p, uint64_t now_ms, char *text, size_t size)
{
	struct preempt_need n = preempt_need(p);
	char needed[DURATION_TEXT_MAX], left[DURATION_TEXT_MAX], part[160];

	text[0] = '\0';
	if (n.lag) {
		slots_append(text, size, p->workers[n.last]->name);
		snprintf(part, sizeof(part), " is %llu steps behind, which takes it",
			(unsigned long long)n.lag);
		slots_append(text, size, part);
	} else {
		slots_append(text, size, "some steps and a save take");
	}
	snprintf(part, sizeof(part), " %s, and %s are left",
		duration_text((int64_t)n.margin_ms, needed),
		duration_text((int64_t)preempt_rest(p, now_ms), left));
	slots_append(text, size, part);
}
