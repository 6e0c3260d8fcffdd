/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

/*
 * A worker hangs: all hosts dump their workers before any is ended, since the worker that stands
 * still is seldom the one at fault. Hosts dump side by side. After a limit, those that have not are
 * named.
 */

enum { HANG_MORE_MS = 2000 }; /* for the way to a host and back */

static bool hang_all_dumped(const struct head *h)
{
	const struct head_host *x = NULL;

	while ((x = head_next_member(h, x)))
		if (x->dump_due)
			return false;
	return true;
}

/* Sends AllDumped to the hosts that wait, with the names of those that have not dumped. */
static void hang_over(struct head *h)
{
	_cleanup_json_ json_t *missing = json_array(), *body = json_object();
	struct head_host *x = NULL;

	loop_timer_disarm(h->dump_timer);
	while ((x = head_next_member(h, x))) {
		const char *name = head_host_name(h, x->number);

		if (!x->dump_due)
			continue;
		x->dump_due = false;
		json_add(missing, json_string(name));
		head_event(h, LOG_WARNING, "host-not-dumped", h->attempt - 1,
			json_pack("{s:s}", "host", name),
			"host %s has not dumped its workers in time", name);
	}
	json_put(body, "missing", json_incref(missing));
	json_put_int(body, "round", (int64_t)h->dump_round);
	while ((x = head_next_member(h, x))) {
		if (!x->dump_awaited)
			continue;
		x->dump_awaited = false;
		head_say(x, "AllDumped", json_incref(body));
	}
}

void head_dumps_late(void *arg)
{
	hang_over(arg);
}

void head_check_dumped(struct head *h)
{
	if (loop_timer_armed(h->dump_timer) && hang_all_dumped(h))
		hang_over(h);
}

int head_hear_hang(struct head_host *asker, const json_t *p, struct error *err)
{
	struct head *h = asker->head;
	uint64_t round = round_number(h->round);
	struct head_host *x = NULL;

	if ((uint64_t)json_get_int(p, "round", 0) != round)
		return 0;
	asker->dump_awaited = true;
	if (loop_timer_armed(h->dump_timer))
		return 0; /* all hosts dump already, for another worker */
	h->dumps++;
	h->dump_round = round;
	while ((x = head_next_member(h, x))) {
		const struct round_host *host = round_host(h->round, x->number);

		if (!host || x == asker || host->round != round || !host->workers)
			continue;
		x->dump_due = true;
		head_say(x, "Dump",
			json_pack("{s:I, s:o}", "number", (json_int_t)h->dumps, "why",
				json_text(json_get_string(p, "why", ""))));
	}
	loop_timer_arm(h->dump_timer, (uint64_t)h->spec->heartbeat.dump_timeout_ms + HANG_MORE_MS);
	head_check_dumped(h);
	return 0;
}

int head_hear_dumped(struct head_host *x, const json_t *p, struct error *err)
{
	if (json_get_int(p, "number", 0) != x->head->dumps)
		return 0;
	x->dump_due = false;
	head_check_dumped(x->head);
	return 0;
}
