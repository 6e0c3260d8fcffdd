/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a slot are written by one worker only, so counting needs no locked add, which costs
 * many times more. Where two threads count at once, one of the two may be lost; that does no harm.
 */
#include "worker/api/preemption.h"
#include "worker/base/handle.h"

#include <time.h>

#define RELAXED memory_order_relaxed

static inline void count(_Atomic uint64_t *n)
{
	atomic_store_explicit(n, atomic_load_explicit(n, RELAXED) + 1, RELAXED);
}

static inline void beat(struct elasticd *h)
{
	struct board_slot *s = h->slot;

	count(&s->beats);
	/* Each beat checks the token: it shows where a process was replaced and still beats. */
	if (atomic_load_explicit(&s->token, RELAXED) != h->token)
		atomic_store_explicit(&s->token, h->token, memory_order_release);
}

/* Notes the first step of the process: from its time the agent knows how long the start took, and
 * how fast steps are, without looking at the board meanwhile. */
static void note_first(struct board_slot *s, int64_t n)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	atomic_store_explicit(&s->first_step, n, RELAXED);
	atomic_store_explicit(
		&s->first_us, (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000, RELAXED);
}

void elasticd_beat(struct elasticd *h)
{
	beat(h);
}

enum elasticd_status elasticd_step(struct elasticd *h, int64_t n, enum elasticd_action *ret_action)
{
	struct board_slot *s = h->slot;

	if (!atomic_load_explicit(&s->steps, RELAXED))
		note_first(s, n);
	atomic_store_explicit(&s->step, n, RELAXED);
	count(&s->steps);
	beat(h);
	/* The step must be visible before the look for a notice; see worker/base/fences.h. */
	if (atomic_load_explicit(h->fences, RELAXED))
		__sync_synchronize();
	else
		atomic_signal_fence(memory_order_seq_cst);
	if ((atomic_load_explicit(&h->header->notice, RELAXED) & 1) ||
		atomic_load_explicit(&h->header->error, RELAXED))
		return preemption_step(h, n, ret_action);
	if (ret_action)
		*ret_action = ELASTICD_ACTION_CONTINUE;
	return ELASTICD_STATUS_OK;
}

bool elasticd_notice(const struct elasticd *h)
{
	return atomic_load_explicit(&h->header->notice, RELAXED) & 1;
}

bool elasticd_stopping(const struct elasticd *h)
{
	return atomic_load_explicit(&h->header->stopping, RELAXED) > h->attempt;
}
