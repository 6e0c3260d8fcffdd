/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure.h"
#include "agent/policy/group_decision.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/supervisor.h"
#include "agent/supervise/why.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Carries out what judgement_of() says: a failed task of scope task is started again or fails the
 * group; a leader's end begins the others' grace; the rest is a matter of the group (end_run.c).
 */

static bool judge_is_leader(const struct agent *a, const struct task *t)
{
	return t->role->leader && a->spec->leader.on_exit == SPEC_LEADER_STOP;
}

static bool judge_is_alone(const struct agent *a, const struct task *t)
{
	return spec_scope_task(a->spec, t->role);
}

static struct judgement judge_now(const struct agent *a)
{
	_cleanup_free_ struct judgement_task *all = calloc((size_t)a->n_tasks, sizeof(*all));

	if (!all) {
		log_error("out of memory: what has ended is judged with the next end");
		return (struct judgement){ JUDGEMENT_WAIT, -1 };
	}
	for (int i = 0; i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];

		/* What takes its place comes first. */
		all[i] = (struct judgement_task){ .state = t->replaced ? TASK_WAITING : t->state,
			.leader = judge_is_leader(a, t),
			.alone = judge_is_alone(a, t),
			.spent = t->spent,
			.on_purpose = t->on_purpose };
	}
	return a->on_notice ? judgement_on_notice(all, a->n_tasks, a->leader_over)
			    : judgement_of(all, a->n_tasks, a->leader_over);
}

/* What went wrong with t, in one line. */
static void judge_what(struct task *t, char *text, size_t size)
{
	struct failures f = { 0 };

	snprintf(text, size, "%s: %s", agent_task_name(t), t->exit.text);
	if (!failures_collect_one(&f, t))
		failure_text(f.items, text, size);
	failures_fini(&f);
}

static void judge_tell(struct agent *a, const struct task *t, const struct restart_fault *fault,
	const struct restart_decision *d, const char *text)
{
	json_t *data = json_pack("{s:s, s:s, s:b, s:I}", "task", agent_task_name(t), "cause",
		restart_cause_name(fault->cause), "counted", d->counted, "delay_ms",
		(json_int_t)d->delay_ms);

	log_notice("%s", text);
	why_note(a, text);
	events_add(a->events, d->restart ? "task-restart" : "task-no-restart", a->attempt, t->rank,
		data, "%s", text);
}

/* t failed alone: its own budget decides. */
static void judge_task_failed(struct agent *a, struct task *t)
{
	struct restart_fault fault = outcome_fault(t, t->started_ms);
	struct restart_decision d = { .text = "out of memory" };
	char what[512], text[640];

	if (!t->budget)
		t->budget = calloc(1, sizeof(*t->budget));
	if (t->budget)
		restart_decide(
			spec_restart_of(a->spec, t->role), t->budget, &fault, loop_now_ms(), &d);
	judge_what(t, what, sizeof(what));
	snprintf(text, sizeof(text), "%s; %.120s", what, d.text);
	if (d.restart)
		outcome_keep_one(a, t);
	else
		outcome_tell_one(a, t);
	judge_tell(a, t, &fault, &d, text);
	if (!d.restart) {
		t->spent = true;
		agent_set_reason(a, "%s", text);
		snprintf(a->then, sizeof(a->then), "%s", d.text);
		a->culprit = t->rank;
		FEATURES_CALL(a, worker_over, a, t);
		return;
	}
	t->forgiven = t->relapsing = true;
	agent_single_start_in(a, t, d.delay_ms);
}

/* What the leader's end means to t. Who waits to be started again after a failure has failed for
 * good; what fails from now on is a consequence, but not where it had failed before. */
static void judge_grace_for(struct agent *a, struct task *t, int64_t since_us)
{
	bool failed = t->relapsing && t->forgiven && !t->on_purpose;

	if (task_alive(t) && !t->relapsing && !t->blame_us)
		t->grace_us = since_us;
	if (t->state == TASK_WAITING || t->state == TASK_FAILED)
		FEATURES_CALL(a, worker_over, a, t);
	if (t->state != TASK_WAITING)
		return;
	agent_single_call_off(a, t, "the leader has ended");
	if (!failed)
		return;
	t->forgiven = false;
	t->spent = true;
	task_set_state(t, TASK_FAILED, t->exit.text);
}

static void judge_leader_over(struct agent *a, const struct task *leader, bool failed)
{
	int64_t grace_ms = a->spec->leader.grace_ms;
	char text[DURATION_TEXT_MAX];

	a->leader_over = true;
	a->leader_failed = failed;
	if (failed)
		a->culprit = leader->rank;
	if (failed)
		snprintf(a->leader_text, sizeof(a->leader_text), "%.300s", a->reason);
	else
		snprintf(a->leader_text, sizeof(a->leader_text), "the leader %.100s succeeded",
			agent_task_name(leader));
	for (int i = 0; i < a->n_tasks; i++)
		if (i != leader->rank)
			judge_grace_for(a, &a->tasks[i], leader->ended_us);
	events_add(a->events, "leader-ended", a->attempt, leader->rank, NULL,
		"%s; the others have %s to leave", a->leader_text, duration_format(grace_ms, text));
	log_notice(
		"%s; the others have %s to leave", a->leader_text, duration_format(grace_ms, text));
	loop_timer_arm(a->leader_timer, (uint64_t)grace_ms);
}

static void judge_spent(struct agent *a, struct task *t)
{
	if (a->culprit != t->rank) /* no budget was asked */
		a->then[0] = '\0';
	if (judge_is_leader(a, t))
		judge_leader_over(a, t, true);
	else
		outcome_task_spent(a, t);
}

/* The job's budget says no more, and it was the leader that failed: the others have their grace. */
static bool judge_group_leader(struct agent *a)
{
	for (int i = 0; i < a->n_tasks; i++) {
		struct task *t = &a->tasks[i];

		if (t->state == TASK_FAILED && !judge_is_leader(a, t))
			return false;
	}
	for (int i = 0; i < a->n_tasks; i++) {
		struct task *t = &a->tasks[i];

		if (t->state == TASK_FAILED && task_has_failed(t) && !t->exit.error) {
			judge_leader_over(a, t, true);
			return true;
		}
	}
	return false;
}

static void judge_group(struct agent *a)
{
	outcome_group_failed(a);
	if (a->decision.restart)
		agent_post(a, GROUP_EV_RETRY);
	else if (!judge_group_leader(a))
		agent_post(a, GROUP_EV_FAIL);
}

void agent_judge(struct agent *a)
{
	struct judgement j;

	do {
		if (a->group.state != GROUP_STARTING && a->group.state != GROUP_RUNNING)
			return;
		if (!a->leader_over && features_hold_decision(a))
			return;
		j = judge_now(a);
		switch (j.step) {
		case JUDGEMENT_WAIT:
			break;
		case JUDGEMENT_TASK:
			judge_task_failed(a, &a->tasks[j.task]);
			break;
		case JUDGEMENT_LEADER:
			judge_leader_over(a, &a->tasks[j.task], false);
			break;
		case JUDGEMENT_GROUP:
			judge_group(a);
			break;
		case JUDGEMENT_SPENT:
			judge_spent(a, &a->tasks[j.task]);
			break;
		case JUDGEMENT_DONE:
			outcome_all_ended(a);
			break;
		case JUDGEMENT_PREEMPTED:
			FEATURES_CALL(a, all_left, a);
			break;
		case JUDGEMENT_LEADER_OVER:
			outcome_leader_over(a);
			break;
		}
		/* After the others the group has its event; after these it is looked at again. */
	} while (j.step == JUDGEMENT_TASK ||
		 (a->leader_over && j.step != JUDGEMENT_WAIT && j.step != JUDGEMENT_LEADER_OVER));
}

void agent_leader_expired(void *arg)
{
	struct agent *a = arg;

	agent_settle(a);
	if (a->leader_over && (a->group.state == GROUP_STARTING || a->group.state == GROUP_RUNNING))
		outcome_leader_over(a);
}

/* Nobody has begun to end it yet. */
static bool judge_goes_on(const struct agent *a, const struct task *t)
{
	return task_alive(t) && !t->stop_us && !t->on_purpose && !agent_in_stop(a) && !a->opt.alone;
}

void agent_task_failing(struct agent *a, struct task *t, const char *text)
{
	if (!judge_goes_on(a, t) || t->blame[0])
		return;
	snprintf(t->blame, sizeof(t->blame), "%s", text);
	if (!t->blame_us) /* else it had reported an error before */
		t->blame_us = (int64_t)loop_real_us();
	log_warning("%s: %s", agent_task_name(t), text);
	events_add(a->events, "task-failing", a->attempt, t->rank, NULL, "%s: %s",
		agent_task_name(t), text);
	agent_changed(a);
}

void agent_task_end_failing(struct agent *a, struct task *t)
{
	if (!judge_goes_on(a, t) || !t->blame[0])
		return;
	agent_single_end(a, t, (uint64_t)a->spec->stop.timeout_ms, true);
	agent_changed(a);
}

void agent_worker_error(struct agent *a, struct task *t, const char *code, const char *message)
{
	bool known = code && *code && strcmp(code, status_name(STATUS_UNKNOWN)) != 0;
	char *text;
	int n;

	if (!task_alive(t) || t->app_error)
		return;
	if (!*message)
		n = asprintf(&text, "%s", known ? code : "it gave no message");
	else if (known)
		n = asprintf(&text, "%s (%s)", message, code);
	else
		n = asprintf(&text, "%s", message);
	if (n < 0)
		return;
	t->app_error = text;
	if (!t->blame_us)
		t->blame_us = (int64_t)loop_real_us();
	log_warning("%s reported an error: %.300s", agent_task_name(t), text);
	events_add(a->events, "task-error", a->attempt, t->rank,
		json_pack("{s:s, s:s}", "task", agent_task_name(t), "code", code ? code : ""),
		"%s reported an error: %.400s", agent_task_name(t), text);
	agent_changed(a);
}
