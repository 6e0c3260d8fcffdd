/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of workers about a notice of preemption, or an error of the group. A Step that waits ends
 * with its answer, its connection, its process, the group, or an error with which all calls fail.
 *
 * That error is one that a worker reported. The end of a worker is not such an error: the agent
 * decides whether the others go on without it.
 */
#include "agent/preempt/private.h"
#include "agent/sharing/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

enum { PATH_BYTES_MAX = 4096, REASON_BYTES_MAX = 4096 };

#define GRACE_MS_MAX (INT64_C(1) << 41) /* decades: as good as no limit */

static const char *order_name(enum preempt_order order)
{
	switch (order) {
	case PREEMPT_SAVE:
		return "save";
	case PREEMPT_SAVE_EXIT:
		return "save_exit";
	case PREEMPT_EXIT:
		return "exit";
	default:
		return "continue";
	}
}

static int reply_order(
	struct supervisor *sv, struct varlink_call *call, enum preempt_order order, int64_t at)
{
	_cleanup_json_ json_t *notice = preempting_notice_json(sv);
	json_t *p = json_object(), *deadline = json_object_get(notice, "deadline_us");

	json_put_string(p, "action", order_name(order));
	if (notice && at >= 0)
		json_put_int(p, "at", at);
	json_put_int(p, "exit_code", supervisor_preempted_status(sv));
	if (deadline)
		json_put(p, "deadline_us", json_incref(deadline));
	return varlink_reply(call, p);
}

/* Takes the Step of slot that waits; NULL: there is none. */
static struct varlink_call *step_take(struct preempting *p, int slot)
{
	struct preempting_worker *pw = preempting_worker_of(p->sv, slot);
	struct varlink_call *call = pw ? pw->step : NULL;

	if (call)
		pw->step = NULL;
	return call;
}

/* The same, and drops its question. That may end all other Steps that wait. */
static struct varlink_call *step_withdraw(struct preempting *p, int slot)
{
	struct varlink_call *call = step_take(p, slot);

	if (!call)
		return NULL;
	preempt_drop_question(p->machine, slot);
	preempting_run(p);
	return call;
}

static void step_gone(void *arg)
{
	struct varlink_call *call = arg;

	(void)step_withdraw(preempting_of(sharing_supervisor_of(call)), sharing_slot_of(call));
}

void preempting_answer(struct preempting *p, const struct preempt_do *d)
{
	struct varlink_call *call = step_take(p, d->worker);

	if (call)
		(void)reply_order(p->sv, call, d->order, d->step);
}

static int reply_error(
	const struct commons *c, struct varlink_call *call, const struct members_error *error)
{
	json_t *p = json_object();

	json_put(p, "error", sharing_error_json(c, error));
	return varlink_error(call, "GroupFailed", p);
}

/* --- methods --- */

static int worker_step(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = sharing_supervisor_of(call);
	const struct commons *c = sharing_commons_of(call);
	const struct members_error *error = members_reported_error(c->members);
	int slot = sharing_slot_of(call);
	const struct worker *w = commons_worker(c, slot);
	int64_t step = json_get_int(p, "step", 0);
	struct preempting_worker *pw;

	if (error)
		return reply_error(c, call, error);
	if (c->stopping)
		return sharing_fail(call, STATUS_CANCELLED, "%s", c->why ? c->why : "");
	pw = w && preempting_is_up(sv) ? preempting_worker_of(sv, slot) : NULL;
	if (!pw)
		return reply_order(sv, call, PREEMPT_CONTINUE, step);
	if (pw->step)
		return sharing_fail(call, STATUS_FAILED_PRECONDITION,
			"another Step of %s waits already", commons_slot_name((void *)c, slot));
	pw->step = call;
	varlink_call_on_gone(call, step_gone, call);
	preempt_add_question(preempting_of(sv)->machine, slot, step, loop_now_ms());
	preempting_run(preempting_of(sv));
	return 0;
}

static int worker_saved(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = sharing_supervisor_of(call);
	struct worker *w = commons_worker(sharing_commons_of(call), sharing_slot_of(call));
	const char *path = json_get_string(p, "path", NULL);
	struct error err = { 0 };
	int r;

	if (path && strlen(path) > PATH_BYTES_MAX)
		return sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"path: expected at most %d bytes, got %zu", PATH_BYTES_MAX, strlen(path));
	r = w ? preempting_saved(sv, w, json_get_int(p, "step", 0), path, &err)
	      : error_set(&err, -ENOENT, "the worker is gone");
	if (r == 0)
		return varlink_reply(call, NULL);
	return sharing_fail(call,
		r == -ERANGE   ? STATUS_OUT_OF_RANGE
		: r == -ENOENT ? STATUS_FAILED_PRECONDITION
			       : STATUS_RESOURCE_EXHAUSTED,
		"%s", err.text);
}

static int worker_preemption(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = sharing_supervisor_of(call);
	json_t *notice = preempting_notice_json(sv), *answer;

	if (!notice)
		return sharing_fail(call, STATUS_NOT_FOUND, "no notice of preemption is up");
	answer = json_object();
	json_put(answer, "notice", notice);
	json_put_int(answer, "exit_code", supervisor_preempted_status(sv));
	return varlink_reply(call, answer);
}

/* True when w gets its signal because it is being stopped: that is no notice for all. */
static bool being_stopped(const struct commons *c, const struct worker *w)
{
	return c->stopping || !w || !worker_alive(w) || w->state == WORKER_STOPPING ||
	       w->on_purpose || w->stop_us;
}

static int worker_notify(struct varlink_call *call, json_t *p, void *arg)
{
	const struct commons *c = sharing_commons_of(call);
	struct preempting_notice n = {
		.source = "worker",
		.reason = json_get_string(p, "reason", ""),
		.grace_ms = json_get_int(p, "grace_ms", SPEC_UNSET),
		.deadline_us = SPEC_UNSET,
	};
	struct error err = { 0 };
	int r;

	if (n.grace_ms > GRACE_MS_MAX)
		n.grace_ms = GRACE_MS_MAX;
	if (strlen(n.reason) > REASON_BYTES_MAX)
		return sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"reason: expected at most %d bytes, got %zu", REASON_BYTES_MAX,
			strlen(n.reason));
	if (being_stopped(c, commons_worker(c, sharing_slot_of(call))))
		return sharing_fail(
			call, STATUS_FAILED_PRECONDITION, "this worker is being stopped");
	r = preempting_notice(sharing_supervisor_of(call), &n, &err);
	if (r == -ESHUTDOWN)
		return sharing_fail(call, STATUS_FAILED_PRECONDITION, "%s", err.text);
	if (r < 0)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "%s", err.text);
	return varlink_reply(call, NULL);
}

const struct varlink_method preempting_worker_methods[] = {
	{ "Step", worker_step },
	{ "Saved", worker_saved },
	{ "Preemption", worker_preemption },
	{ "Notify", worker_notify },
	{ NULL, NULL },
};

/* --- events of the group --- */

void preempting_group_error(struct supervisor *sv)
{
	struct preempting *p = preempting_of(sv);
	const struct members_error *error =
		p && p->commons ? members_reported_error(p->commons->members) : NULL;

	for (int i = 0; error && i < p->n_workers; i++) {
		struct varlink_call *call = step_withdraw(p, i);

		if (call)
			(void)reply_error(p->commons, call, error);
	}
}

void preempting_worker_exited(struct supervisor *sv, struct worker *w)
{
	struct preempting *p = preempting_of(sv);
	struct varlink_call *call = step_withdraw(p, w->slot);

	if (call)
		sharing_fail(call, STATUS_ABORTED, "the process of %s has ended",
			commons_slot_name(p->commons, w->slot));
}

void preempting_steps_stop(struct preempting *p)
{
	for (int i = 0; p->commons && i < p->n_workers; i++) {
		struct varlink_call *call = step_withdraw(p, i);

		if (call)
			sharing_fail(call, STATUS_CANCELLED, "%s",
				p->commons->why ? p->commons->why : "");
	}
}
