/* SPDX-License-Identifier: Apache-2.0 */
/* update, enable, disable: the jobs of a directory of job files. */
#include "client/base/job.h"
#include "client/jobs/job_dir.h"
#include "client/jobs/plan.h"
#include "client/verbs/verbs.h"
#include "common/spec/spec.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The newest run of each job, with its specification. */
struct update_runs {
	struct plan_run *runs;
	size_t n;
};

static void update_runs_fini(struct update_runs *u)
{
	for (size_t i = 0; i < u->n; i++) {
		json_decref(u->runs[i].job);
		json_decref(u->runs[i].spec);
	}
	free(u->runs);
}

/* A run whose specification cannot be had is as one that differs in nothing. */
static int update_spec(struct ctl *ctl, struct plan_run *run)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *refusal = NULL;
	struct error err = { 0 };
	int r = ctl_try(ctl, "Spec", ctl_job(get_text(run->job, "run")), &answer, &refusal, &err);

	if (r)
		return refusal ? 0 : r;
	if (spec_parse(json_object_get(answer, "spec"), &spec, NULL) == 0)
		run->spec = spec_to_json(spec);
	return 0;
}

/* Of the jobs that were started from a file, and those that have the name of one. */
static int update_read_runs(struct ctl *ctl, struct update_runs *ret)
{
	_cleanup_json_ json_t *answer = NULL;
	json_t *jobs, *job;
	size_t i;
	int r = ctl_call(ctl, "List", ctl_with(json_object(), "ended", json_true()), &answer);

	*ret = (struct update_runs){ 0 };
	if (r)
		return r;
	jobs = json_object_get(answer, "jobs");
	ret->runs = calloc(json_array_size(jobs) + 1, sizeof(*ret->runs));
	if (!ret->runs)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	json_array_foreach (jobs, i, job) {
		struct plan_run *run = &ret->runs[ret->n++];

		run->job = json_incref(job);
		if (get_text(job, "origin"))
			r = update_spec(ctl, run);
		if (r)
			return r;
	}
	return 0;
}

static const char *update_word(enum plan_action action, bool dry)
{
	switch (action) {
	case PLAN_START:
		return dry ? "would start" : "started";
	case PLAN_RESTART:
		return dry ? "would restart" : "restarted";
	case PLAN_STOP:
		return dry ? "would stop" : "stopped";
	case PLAN_TAKEN:
	case PLAN_CIRCLE:
		return "not started";
	case PLAN_LEAVE:
		return "has ended";
	default:
		return "unchanged";
	}
}

static void update_print_diff(const struct ctl *ctl, const json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		const json_t *old = json_object_get(row, "old"), *new = json_object_get(row, "new");
		_cleanup_free_ char *was =
			old ? json_dumps(old, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
		_cleanup_free_ char *is =
			new ? json_dumps(new, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

		ctl_say(ctl, "    %s: %s -> %s", get_text(row, "path"), was ? was : "(unset)",
			is ? is : "(unset)");
	}
}

static void update_print(const struct ctl *ctl, const struct plan_step *step, bool dry)
{
	const char *off = ctl->color_out ? COLOR_OFF : "";
	const char *state = step->run ? get_text(step->run->job, "state") : NULL;

	if (step->action == PLAN_KEEP)
		return;
	if (step->action == PLAN_LEAVE)
		ctl_say(ctl, "%s%s%s has %s; \"elasticctl restart %s\" starts it again",
			ctl_color(ctl, COLOR_BOLD), step->name, off, state ? state : "ended",
			step->name);
	else if (step->action == PLAN_STOP)
		ctl_say(ctl, "%s %s%s%s: %s is gone", update_word(step->action, dry),
			ctl_color(ctl, COLOR_BOLD), step->name, off,
			get_text(step->run->job, "origin"));
	else
		ctl_say(ctl, "%s %s%s%s", update_word(step->action, dry),
			ctl_color(ctl, COLOR_BOLD), step->name, off);
	update_print_diff(ctl, step->diff);
}

/* --- carrying a plan out --- */

/* How long others wait for the newest run of that name: its ready.timeout. */
static int64_t update_patience(struct ctl *ctl, const char *name)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *refusal = NULL;
	struct error err = { 0 };

	if (ctl_try(ctl, "Spec", ctl_job(name), &answer, &refusal, &err) ||
		spec_parse(json_object_get(answer, "spec"), &spec, NULL) < 0)
		return -1;
	return spec->ready.timeout_ms;
}

/* Whether the job that step waits for lets it start. */
static int update_wait_for(
	struct ctl *ctl, const struct plan_step *step, const char *name, bool needed)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *refusal = NULL;
	json_t *p = ctl_with(ctl_job(name), "until", json_string("ready"));
	int64_t patience_ms = update_patience(ctl, name);
	char took[DURATION_TEXT_MAX];
	struct error err = { 0 };
	int r;

	if (patience_ms >= 0)
		p = ctl_with(p, "timeout_ms", json_integer(patience_ms));
	r = ctl_try(ctl, "Wait", p, &answer, &refusal, &err);
	if (r && !refusal)
		return r;
	if (!needed || (!r && !job_ended(json_object_get(answer, "job"))))
		return 0;
	if (!r)
		return ctl_error(ctl, CTL_REFUSED, "%s is not started: it needs %s, which has %s",
			step->name, name, get_text(json_object_get(answer, "job"), "state"));
	if (!strcmp(refusal, "DeadlineExceeded"))
		return ctl_error(ctl, CTL_REFUSED,
			"%s is not started: it needs %s, which is not ready after %s", step->name,
			name, duration_text(patience_ms, took));
	return ctl_error(
		ctl, CTL_REFUSED, "%s is not started: it needs %s: %s", step->name, name, err.text);
}

static int update_wait_for_all(
	struct ctl *ctl, const struct plan_step *step, const char *key, bool needed)
{
	const json_t *names = plan_names(step->file->spec, key);
	json_t *name;
	size_t i;
	int r = 0;

	json_array_foreach (names, i, name)
		if (!r)
			r = update_wait_for(ctl, step, json_string_value(name), needed);
	return r;
}

/* A run that has ended meanwhile is what is wanted, too. */
static int update_stop(struct ctl *ctl, const struct plan_step *step)
{
	_cleanup_json_ json_t *job = NULL;
	_cleanup_free_ char *refusal = NULL;
	const char *run = get_text(step->run->job, "run");
	struct error err = { 0 };
	int r = ctl_try(ctl, "Stop", ctl_job(run), NULL, &refusal, &err);

	if (refusal && strcmp(refusal, "FailedPrecondition") != 0)
		return ctl_refused(ctl, r, ctl->refusal, &err);
	return r && !refusal ? r : job_wait(ctl, run, NULL, NULL, &job);
}

/* Whether another update has started the job, from the same file. 1, 0 or a negative errno. */
static int update_is_started(struct ctl *ctl, const struct plan_step *step)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *refusal = NULL;
	struct error err = { 0 };
	struct plan_run run = { 0 };
	int r = ctl_try(ctl, "Status", ctl_job(step->name), &answer, &refusal, &err);

	if (r)
		return 0;
	run.job = json_object_get(answer, "job");
	r = job_ended(run.job) || update_spec(ctl, &run) ? 0 : plan_is_as(&run, step->file);
	json_decref(run.spec);
	return r;
}

static int update_start(struct ctl *ctl, const struct plan_step *step)
{
	_cleanup_free_ char *refusal = NULL;
	struct error err = { 0 };
	int r = update_wait_for_all(ctl, step, "needs", true);

	if (!r)
		r = update_wait_for_all(ctl, step, "after", false);
	if (!r && step->action == PLAN_RESTART)
		r = update_stop(ctl, step);
	if (r)
		return r;
	r = ctl_try(ctl, "Start", ctl_with(json_object(), "spec", json_incref(step->file->spec)),
		NULL, &refusal, &err);
	if (!refusal || (!strcmp(refusal, "AlreadyExists") && update_is_started(ctl, step) > 0))
		return refusal ? 0 : r;
	return ctl_refused(ctl, r, ctl->refusal, &err);
}

static int update_step(struct ctl *ctl, const struct plan_step *step, bool dry)
{
	int r = 0;

	if (step->action == PLAN_TAKEN)
		return ctl_error(ctl, CTL_REFUSED,
			"%s is active, but was not started from %s: stop it, then update",
			step->name, step->file->path);
	if (step->action == PLAN_CIRCLE)
		return ctl_error(ctl, CTL_USAGE, "%s", step->circle);
	if (!dry && step->action == PLAN_STOP)
		r = update_stop(ctl, step);
	if (!dry && (step->action == PLAN_START || step->action == PLAN_RESTART))
		r = update_start(ctl, step);
	if (!r)
		update_print(ctl, step, dry);
	return r;
}

static json_t *update_json(const struct plan_step *step, int status)
{
	static const char *const actions[] = { [PLAN_KEEP] = "keep",
		[PLAN_START] = "start",
		[PLAN_RESTART] = "restart",
		[PLAN_STOP] = "stop",
		[PLAN_LEAVE] = "leave",
		[PLAN_TAKEN] = "refuse",
		[PLAN_CIRCLE] = "refuse" };

	return json_pack("{s:s, s:s, s:s*, s:O*, s:b}", "job", step->name, "action",
		actions[step->action], "file", step->file ? step->file->path : NULL, "diff",
		step->diff, "done", status == 0);
}

static bool update_wants(const struct args *args, const char *name)
{
	for (int i = 0; i < args->argc; i++)
		if (!strcmp(args->argv[i], name))
			return true;
	return !args->argc;
}

static int update_run(struct ctl *ctl, const struct args *args, const struct plan *plan,
	const char *dir, bool dry)
{
	_cleanup_json_ json_t *steps = json_array();
	int kept = 0, result = 0, r;

	for (size_t i = 0; i < plan->n; i++) {
		const struct plan_step *step = &plan->steps[i];

		if (!update_wants(args, step->name))
			continue;
		r = update_step(ctl, step, dry);
		result = result ? result : r;
		kept += step->action == PLAN_KEEP;
		json_add(steps, update_json(step, r));
	}
	if (ctl->json)
		ctl_print_json(steps, false);
	else if (!plan->n)
		ctl_say(ctl, "no job files in %s", dir);
	else if (kept)
		ctl_say(ctl,
			kept == 1 ? "%d job is as its file says" : "%d jobs are as their files say",
			kept);
	return result;
}

static int update_check_names(
	struct ctl *ctl, const struct args *args, const struct plan *plan, const char *dir)
{
	for (int i = 0; i < args->argc; i++) {
		bool found = false;

		for (size_t k = 0; k < plan->n; k++)
			found = found || !strcmp(plan->steps[k].name, args->argv[i]);
		if (!found)
			return ctl_error(ctl, CTL_NO_JOB, "no file in %s has a job of the name %s",
				dir, args->argv[i]);
	}
	return 0;
}

static int update_from(
	struct ctl *ctl, const struct args *args, const char *dir, bool boot, bool dry, bool gone)
{
	_cleanup_(update_runs_fini) struct update_runs runs = { 0 };
	_cleanup_(job_dir_fini) struct job_dir files = { 0 };
	_cleanup_(plan_fini) struct plan plan = { 0 };
	struct error err = { 0 };
	struct plan_input in;
	int wrong = 0, r;

	if (job_dir_read(dir, &files, &err) < 0)
		return ctl_error(ctl, CTL_REFUSED, "%s", err.text);
	if (files.problems)
		wrong = ctl_job_file(ctl, files.problems);
	if (wrong && !boot)
		return ctl_error(ctl, wrong, "nothing was changed");
	r = update_read_runs(ctl, &runs);
	if (r)
		return r;
	in = (struct plan_input){ .files = files.files,
		.n_files = files.n,
		.runs = runs.runs,
		.n_runs = runs.n,
		.dir = dir,
		.wrong = files.wrong,
		.boot = boot };
	if (plan_make(&in, &plan, &err) < 0)
		return ctl_error(ctl, CTL_USAGE, "%s", err.text);
	/* A disabled job that is not active has no step. */
	r = gone ? 0 : update_check_names(ctl, args, &plan, dir);
	if (!r)
		r = update_run(ctl, args, &plan, dir, dry);
	return r ? r : wrong;
}

/* The directory that the options name, without a slash at its end; owned. */
static char *update_dir(const struct args *args)
{
	const char *given = args_get(args, "dir");
	_cleanup_free_ char *named = given ? strdup(given) : job_dir_default();
	char *dir = named ? realpath(named, NULL) : NULL;

	return dir ? dir : TAKE_PTR(named);
}

int cmd_update(struct ctl *ctl, struct args *args)
{
	_cleanup_free_ char *dir = update_dir(args);

	if (!dir)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	/* elasticd names its own, which need not be there. */
	if (args_has(args, "dir") && !args_has(args, "boot") && access(dir, F_OK) < 0)
		return ctl_error(ctl, CTL_REFUSED, "%s: %s", dir, strerror(errno));
	return update_from(
		ctl, args, dir, args_has(args, "boot"), args_has(args, "dry-run"), false);
}

/* --- enable and disable --- */

/* Renames the file that gives its job that name; 1: it had the other name already. */
static int update_rename(const char *dir, const char *name, bool enable, struct error *err)
{
	struct dirent **entries = NULL;
	int n = scandir(dir, &entries, NULL, alphasort), r = -ENOENT;

	for (int i = 0; i < n; i++) {
		const char *file = entries[i]->d_name;
		bool disabled = false;
		_cleanup_free_ char *stem = job_dir_name(file, &disabled);
		_cleanup_free_ char *job = stem ? job_dir_job(dir, file, stem) : NULL;
		_cleanup_free_ char *from = NULL, *to = NULL;
		int len = (int)strlen(file) - (disabled ? (int)strlen(JOB_DIR_DISABLED) : 0);

		if (r == -ENOENT && job && !strcmp(job, name)) {
			if (asprintf(&from, "%s/%s", dir, file) < 0 ||
				asprintf(&to, "%s/%.*s%s", dir, len, file,
					enable ? "" : JOB_DIR_DISABLED) < 0)
				r = error_set(err, -ENOMEM, "out of memory");
			else if (disabled != enable)
				r = 1;
			else
				r = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) < 0
					    ? error_set(err, -errno, "%s: %s", to, strerror(errno))
					    : 0;
		}
		free(entries[i]);
	}
	free(entries);
	if (r == -ENOENT && !err->text[0])
		error_set(err, r, "no file in %s gives its job the name %s", dir, name);
	return r;
}

static int update_switch(struct ctl *ctl, struct args *args, bool enable)
{
	_cleanup_free_ char *dir = update_dir(args);
	int result = 0;

	if (!dir)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	for (int i = 0; i < args->argc; i++) {
		struct error err = { 0 };
		int r = update_rename(dir, args->argv[i], enable, &err);

		if (r < 0)
			result = ctl_error(ctl, CTL_REFUSED, "%s", err.text);
		else
			ctl_say(ctl, "%s %s %s%s", args->argv[i], r ? "was" : "is",
				enable ? "enabled" : "disabled", r ? " already" : "");
	}
	if (result || !args_has(args, "now"))
		return result;
	return update_from(ctl, args, dir, true, false, !enable);
}

int cmd_enable(struct ctl *ctl, struct args *args)
{
	return update_switch(ctl, args, true);
}

int cmd_disable(struct ctl *ctl, struct args *args)
{
	return update_switch(ctl, args, false);
}
