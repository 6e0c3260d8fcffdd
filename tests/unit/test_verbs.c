/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs.h"

#include "client/ctl.h"
#include "client/help.h"
#include "client/launch.h"
#include "common/cleanup.h"

#include <check.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The manual page, from the root of the tree or from a build directory below it. */
static char *manual(void)
{
	static const char *const places[] = { "man/elasticctl.1", "../man/elasticctl.1",
		"../../man/elasticctl.1" };
	char *text = calloc(1, 1 << 20);

	ck_assert_ptr_nonnull(text);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		_cleanup_file_ FILE *f = fopen(places[i], "r");

		if (f && fread(text, 1, (1 << 20) - 1, f) > 0)
			return text;
	}
	ck_abort_msg("man/elasticctl.1 was not found");
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

START_TEST(every_row_is_complete_and_every_name_unique)
{
	for (const struct verb *v = verbs; v->name; v++) {
		ck_assert_ptr_nonnull(v->run);
		ck_assert_msg(v->help && isupper((unsigned char)*v->help), "%s", v->name);
		ck_assert_msg(v->help[strlen(v->help) - 1] != '.', "%s", v->name);
		ck_assert_ptr_nonnull(v->synopsis);
		ck_assert_msg(v->most == MANY || v->most >= v->least, "%s", v->name);
		ck_assert_msg((v->most == 0) == (*v->synopsis == '\0'), "%s", v->name);
		ck_assert_ptr_eq(verb_find(v->name), v);
	}
	ck_assert_ptr_null(verb_find("no-such-verb"));
	ck_assert_ptr_null(verb_find(""));
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
	for (const struct verb *v = verbs; v->name; v++) {
		check_options(v->options, global_options);
		if (v->flags & VERB_COMMAND)
			check_options(v->options, launch_options);
	}
}
END_TEST

START_TEST(the_manual_has_every_verb_and_every_option)
{
	_cleanup_free_ char *page = manual();

	for (const struct verb *v = verbs; v->name; v++) {
		if (v->flags & VERB_HIDDEN)
			continue;
		ck_assert_msg(
			has_word(page, ".It Cm ", v->name), "%s is not in the manual", v->name);
		for (const struct arg_option *o = v->options; o && o->name; o++)
			ck_assert_msg(described(page, o), "%s --%s is not in the manual", v->name,
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
	fclose(f);
	for (const struct verb *v = verbs; v->name; v++) {
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
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(tc, every_row_is_complete_and_every_name_unique);
	tcase_add_test(tc, no_verb_has_an_option_twice);
	tcase_add_test(tc, the_manual_has_every_verb_and_every_option);
	tcase_add_test(tc, help_names_every_verb_and_explains_each);
	tcase_add_test(tc, options_and_arguments_mix);
	tcase_add_test(tc, wrong_options_are_named);
	tcase_add_test(tc, numbers_and_durations_are_checked);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
