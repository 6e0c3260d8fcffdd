/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side of the work queue: checks, and asks the side behind it. */
#include "worker/base/queue_handle.h"

/* What this thread was given last. */
static _Thread_local struct {
	const struct elasticd *h;
	pid_t pid;
	int64_t lease;
} taken;

int64_t work_lease(const struct elasticd *h)
{
	return taken.h == h && taken.pid == process_id() ? taken.lease : -1;
}

int elasticd_work_open(struct elasticd *h, struct elasticd_work **ret)
{
	struct elasticd_work *w;
	int r;

	if (h->control)
		return fail(ELASTICD_FAILED_PRECONDITION,
			"this handle is of no task: only tasks of a job do its work");
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail_memory();
	w->h = h;
	atomic_store(&w->pid, process_id());
	atomic_store(&w->lease, -1);
	r = h->side->queue->work_open(w);
	if (r)
		free(w);
	else
		*ret = w;
	return r;
}

void elasticd_work_close(struct elasticd_work *w)
{
	if (w && taken.h == w->h && taken.lease == atomic_load(&w->lease))
		taken.h = NULL;
	if (w)
		w->h->side->queue->work_close(w, atomic_load(&w->pid) == process_id());
	free(w);
}

/* In a child that got it from its parent it begins anew. */
static const struct queue_side *work_side(struct elasticd_work *w)
{
	const struct queue_side *side = w->h->side->queue;

	if (atomic_load(&w->pid) != process_id()) {
		side->work_renew(w);
		w->has = false;
		atomic_store(&w->lease, -1);
		atomic_store(&w->pid, process_id());
	}
	return side;
}

/* After each that may change what it has. */
static int work_came(struct elasticd_work *w, int r, bool closed, const struct elasticd_item **ret)
{
	int64_t ended = atomic_exchange(&w->lease, w->has ? w->item.lease : -1);

	if (w->has) {
		taken.h = w->h;
		taken.pid = process_id();
		taken.lease = w->item.lease;
	} else if (taken.h == w->h && taken.lease == ended) {
		taken.h = NULL;
	}
	if (r == 0 && ret)
		*ret = closed ? NULL : &w->item;
	return r;
}

int elasticd_work_next(struct elasticd_work *w, int timeout_ms, const struct elasticd_item **ret)
{
	const struct queue_side *side = work_side(w);
	bool closed = false;
	int r;

	if (w->has && !side->work_under_way(w))
		return fail(ELASTICD_FAILED_PRECONDITION,
			"the item that it has is to be answered first");
	r = side->work_next(w, timeout_ms, &closed);
	return work_came(w, r, closed, ret);
}

static int check_verdict(const struct verdict *v)
{
	const struct elasticd_failure *f = v->failure;
	int r;

	if (!f)
		return check_bytes("value", v->value);
	if (f->code <= ELASTICD_OK || f->code > ELASTICD_UNAUTHENTICATED)
		return fail(ELASTICD_INVALID_ARGUMENT, "code: expected 1 to %d, got %d",
			ELASTICD_UNAUTHENTICATED, f->code);
	/* Longer ones are cut, and what is no UTF-8 is replaced, where they are kept. */
	r = f->message ? 0 : check_text("message", NULL, 0);
	return !r && f->blame ? check_text("blame", f->blame, QUEUE_NAME_MAX) : r;
}

static int work_answer(struct elasticd_work *w, const struct verdict *v, bool next, int timeout_ms,
	const struct elasticd_item **ret)
{
	const struct queue_side *side = work_side(w);
	bool closed = false;
	int r;

	if (side->work_under_way(w))
		return next ? elasticd_work_next(w, timeout_ms, ret)
			    : fail(ELASTICD_FAILED_PRECONDITION,
				      "its answer is under way: elasticd_work_next() goes on");
	if (!w->has)
		return fail(ELASTICD_FAILED_PRECONDITION, "there is no item to be answered");
	r = check_verdict(v);
	if (r)
		return r;
	r = side->work_answer(w, v, next, timeout_ms, &closed);
	return work_came(w, r, closed, ret);
}

int elasticd_work_finish(struct elasticd_work *w, const struct elasticd_bytes *value)
{
	const struct verdict v = { .value = value };

	return work_answer(w, &v, false, -1, NULL);
}

int elasticd_work_fail(struct elasticd_work *w, const struct elasticd_failure *failure)
{
	const struct verdict v = { .failure = failure };

	return work_answer(w, &v, false, -1, NULL);
}

int elasticd_work_put_back(struct elasticd_work *w)
{
	const struct verdict v = { .back = true };

	return work_answer(w, &v, false, -1, NULL);
}

int elasticd_work_finish_next(struct elasticd_work *w, const struct elasticd_bytes *value,
	int timeout_ms, const struct elasticd_item **ret)
{
	const struct verdict v = { .value = value };

	return work_answer(w, &v, true, timeout_ms, ret);
}

int elasticd_work_fail_next(struct elasticd_work *w, const struct elasticd_failure *failure,
	int timeout_ms, const struct elasticd_item **ret)
{
	const struct verdict v = { .failure = failure };

	return work_answer(w, &v, true, timeout_ms, ret);
}

int elasticd_work_cancelled(struct elasticd_work *w)
{
	if (atomic_load(&w->lease) < 0)
		return 0;
	return w->h->side->queue->work_cancelled(w);
}
