/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

/*
 * A worker hangs: all hosts save the state of their workers before any is ended, since the worker
 * that stands still is seldom the one at fault. Hosts save side by side. After a limit, those that
 * have not saved are named.
 */

enum { HANG_MORE_MS = 2000 }; /* for the way to a host and back */

static bool hang_all_saved(const struct head *h)
{
	const struct head_host *x = NULL;

	while ((x = head_next_member(h, x)))
		if (x->save_due)
			return false;
	return true;
}

/* Sends AllSaved to the hosts that wait, with the names of those that have not saved. */
static void hang_over(struct head *h)
{
	_cleanup_json_ json_t *missing = json_array(), *body = json_object();
	struct head_host *x = NULL;

	loop_timer_disarm(h->save_timer);
	while ((x = head_next_member(h, x))) {
		const char *name = head_host_name(h, x->number);

		if (!x->save_due)
			continue;
		x->save_due = false;
		json_add(missing, json_string(name));
		head_event(h, LOG_WARNING, "host-not-dumped", h->attempt - 1,
			json_pack("{s:s}", "host", name),
			"host %s has not saved its workers in time", name);
	}
	json_put(body, "missing", json_incref(missing));
	json_put_int(body, "round", (int64_t)h->save_round);
	while ((x = head_next_member(h, x))) {
		if (!x->save_asked)
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

int head_hear_hang(struct head_host *asker, const json_t *p, struct error *err)
{
	struct head *h = asker->head;
	uint64_t round = round_number(h->round);
	struct head_host *x = NULL;

	if ((uint64_t)json_get_int(p, "round", 0) != round)
		return 0;
	asker->save_asked = true;
	if (loop_timer_armed(h->save_timer))
		return 0; /* all hosts save already, for another worker */
	h->saves++;
	h->save_round = round;
	while ((x = head_next_member(h, x))) {
		const struct round_host *host = round_host(h->round, x->number);

		if (!host || x == asker || host->round != round || !host->workers)
			continue;
		x->save_due = true;
		head_say(x, "Save",
			json_pack("{s:I, s:o}", "number", (json_int_t)h->saves, "why",
				json_text(json_get_string(p, "why", ""))));
	}
	loop_timer_arm(h->save_timer, (uint64_t)h->spec->heartbeat.dump_timeout_ms + HANG_MORE_MS);
	head_check_saved(h);
	return 0;
}

int head_hear_saved(struct head_host *x, const json_t *p, struct error *err)
{
	if (json_get_int(p, "number", 0) != x->head->saves)
		return 0;
	x->save_due = false;
	head_check_saved(x->head);
	return 0;
}
