/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/offset.h"

/* Times beyond this are no dates; sums of smaller ones do not overflow. */
static const int64_t beyond_us = INT64_MAX / 8;

static bool is_date(int64_t us)
{
	return us >= 0 && us < beyond_us;
}

void link_offset_put(struct link_offset *o, int64_t sent_us, int64_t trip_us, int64_t came_us,
	int64_t answered_us)
{
	int64_t held_us, way_us;
	unsigned at = o->n % LINK_OFFSET_SAMPLES;

	if (!is_date(sent_us) || !is_date(trip_us) || !is_date(came_us) || !is_date(answered_us))
		return;
	held_us = answered_us - came_us;
	if (held_us < 0 || held_us > trip_us)
		return;
	way_us = trip_us - held_us;
	o->samples[at].half_us = way_us / 2 + 1;
	/* If both ways took as long, the beat came half of them after it was sent. */
	o->samples[at].offset_us = came_us - (sent_us + way_us / 2);
	o->n++;
	if (o->n == 2 * LINK_OFFSET_SAMPLES)
		o->n = LINK_OFFSET_SAMPLES;
}

bool link_offset_get(
	const struct link_offset *o, int64_t *ret_offset_us, int64_t *ret_uncertainty_us)
{
	unsigned have = o->n < LINK_OFFSET_SAMPLES ? o->n : LINK_OFFSET_SAMPLES, best = 0;

	if (!have)
		return false;
	for (unsigned i = 1; i < have; i++)
		if (o->samples[i].half_us < o->samples[best].half_us)
			best = i;
	*ret_offset_us = o->samples[best].offset_us;
	*ret_uncertainty_us = o->samples[best].half_us;
	return true;
}
