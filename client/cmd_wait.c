/* SPDX-License-Identifier: Apache-2.0 */
/* wait and events: being told instead of asking again and again. */
#include "client/event_line.h"
#include "client/humane.h"
#include "client/job.h"
#include "client/verbs.h"
#include "common/printable.h"

#include <string.h>

int cmd_wait(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *verdict = NULL;
	const char *until = args_get(args, "until");
	int64_t limit_ms = ctl->timeout_ms; /* -1: none */
	json_t *job, *p;
	int r;

	if (until && strcmp(until, "running") != 0 && strcmp(until, "ended") != 0)
		return ctl_usage(ctl, "--until: expected running or ended, got \"%s\"", until);
	if (args_has(args, "kill") && limit_ms < 0)
		return ctl_usage(ctl, "--kill needs --timeout");
	p = ctl_job(args->argv[0]);
	if (until)
		p = ctl_with(p, "until", json_string(until));
	if (args_has(args, "kill")) {
		/* The answer comes some time after the limit: when the run was ended. */
		ctl->deadline_ms = -1;
		p = ctl_with(
			ctl_with(p, "kill", json_true()), "timeout_ms", json_integer(limit_ms));
	}
	r = ctl_call(ctl, "Wait", p, &answer);
	if (r != 0)
		return r;
	job = json_object_get(answer, "job");
	if (ctl->json)
		ctl_print_json(job, false);
	if (!job_ended(job)) {
		ctl_say(ctl, "%s is %s", args->argv[0],
			get_text(job, "state") ? get_text(job, "state") : "?");
		return 0;
	}
	verdict = job_verdict_text(job);
	ctl_say(ctl, "%s %s", args->argv[0], verdict ? verdict : "ended");
	return job_exit_status(job);
}

void event_print(FILE *f, bool color, bool with_job, const json_t *event)
{
	const char *job = get_text(event, "job"), *name = get_text(event, "event");
	_cleanup_free_ char *text =
		printable_dup(get_text(event, "text") ? get_text(event, "text") : "");
	char stamp[HUMANE_TEXT_MAX];

	fprintf(f, "%s%s%s ", color ? color_code(COLOR_DIM) : "",
		humane_clock(get_int(event, "time_us"), stamp), color ? COLOR_OFF : "");
	if (with_job && job)
		fprintf(f, "%s%s%s ", color ? color_code(COLOR_BOLD) : "", job,
			color ? COLOR_OFF : "");
	fprintf(f, "%-16s", name ? name : "?");
	/* Most texts name the worker themselves. */
	if (has_value(event, "rank") && strncmp(text ? text : "", "worker ", 7) != 0)
		fprintf(f, " %srank %d:%s", color ? color_rank((int)get_int(event, "rank")) : "",
			(int)get_int(event, "rank"), color ? COLOR_OFF : "");
	fprintf(f, " %s\n", text ? text : "");
}

int cmd_events(struct ctl *ctl, struct args *args)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	const char *job = args->argc > 0 ? args->argv[0] : NULL;
	json_t *p = json_object();
	struct error err = { 0 };
	int64_t since = -1;
	bool more = true;
	int r;

	if (args_int(args, "since", 0, &since, &err) < 0) {
		json_decref(p);
		return ctl_usage(ctl, "%s", err.text);
	}
	ctl->streams = true;
	if (job)
		p = ctl_with(p, "job", json_string(job));
	if (since >= 0)
		p = ctl_with(p, "since", json_integer(since));
	/* Those of all jobs are only there as they happen. */
	if (args_has(args, "follow") || !job)
		p = ctl_with(p, "follow", json_true());
	r = ctl_stream(ctl, "Events", p, &link);
	while (r == 0 && more && !ferror(stdout)) {
		_cleanup_json_ json_t *answer = NULL;
		json_t *event;
		size_t i;

		r = ctl_next(ctl, link, &answer, &more);
		json_array_foreach (json_object_get(answer, "events"), i, event) {
			if (ctl->json)
				ctl_print_json(event, true);
			else
				event_print(stdout, ctl->color_out, !job, event);
		}
		fflush(stdout);
	}
	return r;
}
