/* SPDX-License-Identifier: Apache-2.0 */
/* logs: the lines that workers wrote. */
#include "client/base/address.h"
#include "client/base/job.h"
#include "client/base/line_printer.h"
#include "client/output/screen.h"
#include "client/output/time_text.h"
#include "client/verbs/verbs.h"

#include <string.h>

/* Parses "out", "err" or both, separated by a comma. */
static int parse_stream(struct ctl *ctl, const char *text, const char **ret)
{
	*ret = NULL;
	if (!text || !strcmp(text, "out,err") || !strcmp(text, "err,out") || !strcmp(text, "both"))
		return 0;
	if (!strcmp(text, "out") || !strcmp(text, "stdout"))
		*ret = "stdout";
	else if (!strcmp(text, "err") || !strcmp(text, "stderr"))
		*ret = "stderr";
	else
		return ctl_usage(ctl, "--stream: expected out, err or out,err, got \"%s\"", text);
	return 0;
}

static int add_number(
	struct ctl *ctl, const struct args *args, const char *option, const char *key, json_t **p)
{
	struct error err = { 0 };
	int64_t v = 0;

	if (args_int(args, option, 0, &v, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	if (args_has(args, option))
		*p = ctl_with(*p, key, json_integer(v));
	return 0;
}

static int add_time(
	struct ctl *ctl, const struct args *args, const char *option, const char *key, json_t **p)
{
	const char *text = args_get(args, option);
	struct error err = { 0 };
	char name[32];
	int64_t us;

	if (!text)
		return 0;
	snprintf(name, sizeof(name), "--%s", option);
	if (time_text_parse(text, ctl_now_us(), name, &us, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	*p = ctl_with(*p, key, json_integer(us));
	return 0;
}

/* The parameters of Logs, or NULL with a status. */
static int logs_parameters(
	struct ctl *ctl, const struct args *args, const struct address *a, json_t **ret)
{
	_cleanup_free_ char *ranks = NULL;
	const char *stream;
	json_t *p = NULL;
	int r = parse_stream(ctl, args_get(args, "stream"), &stream);

	if (r == 0)
		r = job_ranks(ctl, a, args_get(args, "rank"), &ranks);
	if (r != 0)
		return r;
	p = ctl_job(a->job);
	if (ranks)
		p = ctl_with(p, "ranks", json_string(ranks));
	if (stream)
		p = ctl_with(p, "stream", json_string(stream));
	if (args_has(args, "follow"))
		p = ctl_with(p, "follow", json_true());
	if (args_has(args, "grep"))
		p = ctl_with(p, "contains", json_string(args_get(args, "grep")));
	r = add_number(ctl, args, "lines", "lines", &p);
	if (r == 0)
		r = add_number(ctl, args, "attempt", "attempt", &p);
	if (r == 0)
		r = add_time(ctl, args, "since", "since_us", &p);
	if (r == 0)
		r = add_time(ctl, args, "until", "until_us", &p);
	if (r != 0)
		json_decref(p);
	else
		*ret = p;
	return r;
}

static int printer_init(
	struct ctl *ctl, const struct args *args, const char *job, struct line_printer *p)
{
	const char *when = args_get(args, "timestamps");
	bool raw = args_has(args, "raw");
	int r = 0;

	screen_exact(stdout);
	/* All lines go to stdout, so that a pager or grep gets them; start --follow keeps the
	 * streams apart. */
	*p = (struct line_printer){ .out = stdout,
		.err = stdout,
		/* A terminal shows a prompt or a progress bar at once; a pipe gets whole lines. */
		.eager = ctl->columns > 0,
		.prefix = !raw && !args_has(args, "no-prefix"),
		.raw = raw,
		.color_out = ctl->color_out,
		.color_err = ctl->color_out };
	if (!when || !strcmp(when, "none"))
		return 0;
	if (!strcmp(when, "iso"))
		p->time = LINE_TIME_ISO;
	else if (!strcmp(when, "relative"))
		p->time = LINE_TIME_RELATIVE;
	else
		return ctl_usage(
			ctl, "--timestamps: expected iso, relative or none, got \"%s\"", when);
	if (raw)
		return ctl_usage(ctl, "--raw and --timestamps cannot be used together");
	if (p->time == LINE_TIME_RELATIVE) {
		_cleanup_json_ json_t *status = NULL;

		r = job_status(ctl, job, false, &status);
		p->start_us = get_int(
			status, has_value(status, "started_us") ? "started_us" : "created_us");
	}
	return r;
}

static int print_stream(struct ctl *ctl, struct varlink_sync *link, struct line_printer *p)
{
	bool more = true;
	int r = 0;

	while (r == 0 && more && !ferror(stdout)) {
		_cleanup_json_ json_t *answer = NULL;
		json_t *line;
		size_t i;

		r = ctl_next(ctl, link, &answer, &more);
		if (r != 0)
			break;
		if (get_int(answer, "missed") > 0) {
			line_printer_break(p);
			ctl_error(ctl, 0,
				"%" JSON_INTEGER_FORMAT
				" lines were left out: they came faster than they were read",
				(json_int_t)get_int(answer, "missed"));
		}
		if (has_value(answer, "note")) {
			line_printer_break(p);
			ctl_error(ctl, 0, "%s", get_text(answer, "note"));
		}
		if (!ctl->json) {
			line_printer_print(p, json_object_get(answer, "lines"));
			continue;
		}
		json_array_foreach (json_object_get(answer, "lines"), i, line)
			ctl_print_json(line, true);
		fflush(stdout);
	}
	line_printer_end(p);
	return r;
}

int cmd_logs(struct ctl *ctl, struct args *args)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	_cleanup_(address_fini) struct address a = { 0 };
	struct line_printer printer;
	struct error err = { 0 };
	json_t *p = NULL;
	int r;

	if (address_parse(args->argv[0], &a, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	r = printer_init(ctl, args, a.job, &printer);
	ctl->streams = true;
	if (r == 0)
		r = logs_parameters(ctl, args, &a, &p);
	if (r == 0)
		r = ctl_stream(ctl, "Logs", p, &link);
	return r ? r : print_stream(ctl, link, &printer);
}
