/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure.h"
#include "agent/policy/group_decision.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
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
 * Carries out the steps of group_decide(): starts a failed worker of scope worker again, or fails
 * the group with it; begins the other workers' grace when the leader has ended; leaves all other
 * steps to end_run.c.
 */

static bool apply_is_leader(const struct supervisor *sv, const struct worker *w)
{
	return w->role->leader && sv->spec->leader.on_exit == SPEC_LEADER_STOP;
}

static struct group_decision apply_decide(const struct supervisor *sv)
{
	_cleanup_free_ struct group_decision_worker *all =
		calloc((size_t)sv->n_workers, sizeof(*all));

	if (!all) {
		log_error(
			"out of memory: the decision about workers that ended waits for the next end");
		return (struct group_decision){ GROUP_DECISION_WAIT, -1 };
	}
	for (int i = 0; i < sv->n_workers; i++) {
		const struct worker *w = &sv->workers[i];

		/* A replaced worker gets a new process (attach) before its end counts. */
		all[i] = (struct group_decision_worker){ .state = w->replaced ? WORKER_WAITING
									      : w->state,
			.leader = apply_is_leader(sv, w),
			.alone = spec_scope_worker(sv->spec, w->role),
			.no_restart = w->no_restart,
			.on_purpose = w->on_purpose };
	}
	return sv->on_notice ? group_decide_on_notice(all, sv->n_workers, sv->leader.over)
			     : group_decide(all, sv->n_workers, sv->leader.over);
}

/* The failure of w, in one line. */
static void apply_describe_failure(struct worker *w, char *text, size_t size)
{
	struct failures f = { 0 };

	snprintf(text, size, "%s: %s", worker_name(w), w->exit.text);
	if (!failures_collect_one(&f, w))
		failure_text(f.items, text, size);
	failures_fini(&f);
}

static void apply_report(struct supervisor *sv, const struct worker *w,
	const struct restart_fault *fault, const struct restart_decision *d, const char *text)
{
	json_t *data = json_pack("{s:s, s:s, s:b, s:I}", "worker", worker_name(w), "cause",
		restart_cause_name(fault->cause), "counted", d->counted, "delay_ms",
		(json_int_t)d->delay_ms);

	why_note(sv, text);
	supervisor_report(sv, LOG_NOTICE, d->restart ? "worker-restart" : "worker-no-restart",
		w->rank, data, "%s", text);
}

/* A worker of scope worker failed: asks its own budget. */
static void apply_worker_failed(struct supervisor *sv, struct worker *w)
{
	struct restart_fault fault = end_run_fault(w, w->started_ms);
	struct restart_decision d = { .text = "out of memory" };
	char what[512], text[640];

	if (!w->budget)
		w->budget = calloc(1, sizeof(*w->budget));
	if (w->budget)
		restart_decide(
			spec_restart_of(sv->spec, w->role), w->budget, &fault, loop_now_ms(), &d);
	apply_describe_failure(w, what, sizeof(what));
	snprintf(text, sizeof(text), "%s; %.120s", what, d.text);
	if (d.restart)
		run_failures_keep_restarted(sv, w);
	else
		run_failures_report_one(sv, w);
	apply_report(sv, w, &fault, &d, text);
	if (!d.restart) {
		w->no_restart = true;
		supervisor_set_reason(sv, "%s", text);
		snprintf(sv->consequence, sizeof(sv->consequence), "%s", d.text);
		sv->root_cause_rank = w->rank;
		FEATURES_CALL(sv, worker_over, sv, w);
		return;
	}
	w->end_handled = w->failed_before = true;
	lifecycle_start_in(sv, w, d.delay_ms);
}

/* The leader has ended. If w fails from now on, that is a consequence, unless it had failed before.
 * If w waits for a restart after a failure, it is not started again and has failed. */
static void apply_begin_grace(struct supervisor *sv, struct worker *w, int64_t since_us)
{
	bool failed = w->failed_before && w->end_handled && !w->on_purpose;

	if (worker_alive(w) && !w->failed_before && !w->blame_us)
		w->grace_us = since_us;
	if (w->state == WORKER_WAITING || w->state == WORKER_FAILED)
		FEATURES_CALL(sv, worker_over, sv, w);
	if (w->state != WORKER_WAITING)
		return;
	lifecycle_call_off(sv, w, "the leader has ended");
	if (!failed)
		return;
	w->end_handled = false;
	w->no_restart = true;
	worker_set_state(w, WORKER_FAILED, w->exit.text);
}

static void apply_leader_over(struct supervisor *sv, const struct worker *leader, bool failed)
{
	int64_t grace_ms = sv->spec->leader.grace_ms;
	char text[DURATION_TEXT_MAX];

	sv->leader.over = true;
	sv->leader.failed = failed;
	if (failed) {
		sv->root_cause_rank = leader->rank;
		snprintf(sv->leader.text, sizeof(sv->leader.text), "%.300s", sv->reason);
	} else {
		snprintf(sv->leader.text, sizeof(sv->leader.text), "the leader %.100s succeeded",
			worker_name(leader));
	}
	for (int i = 0; i < sv->n_workers; i++)
		if (i != leader->place)
			apply_begin_grace(sv, &sv->workers[i], leader->ended_us);
	supervisor_report(sv, LOG_NOTICE, "leader-ended", leader->rank, NULL,
		"%s; the others have %s to leave", sv->leader.text,
		duration_format(grace_ms, text));
	loop_timer_arm(sv->leader.timer, (uint64_t)grace_ms);
}

static void apply_no_restart(struct supervisor *sv, struct worker *w)
{
	if (sv->root_cause_rank != w->rank) /* it failed without a decision of its budget */
		sv->consequence[0] = '\0';
	if (apply_is_leader(sv, w))
		apply_leader_over(sv, w, true);
	else
		end_run_worker_failed(sv, w);
}

/* The job's budget allows no restart. If the leader failed, and only the leader, begins the other
 * workers' grace and returns true. */
static bool apply_only_leader_failed(struct supervisor *sv)
{
	for (int i = 0; i < sv->n_workers; i++) {
		struct worker *w = &sv->workers[i];

		if (w->state == WORKER_FAILED && !apply_is_leader(sv, w))
			return false;
	}
	for (int i = 0; i < sv->n_workers; i++) {
		struct worker *w = &sv->workers[i];

		if (w->state == WORKER_FAILED && worker_has_failed(w) && !w->exit.error) {
			apply_leader_over(sv, w, true);
			return true;
		}
	}
	return false;
}

static void apply_group_failed(struct supervisor *sv)
{
	end_run_group_failed(sv);
	if (sv->decision.restart)
		supervisor_post(sv, GROUP_EV_RETRY);
	else if (!apply_only_leader_failed(sv))
		supervisor_post(sv, GROUP_EV_FAIL);
}

/* Whether the step is about the group, and not about one worker of this host. */
static bool apply_is_groups(enum group_decision_step step)
{
	switch (step) {
	case GROUP_DECISION_GROUP:
	case GROUP_DECISION_NO_RESTART:
	case GROUP_DECISION_LEADER:
	case GROUP_DECISION_DONE:
	case GROUP_DECISION_PREEMPTED:
		return true;
	case GROUP_DECISION_WAIT:
	case GROUP_DECISION_WORKER:
	case GROUP_DECISION_LEADER_OVER:
		break;
	}
	return false;
}

void apply_decisions(struct supervisor *sv)
{
	struct group_decision d;

	do {
		if (sv->group.state != GROUP_STARTING && sv->group.state != GROUP_RUNNING)
			return;
		if (!sv->leader.over && FEATURES_ANY(sv, delays_decision, sv))
			return;
		d = apply_decide(sv);
		if (apply_is_groups(d.step) && FEATURES_ANY(sv, decides, sv, d.step))
			return;
		switch (d.step) {
		case GROUP_DECISION_WAIT:
			break;
		case GROUP_DECISION_WORKER:
			apply_worker_failed(sv, &sv->workers[d.worker]);
			break;
		case GROUP_DECISION_LEADER:
			apply_leader_over(sv, &sv->workers[d.worker], false);
			break;
		case GROUP_DECISION_GROUP:
			apply_group_failed(sv);
			break;
		case GROUP_DECISION_NO_RESTART:
			apply_no_restart(sv, &sv->workers[d.worker]);
			break;
		case GROUP_DECISION_DONE:
			end_run_all_ended(sv);
			break;
		case GROUP_DECISION_PREEMPTED:
			FEATURES_CALL(sv, all_left, sv);
			break;
		case GROUP_DECISION_LEADER_OVER:
			end_run_leader_over(sv);
			break;
		}
		/* These steps post no event to the group, so there may be another step. */
	} while (d.step == GROUP_DECISION_WORKER ||
		 (sv->leader.over && d.step != GROUP_DECISION_WAIT &&
			 d.step != GROUP_DECISION_LEADER_OVER));
}

void apply_leader_expired(void *arg)
{
	struct supervisor *sv = arg;

	supervisor_settle(sv);
	if (sv->leader.over &&
		(sv->group.state == GROUP_STARTING || sv->group.state == GROUP_RUNNING))
		end_run_leader_over(sv);
}

/* Whether w runs and nothing has begun to end it. */
static bool apply_not_ending(const struct supervisor *sv, const struct worker *w)
{
	return worker_alive(w) && !w->stop_us && !w->on_purpose && !stop_group_active(sv) &&
	       !sv->opt.alone;
}

void supervisor_worker_failing(struct supervisor *sv, struct worker *w, const char *text)
{
	if (!apply_not_ending(sv, w) || w->blame[0])
		return;
	snprintf(w->blame, sizeof(w->blame), "%s", text);
	if (!w->blame_us) /* else the worker had reported an error before */
		w->blame_us = (int64_t)loop_real_us();
	supervisor_report(
		sv, LOG_WARNING, "worker-failing", w->rank, NULL, "%s: %s", worker_name(w), text);
	supervisor_changed(sv);
}

void supervisor_end_failing(struct supervisor *sv, struct worker *w)
{
	if (!apply_not_ending(sv, w) || !w->blame[0])
		return;
	lifecycle_end(sv, w, (uint64_t)sv->spec->stop.timeout_ms, true);
	supervisor_changed(sv);
}

void supervisor_worker_error(
	struct supervisor *sv, struct worker *w, const char *code, const char *message)
{
	bool known = code && *code && strcmp(code, status_name(STATUS_UNKNOWN)) != 0;
	char *text;
	int n;

	if (!worker_alive(w) || w->app_error)
		return;
	if (!*message)
		n = asprintf(&text, "%s", known ? code : "it gave no message");
	else if (known)
		n = asprintf(&text, "%s (%s)", message, code);
	else
		n = asprintf(&text, "%s", message);
	if (n < 0)
		return;
	w->app_error = text;
	if (!w->blame_us)
		w->blame_us = (int64_t)loop_real_us();
	supervisor_report(sv, LOG_WARNING, "worker-error", w->rank,
		json_pack("{s:s, s:s}", "worker", worker_name(w), "code", code ? code : ""),
		"%s reported an error: %.400s", worker_name(w), text);
	supervisor_changed(sv);
}
