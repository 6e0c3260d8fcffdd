/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of methods, what many of them need, and the small ones. */
#include "agent/queue/private.h"
#include "common/text/base64.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <string.h>

/* --- parts of all calls --- */

bool dispatch_is_job(const struct dispatch *d, struct varlink_call *call, const char *job)
{
	if (d->several && !d->commons) {
		sharing_fail(call, STATUS_FAILED_PRECONDITION,
			"the host that leads the group has its work queue: ask there");
		return false;
	}
	if (!job || !strcmp(job, supervisor_spec(d->sv)->name) ||
		!strcmp(job, supervisor_options(d->sv)->run))
		return true;
	varlink_error(call, "NotFound", manager_no_job(job));
	return false;
}

int dispatch_caller(const struct dispatch_endpoint *endpoint, const struct varlink_call *call)
{
	return endpoint->workers ? sharing_slot_of(call) : -1;
}

bool dispatch_is_worker(const struct dispatch_endpoint *endpoint, struct varlink_call *call)
{
	if (endpoint->workers)
		return true;
	sharing_fail(call, STATUS_FAILED_PRECONDITION,
		"%s is for the job's own processes, by ELASTICD_WORKER_SOCKET",
		varlink_call_method(call));
	return false;
}

int dispatch_no_memory(struct varlink_call *call)
{
	return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

int dispatch_refuse(struct varlink_call *call, int r, const struct error *err)
{
	if (r != -EINVAL)
		return dispatch_no_memory(call);
	return sharing_fail(call, STATUS_INVALID_ARGUMENT, "%s", err->text);
}

int dispatch_ids(struct varlink_call *call, const json_t *list, int64_t **ret, size_t *ret_n)
{
	size_t n = json_array_size(list), i;
	int64_t *ids = calloc(n + 1, sizeof(*ids));
	const json_t *id;

	if (!ids) {
		dispatch_no_memory(call);
		return -ENOMEM;
	}
	json_array_foreach (list, i, id)
		ids[i] = json_integer_value(id);
	*ret = ids;
	*ret_n = n;
	return 0;
}

/* The bytes of the one that is there, of the two; no bytes where none is. */
static int bytes_take(const struct flat_field *text, const struct flat_field *base64,
	struct queue_bytes *ret, void **ret_owned, struct error *err)
{
	int r;

	if (text) {
		ret->data = text->string;
		ret->len = text->len;
	}
	if (!base64)
		return 0;
	r = base64_decode(base64->string, base64->len, ret_owned, &ret->len);
	if (r == -EINVAL)
		return error_set(err, r, "base64: expected base64 with padding and nothing else");
	ret->data = *ret_owned;
	return r;
}

int dispatch_bytes(const struct flat *p, const char *name, struct queue_bytes *ret,
	void **ret_owned, struct error *err)
{
	const struct flat_field *text = flat_get(p, name), *base64 = flat_get(p, "base64");
	int r;

	*ret_owned = NULL;
	*ret = (struct queue_bytes){ .data = "", .format = flat_text(p, "format", "") };
	if (text && base64)
		return error_set(err, -EINVAL, "%s, base64: expected one of them, got both", name);
	if (strlen(ret->format) > QUEUE_FORMAT_MAX)
		return error_set(err, -EINVAL, "format: expected at most %d bytes, got %zu",
			QUEUE_FORMAT_MAX, strlen(ret->format));
	r = bytes_take(text, base64, ret, ret_owned, err);
	if (r < 0 || ret->len <= QUEUE_VALUE_MAX)
		return r;
	return error_set(err, -EINVAL, "%s: expected at most %d bytes, got %zu",
		base64 ? "base64" : name, QUEUE_VALUE_MAX, ret->len);
}

struct dispatch_wait_options dispatch_wait_options_of(const struct flat *p)
{
	return (struct dispatch_wait_options){ .timeout_ms = flat_int(p, "timeout_ms", -1),
		.lease = flat_int(p, "lease", -1),
		.number = flat_int(p, "once", 0),
		.release = flat_bool(p, "release") };
}

/* --- waits without a result --- */

static const char *queue_of(const struct flat *p)
{
	return flat_text(p, "queue", "");
}

static void answer_empty(struct dispatch_wait *x)
{
	varlink_reply_text(x->call, "{}", 2);
}

int64_t dispatch_own_task(const struct dispatch_endpoint *endpoint, const struct varlink_call *call,
	const struct dispatch_wait_options *opt, const char *queue, const int64_t *ids, size_t n)
{
	/* A wait with a time limit cannot last for ever. */
	if (opt->timeout_ms >= 0)
		return -1;
	return queue_own_task(
		endpoint->d->q, dispatch_caller(endpoint, call), opt->lease, queue, ids, n);
}

int dispatch_refuse_own_task(struct varlink_call *call, int64_t task)
{
	return sharing_fail(call, STATUS_FAILED_PRECONDITION, QUEUE_DEADLOCK_TEXT, (long long)task);
}

static int method_join(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	struct dispatch_wait_options opt = dispatch_wait_options_of(p);
	uint64_t repeat_key = dispatch_repeat_key(opt.number, queue_of(p));
	struct dispatch_wait *x = NULL;

	if (dispatch_is_job(d, call, flat_text(p, "job", NULL)) &&
		!dispatch_repeat_answer(d, call, repeat_key))
		x = dispatch_wait_new(d, call, answer_empty);
	if (!x)
		return 0;
	x->repeat_key = repeat_key;
	queue_join(d->q, &x->wait, queue_of(p), dispatch_deadline(d, opt.timeout_ms), d->now_ms);
	return dispatch_wait_begun_by(
		x, dispatch_own_task(endpoint, call, &opt, queue_of(p), NULL, 0));
}

static int reply_done(struct varlink_call *call, bool done)
{
	const char *text = done ? "{\"done\":true}" : "{\"done\":false}";

	return varlink_reply_text(call, text, strlen(text));
}

static void answer_done(struct dispatch_wait *x)
{
	reply_done(x->call, true);
}

static void answer_not_done(struct dispatch_wait *x)
{
	reply_done(x->call, false);
}

/* True while tasks that the queue's error has cancelled still run. */
static bool has_error(const struct dispatch *d, const char *queue)
{
	struct queue_stats s;

	queue_stats(d->q, queue, &s);
	return s.has_error;
}

static int method_done(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	struct dispatch_wait_options opt = dispatch_wait_options_of(p);
	const char *queue = queue_of(p);
	uint64_t repeat_key = dispatch_repeat_key(opt.number, queue);
	struct dispatch_wait *x = NULL;

	if (dispatch_is_job(d, call, flat_text(p, "job", NULL)) &&
		!dispatch_repeat_answer(d, call, repeat_key))
		x = dispatch_wait_new(d, call, answer_done);
	if (!x)
		return 0;
	x->repeat_key = repeat_key;
	queue_done(d->q, &x->wait, queue, dispatch_deadline(d, opt.timeout_ms), d->now_ms);
	if (x->wait.is_over && x->wait.status == STATUS_DEADLINE_EXCEEDED && !has_error(d, queue)) {
		x->wait.status = STATUS_OK;
		x->answer = answer_not_done;
	}
	return dispatch_wait_begun_by(x, dispatch_own_task(endpoint, call, &opt, queue, NULL, 0));
}

static void answer_cancelled(struct dispatch_wait *x)
{
	sharing_reply_int(x->call, "cancelled", (int64_t)x->wait.accepted);
}

static int method_cancel(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	struct dispatch_wait_options opt = dispatch_wait_options_of(p);
	const json_t *list = flat_array(p, "tasks");
	_cleanup_free_ int64_t *ids = NULL;
	struct dispatch_wait *x;
	int64_t own;
	size_t n = 0;

	if (!dispatch_is_job(d, call, flat_text(p, "job", NULL)) ||
		(list && dispatch_ids(call, list, &ids, &n) != 0))
		return 0;
	own = dispatch_own_task(endpoint, call, &opt, queue_of(p), ids, n);
	if (own >= 0)
		return dispatch_refuse_own_task(call, own);
	x = dispatch_wait_new(d, call, answer_cancelled);
	if (!x)
		return 0;
	queue_cancel(d->q, &x->wait, queue_of(p), ids, n, flat_text(p, "reason", ""),
		dispatch_deadline(d, opt.timeout_ms), d->now_ms);
	return dispatch_wait_begun(x);
}

/* --- methods that do not wait --- */

static int method_release(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	_cleanup_free_ int64_t *ids = NULL;
	size_t n = 0;

	if (!dispatch_is_job(d, call, json_get_string(p, "job", NULL)) ||
		dispatch_ids(call, json_get_array(p, "tasks"), &ids, &n) != 0)
		return 0;
	n = queue_release(d->q, ids, n, dispatch_now(d));
	dispatch_run(d);
	return sharing_reply_int(call, "released", (int64_t)n);
}

static int method_close(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;

	if (!dispatch_is_job(d, call, json_get_string(p, "job", NULL)))
		return 0;
	queue_close(d->q, dispatch_now(d));
	dispatch_run(d);
	return varlink_reply_text(call, "{}", 2);
}

const struct varlink_method dispatch_methods[] = {
	{ "SubmitMany", dispatch_submit_many },
	{ "Release", method_release },
	{ "Close", method_close },
	{ "List", dispatch_list },
	{ "Stats", dispatch_stats },
	{ "Keep", dispatch_keep },
	{ "DropResource", dispatch_drop_resource },
	{ "Resources", dispatch_resources },
	{ "Fail", dispatch_fail },
	{ "PutBack", dispatch_put_back },
	{ "Look", dispatch_look },
	{ "Cancels", dispatch_cancels },
	{ NULL, NULL },
};

const struct varlink_flat_method dispatch_flat_methods[] = {
	{ "Finish", dispatch_finish },
	{ "Submit", dispatch_submit },
	{ "Fetch", dispatch_fetch },
	{ "Work", dispatch_work },
	{ "Done", method_done },
	{ "FetchMany", dispatch_fetch_many },
	{ "Join", method_join },
	{ "Cancel", method_cancel },
	{ "CreateResource", dispatch_create_resource },
	{ "Call", dispatch_call_all },
	{ NULL, NULL },
};
