/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/files/file_system.h"
#include "agent/policy/failure.h"
#include "agent/policy/failure_list.h"
#include "agent/policy/verdict.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/supervisor.h"
#include "agent/supervise/why.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/text/json.h"
#include "common/text/report.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * What an end means: which failure came first, whether the policy grants another incarnation, and
 * at the very end the verdict.
 */

struct restart_fault outcome_fault(const struct task *t, uint64_t since_ms)
{
	struct restart_fault f = {
		.cause = t->exit.error	  ? RESTART_EXEC
			 : t->blame[0]	  ? RESTART_HEARTBEAT
			 : t->exit.signal ? RESTART_SIGNAL
					  : RESTART_EXIT,
		.value = t->exit.signal ? t->exit.signal : t->exit.code,
		.ran_ms = (int64_t)(loop_now_ms() - since_ms),
	};

	if (f.cause == RESTART_EXIT && !f.value) /* it had reported an error */
		f.value = 1;
	return f;
}

void agent_oom_text(const struct agent *a, const struct task *t, char *text, size_t size)
{
	int64_t n;
	bool here;

	text[0] = '\0';
	if (t->exit.signal != SIGKILL || t->stop_us)
		return;
	n = cgroup_oom_kills(a->cgroup, &here) - a->oom_kills;
	if (n <= 0 || here != a->oom_here)
		return;
	if (here)
		snprintf(text, size, ": out of memory, %lld of the job's processes were killed",
			(long long)n);
	else
		snprintf(text, size,
			", perhaps out of memory: the kernel has killed %lld processes on this host",
			(long long)n);
}

void outcome_decide(struct agent *a, const struct spec_restart *policy,
	const struct restart_fault *fault, const char *what)
{
	restart_decide(policy, &a->budget, fault, loop_now_ms(), &a->decision);
	agent_set_reason(a, "%s; %s", what, a->decision.text);
	a->then[0] = '\0';
	a->culprit = -1;
	why_note(a, a->reason);
	a->said = a->decision.restart || agent_alive(a);
	if (a->said) /* else it is the last message */
		log_notice("%s", a->reason);
	events_add(a->events, a->decision.restart ? "restart" : "no-restart", a->attempt, -1,
		json_pack("{s:s, s:b, s:I}", "cause", restart_cause_name(fault->cause), "counted",
			a->decision.counted, "delay_ms", (json_int_t)a->decision.delay_ms),
		"%s", a->reason);
}

/* A task of scope group that has failed, or is known to. */
static bool outcome_is_groups(const struct agent *a, const struct task *t)
{
	return (t->state == TASK_FAILED || !t->exit.ended) && !spec_scope_task(a->spec, t->role);
}

void outcome_group_failed(struct agent *a)
{
	struct failures f = { 0 };
	struct restart_fault fault = { .cause = RESTART_EXIT, .value = 1 };
	const struct spec_restart *policy = &a->spec->restart;
	char what[512] = "a worker failed";

	if (!failures_known(&f, a->tasks, a->n_tasks, (int64_t)loop_real_us()) && f.n) {
		const struct task *t;
		size_t i = 0;

		/* What fails alone is no matter of the group's policy. */
		while (i + 1 < f.n && !outcome_is_groups(a, f.items[i].task))
			i++;
		t = f.items[i].task;
		policy = spec_restart_of(a->spec, t->role);
		fault = outcome_fault(t, a->spawned_ms);
		a->end.exit_status = outcome_status(a, t);
		failure_text(&f.items[i], what, sizeof(what));
		outcome_tell_known(a, &f);
	}
	failures_fini(&f);
	outcome_decide(a, policy, &fault, what);
	snprintf(a->then, sizeof(a->then), "%s", a->decision.text);
}

void outcome_task_spent(struct agent *a, const struct task *t)
{
	memset(&a->decision, 0, sizeof(a->decision));
	a->culprit = t->rank;
	a->end.exit_status = outcome_status(a, t);
	agent_post(a, GROUP_EV_FAIL);
}

/* Who a person stopped has not succeeded, and is not waited for. */
static void outcome_succeeded(const struct agent *a, char *text, size_t size)
{
	const char *why = "stopped on request";
	const struct task *last = NULL;
	int n = 0, unable = 0;

	for (int i = 0; i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];

		if (!t->on_purpose || t->state == TASK_SUCCEEDED)
			continue;
		n++;
		unable += t->exit.error != 0;
		last = t;
	}
	if (unable)
		why = unable < n ? "stopped on request or not started" : "not started";
	if (!n)
		snprintf(text, size, "all workers succeeded");
	else if (n == 1)
		snprintf(text, size, "all workers succeeded, but for %s, which was %s",
			agent_task_name(last), why);
	else
		snprintf(text, size, "all workers succeeded, but for %d that were %s", n, why);
}

void outcome_all_ended(struct agent *a)
{
	char what[256];
	struct restart_fault fault = {
		.cause = RESTART_FINISHED,
		.ran_ms = (int64_t)(loop_now_ms() - a->spawned_ms),
	};

	memset(&a->decision, 0, sizeof(a->decision));
	if (a->spec->restart.policy == SPEC_RESTART_ALWAYS && !a->on_notice) {
		outcome_succeeded(a, what, sizeof(what));
		outcome_decide(a, &a->spec->restart, &fault, what);
	}
	agent_post(a, a->decision.restart ? GROUP_EV_RETRY : GROUP_EV_DONE);
}

/* What is wrong with the others although the leader is content; false: nothing. */
static bool outcome_others_failed(struct agent *a, char *what, size_t size)
{
	struct failures f = { 0 };
	bool failed = false;

	if (!failures_known(&f, a->tasks, a->n_tasks, (int64_t)loop_real_us()) && f.has_root) {
		failed = true;
		failure_text(&f.items[0], what, size);
		a->end.exit_status = outcome_status(a, f.items[0].task);
		outcome_tell_known(a, &f);
	}
	failures_fini(&f);
	return failed;
}

/* timeout: it was cut short by a limit of the whole job, after which nothing is started again. */
static void outcome_leader_end(struct agent *a, bool timeout)
{
	char what[512];

	loop_timer_disarm(a->leader_timer);
	if (a->leader_failed) {
		memset(&a->decision, 0, sizeof(a->decision));
		agent_set_reason(a, "%s", a->leader_text);
		agent_post(a, GROUP_EV_FAIL);
	} else if (outcome_others_failed(a, what, sizeof(what))) {
		memset(&a->decision, 0, sizeof(a->decision));
		snprintf(a->then, sizeof(a->then), "%s", a->leader_text);
		a->culprit = -1;
		agent_set_reason(a, "%s; %s", what, a->leader_text);
		agent_post(a, GROUP_EV_FAIL);
	} else {
		agent_set_reason(a, "%s", a->leader_text);
		if (timeout)
			agent_post(a, GROUP_EV_DONE);
		else
			outcome_all_ended(a);
	}
}

void outcome_leader_over(struct agent *a)
{
	outcome_leader_end(a, false);
}

void agent_restart_asked(struct agent *a, enum restart_cause cause, const char *why)
{
	struct restart_fault fault = { .cause = cause };

	outcome_decide(a, &a->spec->restart, &fault, why);
	a->all_again = true;
	record_flush(a);
	agent_post(a, GROUP_EV_RESTART);
}

void agent_timeout_asked(struct agent *a, int64_t limit_ms, const char *limit)
{
	char after[32];

	agent_settle(a);
	if (agent_decided(a))
		return;
	if (limit_ms % 1000)
		snprintf(after, sizeof(after), "%.3f s", (double)limit_ms / 1000);
	else
		snprintf(after, sizeof(after), "%" PRId64 " s", limit_ms / 1000);
	events_add(a->events, "timeout", a->attempt, -1, NULL, "timed out after %s (%s)", after,
		limit);
	log_warning("timed out after %s (%s)", after, limit);
	/* How the job ends was decided by the leader: only the others' time is cut short. */
	if (a->leader_over && !agent_in_stop(a)) {
		outcome_leader_end(a, true);
		return;
	}
	agent_set_reason(a, "timed out after %s", after);
	agent_post(a, GROUP_EV_TIMEOUT);
}

void agent_stop_asked(struct agent *a, int signo, int64_t timeout_ms, const char *why)
{
	bool again;

	agent_settle(a);
	again = agent_in_stop(a) && (a->group.goal == GOAL_STOP || a->stopped_by);
	/* Who comes when the end is decided may hasten it, but is not its reason. */
	if (!agent_decided(a))
		agent_set_reason(a, "%s", why);
	log_notice("%s", why);
	events_add(a->events, "stop", a->attempt, -1, NULL, "%s", why);
	if (signo && !a->stopped_by)
		a->stopped_by = signo;
	if (!agent_in_stop(a)) {
		/* The workers get the same signal where it is forwarded, else the stop signal. */
		a->stop_signal = agent_forwards(a, signo) ? signo : a->spec->stop.signal;
		a->stop_timeout_ms = timeout_ms;
	} else if (timeout_ms != SPEC_UNSET) {
		agent_stop_within(a, (uint64_t)timeout_ms);
	}
	if (again && signo)
		agent_stop_kill(a); /* the second time means it */
	agent_post(a, GROUP_EV_STOP);
	agent_settle(a);
}

void outcome_end(struct agent *a)
{
	bool timeout = a->group.goal == GOAL_TIMEOUT;
	_cleanup_json_ json_t *failures = timeout ? agent_failures_json(a, -1) : NULL;
	char succeeded[256];
	struct verdict_facts facts = { .group = a->group,
		.lost = a->lost,
		.answered = a->decision.restart,
		.reason = a->reason,
		.then = a->then,
		.succeeded = a->leader_over ? a->leader_text : succeeded,
		.exit_status = a->end.exit_status,
		.stop_signal = a->stopped_by ? a->stopped_by : a->spec->stop.signal,
		.preempted_status = agent_preempted_status(a),
		.cause = a->end.root_cause,
		.last = failure_list_last(failures) };
	struct verdict v;
	json_t *cause;

	if (a->end.result || a->unjudged) /* an agent before this one came so far, or one after */
		return;
	outcome_succeeded(a, succeeded, sizeof(succeeded));
	v = verdict_of(&facts);
	cause = v.cause ? json_incref((json_t *)v.cause) : NULL;
	json_decref(a->end.root_cause);
	a->end.root_cause = cause;
	a->end.result = v.result;
	a->end.exit_status = v.exit_status;
	snprintf(a->end.message, sizeof(a->end.message), "%s", v.message);
	if (a->group.state != GROUP_SUCCEEDED)
		agent_set_reason(a, "%s", v.message);
}

static void outcome_report(struct agent *a)
{
	_cleanup_json_ json_t *failures =
		agent_failures_json(a, (int)json_get_int(a->end.root_cause, "attempt", a->attempt));
	_cleanup_free_ char *text = NULL;
	const char *no_color = getenv("NO_COLOR");

	if (strcmp(a->end.result, "failed") && strcmp(a->end.result, "timeout") &&
		strcmp(a->end.result, "preempted"))
		return;
	/* Of what could not be executed there is no more to say. */
	if (!json_array_size(failures) ||
		json_object_get(json_object_get(a->end.root_cause, "exit"), "error"))
		return;
	text = report_format(spec_entrypoint(a->spec), failures,
		isatty(STDERR_FILENO) && !(no_color && *no_color));
	if (text && fputs(text, stderr) != EOF)
		fflush(stderr);
}

static void outcome_quit(void *arg)
{
	struct agent *a = arg;

	loop_quit(a->loop, a->end.exit_status);
}

static void outcome_drained(void *arg)
{
	struct agent *a = arg;

	if (a->opt.foreground)
		outcome_report(a);
	features_last_answers(a, outcome_quit, a);
}

void agent_finish(struct agent *a)
{
	a->ended = true;
	if (a->unjudged) {
		loop_quit(a->loop, 125);
		return;
	}
	a->ended_us = (int64_t)loop_real_us();
	loop_timer_disarm(a->run_timer);
	loop_timer_disarm(a->backoff_timer);
	agent_single_leave(a, a->reason);
	agent_ask_settle(a, true);
	log_msg(strcmp(a->end.result, "succeeded") ? LOG_NOTICE : LOG_INFO,
		"%s (exit status %d)%s%s", a->end.result, a->end.exit_status, a->said ? "" : ": ",
		a->said ? "" : a->end.message);
	/* An agent that was lost may have come as far as this, and no farther. */
	if (strcmp(json_get_string(a->past_verdict, "result", ""), a->end.result) != 0)
		events_add(a->events, "ended", a->attempt, -1, agent_verdict_json(a), "%s: %s",
			a->end.result, a->end.message);
	FEATURES_CALL(a, job_ended, a);
	if (logs_run_dir(a->logs) && log_fs_usage(logs_run_dir(a->logs), &a->log_bytes) < 0)
		log_debug("the size of the logs is not known");
	record_verdict(a);
	if (logs_drain(a->logs, AGENT_DRAIN_MS, outcome_drained, a) < 0)
		outcome_drained(a);
}
