/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/queue/group_hooks_private.h"
#include "common/base/log.h"
#include "common/base/signals.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TASKS_OF_AN_AGENT INT64_C(1000000000)

/* --- life ---------------------------------------------------------------------------------------
 */

void dispatch_group_options(const struct agent *a, struct queue_options *ret)
{
	const struct spec_queue *q = &a->spec->queue;

	*ret = (struct queue_options){
		.first_task = (int64_t)a->agents * TASKS_OF_AN_AGENT + 1,
		.max = (size_t)q->max,
		.results = (size_t)q->results,
		.bytes = (size_t)q->memory,
		.slots = q->slots,
		.cancel_grace_ms = (uint64_t)q->cancel_grace_ms,
		.recovery_timeout_ms = q->recovery_timeout_ms ? q->recovery_timeout_ms : -1,
		.blame_limit = (unsigned)q->blame_limit,
		.blame_window_ms = q->blame_window_ms,
		.deaths = (unsigned)q->deaths,
		.stall_ms = q->stall_ms,
		.call_timeout_ms = (uint64_t)q->call_timeout_ms,
		.answer_timeout_ms = (uint64_t)q->answer_timeout_ms,
		.pool = a->spec->mode == SPEC_MODE_POOL,
	};
}

int dispatch_group_new(struct dispatch *d, struct error *err)
{
	struct dispatch_group *g = calloc(1, sizeof(*g));

	d->group = g;
	if (!g || loop_timer_new(d->a->loop, dispatch_loss_expired, g, &g->grace) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	g->d = d;
	return 0;
}

void dispatch_group_free(struct dispatch *d)
{
	struct dispatch_group *g = d->group;

	if (!g)
		return;
	d->group = NULL;
	loop_timer_free(g->grace);
	free(g->workers);
	free(g);
}

/* NULL without memory, or for a task that has no part in what workers share. */
static struct dispatch_worker *worker_grow(struct dispatch_group *g, const struct task *t)
{
	struct agent *a = g->d->a;
	struct dispatch_worker *grown;

	if (!a->workers || !worker_has_slot(a->workers, t))
		return NULL;
	if (t->slot >= g->n_workers) {
		grown = reallocarray(g->workers, (size_t)t->slot + 1, sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + g->n_workers, 0,
			(size_t)(t->slot + 1 - g->n_workers) * sizeof(*grown));
		g->workers = grown;
		g->n_workers = t->slot + 1;
	}
	return &g->workers[t->slot];
}

/* --- tasks --------------------------------------------------------------------------------------
 */

void dispatch_how_gone(const struct task *t, char *text, size_t size)
{
	char name[SIGNALS_TEXT_MAX];

	if (t->blame[0] && (!t->exit.ended || task_ended_by_agent(t)))
		snprintf(text, size, "was ended by the agent: %s", t->blame);
	else if (t->blame[0])
		snprintf(text, size, "failed: %s (%s)", t->blame, t->exit.text);
	else if (!t->exit.ended)
		snprintf(text, size, "is gone");
	else if (t->exit.error)
		snprintf(text, size, "was not started: %s", t->exit.text);
	else if (t->exit.signal)
		snprintf(text, size, "was killed by %s%s", signals_name(t->exit.signal, name),
			t->exit.note);
	else
		snprintf(text, size, "exited with code %d", t->exit.code);
}

void dispatch_task_started(struct agent *a, struct task *t)
{
	struct dispatch_group *g = dispatch_group_of(a);
	const char *init = t->role->init;
	struct queue_bytes bytes = { init, init ? strlen(init) : 0, "" };
	struct dispatch_worker *w = g ? worker_grow(g, t) : NULL;

	if (!w)
		return;
	if (queue_worker_name(g->d->q, t->slot, agent_task_name(t)) < 0 ||
		queue_worker_started(g->d->q, t->slot, t->incarnation, init ? &bytes : NULL,
			spec_serves(a->spec, t->role), loop_now_ms()) < 0) {
		log_error("%s gets no tasks: out of memory", agent_task_name(t));
		return;
	}
	w->alive = true;
	w->told = false;
	if (t->role->on_failure == SPEC_FAILURE_QUEUE)
		dispatch_loss_made_good(a);
	if (a->group.state == GROUP_RUNNING)
		dispatch_running(a);
	dispatch_run_soon(g->d);
}

/* Whether another process is to come, as far as is known before its end is judged. */
static bool comes_again(const struct agent *a, const struct task *t)
{
	if (a->ended || (agent_in_stop(a) && a->group.goal != GOAL_RETRY))
		return false;
	if (agent_in_stop(a))
		return true;
	if (a->leader_over || a->on_notice || t->spent)
		return false;
	return t->state == TASK_WAITING || t->state == TASK_FAILED;
}

static void worker_gone(
	struct dispatch_group *g, int slot, const char *why, bool on_purpose, bool again)
{
	g->workers[slot].alive = false;
	queue_worker_gone(g->d->q, slot, why, on_purpose, again, loop_now_ms());
	dispatch_run_soon(g->d);
}

void dispatch_task_ended(struct agent *a, struct task *t)
{
	struct dispatch_group *g = dispatch_group_of(a);
	struct dispatch_worker *w = g ? dispatch_worker_of(g, t) : NULL;
	/* One that a person starts again waits for that by now. */
	bool asked = t->on_purpose || t->state == TASK_WAITING || t->state == TASK_STOPPED;
	char why[400];

	if (!w || !w->alive)
		return;
	dispatch_how_gone(t, why, sizeof(why));
	worker_gone(
		g, t->slot, why, asked || (t->stop_us && !task_complaint(t)), comes_again(a, t));
}

void dispatch_task_over(struct agent *a, struct task *t)
{
	struct dispatch_group *g = dispatch_group_of(a);
	char why[400];

	if (!g || !dispatch_worker_of(g, t))
		return;
	dispatch_how_gone(t, why, sizeof(why));
	worker_gone(g, t->slot, why, true, false);
}

/* --- the group ----------------------------------------------------------------------------------
 */

/* Whether the slot's task is in this incarnation. */
static bool is_wanted(struct agent *a, int slot)
{
	const struct task *t = worker_task(a->workers, slot);

	return t && !t->on_purpose;
}

void dispatch_begin(struct agent *a)
{
	struct dispatch_group *g = dispatch_group_of(a);

	if (!g)
		return;
	g->lost = g->holds = false;
	loop_timer_disarm(g->grace);
	for (int i = 0; i < g->n_workers; i++)
		if (g->workers[i].alive || !is_wanted(a, i))
			worker_gone(g, i, "is given up", true, is_wanted(a, i));
	dispatch_waits_go(g->d);
	queue_unfail(g->d->q, loop_now_ms());
	queue_go(g->d->q);
	dispatch_run_soon(g->d);
}

/* Those that a call counts on all have a process. */
static bool is_whole(struct agent *a, struct dispatch_group *g)
{
	for (int i = 0; i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];
		const struct dispatch_worker *w = dispatch_worker_of(g, t);

		if (spec_serves(a->spec, t->role) && !t->on_purpose && t->state != TASK_SUCCEEDED &&
			(!w || !w->alive))
			return false;
	}
	return true;
}

void dispatch_running(struct agent *a)
{
	struct dispatch_group *g = dispatch_group_of(a);

	if (!g || !is_whole(a, g))
		return;
	queue_whole(g->d->q, loop_now_ms());
	dispatch_run_soon(g->d);
}

/* What waits for the queue gets, and with which status. */
static enum status stop_text(const struct agent *a, char *text, size_t size)
{
	const char *colon = a->reason[0] ? ": " : "";

	switch (a->group.goal) {
	case GOAL_SUCCEED:
		snprintf(text, size, "the job is over%s%s", colon, a->reason);
		return STATUS_UNAVAILABLE;
	case GOAL_FAIL:
		snprintf(text, size, "the job has failed%s%s", colon, a->reason);
		return STATUS_UNAVAILABLE;
	case GOAL_NONE:
	case GOAL_RETRY:
	case GOAL_STOP:
	case GOAL_TIMEOUT:
	case GOAL_PREEMPT:
		break;
	}
	snprintf(text, size, "the group is being stopped%s%s", colon, a->reason);
	return STATUS_CANCELLED;
}

void dispatch_stopping(struct agent *a)
{
	struct dispatch_group *g = dispatch_group_of(a);
	char text[800];
	enum status status;

	if (!g)
		return;
	g->holds = false;
	loop_timer_disarm(g->grace);
	status = stop_text(a, text, sizeof(text));
	/* Coordinators elsewhere go on with the next incarnation; tasks have to leave. */
	if (a->group.goal == GOAL_RETRY)
		dispatch_waits_stop(g->d, text);
	else
		queue_stop(g->d->q, status, text, false);
	dispatch_run_soon(g->d);
}

static void tell_left(struct agent *a, struct dispatch_group *g)
{
	struct queue_stats s;
	size_t n;

	queue_stats(g->d->q, NULL, &s);
	n = s.n[QUEUE_QUEUED] + s.n[QUEUE_RUNNING];
	if (!n)
		return;
	log_notice("%zu of the work queue's tasks were not over", n);
	events_add(a->events, "queue-left", a->attempt, -1,
		json_pack("{s:I, s:I}", "queued", (json_int_t)s.n[QUEUE_QUEUED], "running",
			(json_int_t)s.n[QUEUE_RUNNING]),
		"the job has ended with %zu of the work queue's tasks not over: %zu queued, %zu "
		"running",
		n, s.n[QUEUE_QUEUED], s.n[QUEUE_RUNNING]);
}

void dispatch_over(struct agent *a)
{
	struct dispatch_group *g = dispatch_group_of(a);
	char text[800];

	if (!g)
		return;
	tell_left(a, g);
	snprintf(text, sizeof(text), "the job has ended: %s", a->end.message);
	queue_stop(g->d->q, STATUS_UNAVAILABLE, text, true);
	dispatch_run(g->d);
}
