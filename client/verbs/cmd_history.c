/* SPDX-License-Identifier: Apache-2.0 */
/* history: the runs that have ended, the newest first. */
#include "client/base/job.h"
#include "client/output/time_text.h"
#include "client/verbs/verbs.h"

#include <fnmatch.h>
#include <string.h>

struct history_filter {
	const char *job; /* a job's name, a run, or a pattern with "*"; NULL: all */
	int64_t since_us;
	bool failed;
};

static const char *history_result(const json_t *job)
{
	const char *result = get_text(json_object_get(job, "verdict"), "result");

	return result ? result : get_text(job, "state");
}

/* A person or a notice that ended a run did not make it fail. */
static bool history_failed(const json_t *job)
{
	const char *result = history_result(job);

	return !result || (strcmp(result, "succeeded") != 0 && strcmp(result, "stopped") != 0 &&
				  strcmp(result, "preempted") != 0);
}

static bool history_wanted(const json_t *job, const struct history_filter *filter)
{
	const char *name = get_text(job, "name"), *run = get_text(job, "run");

	if (!job_ended(job) || !name || !run || get_int(job, "ended_us") < filter->since_us)
		return false;
	if (filter->failed && !history_failed(job))
		return false;
	return !filter->job || !strcmp(filter->job, run) || fnmatch(filter->job, name, 0) == 0;
}

static int history_order(const void *a, const void *b)
{
	int64_t x = get_int(*(json_t *const *)a, "ended_us");
	int64_t y = get_int(*(json_t *const *)b, "ended_us");

	return (x < y) - (x > y);
}

/* The wanted ones of jobs, the newest first, at most so many (-1: all). Owned; NULL without memory.
 */
static json_t *history_choose(const json_t *jobs, const struct history_filter *filter, int64_t most)
{
	_cleanup_free_ json_t **found = calloc(json_array_size(jobs) + 1, sizeof(*found));
	json_t *chosen = json_array(), *job;
	size_t i, n = 0;

	json_array_foreach (jobs, i, job)
		if (found && history_wanted(job, filter))
			found[n++] = job;
	if (n)
		qsort(found, n, sizeof(*found), history_order);
	for (i = 0; i < n && (most < 0 || (int64_t)i < most); i++)
		if (json_array_append(chosen, found[i]) < 0)
			break;
	if (found && chosen && (i == n || (int64_t)i == most))
		return chosen;
	json_decref(chosen);
	return NULL;
}

static void history_row(struct table *t, const json_t *job)
{
	const char *result = history_result(job);
	int64_t began = get_int(job, has_value(job, "started_us") ? "started_us" : "created_us");
	char buf[TIME_TEXT_MAX], shown[32] = "?";
	const json_t *goodput = json_object_get(json_object_get(job, "goodput"), "percent");
	int status = job_exit_status(job);

	if (result)
		snprintf(shown, sizeof(shown), "%s", result);
	for (char *c = shown; *c; c++)
		*c = *c == '_' ? ' ' : *c;
	time_text_clock(began, false, buf);
	table_cell(t, COLOR_BOLD, get_text(job, "run"));
	table_cellf(t, COLOR_NONE, "%.16s", buf);
	table_cell(t, COLOR_NONE, time_text_since(get_int(job, "ended_us"), began, buf));
	table_cellf(t, COLOR_NONE, "%d", (int)get_int(job, "attempt") + 1);
	table_cellf(t, COLOR_NONE, "%d", (int)get_int(job, "restarts"));
	table_cell(t, history_failed(job) ? COLOR_RED : color_state(result), shown);
	table_cellf(t, COLOR_NONE, "%d", status);
	if (json_is_number(goodput))
		table_cellf(t, COLOR_NONE, "%.1f%%", json_number_value(goodput));
	else
		table_cell(t, COLOR_DIM, "-");
	table_cell(t, COLOR_NONE,
		status ? get_text(json_object_get(job, "verdict"), "message")
		       : get_text(job, "reason"));
}

static void history_print(const struct ctl *ctl, const json_t *jobs)
{
	static const struct table_column columns[] = { { "RUN", TABLE_SHRINK },
		{ "STARTED", TABLE_DROP(3) }, { "DURATION", TABLE_RIGHT },
		{ "ATTEMPTS", TABLE_RIGHT | TABLE_DROP(4) },
		{ "RESTARTS", TABLE_RIGHT | TABLE_DROP(2) }, { "RESULT", 0 },
		{ "EXIT", TABLE_RIGHT }, { "GOODPUT", TABLE_RIGHT | TABLE_DROP(5) },
		{ "REASON", 0 }, { NULL, 0 } };
	_cleanup_(table_freep) struct table *t = table_new(columns);
	struct table_style style = ctl_table_style(ctl);
	json_t *job;
	size_t i;

	if (!t)
		return;
	json_array_foreach (jobs, i, job)
		history_row(t, job);
	table_print(t, stdout, &style);
}

int cmd_history(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL, *jobs = NULL;
	struct history_filter filter = { .job = args->argc ? args->argv[0] : NULL,
		.failed = args_has(args, "failed") };
	const char *since = args_get(args, "since");
	struct error err = { 0 };
	int64_t most = -1;
	int r;

	if (args_int(args, "lines", 0, &most, &err) < 0 ||
		(since && time_text_parse(since, ctl_now_us(), "--since", &filter.since_us, &err) <
				  0))
		return ctl_usage(ctl, "%s", err.text);
	r = ctl_call(ctl, "List", ctl_with(json_object(), "ended", json_true()), &answer);
	if (r != 0)
		return r;
	jobs = history_choose(json_object_get(answer, "jobs"), &filter, most);
	if (!jobs)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	/* A name that no run has is an error in the words of status, a pattern is none. */
	if (filter.job && !filter.job[strcspn(filter.job, "*?[")] && !json_array_size(jobs)) {
		_cleanup_json_ json_t *job = NULL;

		r = job_status(ctl, filter.job, false, &job);
		if (r != 0)
			return r;
	}
	if (ctl->json)
		ctl_print_json(jobs, false);
	else if (json_array_size(jobs) > 0)
		history_print(ctl, jobs);
	else
		ctl_say(ctl, "No such run has ended.");
	return 0;
}
