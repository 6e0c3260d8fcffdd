/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/tenure.h"

#include "agent/rounds/numbers.h"

enum { TURN_MS = 200 };

void tenure_begin(struct tenure *t, const struct tenure_times *times)
{
	*t = (struct tenure){ .times = *times };
}

void tenure_kept(struct tenure *t, uint64_t sent_ms, uint64_t ttl_ms)
{
	uint64_t margin = t->times.lease_ms / 10;

	if (ttl_ms > margin)
		t->kept_ms = max_ms(t->kept_ms, later_ms(sent_ms, ttl_ms - margin));
}

void tenure_lost(struct tenure *t)
{
	t->lost = true;
}

void tenure_gone(struct tenure *t, uint64_t now_ms)
{
	t->kept_ms = min_ms(t->kept_ms, now_ms);
}

enum tenure_right tenure_check(const struct tenure_keys *keys)
{
	if (keys->lead != TENURE_NONE)
		return keys->lead == TENURE_KNOWN ? TENURE_LEADS : TENURE_OVER;
	if (keys->state == TENURE_OTHER || keys->run == TENURE_OTHER)
		return TENURE_OVER;
	if (keys->state == TENURE_KNOWN && keys->run == TENURE_KNOWN)
		return TENURE_RECLAIM;
	return keys->waits ? TENURE_OVER : TENURE_RECLAIM_ALL;
}

bool tenure_confirmed(const struct tenure *t, uint64_t now_ms)
{
	return !t->lost && now_ms < t->kept_ms;
}

uint64_t tenure_until_ms(const struct tenure *t, uint64_t acked_ms)
{
	uint64_t alone = later_ms(acked_ms, t->times.lease_ms / 5 * 3);

	if (t->lost)
		return 0;
	return max_ms(t->kept_ms, min_ms(alone, later_ms(t->kept_ms, t->times.store_loss_ms)));
}

void tenure_past_begin(struct tenure_past *p, const struct tenure_times *times, uint64_t led_ms)
{
	*p = (struct tenure_past){ .times = *times, .led_ms = led_ms, .heard_ms = TENURE_NEVER };
}

void tenure_past_heard(struct tenure_past *p, uint64_t answered_ms)
{
	p->heard_ms = min_ms(p->heard_ms, answered_ms);
}

uint64_t tenure_past_gone_ms(const struct tenure_past *p, bool head)
{
	uint64_t lease = p->times.lease_ms, tenth = lease / 10;

	if (p->heard_ms == TENURE_NEVER)
		return later_ms(p->led_ms, later_ms(p->times.store_loss_ms, lease));
	/* 6 tenths: the old head may have gone on so long without the store (tenure_until_ms()).
	 * One more: its own workers had that to die. */
	if (head)
		return max_ms(p->led_ms, later_ms(p->heard_ms, 7 * tenth));
	return max_ms(later_ms(p->led_ms, lease), later_ms(p->heard_ms, lease + 6 * tenth));
}

uint64_t tenure_turn_ms(int rank, int head_rank, int hosts)
{
	if (hosts <= 0)
		return 0;
	if (rank < 0)
		return TURN_MS + (uint64_t)hosts;
	return rank == (head_rank + 1) % hosts ? 0 : TURN_MS + (uint64_t)rank;
}
