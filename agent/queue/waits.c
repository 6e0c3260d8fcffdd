/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait for the machine, from their step until their answer. */
#include "agent/queue/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void dispatch_wait_drop(struct dispatch_wait *x)
{
	struct dispatch *d = x->d;

	LIST_REMOVE(x, all);
	d->waiting_bytes -= x->kept_bytes;
	free(x->ids);
	free(x->many);
	free(x->kept);
	free(x);
}

static void wait_gone(void *arg)
{
	struct dispatch_wait *x = arg;
	struct dispatch *d = x->d;

	dispatch_repeat_remember(x);
	queue_wait_fini(d->q, &x->wait, loop_now_ms());
	dispatch_wait_drop(x);
	dispatch_run_soon(d);
}

struct dispatch_wait *dispatch_wait_new(
	struct dispatch *d, struct varlink_call *call, void (*answer)(struct dispatch_wait *x))
{
	struct dispatch_wait *x;

	if (d->stopping[0] && varlink_call_user(call)) {
		sharing_fail(call, STATUS_CANCELLED, "%s", d->stopping);
		return NULL;
	}
	x = calloc(1, sizeof(*x));
	if (!x) {
		dispatch_no_memory(call);
		return NULL;
	}
	dispatch_now(d);
	LIST_INSERT_HEAD(&d->waits, x, all);
	x->wait.arg = x;
	x->wait.outside = !varlink_call_user(call);
	x->d = d;
	x->call = call;
	x->answer = answer;
	return x;
}

bool dispatch_wait_charge(struct dispatch_wait *x, size_t bytes)
{
	struct dispatch *d = x->d;

	if (bytes > DISPATCH_WAITING_BYTES || d->waiting_bytes > DISPATCH_WAITING_BYTES - bytes)
		return false;
	x->kept_bytes += bytes;
	d->waiting_bytes += bytes;
	return true;
}

int dispatch_wait_begun(struct dispatch_wait *x)
{
	varlink_call_on_gone(x->call, wait_gone, x);
	dispatch_run(x->d);
	return 0;
}

int dispatch_wait_begun_by(struct dispatch_wait *x, int64_t own)
{
	struct varlink_call *call = x->call;
	struct dispatch *d = x->d;
	int r;

	if (x->wait.is_over || own < 0)
		return dispatch_wait_begun(x);
	queue_wait_fini(d->q, &x->wait, d->now_ms);
	dispatch_wait_drop(x);
	r = dispatch_refuse_own_task(call, own);
	dispatch_run(d);
	return r;
}

static int queue_failed(const struct dispatch_wait *x)
{
	json_t *p = json_object();

	json_put(p, "error", dispatch_error_json(x->d, &x->wait.error));
	if (x->wait.exit_code >= 0)
		json_put_int(p, "exit_code", x->wait.exit_code);
	if (x->wait.forgotten > 0)
		json_put_int(p, "forgotten", (int64_t)x->wait.forgotten);
	dispatch_group_told(x->d, x->call);
	dispatch_repeat_remember_error(x, p);
	return varlink_error(x->call, "QueueFailed", p);
}

void dispatch_wait_over(struct dispatch_wait *x)
{
	struct dispatch *d = x->d;

	if (x->wait.failed_queue)
		queue_failed(x);
	else if (x->wait.status != STATUS_OK)
		sharing_fail_missing(NULL, x->call, x->wait.status, x->wait.text, NULL, 0);
	else
		x->answer(x);
	queue_wait_fini(d->q, &x->wait, d->now_ms);
	dispatch_wait_drop(x);
}

static void wait_cancel(struct dispatch_wait *x, const char *why)
{
	struct dispatch *d = x->d;

	sharing_fail(x->call, STATUS_CANCELLED, "%s", why);
	queue_wait_fini(d->q, &x->wait, loop_now_ms());
	dispatch_wait_drop(x);
}

void dispatch_waits_stop(struct dispatch *d, const char *why)
{
	struct dispatch_wait *x, *next;

	snprintf(d->stopping, sizeof(d->stopping), "%s", why);
	for (x = LIST_FIRST(&d->waits); x; x = next) {
		next = LIST_NEXT(x, all);
		/* Only calls on worker.sock have a user. A result is still answered, but a task
		 * that Work was given and has not answered stays in the queue. */
		if (varlink_call_user(x->call) && (!x->wait.is_over || x->holder))
			wait_cancel(x, why);
	}
}

void dispatch_waits_shut(struct dispatch *d, const void *holder)
{
	struct dispatch_wait *x, *next;

	for (x = LIST_FIRST(&d->waits); x; x = next) {
		next = LIST_NEXT(x, all);
		if (x->holder == holder)
			wait_cancel(x, "this connection is shut for writing");
	}
}

void dispatch_waits_go(struct dispatch *d)
{
	d->stopping[0] = '\0';
}

uint64_t dispatch_now(struct dispatch *d)
{
	return d->now_ms = loop_now_ms();
}

uint64_t dispatch_deadline(const struct dispatch *d, int64_t timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : d->now_ms + (uint64_t)timeout_ms;
}
