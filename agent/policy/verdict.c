/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/verdict.h"

#include "common/text/json.h"

#include <stdio.h>
#include <string.h>

enum { VERDICT_TIMEOUT = 124, VERDICT_TROUBLE = 125 };

const struct verdict_result *verdict_result(const char *name)
{
	static const struct verdict_result results[] = {
		{ "succeeded", GROUP_EV_DONE },
		{ "failed", GROUP_EV_FAIL },
		{ "agent_lost", GROUP_EV_FAIL },
		{ "stopped", GROUP_EV_STOP },
		{ "timeout", GROUP_EV_TIMEOUT },
		{ "preempted", GROUP_EV_PREEMPT },
	};

	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (!strcmp(results[i].name, name))
			return &results[i];
	return NULL;
}

static const char *verdict_what(const json_t *cause)
{
	return json_get_string(cause, "text", json_get_string(cause, "message", "a worker failed"));
}

void verdict_text(const json_t *cause, const char *consequence, char *text, size_t size)
{
	snprintf(text, size, "%.480s%s%s", verdict_what(cause), *consequence ? "; " : "",
		consequence);
}

static int verdict_status(const json_t *cause)
{
	int64_t status = json_get_int(cause, "exit_status", 1);

	return status > 0 && status < 256 ? (int)status : 1;
}

static void verdict_failed(const struct verdict_facts *f, struct verdict *v)
{
	v->result = "failed";
	v->cause = f->cause;
	v->exit_status = f->exit_status ? f->exit_status : VERDICT_TROUBLE;
	if (f->cause)
		v->exit_status = verdict_status(f->cause);
	if (f->cause && *f->consequence)
		verdict_text(f->cause, f->consequence, v->message, sizeof(v->message));
}

/* A failure that a program itself reported counts more than the time limit, unless a restart was
 * granted after it. Other failures are only named in the message. */
static void verdict_timeout(const struct verdict_facts *f, struct verdict *v)
{
	const json_t *cause = f->last ? f->last : f->cause;

	if (f->cause && !f->answered && json_is_true(json_object_get(f->cause, "reported"))) {
		v->result = "failed";
		v->cause = f->cause;
		v->exit_status = verdict_status(f->cause);
		verdict_text(f->cause, f->reason, v->message, sizeof(v->message));
		return;
	}
	v->result = "timeout";
	v->cause = cause;
	v->exit_status = VERDICT_TIMEOUT;
	if (cause)
		snprintf(v->message, sizeof(v->message), "%.120s; last failure: %.480s", f->reason,
			verdict_what(cause));
}

/* The message also names a failure that was not collateral. */
static void verdict_preempted(const struct verdict_facts *f, struct verdict *v)
{
	v->result = "preempted";
	v->cause = f->cause;
	v->exit_status = f->preempted_status;
	if (f->cause)
		snprintf(v->message, sizeof(v->message), "%s; %.250s", f->reason,
			verdict_what(f->cause));
}

struct verdict verdict_of(const struct verdict_facts *f)
{
	struct verdict v = { .result = "failed" };

	snprintf(v.message, sizeof(v.message), "%s", *f->reason ? f->reason : "failed");
	if (f->group.state == GROUP_SUCCEEDED) {
		v.result = "succeeded";
		snprintf(v.message, sizeof(v.message), "%s", f->succeeded);
	} else if (f->group.state == GROUP_STOPPED) {
		v.result = "stopped";
		v.exit_status = 128 + f->stop_signal;
	} else if (f->group.state == GROUP_PREEMPTED) {
		verdict_preempted(f, &v);
	} else if (f->group.goal == GOAL_TIMEOUT) {
		verdict_timeout(f, &v);
	} else if (f->lost) {
		v.result = "agent_lost";
		v.cause = f->cause;
		v.exit_status = VERDICT_TROUBLE;
	} else {
		verdict_failed(f, &v);
	}
	return v;
}
