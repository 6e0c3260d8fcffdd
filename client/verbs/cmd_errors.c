/* SPDX-License-Identifier: Apache-2.0 */
/* errors and why: the failures, and the restart policy's decisions about them. */
#include "client/base/job.h"
#include "client/output/wrap.h"
#include "client/verbs/verbs.h"
#include "common/text/report.h"

#include <string.h>

/* A host that was not heard is named. */
static void tell_note(struct ctl *ctl, const json_t *answer)
{
	if (has_value(answer, "note"))
		ctl_error(ctl, 0, "%s", get_text(answer, "note"));
}

/* Without a failed worker; the run may have failed all the same. */
static int tell_none(struct ctl *ctl, const char *name, bool one_attempt)
{
	_cleanup_json_ json_t *job = NULL;
	_cleanup_free_ char *verdict = NULL;
	int r = one_attempt ? 0 : job_status(ctl, name, false, &job);

	if (r != 0)
		return r;
	if (job && job_ended(job) && job_exit_status(job) != 0)
		verdict = job_verdict_text(job);
	ctl_say(ctl, "%s: no failures%s%s%s", name,
		one_attempt ? " in this attempt"
		: verdict   ? " of workers; the run "
			    : "",
		verdict && (job_in(job, "preempted") || job_in(job, "stopped")) ? "was " : "",
		verdict ? verdict : "");
	return 0;
}

int cmd_errors(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *text = NULL;
	const char *job = args->argv[0];
	struct error err = { 0 };
	int64_t attempt = -1;
	json_t *failures, *p = ctl_job(job);
	char heading[160];
	int r;

	if (args_int(args, "attempt", 0, &attempt, &err) < 0) {
		json_decref(p);
		return ctl_usage(ctl, "%s", err.text);
	}
	if (attempt >= 0)
		p = ctl_with(p, "attempt", json_integer(attempt));
	r = ctl_call(ctl, "Errors", p, &answer);
	if (r != 0)
		return r;
	failures = json_object_get(answer, "failures");
	tell_note(ctl, answer);
	if (ctl->json) {
		ctl_print_json(failures, false);
		return 0;
	}
	if (json_array_size(failures) == 0)
		return tell_none(ctl, job, attempt >= 0);
	snprintf(heading, sizeof(heading), "%.100s attempt %d", job,
		(int)get_int(json_array_get(failures, 0), "attempt"));
	text = report_format(heading, failures, ctl->color_out);
	if (!text)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	wrap_print(stdout, text, WRAP_OWN, ctl->columns);
	return 0;
}

int cmd_why(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	const char *text;
	char *whole;
	int r = ctl_call(ctl, "Why", ctl_job(args->argv[0]), &answer);

	if (r != 0)
		return r;
	tell_note(ctl, answer);
	if (ctl->json) {
		ctl_print_json(answer, false);
		return 0;
	}
	/* The agent writes this text, since only it knows all rules of the policy. */
	text = get_text(answer, "text");
	if (asprintf(&whole, "%s%s%s: %s%s", ctl_color(ctl, COLOR_BOLD), args->argv[0],
		    ctl->color_out ? COLOR_OFF : "", text ? text : "?",
		    text && *text && text[strlen(text) - 1] == '\n' ? "" : "\n") < 0)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	wrap_print(stdout, whole, WRAP_OWN, ctl->columns);
	free(whole);
	return 0;
}
