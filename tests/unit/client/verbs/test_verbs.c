/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/verbs.h"

#include "client/base/ctl.h"
#include "client/launch/launch.h"
#include "client/verbs/help.h"
#include "common/base/cleanup.h"
#include "tests/unit/run.h"

#include <check.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MANUAL_MAX = 1 << 20 };

/* Appends a page, from the root of the tree or from a build directory below it. */
static void add_page(const char *name, char *text)
{
	static const char *const places[] = { "", "../", "../../" };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		_cleanup_free_ char *path = NULL;
		size_t used = strlen(text);

		ck_assert_int_gt(asprintf(&path, "%sman/%s", places[i], name), 0);
		_cleanup_file_ FILE *f = fopen(path, "r");
		if (f && fread(text + used, 1, MANUAL_MAX - 1 - used, f) > 0)
			return;
	}
	ck_abort_msg("man/%s was not found", name);
}

static char *manual(void)
{
	char *text = calloc(1, MANUAL_MAX);

	ck_assert_ptr_nonnull(text);
	add_page("elasticctl.1", text);
	add_page("elasticctl-run.1", text);
	return text;
}

/* page has before and then word, which ends there. */
static bool has_word(const char *page, const char *before, const char *word)
{
	_cleanup_free_ char *pattern = NULL;

	ck_assert_int_gt(asprintf(&pattern, "%s%s", before, word), 0);
	for (const char *p = page; (p = strstr(p, pattern)); p++) {
		char next = p[strlen(pattern)];

		if (!isalnum((unsigned char)next) && next != '-')
			return true;
	}
	return false;
}

static bool described(const char *page, const struct arg_option *o)
{
	return has_word(page, "Fl -", o->name);
}

/* All tables of verbs: the first one, and those behind its groups. */
static const struct verb *const tables[] = { verbs, task_verbs };

#define EACH_VERB(v)                   \
	for (size_t t = 0; t < 2; t++) \
		for (const struct verb *v = tables[t]; v->name; v++)

START_TEST(every_row_is_complete_and_every_name_unique)
{
	EACH_VERB(v)
	{
		ck_assert_ptr_nonnull(v->run);
		ck_assert_msg(v->help && isupper((unsigned char)*v->help), "%s", v->path);
		ck_assert_msg(v->help[strlen(v->help) - 1] != '.', "%s", v->path);
		ck_assert_ptr_nonnull(v->synopsis);
		ck_assert_msg(v->most == MANY || v->most >= v->least, "%s", v->path);
		ck_assert_msg((v->most == 0) == (*v->synopsis == '\0'), "%s", v->path);
		ck_assert_ptr_eq(verb_find(tables[t], v->name), v);
		ck_assert(v->flags & VERB_GROUP ? verb_group(v) != NULL : !verb_group(v));
	}
	ck_assert_ptr_null(verb_find(verbs, "no-such-verb"));
	ck_assert_ptr_null(verb_find(task_verbs, ""));
	ck_assert_str_eq(verb_find(task_verbs, "list")->path, "task list");
	ck_assert_str_eq(verb_find(verbs, "list")->path, "list");
	ck_assert_ptr_eq(verb_group(verb_find(verbs, "task")), task_verbs);
}
END_TEST

static void check_options(const struct arg_option *table, const struct arg_option *with)
{
	for (const struct arg_option *o = table; o && o->name; o++) {
		ck_assert_msg(o->help && *o->help, "--%s", o->name);
		ck_assert_msg(
			o - table < ARGS_OPTIONS_MAX || table == launch_options, "--%s", o->name);
		for (const struct arg_option *p = o + 1; p->name; p++) {
			ck_assert_str_ne(p->name, o->name);
			ck_assert_msg(!p->letter || p->letter != o->letter, "-%c", o->letter);
		}
		for (const struct arg_option *p = with; p && p->name; p++) {
			ck_assert_str_ne(p->name, o->name);
			ck_assert_msg(!p->letter || p->letter != o->letter, "-%c", o->letter);
		}
	}
}

START_TEST(no_verb_has_an_option_twice)
{
	check_options(global_options, NULL);
	check_options(launch_options, global_options);
	EACH_VERB(v)
	{
		check_options(v->options, global_options);
		if (v->flags & VERB_COMMAND)
			check_options(v->options, launch_options);
	}
}
END_TEST

START_TEST(the_manual_has_every_verb_and_every_option)
{
	_cleanup_free_ char *page = manual();

	EACH_VERB(v)
	{
		if (v->flags & VERB_HIDDEN)
			continue;
		ck_assert_msg(
			has_word(page, ".It Cm ", v->path), "%s is not in the manual", v->path);
		for (const struct arg_option *o = v->options; o && o->name; o++)
			ck_assert_msg(described(page, o), "%s --%s is not in the manual", v->path,
				o->name);
	}
	for (const struct arg_option *o = global_options; o->name; o++)
		ck_assert_msg(described(page, o), "--%s is not in the manual", o->name);
	for (const struct arg_option *o = launch_options; o->name; o++)
		ck_assert_msg(described(page, o), "--%s is not in the manual", o->name);
}
END_TEST

START_TEST(help_names_every_verb_and_explains_each)
{
	_cleanup_free_ char *all = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&all, &len);

	ck_assert_int_eq(help_all(f), 0);
	help_verb(f, verb_find(verbs, "task"));
	fclose(f);
	EACH_VERB(v)
	{
		_cleanup_free_ char *one = NULL;

		ck_assert_msg(
			has_word(all, "\n  ", v->name) == !(v->flags & VERB_HIDDEN), "%s", v->name);
		f = open_memstream(&one, &len);
		help_verb(f, v);
		fclose(f);
		for (const struct arg_option *o = v->options; o && o->name; o++)
			ck_assert_msg(has_word(one, "--", o->name), "%s --%s", v->name, o->name);
		for (char *line = strtok(one, "\n"); line; line = strtok(NULL, "\n"))
			ck_assert_msg(strlen(line) <= 100, "%s: %s", v->name, line);
	}
}
END_TEST

static const struct arg_option sample[] = { { "follow", NULL, "h", NULL, 'f' },
	{ "lines", "N", "h", NULL, 'n' }, { NULL } };

static int parse(struct args *a, struct error *err, int argc, const char **argv)
{
	*a = (struct args){ 0 };
	return args_parse(a, sample, global_options, argc, (char **)argv, false, err);
}

START_TEST(options_and_arguments_mix)
{
	const char *argv[] = { "logs", "a", "-fn5", "b", "--color=never", "--", "-n", NULL };
	struct error err = { 0 };
	struct args a;
	int64_t n = 0;

	ck_assert_int_eq(parse(&a, &err, 7, argv), 0);
	ck_assert(args_has(&a, "follow") && !args_has(&a, "json"));
	ck_assert_int_eq(args_int(&a, "lines", 0, &n, &err), 0);
	ck_assert_int_eq(n, 5);
	ck_assert_str_eq(args_get(&a, "color"), "never");
	ck_assert_int_eq(a.argc, 3);
	ck_assert_str_eq(a.argv[2], "-n");
}
END_TEST

START_TEST(an_option_that_may_be_repeated_keeps_all_its_values)
{
	static const struct arg_option many[] = { { "env", "NAME...", "h", NULL, 0 },
		{ "lines", "N", "h", NULL, 0 }, { NULL } };
	const char *argv[2 * ARGS_MANY_MAX + 4] = { "x", "--env=a", "--lines=1", "--env", "b",
		"--lines=2", "--env=", NULL };
	struct args a = { 0 };
	struct error err = { 0 };

	ck_assert_int_eq(args_parse(&a, many, global_options, 7, (char **)argv, false, &err), 0);
	ck_assert_str_eq(args_nth(&a, "env", 0), "a");
	ck_assert_str_eq(args_nth(&a, "env", 1), "b");
	ck_assert_str_eq(args_nth(&a, "env", 2), "");
	ck_assert_ptr_null(args_nth(&a, "env", 3));
	ck_assert_ptr_null(args_nth(&a, "lines", 0));
	ck_assert_str_eq(args_get(&a, "lines"), "2");
	for (int i = 0; i < ARGS_MANY_MAX + 1; i++)
		argv[i + 1] = "--env=a";
	ck_assert_int_eq(
		args_parse(&a, many, global_options, ARGS_MANY_MAX + 1, (char **)argv, false, &err),
		0);
	ck_assert_str_eq(args_nth(&a, "env", ARGS_MANY_MAX - 1), "a");
	ck_assert_ptr_null(args_nth(&a, "env", ARGS_MANY_MAX));
	ck_assert_int_eq(
		args_parse(&a, many, global_options, ARGS_MANY_MAX + 2, (char **)argv, false, &err),
		-EINVAL);
}
END_TEST

START_TEST(wrong_options_are_named)
{
	static const struct {
		const char *argv[4];
		const char *text;
	} rows[] = {
		{ { "logs", "--nope", NULL }, "--nope" },
		{ { "logs", "-z", NULL }, "-z" },
		{ { "logs", "-n", NULL }, "-n needs a value" },
		{ { "logs", "--lines", NULL }, "--lines needs a value" },
		{ { "logs", "--follow=yes", NULL }, "--follow takes no value" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *argv[4] = { rows[i].argv[0], rows[i].argv[1], rows[i].argv[2], NULL };
		struct error err = { 0 };
		struct args a;

		ck_assert_int_lt(parse(&a, &err, 2, argv), 0);
		ck_assert_msg(strstr(err.text, rows[i].text), "%s", err.text);
	}
}
END_TEST

START_TEST(numbers_and_durations_are_checked)
{
	const char *argv[] = { "logs", "-n", "-3", "--timeout=soon", NULL };
	const char *good[] = { "logs", "--timeout=1.5", NULL };
	struct error err = { 0 };
	struct args a;
	int64_t v = 7;

	ck_assert_int_eq(parse(&a, &err, 4, argv), 0);
	ck_assert_int_lt(args_int(&a, "lines", 0, &v, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "--lines"));
	ck_assert_int_lt(args_duration(&a, "timeout", &v, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "--timeout"));
	ck_assert_int_eq(v, 7);
	ck_assert_int_eq(parse(&a, &err, 2, good), 0);
	ck_assert_int_eq(args_duration(&a, "timeout", &v, &err), 0);
	ck_assert_int_eq(v, 1500);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("verbs");
	TCase *tc = tcase_create("verbs");

	tcase_add_test(tc, every_row_is_complete_and_every_name_unique);
	tcase_add_test(tc, no_verb_has_an_option_twice);
	tcase_add_test(tc, the_manual_has_every_verb_and_every_option);
	tcase_add_test(tc, help_names_every_verb_and_explains_each);
	tcase_add_test(tc, options_and_arguments_mix);
	tcase_add_test(tc, an_option_that_may_be_repeated_keeps_all_its_values);
	tcase_add_test(tc, wrong_options_are_named);
	tcase_add_test(tc, numbers_and_durations_are_checked);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
