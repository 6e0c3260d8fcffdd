/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the notice goes up, a memory barrier must run in every thread of every worker before the
 * steps are read: step() stores its number and then reads the notice without a barrier of its own,
 * so that it costs nothing.
 */
#include "agent/preempt/private.h"

#include "agent/sharing/service.h"
#include "common/base/log.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BOARD_COPIES = 8, BOARD_PAUSE_NS = 1000000 };

static void board_show(struct preempting *p, int64_t save_at)
{
	if (p->commons && p->commons->owner.notice)
		p->commons->owner.notice(p->commons->owner.arg, p->notice_word, save_at);
	else
		sharing_set_notice(p->sv, p->notice_word, save_at);
}

void preempting_board_up(struct preempting *p, int64_t save_at)
{
	p->notice_word |= 1;
	board_show(p, save_at);
}

void preempting_board_down(struct preempting *p)
{
	if (!(p->notice_word & 1))
		return;
	p->notice_word++;
	board_show(p, INT64_MIN);
}

/* The second call is slow but needs no registration by the workers. Where the kernel has neither, a
 * pause suffices: other processors see a store in far less than a millisecond. */
void preempting_barrier(void)
{
	static const struct timespec pause = { .tv_nsec = BOARD_PAUSE_NS };

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0 ||
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
		return;
	log_debug("membarrier: %s", strerror(errno));
	(void)nanosleep(&pause, NULL);
}

/* A worker may write its slot while this copies it, so it copies until two copies are equal. True:
 * the slot has the token of w's present start. */
static bool slot_copy(const struct supervisor *sv, const struct worker *w, struct preempt_sample *s)
{
	const struct board_slot *slot = sharing_board_slot(sv, w);

	for (int i = 0; slot && i < BOARD_COPIES; i++) {
		int64_t step = atomic_load_explicit(&slot->step, memory_order_relaxed);
		uint64_t steps = atomic_load_explicit(&slot->steps, memory_order_relaxed);

		slot = sharing_board_slot(sv, w);
		if (!slot)
			break;
		s->step = atomic_load_explicit(&slot->step, memory_order_relaxed);
		s->steps = atomic_load_explicit(&slot->steps, memory_order_relaxed);
		if (s->step == step && s->steps == steps)
			return atomic_load_explicit(&slot->token, memory_order_relaxed) == w->token;
	}
	return slot && atomic_load_explicit(&slot->token, memory_order_relaxed) == w->token;
}

void preempting_sample(
	const struct supervisor *sv, const struct worker *w, struct preempt_sample *s)
{
	bool beats;

	*s = (struct preempt_sample){ .slot = w->slot, .step = -1 };
	beats = slot_copy(sv, w, s);
	s->stepped = beats && s->steps > 0;
	s->connected = beats || sharing_has_called(sv, w);
}

void preempting_board_read(struct preempting *p, bool barrier)
{
	struct supervisor *sv = p->sv;
	_cleanup_free_ struct preempt_sample *all =
		calloc((size_t)supervisor_n_workers(sv) + 1, sizeof(*all));
	size_t n = 0;

	if (p->hosts_up) {
		p->commons->owner.read(p->commons->owner.arg, barrier);
		return;
	}
	if (barrier)
		preempting_barrier();
	if (!all)
		log_error("out of memory: the steps of the workers are not read");
	for (int i = 0; all && i < supervisor_n_workers(sv); i++)
		if (worker_alive(supervisor_worker(sv, i)))
			preempting_sample(sv, supervisor_worker(sv, i), &all[n++]);
	preempt_read(p->machine, all, n, loop_now_ms());
}

void preempting_board_last(struct preempting *p, const struct worker *w)
{
	struct preempt_sample s;

	preempting_sample(p->sv, w, &s);
	preempt_add_sample(p->machine, &s, loop_now_ms());
}
