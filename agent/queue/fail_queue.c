/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task of on_failure fail_queue: what it held is lost to all. The coordinator hears of it from
 * the queue, and leaves; only then does the group fail, of the task that was first.
 */
#include "agent/queue/group_hooks_private.h"
#include "common/base/log.h"
#include "common/text/duration.h"

#include <stdio.h>

int dispatch_exit_status(const struct agent *a, const struct task *t)
{
	bool ours = t->role->on_failure == SPEC_FAILURE_QUEUE && !t->exit.error;

	return ours && a->spec->queue.exit_code != SPEC_UNSET ? a->spec->queue.exit_code : -1;
}

static void what_is_lost(const struct task *t, char *text, size_t size)
{
	char how[400];

	dispatch_how_gone(t, how, sizeof(how));
	snprintf(text, size, "%s %s", agent_task_name(t), how);
}

static void fail_queues(struct agent *a, const struct task *t, const char *what)
{
	int code = a->spec->queue.exit_code;
	struct queue_error e = { STATUS_UNAVAILABLE, what, "", t->slot, -1 };

	queue_fail_all(a->dispatch->q, &e, code == SPEC_UNSET ? -1 : code, loop_now_ms());
}

/* t, of on_failure fail_queue, has failed: fails all queues, once in an attempt. */
static void dispatch_lost(struct agent *a, const struct task *t)
{
	struct dispatch_group *g = dispatch_group_of(a);
	char what[500], grace[DURATION_TEXT_MAX];

	if (!g || g->lost)
		return;
	what_is_lost(t, what, sizeof(what));
	g->lost = g->holds = true;
	for (int i = 0; i < g->n_workers; i++)
		g->workers[i].told = false;
	agent_set_reason(a, "%s", what);
	log_warning("%s: all of the work queue's tasks are cancelled", what);
	events_add(a->events, "queue-lost", a->attempt, t->rank, NULL,
		"%s: all of the work queue's tasks are cancelled; who submits them has %s to leave",
		what, duration_format(a->spec->queue.loss_grace_ms, grace));
	fail_queues(a, t, what);
	loop_timer_arm(g->grace, (uint64_t)a->spec->queue.loss_grace_ms);
	dispatch_run_soon(g->d);
}

void dispatch_loss_made_good(struct agent *a)
{
	struct dispatch_group *g = dispatch_group_of(a);
	char what[500];

	if (!g->lost)
		return;
	queue_unfail(g->d->q, loop_now_ms());
	/* Where others are still lost, one of them is what people are told from now on. */
	for (int i = 0; i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];

		if (t->state != TASK_FAILED || t->role->on_failure != SPEC_FAILURE_QUEUE)
			continue;
		what_is_lost(t, what, sizeof(what));
		agent_set_reason(a, "%s", what);
		fail_queues(a, t, what);
		return;
	}
	g->lost = false;
	/* What was held back is judged. */
	if (g->holds)
		loop_timer_arm(g->grace, 0);
}

void dispatch_group_told(struct dispatch *d, const struct varlink_call *call)
{
	const struct worker_peer *p = varlink_call_user(call); /* agent.sock has no such word */
	struct dispatch_group *g = d->group;

	if (g->holds && p && p->slot >= 0 && p->slot < g->n_workers)
		g->workers[p->slot].told = true;
}

/* Whether somebody still has to be waited for. */
static bool is_waited_for(struct agent *a, struct dispatch_group *g)
{
	bool any = false;

	for (int i = 0; i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];
		const struct dispatch_worker *w = dispatch_worker_of(g, t);

		any |= task_alive(t) && t->role->on_failure != SPEC_FAILURE_QUEUE;
		if (!task_alive(t) && ((w && w->told) || t->role->leader))
			return false;
	}
	return any;
}

bool dispatch_holds(struct agent *a)
{
	struct dispatch_group *g = dispatch_group_of(a);

	for (int i = 0; g && i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];

		if (t->state == TASK_FAILED && t->role->on_failure == SPEC_FAILURE_QUEUE &&
			!t->on_purpose && !t->exit.error)
			dispatch_lost(a, t);
	}
	if (!g || !g->holds)
		return false;
	if (is_waited_for(a, g) && !a->on_notice)
		return true;
	g->holds = false;
	loop_timer_disarm(g->grace);
	return false;
}

void dispatch_loss_expired(void *arg)
{
	struct dispatch_group *g = arg;
	struct agent *a = g->d->a;

	agent_settle(a);
	g->holds = false;
	agent_judge(a);
	agent_changed(a);
}
