/* SPDX-License-Identifier: Apache-2.0 */
/* preempt: gives jobs notice, so that they save a checkpoint and exit. */
#include "client/base/job.h"
#include "client/output/time_text.h"
#include "client/verbs/verbs.h"

#include <string.h>

static int name_waiting(struct ctl *ctl, const json_t *answer)
{
	const json_t *name;
	size_t i;

	json_array_foreach (json_object_get(answer, "waiting"), i, name)
		ctl_error(ctl, CTL_REFUSED,
			"%s: its agent does not answer; it gets the notice when it does",
			json_string_value(name));
	return json_array_size(json_object_get(answer, "waiting")) ? CTL_REFUSED : 0;
}

/* Gives notice to one job, or (NULL) to all. Adds their runs to runs. */
static int give_notice(
	struct ctl *ctl, const struct args *args, const char *name, int64_t grace_ms, json_t *runs)
{
	_cleanup_json_ json_t *answer = NULL;
	const char *reason = args_get(args, "reason");
	json_t *p = name ? ctl_job(name) : json_object();
	int r;

	if (grace_ms >= 0)
		p = ctl_with(p, "grace_ms", json_integer(grace_ms));
	if (reason)
		p = ctl_with(p, "reason", json_string(reason));
	ctl_waiting(ctl, "%s to take the notice", name ? name : "all jobs");
	r = ctl_call(ctl, "Preempt", p, &answer);
	if (r == 0 && json_array_extend(runs, json_object_get(answer, "runs")) < 0)
		r = ctl_error(ctl, CTL_FAILED, "out of memory");
	return r ? r : name_waiting(ctl, answer);
}

static int await_all(struct ctl *ctl, const json_t *runs, int64_t began_us)
{
	_cleanup_json_ json_t *report = json_array();
	int result = 0;
	json_t *run;
	size_t i;

	json_array_foreach (runs, i, run) {
		_cleanup_json_ json_t *job = NULL;
		int r = job_wait_end(ctl, json_string_value(run), NULL, NULL, began_us, &job);

		if (r == 0)
			json_array_append(report, job);
		result = result ? result : r;
		if (r == CTL_TIMED_OUT || r == CTL_NO_DAEMON)
			break;
	}
	if (ctl->json)
		ctl_print_json(report, false);
	return result;
}

int cmd_preempt(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *runs = json_array();
	bool all = args_has(args, "all");
	int64_t grace_ms = -1, began_us = ctl_now_us();
	struct error err = { 0 };
	int result = 0;

	if (args_duration(args, "grace", &grace_ms, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	if (all == (args->argc > 0))
		return ctl_usage(ctl, "expected jobs or --all, got %s", all ? "both" : "neither");
	if (!runs)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	if (all)
		result = give_notice(ctl, args, NULL, grace_ms, runs);
	for (int i = 0; i < args->argc; i++) {
		int r = give_notice(ctl, args, args->argv[i], grace_ms, runs);

		if (r == 0)
			ctl_say(ctl, "%s has notice", args->argv[i]);
		result = result ? result : r;
	}
	if (all && (result == 0 || json_array_size(runs)))
		ctl_say(ctl, "%zu job%s notice", json_array_size(runs),
			json_array_size(runs) == 1 ? " has" : "s have");
	if (args_has(args, "wait")) {
		int r = await_all(ctl, runs, began_us);

		result = result ? result : r;
	} else if (ctl->json) {
		ctl_print_json(runs, false);
	}
	return result;
}
