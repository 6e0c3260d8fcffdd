/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/prefix.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>

static const struct {
	const char *tmpl, *want;
} cases[] = {
	{ NULL, "[trainer:5] " },
	{ "", "" },
	{ "${role}", "trainer" },
	{ "${role_name}", "trainer" },
	{ "${rank}", "11" },
	{ "${local_rank}", "3" },
	{ "${index}", "5" },
	{ "$index.$inde", "5.$inde" },
	{ "${host}", "node-1" },
	{ "[${role}${rank}/${local_rank}@${host}] ", "[trainer11/3@node-1] " },
	{ "$role:$rank:$local_rank ", "trainer:11:3 " },
	{ "$rank_", "$rank_" },
	{ "$$", "$" },
	{ "$$rank", "$rank" },
	{ "$$$rank", "$11" },
	{ "$", "$" },
	{ "a$", "a$" },
	{ "${", "${" },
	{ "${}", "${}" },
	{ "${rank", "${rank" },
	{ "${nothing}", "${nothing}" },
	{ "${1rank}", "${1rank}" },
	{ "$1", "$1" },
	{ "${ rank}", "${ rank}" },
	{ "\xc3\xa4 ${rank} %s %d\n", "\xc3\xa4 11 %s %d\n" },
};

START_TEST(templates_are_filled_in)
{
	const struct prefix_vars vars = {
		.role = "trainer", .host = "node-1", .index = 5, .rank = 11, .local_rank = 3
	};
	char *s = prefix_expand(cases[_i].tmpl, &vars);

	ck_assert_str_eq(s, cases[_i].want);
	free(s);
}
END_TEST

START_TEST(a_host_that_is_not_known_is_empty)
{
	const struct prefix_vars vars = { .role = "w", .rank = 0, .local_rank = 0 };
	char *s = prefix_expand("<$host>", &vars);

	ck_assert_str_eq(s, "<>");
	free(s);
}
END_TEST

START_TEST(a_colour_is_around_the_prefix_and_goes_round)
{
	char *a = prefix_colour("[w0]:", 0), *b = prefix_colour("[w1]:", 1);
	char *c = prefix_colour("[w0]:", 6);

	ck_assert_str_eq(a, "\033[36m[w0]:\033[0m");
	ck_assert_str_ne(a, b);
	ck_assert_str_eq(a, c);
	free(a);
	free(b);
	free(c);
}
END_TEST

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
	Suite *s = suite_create("prefix");
	TCase *t = tcase_create("prefix");

	tcase_add_loop_test(t, templates_are_filled_in, 0, N(cases));
	tcase_add_test(t, a_host_that_is_not_known_is_empty);
	tcase_add_test(t, a_colour_is_around_the_prefix_and_goes_round);
	suite_add_tcase(s, t);
	return suite_run(s);
}
