/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that is lost while a notice of preemption is up is not started again, so it will never
 * write the keys that others wait for. Barriers know their members and fail by themselves. A Get
 * does not say which worker it waits for: while a living worker still runs, that one may write the
 * key. Once all living workers wait, they wait for the lost one, and the Gets end with its name.
 */
#include "agent/sharing/private.h"

#include <stdio.h>

/* True when w may still write a key that others wait for. */
static bool may_still_write(const struct commons *c, const struct worker *w)
{
	if (!worker_alive(w) || w->stop_us || !commons_is_default(w) || !commons_has_slot(c, w))
		return false;
	return !commons_gets(c, w->slot) && !commons_waits(c, w->slot);
}

static void release_gets(void *arg)
{
	struct commons *c = arg;

	if (c->stopping || !c->lost || !c->owner.on_notice(c->owner.arg))
		return;
	for (int i = 0; i < commons_count(c); i++)
		if (may_still_write(c, commons_at(c, i)))
			return;
	kv_release(c->kv, STATUS_UNAVAILABLE, c->lost);
}

void commons_lost_check(void *arg)
{
	struct commons *c = arg;

	if (c->lost && loop_defer(c->loop, release_gets, c) < 0)
		release_gets(c);
}

void commons_lost_clear(struct commons *c)
{
	loop_cancel(c->loop, release_gets, c);
	free(c->lost);
	c->lost = NULL;
}

void commons_lost(struct commons *c, const struct worker *w, const char *why)
{
	if (!c->owner.on_notice(c->owner.arg) || !commons_is_default(w) || c->lost)
		return;
	if (asprintf(&c->lost, "%s is lost%s%s%s, and nothing is started while a notice is up",
		    c->slots[w->slot].name, why && *why ? " (" : "", why ? why : "",
		    why && *why ? ")" : "") < 0)
		c->lost = NULL;
	c->lost_slot = w->slot;
	commons_lost_check(c);
}
