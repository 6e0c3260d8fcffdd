/* SPDX-License-Identifier: Apache-2.0 */
/* wait and events: the service reports changes, so the client never polls. */
#include "client/base/job.h"
#include "client/base/job_names.h"
#include "client/output/time_text.h"
#include "client/output/wrap.h"
#include "client/verbs/verbs.h"
#include "common/base/memstream.h"
#include "common/base/printable.h"
#include "common/text/json.h"

#include <string.h>

/* On a narrower terminal events are shown without date and kind. */
enum { EVENT_COLUMNS = 80, EVENT_KIND_WIDTH = 18 };
/* The column where an event's text continues: after the kind, or after the time. */
enum { EVENT_INDENT = 43, EVENT_BRIEF_INDENT = 9 };

/* Calls on one connection at a time; elasticd handles 64, and answers in order. */
enum { CALLS_PER_LINK = 32 };

struct waits {
	struct job_names names;
	struct varlink_sync **links; /* one for CALLS_PER_LINK names each */
	json_t *report;
};

static void waits_fini(struct waits *w)
{
	for (int i = 0; w->links && i < w->names.n; i++)
		varlink_sync_free(w->links[i]);
	free(w->links);
	job_names_fini(&w->names);
	json_decref(w->report);
}

/* Sends all calls at once, so that their time limits run in parallel. parameters are those of each
 * call, without the job. */
static int wait_send_calls(struct ctl *ctl, struct waits *w, const json_t *parameters)
{
	int r = 0;

	w->report = json_array();
	w->links = calloc(w->names.n + 1, sizeof(*w->links));
	if (!w->links || !w->report)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	for (int i = 0; i < w->names.n && r == 0; i++) {
		struct varlink_sync **link = &w->links[i / CALLS_PER_LINK];
		json_t *p = ctl_job(w->names.names[i]);

		if (p && json_object_update(p, (json_t *)parameters) < 0) {
			json_decref(p);
			p = NULL;
		}
		if (!*link)
			r = ctl_connect(ctl, link);
		if (r == 0)
			r = ctl_send(ctl, *link, "Wait", p, false);
		else
			json_decref(p);
	}
	return r;
}

/* Reports a job's end under the name that the user gave. Returns its exit status. */
static int wait_report(struct ctl *ctl, const char *name, json_t *job, bool ready, json_t *report)
{
	_cleanup_free_ char *verdict = NULL;

	json_array_append(report, job);
	if (!job_ended(job)) {
		ctl_say(ctl, "%s is %s%s", name, json_get_string(job, "state", "?"),
			ready ? ", and ready" : "");
		return 0;
	}
	verdict = job_verdict_text(job);
	ctl_say(ctl, "%s %s", name, verdict ? verdict : "ended");
	return job_exit_status(job);
}

/* Receives the answers in the order of the names. Returns the first status that is not 0, or why
 * not all answers came. */
static int wait_receive(struct ctl *ctl, struct waits *w, bool ready)
{
	int result = 0;

	for (int i = 0; i < w->names.n; i++) {
		_cleanup_json_ json_t *answer = NULL;
		_cleanup_free_ char *refusal = NULL;
		struct error err = { 0 };
		int left = w->names.n - i - 1, r;

		if (left)
			ctl_waiting(ctl, "%s and %d more", w->names.names[i], left);
		else
			ctl_waiting(ctl, "%s", w->names.names[i]);
		r = ctl_try_next(ctl, w->links[i / CALLS_PER_LINK], &answer, NULL, &refusal, &err);

		if (r == 0)
			r = wait_report(ctl, w->names.names[i], json_object_get(answer, "job"),
				ready, w->report);
		else if (refusal)
			ctl_refused(ctl, r, ctl->refusal, &err);
		fflush(stdout);
		/* After a timeout, or without elasticd, no more answers come. */
		if (!answer && !refusal)
			return r;
		if (result == 0)
			result = r;
	}
	return result;
}

int cmd_wait(struct ctl *ctl, struct args *args)
{
	_cleanup_(waits_fini) struct waits w = { 0 };
	_cleanup_json_ json_t *p = json_object();
	const char *until = args_get(args, "until");
	int r;

	if (until && strcmp(until, "running") != 0 && strcmp(until, "ready") != 0 &&
		strcmp(until, "ended") != 0)
		return ctl_usage(
			ctl, "--until: expected running, ready or ended, got \"%s\"", until);
	if (args_has(args, "kill") && ctl->timeout_ms < 0)
		return ctl_usage(ctl, "--kill needs --timeout");
	if (until)
		p = ctl_with(p, "until", json_string(until));
	r = job_names_get(ctl, args, JOB_NAMES_NEWEST, &w.names);
	if (r == 0 && args_has(args, "kill")) {
		p = ctl_with(p, "kill", json_true());
		p = ctl_with(p, "timeout_ms", json_integer(ctl_left_ms(ctl)));
		/* With --kill the answer comes only when the run has ended, after the time limit.
		 */
		ctl->deadline_ms = -1;
	}
	if (r == 0)
		r = wait_send_calls(ctl, &w, p);
	if (r != 0)
		return r;
	r = wait_receive(ctl, &w, until && !strcmp(until, "ready"));
	if (ctl->json && (w.names.chosen || w.names.n != 1))
		ctl_print_json(w.report, false);
	else if (ctl->json && json_array_size(w.report) > 0)
		ctl_print_json(json_array_get(w.report, 0), false);
	return r;
}

static void event_write(
	const struct ctl *ctl, FILE *f, bool brief, bool with_job, const json_t *event)
{
	const char *job = get_text(event, "job"), *name = get_text(event, "event");
	const char *off = ctl->color_out ? COLOR_OFF : "";
	_cleanup_free_ char *text = printable_dup(json_get_string(event, "text", ""));
	char stamp[TIME_TEXT_MAX];
	int rank = (int)get_int(event, "rank");

	fprintf(f, "%s%s%s ", ctl_color(ctl, COLOR_DIM),
		time_text_clock(get_int(event, "time_us"), brief, stamp), off);
	if (with_job && job)
		fprintf(f, "%s%s%s ", ctl_color(ctl, COLOR_BOLD), job, off);
	fprintf(f, "%-*s", brief ? 0 : EVENT_KIND_WIDTH, name ? name : "?");
	/* Most texts contain the worker's name. */
	if (has_value(event, "rank") && strncmp(text ? text : "", "worker ", 7) != 0)
		fprintf(f, " %srank %d:%s", ctl->color_out ? color_rank(rank) : "", rank, off);
	fprintf(f, " %s\n", text ? text : "");
}

/* Prints an event on one line. On a terminal a long text continues below; a narrow one shows no
 * date and no padding. */
static void event_print(const struct ctl *ctl, bool with_job, const json_t *event)
{
	bool brief = ctl->columns > 0 && ctl->columns < EVENT_COLUMNS;
	_cleanup_free_ char *line = NULL;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return;
	event_write(ctl, f, brief, with_job, event);
	line = memstream_end(f, &text);
	if (line)
		wrap_print(stdout, line, brief ? EVENT_BRIEF_INDENT : EVENT_INDENT, ctl->columns);
}

/* Parses --since: the number or time after which events are wanted. Leaves ret_seq alone for a
 * time. */
static int events_since(
	const struct args *args, int64_t *ret_seq, int64_t *ret_us, struct error *err)
{
	const char *text = args_get(args, "since");

	if (!text || text[strspn(text, "0123456789")] == '\0')
		return args_int(args, "since", 0, ret_seq, err);
	return time_text_parse(text, ctl_now_us(), "--since", ret_us, err);
}

int cmd_events(struct ctl *ctl, struct args *args)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	const char *job = args->argc > 0 ? args->argv[0] : NULL;
	json_t *p = json_object();
	struct error err = { 0 };
	int64_t since = -1, since_us = 0;
	bool more = true, any = false;
	int r;

	if (events_since(args, &since, &since_us, &err) < 0) {
		json_decref(p);
		return ctl_usage(ctl, "%s", err.text);
	}
	ctl->streams = true;
	if (job)
		p = ctl_with(p, "job", json_string(job));
	if (since >= 0)
		p = ctl_with(p, "since", json_integer(since));
	/* Events of all jobs exist only as a live stream. */
	if (args_has(args, "follow") || !job)
		p = ctl_with(p, "follow", json_true());
	r = ctl_stream(ctl, "Events", p, &link);
	while (r == 0 && more && !ferror(stdout)) {
		_cleanup_json_ json_t *answer = NULL;
		json_t *event;
		size_t i;

		r = ctl_next(ctl, link, &answer, &more);
		json_array_foreach (json_object_get(answer, "events"), i, event) {
			if (get_int(event, "time_us") < since_us)
				continue;
			any = true;
			if (ctl->json)
				ctl_print_json(event, true);
			else
				event_print(ctl, !job, event);
		}
		fflush(stdout);
	}
	if (r == 0 && !any && job && !ctl->json && !args_has(args, "since"))
		ctl_say(ctl, "%s: no events", job);
	return r;
}
