/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/job_names.h"

#include "client/base/job.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

/* Characters that no job's name has. */
#define WILD "*?["

void job_names_fini(struct job_names *names)
{
	strings_free(names->names);
	*names = (struct job_names){ 0 };
}

/* Takes name and adds it unless it is there already; NULL means out of memory. */
static int add_name(struct job_names *names, char *name)
{
	char **more = NULL;

	for (int i = 0; name && i < names->n; i++)
		if (!strcmp(names->names[i], name)) {
			free(name);
			return 0;
		}
	if (name)
		more = reallocarray(names->names, names->n + 2, sizeof(*more));
	if (!more) {
		free(name);
		return -ENOMEM;
	}
	names->names = more;
	more[names->n++] = name;
	more[names->n] = NULL;
	return 0;
}

static bool chosen_from(const json_t *job, enum job_names_choice of)
{
	return of == JOB_NAMES_NEWEST || job_ended(job) == (of == JOB_NAMES_ENDED);
}

int job_names_match(
	struct job_names *names, const char *pattern, const json_t *jobs, enum job_names_choice of)
{
	size_t len = strcspn(pattern, "/"), i;
	_cleanup_free_ char *name_pattern = strndup(pattern, len);
	json_t *job;
	int n = 0;

	if (!name_pattern)
		return -ENOMEM;
	json_array_foreach (jobs, i, job) {
		const char *name = get_text(job, "name"), *run = get_text(job, "run");
		char *text;

		if (!name || !run || !chosen_from(job, of) || fnmatch(name_pattern, name, 0))
			continue;
		if (asprintf(&text, "%s%s", of == JOB_NAMES_ENDED ? run : name, pattern + len) < 0)
			text = NULL;
		if (add_name(names, text) < 0)
			return -ENOMEM;
		n++;
	}
	return n;
}

/* Asks elasticd for the jobs that a pattern or --all chooses from. */
static int list_jobs(struct ctl *ctl, bool all, enum job_names_choice of, json_t **ret)
{
	bool ended = of == JOB_NAMES_ENDED || (of == JOB_NAMES_NEWEST && !all);
	_cleanup_json_ json_t *answer = NULL;
	int r = ctl_call(
		ctl, "List", ctl_with(json_object(), "ended", json_boolean(ended)), &answer);

	if (r == 0)
		*ret = json_incref(json_object_get(answer, "jobs"));
	return r;
}

static int add_named(struct ctl *ctl, const char *text, enum job_names_choice of, json_t **jobs,
	struct job_names *names)
{
	static const char *const kinds[] = { "active job", "job", "job that has ended" };
	int r = 0;

	if (!text[strcspn(text, WILD)] || strcspn(text, WILD) > strcspn(text, "/"))
		return add_name(names, strdup(text)) < 0
			       ? ctl_error(ctl, CTL_FAILED, "out of memory")
			       : 0;
	names->chosen = true;
	if (!*jobs)
		r = list_jobs(ctl, false, of, jobs);
	if (r != 0)
		return r;
	r = job_names_match(names, text, *jobs, of);
	if (r < 0)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	return r > 0 ? 0
		     : ctl_error(ctl, ctl->verdict_status ? CTL_FAILED : CTL_REFUSED,
			       "no %s matches \"%s\"", kinds[of], text);
}

static int add_all(struct ctl *ctl, enum job_names_choice of, struct job_names *names)
{
	_cleanup_json_ json_t *jobs = NULL;
	int r = list_jobs(ctl, true, of, &jobs);

	names->chosen = true;
	if (r == 0 && job_names_match(names, "*", jobs, of) < 0)
		r = ctl_error(ctl, CTL_FAILED, "out of memory");
	if (r == 0 && names->n == 0)
		ctl_say(ctl, of == JOB_NAMES_ENDED ? "No job has ended." : "No jobs are active.");
	return r;
}

int job_names_older(struct ctl *ctl, int64_t older_ms, struct job_names *ret)
{
	const int64_t before_us = ctl_now_us() - older_ms * 1000;
	_cleanup_json_ json_t *jobs = NULL;
	struct job_names names = { .chosen = true };
	int r = list_jobs(ctl, true, JOB_NAMES_ENDED, &jobs);
	size_t i = json_array_size(jobs);

	while (i-- > 0)
		if (get_int(json_array_get(jobs, i), "ended_us") > before_us)
			json_array_remove(jobs, i);
	if (r == 0 && job_names_match(&names, "*", jobs, JOB_NAMES_ENDED) < 0)
		r = ctl_error(ctl, CTL_FAILED, "out of memory");
	if (r == 0 && names.n == 0)
		ctl_say(ctl, "No job ended that long ago.");
	if (r == 0)
		*ret = names;
	else
		job_names_fini(&names);
	return r;
}

int job_names_get(
	struct ctl *ctl, const struct args *args, enum job_names_choice of, struct job_names *ret)
{
	_cleanup_json_ json_t *jobs = NULL;
	struct job_names names = { 0 };
	bool all = args_has(args, "all");
	int r = 0;

	if (all == (args->argc > 0))
		return ctl_usage(ctl, "expected jobs or --all, got %s", all ? "both" : "neither");
	if (all)
		r = add_all(ctl, of, &names);
	for (int i = 0; i < args->argc && r == 0; i++)
		r = add_named(ctl, args->argv[i], of, &jobs, &names);
	if (r == 0)
		*ret = names;
	else
		job_names_fini(&names);
	return r;
}
