/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that is lost while a notice of preemption is up is not started again, so it will never
 * write the keys that others wait for. Barriers know their members and fail by themselves. A Get
 * does not say which worker it waits for: while a living worker still runs, that one may write the
 * key. Once all living workers wait, they wait for the lost one, and the Gets end with its name.
 */
#include "agent/sharing/private.h"

#include <stdio.h>

/* Whether w may still write a key that others wait for. */
static bool may_still_write(const struct sharing *sh, const struct worker *w)
{
	if (!worker_alive(w) || w->stop_us || !sharing_is_default(w) || !sharing_has_slot(sh, w))
		return false;
	return !sharing_gets(sh, w->slot) && !sharing_waits(sh, w->slot);
}

static void release_gets(void *arg)
{
	struct sharing *sh = arg;
	const struct supervisor *sv = sh->sv;

	if (sh->stopping || !sh->lost || !supervisor_on_notice(sv))
		return;
	for (int i = 0; i < supervisor_n_workers(sv); i++)
		if (may_still_write(sh, supervisor_worker(sv, i)))
			return;
	kv_release(sh->kv, STATUS_UNAVAILABLE, sh->lost);
}

void sharing_lost_check(void *arg)
{
	struct sharing *sh = arg;

	if (sh->lost && loop_defer(supervisor_loop(sh->sv), release_gets, sh) < 0)
		release_gets(sh);
}

void sharing_lost_clear(struct sharing *sh)
{
	loop_cancel(supervisor_loop(sh->sv), release_gets, sh);
	free(sh->lost);
	sh->lost = NULL;
}

void sharing_lost(struct sharing *sh, const struct worker *w, const char *why)
{
	if (!supervisor_on_notice(sh->sv) || !sharing_is_default(w) || sh->lost)
		return;
	if (asprintf(&sh->lost, "%s is lost%s%s%s, and nothing is started while a notice is up",
		    sh->slots[w->slot].name, why && *why ? " (" : "", why ? why : "",
		    why && *why ? ")" : "") < 0)
		sh->lost = NULL;
	sh->lost_slot = w->slot;
	sharing_lost_check(sh);
}
