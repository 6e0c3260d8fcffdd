/* SPDX-License-Identifier: Apache-2.0 */
#include "client/jobs/plan.h"

#include "client/base/job.h"
#include "client/base/spec_diff.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const json_t *plan_names(const json_t *spec, const char *key)
{
	return json_get_array(spec, key);
}

static const char *plan_name(const struct plan_file *f)
{
	return json_get_string(f->spec, "name", "");
}

void plan_fini(struct plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		json_decref(p->steps[i].diff);
		free(p->steps[i].circle);
	}
	free(p->steps);
	*p = (struct plan){ 0 };
}

/* Whether path is a file directly in dir. */
static bool plan_is_in(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return path && !strncmp(path, dir, n) && path[n] == '/' && !strchr(path + n + 1, '/');
}

static bool plan_is_wrong(const struct plan_input *in, const char *path)
{
	for (size_t i = 0; in->wrong && in->wrong[i]; i++)
		if (!strcmp(in->wrong[i], path))
			return true;
	return false;
}

static const struct plan_file *plan_file_of(const struct plan_input *in, const struct plan_run *run)
{
	const char *origin = json_get_string(run->job, "origin", NULL);

	for (size_t i = 0; origin && i < in->n_files; i++)
		if (!strcmp(in->files[i].path, origin) &&
			!strcmp(plan_name(&in->files[i]), json_get_string(run->job, "name", "")))
			return &in->files[i];
	return NULL;
}

/* Whether the file that the run was started from is gone. */
static bool plan_is_orphan(const struct plan_input *in, const struct plan_run *run)
{
	const char *origin = json_get_string(run->job, "origin", NULL);

	return plan_is_in(origin, in->dir) && !plan_file_of(in, run) && !plan_is_wrong(in, origin);
}

/* The run of the job of f: the active one, else the newest. A run of that name that was started in
 * another way counts, too: two jobs cannot have one name. */
static const struct plan_run *plan_run_of(const struct plan_input *in, const struct plan_file *f)
{
	const struct plan_run *found = NULL;

	for (size_t i = 0; i < in->n_runs; i++) {
		const struct plan_run *run = &in->runs[i];

		if (strcmp(json_get_string(run->job, "name", ""), plan_name(f)) != 0)
			continue;
		if (!found || !job_ended(run->job) ||
			(job_ended(found->job) && get_int(run->job, "created_us") >
							  get_int(found->job, "created_us")))
			found = run;
	}
	return found;
}

/* Whether a run that has ended counts as what its file asks for. */
static bool plan_is_done(
	const struct plan_input *in, const struct plan_run *run, const json_t *diff)
{
	if (json_array_size(diff))
		return false;
	return !in->boot || job_in(run->job, "succeeded");
}

/* elasticd itself adds where its host stands. */
static json_t *plan_diff(const struct plan_run *run, const struct plan_file *f)
{
	_cleanup_json_ json_t *old = json_deep_copy(run->spec);
	json_t *there = json_get_object(f->spec, "rendezvous");

	if (!json_object_get(there, "topology"))
		json_object_del(json_get_object(old, "rendezvous"), "topology");
	return old ? spec_diff(old, f->spec) : NULL;
}

static bool plan_is_from(const struct plan_run *run, const struct plan_file *f)
{
	return !strcmp(json_get_string(run->job, "origin", ""), f->path);
}

int plan_is_as(const struct plan_run *run, const struct plan_file *f)
{
	_cleanup_json_ json_t *diff = NULL;

	if (!plan_is_from(run, f) || !run->spec)
		return 0;
	diff = plan_diff(run, f);
	return diff ? !json_array_size(diff) : -ENOMEM;
}

static int plan_step_of(
	const struct plan_input *in, const struct plan_file *f, struct plan_step *step)
{
	_cleanup_json_ json_t *diff = NULL;
	const struct plan_run *run = plan_run_of(in, f);

	*step = (struct plan_step){ .name = plan_name(f), .file = f, .run = run };
	if (!run) {
		step->action = PLAN_START;
		return 0;
	}
	if (!plan_is_from(run, f)) {
		step->action = job_ended(run->job) ? PLAN_START : PLAN_TAKEN;
		return 0;
	}
	diff = run->spec ? plan_diff(run, f) : json_array();
	if (!diff)
		return -ENOMEM;
	if (job_ended(run->job))
		step->action = plan_is_done(in, run, diff) ? PLAN_LEAVE : PLAN_START;
	else if (json_array_size(diff))
		step->action = PLAN_RESTART;
	else
		step->action = PLAN_KEEP;
	if (step->action == PLAN_RESTART)
		step->diff = TAKE_PTR(diff);
	return 0;
}

static const struct plan_step *plan_find(const struct plan *p, size_t from, const char *name)
{
	for (size_t i = from; i < p->n; i++)
		if (!strcmp(p->steps[i].name, name))
			return &p->steps[i];
	return NULL;
}

/* The name of one in the list of that key whose step is still to come, or NULL. */
static const char *plan_waits_by(
	const struct plan *p, size_t at, const struct plan_step *step, const char *key)
{
	const json_t *names = plan_names(step->file->spec, key);
	json_t *name;
	size_t i;

	json_array_foreach (names, i, name)
		if (plan_find(p, at, json_string_value(name)))
			return json_string_value(name);
	return NULL;
}

static const char *plan_waits(const struct plan *p, size_t at, const struct plan_step *step)
{
	const char *needed = plan_waits_by(p, at, step, "needs");

	return needed ? needed : plan_waits_by(p, at, step, "after");
}

/* Every job from there on waits for another one of them. Returns one of a circle, if possible one
 * that needs none of the others, with all of it in err. */
static size_t plan_circle(const struct plan *p, size_t at, struct error *err)
{
	const struct plan_step *first = &p->steps[at], *step, *best;
	char text[300];
	size_t n;

	/* After as many steps as there are jobs, it is one of the circle. */
	for (size_t i = at; i < p->n; i++)
		first = plan_find(p, at, plan_waits(p, at, first));
	step = best = first;
	n = (size_t)snprintf(text, sizeof(text), "%s", step->name);
	do {
		if (!plan_waits_by(p, at, step, "needs"))
			best = step;
		step = plan_find(p, at, plan_waits(p, at, step));
		if (n < sizeof(text))
			n += (size_t)snprintf(text + n, sizeof(text) - n, " -> %s", step->name);
	} while (step != first);
	error_set(err, -EINVAL, "%s: jobs wait for each other: %s%s", first->file->path, text,
		n < sizeof(text) ? "" : "...");
	return (size_t)(best - p->steps);
}

/* Breaks a circle after a boot: a job that needs none of the others is started first; where each
 * needs another one, this one is not started, nor are those that need it. */
static int plan_break(const struct plan_input *in, const struct plan *p, size_t at,
	struct plan_step *step, struct error *err)
{
	if (!in->boot)
		return -EINVAL;
	if (!plan_waits_by(p, at, step, "needs"))
		return 0;
	if (step->action != PLAN_START && step->action != PLAN_RESTART)
		return 0;
	step->action = PLAN_CIRCLE;
	step->circle = strdup(err->text);
	return step->circle ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* Moves steps forward until each comes after those that it waits for; else as they were. */
static int plan_order(const struct plan_input *in, struct plan *p, size_t from, struct error *err)
{
	for (size_t at = from; at < p->n; at++) {
		struct plan_step next;
		size_t k = at;

		while (k < p->n && plan_waits(p, at, &p->steps[k]))
			k++;
		if (k == p->n) {
			k = plan_circle(p, at, err);
			if (plan_break(in, p, at, &p->steps[k], err) < 0)
				return -EINVAL;
		}
		next = p->steps[k];
		memmove(&p->steps[at + 1], &p->steps[at], (k - at) * sizeof(next));
		p->steps[at] = next;
	}
	return 0;
}

static int plan_check_names(const struct plan_input *in, struct error *err)
{
	for (size_t i = 0; i < in->n_files; i++)
		for (size_t k = 0; k < i; k++)
			if (!strcmp(plan_name(&in->files[i]), plan_name(&in->files[k])))
				return error_set(err, -EINVAL,
					"%s: %s has a job of the name %s, too", in->files[i].path,
					in->files[k].path, plan_name(&in->files[i]));
	return 0;
}

int plan_make(const struct plan_input *in, struct plan *ret, struct error *err)
{
	size_t stops;
	/* After a boot elasticd refuses the second one, and the others are started. */
	int r = in->boot ? 0 : plan_check_names(in, err);

	*ret = (struct plan){ .steps = calloc(in->n_files + in->n_runs + 1, sizeof(*ret->steps)) };
	if (r < 0)
		return r;
	if (!ret->steps)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < in->n_runs; i++) {
		const struct plan_run *run = &in->runs[i];

		if (!job_ended(run->job) && plan_is_orphan(in, run))
			ret->steps[ret->n++] = (struct plan_step){ .action = PLAN_STOP,
				.name = json_get_string(run->job, "name", ""),
				.run = run };
	}
	stops = ret->n;
	for (size_t i = 0; i < in->n_files; i++, ret->n++)
		if (plan_step_of(in, &in->files[i], &ret->steps[ret->n]) < 0)
			return error_set(err, -ENOMEM, "out of memory");
	return plan_order(in, ret, stops, err);
}
