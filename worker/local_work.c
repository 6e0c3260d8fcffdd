/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/local_queue.h"

#include <string.h>

int local_work_open(struct elasticd_work *w)
{
	struct local_place *p = calloc(1, sizeof(*p));
	struct queues *m;
	int r = p ? local_queue_enter(w->h, &m) : fail_memory();

	if (r) {
		free(p);
		return r;
	}
	p->w = w;
	local_place_add(p);
	local_unlock();
	w->place = p;
	return 0;
}

static void place_drop(struct local_place *p)
{
	p->lease = NULL;
	free(p->payload);
	p->payload = NULL;
}

/* A parent's slot is in its child's list, too. */
void local_work_close(struct elasticd_work *w, bool ours)
{
	struct local_place *p = w->place;

	local_lock();
	local_place_remove(local_machine(), p);
	local_unlock();
	place_drop(p);
	free(p);
}

/* It was put back when the child was made. */
void local_work_renew(struct elasticd_work *w)
{
	struct local_place *p = w->place;

	place_drop(p);
	p->under_way = false;
}

/* It may have been cancelled while its thread was on its way to it: nobody was told then. */
static void place_look(struct queues *m, struct local_place *p)
{
	const char *reason;
	bool cancelled;

	if (queue_look(m, 0, p->number, &cancelled, &reason) != STATUS_OK)
		return;
	text_cut(p->reason, sizeof(p->reason), reason);
	atomic_store(&p->cancelled, cancelled);
}

/* What came, under the lock. The lease stays the machine's. */
static int place_take(struct queues *m, struct elasticd_work *w, struct queue_lease *lease)
{
	struct local_place *p = w->place;
	struct queue_item_view v;

	queue_item(lease, &v);
	p->payload = malloc(v.payload.len + 1);
	if (!p->payload)
		return fail_memory();
	memcpy(p->payload, v.payload.len ? v.payload.data : "", v.payload.len);
	((char *)p->payload)[v.payload.len] = '\0';
	p->lease = lease;
	p->number = v.lease;
	p->thread = pthread_self();
	p->end = v.limit_ms > 0 ? clock_ms() + v.limit_ms : -1;
	atomic_store(&p->cancelled, false);
	place_look(m, p);
	w->item = (struct elasticd_item){
		.kind = (int)v.kind,
		.lease = v.lease,
		.task = v.task,
		.name = v.name ? v.name : "",
		.payload = p->payload,
		.len = v.payload.len,
		.format = v.payload.format ? v.payload.format : "",
		.resources = v.needs,
		.n_resources = v.n_needs,
		.limit_ms = v.limit_ms > 0 ? v.limit_ms : 0,
		.index = 0,
		.incarnation = v.incarnation,
		.attempt = (int)v.attempt,
	};
	w->has = true;
	return 0;
}

/* With the lock. */
static int next_locked(struct queues *m, struct elasticd_work *w, int timeout_ms, bool *ret_closed)
{
	struct local_ask a;
	bool over, alone = false;
	int r;

	local_ask_begin(&a, w->h);
	over = queue_work(m, &a.w, 0, w->place, local_deadline(timeout_ms), local_now());
	r = local_ask_wait(m, &a, over, timeout_ms, &alone);
	if (r == 0 && !alone && a.w.lease)
		r = place_take(m, w, a.w.lease);
	else if (r == 0)
		*ret_closed = true;
	local_ask_end(m, &a);
	/* What could not be taken goes back. */
	if (r && !w->has)
		queue_holder_gone(m, w->place, local_now());
	local_queue_settle(m);
	return r;
}

int local_work_next(struct elasticd_work *w, int timeout_ms, bool *ret_closed)
{
	struct queues *m;
	struct local_place *p = w->place;
	int r = local_queue_enter(w->h, &m);

	if (r)
		return r;
	r = next_locked(m, w, timeout_ms, ret_closed);
	p->under_way = p->under_way && r == ELASTICD_INTERRUPTED;
	local_unlock();
	return r;
}

static enum status answer_step(struct queues *m, struct local_place *p, const struct verdict *v)
{
	const struct elasticd_failure *f = v->failure;
	struct queue_bytes value = { "", 0, "" };
	struct queue_failure failure;

	if (v->back)
		return queue_put_back(m, p, p->number, local_now());
	if (f) {
		failure = (struct queue_failure){
			.code = (enum status)f->code,
			.message = f->message,
			.details = f->details ? f->details : "",
			.retryable = f->retryable,
			.blame = f->retryable ? f->blame : NULL,
		};
		return queue_fail(m, p, p->number, &failure, local_now());
	}
	if (v->value)
		value = (struct queue_bytes){
			v->value->data ? v->value->data : "",
			v->value->len,
			format_of(v->value),
		};
	return queue_finish(m, p, p->number, &value, local_now());
}

/* With the lock. */
static int answer_locked(struct queues *m, struct elasticd_work *w, const struct verdict *v)
{
	struct local_place *p = w->place;
	enum status s = answer_step(m, p, v);

	local_queue_settle(m);
	if (s == STATUS_RESOURCE_EXHAUSTED)
		return fail_memory();
	if (s == STATUS_INVALID_ARGUMENT)
		return fail(ELASTICD_INVALID_ARGUMENT, "the answer is too long");
	w->has = false;
	place_drop(p);
	if (s == STATUS_OK)
		return 0;
	return fail(ELASTICD_ABORTED, "%s",
		atomic_load(&p->cancelled) ? p->reason : "the item is over");
}

int local_work_answer(struct elasticd_work *w, const struct verdict *v, bool next, int timeout_ms,
	bool *ret_closed)
{
	struct local_place *p = w->place;
	struct queues *m;
	int r = local_queue_enter(w->h, &m);

	if (r)
		return r;
	r = answer_locked(m, w, v);
	if (r == 0 && next) {
		r = next_locked(m, w, timeout_ms, ret_closed);
		p->under_way = r == ELASTICD_INTERRUPTED;
	}
	local_unlock();
	return r;
}

bool local_work_under_way(const struct elasticd_work *w)
{
	const struct local_place *p = w->place;

	return p->under_way;
}

bool local_work_cancelled(struct elasticd_work *w)
{
	struct local_place *p = w->place;
	bool cancelled;

	/* A limit is kept by who looks at it. */
	if (!atomic_load(&p->cancelled) && (p->end < 0 || clock_ms() < p->end))
		return false;
	local_lock();
	local_queue_expire(local_machine());
	cancelled = p->lease && atomic_load(&p->cancelled);
	if (cancelled)
		fail(ELASTICD_CANCELLED, "%s", *p->reason ? p->reason : "the task was cancelled");
	local_unlock();
	return cancelled;
}
