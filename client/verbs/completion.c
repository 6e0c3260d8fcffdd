/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/completion.h"

#include "client/launch/launch.h"
#include "client/verbs/verbs.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Runs for each option of a verb: torchrun's flags, its own, the global ones. */
typedef void (*option_fn)(FILE *f, const struct verb *v, const struct arg_option *o);

static void each_option(FILE *f, const struct verb *v, option_fn fn)
{
	const struct arg_option *const tables[] = {
		v && v->flags & VERB_COMMAND ? launch_options : NULL,
		v ? v->options : NULL,
		global_options,
	};

	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (const struct arg_option *o = tables[t]; o && o->name; o++)
			fn(f, v, o);
}

/* Runs for each verb that help shows, and for the verbs of groups. */
typedef void (*verb_visit_fn)(FILE *f, const struct verb *v);

static void each_verb(FILE *f, verb_visit_fn fn)
{
	for (const struct verb *v = verbs; v->name; v++) {
		if (v->flags & VERB_HIDDEN)
			continue;
		fn(f, v);
		for (const struct verb *sub = verb_group(v); sub && sub->name; sub++)
			fn(f, sub);
	}
}

/* The KIND of `elasticctl __complete` for a verb's arguments; NULL for none. */
static const char *kind_of(const struct verb *v)
{
	switch (v->words) {
	case WORDS_JOBS:
	case WORDS_RUNS:
		return "jobs";
	case WORDS_ACTIVE:
		return "active";
	case WORDS_WORKERS:
		return "workers";
	case WORDS_ANY_WORKERS:
		return "any-workers";
	case WORDS_SHELLS:
		return "shells";
	case WORDS_VERBS:
		return "verbs";
	case WORDS_TASK_VERBS:
		return "task-verbs";
	case WORDS_CREATE_DROP:
		return "create-drop";
	default:
		return NULL;
	}
}

/* text in single quotes, which is correct in all three shells if it has no quote and no backslash.
 */
static void write_quoted(FILE *f, const char *text)
{
	fputc('\'', f);
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", f);
		else
			fputc(*text, f);
	}
	fputc('\'', f);
}

static void visible_verbs(FILE *f)
{
	for (const struct verb *v = verbs; v->name; v++)
		if (!(v->flags & VERB_HIDDEN))
			fprintf(f, "%s%s", v == verbs ? "" : " ", v->name);
}

static void bash_option(FILE *f, const struct verb *v, const struct arg_option *o)
{
	fprintf(f, "--%s ", o->name);
	if (o->letter)
		fprintf(f, "-%c ", o->letter);
}

/* A verb as one word: "task/submit". */
static void bash_verb(FILE *f, const struct verb *v)
{
	for (const char *p = v->path; *p; p++)
		fputc(*p == ' ' ? '/' : *p, f);
}

static void bash_value(FILE *f, const struct verb *v, const struct arg_option *o)
{
	if (!o->value)
		return;
	for (int letter = 0; letter < (o->letter ? 2 : 1); letter++) {
		fputs(letter ? "|" : "\t\t", f);
		if (v)
			bash_verb(f, v);
		else
			fputc('*', f);
		if (letter)
			fprintf(f, ":-%c", o->letter);
		else
			fprintf(f, ":--%s", o->name);
	}
	if (o->words && !strcmp(o->words, "@dir"))
		fputs(") COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n", f);
	else if (o->words && *o->words == '@')
		fputs(") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", f);
	else
		fprintf(f, ") COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n",
			o->words ? o->words : "");
}

static void bash_values(FILE *f, const struct verb *v)
{
	for (const struct arg_option *o = v->options; o && o->name; o++)
		bash_value(f, v, o);
	for (const struct arg_option *o = launch_options; v->flags & VERB_COMMAND && o->name; o++)
		bash_value(f, v, o);
}

/* The options of a verb, and its arguments. */
static void bash_words(FILE *f, const struct verb *v)
{
	const char *kind = kind_of(v);

	fputc('\t', f);
	bash_verb(f, v);
	fputs(") opts='", f);
	each_option(f, v, bash_option);
	fputc('\'', f);
	if (kind)
		fprintf(f,
			"; [[ $cur == -*%s ]] || words=$(elasticctl __complete %s \"$cur\" "
			"2>/dev/null)",
			v->words == WORDS_RUNS ? " || $cur == */*" : "", kind);
	fputs(" ;;\n", f);
}

static void bash_groups(FILE *f)
{
	for (const struct verb *v = verbs; v->name; v++)
		if (v->flags & VERB_GROUP)
			fprintf(f, "%s ", v->name);
}

/* For verbs that take programs or files. */
static void bash_other(FILE *f, const struct verb *v)
{
	if (v->words != WORDS_COMMAND && v->words != WORDS_FILES && v->words != WORDS_RUNS)
		return;
	fputs("\t\t", f);
	bash_verb(f, v);
	if (v->words == WORDS_COMMAND)
		fputs(") COMPREPLY=($(compgen -c -- \"$cur\") $(compgen -f -- \"$cur\")) ;;\n", f);
	else
		fputs(") COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n", f);
}

static void bash_script(FILE *f)
{
	fputs("# bash completion for elasticctl, made by: elasticctl completion bash\n"
	      "_elasticctl()\n{\n"
	      "\tlocal cur prev pre= verb= i words opts list IFS=$' \\t\\n'\n"
	      "\tCOMPREPLY=()\n"
	      "\tcur=${COMP_WORDS[COMP_CWORD]}\n"
	      "\tprev=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	      "\t\tcase ${COMP_WORDS[i]} in\n"
	      "\t\t--socket|--timeout|--color) ((i++)) ;;\n"
	      "\t\t-*|=) ;;\n"
	      "\t\t*) verb=${verb:+$verb/}${COMP_WORDS[i]}; [[ ' ",
		f);
	bash_groups(f);
	fputs("' == *\" $verb \"* ]] || break ;;\n"
	      "\t\tesac\n\tdone\n"
	      "\tif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
	      "\tif [[ $cur == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-1]}; "
	      "prev=${COMP_WORDS[COMP_CWORD-1]}; cur=; fi\n"
	      /* readline splits job/role:0 into three words. */
	      "\tif [[ $prev == ':' ]]; then pre=${COMP_WORDS[COMP_CWORD-2]}:; cur=$pre$cur\n"
	      "\telif [[ $cur == ':' ]]; then pre=$prev:; cur=$pre; fi\n"
	      "\tcase $verb:$prev in\n",
		f);
	each_verb(f, bash_values);
	for (const struct arg_option *o = global_options; o->name; o++)
		bash_value(f, NULL, o);
	fputs("\tesac\n\tcase $verb in\n\t'') opts='", f);
	each_option(f, NULL, bash_option);
	fputs("' words='", f);
	visible_verbs(f);
	fputs("' ;;\n", f);
	each_verb(f, bash_words);
	fputs("\tesac\n"
	      "\tif [[ $cur == -* ]]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W \"$opts\" -- \"$cur\"))\n"
	      "\telif [[ -n $words ]]; then\n"
	      /* Names come from other users: compgen -W would execute $() in them. */
	      "\t\tread -rd '' -a list <<< \"$words\"\n"
	      "\t\tfor i in \"${list[@]}\"; do [[ $i != \"$cur\"* ]] || COMPREPLY+=(\"$i\"); done\n"
	      "\telse\n"
	      "\t\tcase $verb in\n",
		f);
	each_verb(f, bash_other);
	fputs("\t\tesac\n"
	      "\tfi\n"
	      "\t[[ -z $pre ]] || COMPREPLY=(\"${COMPREPLY[@]#\"$pre\"}\")\n}\n"
	      "complete -o filenames -o bashdefault -F _elasticctl elasticctl\n",
		f);
}

/* One word of zsh's _arguments; escapes brackets and colons. */
static void zsh_help(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (strchr("[]:\\", *text))
			fputc('\\', f);
		if (*text == '\'')
			fputs("'\\''", f);
		else
			fputc(*text, f);
	}
}

static void zsh_action(FILE *f, const struct arg_option *o)
{
	if (!o->value)
		return;
	fputc(':', f);
	zsh_help(f, o->value);
	if (o->words && !strcmp(o->words, "@dir"))
		fputs(":_files -/", f);
	else if (o->words && *o->words == '@')
		fputs(":_files", f);
	else
		fprintf(f, ":(%s)", o->words ? o->words : "");
}

static void zsh_option(FILE *f, const struct verb *v, const struct arg_option *o)
{
	for (int letter = 0; letter < (o->letter ? 2 : 1); letter++) {
		if (letter)
			fprintf(f, "\t\t'-%c%s[", o->letter, o->value ? "+" : "");
		else
			fprintf(f, "\t\t'--%s%s[", o->name, o->value ? "=" : "");
		zsh_help(f, o->help);
		fputc(']', f);
		zsh_action(f, o);
		fputs("' \\\n", f);
	}
}

static void zsh_verb(FILE *f, const struct verb *v)
{
	const char *kind = kind_of(v);

	if (v->flags & VERB_GROUP) {
		fprintf(f, "\t%s) _elasticctl_%s ;;\n", v->name, v->name);
		return;
	}
	fprintf(f, "\t%s) _arguments -S \\\n", v->name);
	each_option(f, v, zsh_option);
	if (v->words == WORDS_RUNS)
		fprintf(f, "\t\t'*:name:{_elasticctl_words %s; _files}' ;;\n", kind);
	else if (kind)
		fprintf(f, "\t\t'*:name:_elasticctl_words %s' ;;\n", kind);
	else if (v->words == WORDS_COMMAND)
		fputs("\t\t'*::program:_normal' ;;\n", f);
	else if (v->words == WORDS_FILES)
		fputs("\t\t'*:file:_files' ;;\n", f);
	else
		fputs("\t\t&& : ;;\n", f);
}

/* A function that completes the verbs of table and their arguments. */
static void zsh_function(FILE *f, const char *name, const struct verb *table)
{
	fprintf(f,
		"%s() {\n"
		"\tlocal curcontext=$curcontext state line\n"
		"\tlocal -a verbs\n"
		"\tverbs=(\n",
		name);
	for (const struct verb *v = table; v->name; v++) {
		if (v->flags & VERB_HIDDEN)
			continue;
		fprintf(f, "\t\t'%s:", v->name);
		zsh_help(f, v->help);
		fputs("'\n", f);
	}
	fputs("\t)\n\t_arguments -C \\\n", f);
	each_option(f, NULL, zsh_option);
	fputs("\t\t'1:verb:->verb' '*::argument:->argument'\n"
	      "\tcase $state in\n"
	      "\tverb) _describe verb verbs ;;\n"
	      "\targument) case $line[1] in\n",
		f);
	for (const struct verb *v = table; v->name; v++)
		if (!(v->flags & VERB_HIDDEN))
			zsh_verb(f, v);
	fputs("\tesac ;;\n\tesac\n}\n", f);
}

static void zsh_script(FILE *f)
{
	char name[64];

	fputs("#compdef elasticctl\n"
	      "# zsh completion for elasticctl, made by: elasticctl completion zsh\n"
	      "_elasticctl_words() {\n"
	      "\tlocal -a names\n"
	      "\tnames=(${(f)\"$(elasticctl __complete $1 $PREFIX 2>/dev/null)\"})\n"
	      "\tcompadd -a names\n}\n",
		f);
	for (const struct verb *v = verbs; v->name; v++) {
		if (!(v->flags & VERB_GROUP))
			continue;
		snprintf(name, sizeof(name), "_elasticctl_%s", v->name);
		zsh_function(f, name, verb_group(v));
	}
	zsh_function(f, "_elasticctl", verbs);
	fputs("if [[ $funcstack[1] == _elasticctl ]]; then _elasticctl \"$@\"; "
	      "else compdef _elasticctl elasticctl; fi\n",
		f);
}

/* "task; and __fish_seen_subcommand_from submit", for a condition that begins with
 * __fish_seen_subcommand_from. A verb outside groups only counts where no group was given. */
static void fish_seen(FILE *f, const struct verb *v)
{
	size_t n = strcspn(v->path, " ");

	if (v->path[n]) {
		fprintf(f, "%.*s; and __fish_seen_subcommand_from %s", (int)n, v->path, v->name);
		return;
	}
	fputs(v->name, f);
	for (const struct verb *group = verbs; group->name; group++)
		if (verb_group(group) && verb_find(verb_group(group), v->name))
			fprintf(f, "; and not __fish_seen_subcommand_from %s", group->name);
}

static void fish_option(FILE *f, const struct verb *v, const struct arg_option *o)
{
	fputs("complete -c elasticctl", f);
	if (v) {
		fputs(" -n '__fish_seen_subcommand_from ", f);
		fish_seen(f, v);
		fputc('\'', f);
	}
	fprintf(f, " -l %s", o->name);
	if (o->letter)
		fprintf(f, " -s %c", o->letter);
	if (o->words && *o->words == '@')
		fputs(" -r -F", f);
	else if (o->words)
		fprintf(f, " -x -a '%s'", o->words);
	else if (o->value)
		fputs(" -x", f);
	fputs(" -d ", f);
	write_quoted(f, o->help);
	fputc('\n', f);
}

/* Offers the verb itself where it may follow. */
static void fish_offer(FILE *f, const struct verb *v)
{
	size_t n = strcspn(v->path, " ");

	fputs("complete -c elasticctl -n ", f);
	if (v->path[n]) {
		fprintf(f, "'__fish_seen_subcommand_from %.*s; and not __fish_seen_subcommand_from",
			(int)n, v->path);
		for (const struct verb *sub = task_verbs; sub->name; sub++)
			fprintf(f, " %s", sub->name);
		fputc('\'', f);
	} else {
		fputs("__fish_use_subcommand", f);
	}
	fprintf(f, " -a %s -d ", v->name);
	write_quoted(f, v->help);
	fputc('\n', f);
}

static void fish_verb(FILE *f, const struct verb *v)
{
	const char *kind = kind_of(v);

	fish_offer(f, v);
	if (kind && !(v->flags & VERB_GROUP)) {
		fputs("complete -c elasticctl -n '__fish_seen_subcommand_from ", f);
		fish_seen(f, v);
		fprintf(f, "' %s-a '(elasticctl __complete %s (commandline -ct) 2>/dev/null)'\n",
			v->words == WORDS_RUNS ? "-F " : "", kind);
	} else if (v->words == WORDS_COMMAND || v->words == WORDS_FILES) {
		fputs("complete -c elasticctl -n '__fish_seen_subcommand_from ", f);
		fish_seen(f, v);
		fputs("' -F\n", f);
	}
	for (const struct arg_option *o = v->flags & VERB_COMMAND ? launch_options : NULL;
		o && o->name; o++)
		fish_option(f, v, o);
	for (const struct arg_option *o = v->options; o && o->name; o++)
		fish_option(f, v, o);
}

static void fish_script(FILE *f)
{
	fputs("# fish completion for elasticctl, made by: elasticctl completion fish\n"
	      "complete -c elasticctl -f\n",
		f);
	for (const struct arg_option *o = global_options; o->name; o++)
		fish_option(f, NULL, o);
	each_verb(f, fish_verb);
}

int completion_write(const char *shell, FILE *f)
{
	if (!strcmp(shell, "bash"))
		bash_script(f);
	else if (!strcmp(shell, "zsh"))
		zsh_script(f);
	else if (!strcmp(shell, "fish"))
		fish_script(f);
	else
		return -EINVAL;
	return 0;
}
