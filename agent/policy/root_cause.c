/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/root_cause.h"

#include <stddef.h>

enum { SECOND_US = 1000000 };

int64_t root_cause_time(const struct root_cause *r, bool *ret_plausible)
{
	int64_t t = r->claimed_us;
	bool plausible = false;

	if (t >= 0 && r->claimed_whole) {
		/* Whole seconds are too coarse. The file's own time, if it is in that second or
		 * just after, is the same moment at full resolution. */
		if (r->written_us >= t && r->written_us < t + 2 * SECOND_US &&
			r->written_us >= r->start_us && r->written_us <= r->observed_us)
			t = r->written_us;
		else if (t < r->start_us && t + SECOND_US > r->start_us)
			t = r->start_us;
	}
	plausible = t >= 0 && t >= r->start_us && t <= r->observed_us;
	if (ret_plausible)
		*ret_plausible = plausible;
	return plausible ? t : r->observed_us;
}

/* Whether the agent stopped the worker, and nothing shows that it had failed before. */
static bool root_cause_is_collateral(const struct root_cause *r)
{
	bool plausible;
	int64_t t;

	if (r->stop_us < 0)
		return false;
	t = root_cause_time(r, &plausible);
	return !plausible || t >= r->stop_us;
}

struct root_cause_place root_cause_place(const struct root_cause *r)
{
	return (struct root_cause_place){
		.group = root_cause_is_collateral(r) ? ROOT_CAUSE_COLLATERAL : ROOT_CAUSE_ENDED_IT,
		.time_us = root_cause_time(r, NULL),
		.by_signal = r->by_signal,
		.out_of_memory = r->out_of_memory,
	};
}

static int64_t root_cause_key(const struct root_cause_place *p)
{
	return p->time_us - (p->out_of_memory ? ROOT_CAUSE_OOM_US : 0);
}

int root_cause_compare(const struct root_cause_place *a, const struct root_cause_place *b)
{
	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (root_cause_key(a) != root_cause_key(b))
		return root_cause_key(a) < root_cause_key(b) ? -1 : 1;
	return (int)b->by_signal - (int)a->by_signal;
}
