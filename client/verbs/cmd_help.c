/* SPDX-License-Identifier: Apache-2.0 */
/* help and completion, made from the table of verbs. */
#include "client/verbs/help.h"

#include "client/base/ctl.h"
#include "client/launch/launch.h"
#include "client/output/wrap.h"
#include "client/verbs/completion.h"
#include "client/verbs/dispatch.h"
#include "client/verbs/verbs.h"

#include <string.h>

static void options_print(FILE *f, const char *title, const struct arg_option *o)
{
	if (!o || !o->name)
		return;
	fprintf(f, "\n%s:\n", title);
	for (; o->name; o++)
		arg_option_print(f, o);
}

static void verbs_print(FILE *f, const struct verb *v)
{
	char left[64];

	fputs("\nVerbs:\n", f);
	for (; v->name; v++) {
		snprintf(left, sizeof(left), "  %s", v->name);
		if (!(v->flags & VERB_HIDDEN))
			wrap_row(f, left, 14, v->help);
	}
}

int help_verb(FILE *f, const struct verb *v)
{
	fprintf(f, "usage: elasticctl %s%s%s%s\n\n%s.\n", v->path, verb_takes_options(v),
		*v->synopsis ? " " : "", v->synopsis, v->help);
	if (verb_group(v))
		verbs_print(f, verb_group(v));
	options_print(f, "Options", v->options);
	if (v->flags & VERB_COMMAND) {
		fputc('\n', f);
		launch_print_options(f);
	}
	options_print(f, "Options of every verb", global_options);
	if (v->flags & VERB_COMMAND)
		fputs("\nUnderscores do for dashes, and PET_<NAME> in the environment for an option.\n",
			f);
	if (v->flags & VERB_VERDICT)
		fprintf(f,
			"\nExits as the %s did; 124: timed out, 125: elasticctl, the agent or "
			"elasticd failed.\n",
			v->flags & VERB_PROGRAM ? "program" : "job");
	fprintf(f, "\nMore in %s.\n",
		v->flags & VERB_COMMAND ? "elasticctl-run(1)" : "elasticctl(1)");
	return 0;
}

int help_all(FILE *f)
{
	fputs("usage: elasticctl [OPTION...] VERB [ARGUMENT...]\n\n"
	      "Runs and controls groups of training workers.\n",
		f);
	verbs_print(f, verbs);
	options_print(f, "Options", global_options);
	fputs("\n'elasticctl help VERB' explains a verb. More in elasticctl(1).\n", f);
	return 0;
}

int cmd_help(struct ctl *ctl, struct args *args)
{
	const struct verb *table = verbs, *v = NULL;

	if (args->argc == 0)
		return help_all(stdout);
	for (int i = 0; i < args->argc; i++) {
		if (!table)
			return ctl_usage(ctl, "unexpected argument \"%s\"", args->argv[i]);
		v = verb_find(table, args->argv[i]);
		if (!v)
			return dispatch_unknown(ctl, table, args->argv[i]);
		ctl->verb = v;
		table = verb_group(v);
	}
	return help_verb(stdout, v);
}

int cmd_completion(struct ctl *ctl, struct args *args)
{
	if (completion_write(args->argv[0], stdout) < 0)
		return ctl_usage(ctl, "expected bash, zsh or fish, got \"%s\"", args->argv[0]);
	return 0;
}

/* Calls elasticd; takes parameters. Prints no error and waits for a moment only, since the user is
 * typing a command. Returns the answer, owned, or NULL. */
static json_t *complete_call(struct ctl *ctl, const char *method, json_t *parameters)
{
	enum { COMPLETE_MS = 500 };
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	_cleanup_free_ char *error = NULL;
	_cleanup_json_ json_t *answer = NULL;
	bool more;

	if (ctl_open(ctl, &link, &(struct error){ 0 }) < 0) {
		json_decref(parameters);
		return NULL;
	}
	if (varlink_sync_send(link, method, parameters, false, NULL) < 0 ||
		varlink_sync_wait(link, COMPLETE_MS) != 1 ||
		varlink_sync_receive(link, &answer, &error, &more, NULL) < 0)
		return NULL;
	return TAKE_PTR(answer);
}

static void complete_jobs(struct ctl *ctl, bool ended)
{
	_cleanup_json_ json_t *answer = complete_call(ctl, "io.elasticd.Manager.List",
		ctl_with(json_object(), "ended", json_boolean(ended)));
	json_t *job;
	size_t i;

	json_array_foreach (json_object_get(answer, "jobs"), i, job)
		if (get_text(job, "name"))
			puts(get_text(job, "name"));
}

/* Prints "job/0", "job/role:0", ... for the job that word begins with. */
static void complete_workers(struct ctl *ctl, const char *word)
{
	_cleanup_free_ char *job = strndup(word, strcspn(word, "/"));
	_cleanup_json_ json_t *answer =
		job ? complete_call(ctl, "io.elasticd.Manager.Status", ctl_job(job)) : NULL;
	json_t *worker;
	size_t i;
	json_array_foreach (json_object_get(json_object_get(answer, "job"), "workers"), i, worker) {
		const char *role = get_text(worker, "role");

		printf("%s/%d\n", job, (int)get_int(worker, "rank"));
		printf("%s/%s:%d\n", job, role ? role : "?", (int)get_int(worker, "index"));
	}
}

int cmd_complete(struct ctl *ctl, struct args *args)
{
	const char *kind = args->argv[0], *word = args->argc > 1 ? args->argv[1] : "";
	bool workers = !strcmp(kind, "workers") || !strcmp(kind, "any-workers");

	if (workers && strchr(word, '/'))
		complete_workers(ctl, word);
	else if (workers || !strcmp(kind, "jobs") || !strcmp(kind, "active"))
		complete_jobs(ctl, !strcmp(kind, "jobs") || !strcmp(kind, "any-workers"));
	else if (!strcmp(kind, "shells"))
		puts("bash\nzsh\nfish");
	else if (!strcmp(kind, "create-drop"))
		puts("create\ndrop");
	else if (!strcmp(kind, "verbs") || !strcmp(kind, "task-verbs"))
		for (const struct verb *v = *kind == 't' ? task_verbs : verbs; v->name; v++)
			if (!(v->flags & VERB_HIDDEN))
				puts(v->name);
	return 0;
}
