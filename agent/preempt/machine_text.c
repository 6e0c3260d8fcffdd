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

void preempt_tell_text(const struct preempt *p, enum preempt_tell what, char *text, size_t size)
{
	text[0] = '\0';
	switch (what) {
	case PREEMPT_TELL_NOTICE:
		slots_append(text, size, "notice of preemption from ");
		slots_append(text, size, *p->source ? p->source : "somewhere");
		if (*p->reason)
			slots_append(text, size, ": ");
		slots_append(text, size, p->reason);
		break;
	case PREEMPT_TELL_STEP:
		snprintf(text, size, "workers save at step %" PRId64 "%s", p->step,
			p->final ? " and leave" : "");
		break;
	case PREEMPT_TELL_COUNTDOWN:
		snprintf(text, size,
			"all have saved, and go on: they save again before the deadline");
		break;
	case PREEMPT_TELL_SHORT:
		slots_append(text, size, "there is no second save: ");
		slots_append(text, size, p->no_second);
		slots_append(text, size, "; workers that have saved leave");
		break;
	case PREEMPT_TELL_SAVED:
		snprintf(text, size, "all have saved, and leave");
		break;
	}
}

const char *preempt_no_second_text(const struct preempt *p)
{
	return p->no_second;
}

/* " at step 41 (its last was 37)", as far as these are known. */
static void preempt_where(const struct preempt *p, const struct preempt_worker *t, char *text,
	size_t size, const char *how)
{
	char part[128] = "";
	size_t used = 0;

	if (p->agreed)
		used = (size_t)snprintf(part, sizeof(part), "%s step %" PRId64, how, p->step);
	snprintf(part + used, sizeof(part) - used, " (its last was %" PRId64 ")", t->step);
	slots_append(text, size, part);
}

void preempt_end_text(
	const struct preempt *p, const struct preempt_worker *t, char *text, size_t size)
{
	text[0] = '\0';
	slots_append(text, size, t->name);
	if (t->ordered) {
		slots_append(text, size, " ended before it reported that it had saved");
		preempt_where(p, t, text, size, " at");
		return;
	}
	slots_append(text, size, " ended");
	preempt_where(p, t, text, size, " before");
}

/* The reason why t has not saved as agreed; false: it has, or need not. took_part: there are
 * participants, so a worker that reports no steps has nothing to save. */
static bool preempt_why_not(const struct preempt *p, const struct preempt_worker *t, bool took_part,
	char *text, size_t size)
{
	if (!t->stepped && t->signalled && t->running) {
		slots_append(text, size, t->name);
		slots_append(text, size, " did not leave on the signal");
		return true;
	}
	if (!t->stepped && t->running && !took_part) {
		slots_append(text, size, t->name);
		slots_append(text, size, " has begun no step");
		return true;
	}
	if (!t->stepped || t->saved)
		return false;
	if (!t->running) {
		if (t->meaning == PREEMPT_SUCCEEDED)
			return false;
		preempt_end_text(p, t, text, size);
		return true;
	}
	slots_append(text, size, t->name);
	if (t->ordered) {
		slots_append(text, size, " did not report that it had saved");
		preempt_where(p, t, text, size, " at");
	} else {
		slots_append(text, size, " did not reach");
		preempt_where(p, t, text, size, "");
	}
	return true;
}

void preempt_missing(const struct preempt *p, char *text, size_t size)
{
	bool took_part = false;

	if (size == 0)
		return;
	text[0] = '\0';
	for (int i = 0; i < p->n_workers; i++)
		took_part = took_part || (p->workers[i] && p->workers[i]->stepped);
	for (int i = 0; i < p->n_workers && p->state != PREEMPT_NONE; i++) {
		char part[256] = "";

		if (!p->workers[i] ||
			!preempt_why_not(p, p->workers[i], took_part, part, sizeof(part)))
			continue;
		if (*text)
			slots_append(text, size, "; ");
		slots_append(text, size, part);
	}
}
