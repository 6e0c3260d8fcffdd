/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot of a worker has a connection of its own, which holds the lease of its item: when it ends,
 * the agent puts the item back. Where a signal ends a call before its answer is read, the next call
 * reads it. In a child of fork() the connection is its parent's.
 */
#include "worker/agent/queue_calls.h"
#include "worker/agent/queue_request.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/pool.h"
#include "worker/base/private_agent.h"
#include "worker/base/process_id.h"
#include "worker/base/values.h"
#include "worker/base/waiting.h"

#include "common/base/array.h"
#include "common/base/status.h"

#include <errno.h>
#include <string.h>

enum {
	LOOK_MS = 100, /* how often to call Look where no board counts cancelled leases */
};

static void item_drop(struct elasticd_queue_work *w)
{
	free(w->owned_text);
	free(w->owned_payload);
	w->owned_text = NULL;
	w->owned_payload = NULL;
}

static void pending_set(struct elasticd_queue_work *w, enum pending pending)
{
	w->pending = pending;
	if (pending == PENDING_NOTHING)
		varlink_buffer_fini(&w->call);
}

void work_fini(struct elasticd_queue_work *w)
{
	bool ours = atomic_load(&w->pid) == process_id();

	if (w->pool && ours && pool_is_ours(w->pool))
		conn_drop_at(w->pool, &w->conn);
	else
		conn_abandon(w->conn);
	if (w->pool)
		pool_unref(w->pool);
	pending_set(w, PENDING_NOTHING);
	item_drop(w);
	free(w->resources);
}

void work_renew(struct elasticd_queue_work *w)
{
	conn_abandon(w->conn);
	w->conn = NULL;
	w->pool = pool_ref(w->h);
	w->waiting = false;
	pending_set(w, PENDING_NOTHING);
	item_drop(w);
}

/* --- items */

static const char *const item_kinds[] = {
	[ELASTICD_ITEM_TASK] = "task",
	[ELASTICD_ITEM_BUILD] = "build",
	[ELASTICD_ITEM_CALL] = "call",
	[ELASTICD_ITEM_INIT] = "init",
};

/* 0, -ENOMEM, -EBADMSG. */
static int resources_take(struct elasticd_queue_work *w, size_t *ret_n)
{
	char *at = w->text.resources.at;
	struct answer_text one;
	size_t n = 0;

	while (at && answer_element(&at, &one)) {
		struct answer_text name = { one.at + 1, one.len - 2,
			memchr(one.at, '\\', one.len) };

		if (*one.at != '"')
			return -EBADMSG;
		if (array_reserve(
			    (void **)&w->resources, &w->resources_room, n + 1, sizeof(char *)) < 0)
			return -ENOMEM;
		w->resources[n++] = answer_in_place(&name);
	}
	*ret_n = n;
	return 0;
}

static int payload_take(struct elasticd_queue_work *w)
{
	struct elasticd_queue_item *item = &w->item;
	struct item_text *t = &w->text;
	int r;

	if (t->payload.at) {
		item->payload = answer_in_place(&t->payload);
		item->len = t->payload.len;
		return 0;
	}
	r = answer_bytes(&t->payload, &t->base64, &w->owned_payload, &item->len);
	item->payload = w->owned_payload ? w->owned_payload : "";
	return r;
}

/* Makes w->item of w->text. */
static int item_take(struct elasticd_queue_work *w)
{
	struct elasticd_queue_item *item = &w->item;
	struct item_text *t = &w->text;
	int r, kind = answer_name(&t->kind, item_kinds, ELASTICD_ITEM_INIT + 1);

	if (kind < 0)
		return -EBADMSG;
	*item = (struct elasticd_queue_item){
		.kind = (enum elasticd_item_kind)kind,
		.lease = t->lease,
		.limit_ms = t->limit_ms,
		.index = (int)t->index,
		.start = (int)t->start,
		.tries = (int)t->tries,
	};
	item->task = item->kind == ELASTICD_ITEM_TASK ? t->task : -1;
	r = resources_take(w, &item->n_resources);
	if (r == 0)
		r = payload_take(w);
	item->resources = w->resources;
	item->name = answer_in_place(&t->name);
	item->format = answer_in_place(&t->format);
	return r;
}

static const struct answer_member item_members[] = {
	ANSWER_MEMBER(struct item_text, ANSWER_TEXT, "kind", kind),
	ANSWER_MEMBER(struct item_text, ANSWER_INT, "lease", lease),
	ANSWER_MEMBER(struct item_text, ANSWER_INT, "task", task),
	ANSWER_MEMBER(struct item_text, ANSWER_TEXT, "name", name),
	ANSWER_MEMBER(struct item_text, ANSWER_TEXT, "payload", payload),
	ANSWER_MEMBER(struct item_text, ANSWER_TEXT, "base64", base64),
	ANSWER_MEMBER(struct item_text, ANSWER_TEXT, "format", format),
	ANSWER_MEMBER(struct item_text, ANSWER_RAW, "resources", resources),
	ANSWER_MEMBER(struct item_text, ANSWER_INT, "limit_ms", limit_ms),
	ANSWER_MEMBER(struct item_text, ANSWER_INT, "index", index),
	ANSWER_MEMBER(struct item_text, ANSWER_INT, "start", start),
	ANSWER_MEMBER(struct item_text, ANSWER_INT, "tries", tries),
};

/* The answer of Work, Finish, Fail and PutBack, which may have an item. */
struct got_work {
	struct answer_text item;
	struct elasticd_queue_work *work;
	bool came;
};
static const struct answer_member work_members[] = {
	ANSWER_MEMBER(struct got_work, ANSWER_RAW, "item", item),
};

static int got_work_keep(void *to)
{
	struct got_work *got = to;
	struct item_text *t = &got->work->text;

	*t = (struct item_text){ .lease = -1 };
	got->came = got->item.at != NULL;
	if (!got->came)
		return 0;
	return answer_object(got->item.at, item_members, ANSWER_N(item_members), t) && t->lease >= 0
		       ? 0
		       : -EBADMSG;
}

/* --- calls on the slot's connection */

/* How many leases of this process were cancelled, ever. */
static uint64_t cancelled_leases(const struct elasticd_queue_work *w)
{
	return atomic_load_explicit(&w->h->slot->cancels, memory_order_relaxed);
}

/* An item that cannot be read goes back to the agent with the connection. */
static enum elasticd_status fail_item(struct elasticd_queue_work *w, int r)
{
	if (w->conn)
		conn_drop_at(w->pool, &w->conn);
	return fail_reading(r);
}

/* The item came just before the slot was stopped, and cannot be answered any more: waits until the
 * agent has put it back. */
static enum elasticd_status refuse_item(struct elasticd_queue_work *w, struct got_work *got)
{
	const struct wait wait = { .timeout_ms = w->h->silence_ms };
	struct deadline d = deadline_begin(w->h, wait);
	char *text;
	size_t len;

	got->came = false;
	while (conn_receive(w->conn, &d, &text, &len) == 0)
		;
	conn_drop_at(w->pool, &w->conn);
	return fail_stopped();
}

/* Whether the slot may ask for an item, by the next work_call(). From then on the thread that stops
 * it waits until it has left that call, so that no item comes to it afterwards. */
static bool may_wait(struct elasticd_queue_work *w)
{
	return !w->pool || pool_begin_waiting(w->pool, w);
}

/* Makes w->call, or reads its answer where it was begun before (again). */
static enum elasticd_status work_call(struct elasticd_queue_work *w, bool again, struct wait wait,
	struct got_work *got, bool *ret_closed, bool *ret_answered)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	const struct answer_reader reader = { work_members, ANSWER_N(work_members), got,
		sizeof(got->item), got_work_keep };
	enum elasticd_status status;
	int r = 0;

	if (!w->pool)
		return fail_memory();
	*got = (struct got_work){ .work = w };
	if (again)
		pool_set_waiting(w->pool, w, wait.stopped != NULL);
	status = call_on(w->h, w->pool, &w->conn, &w->call, again, wait, &reader, &in);
	*ret_answered = !status || in.message;
	/* Without an answer the item's memory may be part of what is sent again. */
	if (*ret_answered)
		item_drop(w);
	if (!status && in.message)
		r = answer_read_parsed(&reader, in.parameters, &w->owned_text);
	if (!pool_end_waiting(w->pool, w)) {
		if (got->came)
			status = refuse_item(w, got);
		pool_set_waiting(w->pool, w, false);
	}
	/* By hand: no other thread is left that could submit a task. */
	if (status == ELASTICD_STATUS_FAILED_PRECONDITION && !*ret_answered && wait.endless)
		*ret_closed = true;
	if (in.error && strcmp(in.error, "io.elasticd.Queue.Closed") == 0)
		*ret_closed = true;
	if (*ret_closed)
		return ELASTICD_STATUS_OK;
	return r < 0 ? fail_item(w, r) : status;
}

static struct wait wait_for_item(const struct elasticd_queue_work *w, int timeout_ms)
{
	struct wait wait = WAIT_CALL(timeout_ms);

	wait.endless = w->h->by_hand && timeout_ms < 0;
	wait.stopped = &w->stopped;
	return wait;
}

/* The item that came, if any. */
static enum elasticd_status work_take(struct elasticd_queue_work *w, const struct got_work *got)
{
	int r;

	if (!got->came)
		return ELASTICD_STATUS_OK;
	r = item_take(w);
	w->has_item = r == 0;
	return r < 0 ? fail_item(w, r) : ELASTICD_STATUS_OK;
}

static enum elasticd_status work_send(
	struct elasticd_queue_work *w, int timeout_ms, bool *ret_closed)
{
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;
	struct got_work got;
	bool answered = false, had, stale;

	if (timeout_ms >= 0)
		params_int(&a, "timeout_ms", timeout_ms);
	if (params_message(&a, QUEUE_METHOD("Work"), false, &w->call) < 0)
		return fail_memory();
	/* A lease that is cancelled before the answer was read must be found, too. */
	atomic_store(&w->seen, cancelled_leases(w));
	do {
		if (!may_wait(w))
			return fail_stopped();
		had = w->conn != NULL;
		status = work_call(
			w, false, wait_for_item(w, timeout_ms), &got, ret_closed, &answered);
		/* An idle connection may have died unnoticed: try another one. */
		stale = had && !w->conn && !answered && status == ELASTICD_STATUS_UNAVAILABLE;
	} while (stale);
	pending_set(w, !answered && w->conn ? PENDING_WORK : PENDING_NOTHING);
	return status || *ret_closed ? status : work_take(w, &got);
}

/* --- answers to items */

/* Whether the slot still has its item after this refusal of an answer. */
static bool is_item_kept(enum elasticd_status status)
{
	return status == ELASTICD_STATUS_RESOURCE_EXHAUSTED ||
	       status == ELASTICD_STATUS_INVALID_ARGUMENT;
}

/* After Finish, Fail or PutBack, whether or not they were answered. */
static void item_answered(
	struct elasticd_queue_work *w, enum elasticd_status status, bool answered, bool next)
{
	if (!answered && w->conn) {
		pending_set(w, next ? PENDING_BOTH : PENDING_ANSWER);
		return;
	}
	pending_set(w, PENDING_NOTHING);
	/* Without its connection the slot has no item either. */
	if (!answered || !is_item_kept(status))
		w->has_item = false;
}

/* Reads the answer of the pending call. ret_late: its wait, with the limit that it had then, is
 * over. */
static enum elasticd_status pending_read(
	struct elasticd_queue_work *w, int timeout_ms, bool *ret_closed, bool *ret_late)
{
	bool answered = false, both = w->pending == PENDING_BOTH;
	struct wait wait = wait_for_item(w, timeout_ms);
	struct got_work got = { .work = w };
	enum elasticd_status status;

	if (w->pending == PENDING_ANSWER)
		wait = WAIT_PROMPT;
	status = work_call(w, true, wait, &got, ret_closed, &answered);
	*ret_late = answered && status == ELASTICD_STATUS_DEADLINE_EXCEEDED;
	if (w->pending == PENDING_WORK)
		pending_set(w, !answered && w->conn ? PENDING_WORK : PENDING_NOTHING);
	else
		item_answered(w, status, answered, both);
	return status || *ret_closed ? status : work_take(w, &got);
}

bool work_is_pending(const struct elasticd_queue_work *w)
{
	return w->pending == PENDING_BOTH;
}

static enum elasticd_status work_next(
	struct elasticd_queue_work *w, int timeout_ms, bool *ret_closed)
{
	int64_t end = clock_end(timeout_ms), left;
	enum elasticd_status status;
	bool late;

	if (w->pending == PENDING_NOTHING)
		return work_send(w, timeout_ms, ret_closed);
	status = pending_read(w, timeout_ms, ret_closed, &late);
	left = end - clock_ms();
	if (!late || (timeout_ms >= 0 && left <= 0))
		return status;
	return work_send(w, timeout_ms < 0 ? -1 : (int)left, ret_closed);
}

static void params_failure(struct params *a, const struct elasticd_queue_failure *f)
{
	params_text(a, "code", status_name((enum status)f->code));
	params_text_cut(a, "message", f->message, QUEUE_TEXT_MAX);
	params_text_cut(a, "details", f->details, QUEUE_DETAILS_MAX);
	params_true(a, "retryable", f->retryable);
	if (f->retryable)
		params_text(a, "blame", f->blame);
}

/* Returns the method. */
static const char *params_verdict(struct params *a, int64_t lease, const struct verdict *v)
{
	params_int(a, "lease", lease);
	if (v->back)
		return QUEUE_METHOD("PutBack");
	if (v->failure) {
		params_failure(a, v->failure);
		return QUEUE_METHOD("Fail");
	}
	if (v->value)
		params_bytes(a, "value", v->value->data ? v->value->data : "", v->value->len);
	if (*format_of(v->value))
		params_text(a, "format", v->value->format);
	return QUEUE_METHOD("Finish");
}

static enum elasticd_status answer_send(struct elasticd_queue_work *w, const struct verdict *v,
	bool next, int timeout_ms, struct got_work *got, bool *ret_closed)
{
	struct params a = PARAMS_EMPTY;
	const char *method = params_verdict(&a, w->item.lease, v);
	bool answered = false, waits = next && may_wait(w);
	enum elasticd_status status;

	params_true(&a, "next", waits);
	if (waits && timeout_ms >= 0)
		params_int(&a, "timeout_ms", timeout_ms);
	if (params_message(&a, method, false, &w->call) < 0) {
		if (waits && w->pool)
			pool_set_waiting(w->pool, w, false);
		return fail_memory();
	}
	if (waits)
		atomic_store(&w->seen, cancelled_leases(w));
	status = work_call(w, false, waits ? wait_for_item(w, timeout_ms) : WAIT_PROMPT, got,
		ret_closed, &answered);
	item_answered(w, status, answered, waits);
	return !status && next && !waits ? fail_stopped() : status;
}

static enum elasticd_status item_answer(struct elasticd_queue_work *w, const struct verdict *v,
	bool next, int timeout_ms, bool *ret_closed)
{
	struct got_work got = { .came = false };
	enum elasticd_status status;
	bool late;

	if (w->pending == PENDING_ANSWER) {
		status = pending_read(w, -1, ret_closed, &late);
		return status || !next ? status : work_next(w, timeout_ms, ret_closed);
	}
	status = answer_send(w, v, next, timeout_ms, &got, ret_closed);
	return status || *ret_closed ? status : work_take(w, &got);
}

/* --- by hand: where this thread is alone, an item that is not there never comes */

static bool is_alone(const struct elasticd_queue_work *w, int timeout_ms)
{
	return w->h->by_hand && timeout_ms < 0 && process_is_alone();
}

static enum elasticd_status alone_result(enum elasticd_status status, bool alone, bool *ret_closed)
{
	if (!alone || status != ELASTICD_STATUS_DEADLINE_EXCEEDED)
		return status;
	*ret_closed = true;
	return ELASTICD_STATUS_OK;
}

enum elasticd_status call_work(struct elasticd_queue_work *w, int timeout_ms, bool *ret_closed)
{
	bool alone = is_alone(w, timeout_ms);

	return alone_result(work_next(w, alone ? 0 : timeout_ms, ret_closed), alone, ret_closed);
}

enum elasticd_status call_answer(struct elasticd_queue_work *w, const struct verdict *v, bool next,
	int timeout_ms, bool *ret_closed)
{
	bool alone = next && is_alone(w, timeout_ms);

	return alone_result(
		item_answer(w, v, next, alone ? 0 : timeout_ms, ret_closed), alone, ret_closed);
}

/* --- cancellation */

struct got_look {
	struct answer_text reason;
	bool cancelled;
};
static const struct answer_member look_members[] = {
	ANSWER_MEMBER(struct got_look, ANSWER_BOOL, "cancelled", cancelled),
	ANSWER_MEMBER(struct got_look, ANSWER_TEXT, "reason", reason),
};

static int got_look_keep(void *to)
{
	struct got_look *got = to;
	char *reason;

	if (!got->cancelled)
		return 0;
	if (answer_copy(&got->reason, &reason, NULL) < 0)
		return -ENOMEM;
	fail(ELASTICD_STATUS_CANCELLED, "%s", *reason ? reason : "the task was cancelled");
	free(reason);
	return 0;
}

/* Asks the agent, on any connection: leases belong to the process. */
static enum elasticd_status lease_look(struct elasticd_queue_work *w, int64_t lease)
{
	struct got_look got = { .cancelled = false };
	const struct answer_reader reader = { look_members, ANSWER_N(look_members), &got,
		sizeof(got), got_look_keep };
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	params_int(&a, "lease", lease);
	status = call_read(w->h, QUEUE_METHOD("Look"), &a, WAIT_PROMPT, &reader);
	if (!status && got.cancelled)
		return ELASTICD_STATUS_CANCELLED;
	/* The agent does not know the lease: it is over. */
	return status == ELASTICD_STATUS_NOT_FOUND ? ELASTICD_STATUS_CANCELLED : status;
}

/* Whether a lease may have been cancelled since the last look. */
static bool is_look_due(struct elasticd_queue_work *w, uint64_t *ret_count)
{
	int64_t now;

	*ret_count = cancelled_leases(w);
	if (w->h->board_mapped || w->h->by_hand)
		return *ret_count != atomic_load(&w->seen);
	now = clock_ms();
	if (now < atomic_load(&w->look_at))
		return false;
	atomic_store(&w->look_at, now + LOOK_MS);
	return true;
}

enum elasticd_status call_look(struct elasticd_queue_work *w)
{
	int64_t lease = atomic_load(&w->lease);
	enum elasticd_status status;
	uint64_t count;

	if (lease < 0 || !is_look_due(w, &count))
		return ELASTICD_STATUS_OK;
	status = lease_look(w, lease);
	if (status == ELASTICD_STATUS_CANCELLED)
		atomic_store(&w->look_at, 0);
	else if (status == ELASTICD_STATUS_OK)
		atomic_store(&w->seen, count);
	return status;
}
