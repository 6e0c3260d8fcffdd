/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/verdict.h"
#include "agent/process/last_error.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/text/json.h"

#include <stdio.h>
#include <string.h>

/*
 * Continues a job whose agent was lost. The decisions of the lost agent hold: a job on its way to
 * an end gets that end, and a wait before the next attempt goes on. The restart policy is asked
 * only if workers were lost while they ran. All of this comes from the events, which an agent
 * writes before it acts on them.
 */

/*
 * Whether a step of the group machine decides where the job goes. The stop of an agent whose guard
 * died decides nothing, and the step "gone" carries out the decision of the step before.
 */
static bool recover_decides(const json_t *step)
{
	const char *by = json_get_string(step, "by", ""), *to = json_get_string(step, "to", "");

	if (!strcmp(by, "gone"))
		return !strcmp(to, "backoff") || !strcmp(to, "rendezvous");
	return strcmp(by, "guard-died") != 0;
}

void recover_note(struct supervisor *sv, const json_t *event)
{
	const char *name = json_get_string(event, "event", "");
	json_t *data = json_get_object(event, "data");

	if (!data)
		return;
	FEATURES_CALL(sv, past_event, sv, event);
	if (!strcmp(name, "state") && recover_decides(data)) {
		json_decref(sv->past.state);
		sv->past.state = json_incref(data);
	} else if (!strcmp(name, "ended")) {
		json_decref(sv->past.verdict);
		sv->past.verdict = json_incref(data);
	}
}

static void recover_verdict(struct supervisor *sv, const char *result)
{
	json_t *root = json_get_object(sv->past.verdict, "root_cause");

	sv->end.result = result;
	sv->end.exit_status = (int)json_get_int(sv->past.verdict, "exit_status", 125);
	sv->end.root_cause = root ? json_incref(root) : NULL;
	snprintf(sv->end.message, sizeof(sv->end.message), "%s",
		json_get_string(sv->past.verdict, "message", ""));
	supervisor_set_reason(sv, "%s", sv->end.message);
}

/* The event that leads from pending to the end that the lost agent decided, or GROUP_N_EVENTS. */
static enum group_event recover_end(struct supervisor *sv)
{
	static const enum group_event ends[] = { GROUP_EV_DONE, GROUP_EV_FAIL, GROUP_EV_STOP,
		GROUP_EV_TIMEOUT, GROUP_EV_PREEMPT };
	const char *by = json_get_string(sv->past.state, "by", "");
	const struct verdict_result *result =
		verdict_result(json_get_string(sv->past.verdict, "result", ""));

	if (result) {
		recover_verdict(sv, result->name);
		return result->event;
	}
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(by, group_event_name(ends[i])))
			return ends[i];
	return strcmp(by, group_event_name(GROUP_EV_STUCK)) ? GROUP_N_EVENTS : GROUP_EV_FAIL;
}

/* Sets the root cause from the failures that the lost agent reported of the last attempt. */
static void recover_root_cause(struct supervisor *sv)
{
	_cleanup_free_ char *path = paths_join(sv->opt.state_dir, "events.jsonl");
	_cleanup_json_ json_t *failures = path ? events_failures(path, sv->attempt) : NULL;

	if (json_array_size(failures))
		sv->end.root_cause = json_incref(json_array_get(failures, 0));
}

static bool recover_to_end(struct supervisor *sv)
{
	enum group_event end = recover_end(sv);

	if (end == GROUP_N_EVENTS)
		return false;
	if (end == GROUP_EV_PREEMPT)
		(void)FEATURES_ANY(sv, past_ends_job, sv);
	if (!sv->end.result) {
		supervisor_set_reason(sv, "%s", json_get_string(sv->past.state, "reason", ""));
		sv->stopped_by = (int)json_get_int(sv->past.state, "signal", 0);
		sv->end.exit_status = (int)json_get_int(sv->past.state, "exit_status", 0);
		snprintf(sv->consequence, sizeof(sv->consequence), "%s",
			json_get_string(sv->past.state, "then", ""));
		recover_root_cause(sv);
	}
	log_notice("the agent before this one was lost on the way to the end: %s", sv->reason);
	supervisor_post(sv, end);
	return true;
}

/* The lost agent had granted a restart: waits for the rest of its delay, without asking the budget
 * again. */
static bool recover_restart(struct supervisor *sv)
{
	bool waited = !strcmp(json_get_string(sv->past.state, "to", ""), "backoff");
	int64_t left, delay = json_get_int(sv->past.state, "delay_ms", -1);

	if (delay < 0)
		return false;
	left = waited ? (json_get_int(sv->past.state, "next_try_us", 0) - (int64_t)loop_real_us()) /
				1000
		      : delay;
	if (left > delay) /* the clock was set back */
		left = delay;
	supervisor_set_reason(sv, "%s", json_get_string(sv->past.state, "reason", ""));
	sv->decision = (struct restart_decision){ .restart = true,
		.delay_ms = left > 0 ? (uint64_t)left : 0 };
	supervisor_post(sv, GROUP_EV_RETRY);
	return true;
}

void recover_begin(struct supervisor *sv)
{
	struct restart_fault fault = { .cause = RESTART_AGENT_LOST };
	_cleanup_free_ char *last = last_error_take(sv->opt.state_dir);
	const char *why = last ? last : sv->opt.lost;
	char what[256];

	if (sv->past.verdict && recover_to_end(sv))
		return;
	if (sv->attempt >= 0 || sv->past.state)
		supervisor_event(sv, "agent-lost", -1, NULL,
			"the agent of this run had died%s%s; its workers were ended with it",
			why ? ": " : "", why ? why : "");
	if (recover_to_end(sv))
		return;
	if (FEATURES_ANY(sv, past_ends_job, sv)) { /* nothing is started while a notice is up */
		supervisor_post(sv, GROUP_EV_PREEMPT);
		return;
	}
	if (recover_restart(sv))
		return;
	if (sv->attempt < 0) { /* lost before its first worker */
		supervisor_post(sv, GROUP_EV_START);
		return;
	}
	snprintf(what, sizeof(what), "%s", why ? why : "the agent had died");
	end_run_decide(sv, &sv->spec->restart, &fault, what);
	sv->lost = !sv->decision.restart;
	supervisor_post(sv, sv->decision.restart ? GROUP_EV_RETRY : GROUP_EV_FAIL);
}
