/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/follow.h"

#include "client/base/job.h"
#include "client/base/line_printer.h"
#include "client/output/screen.h"
#include "common/base/printable.h"
#include "common/text/json.h"
#include "common/text/report.h"

#include <string.h>

/* Lines and events come on two connections. An event is held back until no line has come for
 * QUIET_MS, at most for HELD_MAX_MS, so that earlier lines come first. */
enum { QUIET_MS = 60, HELD_MAX_MS = 500 };

struct follow {
	struct ctl *ctl;
	const char *name, *run;
	struct varlink_sync *logs, *watch;
	struct line_printer printer;
	json_t *job;  /* its last state */
	json_t *held; /* events that were not shown yet */
	int64_t held_us;
	int64_t seen; /* attempt of the last line */
};

/* Whether an event says more than the workers' lines and the end of the run do. */
static bool worth_telling(const json_t *event)
{
	static const char *const dull[] = { "state", "worker-ended", "ended", "backoff", "stop",
		"no-restart", "barrier", "clock" };
	const char *name = get_text(event, "event");

	if (!name || !get_text(event, "text"))
		return false;
	if (!strcmp(name, "started") && get_int(event, "attempt") == 0)
		return false;
	/* With many workers, those that the agent stopped would hide the one that failed. */
	if (json_get_bool(json_object_get(event, "data"), "collateral", false))
		return false;
	for (size_t i = 0; i < sizeof(dull) / sizeof(dull[0]); i++)
		if (!strcmp(name, dull[i]))
			return false;
	return true;
}

static void hold_events(struct follow *f, const json_t *events)
{
	json_t *event;
	size_t i;

	if (json_array_size(f->held) == 0)
		f->held_us = ctl_now_us();
	json_array_foreach (events, i, event)
		if (!f->ctl->quiet && worth_telling(event))
			json_array_append(f->held, event);
}

/* Whether an event happened before the first line of that attempt. */
static bool is_before(const json_t *event, int64_t attempt)
{
	int64_t of = get_int(event, "attempt");

	return of < attempt || (of == attempt && !strcmp(get_text(event, "event"), "started"));
}

/* Shows the held events that belong before the lines of an attempt. */
static void show_events(struct follow *f, int64_t attempt)
{
	const json_t *event;

	while ((event = json_array_get(f->held, 0)) && is_before(event, attempt)) {
		_cleanup_free_ char *text = printable_dup(get_text(event, "text"));

		line_printer_break(&f->printer);
		ctl_error(f->ctl, 0, "%s attempt %d: %s: %s", f->name,
			(int)get_int(event, "attempt"), get_text(event, "event"), text ? text : "");
		json_array_remove(f->held, 0);
	}
}

static int read_answer(struct follow *f, struct varlink_sync **link);

/* Reads events up to the start of an attempt, before its first line is shown. */
static void read_events_before(struct follow *f, int64_t attempt)
{
	while (attempt > f->seen && f->watch && get_int(f->job, "attempt") < attempt &&
		ctl_ready(f->ctl, NULL, f->watch, QUIET_MS) && read_answer(f, &f->watch) == 0)
		;
	f->seen = attempt;
	show_events(f, attempt);
}

static void print_lines(struct follow *f, const json_t *lines)
{
	json_t *line;
	size_t i;

	json_array_foreach (lines, i, line) {
		read_events_before(f, get_int(line, "attempt"));
		if (f->ctl->json)
			ctl_print_json(line, true);
		else
			line_printer_add(&f->printer, line);
	}
	fflush(stdout);
	fflush(stderr);
}

/* Reads the next answer of one of the streams; closes the stream after the last one. */
static int read_answer(struct follow *f, struct varlink_sync **link)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *refusal = NULL;
	struct error err = { 0 };
	bool is_logs = link == &f->logs, more = false;
	int r = ctl_try_next(f->ctl, *link, &answer, &more, &refusal, &err);

	/* If the lines cannot be read, the run is followed without them. */
	if (refusal)
		r = ctl_refused(f->ctl, is_logs ? 0 : r, f->ctl->refusal, &err);
	if (r != 0)
		return r;
	if (is_logs) {
		if (get_int(answer, "missed") > 0)
			ctl_error(f->ctl, 0, "%lld lines were left out: they came too fast",
				(long long)get_int(answer, "missed"));
		print_lines(f, json_object_get(answer, "lines"));
	} else {
		hold_events(f, json_object_get(answer, "events"));
		json_decref(f->job);
		f->job = json_incref(json_object_get(answer, "job"));
		more = more && !job_ended(f->job);
	}
	if (!more)
		*link = varlink_sync_free(*link);
	return 0;
}

/* Shows the run until its end. Returns 0 at the end, CTL_TIMED_OUT, or another status; 128 and
 * more: interrupted. */
static int show_run(struct follow *f)
{
	while (f->logs || f->watch) {
		bool waits = json_array_size(f->held) > 0;
		int mask = ctl_ready(f->ctl, f->logs, f->watch, waits ? QUIET_MS : -1);
		int r = 0;

		if (mask == 0 && ctl_interrupted())
			return 128 + ctl_interrupted();
		if (mask == 0 && ctl_left_ms(f->ctl) == 0)
			return ctl_timed_out(f->ctl);
		if (mask & 1)
			r = read_answer(f, &f->logs);
		if (r == 0 && mask & 2)
			r = read_answer(f, &f->watch);
		if (r != 0)
			return r;
		if (!mask || !f->logs || ctl_now_us() - f->held_us > HELD_MAX_MS * 1000)
			show_events(f, INT64_MAX);
	}
	return 0;
}

static void report_end(struct follow *f)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *text = NULL, *verdict = job_verdict_text(f->job);

	if (job_exit_status(f->job) != 0 &&
		ctl_call(f->ctl, "Errors", ctl_job(f->run), &answer) == 0 &&
		json_array_size(json_object_get(answer, "failures")) > 0) {
		text = report_format(
			f->name, json_object_get(answer, "failures"), f->ctl->color_err);
		fputs(text ? text : "", stderr);
	}
	if (!f->ctl->quiet)
		ctl_error(f->ctl, 0, "%s %s", f->name, verdict ? verdict : "has ended");
}

/* Parameters for the lines from the first attempt on: the run may be over already. Each host of a
 * group has its own command. */
static json_t *all_lines(const char *run)
{
	json_t *p = ctl_with(ctl_job(run), "follow", json_true());

	return ctl_with(ctl_with(p, "since_us", json_integer(0)), "own", json_true());
}

int follow_run(struct ctl *ctl, const char *name, const char *run)
{
	struct follow f = { .ctl = ctl, .name = name, .run = run, .held = json_array() };
	int r;

	screen_exact(stdout);
	screen_exact(stderr);
	f.printer = (struct line_printer){ .out = stdout,
		.err = stderr,
		.eager = ctl->columns > 0,
		.prefix = true,
		.color_out = ctl->color_out,
		.color_err = ctl->color_err };
	ctl_catch_interrupts();
	r = ctl_stream(ctl, "Watch", ctl_job(run), &f.watch);
	if (r == 0)
		r = ctl_stream(ctl, "Logs", all_lines(run), &f.logs);
	if (r == 0)
		r = show_run(&f);
	show_events(&f, INT64_MAX);
	line_printer_end(&f.printer);
	if (r == 0) {
		report_end(&f);
		r = job_exit_status(f.job);
	} else if (r > 128) {
		fprintf(stderr,
			"\nelasticctl: left %s, which goes on; 'elasticctl logs -f %s' shows it "
			"again\n",
			name, name);
	} else {
		ctl_error(ctl, 0, "%s goes on", name);
	}
	json_decref(f.job);
	json_decref(f.held);
	varlink_sync_free(f.logs);
	varlink_sync_free(f.watch);
	return r;
}
