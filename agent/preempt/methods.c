/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of workers about a notice of preemption, or an error of the group. A Step that waits is a
 * worker_ask; it ends with its answer, its connection, its process, the group, or an error with
 * which all calls fail.
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

struct worker_ask {
	LIST_ENTRY(worker_ask) link;
	struct workers *w;
	struct varlink_call *call;
	int slot;
};

/* The caller answers the call, or it is gone. */
static void ask_free(struct worker_ask *x)
{
	LIST_REMOVE(x, link);
	free(x);
}

/* Drops the question. */
static void ask_withdraw(struct worker_ask *x)
{
	struct workers *w = x->w;
	struct task *t = worker_task(w, x->slot);

	/* What follows may end all waiting questions. */
	ask_free(x);
	if (t)
		preempting_forget(w->a, t);
}

static void ask_gone(void *arg)
{
	ask_withdraw(arg);
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
	struct workers *w, struct varlink_call *call, enum preempt_order order, int64_t at)
{
	_cleanup_json_ json_t *notice = preempting_notice_json(w->a);
	json_t *p = json_object(), *deadline = json_object_get(notice, "deadline_us");

	json_put_string(p, "action", order_name(order));
	if (notice && at >= 0)
		json_put_int(p, "at", at);
	json_put_int(p, "exit_code", agent_preempted_status(w->a));
	if (deadline)
		json_put(p, "deadline_us", json_incref(deadline));
	return varlink_reply(call, p);
}

static void on_answer(void *arg, enum preempt_order order, int64_t at)
{
	struct worker_ask *x = arg;
	struct workers *w = x->w;
	struct varlink_call *call = x->call;

	ask_free(x);
	(void)reply_order(w, call, order, at);
}

static int reply_error(
	struct workers *w, struct varlink_call *call, const struct members_error *error)
{
	json_t *p = json_object();

	json_put(p, "error", worker_error_json(w, error));
	return varlink_error(call, "GroupFailed", p);
}

static struct worker_ask *ask_of(const struct workers *w, int slot)
{
	struct worker_ask *x;

	LIST_FOREACH (x, &w->a->preempting->asks, link)
		if (x->slot == slot)
			return x;
	return NULL;
}

/* --- methods --- */

static int worker_step(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
	const struct members_error *error = members_reported_error(w->members);
	int slot = worker_of(call);
	struct task *t = worker_task(w, slot);
	int64_t step = json_get_int(p, "step", 0);
	struct worker_ask *x;

	if (error)
		return reply_error(w, call, error);
	if (w->stopping)
		return worker_fail(call, STATUS_CANCELLED, "%s", w->why ? w->why : "");
	if (!t || !w->a->on_notice)
		return reply_order(w, call, PREEMPT_CONTINUE, step);
	if (ask_of(w, slot))
		return worker_fail(call, STATUS_FAILED_PRECONDITION,
			"another Step of %s waits already", w->slots[slot].name);
	x = calloc(1, sizeof(*x));
	if (!x)
		return worker_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	*x = (struct worker_ask){ .w = w, .call = call, .slot = slot };
	LIST_INSERT_HEAD(&w->a->preempting->asks, x, link);
	varlink_call_on_gone(call, ask_gone, x);
	preempting_ask(w->a, t, step, on_answer, x);
	return 0;
}

static int worker_saved(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
	struct task *t = worker_task(w, worker_of(call));
	const char *path = json_get_string(p, "path", NULL);
	struct error err = { 0 };
	int r;

	if (path && strlen(path) > PATH_BYTES_MAX)
		return worker_fail(call, STATUS_INVALID_ARGUMENT,
			"path: expected at most %d bytes, got %zu", PATH_BYTES_MAX, strlen(path));
	r = t ? preempting_saved(w->a, t, json_get_int(p, "step", 0), path, &err)
	      : error_set(&err, -ENOENT, "the worker is gone");
	if (r == 0)
		return varlink_reply(call, NULL);
	return worker_fail(call,
		r == -ERANGE   ? STATUS_OUT_OF_RANGE
		: r == -ENOENT ? STATUS_FAILED_PRECONDITION
			       : STATUS_RESOURCE_EXHAUSTED,
		"%s", err.text);
}

static int worker_preemption(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
	json_t *notice = preempting_notice_json(w->a), *answer;

	if (!notice)
		return worker_fail(call, STATUS_NOT_FOUND, "no notice of preemption is up");
	answer = json_object();
	json_put(answer, "notice", notice);
	json_put_int(answer, "exit_code", agent_preempted_status(w->a));
	return varlink_reply(call, answer);
}

/* True when t gets its signal because it is being stopped: that is no notice for all. */
static bool being_stopped(const struct workers *w, const struct task *t)
{
	return w->stopping || !t || !task_alive(t) || t->state == TASK_STOPPING || t->on_purpose ||
	       t->stop_us;
}

static int worker_notify(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
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
		return worker_fail(call, STATUS_INVALID_ARGUMENT,
			"reason: expected at most %d bytes, got %zu", REASON_BYTES_MAX,
			strlen(n.reason));
	if (being_stopped(w, worker_task(w, worker_of(call))))
		return worker_fail(
			call, STATUS_FAILED_PRECONDITION, "this worker is being stopped");
	r = preempting_notice(w->a, &n, &err);
	if (r == -ESHUTDOWN)
		return worker_fail(call, STATUS_FAILED_PRECONDITION, "%s", err.text);
	if (r < 0)
		return worker_fail(call, STATUS_RESOURCE_EXHAUSTED, "%s", err.text);
	return varlink_reply(call, NULL);
}

const struct varlink_method preempting_worker_methods[] = {
	{ "Step", worker_step },
	{ "Saved", worker_saved },
	{ "Preemption", worker_preemption },
	{ "Notify", worker_notify },
	{ NULL, NULL },
};

/* --- what happens to the group --- */

void preempting_on_error(void *arg)
{
	struct preempting *p = arg;
	struct workers *w = p->a->workers;
	const struct members_error *error = members_reported_error(w->members);
	struct worker_ask *x;

	while (error && (x = LIST_FIRST(&p->asks))) {
		struct varlink_call *call = x->call;

		ask_withdraw(x);
		(void)reply_error(w, call, error);
	}
}

void preempting_worker_exited(struct agent *a, struct task *t)
{
	struct workers *w = a->workers;
	struct worker_ask *x = w ? ask_of(w, t->slot) : NULL;
	struct varlink_call *call;

	if (!x)
		return;
	call = x->call;
	ask_withdraw(x);
	worker_fail(call, STATUS_ABORTED, "the process of %s has ended", w->slots[t->slot].name);
}

void preempting_group_stopping(struct agent *a, const char *why)
{
	struct workers *w = a->workers;
	struct worker_ask *x;

	while (w && (x = LIST_FIRST(&a->preempting->asks))) {
		struct varlink_call *call = x->call;

		ask_withdraw(x);
		worker_fail(call, STATUS_CANCELLED, "%s", w->why ? w->why : "");
	}
}
