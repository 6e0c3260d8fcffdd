/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/private.h"

#include "agent/sharing/service.h"
#include "common/base/array.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Without a timer a worker's speed is measured from one request for live figures to the next, and
 * at the first one from the worker's first step, whose time is on the board. How far a worker came
 * is read once, at its end, and added to the event of it, so that goodput follows from events
 * alone.
 */

enum { SPEED_LEAST_MS = 1000 }; /* a shorter time between two requests says little */

struct speed *speed_of(const struct supervisor *sv)
{
	return feature_state(sv, &speed_feature);
}

static void speed_unfollow(struct speed_worker *s)
{
	if (s->progress)
		progress_fini(s->progress);
	free(s->progress);
	s->progress = NULL;
}

struct speed_worker *speed_entry(struct speed *sp, const struct worker *w)
{
	size_t n = (size_t)w->slot + 1;
	struct speed_worker **bigger, *s;

	if (w->slot < 0)
		return NULL;
	if (n > sp->n) {
		bigger = array_grow(sp->workers, sp->n, n, sizeof(*bigger));
		if (!bigger)
			return NULL;
		sp->workers = bigger;
		sp->n = n;
	}
	s = sp->workers[w->slot];
	if (!s)
		s = sp->workers[w->slot] = calloc(1, sizeof(*s));
	if (s && s->token != w->token) {
		speed_unfollow(s);
		*s = (struct speed_worker){ .token = w->token };
	}
	return s;
}

static bool speed_read_board(
	const struct supervisor *sv, const struct worker *w, struct speed_steps *ret)
{
	const struct board_slot *slot = sharing_board_slot(sv, w);

	if (!slot || atomic_load_explicit(&slot->token, memory_order_acquire) != w->token)
		return false;
	*ret = (struct speed_steps){
		.count = atomic_load_explicit(&slot->steps, memory_order_relaxed),
		.last = atomic_load_explicit(&slot->step, memory_order_relaxed),
		.first = atomic_load_explicit(&slot->first_step, memory_order_relaxed),
		.first_us = atomic_load_explicit(&slot->first_us, memory_order_relaxed),
	};
	if (!ret->first_us)
		ret->first = -1;
	return ret->count > 0;
}

/* The entry for w's present process, or NULL. */
static struct speed_worker *speed_known(struct speed *sp, const struct worker *w)
{
	struct speed_worker *s =
		w->slot >= 0 && (size_t)w->slot < sp->n ? sp->workers[w->slot] : NULL;

	return s && s->token == w->token ? s : NULL;
}

bool speed_read(struct speed *sp, const struct worker *w, struct speed_steps *ret)
{
	const struct speed_worker *s = speed_known(sp, w);

	if (s && s->ended)
		*ret = s->at_end;
	else if (!w->token || !speed_read_board(sp->sv, w, ret))
		*ret = s ? s->logged : (struct speed_steps){ 0 };
	return ret->count > 0;
}

/* --- figures --- */

/* Steps made in took_ms. */
static struct step_span speed_measure(
	struct speed *sp, const struct worker *w, const struct speed_steps *steps)
{
	uint64_t window_ms = speed_window_ms(sp);
	int64_t since_us = (w->ended_us ? w->ended_us : (int64_t)loop_real_us()) - steps->first_us;
	struct speed_worker *s = speed_entry(sp, w);
	struct step_span span = { 0 };

	if (s && worker_alive(w)) {
		if (!speed_watches(sp->sv))
			step_window_add(&s->pace.window, window_ms, loop_now_ms(), steps->count, 0);
		span = step_window_span(&s->pace.window, window_ms);
	}
	if (span.took_ms < SPEED_LEAST_MS && steps->first_us && since_us > 0)
		span = (struct step_span){ .made = steps->count - 1,
			.took_ms = (uint64_t)since_us / 1000 };
	return span;
}

static void speed_describe_steps(const struct speed_steps *steps, json_t *j)
{
	json_put_int(j, "steps", (int64_t)steps->count);
	if (steps->last >= 0)
		json_put_int(j, "step", steps->last);
	if (steps->first >= 0)
		json_put_int(j, "first_step", steps->first);
	if (steps->first_us)
		json_put_int(j, "first_step_us", steps->first_us);
}

static double speed_per_s(const struct step_span *span)
{
	return (double)span->made * 1000 / (double)span->took_ms;
}

static void speed_describe_worker(
	const struct supervisor *sv, const struct worker *w, json_t *j, bool live)
{
	struct speed *sp = speed_of(sv);
	struct speed_worker *s;
	struct speed_steps steps;
	struct step_span span;
	char text[128];

	if (!sp || !live || !w->started_us || !speed_read(sp, w, &steps))
		return;
	speed_describe_steps(&steps, j);
	span = speed_measure(sp, w, &steps);
	if (span.took_ms) {
		json_put(j, "steps_per_s", json_real(speed_per_s(&span)));
		json_put_int(j, "speed_ms", (int64_t)span.took_ms);
	}
	s = speed_entry(sp, w);
	if (s && worker_alive(w)) {
		pace_text(&s->pace, speed_window_ms(sp), text, sizeof(text));
		json_put_string(j, "straggler", *text ? text : *s->slow_text ? s->slow_text : NULL);
	}
}

static void speed_describe_end(const struct supervisor *sv, const struct worker *w, json_t *j)
{
	struct speed *sp = speed_of(sv);
	const struct speed_worker *s = sp ? speed_known(sp, w) : NULL;

	if (s && s->at_end.count)
		speed_describe_steps(&s->at_end, j);
}

/* The present time, by the clock as it was set when the last event came. */
static int64_t speed_now_us(const struct speed *sp)
{
	return (int64_t)loop_real_us() - events_clock_set_us(supervisor_events(sp->sv));
}

/* How far the workers that run have come. */
static size_t speed_lives(struct speed *sp, struct goodput_life *lives)
{
	int64_t now_us = speed_now_us(sp);
	size_t n = 0;

	for (int i = 0; i < supervisor_n_workers(sp->sv); i++) {
		const struct worker *w = supervisor_worker(sp->sv, i);
		struct speed_steps steps;

		if (!worker_alive(w))
			continue;
		(void)speed_read(sp, w, &steps);
		lives[n++] = (struct goodput_life){ .worker = w->local_rank,
			.started_us = w->started_us,
			.ended_us = now_us,
			.steps = steps.count,
			.first = steps.first,
			.last = steps.last,
			.first_us = steps.first_us };
	}
	return n;
}

static void speed_describe_goodput(const struct supervisor *sv, json_t *j, bool live)
{
	struct speed *sp = speed_of(sv);
	_cleanup_free_ struct goodput_life *lives =
		live ? calloc((size_t)supervisor_n_workers(sv) + 1, sizeof(*lives)) : NULL;

	if (!sp || !sp->goodput || !lives)
		return;
	json_put(j, "goodput",
		goodput_json(sp->goodput, lives, speed_lives(sp, lives), speed_now_us(sp)));
}

static void speed_describe_job(const struct supervisor *sv, json_t *j, bool live)
{
	speed_describe_goodput(sv, j, live);
	if (speed_of(sv) && live)
		speed_hosts_describe(speed_of(sv), j);
}

static void speed_describe_verdict(const struct supervisor *sv, json_t *j)
{
	speed_describe_goodput(sv, j, true);
}

/* --- the feature --- */

static struct speed *speed_make(struct supervisor *sv)
{
	struct speed *sp = speed_of(sv);

	if (sp)
		return sp;
	sp = calloc(1, sizeof(*sp));
	if (!sp)
		return NULL;
	sp->sv = sv;
	sp->goodput = goodput_new();
	feature_set_state(sv, &speed_feature, sp);
	return sp;
}

static int speed_new(struct supervisor *sv, struct error *err)
{
	struct speed *sp = speed_make(sv);

	if (!sp || !sp->goodput)
		return error_set(err, -ENOMEM, "out of memory");
	return speed_watch_new(sp, err);
}

static void speed_free(struct supervisor *sv)
{
	struct speed *sp = speed_of(sv);

	if (!sp)
		return;
	feature_set_state(sv, &speed_feature, NULL);
	speed_watch_free(sp);
	speed_hosts_free(sp);
	for (size_t i = 0; i < sp->n; i++) {
		if (sp->workers[i])
			speed_unfollow(sp->workers[i]);
		free(sp->workers[i]);
	}
	free(sp->workers);
	goodput_free(sp->goodput);
	free(sp);
}

/* An event of this agent, or of an earlier one of this run. */
static void speed_event(struct supervisor *sv, const json_t *event)
{
	struct speed *sp = speed_make(sv);

	if (sp && sp->goodput)
		goodput_event(sp->goodput, event);
}

static void speed_new_event(struct supervisor *sv, const json_t *event)
{
	if (!supervisor_finalising(sv))
		speed_event(sv, event);
}

static void speed_worker_started(struct supervisor *sv, struct worker *w)
{
	if (speed_of(sv))
		speed_watch_started(speed_of(sv), w);
}

static void speed_worker_exited(struct supervisor *sv, struct worker *w)
{
	struct speed *sp = speed_of(sv);
	struct speed_steps steps;
	struct speed_worker *s;

	/* A worker needs no entry if it made no step and has not been looked at. */
	if (!sp || !w->token || (!speed_known(sp, w) && !speed_read(sp, w, &steps)))
		return;
	s = speed_entry(sp, w);
	if (!s || s->ended)
		return;
	speed_watch_ended(sp, w, s);
	(void)speed_read(sp, w, &s->at_end);
	s->ended = true;
}

const struct feature speed_feature = {
	.name = "speed",
	.init = speed_new,
	.fini = speed_free,
	.worker_started = speed_worker_started,
	.worker_exited = speed_worker_exited,
	.hosts_lead = speed_hosts_lead,
	.hosts_begin = speed_hosts_begin,
	.hosts_stopping = speed_hosts_stopping,
	.hosts_worker_started = speed_hosts_worker_started,
	.hosts_worker_exited = speed_hosts_worker_exited,
	.hosts_stepped = speed_hosts_stepped,
	.hosts_straggler = speed_hosts_straggler,
	.new_event = speed_new_event,
	.past_event = speed_event,
	.describe_job = speed_describe_job,
	.describe_worker = speed_describe_worker,
	.describe_end = speed_describe_end,
	.describe_verdict = speed_describe_verdict,
};
