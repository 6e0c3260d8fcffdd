/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/private.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

/*
 * A worker hangs: the state of the workers of all hosts is saved before any is ended, since the one
 * that stands still is seldom the one at fault. Hosts save side by side; one that does not in time
 * is named, and waited for no more.
 */

enum { HANG_MORE_MS = 2000 }; /* for the way to a host and back */

static bool hang_all_saved(const struct head *h)
{
	for (int i = 0; i < h->n_members; i++)
		if (h->members[i] && h->members[i]->save_due)
			return false;
	return true;
}

/* Tells the hosts that have asked. */
static void hang_over(struct head *h)
{
	_cleanup_json_ json_t *missing = json_array(), *body = json_object();

	loop_timer_disarm(h->save_timer);
	for (int i = 0; i < h->n_members; i++) {
		if (!h->members[i] || !h->members[i]->save_due)
			continue;
		h->members[i]->save_due = false;
		json_add(missing, json_string(head_host_name(h, i)));
		log_warning("host %s has not saved its workers in time", head_host_name(h, i));
		events_add(supervisor_events(h->hosts->sv), "host-not-dumped", h->attempt - 1, -1,
			json_pack("{s:s}", "host", head_host_name(h, i)),
			"host %s has not saved its workers in time", head_host_name(h, i));
	}
	json_put(body, "missing", json_incref(missing));
	json_put_int(body, "round", (int64_t)h->save_round);
	for (int i = 0; i < h->n_members; i++) {
		struct head_host *x = h->members[i];

		if (!x || !x->save_asked)
			continue;
		x->save_asked = false;
		head_say(x, "AllSaved", json_incref(body));
	}
}

void head_saves_late(void *arg)
{
	hang_over(arg);
}

void head_check_saved(struct head *h)
{
	if (loop_timer_armed(h->save_timer) && hang_all_saved(h))
		hang_over(h);
}

void head_worker_hangs(struct head_host *asker, const char *why)
{
	struct head *h = asker->head;
	uint64_t round = round_number(h->round);

	asker->save_asked = true;
	if (loop_timer_armed(h->save_timer))
		return; /* all hosts save already, for another worker */
	h->saves++;
	h->save_round = round;
	for (int i = 0; i < h->n_members; i++) {
		struct head_host *x = h->members[i];
		const struct round_host *host = x ? round_host(h->round, i) : NULL;

		if (!host || x == asker || host->round != round || !host->workers)
			continue;
		x->save_due = true;
		head_say(x, "Save",
			json_pack("{s:I, s:o}", "number", (json_int_t)h->saves, "why",
				json_text(why)));
	}
	loop_timer_arm(h->save_timer, (uint64_t)h->spec->heartbeat.dump_timeout_ms + HANG_MORE_MS);
	head_check_saved(h);
}

void head_host_saved(struct head_host *x, int64_t number)
{
	if (number != x->head->saves)
		return;
	x->save_due = false;
	head_check_saved(x->head);
}
