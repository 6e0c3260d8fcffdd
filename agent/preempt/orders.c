/* SPDX-License-Identifier: Apache-2.0 */
/* preempt_next(): takes the marks that events have set, one by one. */
#include "agent/preempt/machine_private.h"

#include <stdio.h>

/* The answer to w's Step; false: not decided yet. */
static bool preempt_decide(struct preempt *p, struct preempt_worker *w, enum preempt_order *ret)
{
	*ret = PREEMPT_CONTINUE;
	if (p->state == PREEMPT_OVER)
		*ret = PREEMPT_EXIT;
	if (!preempt_is_up(p) || p->spec->how == SPEC_PREEMPT_SIGNAL)
		return true;
	if (!p->agreed || p->await_read)
		return false;
	if (w->saved && p->final)
		*ret = PREEMPT_EXIT;
	else if (!w->saved && p->state != PREEMPT_COUNTDOWN && w->question_step >= p->step)
		*ret = p->final ? PREEMPT_SAVE_EXIT : PREEMPT_SAVE;
	return true;
}

/* Answers the oldest question, if its answer is decided. */
static bool preempt_answer(struct preempt *p, struct preempt_do *ret)
{
	struct preempt_worker *w = TAILQ_FIRST(&p->questions);

	if (!w || !preempt_decide(p, w, &ret->order))
		return false;
	preempt_drop_question(p, w->slot);
	ret->what = PREEMPT_ANSWER;
	ret->worker = w->slot;
	ret->step = p->agreed ? p->step : -1;
	if (ret->order == PREEMPT_SAVE || ret->order == PREEMPT_SAVE_EXIT) {
		w->ordered = p->ordered = true;
		w->order_step = w->question_step;
		w->order_ms = w->question_ms;
	}
	if (ret->order == PREEMPT_EXIT || ret->order == PREEMPT_SAVE_EXIT)
		w->ordered_exit = true;
	return true;
}

/* The next thing to do about a single worker. */
static bool preempt_next_of_worker(struct preempt *p, struct preempt_do *ret)
{
	struct preempt_worker *w;

	while ((w = TAILQ_FIRST(&p->due))) {
		ret->worker = w->slot;
		if (w->signal_due) {
			w->signal_due = false;
			ret->what = PREEMPT_SIGNAL;
			return true;
		}
		if (w->report_due) {
			w->report_due = false;
			ret->what = PREEMPT_REPORT;
			ret->event = "not-saved";
			preempt_end_text(p, w, ret->text, sizeof(ret->text));
			return true;
		}
		w->due = false;
		TAILQ_REMOVE(&p->due, w, due_link);
	}
	ret->worker = -1;
	return false;
}

/* The name of the event for this report. */
static const char *preempt_news_event(enum preempt_news what)
{
	switch (what) {
	case PREEMPT_NEWS_NOTICE:
		return "notice";
	case PREEMPT_NEWS_STEP:
		return "agreed";
	case PREEMPT_NEWS_COUNTDOWN:
		return "countdown";
	case PREEMPT_NEWS_SHORT:
		return "no-second-save";
	case PREEMPT_NEWS_SAVED:
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
	} else if (p->news) {
		unsigned what = p->news & -p->news;

		p->news &= ~what;
		ret->what = PREEMPT_REPORT;
		ret->event = preempt_news_event((enum preempt_news)what);
		preempt_news_text(p, (enum preempt_news)what, ret->text, sizeof(ret->text));
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
