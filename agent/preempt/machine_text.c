/* SPDX-License-Identifier: Apache-2.0 */
/* Texts about a notice, for people. */
#include "agent/preempt/machine_private.h"

#include "agent/sync/slots_text.h"

#include <inttypes.h>
#include <stdio.h>

const char *preempt_state_name(enum preempt_state s)
{
	static const char *const names[] = {
#define X(name, text) [PREEMPT_##name] = text,
		PREEMPT_STATES(X)
#undef X
	};

	return names[s];
}

void preempt_news_text(const struct preempt *p, enum preempt_news what, char *text, size_t size)
{
	text[0] = '\0';
	switch (what) {
	case PREEMPT_NEWS_NOTICE:
		slots_append(text, size, "notice of preemption from ");
		slots_append(text, size, *p->source ? p->source : "somewhere");
		if (*p->reason)
			slots_append(text, size, ": ");
		slots_append(text, size, p->reason);
		break;
	case PREEMPT_NEWS_STEP:
		snprintf(text, size, "workers save at step %" PRId64 "%s", p->step,
			p->final ? " and leave" : "");
		break;
	case PREEMPT_NEWS_COUNTDOWN:
		snprintf(text, size,
			"all have saved, and go on: they save again before the deadline");
		break;
	case PREEMPT_NEWS_SHORT:
		slots_append(text, size, "there is no second save: ");
		slots_append(text, size, p->no_second);
		slots_append(text, size, "; workers that have saved leave");
		break;
	case PREEMPT_NEWS_SAVED:
		snprintf(text, size, "all have saved, and leave");
		break;
	}
}

const char *preempt_no_second_text(const struct preempt *p)
{
	return p->no_second;
}

/* " at step 41 (its last was 37)", as far as these are known. */
static void preempt_where(const struct preempt *p, const struct preempt_worker *w, char *text,
	size_t size, const char *how)
{
	char part[128] = "";
	size_t used = 0;

	if (p->agreed)
		used = (size_t)snprintf(part, sizeof(part), "%s step %" PRId64, how, p->step);
	snprintf(part + used, sizeof(part) - used, " (its last was %" PRId64 ")", w->step);
	slots_append(text, size, part);
}

void preempt_end_text(
	const struct preempt *p, const struct preempt_worker *w, char *text, size_t size)
{
	text[0] = '\0';
	slots_append(text, size, w->name);
	if (w->ordered) {
		slots_append(text, size, " ended before it reported that it had saved");
		preempt_where(p, w, text, size, " at");
		return;
	}
	slots_append(text, size, " ended");
	preempt_where(p, w, text, size, " before");
}

/* The reason why w has not saved as agreed; false: it has, or need not. */
static bool preempt_why_not(
	const struct preempt *p, const struct preempt_worker *w, char *text, size_t size)
{
	if (!w->stepped && w->signalled && w->running) {
		slots_append(text, size, w->name);
		slots_append(text, size, " did not leave on the signal");
		return true;
	}
	/* Where others take part, a worker that reports no steps has nothing to save. */
	if (!w->stepped && w->running && !p->counts.took_part) {
		slots_append(text, size, w->name);
		slots_append(text, size, " has begun no step");
		return true;
	}
	if (!w->stepped || w->saved)
		return false;
	if (!w->running) {
		if (w->meaning == PREEMPT_SUCCEEDED)
			return false;
		preempt_end_text(p, w, text, size);
		return true;
	}
	slots_append(text, size, w->name);
	if (w->ordered) {
		slots_append(text, size, " did not report that it had saved");
		preempt_where(p, w, text, size, " at");
	} else {
		slots_append(text, size, " did not reach");
		preempt_where(p, w, text, size, "");
	}
	return true;
}

void preempt_missing(const struct preempt *p, char *text, size_t size)
{
	if (size == 0)
		return;
	text[0] = '\0';
	for (int i = 0; i < p->n_workers && p->state != PREEMPT_NONE; i++) {
		char part[256] = "";

		if (!p->workers[i] || !preempt_why_not(p, p->workers[i], part, sizeof(part)))
			continue;
		if (*text)
			slots_append(text, size, "; ");
		slots_append(text, size, part);
	}
}
