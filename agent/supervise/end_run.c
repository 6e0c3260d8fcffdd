/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/files/file_system.h"
#include "agent/policy/failure.h"
#include "agent/policy/failure_list.h"
#include "agent/policy/verdict.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
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
 * Decides whether the group gets another attempt, ends the run, and sets its verdict.
 */

struct restart_fault end_run_fault(const struct worker *w, uint64_t since_ms)
{
	struct restart_fault f = {
		.cause = w->exit.error	  ? RESTART_EXEC
			 : w->blame[0]	  ? RESTART_HEARTBEAT
			 : w->exit.signal ? RESTART_SIGNAL
					  : RESTART_EXIT,
		.value = w->exit.signal ? w->exit.signal : w->exit.code,
		.ran_ms = (int64_t)(loop_now_ms() - since_ms),
	};

	if (f.cause == RESTART_EXIT && !f.value) /* exit code 0 after it had reported an error */
		f.value = 1;
	return f;
}

void end_run_decide(struct supervisor *sv, const struct spec_restart *policy,
	const struct restart_fault *fault, const char *what)
{
	restart_decide(policy, &sv->budget, fault, loop_now_ms(), &sv->decision);
	supervisor_set_reason(sv, "%s; %s", what, sv->decision.text);
	sv->consequence[0] = '\0';
	sv->root_cause_rank = -1;
	why_note(sv, sv->reason);
	sv->reason_logged = sv->decision.restart || worker_list_alive(sv);
	if (sv->reason_logged) /* else the verdict's message, which follows at once, has it */
		log_notice("%s", sv->reason);
	supervisor_event(sv, sv->decision.restart ? "restart" : "no-restart", -1,
		json_pack("{s:s, s:b, s:I}", "cause", restart_cause_name(fault->cause), "counted",
			sv->decision.counted, "delay_ms", (json_int_t)sv->decision.delay_ms),
		"%s", sv->reason);
}

/* Whether w has scope group and has failed, or is about to end as failed. */
static bool end_run_is_groups(const struct supervisor *sv, const struct worker *w)
{
	return (w->state == WORKER_FAILED || !w->exit.ended) &&
	       !spec_scope_worker(sv->spec, w->role);
}

void end_run_group_failed(struct supervisor *sv)
{
	struct failures f = { 0 };
	struct restart_fault fault = { .cause = RESTART_EXIT, .value = 1 };
	const struct spec_restart *policy = &sv->spec->restart;
	char what[512] = "a worker failed";

	if (!failures_known(&f, sv->workers, sv->n_workers, (int64_t)loop_real_us()) && f.n) {
		const struct worker *w;
		size_t i = 0;

		/* Failures of scope worker do not concern the job's policy. */
		while (i + 1 < f.n && !end_run_is_groups(sv, f.items[i].worker))
			i++;
		w = f.items[i].worker;
		policy = spec_restart_of(sv->spec, w->role);
		fault = end_run_fault(w, sv->spawned_ms);
		sv->end.exit_status = run_failures_status(sv, w);
		failure_text(&f.items[i], what, sizeof(what));
		run_failures_report_known(sv, &f);
	}
	failures_fini(&f);
	end_run_decide(sv, policy, &fault, what);
	snprintf(sv->consequence, sizeof(sv->consequence), "%s", sv->decision.text);
}

void end_run_worker_failed(struct supervisor *sv, const struct worker *w)
{
	memset(&sv->decision, 0, sizeof(sv->decision));
	sv->root_cause_rank = w->rank;
	sv->end.exit_status = run_failures_status(sv, w);
	supervisor_post(sv, GROUP_EV_FAIL);
}

/* Fills text with the success of the run, and names workers that did not succeed because an
 * operator stopped them: the run does not wait for those. */
static void end_run_succeeded(const struct supervisor *sv, char *text, size_t size)
{
	const char *why = "stopped on request";
	const struct worker *last = NULL;
	int n = 0, unable = 0;

	for (int i = 0; i < sv->n_workers; i++) {
		const struct worker *w = &sv->workers[i];

		if (!w->on_purpose || w->state == WORKER_SUCCEEDED)
			continue;
		n++;
		unable += w->exit.error != 0;
		last = w;
	}
	if (unable)
		why = unable < n ? "stopped on request or not started" : "not started";
	if (!n)
		snprintf(text, size, "all workers succeeded");
	else if (n == 1)
		snprintf(text, size, "all workers succeeded, but for %s, which was %s",
			worker_name(last), why);
	else
		snprintf(text, size, "all workers succeeded, but for %d that were %s", n, why);
}

void end_run_all_ended(struct supervisor *sv)
{
	char what[256];
	struct restart_fault fault = {
		.cause = RESTART_FINISHED,
		.ran_ms = (int64_t)(loop_now_ms() - sv->spawned_ms),
	};

	memset(&sv->decision, 0, sizeof(sv->decision));
	if (sv->spec->restart.policy == SPEC_RESTART_ALWAYS && !sv->on_notice) {
		end_run_succeeded(sv, what, sizeof(what));
		end_run_decide(sv, &sv->spec->restart, &fault, what);
	}
	supervisor_post(sv, sv->decision.restart ? GROUP_EV_RETRY : GROUP_EV_DONE);
}

/* The leader succeeded. Fills what if another worker failed; else returns false. */
static bool end_run_others_failed(struct supervisor *sv, char *what, size_t size)
{
	struct failures f = { 0 };
	bool failed = false;

	if (!failures_known(&f, sv->workers, sv->n_workers, (int64_t)loop_real_us()) &&
		f.has_root) {
		failed = true;
		failure_text(&f.items[0], what, size);
		sv->end.exit_status = run_failures_status(sv, f.items[0].worker);
		run_failures_report_known(sv, &f);
	}
	failures_fini(&f);
	return failed;
}

/* timeout: a time limit of the job ends the other workers' grace, and no attempt follows. */
static void end_run_leader_end(struct supervisor *sv, bool timeout)
{
	char what[512];

	loop_timer_disarm(sv->leader.timer);
	if (sv->leader.failed) {
		memset(&sv->decision, 0, sizeof(sv->decision));
		supervisor_set_reason(sv, "%s", sv->leader.text);
		supervisor_post(sv, GROUP_EV_FAIL);
	} else if (end_run_others_failed(sv, what, sizeof(what))) {
		memset(&sv->decision, 0, sizeof(sv->decision));
		snprintf(sv->consequence, sizeof(sv->consequence), "%s", sv->leader.text);
		sv->root_cause_rank = -1;
		supervisor_set_reason(sv, "%s; %s", what, sv->leader.text);
		supervisor_post(sv, GROUP_EV_FAIL);
	} else {
		supervisor_set_reason(sv, "%s", sv->leader.text);
		if (timeout)
			supervisor_post(sv, GROUP_EV_DONE);
		else
			end_run_all_ended(sv);
	}
}

void end_run_leader_over(struct supervisor *sv)
{
	end_run_leader_end(sv, false);
}

void end_run_restart_asked(struct supervisor *sv, enum restart_cause cause, const char *why)
{
	struct restart_fault fault = { .cause = cause };

	if (FEATURES_ANY(sv, takes_request, sv, GROUP_EV_RESTART, SPEC_UNSET, why))
		return;
	end_run_decide(sv, &sv->spec->restart, &fault, why);
	sv->restart_all = true;
	record_flush(sv);
	supervisor_post(sv, GROUP_EV_RESTART);
}

void end_run_timeout_asked(struct supervisor *sv, int64_t limit_ms, const char *limit)
{
	char after[64];

	supervisor_settle(sv);
	if (supervisor_decided(sv))
		return;
	if (limit_ms % 1000)
		snprintf(after, sizeof(after), "timed out after %.3f s", (double)limit_ms / 1000);
	else
		snprintf(after, sizeof(after), "timed out after %" PRId64 " s", limit_ms / 1000);
	if (FEATURES_ANY(sv, takes_request, sv, GROUP_EV_TIMEOUT, SPEC_UNSET, after))
		return;
	supervisor_report(sv, LOG_WARNING, "timeout", -1, NULL, "%s (%s)", after, limit);
	/* The leader's end has decided how the job ends: the limit only cuts the grace short. */
	if (sv->leader.over && !stop_group_active(sv)) {
		end_run_leader_end(sv, true);
		return;
	}
	supervisor_set_reason(sv, "%s", after);
	supervisor_post(sv, GROUP_EV_TIMEOUT);
}

void end_run_stop_asked(struct supervisor *sv, int signo, int64_t timeout_ms, const char *why)
{
	bool again;

	supervisor_settle(sv);
	again = stop_group_active(sv) && (sv->group.goal == GOAL_STOP || sv->stopped_by);
	if (signo && !sv->stopped_by)
		sv->stopped_by = signo;
	if (!supervisor_decided(sv) && !sv->guard_died &&
		FEATURES_ANY(sv, takes_request, sv, GROUP_EV_STOP, timeout_ms, why)) {
		if (again && signo)
			stop_group_kill(sv);
		return;
	}
	/* A stop after the end is decided can only hasten it: the reason stays. */
	if (!supervisor_decided(sv))
		supervisor_set_reason(sv, "%s", why);
	supervisor_report(sv, LOG_NOTICE, "stop", -1, NULL, "%s", why);
	if (!stop_group_active(sv)) {
		/* The workers get the same signal where it is forwarded, else the stop signal. */
		sv->stop_signal = signals_forwarded(sv, signo) ? signo : sv->spec->stop.signal;
		sv->stop_timeout_ms = timeout_ms;
	} else if (timeout_ms != SPEC_UNSET) {
		stop_group_within(sv, (uint64_t)timeout_ms);
	}
	if (again && signo)
		stop_group_kill(sv); /* a second signal does not wait for the time limit */
	supervisor_post(sv, GROUP_EV_STOP);
	supervisor_settle(sv);
}

void end_run_verdict(struct supervisor *sv)
{
	bool timeout = sv->group.goal == GOAL_TIMEOUT;
	_cleanup_json_ json_t *failures = timeout ? job_json_failures(sv, -1) : NULL;
	char succeeded[256];
	struct verdict_facts facts = { .group = sv->group,
		.lost = sv->lost,
		.answered = sv->decision.restart,
		.reason = sv->reason,
		.consequence = sv->consequence,
		.succeeded = sv->leader.over ? sv->leader.text : succeeded,
		.exit_status = sv->end.exit_status,
		.stop_signal = sv->stopped_by ? sv->stopped_by : sv->spec->stop.signal,
		.preempted_status = supervisor_preempted_status(sv),
		.cause = sv->end.root_cause,
		.last = failure_list_last(failures) };
	struct verdict v;
	json_t *cause;

	/* An earlier agent has set it, or a later one will. */
	if (sv->end.result || sv->no_verdict || seat_set_verdict(sv))
		return;
	end_run_succeeded(sv, succeeded, sizeof(succeeded));
	v = verdict_of(&facts);
	cause = v.cause ? json_incref((json_t *)v.cause) : NULL;
	json_decref(sv->end.root_cause);
	sv->end.root_cause = cause;
	sv->end.result = v.result;
	sv->end.exit_status = v.exit_status;
	snprintf(sv->end.message, sizeof(sv->end.message), "%s", v.message);
	if (sv->group.state != GROUP_SUCCEEDED)
		supervisor_set_reason(sv, "%s", v.message);
}

/* The failures for the report. The root cause may be another host's, and is put before those of
 * this one. */
static json_t *end_run_failures(struct supervisor *sv)
{
	json_t *root = sv->end.root_cause;
	json_t *failures = job_json_failures(sv, (int)json_get_int(root, "attempt", sv->attempt));
	const json_t *f;
	size_t i;

	if (!root)
		return failures;
	json_array_foreach (failures, i, f)
		if (json_get_int(f, "rank", -1) == json_get_int(root, "rank", -2))
			return failures;
	json_array_insert(failures, 0, root);
	return failures;
}

static void end_run_report(struct supervisor *sv)
{
	_cleanup_json_ json_t *failures = end_run_failures(sv);
	_cleanup_free_ char *text = NULL;
	const char *no_color = getenv("NO_COLOR");

	if (strcmp(sv->end.result, "failed") && strcmp(sv->end.result, "timeout") &&
		strcmp(sv->end.result, "preempted"))
		return;
	/* One report for all hosts. */
	if (sv->verdict_given ? !sv->reports : sv->seat && sv->seat->group_rank != 0)
		return;
	/* A command that could not be executed has no failures beyond the message. */
	if (!json_array_size(failures) ||
		json_object_get(json_object_get(sv->end.root_cause, "exit"), "error"))
		return;
	text = report_format(spec_entrypoint(sv->spec), failures,
		isatty(STDERR_FILENO) && !(no_color && *no_color));
	if (text && fputs(text, stderr) != EOF)
		fflush(stderr);
}

static void end_run_quit(void *arg)
{
	struct supervisor *sv = arg;

	loop_quit(sv->loop, sv->end.exit_status);
}

static void end_run_drained(void *arg)
{
	struct supervisor *sv = arg;

	if (sv->opt.foreground)
		end_run_report(sv);
	features_last_answers(sv, end_run_quit, sv);
}

void end_run_finish(struct supervisor *sv)
{
	sv->ended = true;
	if (sv->no_verdict) {
		loop_quit(sv->loop, 125);
		return;
	}
	sv->ended_us = (int64_t)loop_real_us();
	loop_timer_disarm(sv->run_timer);
	loop_timer_disarm(sv->backoff_timer);
	lifecycle_leave(sv, sv->reason);
	request_settle(sv, true);
	log_msg(strcmp(sv->end.result, "succeeded") ? LOG_NOTICE : LOG_INFO,
		"%s (exit status %d)%s%s", sv->end.result, sv->end.exit_status,
		sv->reason_logged ? "" : ": ", sv->reason_logged ? "" : sv->end.message);
	/* The agent before this one may have been lost right after this event. */
	if (strcmp(json_get_string(sv->past.verdict, "result", ""), sv->end.result) != 0)
		supervisor_event(sv, "ended", -1, job_json_verdict(sv), "%s: %s", sv->end.result,
			sv->end.message);
	FEATURES_CALL(sv, job_ended, sv);
	if (logs_run_dir(sv->logs) && log_fs_usage(logs_run_dir(sv->logs), &sv->log_bytes) < 0)
		log_debug("cannot measure the size of the logs");
	record_verdict(sv);
	if (logs_drain(sv->logs, SUPERVISOR_DRAIN_MS, end_run_drained, sv) < 0)
		end_run_drained(sv);
}
