/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board's words are this task's alone, so a load and a store count as well as a locked add, at
 * a fraction of its cost: where two threads beat at once, one of two counts may be lost, and that
 * is as good as none lost.
 */
#include "worker/base/handle.h"

#define RELAXED memory_order_relaxed

static inline void count(_Atomic uint64_t *n)
{
	atomic_store_explicit(n, atomic_load_explicit(n, RELAXED) + 1, RELAXED);
}

static inline void beat(struct elasticd *h)
{
	struct board_slot *s = h->slot;

	count(&s->beats);
	/* Again in each beat: a process of the task that was replaced must not go unnoticed. */
	if (atomic_load_explicit(&s->token, RELAXED) != h->token)
		atomic_store_explicit(&s->token, h->token, memory_order_release);
}

static void full_barrier(void)
{
	__sync_synchronize();
}

void elasticd_beat(struct elasticd *h)
{
	beat(h);
}

int elasticd_step(struct elasticd *h, int64_t n)
{
	struct board_slot *s = h->slot;

	atomic_store_explicit(&s->step, n, RELAXED);
	count(&s->steps);
	beat(h);
	/* The agent that raises a notice and then reads the step must not miss it where this misses
	 * the notice. */
	if (atomic_load_explicit(h->fences, RELAXED))
		full_barrier();
	else
		atomic_signal_fence(memory_order_seq_cst);
	if (!(atomic_load_explicit(&h->header->notice, RELAXED) & 1) &&
		!atomic_load_explicit(&h->header->error, RELAXED))
		return ELASTICD_CONTINUE;
	return preempt_step(h, n);
}

int elasticd_notice(const struct elasticd *h)
{
	return (int)(atomic_load_explicit(&h->header->notice, RELAXED) & 1);
}

int elasticd_stopping(const struct elasticd *h)
{
	return atomic_load_explicit(&h->header->stopping, RELAXED) > h->attempt;
}
