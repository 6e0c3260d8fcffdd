/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the life of the workers and of the group to the machine. */
#include "agent/queue/group_hooks_private.h"
#include "common/base/array.h"
#include "common/base/log.h"
#include "common/base/signals.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TASKS_OF_AN_AGENT INT64_C(1000000000)

/* --- life --- */

void dispatch_group_options(const struct supervisor *sv, struct queue_options *ret)
{
	const struct spec_queue *q = &supervisor_spec(sv)->queue;

	*ret = (struct queue_options){
		.first_task = (int64_t)supervisor_agents(sv) * TASKS_OF_AN_AGENT + 1,
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
		.pool = supervisor_spec(sv)->mode == SPEC_MODE_POOL,
	};
}

int dispatch_group_new(struct dispatch *d, struct error *err)
{
	struct dispatch_group *g = calloc(1, sizeof(*g));

	d->group = g;
	if (!g || loop_timer_new(supervisor_loop(d->sv), dispatch_loss_expired, g, &g->grace) < 0)
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
	dispatch_forget_dumps(g);
	loop_timer_free(g->grace);
	free(g->workers);
	free(g);
}

/* NULL without memory, or for a worker that takes no part in sharing. */
static struct dispatch_worker *worker_grow(struct dispatch_group *g, const struct worker *w)
{
	struct dispatch_worker *grown;

	if (!g->d->commons || !commons_has_slot(g->d->commons, w))
		return NULL;
	if (w->slot >= g->n_workers) {
		grown = array_grow(
			g->workers, (size_t)g->n_workers, (size_t)w->slot + 1, sizeof(*grown));
		if (!grown)
			return NULL;
		g->workers = grown;
		g->n_workers = w->slot + 1;
	}
	return &g->workers[w->slot];
}

/* --- workers --- */

void dispatch_end_text(const struct worker *w, char *text, size_t size)
{
	char name[SIGNALS_TEXT_MAX];

	if (w->blame[0] && (!w->exit.ended || worker_ended_by_agent(w)))
		snprintf(text, size, "was ended by the agent: %s", w->blame);
	else if (w->blame[0])
		snprintf(text, size, "failed: %s (%s)", w->blame, w->exit.text);
	else if (!w->exit.ended)
		snprintf(text, size, "is gone");
	else if (w->exit.error)
		snprintf(text, size, "was not started: %s", w->exit.text);
	else if (w->exit.signal)
		snprintf(text, size, "was killed by %s%s", signals_name(w->exit.signal, name),
			worker_exit_note(&w->exit));
	else
		snprintf(text, size, "exited with code %d", w->exit.code);
}

void dispatch_worker_started(struct supervisor *sv, struct worker *t)
{
	struct dispatch_group *g = dispatch_group_of(sv);
	const char *init = t->role->init;
	struct queue_bytes bytes = { init, init ? strlen(init) : 0, "" };
	struct dispatch_worker *w = g ? worker_grow(g, t) : NULL;

	if (!w)
		return;
	if (queue_worker_name(g->d->q, t->slot, worker_name(t)) < 0 ||
		queue_worker_started(g->d->q, t->slot, t->start, init ? &bytes : NULL,
			spec_serves(supervisor_spec(sv), t->role), loop_now_ms()) < 0) {
		log_error("%s gets no tasks: out of memory", worker_name(t));
		return;
	}
	w->alive = true;
	w->told = false;
	if (t->role->on_failure == SPEC_FAILURE_QUEUE)
		dispatch_loss_repaired(sv);
	if (commons_state(g->d->commons).phase == COMMONS_RUNNING)
		dispatch_running(sv);
	dispatch_run_soon(g->d);
}

/* True when w will have another process, as far as the core knows before it decides. */
static bool will_start_again(const struct commons *c, const struct worker *w)
{
	const struct commons_state s = commons_state(c);

	if (s.phase == COMMONS_ENDED)
		return false;
	if (s.phase == COMMONS_STOPPING)
		return s.goal == GOAL_RETRY;
	if (s.leader_over || c->owner.on_notice(c->owner.arg) || w->no_restart)
		return false;
	return w->state == WORKER_WAITING || w->state == WORKER_FAILED;
}

static void worker_gone(
	struct dispatch_group *g, int slot, const char *why, bool on_purpose, bool again)
{
	g->workers[slot].alive = false;
	queue_worker_gone(g->d->q, slot, why, on_purpose, again, loop_now_ms());
	dispatch_run_soon(g->d);
}

void dispatch_worker_ended(struct supervisor *sv, struct worker *t)
{
	struct dispatch_group *g = dispatch_group_of(sv);
	struct dispatch_worker *w = g ? dispatch_worker_of(g, t) : NULL;
	/* A worker that a person starts again is already in state waiting. */
	bool asked = t->on_purpose || t->state == WORKER_WAITING || t->state == WORKER_STOPPED;
	char why[400];

	if (!w || !w->alive)
		return;
	dispatch_end_text(t, why, sizeof(why));
	worker_gone(g, t->slot, why, asked || (t->stop_us && !worker_complaint(t)),
		will_start_again(g->d->commons, t));
}

void dispatch_worker_over(struct supervisor *sv, struct worker *w)
{
	struct dispatch_group *g = dispatch_group_of(sv);
	char why[400];

	if (!g || !dispatch_worker_of(g, w))
		return;
	dispatch_end_text(w, why, sizeof(why));
	worker_gone(g, w->slot, why, true, false);
}

/* --- the group --- */

/* True when the slot's worker takes part in this attempt. */
static bool slot_takes_part(const struct dispatch *d, int slot)
{
	const struct worker *w = commons_worker(d->commons, slot);

	return w && !w->on_purpose;
}

void dispatch_begin(struct supervisor *sv)
{
	struct dispatch_group *g = dispatch_group_of(sv);

	if (!g || !g->d->commons)
		return;
	g->lost = g->await_coordinators = false;
	loop_timer_disarm(g->grace);
	for (int i = 0; i < g->n_workers; i++)
		if (g->workers[i].alive || !slot_takes_part(g->d, i))
			worker_gone(g, i, "is gone", true, slot_takes_part(g->d, i));
	dispatch_copy_retry(g->d);
	dispatch_waits_go(g->d);
	queue_unfail(g->d->q, loop_now_ms());
	queue_go(g->d->q);
	dispatch_run_soon(g->d);
}

/* True when all workers that calls need have a process. */
static bool group_is_complete(struct supervisor *sv, struct dispatch_group *g)
{
	const struct commons *c = g->d->commons;

	for (int i = 0; i < commons_count(c); i++) {
		const struct worker *t = commons_at(c, i);
		const struct dispatch_worker *w = dispatch_worker_of(g, t);

		if (spec_serves(supervisor_spec(sv), t->role) && !t->on_purpose &&
			t->state != WORKER_SUCCEEDED && (!w || !w->alive))
			return false;
	}
	return true;
}

void dispatch_running(struct supervisor *sv)
{
	struct dispatch_group *g = dispatch_group_of(sv);

	if (!g || !g->d->commons || !group_is_complete(sv, g))
		return;
	queue_whole(g->d->q, loop_now_ms());
	dispatch_run_soon(g->d);
}

/* The text and status for callers that wait for the queue when the group stops. */
static enum status stop_text(const struct commons_state *s, char *text, size_t size)
{
	const char *reason = s->reason ? s->reason : "", *colon = *reason ? ": " : "";

	switch (s->goal) {
	case GOAL_SUCCEED:
		snprintf(text, size, "the job is over%s%s", colon, reason);
		return STATUS_UNAVAILABLE;
	case GOAL_FAIL:
		snprintf(text, size, "the job has failed%s%s", colon, reason);
		return STATUS_UNAVAILABLE;
	case GOAL_NONE:
	case GOAL_RETRY:
	case GOAL_STOP:
	case GOAL_TIMEOUT:
	case GOAL_PREEMPT:
		break;
	}
	snprintf(text, size, "the group is being stopped%s%s", colon, reason);
	return STATUS_CANCELLED;
}

void dispatch_stopping(struct supervisor *sv)
{
	struct dispatch_group *g = dispatch_group_of(sv);
	struct commons_state s;
	char text[800];
	enum status status;

	if (!g || !g->d->commons)
		return;
	s = commons_state(g->d->commons);
	g->await_coordinators = false;
	loop_timer_disarm(g->grace);
	status = stop_text(&s, text, sizeof(text));
	/* Coordinators outside the job go on with the next attempt; workers must leave. */
	if (s.goal == GOAL_RETRY)
		dispatch_waits_stop(g->d, text);
	else
		queue_stop(g->d->q, status, text, false);
	dispatch_run_soon(g->d);
}

static void report_unfinished(struct supervisor *sv, struct dispatch_group *g)
{
	struct queue_stats s;

	queue_stats(g->d->q, NULL, &s);
	if (!s.n[QUEUE_QUEUED] && !s.n[QUEUE_RUNNING])
		return;
	supervisor_report(sv, LOG_NOTICE, "queue-left", -1,
		json_pack("{s:I, s:I}", "queued", (json_int_t)s.n[QUEUE_QUEUED], "running",
			(json_int_t)s.n[QUEUE_RUNNING]),
		"the job has ended, and tasks of the work queue are left: %zu queued, %zu running",
		s.n[QUEUE_QUEUED], s.n[QUEUE_RUNNING]);
}

void dispatch_over(struct supervisor *sv)
{
	struct dispatch_group *g = dispatch_group_of(sv);
	char text[800];

	if (!g)
		return;
	if (g->d->elected && g->d->commons && !g->d->lead.ended(g->d->lead.arg)) {
		dispatch_step_down(g->d);
		return;
	}
	report_unfinished(sv, g);
	snprintf(text, sizeof(text), "the job has ended: %s", supervisor_end_message(sv));
	queue_stop(g->d->q, STATUS_UNAVAILABLE, text, true);
	dispatch_run(g->d);
	g->d->over = true;
	FEATURES_CALL(sv, answers_kept, sv);
}
