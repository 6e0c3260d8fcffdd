/* SPDX-License-Identifier: Apache-2.0 */
/* Fetch, FetchMany: outcomes of tasks, in as many answers as their bytes need. */
#include "agent/queue/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
	FETCH_MAX = 1 << 20,   /* tasks of one call */
	FETCH_WAIT_BYTES = 64, /* for each task, while the call waits */
};

/* True when the answer in d->text may go; else it has answered the call with an error. */
static bool answer_is_allowed(struct dispatch_wait *x)
{
	const struct json_writer *t = &x->d->text;

	if (t->failed) {
		dispatch_no_memory(x->call);
		return false;
	}
	return t->len < DISPATCH_LONG_BYTES || !x->workers || !sharing_too_much_unread(x->call);
}

static void fetch_answer(struct dispatch_wait *x, int64_t *ids, size_t n)
{
	struct dispatch *d = x->d;

	if (!answer_is_allowed(x))
		return;
	if (x->release)
		queue_release(d->q, ids, n, d->now_ms);
	dispatch_text_reply(d, x->call);
}

/* A caller that fetches a task which a loss has cancelled knows of the loss then. */
static void note_loss(const struct dispatch_wait *x, const struct queue_outcome *o)
{
	if (o->state == QUEUE_CANCELLED && o->error.code == STATUS_UNAVAILABLE)
		dispatch_group_told(x->d, x->call);
}

static void answer_one(struct dispatch_wait *x)
{
	struct json_writer *t = dispatch_text_begin(x->d);
	struct queue_outcome o;

	if (!queue_outcome(x->d->q, x->id, &o)) {
		sharing_fail(x->call, STATUS_NOT_FOUND, "task %" PRId64 " was released", x->id);
		return;
	}
	dispatch_put(t, "{\"outcome\":");
	note_loss(x, &o);
	dispatch_text_outcome(x->d, t, &o);
	dispatch_put(t, "}");
	fetch_answer(x, &x->id, 1);
}

static void answer_many(struct dispatch_wait *x)
{
	struct json_writer *t = dispatch_text_begin(x->d);
	struct queue_outcome o;
	size_t n = 0;

	dispatch_put(t, "{\"outcomes\":[");
	for (size_t i = 0; i < x->n && t->len < DISPATCH_ANSWER_BYTES && !t->failed; i++) {
		if (!queue_outcome(x->d->q, x->ids[i], &o) || o.state == QUEUE_QUEUED ||
			o.state == QUEUE_RUNNING)
			continue;
		if (n)
			dispatch_put(t, ",");
		note_loss(x, &o);
		dispatch_text_outcome(x->d, t, &o);
		x->ids[n++] = x->ids[i];
	}
	dispatch_put(t, "]}");
	fetch_answer(x, x->ids, n);
}

int dispatch_fetch(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	struct dispatch_wait_options opt = dispatch_wait_options_of(p);
	struct dispatch_wait *x = NULL;

	if (dispatch_is_job(d, call, flat_text(p, "job", NULL)) &&
		!dispatch_refuses_lost(d, call, flat_int(p, "task", -1)))
		x = dispatch_wait_new(d, call, answer_one);
	if (!x)
		return 0;
	x->workers = endpoint->workers;
	x->release = opt.release;
	x->id = flat_int(p, "task", -1);
	queue_fetch(
		d->q, &x->wait, &x->id, 1, false, dispatch_deadline(d, opt.timeout_ms), d->now_ms);
	return dispatch_wait_begun_by(x, dispatch_own_task(endpoint, call, &opt, NULL, &x->id, 1));
}

int dispatch_fetch_many(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	struct dispatch_wait_options opt = dispatch_wait_options_of(p);
	bool any = flat_bool(p, "any");
	const json_t *list = flat_array(p, "tasks");
	_cleanup_free_ int64_t *ids = NULL;
	struct dispatch_wait *x;
	size_t n = json_array_size(list);

	if (!dispatch_is_job(d, call, flat_text(p, "job", NULL)))
		return 0;
	if (!n || n > FETCH_MAX)
		return sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"tasks: expected 1 to %d, got %zu", FETCH_MAX, n);
	if (dispatch_ids(call, list, &ids, &n) != 0)
		return 0;
	for (size_t i = 0; i < n && d->lost[0]; i++)
		if (dispatch_refuses_lost(d, call, ids[i]))
			return 0;
	x = dispatch_wait_new(d, call, answer_many);
	if (!x)
		return 0;
	if (!dispatch_wait_charge(x, n * FETCH_WAIT_BYTES)) {
		dispatch_wait_drop(x);
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"more than %d bytes of calls wait already", DISPATCH_WAITING_BYTES);
	}
	x->workers = endpoint->workers;
	x->release = opt.release;
	x->ids = TAKE_PTR(ids);
	x->n = n;
	queue_fetch(
		d->q, &x->wait, x->ids, n, any, dispatch_deadline(d, opt.timeout_ms), d->now_ms);
	/* With any, the task of another worker may end the wait. */
	return dispatch_wait_begun_by(
		x, any && n > 1 ? -1 : dispatch_own_task(endpoint, call, &opt, NULL, x->ids, n));
}
