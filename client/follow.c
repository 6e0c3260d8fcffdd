/* SPDX-License-Identifier: Apache-2.0 */
#include "client/follow.h"

#include "client/job.h"
#include "client/line_printer.h"
#include "common/printable.h"
#include "common/report.h"

#include <string.h>

struct follow {
	struct ctl *ctl;
	const char *name, *run;
	struct varlink_sync *logs, *watch;
	struct line_printer printer;
	json_t *job; /* its last state */
};

/* Events that the lines of the workers or the end of the view tell as well. */
static bool worth_telling(const json_t *event)
{
	static const char *const dull[] = { "state", "worker-ended", "ended", "backoff", "stop",
		"no-restart" };
	const char *name = get_text(event, "event");

	if (!name || !get_text(event, "text"))
		return false;
	if (!strcmp(name, "started") && get_int(event, "attempt") == 0)
		return false;
	/* With many workers, those that the agent ended would bury the one that failed. */
	if (get_true(json_object_get(event, "data"), "collateral"))
		return false;
	for (size_t i = 0; i < sizeof(dull) / sizeof(dull[0]); i++)
		if (!strcmp(name, dull[i]))
			return false;
	return true;
}

static void tell(struct follow *f, const json_t *events)
{
	json_t *event;
	size_t i;

	json_array_foreach (events, i, event) {
		_cleanup_free_ char *text = NULL;

		if (f->ctl->quiet || !worth_telling(event))
			continue;
		text = printable_dup(get_text(event, "text"));
		line_printer_break(&f->printer);
		ctl_error(f->ctl, 0, "%s attempt %d: %s: %s", f->name,
			(int)get_int(event, "attempt"), get_text(event, "event"), text ? text : "");
	}
}

static void print_objects(const json_t *lines)
{
	json_t *line;
	size_t i;

	json_array_foreach (lines, i, line)
		ctl_print_json(line, true);
	fflush(stdout);
}

/* The next answer of one of the streams; closes it after its last one. */
static int take(struct follow *f, struct varlink_sync **link)
{
	_cleanup_json_ json_t *answer = NULL;
	bool is_logs = link == &f->logs, more = false;
	int r = ctl_next(f->ctl, *link, &answer, &more);

	if (r != 0)
		return r;
	if (is_logs) {
		if (get_int(answer, "missed") > 0)
			ctl_error(f->ctl, 0, "%lld lines were left out: they came too fast",
				(long long)get_int(answer, "missed"));
		if (f->ctl->json)
			print_objects(json_object_get(answer, "lines"));
		else
			line_printer_print(&f->printer, json_object_get(answer, "lines"));
	} else {
		tell(f, json_object_get(answer, "events"));
		json_decref(f->job);
		f->job = json_incref(json_object_get(answer, "job"));
		more = more && !job_ended(f->job);
	}
	if (!more)
		*link = varlink_sync_free(*link);
	return 0;
}

/* Returns 0 at the end of the run, CTL_TIMED_OUT, or another status; 128 and more: interrupted. */
static int show(struct follow *f)
{
	while (f->logs || f->watch) {
		int mask = ctl_ready(f->ctl, f->logs, f->watch);
		int r = 0;

		if (mask == 0 && ctl_interrupted())
			return 128 + ctl_interrupted();
		if (mask == 0 && ctl_left_ms(f->ctl) == 0)
			return ctl_error(f->ctl, CTL_TIMED_OUT, "timed out after %g s",
				f->ctl->timeout_ms / 1000.0);
		/* Lines first: what happened is told after what was written before. */
		if (mask & 1)
			r = take(f, &f->logs);
		if (r == 0 && mask & 2)
			r = take(f, &f->watch);
		if (r != 0)
			return r;
	}
	return 0;
}

static void report(struct follow *f)
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
		fprintf(stderr, "elasticctl: %s %s\n", f->name, verdict ? verdict : "has ended");
}

int follow_run(struct ctl *ctl, const char *name, const char *run)
{
	struct follow f = { .ctl = ctl, .name = name, .run = run };
	int r;

	f.printer = (struct line_printer){ .out = stdout,
		.err = stderr,
		.eager = ctl->columns > 0,
		.prefix = true,
		.color_out = ctl->color_out,
		.color_err = ctl->color_err };
	ctl_catch_interrupts();
	r = ctl_stream(ctl, "Watch", ctl_job(run), &f.watch);
	if (r == 0)
		r = ctl_stream(ctl, "Logs", ctl_with(ctl_job(run), "follow", json_true()), &f.logs);
	if (r == 0)
		r = show(&f);
	line_printer_end(&f.printer);
	if (r == 0) {
		report(&f);
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
	varlink_sync_free(f.logs);
	varlink_sync_free(f.watch);
	return r;
}
