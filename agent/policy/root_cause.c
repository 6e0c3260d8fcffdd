/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/root_cause.h"

#include <stddef.h>

enum { SECOND_US = 1000000 };

int64_t rootcause_time(const struct rootcause *r, bool *ret_plausible)
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
static bool rootcause_is_collateral(const struct rootcause *r)
{
	bool plausible;
	int64_t t;

	if (r->stop_us < 0)
		return false;
	t = rootcause_time(r, &plausible);
	return !plausible || t >= r->stop_us;
}

struct rootcause_place rootcause_place(const struct rootcause *r)
{
	return (struct rootcause_place){
		.group = rootcause_is_collateral(r) ? ROOTCAUSE_COLLATERAL : ROOTCAUSE_ENDED_IT,
		.time_us = rootcause_time(r, NULL),
		.by_signal = r->by_signal,
		.out_of_memory = r->out_of_memory,
	};
}

static int64_t rootcause_key(const struct rootcause_place *p)
{
	return p->time_us - (p->out_of_memory ? ROOTCAUSE_OOM_US : 0);
}

int rootcause_compare(const struct rootcause_place *a, const struct rootcause_place *b)
{
	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (rootcause_key(a) != rootcause_key(b))
		return rootcause_key(a) < rootcause_key(b) ? -1 : 1;
	return (int)b->by_signal - (int)a->by_signal;
}
