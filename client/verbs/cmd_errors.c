/* SPDX-License-Identifier: Apache-2.0 */
/* errors and why: the failures, and the restart policy's decisions about them. */
#include "client/base/job.h"
#include "client/output/time_text.h"
#include "client/output/wrap.h"
#include "client/verbs/verbs.h"
#include "common/base/memstream.h"
#include "common/base/printable.h"
#include "common/text/json.h"
#include "common/text/report.h"

#include <string.h>

/* Names the hosts that were not heard. */
static void print_note(struct ctl *ctl, const json_t *answer)
{
	if (has_value(answer, "note"))
		ctl_error(ctl, 0, "%s", get_text(answer, "note"));
}

/* Says that no worker failed, and how the run ended, which may have failed all the same. */
static int print_none(struct ctl *ctl, const char *name, bool one_attempt)
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

static void run_line(FILE *f, const char *label, const char *text)
{
	_cleanup_free_ char *shown = text ? printable_dup(text) : NULL;

	if (shown)
		fprintf(f, "  %-10s: %s\n", label, shown);
}

/* A reader of the report who was not there needs these, too. name is the job's, as the user gave
 * it. */
static void write_run(FILE *f, const char *name, const json_t *job, const json_t *failure)
{
	_cleanup_free_ char *verdict = has_value(job, "verdict") ? job_verdict_text(job) : NULL;
	const char *run = json_get_string(job, "run", "?"), *user = get_text(job, "user");
	const char *state = get_text(job, "state"), *reason = get_text(job, "reason");
	int64_t began_us = get_int(job, has_value(job, "started_us") ? "started_us" : "created_us");
	char text[512], took[TIME_TEXT_MAX], stamp[TIME_TEXT_MAX];

	fputs("Run:\n", f);
	snprintf(text, sizeof(text), "%.200s, as %.64s, failed %s after its start at %s", run,
		user ? user : "?", time_text_since(get_int(failure, "time_us"), began_us, took),
		time_text_timestamp(began_us, stamp));
	run_line(f, "run", text);
	run_line(f, "command", get_text(job, "command"));
	run_line(f, "directory", get_text(job, "cwd"));
	if (get_int(job, "max_restarts") >= 0)
		snprintf(text, sizeof(text), "%d of %d used", (int)get_int(job, "restarts"),
			(int)get_int(job, "max_restarts"));
	else
		snprintf(text, sizeof(text), "%d used", (int)get_int(job, "restarts"));
	run_line(f, "restarts", text);
	if (!verdict && (reason || state))
		snprintf(text, sizeof(text), "%s%s%.400s", state ? state : "", reason ? ": " : "",
			reason ? reason : "");
	run_line(f, verdict ? "verdict" : "state", verdict ? verdict : text);
	run_line(f, "logs", get_text(job, "log_dir"));
	run_line(f, "note", get_text(job, "note"));
	snprintf(text, sizeof(text), "elasticctl logs --attempt=%d %.200s/%d",
		(int)get_int(failure, "attempt"), name, (int)get_int(failure, "rank"));
	run_line(f, "lines", text);
}

/* Prints what is known of the run, if elasticd still knows it. Returns an exit status. */
static int print_run(struct ctl *ctl, const char *name, const json_t *failure)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *refusal = NULL, *whole = NULL;
	struct error err = { 0 };
	char *text = NULL;
	size_t size;
	FILE *f;

	if (ctl_try(ctl, "Status", ctl_job(name), &answer, &refusal, &err) != 0)
		return 0;
	f = open_memstream(&text, &size);
	if (f) {
		write_run(f, name, json_object_get(answer, "job"), failure);
		whole = memstream_end(f, &text);
	}
	if (!whole)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	wrap_print(stdout, whole, WRAP_OWN, ctl->columns);
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
	print_note(ctl, answer);
	if (ctl->json) {
		ctl_print_json(failures, false);
		return 0;
	}
	if (json_array_size(failures) == 0)
		return print_none(ctl, job, attempt >= 0);
	snprintf(heading, sizeof(heading), "%.100s attempt %d", job,
		(int)get_int(json_array_get(failures, 0), "attempt"));
	text = report_format(heading, failures, ctl->color_out);
	if (!text)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	wrap_print(stdout, text, WRAP_OWN, ctl->columns);
	print_run(ctl, job, json_array_get(failures, 0));
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
	print_note(ctl, answer);
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
