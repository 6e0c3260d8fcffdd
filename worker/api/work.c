/* SPDX-License-Identifier: Apache-2.0 */
/* The work queue, for workers. */
#include "worker/agent/queue_calls.h"
#include "worker/api/binding.h"
#include "worker/base/checks.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/pool.h"
#include "worker/base/process_id.h"

enum elasticd_status elasticd_queue_work_open(struct elasticd *h, struct elasticd_queue_work **ret)
{
	struct elasticd_queue_work *w;

	if (h->outside)
		return fail(ELASTICD_STATUS_FAILED_PRECONDITION,
			"this handle is not a worker's: only workers of a job do its tasks");
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail_memory();
	w->h = h;
	w->pool = pool_ref(h);
	if (!w->pool) {
		free(w);
		return fail_memory();
	}
	atomic_store(&w->pid, process_id());
	atomic_store(&w->lease, -1);
	*ret = w;
	return ELASTICD_STATUS_OK;
}

/* Waits until the agent has put the item back, so that a caller finds it in the queue after that.
 */
static void work_put_back(struct elasticd_queue_work *w)
{
	const struct verdict v = { .back = true };
	enum elasticd_status status = ELASTICD_STATUS_INTERRUPTED;
	bool closed = false;

	while (status == ELASTICD_STATUS_INTERRUPTED && w->has_item)
		status = call_answer(w, &v, false, -1, &closed);
}

void elasticd_queue_work_stop(struct elasticd_queue_work *w)
{
	if (w->pool)
		pool_stop(w->pool, w);
}

void elasticd_queue_work_close(struct elasticd_queue_work *w)
{
	if (!w)
		return;
	if (atomic_load(&w->pid) == process_id() && !work_is_pending(w))
		work_put_back(w);
	thread_lease_end(w->h, atomic_load(&w->lease));
	work_fini(w);
	free(w);
}

/* In a child of fork() the slot starts without an item. */
static void work_ensure_ours(struct elasticd_queue_work *w)
{
	if (atomic_load(&w->pid) == process_id())
		return;
	work_renew(w);
	w->has_item = false;
	atomic_store(&w->lease, -1);
	atomic_store(&w->pid, process_id());
}

/* After each call that may change the item. */
static enum elasticd_status work_result(struct elasticd_queue_work *w, enum elasticd_status status,
	bool closed, const struct elasticd_queue_item **ret)
{
	int64_t ended = atomic_exchange(&w->lease, w->has_item ? w->item.lease : -1);

	if (w->has_item)
		thread_lease_set(w->h, w->item.lease);
	else
		thread_lease_end(w->h, ended);
	if (!status && ret)
		*ret = closed ? NULL : &w->item;
	return status;
}

enum elasticd_status elasticd_queue_work_next(
	struct elasticd_queue_work *w, int timeout_ms, const struct elasticd_queue_item **ret)
{
	enum elasticd_status status;
	bool closed = false;

	work_ensure_ours(w);
	if (w->has_item && !work_is_pending(w))
		return fail(ELASTICD_STATUS_FAILED_PRECONDITION,
			"answer the item that this slot has first");
	status = call_work(w, timeout_ms, &closed);
	return work_result(w, status, closed, ret);
}

static enum elasticd_status check_verdict(const struct verdict *v)
{
	const struct elasticd_queue_failure *f = v->failure;
	enum elasticd_status status;

	if (!f)
		return check_bytes("value", v->value);
	status = check_code(f->code);
	/* A long message is cut later, and bytes that are not UTF-8 are replaced. */
	if (!status && !f->message)
		status = check_text("message", NULL, 0);
	return !status && f->blame ? check_text("blame", f->blame, QUEUE_NAME_MAX) : status;
}

static enum elasticd_status work_answer(struct elasticd_queue_work *w, const struct verdict *v,
	bool next, int timeout_ms, const struct elasticd_queue_item **ret)
{
	enum elasticd_status status;
	bool closed = false;

	work_ensure_ours(w);
	if (work_is_pending(w))
		return next ? elasticd_queue_work_next(w, timeout_ms, ret)
			    : fail(ELASTICD_STATUS_FAILED_PRECONDITION,
				      "the item's answer is on its way: "
				      "elasticd_queue_work_next() goes on");
	if (!w->has_item)
		return fail(ELASTICD_STATUS_FAILED_PRECONDITION, "there is no item to be answered");
	status = check_verdict(v);
	if (status)
		return status;
	status = call_answer(w, v, next, timeout_ms, &closed);
	return work_result(w, status, closed, ret);
}

enum elasticd_status elasticd_queue_work_finish(
	struct elasticd_queue_work *w, const struct elasticd_queue_bytes *value)
{
	const struct verdict v = { .value = value };

	return work_answer(w, &v, false, -1, NULL);
}

enum elasticd_status elasticd_queue_work_fail(
	struct elasticd_queue_work *w, const struct elasticd_queue_failure *failure)
{
	const struct verdict v = { .failure = failure };

	return work_answer(w, &v, false, -1, NULL);
}

enum elasticd_status elasticd_queue_work_put_back(struct elasticd_queue_work *w)
{
	const struct verdict v = { .back = true };

	return work_answer(w, &v, false, -1, NULL);
}

enum elasticd_status elasticd_queue_work_finish_next(struct elasticd_queue_work *w,
	const struct elasticd_queue_bytes *value, int timeout_ms,
	const struct elasticd_queue_item **ret)
{
	const struct verdict v = { .value = value };

	return work_answer(w, &v, true, timeout_ms, ret);
}

enum elasticd_status elasticd_queue_work_fail_next(struct elasticd_queue_work *w,
	const struct elasticd_queue_failure *failure, int timeout_ms,
	const struct elasticd_queue_item **ret)
{
	const struct verdict v = { .failure = failure };

	return work_answer(w, &v, true, timeout_ms, ret);
}

enum elasticd_status elasticd_queue_work_cancelled(struct elasticd_queue_work *w)
{
	return atomic_load(&w->lease) < 0 ? ELASTICD_STATUS_OK : call_look(w);
}
