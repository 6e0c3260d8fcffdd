/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/lease.h"

#include <assert.h>
#include <stddef.h>

void lease_begin(struct lease_member *m, uint64_t lease_ms, uint64_t now_ms)
{
	assert(lease_ms >= LEASE_MIN_MS);
	*m = (struct lease_member){
		.lease_ms = lease_ms, .sent_ms = now_ms, .deadline_ms = UINT64_MAX
	};
}

bool lease_holds(struct lease_member *m, uint64_t now_ms)
{
	if (now_ms >= m->deadline_ms)
		m->over = true;
	return !m->over && m->deadline_ms != UINT64_MAX;
}

bool lease_answer(struct lease_member *m, uint64_t sent_ms, uint64_t now_ms)
{
	lease_holds(m, now_ms);
	if (!m->over && sent_ms >= m->sent_ms) {
		m->sent_ms = sent_ms;
		m->deadline_ms = sent_ms + m->lease_ms - m->lease_ms / 10;
	}
	return lease_holds(m, now_ms);
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
