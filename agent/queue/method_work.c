/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of workers: they get items, and end leases. A lease's holder is its connection. */
#include "agent/queue/private.h"
#include "common/text/json.h"

#include <inttypes.h>
#include <string.h>

static void answer_item(struct dispatch_wait *x)
{
	struct dispatch *d = x->d;
	struct json_writer *t = dispatch_text_begin(d);
	struct queue_item_view item;

	if (!x->wait.lease) {
		varlink_error(x->call, "Closed",
			json_pack("{s:s}", "message", "there will be no more tasks"));
		return;
	}
	queue_item(x->wait.lease, &item);
	x->wait.lease = NULL;
	dispatch_put(t, "{\"item\":");
	dispatch_text_item(d, t, &item);
	dispatch_put(t, "}");
	if (!t->failed && (t->len < DISPATCH_LONG_BYTES || !sharing_too_much_unread(x->call))) {
		dispatch_text_reply(d, x->call);
		return;
	}
	if (t->failed)
		dispatch_no_memory(x->call);
	(void)queue_put_back(d->q, x->holder, item.lease, d->now_ms);
}

static int work_begin(struct dispatch *d, struct varlink_call *call, int64_t timeout_ms)
{
	struct dispatch_wait *x = dispatch_wait_new(d, call, answer_item);

	if (!x) {
		dispatch_run(d); /* a lease may have ended before */
		return 0;
	}
	x->holder = varlink_call_user(call);
	queue_work(d->q, &x->wait, sharing_slot_of(call), x->holder,
		dispatch_deadline(d, timeout_ms), d->now_ms);
	return dispatch_wait_begun(x);
}

int dispatch_work(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;

	if (!dispatch_is_worker(endpoint, call))
		return 0;
	return work_begin(endpoint->d, call, flat_int(p, "timeout_ms", -1));
}

/* --- the end of a lease --- */

/* Answers why the machine did not end the lease. */
static int lease_refuse(
	struct dispatch *d, struct varlink_call *call, enum status status, int64_t lease)
{
	const char *reason;
	bool cancelled;

	if (status == STATUS_RESOURCE_EXHAUSTED)
		return dispatch_no_memory(call);
	if (status != STATUS_ABORTED)
		return sharing_fail(
			call, status, "lease %" PRId64 ": %s", lease, status_name(status));
	if (queue_look(d->q, sharing_slot_of(call), lease, &cancelled, &reason) == STATUS_OK)
		return sharing_fail(
			call, status, "lease %" PRId64 " belongs to another connection", lease);
	return sharing_fail(call, status,
		"lease %" PRId64 " was cancelled, or does not belong to this connection", lease);
}

/* Answers the call that ended a lease, or tried to. */
static int lease_ended(struct dispatch *d, struct varlink_call *call, enum status status,
	int64_t lease, bool next, int64_t timeout_ms)
{
	if (status == STATUS_OK && next)
		return work_begin(d, call, timeout_ms);
	dispatch_run(d);
	if (status != STATUS_OK)
		return lease_refuse(d, call, status, lease);
	return varlink_reply_text(call, "{}", 2);
}

int dispatch_finish(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	int64_t lease = flat_int(p, "lease", -1);
	_cleanup_free_ void *owned = NULL;
	struct queue_bytes value;
	struct error err = { 0 };
	int r;

	if (!dispatch_is_worker(endpoint, call))
		return 0;
	r = dispatch_bytes(p, "value", &value, &owned, &err);
	if (r < 0)
		return dispatch_refuse(call, r, &err);
	return lease_ended(d, call,
		queue_finish(d->q, varlink_call_user(call), lease, &value, dispatch_now(d)), lease,
		flat_bool(p, "next"), flat_int(p, "timeout_ms", -1));
}

int dispatch_fail(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	const char *code = json_get_string(p, "code", "");
	int64_t lease = json_get_int(p, "lease", -1);
	struct queue_failure f = {
		.message = json_get_string(p, "message", ""),
		.details = json_get_string(p, "details", ""),
		.retryable = json_get_bool(p, "retryable", false),
		.blame = json_get_string(p, "blame", NULL),
	};
	int status = status_from_name(code);

	if (!dispatch_is_worker(endpoint, call))
		return 0;
	if (status <= STATUS_OK)
		return sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"code: expected the name of an error, such as Internal, got \"%.60s\"",
			code);
	f.code = (enum status)status;
	return lease_ended(d, call,
		queue_fail(d->q, varlink_call_user(call), lease, &f, dispatch_now(d)), lease,
		json_get_bool(p, "next", false), json_get_int(p, "timeout_ms", -1));
}

int dispatch_put_back(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	int64_t lease = json_get_int(p, "lease", -1);

	if (!dispatch_is_worker(endpoint, call))
		return 0;
	return lease_ended(d, call,
		queue_put_back(d->q, varlink_call_user(call), lease, dispatch_now(d)), lease, false,
		0);
}

int dispatch_look(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	int64_t lease = json_get_int(p, "lease", -1);
	const char *reason = NULL;
	bool cancelled = false;
	json_t *answer;

	if (!dispatch_is_worker(endpoint, call))
		return 0;
	if (queue_look(endpoint->d->q, sharing_slot_of(call), lease, &cancelled, &reason) !=
		STATUS_OK)
		return sharing_fail(call, STATUS_NOT_FOUND,
			"lease %" PRId64 ": this process has no such lease, or it is over", lease);
	answer = json_object();
	json_put(answer, "cancelled", json_boolean(cancelled));
	if (cancelled)
		json_put_string(answer, "reason", reason);
	return varlink_reply(call, answer);
}
