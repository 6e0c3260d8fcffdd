/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preemption of a group of one: there is nobody to agree with. Whoever begins the next step after
 * the notice saves there, once, and leaves.
 */
#include "worker/local.h"

#include <string.h>
#include <time.h>

static struct board_header header; /* notice, save_at and error alone */

/* The rest is under the lock. */
static struct elasticd_preemption notice;
static bool told; /* to save at notice.step */

struct board_header *local_header(void)
{
	return &header;
}

static bool is_up(void)
{
	return atomic_load(&header.notice) & 1;
}

static int64_t real_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
}

static int step_locked(int64_t n, int *ret_action)
{
	int r = local_error_fail();

	if (r)
		return r;
	*ret_action = !is_up() ? ELASTICD_CONTINUE : told ? ELASTICD_EXIT : ELASTICD_SAVE_AND_EXIT;
	if (is_up() && !told) {
		told = true;
		notice.step = n;
	}
	return 0;
}

int local_step(struct elasticd *h, int64_t n, int *ret_action)
{
	int r = local_enter(h);

	if (r)
		return r;
	r = step_locked(n, ret_action);
	local_unlock();
	return r;
}

static int saved_locked(int64_t n)
{
	if (!is_up())
		return fail(ELASTICD_FAILED_PRECONDITION, "no notice of preemption is up");
	if (!told || n != notice.step)
		return fail(ELASTICD_OUT_OF_RANGE, "step: nothing was to be saved at step %lld",
			(long long)n);
	return 0;
}

int local_saved(struct elasticd *h, int64_t n, const char *path)
{
	int r = local_enter(h);

	if (r)
		return r;
	r = saved_locked(n);
	local_unlock();
	return r;
}

int local_preemption(struct elasticd *h, struct elasticd_preemption *ret)
{
	int r = local_enter(h);

	if (r)
		return r;
	if (is_up())
		*ret = notice;
	else
		r = fail(ELASTICD_NOT_FOUND, "no notice of preemption is up");
	local_unlock();
	return r;
}

/* The first one says why; another one may say that there is less time. */
static void notify_locked(const char *reason, int64_t grace_ms)
{
	int64_t now = real_us(), deadline = -1;

	if (grace_ms > 0 && grace_ms < (INT64_MAX - now) / 1000)
		deadline = now + grace_ms * 1000;
	if (!is_up()) {
		notice = (struct elasticd_preemption){ .source = "worker",
			.time_us = now,
			.deadline_us = deadline,
			.step = -1,
			.final = true,
			.exit_code = WORKER_EXIT_CODE };
		text_cut(notice.reason, sizeof(notice.reason), reason);
		atomic_store(&header.save_at, INT64_MIN);
		atomic_store(&header.notice, 1);
	} else if (deadline >= 0 && (notice.deadline_us < 0 || deadline < notice.deadline_us)) {
		notice.deadline_us = deadline;
	}
}

int local_notify(struct elasticd *h, const char *reason, int64_t grace_ms)
{
	int r = local_enter(h);

	if (r)
		return r;
	notify_locked(reason, grace_ms);
	local_unlock();
	return 0;
}
