/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs for single workers: add, results, dump; and the parts of stop and restart for them. */
#include "client/base/job.h"
#include "client/output/plural.h"
#include "client/output/time_text.h"
#include "client/verbs/verbs.h"
#include "client/verbs/workers.h"
#include "common/base/scan.h"
#include "common/text/json.h"

#include <string.h>

enum { TEXT_SHOWN_BYTES = 2048 };

const char *workers_text(const char *text)
{
	const char *slash = strchr(text, '/');

	return slash ? slash + 1 : NULL;
}

int workers_stop(struct ctl *ctl, const char *text, int64_t grace_ms, bool again, json_t *report)
{
	_cleanup_(address_fini) struct address a = { 0 };
	_cleanup_json_ json_t *answer = NULL, *job = NULL;
	int64_t began_us = ctl_now_us();
	char took[TIME_TEXT_MAX];
	struct error err = { 0 };
	json_t *p;
	int n, r;

	if (address_parse(text, &a, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	p = ctl_with(ctl_job(a.job), "workers", json_string(workers_text(text)));
	if (grace_ms >= 0)
		p = ctl_with(p, "timeout_ms", json_integer(grace_ms));
	if (again)
		p = ctl_with(p, "again", json_true());
	ctl_waiting(ctl, again ? "%s to be started again" : "%s to stop", text);
	r = ctl_call(ctl, "StopWorkers", p, &answer);
	if (r != 0)
		return r;
	n = (int)get_int(answer, "stopped");
	time_text_since(ctl_now_us(), began_us, took);
	ctl_say(ctl, "%s %d worker%s of %s after %s", again ? "restarted" : "stopped", n, plural(n),
		a.job, took);
	/* The agent knows the new worker before elasticd does. */
	if (ctl->json && job_status(ctl, a.job, true, &job) == 0)
		json_array_append(report, job);
	return 0;
}

/* Whether set is one number. */
static bool parse_single(const char *set, int *ret)
{
	uint64_t v;

	if (!set || scan_whole(set, INT32_MAX, &v) < 0)
		return false;
	*ret = (int)v;
	return true;
}

int workers_one(struct ctl *ctl, const struct address *a, char **ret_role, int *ret_index)
{
	_cleanup_json_ json_t *job = NULL;
	const char *role = a->role;
	json_t *worker;
	int rank, r;
	size_t i;

	if (role && !parse_single(a->indexes, ret_index))
		return ctl_usage(ctl, "expected one worker, JOB/%s:INDEX", role);
	if (!role && !parse_single(a->ranks, &rank))
		return ctl_usage(ctl, "expected one worker, JOB/ROLE:INDEX or JOB/RANK");
	if (!role) {
		r = job_status(ctl, a->job, false, &job);
		if (r != 0)
			return r;
		json_array_foreach (json_object_get(job, "workers"), i, worker)
			if (get_int(worker, "rank") == rank) {
				role = get_text(worker, "role");
				*ret_index = (int)get_int(worker, "index");
			}
		if (!role)
			return ctl_error(ctl, ctl->verdict_status ? CTL_FAILED : CTL_REFUSED,
				"there is no worker %d", rank);
	}
	*ret_role = strdup(role);
	return *ret_role ? 0 : ctl_error(ctl, CTL_FAILED, "out of memory");
}

/* The words after the address become the worker's command. */
static json_t *command_json(int argc, char **argv)
{
	json_t *list = json_array();

	for (int i = 0; list && i < argc; i++)
		if (json_array_append_new(list, json_string(argv[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

int cmd_add(struct ctl *ctl, struct args *args)
{
	_cleanup_(address_fini) struct address a = { 0 };
	_cleanup_json_ json_t *answer = NULL;
	struct error err = { 0 };
	int index = -1, r;
	json_t *p;

	if (address_parse(args->argv[0], &a, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	if (!a.role || (a.indexes && !parse_single(a.indexes, &index)))
		return ctl_usage(
			ctl, "expected JOB/ROLE or JOB/ROLE:INDEX, got \"%s\"", args->argv[0]);
	p = ctl_with(ctl_job(a.job), "role", json_string(a.role));
	if (index >= 0)
		p = ctl_with(p, "index", json_integer(index));
	if (args->argc > 1)
		p = ctl_with(p, "command", command_json(args->argc - 1, args->argv + 1));
	r = ctl_call(ctl, "StartWorker", p, &answer);
	if (r != 0)
		return r;
	ctl_say(ctl, "started %s of %s, rank %d", get_text(answer, "worker"), a.job,
		(int)get_int(answer, "rank"));
	if (ctl->json)
		ctl_print_json(answer, false);
	return 0;
}

/* A result in one line: its value, or its size if it is not text or too long. */
static void value_cell(struct table *t, const json_t *result)
{
	const char *value = get_text(result, "value"), *b64 = get_text(result, "base64");
	const json_t *error = json_object_get(result, "error");
	size_t n = b64 ? strlen(b64) : 0;

	if (json_is_object(error)) {
		const char *code = get_text(error, "code"), *text = get_text(error, "message");

		table_cellf(t, COLOR_RED, "error%s%s%s%s", code && *code ? " " : "",
			code ? code : "", text && *text ? ": " : "", text ? text : "");
		return;
	}
	if (b64) {
		size_t pad = n && b64[n - 1] == '=' ? (n > 1 && b64[n - 2] == '=' ? 2 : 1) : 0;

		table_cellf(t, COLOR_DIM, "(%zu bytes)", n / 4 * 3 - pad);
	} else if (value && strlen(value) > TEXT_SHOWN_BYTES) {
		table_cellf(t, COLOR_DIM, "(%zu bytes)", strlen(value));
	} else {
		table_cell(t, COLOR_NONE, value ? value : "-");
	}
}

static void results_table(const struct ctl *ctl, const json_t *results)
{
	static const struct table_column columns[] = { { "WORKER", TABLE_SHRINK },
		{ "RANK", TABLE_RIGHT }, { "EXIT", 0 }, { "RESULT", 0 }, { NULL, 0 } };
	_cleanup_(table_freep) struct table *t = table_new(columns);
	struct table_style style = ctl_table_style(ctl);
	json_t *result;
	char end[32];
	size_t i;

	if (!t)
		return;
	json_array_foreach (results, i, result) {
		const char *role = json_get_string(result, "role", "?");

		table_cellf(t, COLOR_NONE, "%s:%d", role, (int)get_int(result, "index"));
		table_cellf(t, COLOR_NONE, "%d", (int)get_int(result, "rank"));
		job_exit_short(json_object_get(result, "exit"), end);
		table_cell(t, *end ? COLOR_NONE : COLOR_DIM, *end ? end : "-");
		value_cell(t, result);
	}
	table_print(t, stdout, &style);
}

int cmd_results(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	const json_t *results;
	int r = ctl_call(ctl, "Results", ctl_job(args->argv[0]), &answer);

	if (r != 0)
		return r;
	results = json_object_get(answer, "results");
	if (ctl->json)
		ctl_print_json(results, false);
	else if (json_array_size(results) == 0)
		ctl_say(ctl, "%s: no worker has told a result", args->argv[0]);
	else
		results_table(ctl, results);
	return 0;
}

int cmd_dump(struct ctl *ctl, struct args *args)
{
	_cleanup_(address_fini) struct address a = { 0 };
	_cleanup_json_ json_t *answer = NULL;
	const char *workers = workers_text(args->argv[0]);
	struct error err = { 0 };
	json_t *p, *dir;
	size_t i;
	int r;

	if (address_parse(args->argv[0], &a, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	p = ctl_job(a.job);
	if (workers)
		p = ctl_with(p, "workers", json_string(workers));
	ctl_waiting(ctl, "a dump of %s", args->argv[0]);
	r = ctl_call(ctl, "Dump", p, &answer);
	if (r != 0)
		return r;
	if (has_value(answer, "note"))
		ctl_error(ctl, 0, "%s", get_text(answer, "note"));
	if (ctl->json)
		ctl_print_json(answer, false);
	else
		json_array_foreach (json_object_get(answer, "dirs"), i, dir)
			puts(json_string_value(dir));
	return 0;
}
