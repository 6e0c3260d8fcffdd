/* SPDX-License-Identifier: Apache-2.0 */

/* preempt_next(): takes the marks that events have set, one by one. */

#include "agent/preempt/machine_private.h"

#include <stdio.h>

/* The answer to t's question; false: not decided yet. */
static bool preempt_decide(struct preempt *p, struct preempt_worker *t, enum preempt_order *ret)
{
	*ret = PREEMPT_CONTINUE;
	if (p->state == PREEMPT_OVER)
		*ret = PREEMPT_EXIT;
	if (!preempt_is_up(p) || p->spec->how == SPEC_PREEMPT_SIGNAL)
		return true;
	if (!p->agreed || p->await_read)
		return false;
	if (t->saved && p->final)
		*ret = PREEMPT_EXIT;
	else if (!t->saved && p->state != PREEMPT_COUNTDOWN && t->question_step >= p->step)
		*ret = p->final ? PREEMPT_SAVE_EXIT : PREEMPT_SAVE;
	return true;
}

/* Answers the oldest question, if its answer is decided. */
static bool preempt_answer(struct preempt *p, struct preempt_do *ret)
{
	struct preempt_worker *t = TAILQ_FIRST(&p->questions);

	if (!t || !preempt_decide(p, t, &ret->order))
		return false;
	preempt_drop_question(p, t->slot);
	ret->what = PREEMPT_ANSWER;
	ret->worker = t->slot;
	ret->step = p->agreed ? p->step : -1;
	if (ret->order == PREEMPT_SAVE || ret->order == PREEMPT_SAVE_EXIT) {
		t->ordered = p->ordered = true;
		t->order_step = t->question_step;
		t->order_ms = t->question_ms;
	}
	if (ret->order == PREEMPT_EXIT || ret->order == PREEMPT_SAVE_EXIT)
		t->told_exit = true;
	return true;
}

/* The next thing to do about a single worker. */
static bool preempt_next_of_worker(struct preempt *p, struct preempt_do *ret)
{
	struct preempt_worker *t;

	while ((t = TAILQ_FIRST(&p->due))) {
		ret->worker = t->slot;
		if (t->signal_due) {
			t->signal_due = false;
			ret->what = PREEMPT_SIGNAL;
			return true;
		}
		if (t->tell_due) {
			t->tell_due = false;
			ret->what = PREEMPT_TELL;
			ret->event = "not-saved";
			preempt_end_text(p, t, ret->text, sizeof(ret->text));
			return true;
		}
		t->due = false;
		TAILQ_REMOVE(&p->due, t, due_link);
	}
	ret->worker = -1;
	return false;
}

/* The name of the event for this report. */
static const char *preempt_tell_event(enum preempt_tell what)
{
	switch (what) {
	case PREEMPT_TELL_NOTICE:
		return "notice";
	case PREEMPT_TELL_STEP:
		return "agreed";
	case PREEMPT_TELL_COUNTDOWN:
		return "countdown";
	case PREEMPT_TELL_SHORT:
		return "no-second-save";
	case PREEMPT_TELL_SAVED:
		return "all-saved";
	}
	return "";
}

static bool preempt_take(bool *mark)
{
	bool was = *mark;

	*mark = false;
	return was;
}

enum preempt_what preempt_next(struct preempt *p, struct preempt_do *ret)
{
	*ret = (struct preempt_do){ .what = PREEMPT_NOTHING, .worker = -1, .step = -1 };
	if (preempt_take(&p->announce)) {
		ret->what = PREEMPT_ANNOUNCE;
	} else if (preempt_take(&p->publish)) {
		ret->what = PREEMPT_PUBLISH;
		ret->step = p->save_at;
	} else if (p->reading == PREEMPT_READ_WANTED) {
		p->reading = PREEMPT_READ_OUT;
		ret->what = PREEMPT_READ;
	} else if (p->tell) {
		unsigned what = p->tell & -p->tell;

		p->tell &= ~what;
		ret->what = PREEMPT_TELL;
		ret->event = preempt_tell_event((enum preempt_tell)what);
		preempt_tell_text(p, (enum preempt_tell)what, ret->text, sizeof(ret->text));
	} else if (preempt_answer(p, ret) || preempt_next_of_worker(p, ret)) {
		return ret->what;
	} else if (preempt_take(&p->stop)) {
		ret->what = PREEMPT_STOP;
		snprintf(ret->text, sizeof(ret->text), "%s", p->why);
	} else if (preempt_take(&p->clear)) {
		ret->what = PREEMPT_CLEAR;
	}
	return ret->what;
}
