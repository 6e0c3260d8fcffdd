/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of workers about a notice of preemption, or an error of the group. A Step that waits is a
 * sharing_step_wait; it ends with its answer, its connection, its process, the group, or an error
 * with which all calls fail.
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

struct sharing_step_wait {
	LIST_ENTRY(sharing_step_wait) link;
	struct preempting *p;
	struct varlink_call *call;
	int slot;
};

/* The caller has answered the call, or the call is gone. */
static void step_wait_free(struct sharing_step_wait *x)
{
	LIST_REMOVE(x, link);
	free(x);
}

/* Drops the question. */
static void step_wait_withdraw(struct sharing_step_wait *x)
{
	struct preempting *p = x->p;
	struct worker *w = preempting_worker_in(p, x->slot);

	/* preempting_drop_question() may end all waiting questions. */
	step_wait_free(x);
	if (w)
		preempting_drop_question(p->sv, w);
}

static void step_wait_gone(void *arg)
{
	step_wait_withdraw(arg);
}

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

static void step_wait_answer(void *arg, enum preempt_order order, int64_t at)
{
	struct sharing_step_wait *x = arg;
	struct supervisor *sv = x->p->sv;
	struct varlink_call *call = x->call;

	step_wait_free(x);
	(void)reply_order(sv, call, order, at);
}

static int reply_error(
	const struct commons *c, struct varlink_call *call, const struct members_error *error)
{
	json_t *p = json_object();

	json_put(p, "error", sharing_error_json(c, error));
	return varlink_error(call, "GroupFailed", p);
}

static struct sharing_step_wait *step_wait_of(const struct preempting *p, int slot)
{
	struct sharing_step_wait *x;

	LIST_FOREACH (x, &p->step_waits, link)
		if (x->slot == slot)
			return x;
	return NULL;
}

/* --- methods --- */

static int worker_step(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = sharing_supervisor_of(call);
	const struct commons *c = sharing_commons_of(call);
	const struct members_error *error = members_reported_error(c->members);
	int slot = sharing_slot_of(call);
	struct worker *w = commons_worker(c, slot);
	int64_t step = json_get_int(p, "step", 0);
	struct sharing_step_wait *x;

	if (error)
		return reply_error(c, call, error);
	if (c->stopping)
		return sharing_fail(call, STATUS_CANCELLED, "%s", c->why ? c->why : "");
	if (!w || !preempting_is_up(sv))
		return reply_order(sv, call, PREEMPT_CONTINUE, step);
	if (step_wait_of(preempting_of(sv), slot))
		return sharing_fail(call, STATUS_FAILED_PRECONDITION,
			"another Step of %s waits already", commons_slot_name((void *)c, slot));
	x = calloc(1, sizeof(*x));
	if (!x)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	*x = (struct sharing_step_wait){ .p = preempting_of(sv), .call = call, .slot = slot };
	LIST_INSERT_HEAD(&x->p->step_waits, x, link);
	varlink_call_on_gone(call, step_wait_gone, x);
	preempting_add_question(sv, w, step, step_wait_answer, x);
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

void preempting_on_error(void *arg)
{
	struct preempting *p = arg;
	const struct members_error *error =
		p->commons ? members_reported_error(p->commons->members) : NULL;
	struct sharing_step_wait *x;

	while (error && (x = LIST_FIRST(&p->step_waits))) {
		struct varlink_call *call = x->call;

		step_wait_withdraw(x);
		(void)reply_error(p->commons, call, error);
	}
}

void preempting_worker_exited(struct supervisor *sv, struct worker *w)
{
	struct preempting *p = preempting_of(sv);
	struct sharing_step_wait *x = step_wait_of(p, w->slot);
	struct varlink_call *call;

	if (!x)
		return;
	call = x->call;
	step_wait_withdraw(x);
	sharing_fail(call, STATUS_ABORTED, "the process of %s has ended",
		commons_slot_name(p->commons, w->slot));
}

void preempting_steps_stop(struct preempting *p)
{
	struct sharing_step_wait *x;

	while (p->commons && (x = LIST_FIRST(&p->step_waits))) {
		struct varlink_call *call = x->call;

		step_wait_withdraw(x);
		sharing_fail(call, STATUS_CANCELLED, "%s", p->commons->why ? p->commons->why : "");
	}
}
