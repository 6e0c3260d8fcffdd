/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/lease.h"

#include <assert.h>
#include <stddef.h>

void lease_begin(struct lease_member *m, uint64_t lease_ms, uint64_t now_ms)
{
	assert(lease_ms >= LEASE_MIN_MS);
	*m = (struct lease_member){ .lease_ms = lease_ms, .deadline_ms = UINT64_MAX };
	lease_beat(m, now_ms);
}

uint64_t lease_beat(struct lease_member *m, uint64_t now_ms)
{
	m->beat++;
	m->sent_ms[m->beat % LEASE_BEATS] = now_ms;
	return m->beat;
}

bool lease_holds(struct lease_member *m, uint64_t now_ms)
{
	if (now_ms >= m->deadline_ms)
		m->over = true;
	return !m->over && m->answered;
}

bool lease_answer(struct lease_member *m, uint64_t beat, uint64_t now_ms)
{
	/* What has left the ring is more than a lease old; a beat not yet sent has no answer. */
	bool known = beat && beat <= m->beat && m->beat - beat < LEASE_BEATS;

	lease_holds(m, now_ms);
	if (!m->over && known && beat > m->answered) {
		m->answered = beat;
		m->deadline_ms = m->sent_ms[beat % LEASE_BEATS] + m->lease_ms - m->lease_ms / 10;
	}
	return lease_holds(m, now_ms);
}

uint64_t lease_beat_due_ms(const struct lease_member *m)
{
	return m->sent_ms[m->beat % LEASE_BEATS] + m->lease_ms / 5;
}

void lease_add(struct lease_head *h, struct lease_held *x, uint64_t now_ms)
{
	*x = (struct lease_held){ .before = h->newest, .came_ms = now_ms };
	if (h->newest)
		h->newest->after = x;
	else
		h->oldest = x;
	h->newest = x;
}

void lease_remove(struct lease_head *h, struct lease_held *x)
{
	if (x->before)
		x->before->after = x->after;
	else
		h->oldest = x->after;
	if (x->after)
		x->after->before = x->before;
	else
		h->newest = x->before;
	x->before = x->after = NULL;
}

void lease_came(struct lease_head *h, struct lease_held *x, uint64_t now_ms)
{
	lease_remove(h, x);
	lease_add(h, x, now_ms);
}

struct lease_held *lease_over(const struct lease_head *h, uint64_t now_ms)
{
	return lease_due_ms(h) <= now_ms ? h->oldest : NULL;
}

uint64_t lease_due_ms(const struct lease_head *h)
{
	return h->oldest ? h->oldest->came_ms + h->lease_ms : UINT64_MAX;
}
