/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A world of workers with a board around agent/preempt/machine.h. Workers begin steps, ask when the
 * board requires it, save, leave and die; READ is answered later. The world computes from its own
 * events what the machine may order, and compares. Its clock counts what each worker did
 * while time passed.
 */

#include "agent/preempt/machine.h"
#include "tests/unit/child.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

enum { WORLD_WORKERS = 64, STOP_MS = 20000 };

enum doing { TRAIN, ASK, SAVE, LAST, TOLD };

struct wworker {
	bool runs, stepped, connected; /* as the board and the agent have it */
	enum doing doing;
	int64_t step;
	uint64_t steps;
	uint64_t asked; /* the number of its question, of all questions */
	/* of the notice */
	bool member, signalled, saved, based;
	bool ordered_exit; /* an answer asked it to leave */
	int orders;	   /* in this round */
	int64_t saved_at;
	uint64_t base, trained, waited, saving, six, took, advance;
	int64_t base_step;
	int starts;
};

struct world {
	int n;
	uint64_t now;
	enum spec_preempt_how how;
	bool up, over, min; /* min: no step is agreed on yet */
	bool reading;	    /* READ is under way, */
	bool stale;	    /* ... and something was published since */
	bool announced;
	int64_t save_at, step; /* step: INT64_MIN: none is agreed on */
	bool final, ordered, hurry, fresh;
	int rounds, notices, cancels, stops;
	uint64_t limit, longest, questions;
	struct wworker t[WORLD_WORKERS];
};

static struct world w;
static struct preempt *p;
static struct spec_preemption spec;
static char trail[4096]; /* the events so far, for the message of a failure */

#define wrong(...)                                   \
	do {                                         \
		fprintf(stderr, "after%s\n", trail); \
		ck_abort_msg(__VA_ARGS__);           \
	} while (0)

static uint64_t rest(void)
{
	return w.limit > w.now ? w.limit - w.now : 0;
}

/* How long t takes to reach the step of the first one. */
static uint64_t lag(const struct wworker *t)
{
	int64_t front = INT64_MIN;

	for (int i = 0; i < w.n; i++)
		if (w.t[i].runs && w.t[i].stepped && w.t[i].step > front)
			front = w.t[i].step;
	if (!t->stepped)
		return 0;
	return (uint64_t)(front - t->step) * t->took / (t->advance ? t->advance : 1);
}

/* The time that the last save needs; with apart, also for workers behind to reach the first one. */
static uint64_t margin(bool apart)
{
	uint64_t most = 0;

	for (int i = 0; i < w.n; i++) {
		const struct wworker *t = &w.t[i];
		uint64_t behind = t->runs && apart ? lag(t) : 0;

		if (t->runs && t->six + behind + behind / 4 > most)
			most = t->six + behind + behind / 4;
	}
	return most + 2 * w.longest;
}

/* The least time that it needs. */
static uint64_t least(void)
{
	uint64_t most = 0;

	for (int i = 0; i < w.n; i++) {
		const struct wworker *t = &w.t[i];

		if (t->runs && t->six / 2 + lag(t) > most)
			most = t->six / 2 + lag(t);
	}
	return most + w.longest;
}

static int count(bool member, bool unsaved)
{
	int n = 0;

	for (int i = 0; i < w.n; i++)
		n += w.t[i].runs && (!member || w.t[i].member) && (!unsaved || !w.t[i].saved);
	return n;
}

/* --- orders of the machine --- */

static void said_publish(int64_t step)
{
	int64_t most = INT64_MIN;

	for (int i = 0; i < w.n; i++)
		if (w.t[i].runs && w.t[i].stepped && w.t[i].step > most)
			most = w.t[i].step;
	if (!w.up || w.over)
		wrong("published without a notice");
	if (step == INT64_MAX && w.how != SPEC_PREEMPT_SIGNAL) {
		if (count(true, true) || !count(true, false) || w.min || w.final)
			wrong("a countdown before all have saved");
		if (rest() <= margin(true))
			wrong("a countdown without time");
	} else if (step == INT64_MIN) {
		if (++w.rounds != 2 || (w.save_at != INT64_MAX && count(true, true)) ||
			!preempt_view(p).final)
			wrong("a last round that is none: the %d., %d have not saved", w.rounds,
				count(true, true));
		if (rest() < least())
			wrong("a last round without time");
		w.min = true;
		w.stale = w.reading;
		for (int i = 0; i < w.n; i++) {
			w.t[i].saved = false;
			w.t[i].orders = 0;
		}
	} else if (step != INT64_MAX && w.min) {
		if (!w.fresh)
			wrong("a step that was agreed on without a look");
		if (step != most + 1)
			wrong("step %lld, expected %lld", (long long)step, (long long)most + 1);
		w.min = false;
		w.step = step;
	} else if (step != INT64_MAX && step != w.step) {
		wrong("step %lld is another than %lld", (long long)step, (long long)w.step);
	}
	w.save_at = step;
}

static enum preempt_order expected(const struct wworker *t)
{
	if (!w.up)
		return PREEMPT_CONTINUE;
	if (w.over)
		return PREEMPT_EXIT;
	if (w.how == SPEC_PREEMPT_SIGNAL)
		return PREEMPT_CONTINUE;
	if (t->saved)
		return preempt_view(p).final ? PREEMPT_EXIT : PREEMPT_CONTINUE;
	if (w.save_at == INT64_MAX || t->step < w.step)
		return PREEMPT_CONTINUE;
	return preempt_view(p).final ? PREEMPT_SAVE_EXIT : PREEMPT_SAVE;
}

static void said_answer(const struct preempt_do *d)
{
	struct wworker *t = &w.t[d->worker];

	if (d->worker < 0 || d->worker >= w.n || !t->runs || t->doing != ASK)
		wrong("an answer to %d, which has no question", d->worker);
	if (d->order != expected(t))
		wrong("order %d to %d, expected %d", d->order, d->worker, expected(t));
	if (w.up && !w.over && w.min)
		wrong("an answer before a step is agreed on");
	switch (d->order) {
	case PREEMPT_CONTINUE:
		t->doing = TRAIN;
		t->trained += t->waited;
		break;
	case PREEMPT_SAVE:
	case PREEMPT_SAVE_EXIT:
		t->doing = d->order == PREEMPT_SAVE ? SAVE : LAST;
		t->saving = t->waited;
		w.ordered = true;
		if (++t->orders > 1)
			wrong("two orders in one round to %d", d->worker);
		break;
	case PREEMPT_EXIT:
		t->doing = TOLD;
		break;
	}
	t->ordered_exit = t->ordered_exit || t->doing == LAST || t->doing == TOLD;
	t->waited = 0;
}

static void said_signal(int slot)
{
	struct wworker *t = &w.t[slot];
	int members = 0;

	for (int i = 0; i < w.n; i++)
		members += w.t[i].member;
	if (w.how == SPEC_PREEMPT_AGREE || !t->runs || t->signalled || !w.up)
		wrong("%d is signalled", slot);
	if (w.how == SPEC_PREEMPT_AUTO && (t->member || (t->connected && members)))
		wrong("%d is signalled, and not left alone", slot);
	t->signalled = true;
}

static void said_stop(const char *why)
{
	bool signalled = false;

	for (int i = 0; i < w.n; i++)
		signalled = signalled || (w.t[i].runs && w.t[i].signalled && !w.t[i].member);
	if (!w.up || ++w.stops > 1)
		wrong("stopped twice or without a notice");
	if (!strncmp(why, "the time is over", 16)
			? w.now < w.limit
			: count(false, false) && (count(true, false) || signalled))
		wrong("stopped too early: %s", why);
}

static void said(const struct preempt_do *d)
{
	switch (d->what) {
	case PREEMPT_ANNOUNCE:
		if (!w.up || w.announced)
			wrong("announced without a notice, or twice");
		w.announced = true;
		w.save_at = INT64_MIN;
		break;
	case PREEMPT_READ:
		if (w.reading || !w.announced)
			wrong("READ within READ");
		w.reading = true;
		break;
	case PREEMPT_PUBLISH:
		said_publish(d->step);
		break;
	case PREEMPT_ANSWER:
		said_answer(d);
		break;
	case PREEMPT_SIGNAL:
		said_signal(d->worker);
		break;
	case PREEMPT_REPORT:
		if (!strcmp(d->event, "no-second-save") && !w.hurry && count(true, false) &&
			!count(true, true) && rest() >= least())
			wrong("there is time for a second save");
		break;
	case PREEMPT_STOP:
		said_stop(d->text);
		break;
	case PREEMPT_CLEAR:
		if (!w.cancels || !w.announced)
			wrong("cleared without need");
		w.announced = w.up;
		break;
	case PREEMPT_NOTHING:
		break;
	}
}

/* --- the state after them --- */

static enum preempt_state state_expected(void)
{
	int members = 0;

	for (int i = 0; i < w.n; i++)
		members += w.t[i].member;
	if (!w.up)
		return PREEMPT_NONE;
	if (w.over)
		return PREEMPT_OVER;
	if (w.how == SPEC_PREEMPT_SIGNAL)
		return PREEMPT_LEAVING;
	if (members && !count(true, false) && !w.reading)
		return PREEMPT_LEAVING;
	if (members && !count(true, false))
		return preempt_view(p).state; /* it depends on what the board says */
	if (w.min)
		return PREEMPT_AGREEING;
	if (w.save_at == INT64_MAX)
		return PREEMPT_COUNTDOWN;
	if (count(true, true) || !w.final)
		return PREEMPT_SAVING;
	return PREEMPT_LEAVING;
}

static void check_view(void)
{
	struct preempt_view v = preempt_view(p);
	int members = 0, saved = 0;

	for (int i = 0; i < w.n; i++) {
		members += w.up && w.t[i].member;
		saved += w.up && w.t[i].member && w.t[i].saved;
		if (preempt_saved_step(p, i) != (w.up ? w.t[i].saved_at : -1))
			wrong("%d has saved at %lld, expected %lld", i,
				(long long)preempt_saved_step(p, i), (long long)w.t[i].saved_at);
	}
	if (v.state != state_expected())
		wrong("state %s, expected %s", preempt_state_name(v.state),
			preempt_state_name(state_expected()));
	if (v.participants != members || v.saved != saved || v.notices != w.notices)
		wrong("%d participants, %d saved, expected %d, %d", v.participants, v.saved,
			members, saved);
	if (v.step != (w.min || w.step == INT64_MIN ? -1 : w.step))
		wrong("a view of step %lld, expected %lld", (long long)v.step, (long long)w.step);
	if (v.state == PREEMPT_OVER || v.state == PREEMPT_NONE)
		return;
	if (w.final && !v.final)
		wrong("what is last is not last any more");
	if (w.hurry && !v.final)
		wrong("no haste");
}

/* Checks that there is a reason if final has become true. look: the board was read. */
static void check_final(bool look)
{
	bool apart = w.save_at == INT64_MAX || (w.fresh && !count(true, true));
	bool final = preempt_view(p).final, late = rest() <= margin(apart);

	if (look && !w.ordered)
		late = rest() < 2 * margin(false) || rest() == 0;
	else if (!look)
		late = false;
	if (!w.up || w.over || w.how == SPEC_PREEMPT_SIGNAL)
		return;
	if (final && !w.final && !w.hurry && !late)
		wrong("the last save, with %llu ms left and a margin of %llu",
			(unsigned long long)rest(), (unsigned long long)margin(apart));
	if (!final && look && late)
		wrong("another save is to come, with %llu ms left and a margin of %llu",
			(unsigned long long)rest(), (unsigned long long)margin(apart));
	w.final = final;
}

static void check_all_answered(void)
{
	for (int i = 0; i < w.n; i++)
		if (w.t[i].runs && w.t[i].doing == ASK && !w.reading)
			wrong("%d waits for an answer that never comes", i);
}

/* Takes all orders of the machine, and checks each. */
static void drain(bool look)
{
	struct preempt_do d;
	enum preempt_state state = preempt_view(p).state;

	w.over = state == PREEMPT_OVER;
	if (w.over)
		w.reading = w.stale = false;
	check_final(look);
	for (int i = 0; preempt_next(p, &d) != PREEMPT_NOTHING; i++) {
		said(&d);
		if (i > 4 * WORLD_WORKERS + 16)
			wrong("it never ends");
	}
	if (w.over && !w.stops)
		wrong("over, and no worker is stopped");
	check_all_answered();
	check_view();
	if (w.up && !w.over && !w.reading && preempt_due_ms(p) == UINT64_MAX)
		wrong("nothing will come");
	w.hurry = w.fresh = false;
}

/* --- events --- */

static void mark_saved(struct wworker *t)
{
	if (t->doing != SAVE && t->doing != LAST)
		return;
	if (t->saved || !w.up)
		return;
	t->saved = true;
	t->saved_at = t->step;
	if (t->saving > w.longest)
		w.longest = t->saving;
}

static void do_look(void)
{
	struct preempt_sample s[WORLD_WORKERS];
	size_t n = 0;

	for (int i = 0; i < w.n; i++) {
		struct wworker *t = &w.t[i];

		if (!t->runs)
			continue;
		s[n++] = (struct preempt_sample){ i, t->stepped, t->connected, t->step, t->steps };
		if (!t->stepped || w.how == SPEC_PREEMPT_SIGNAL)
			continue;
		t->member = true;
		if (!t->based) {
			t->based = true;
			t->base = t->steps;
			t->base_step = t->step;
			t->trained = t->waited = 0;
		}
		t->took = t->trained + t->waited;
		if (t->steps > t->base) {
			uint64_t made = t->steps - t->base;

			t->six = (6 * t->took + made - 1) / made;
			t->advance = t->step - t->base_step > (int64_t)made
					     ? (uint64_t)(t->step - t->base_step)
					     : made;
		}
	}
	w.fresh = w.reading && !w.stale;
	w.reading = w.stale = false;
	preempt_read(p, s, n, w.now);
	drain(true);
}

static void do_time(uint64_t ms)
{
	w.now += ms;
	for (int i = 0; i < w.n; i++) {
		struct wworker *t = &w.t[i];

		if ((t->doing == SAVE || t->doing == LAST) && !t->saved)
			t->saving += ms;
		else if (t->doing == ASK)
			t->waited += ms;
		else
			t->trained += ms;
	}
	if (preempt_due_ms(p) <= w.now)
		do_look();
}

static void do_notice(bool grace, uint64_t ms)
{
	struct preempt_notice n = { w.now, grace ? (int64_t)(w.now + ms) : SPEC_UNSET, "operator",
		"" };
	uint64_t limit = grace ? w.now + ms : w.now + (uint64_t)spec.timeout_ms;

	if (!w.up) {
		w.step = INT64_MIN;
		w.min = w.how != SPEC_PREEMPT_SIGNAL;
		w.ordered = w.announced = false;
		w.final = !grace || w.how == SPEC_PREEMPT_SIGNAL;
		w.rounds = 1;
		w.longest = 0;
		w.limit = limit;
	} else if (!grace) {
		w.hurry = true;
	}
	w.up = true;
	w.limit = limit < w.limit ? limit : w.limit;
	w.notices++;
	preempt_notice(p, &n, grace);
	drain(false);
}

static void do_step(int slot, int64_t by)
{
	struct wworker *t = &w.t[slot];

	t->stepped = t->connected = true;
	t->step += by;
	t->steps++;
	if (!w.announced || t->step < w.save_at) {
		if (t->doing == SAVE || t->doing == LAST || t->doing == TOLD)
			t->doing = TRAIN;
		return;
	}
	t->step -= by; /* the step at which it has saved */
	mark_saved(t);
	t->step += by;
	t->doing = ASK;
	t->asked = ++w.questions;
	if (w.up && !w.over && w.how != SPEC_PREEMPT_SIGNAL)
		t->member = true;
	preempt_add_question(p, slot, t->step, w.now);
	drain(false);
}

static void do_saved(int slot)
{
	struct wworker *t = &w.t[slot];
	int again = t->saved;

	if (preempt_saved(p, slot, t->step + 1, w.now) != -ERANGE)
		wrong("%d may say that it saved elsewhere", slot);
	mark_saved(t);
	if (preempt_saved(p, slot, t->step, w.now) != (w.up ? again : -ERANGE))
		wrong("%d may not say that it saved", slot);
	if (preempt_saved(p, slot, t->step, w.now) != (w.up ? 1 : -ERANGE))
		wrong("%d saved twice", slot);
	t->doing = t->doing == LAST ? TOLD : TRAIN;
	drain(false);
}

static enum preempt_meaning meaning_expected(const struct wworker *t, enum preempt_end how)
{
	bool leaves = w.over || t->signalled;

	if (!w.up)
		return how == PREEMPT_END_DONE ? PREEMPT_SUCCEEDED : PREEMPT_FAILED;
	if (how == PREEMPT_END_DONE)
		return leaves || t->ordered_exit ? PREEMPT_LEFT : PREEMPT_SUCCEEDED;
	if (how == PREEMPT_END_LEFT || (how == PREEMPT_END_SIGNAL && leaves))
		return PREEMPT_LEFT;
	return PREEMPT_FAILED;
}

static void do_end(int slot, enum preempt_end how)
{
	struct wworker *t = &w.t[slot];
	struct preempt_sample s = { slot, t->stepped, t->connected, t->step, t->steps };
	enum preempt_meaning want = meaning_expected(t, how), got;

	preempt_add_sample(p, &s, w.now);
	if (w.up && !w.over && w.how != SPEC_PREEMPT_SIGNAL && t->stepped)
		t->member = true;
	if (t->ordered_exit && want == PREEMPT_LEFT && !w.over)
		mark_saved(t);
	t->runs = false;
	t->doing = TRAIN;
	w.hurry = w.up && !w.over && t->member && want == PREEMPT_FAILED;
	if (w.up && !w.over && want == PREEMPT_FAILED && w.how != SPEC_PREEMPT_SIGNAL &&
		(t->member || !t->signalled) && w.now + STOP_MS < w.limit)
		w.limit = w.now + STOP_MS;
	got = preempt_ended(p, slot, how, w.now);
	if (got != want)
		wrong("end %d of %d means %d, expected %d", how, slot, got, want);
	drain(false);
}

static void do_start(int slot)
{
	struct wworker *t = &w.t[slot];

	*t = (struct wworker){ .runs = true, .saved_at = -1, .starts = t->starts + 1 };
	if (preempt_started(p, slot, "worker") < 0)
		wrong("no memory");
	drain(false);
}

static void do_forget(int slot)
{
	struct wworker *t = &w.t[slot];

	preempt_drop_question(p, slot);
	t->doing = TRAIN;
	t->trained += t->waited;
	t->waited = 0;
	drain(false);
}

static void do_cancel(void)
{
	w.up = w.over = w.reading = w.stale = w.hurry = w.min = false;
	w.notices = w.stops = 0;
	w.step = INT64_MIN;
	w.cancels++;
	for (int i = 0; i < w.n; i++) {
		struct wworker *t = &w.t[i];

		t->member = t->signalled = t->saved = t->based = t->ordered_exit = false;
		t->orders = 0;
		t->saved_at = -1;
		t->six = t->saving = t->took = t->advance = 0;
		if (t->doing != ASK)
			t->doing = TRAIN;
	}
	preempt_cancel(p);
	drain(false);
}
