/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"
#include "agent/dispatch_group.h"
#include "agent/failure.h"
#include "agent/notices.h"
#include "agent/preempting.h"
#include "agent/workers.h"
#include "common/json.h"
#include "common/log.h"
#include "common/report.h"
#include "common/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * What an end means: which failure came first, whether the policy grants another incarnation, and
 * at the very end the verdict.
 */

enum {
	OUTCOME_TAIL_LINES = 20,
	OUTCOME_ATTEMPTS_KEPT = 4, /* in memory; all are in events.jsonl */
	OUTCOME_DETAILED = 64,	   /* of thousands that fail together, the first ones tell enough */
};

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
	log_notice("%s", a->reason);
	events_add(a->events, a->decision.restart ? "restart" : "no-restart", a->attempt, -1,
		json_pack("{s:s, s:b, s:I}", "cause", restart_cause_name(fault->cause), "counted",
			a->decision.counted, "delay_ms", (json_int_t)a->decision.delay_ms),
		"%s", a->reason);
}

/* What the job's exit status is where t is its root cause. */
static int outcome_status(const struct agent *a, const struct task *t)
{
	int status = dispatch_exit_status(a, t);

	return status < 0 ? task_failed_status(t) : status;
}

static void outcome_what(const struct failure *f, char *what, size_t size)
{
	const struct task *t = f->task;
	char message[256];

	if (f->application || task_complaint(t)) {
		failure_message(f, message, sizeof(message));
		snprintf(what, size, "%s: %.200s (%s)", task_called(t), message, t->exit.text);
	} else {
		snprintf(what, size, "%s: %s", task_called(t), t->exit.text);
	}
}

/* Who was found to have failed before, and goes on while that is saved, came first. */
static const struct task *outcome_earlier(const struct agent *a, const struct failure *f)
{
	int64_t first_us = rootcause_time(&f->when, NULL);
	const struct task *ret = NULL;

	for (int i = 0; i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];

		if (!task_alive(t) || !t->blame[0] || t->on_purpose || t->blame_us >= first_us ||
			spec_scope_task(a->spec, t->role))
			continue;
		first_us = t->blame_us;
		ret = t;
	}
	return ret;
}

void outcome_group_failed(struct agent *a)
{
	struct failures f = { 0 };
	struct restart_fault fault = { .cause = RESTART_EXIT, .value = 1 };
	const struct spec_restart *policy = &a->spec->restart;
	char what[512] = "a worker failed";

	if (!failures_collect(&f, a->tasks, a->n_tasks) && f.n) {
		const struct task *earlier;
		size_t i = 0;

		/* What fails alone is no matter of the group's policy. */
		while (i + 1 < f.n && (f.items[i].task->state != TASK_FAILED ||
					      spec_scope_task(a->spec, f.items[i].task->role)))
			i++;
		policy = spec_restart_of(a->spec, f.items[i].task->role);
		fault = outcome_fault(f.items[i].task, a->spawned_ms);
		a->end.exit_status = outcome_status(a, f.items[i].task);
		outcome_what(&f.items[i], what, sizeof(what));
		earlier = outcome_earlier(a, &f.items[i]);
		if (earlier) {
			policy = spec_restart_of(a->spec, earlier->role);
			fault = outcome_fault(earlier, a->spawned_ms);
			a->end.exit_status = task_failed_status(earlier);
			snprintf(
				what, sizeof(what), "%s: %s", task_called(earlier), earlier->blame);
		}
	}
	failures_fini(&f);
	outcome_decide(a, policy, &fault, what);
}

void outcome_task_spent(struct agent *a, struct task *t, const char *text)
{
	memset(&a->decision, 0, sizeof(a->decision));
	agent_set_reason(a, "%s", text);
	a->end.exit_status = task_failed_status(t);
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
	if (a->spec->restart.policy == SPEC_RESTART_ALWAYS && !preempting_is_up(a)) {
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

	if (!failures_collect(&f, a->tasks, a->n_tasks) && f.has_root) {
		failed = true;
		outcome_what(&f.items[0], what, size);
		a->end.exit_status = task_failed_status(f.items[0].task);
	}
	failures_fini(&f);
	for (int i = 0; i < a->n_tasks && !failed; i++) {
		const struct task *t = &a->tasks[i];

		if (!task_alive(t) || !task_complaint(t) || t->on_purpose)
			continue;
		failed = true;
		snprintf(what, size, "%s: %.300s", agent_task_name(t), task_complaint(t));
		a->end.exit_status = 1;
	}
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

void agent_timeout_asked(struct agent *a, const char *why)
{
	agent_settle(a);
	if (agent_decided(a))
		return;
	events_add(a->events, "timeout", a->attempt, -1, NULL, "%s", why);
	log_warning("%s", why);
	/* How the job ends was decided by the leader: only the others' time is cut short. */
	if (a->leader_over && !a->in_stop) {
		outcome_leader_end(a, true);
		return;
	}
	agent_set_reason(a, "%s", why);
	agent_post(a, GROUP_EV_TIMEOUT);
}

void agent_stop_asked(struct agent *a, int signo, int64_t timeout_ms, const char *why)
{
	bool again;

	agent_settle(a);
	again = a->in_stop && (a->group.goal == GOAL_STOP || a->stopped_by);
	/* Who comes when the end is decided may hasten it, but is not its reason. */
	if (!agent_decided(a))
		agent_set_reason(a, "%s", why);
	log_notice("%s", why);
	events_add(a->events, "stop", a->attempt, -1, NULL, "%s", why);
	if (signo && !a->stopped_by)
		a->stopped_by = signo;
	if (!a->in_stop) {
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

static void outcome_keep(struct agent *a, json_t *list)
{
	char key[16];

	if (json_array_size(list)) {
		snprintf(key, sizeof(key), "%d", a->attempt);
		json_put(a->failures, key, json_incref(list));
	}
	/* One goes for each that may come, whether it has come or not. */
	snprintf(key, sizeof(key), "%d", a->attempt - OUTCOME_ATTEMPTS_KEPT);
	json_object_del(a->failures, key);
}

static void outcome_copy_error(struct agent *a, const struct failure *root)
{
	const char *path = a->opt.error_file;
	const struct task_exit *x = &root->task->exit;
	int r;

	if (!path || !*path || !root->has_file)
		return;
	if (access(path, F_OK) == 0)
		log_warning("%s is there already and is replaced", path);
	r = errorfile_copy(&root->file, path, x->signal ? -x->signal : x->code);
	if (r < 0)
		log_warning(
			"cannot copy the root cause's error file to %s: %s", path, strerror(-r));
}

static json_t *outcome_failure_json(struct agent *a, struct failure *f, bool detailed)
{
	enum { STDERR_INDEX = 1 }; /* of the two streams, not a bit of STD_BOTH */
	int lines = f->collateral ? 3 : OUTCOME_TAIL_LINES;
	char message[256];
	json_t *j;

	if (detailed)
		return failure_json(f, a->host, a->attempt,
			logs_tail(a->logs, f->task->local_rank, STDERR_INDEX, lines));
	failure_message(f, message, sizeof(message));
	j = failure_json(f, a->host, a->attempt, NULL);
	json_object_del(j, "traceback");
	json_put(j, "message", json_text(message));
	return j;
}

static void outcome_one(struct agent *a, struct failure *f, json_t *list)
{
	char message[256];
	json_t *j;

	failure_message(f, message, sizeof(message));
	j = outcome_failure_json(a, f, json_array_size(list) < OUTCOME_DETAILED);
	if (!f->collateral && f->task->state == TASK_STOPPED)
		task_set_state(f->task, TASK_FAILED, f->task->exit.text);
	if (f->collateral)
		snprintf(f->task->reason, sizeof(f->task->reason), "collateral: %.140s",
			f->task->exit.text);
	events_add(a->events, "task-failed", a->attempt, f->task->rank, json_incref(j), "%s%s: %s",
		task_called(f->task), f->collateral ? " (collateral)" : "", message);
	if (f->problem && f->task->error_file) {
		log_warning("%s: %s", f->task->error_file, f->problem);
		events_add(a->events, "error-file", a->attempt, f->task->rank, NULL, "%s: %s",
			f->task->error_file, f->problem);
	}
	json_array_append_new(list, j);
}

/* Failures that were made good come after those that ended the incarnation. */
static void outcome_keep_more(struct agent *a, json_t *list)
{
	char key[16];

	snprintf(key, sizeof(key), "%d", a->attempt);
	json_array_extend(list, json_object_get(a->failures, key));
	outcome_keep(a, list);
}

void outcome_keep_one(struct agent *a, struct task *t)
{
	json_t *list = NULL, *j;
	struct failures f = { 0 };
	char key[16];

	snprintf(key, sizeof(key), "%d", a->attempt);
	if (failures_collect_one(&f, t) < 0)
		return;
	j = outcome_failure_json(a, f.items, true);
	events_add(a->events, "task-failed-once", a->attempt, t->rank, json_incref(j), "%s: %s",
		agent_task_name(t), json_get_string(j, "message", ""));
	failures_fini(&f);
	list = json_object_get(a->failures, key);
	if (!list) {
		list = json_array();
		json_array_append_new(list, j);
		outcome_keep(a, list);
		json_decref(list);
		return;
	}
	json_array_append_new(list, j);
	if (json_array_size(list) > OUTCOME_DETAILED) /* it fails again and again */
		json_array_remove(list, 0);
}

/* Where a program had reported an error, the limit that ended the job is not all there is to say.
 */
static void outcome_reason_application(struct agent *a, const struct failure *root)
{
	char what[512], limit[sizeof(a->reason)];

	snprintf(limit, sizeof(limit), "%s", a->reason);
	outcome_what(root, what, sizeof(what));
	agent_set_reason(a, "%s; %s", what, limit);
}

/* What failed by itself is said beside it. */
static void outcome_reason_preempted(struct agent *a, const struct failure *root)
{
	char what[300], before[sizeof(a->reason)];

	snprintf(before, sizeof(before), "%s", a->reason);
	outcome_what(root, what, sizeof(what));
	agent_set_reason(a, "%s; %s", before, what);
}

void agent_incarnation_over(struct agent *a)
{
	bool wanted = a->group.goal == GOAL_STOP || a->group.goal == GOAL_SUCCEED ||
		      a->group.goal == GOAL_PREEMPT ||
		      (a->group.goal == GOAL_RETRY && a->decision.restart && !a->decision.counted);
	struct failures f = { 0 };
	json_t *list = json_array();

	if (failures_collect(&f, a->tasks, a->n_tasks) < 0)
		log_error("out of memory: the failures of attempt %d are not reported", a->attempt);
	if (a->group.goal == GOAL_TIMEOUT)
		failures_prefer_application(&f);
	for (size_t i = 0; i < f.n; i++)
		/* What ended because it was asked to is no failure where nothing else failed. */
		if (!f.items[i].collateral || (f.has_root && !wanted))
			outcome_one(a, &f.items[i], list);
	if (json_array_size(list)) {
		json_decref(a->end.root_cause);
		a->end.root_cause = json_incref(json_array_get(list, 0));
		if (f.has_root && (a->group.goal == GOAL_FAIL || a->group.goal == GOAL_TIMEOUT))
			outcome_copy_error(a, &f.items[0]);
		a->end.exit_status = outcome_status(a, f.items[0].task);
		a->end.application = f.items[0].application && !f.items[0].collateral;
		if (a->end.application && a->group.goal == GOAL_TIMEOUT)
			outcome_reason_application(a, &f.items[0]);
		if (a->group.goal == GOAL_PREEMPT)
			outcome_reason_preempted(a, &f.items[0]);
	}
	outcome_keep_more(a, list);
	json_decref(list);
	failures_fini(&f);
	a->stop_signal = 0;
	agent_ask_settle(a, true);
}

static void outcome_set(struct agent *a, const char *result, int status, const char *message)
{
	a->end.result = result;
	a->end.exit_status = status;
	snprintf(a->end.message, sizeof(a->end.message), "%s", message);
}

/* An application's error outranks the limit that ended the job. */
static void outcome_verdict(struct agent *a)
{
	const char *reason = a->reason[0] ? a->reason : "failed";
	char text[256];

	if (a->end.result) /* an agent before this one came so far */
		return;
	if (a->group.state == GROUP_SUCCEEDED) {
		a->end.root_cause = (json_decref(a->end.root_cause), NULL);
		outcome_succeeded(a, text, sizeof(text));
		outcome_set(a, "succeeded", 0, a->leader_over ? a->leader_text : text);
	} else if (a->group.state == GROUP_STOPPED) {
		int signo = a->stopped_by ? a->stopped_by : a->spec->stop.signal;

		a->end.root_cause = (json_decref(a->end.root_cause), NULL);
		outcome_set(a, "stopped", 128 + signo, reason);
	} else if (a->group.state == GROUP_PREEMPTED) {
		outcome_set(a, "preempted", preempting_exit_code(a), reason);
	} else if (a->group.goal == GOAL_TIMEOUT && !a->end.application) {
		outcome_set(a, "timeout", 124, reason);
	} else if (a->lost) {
		outcome_set(a, "agent_lost", 125, reason);
	} else if (a->end.root_cause) {
		outcome_set(a, "failed", a->end.exit_status ? a->end.exit_status : 1, reason);
	} else {
		outcome_set(a, "failed", a->end.exit_status ? a->end.exit_status : 125, reason);
	}
}

static void outcome_report(struct agent *a)
{
	_cleanup_json_ json_t *failures = agent_failures_json(a, a->attempt);
	_cleanup_free_ char *text = NULL;
	const char *no_color = getenv("NO_COLOR");

	if (strcmp(a->end.result, "failed") && strcmp(a->end.result, "timeout") &&
		strcmp(a->end.result, "preempted"))
		return;
	if (!json_array_size(failures))
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
	agent_server_end(a, outcome_quit, a);
}

void agent_finish(struct agent *a)
{
	a->ended = true;
	if (a->unjudged) {
		loop_quit(a->loop, 125);
		return;
	}
	a->ended_us = (int64_t)loop_real_us();
	notices_end(a);
	loop_timer_disarm(a->run_timer);
	loop_timer_disarm(a->backoff_timer);
	agent_single_leave(a, a->reason);
	agent_ask_settle(a, true);
	outcome_verdict(a);
	log_msg(strcmp(a->end.result, "succeeded") ? LOG_NOTICE : LOG_INFO,
		"%s (exit status %d): %s", a->end.result, a->end.exit_status, a->end.message);
	/* An agent that was lost may have come as far as this, and no farther. */
	if (strcmp(json_get_string(a->past_verdict, "result", ""), a->end.result) != 0)
		events_add(a->events, "ended", a->attempt, -1, agent_verdict_json(a), "%s: %s",
			a->end.result, a->end.message);
	dispatch_over(a);
	workers_record(a);
	record_verdict(a);
	if (logs_drain(a->logs, AGENT_DRAIN_MS, outcome_drained, a) < 0)
		outcome_drained(a);
}
