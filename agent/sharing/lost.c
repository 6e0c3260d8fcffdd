/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task that is lost while a notice of preemption is up: nothing is started again then, so what it
 * was to write is never written. Barriers know their members and fail by themselves. A Get that
 * waits does not say whom it waits for: as long as a task that lives goes on, it may be that one.
 * When all that live wait, they wait for the lost one, and the Gets end with its name.
 */
#include "agent/sharing/private.h"

#include <stdio.h>

/* Whether t may still write what others wait for. */
static bool goes_on(const struct workers *w, const struct task *t)
{
	if (!task_alive(t) || t->stop_us || !worker_is_default(t) || !worker_has_slot(w, t))
		return false;
	return !worker_gets(w, t->slot) && !worker_waits(w, t->slot);
}

static void look(void *arg)
{
	struct workers *w = arg;
	const struct agent *a = w->a;

	if (w->stopping || !w->lost || !a->on_notice)
		return;
	for (int i = 0; i < a->n_tasks; i++)
		if (goes_on(w, &a->tasks[i]))
			return;
	kv_release(w->kv, STATUS_UNAVAILABLE, w->lost);
}

void worker_lost_look(void *arg)
{
	struct workers *w = arg;

	if (w->lost && loop_defer(w->a->loop, look, w) < 0)
		look(w);
}

void worker_lost_clear(struct workers *w)
{
	loop_cancel(w->a->loop, look, w);
	free(w->lost);
	w->lost = NULL;
}

void worker_lost(struct workers *w, const struct task *t, const char *why)
{
	if (!w->a->on_notice || !worker_is_default(t) || w->lost)
		return;
	if (asprintf(&w->lost, "%s is lost%s%s%s, and nothing is started while a notice is up",
		    w->slots[t->slot].name, why && *why ? " (" : "", why ? why : "",
		    why && *why ? ")" : "") < 0)
		w->lost = NULL;
	w->lost_slot = t->slot;
	worker_lost_look(w);
}
