/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/clock_offset.h"

#include <stddef.h>

static const struct clock_estimate *clock_offset_at(const struct clock_offset *c, unsigned age)
{
	return &c->beats[(c->n - 1 - age) % CLOCK_OFFSET_BEATS];
}

static bool clock_offset_agree(const struct clock_estimate *a, const struct clock_estimate *b)
{
	int64_t apart = a->offset_us - b->offset_us;

	return (apart < 0 ? -apart : apart) <= a->uncertainty_us + b->uncertainty_us;
}

static bool clock_is_date(int64_t us)
{
	return us >= 0 && us < CLOCK_BEYOND_US;
}

/* Returns false where the times cannot be those of one beat. */
static bool clock_offset_estimate(const struct clock_beat *beat, struct clock_estimate *ret)
{
	int64_t there, trip;

	if (!clock_is_date(beat->sent_us) || !clock_is_date(beat->came_us) ||
		!clock_is_date(beat->answered_us) || !clock_is_date(beat->back_us))
		return false;
	there = beat->came_us - beat->sent_us;
	trip = there + beat->back_us - beat->answered_us;
	if (trip < 0 || beat->answered_us < beat->came_us || beat->back_us < beat->sent_us)
		return false;
	*ret = (struct clock_estimate){
		.offset_us = there - trip / 2,
		.uncertainty_us = trip / 2 + 1, /* 1 for the rest of the division */
	};
	return true;
}

bool clock_offset_add(struct clock_offset *c, const struct clock_beat *beat)
{
	struct clock_estimate e;

	if (!clock_offset_estimate(beat, &e))
		return false;
	c->beats[c->n++ % CLOCK_OFFSET_BEATS] = e;
	if (c->kept < CLOCK_OFFSET_BEATS)
		c->kept++;
	for (unsigned age = 1; age < c->kept; age++)
		if (!clock_offset_agree(&e, clock_offset_at(c, age)))
			c->kept = age;
	return true;
}

bool clock_offset_get(const struct clock_offset *c, struct clock_estimate *ret)
{
	const struct clock_estimate *best = NULL;

	for (unsigned age = 0; age < c->kept; age++) {
		const struct clock_estimate *e = clock_offset_at(c, age);

		if (!best || e->uncertainty_us < best->uncertainty_us)
			best = e;
	}
	if (best)
		*ret = *best;
	return best;
}
