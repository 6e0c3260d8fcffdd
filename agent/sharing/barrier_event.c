/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an event for a barrier at which workers have waited long: it names the worker that came
 * last, and says since when the others waited. A group may pass thousands of barriers in a second,
 * so a quick one costs nothing here, and of very many slow ones only some have events.
 */
#include "agent/sharing/private.h"
#include "common/text/duration.h"
#include "common/text/json.h"
#include "common/text/ranks.h"

#include <stdio.h>

enum {
	BARRIER_LONG_MS = 1000,
	BARRIER_FIRST_EVENTS = 30, /* at once */
	BARRIER_NEXT_MS = 60000,   /* for each one more */
	BARRIER_PARTS = 20, /* workers that come within a 20th of the whole time come together */
};

/* True when this event may be written. */
static bool barrier_event_allowed(struct commons *c, uint64_t now_ms)
{
	const uint64_t most = (uint64_t)BARRIER_FIRST_EVENTS * BARRIER_NEXT_MS;
	uint64_t since = now_ms - c->waits_at_ms;

	c->waits_credit_ms += c->waits_at_ms && since < most ? since : most;
	if (c->waits_credit_ms > most)
		c->waits_credit_ms = most;
	c->waits_at_ms = now_ms;
	if (c->waits_credit_ms < BARRIER_NEXT_MS) {
		c->waits_left_out++;
		return false;
	}
	c->waits_credit_ms -= BARRIER_NEXT_MS;
	return true;
}

static json_t *barrier_wait_json(const struct ranks *ranks, int64_t since_us)
{
	_cleanup_free_ char *text = ranks_to_string(ranks);

	return text ? json_pack("{s:I, s:s}", "since_us", (json_int_t)since_us, "ranks", text)
		    : NULL;
}

/* Since when workers have waited. Workers that came with the last one have not waited. */
static json_t *barrier_waits_json(const struct commons *c, const struct barrier_arrival *all,
	size_t n, uint64_t together_ms, uint64_t now_ms, int64_t now_us)
{
	json_t *waits = json_array();

	for (size_t i = 0, end; i < n && now_ms - all[i].at_ms > together_ms; i = end) {
		struct ranks ranks = { 0 };
		int r = 0;

		for (end = i; end < n && all[end].at_ms - all[i].at_ms <= together_ms && r == 0;
			end++) {
			int rank = c->slots[all[end].slot].rank;

			if (rank >= 0 && rank <= RANKS_MAX)
				r = ranks_add(&ranks, rank, rank);
		}
		if (ranks.n_ranges)
			(void)json_add(
				waits, barrier_wait_json(&ranks,
					       now_us - (int64_t)(now_ms - all[i].at_ms) * 1000));
		ranks_fini(&ranks);
	}
	return waits;
}

static json_t *barrier_event_json(struct commons *c, const struct barrier_over *over,
	const struct barrier_arrival *all, size_t n)
{
	bool passed = over->answer->status == STATUS_OK;
	json_t *data = json_object();

	json_put_string(data, "barrier", over->name);
	json_put_string(data, "first", commons_slot_name(c, all[0].slot));
	json_put_string(data, passed ? "last" : "status",
		passed ? commons_slot_name(c, all[n - 1].slot) : status_name(over->answer->status));
	if (c->waits_left_out)
		json_put_int(data, "left_out", c->waits_left_out);
	c->waits_left_out = 0;
	return data;
}

void barrier_event(
	struct commons *c, const struct barrier_over *over, uint64_t now_ms, int64_t now_us)
{
	_cleanup_free_ struct barrier_arrival *all = NULL;
	char text[1024], took[DURATION_TEXT_MAX];
	uint64_t waited_ms = 0;
	const char *last;
	json_t *data;
	size_t n = 0;

	if (now_ms - over->opened_ms < BARRIER_LONG_MS)
		return;
	all = barrier_arrivals(over, &n);
	if (all && n) /* the process that came first may have gone again */
		waited_ms = now_ms - all[0].at_ms;
	if (waited_ms < BARRIER_LONG_MS || !barrier_event_allowed(c, now_ms))
		return;
	data = barrier_event_json(c, over, all, n);
	json_put_int(data, "waited_ms", (int64_t)waited_ms);
	json_put(data, "waits",
		barrier_waits_json(c, all, n, waited_ms / BARRIER_PARTS, now_ms, now_us));
	duration_text((int64_t)waited_ms, took);
	last = commons_slot_name(c, all[n - 1].slot);
	if (over->answer->status == STATUS_OK)
		snprintf(text, sizeof(text),
			"workers waited %s for %.80s at the barrier \"%.256s\"", took, last,
			over->name);
	else
		snprintf(text, sizeof(text), "workers waited %s at the barrier \"%.256s\": %s",
			took, over->name, over->answer->message);
	c->owner.event(c->owner.arg, "barrier",
		over->answer->status == STATUS_OK ? c->slots[all[n - 1].slot].rank : -1, data,
		text);
}

void commons_barrier_over(void *arg, const struct barrier_over *over)
{
	barrier_event(arg, over, loop_now_ms(), (int64_t)loop_real_us());
}
