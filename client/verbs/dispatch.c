/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/dispatch.h"

#include "client/base/ctl.h"
#include "client/output/pager.h"
#include "client/verbs/help.h"
#include "client/verbs/verbs.h"
#include "common/base/similar.h"

#include <signal.h>
#include <string.h>

/* The verb that the user probably meant. NULL if that verb ends something, since users follow hints
 * without a second thought. */
static const struct verb *find_similar(const struct verb *table, const char *word)
{
	const struct verb *found = NULL;
	size_t best = similar_limit(word) + 1;

	for (const struct verb *v = table; v->name; v++) {
		size_t n = strlen(word) > 1 && !strncmp(v->name, word, strlen(word))
				   ? 0
				   : similar_distance(word, v->name);

		if (v->flags & VERB_HIDDEN || n >= best)
			continue;
		best = n;
		found = v;
	}
	return found && !(found->flags & VERB_ENDS) ? found : NULL;
}

int dispatch_unknown(struct ctl *ctl, const struct verb *table, const char *word)
{
	const char *group = ctl->verb && ctl->verb->flags & VERB_GROUP ? ctl->verb->path : NULL;
	const struct verb *v = find_similar(table, word);

	if (v)
		return ctl_usage(ctl, "there is no verb \"%s%s%s\"; did you mean \"%s\"?",
			group ? group : "", group ? " " : "", word, v->path);
	return ctl_usage(
		ctl, "there is no verb \"%s%s%s\"", group ? group : "", group ? " " : "", word);
}

/* The group's options are parsed; one of its verbs follows. */
int cmd_task(struct ctl *ctl, struct args *args)
{
	if (args_has(args, "help"))
		return help_verb(stdout, ctl->verb);
	if (args->argc == 0)
		return help_verb(stderr, ctl->verb), CTL_USAGE;
	return dispatch(ctl, args, verb_group(ctl->verb));
}

static bool has_option(const struct verb *v, const char *name)
{
	const struct arg_option *o = v->options;

	while (o && o->name && strcmp(o->name, name) != 0)
		o++;
	return o && o->name;
}

/* The output of verbs that only look, and end. */
static bool wants_pager(const struct ctl *ctl, const struct args *args)
{
	if (!(ctl->verb->flags & VERB_PAGED) || ctl->json || args_has(args, "no-pager"))
		return false;
	/* Events of all jobs are a stream, too. */
	return !has_option(ctl->verb, "follow") || (!args_has(args, "follow") && args->argc > 0);
}

static int run_verb(struct ctl *ctl, struct args *args)
{
	const struct verb *v = ctl->verb;
	struct error err = { 0 };
	int r;

	ctl->verdict_status = v->flags & VERB_VERDICT;
	/* These verbs parse their own options: torchrun's, which end where the program begins. */
	if (v->flags & VERB_COMMAND)
		return v->run(ctl, args);
	/* The caller may ignore SIGPIPE (Python does); we must end when our reader is gone. */
	signal(SIGPIPE, SIG_DFL);
	if (args_parse(args, v->options, global_options, args->argc, args->argv,
		    v->flags & (VERB_GROUP | VERB_WORDS), &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	if (v->flags & VERB_GROUP)
		return v->run(ctl, args);
	if (args_has(args, "help"))
		return help_verb(stdout, v);
	r = ctl_init(ctl, args);
	if (r != 0)
		return r;
	if (args->argc < v->least)
		return ctl_usage(ctl, "%s needs %s", v->path, v->synopsis);
	if (v->most != MANY && args->argc > v->most)
		return ctl_usage(ctl, "unexpected argument \"%s\"", args->argv[v->most]);
	if (wants_pager(ctl, args))
		pager_begin(ctl->utf8);
	return v->run(ctl, args);
}

int dispatch(struct ctl *ctl, struct args *args, const struct verb *table)
{
	const struct verb *v = verb_find(table, args->argv[0]);

	if (!v)
		return dispatch_unknown(ctl, table, args->argv[0]);
	ctl->verb = v;
	return run_verb(ctl, args);
}
