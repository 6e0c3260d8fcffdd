/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/last_error.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/supervisor.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <stdio.h>
#include <string.h>

/*
 * An agent that follows one that was lost. What the lost one had decided holds: a job that was on
 * its way to an end ends so, and a wait before the next incarnation is waited to its end. Only
 * workers that were lost in the middle of their work are a matter for the restart policy. All of it
 * is read from the events, which are written before what they tell is done.
 */

/*
 * Whether a step tells where the job is going. The stop of an agent that lost its guard decides
 * nothing, and that all are gone at the end carries out what the step before has decided.
 */
static bool resume_tells(const json_t *step)
{
	const char *by = json_get_string(step, "by", ""), *to = json_get_string(step, "to", "");

	if (!strcmp(by, "gone"))
		return !strcmp(to, "backoff") || !strcmp(to, "rendezvous");
	return strcmp(by, "guard-died") != 0;
}

void agent_past_note(struct agent *a, const json_t *event)
{
	const char *name = json_get_string(event, "event", "");
	json_t *data = json_get_object(event, "data");

	if (!data)
		return;
	FEATURES_CALL(a, past_event, a, event);
	if (!strcmp(name, "state") && resume_tells(data)) {
		json_decref(a->past_state);
		a->past_state = json_incref(data);
	} else if (!strcmp(name, "ended")) {
		json_decref(a->past_verdict);
		a->past_verdict = json_incref(data);
	}
}

/* The results that a verdict can have; the agent keeps no other text for one. */
static const char *resume_result(const char *text)
{
	static const char *const results[] = { "succeeded", "failed", "stopped", "timeout",
		"agent_lost", "preempted" };

	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (!strcmp(results[i], text))
			return results[i];
	return NULL;
}

static void resume_verdict(struct agent *a, const char *result)
{
	json_t *root = json_get_object(a->past_verdict, "root_cause");

	a->end.result = result;
	a->end.exit_status = (int)json_get_int(a->past_verdict, "exit_status", 125);
	a->end.root_cause = root ? json_incref(root) : NULL;
	snprintf(a->end.message, sizeof(a->end.message), "%s",
		json_get_string(a->past_verdict, "message", ""));
	agent_set_reason(a, "%s", a->end.message);
}

/* The event that leads from pending to the end that was decided, or GROUP_N_EVENTS. */
static enum group_event resume_end(struct agent *a)
{
	static const enum group_event ends[] = { GROUP_EV_DONE, GROUP_EV_FAIL, GROUP_EV_STOP,
		GROUP_EV_TIMEOUT, GROUP_EV_PREEMPT };
	const char *by = json_get_string(a->past_state, "by", "");
	const char *result = resume_result(json_get_string(a->past_verdict, "result", ""));

	if (result) {
		resume_verdict(a, result);
		if (!strcmp(result, "succeeded"))
			return GROUP_EV_DONE;
		if (!strcmp(result, "preempted"))
			return GROUP_EV_PREEMPT;
		return strcmp(result, "stopped") ? GROUP_EV_FAIL : GROUP_EV_STOP;
	}
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(by, group_event_name(ends[i])))
			return ends[i];
	return strcmp(by, group_event_name(GROUP_EV_STUCK)) ? GROUP_N_EVENTS : GROUP_EV_FAIL;
}

/* What the failures of the last incarnation were, where the lost agent came to write them. */
static void resume_root_cause(struct agent *a)
{
	_cleanup_json_ json_t *failures = NULL;
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/events.jsonl", a->opt.state_dir) < 0) {
		path = NULL;
		return;
	}
	failures = events_failures(path, a->attempt);
	if (json_array_size(failures))
		a->end.root_cause = json_incref(json_array_get(failures, 0));
}

static bool resume_to_end(struct agent *a)
{
	enum group_event end = resume_end(a);

	if (end == GROUP_N_EVENTS)
		return false;
	if (end == GROUP_EV_PREEMPT)
		(void)features_past_ends_job(a);
	if (!a->end.result) {
		agent_set_reason(a, "%s", json_get_string(a->past_state, "reason", ""));
		a->stopped_by = (int)json_get_int(a->past_state, "signal", 0);
		a->end.exit_status = (int)json_get_int(a->past_state, "exit_status", 0);
		snprintf(
			a->then, sizeof(a->then), "%s", json_get_string(a->past_state, "then", ""));
		resume_root_cause(a);
	}
	log_notice("the agent before this one was lost on the way to the end: %s", a->reason);
	agent_post(a, end);
	return true;
}

/* A restart that was granted is paid for: what is left of its wait is waited, and no more. */
static bool resume_restart(struct agent *a)
{
	bool waited = !strcmp(json_get_string(a->past_state, "to", ""), "backoff");
	int64_t left, delay = json_get_int(a->past_state, "delay_ms", -1);

	if (delay < 0)
		return false;
	left = waited ? (json_get_int(a->past_state, "next_try_us", 0) - (int64_t)loop_real_us()) /
				1000
		      : delay;
	if (left > delay) /* the clock was set back */
		left = delay;
	agent_set_reason(a, "%s", json_get_string(a->past_state, "reason", ""));
	a->decision = (struct restart_decision){ .restart = true,
		.delay_ms = left > 0 ? (uint64_t)left : 0 };
	agent_post(a, GROUP_EV_RETRY);
	return true;
}

void agent_resumed(struct agent *a)
{
	struct restart_fault fault = { .cause = RESTART_AGENT_LOST };
	_cleanup_free_ char *said = last_error_take(a->opt.state_dir);
	const char *why = said ? said : a->opt.lost;
	char what[256];

	if (a->past_verdict && resume_to_end(a))
		return;
	if (a->attempt >= 0 || a->past_state)
		events_add(a->events, "agent-lost", a->attempt, -1, NULL,
			"the agent of this run had died%s%s; its workers were ended with it",
			why ? ": " : "", why ? why : "");
	if (resume_to_end(a))
		return;
	if (features_past_ends_job(a)) { /* nothing is started while a notice is up */
		agent_post(a, GROUP_EV_PREEMPT);
		return;
	}
	if (resume_restart(a))
		return;
	if (a->attempt < 0) { /* lost before its first worker */
		agent_post(a, GROUP_EV_START);
		return;
	}
	snprintf(what, sizeof(what), "%s", why ? why : "the agent had died");
	outcome_decide(a, &a->spec->restart, &fault, what);
	a->lost = !a->decision.restart;
	agent_post(a, a->decision.restart ? GROUP_EV_RETRY : GROUP_EV_FAIL);
}
