/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rootcause.h"

enum { SECOND_US = 1000000 };

int64_t rootcause_time(const struct rootcause *r, bool *ret_plausible)
{
	int64_t t = r->claimed_us;
	bool plausible = false;

	if (t >= 0 && r->claimed_whole) {
		/* Whole seconds say too little. The file's own time, where it lies in that second
		 * or just after, is the same moment at full resolution. */
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

bool rootcause_is_collateral(const struct rootcause *r)
{
	bool plausible;
	int64_t t;

	if (r->stop_us < 0)
		return false;
	t = rootcause_time(r, &plausible);
	return !plausible || t >= r->stop_us;
}

int rootcause_pick(const struct rootcause *r, size_t n)
{
	int best = -1;

	for (size_t i = 0; i < n; i++) {
		int64_t t, best_t;

		if (rootcause_is_collateral(&r[i]))
			continue;
		if (best < 0) {
			best = (int)i;
			continue;
		}
		t = rootcause_time(&r[i], NULL);
		best_t = rootcause_time(&r[best], NULL);
		if (t < best_t || (t == best_t && r[i].by_signal && !r[best].by_signal))
			best = (int)i;
	}
	return best;
}
