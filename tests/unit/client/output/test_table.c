/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/table.h"

#include "common/base/cleanup.h"
#include "tests/unit/run.h"

#include <check.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

static const struct table_column three[] = { { "NAME", TABLE_SHRINK }, { "N", TABLE_RIGHT },
	{ "TEXT", 0 }, { NULL, 0 } };

static char *render(const struct table *t, struct table_style style)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	ck_assert_ptr_nonnull(f);
	table_print(t, f, &style);
	fclose(f);
	return text;
}

static struct table *sample(void)
{
	struct table *t = table_new(three);

	ck_assert_ptr_nonnull(t);
	table_cell(t, COLOR_NONE, "digits");
	table_cellf(t, COLOR_GREEN, "%d", 4);
	table_cell(t, COLOR_NONE, "loss 0.31 after a while");
	table_cell(t, COLOR_NONE, "x");
	table_cellf(t, COLOR_NONE, "%d", 128);
	table_cell(t, COLOR_NONE, NULL);
	return t;
}

START_TEST(columns_are_as_wide_as_their_widest_cell)
{
	_cleanup_(table_freep) struct table *t = sample();
	_cleanup_free_ char *s = render(t, (struct table_style){ .legend = true });

	ck_assert_int_eq(table_rows(t), 2);
	ck_assert_str_eq(s, "NAME     N TEXT\n"
			    "digits   4 loss 0.31 after a while\n"
			    "x      128\n");
}
END_TEST

START_TEST(without_a_legend_titles_take_no_room)
{
	_cleanup_(table_freep) struct table *t = table_new(three);
	_cleanup_free_ char *s = NULL;

	table_cell(t, COLOR_NONE, "a");
	table_cell(t, COLOR_NONE, "1");
	table_cell(t, COLOR_NONE, "b");
	s = render(t, (struct table_style){ .legend = false });
	ck_assert_str_eq(s, "a 1 b\n");
}
END_TEST

START_TEST(the_last_column_is_cut_at_the_edge_of_the_terminal)
{
	_cleanup_(table_freep) struct table *t = sample();
	_cleanup_free_ char *s = render(t, (struct table_style){ .columns = 24 });
	_cleanup_free_ char *u = render(t, (struct table_style){ .columns = 24, .utf8 = true });

	ck_assert_str_eq(s, "digits   4 loss 0.31 af>\nx      128\n");
	ck_assert_str_eq(u, "digits   4 loss 0.31 af\xe2\x80\xa6\nx      128\n");
}
END_TEST

START_TEST(columns_that_may_shrink_do_so_when_the_last_one_is_small_already)
{
	_cleanup_(table_freep) struct table *t = table_new(three);
	_cleanup_free_ char *s = NULL;

	table_cell(t, COLOR_NONE, "a-very-long-name-of-a-job");
	table_cell(t, COLOR_NONE, "12345");
	table_cell(t, COLOR_NONE, "abcdefghijklmnop");
	s = render(t, (struct table_style){ .columns = 30 });
	ck_assert_str_eq(s, "a-very-long-> 12345 abcdefghi>\n");
}
END_TEST

static const struct table_column dropping[] = { { "JOB", TABLE_SHRINK },
	{ "PID", TABLE_RIGHT | TABLE_DROP(1) }, { "RUN", TABLE_DROP(9) }, { "N", 0 }, { "TEXT", 0 },
	{ NULL, 0 } };

static struct table *wide(void)
{
	struct table *t = table_new(dropping);

	table_cell(t, COLOR_NONE, "a-name");
	table_cell(t, COLOR_NONE, "12345");
	table_cell(t, COLOR_NONE, "a-name_12345678");
	table_cell(t, COLOR_NONE, "7");
	table_cell(t, COLOR_NONE, "abcdefghijklmnop");
	return t;
}

START_TEST(columns_that_say_least_are_left_out_of_a_narrow_table)
{
	static const struct {
		int columns;
		const char *text;
	} rows[] = {
		{ 50, "JOB      PID RUN             N TEXT\n"
		      "a-name 12345 a-name_12345678 7 abcdefghijklmnop\n" },
		{ 41, "JOB      PID RUN             N TEXT\n"
		      "a-name 12345 a-name_12345678 7 abcdefghi>\n" },
		{ 40, "JOB      PID N TEXT\n"
		      "a-name 12345 7 abcdefghijklmnop\n" },
		{ 22, "JOB    N TEXT\n"
		      "a-name 7 abcdefghijkl>\n" },
		{ 19, "JOB    N TEXT\n"
		      "a-name 7 abcdefghi>\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_(table_freep) struct table *t = wide();
		_cleanup_free_ char *s = render(
			t, (struct table_style){ .legend = true, .columns = rows[i].columns });

		ck_assert_str_eq(s, rows[i].text);
	}
}
END_TEST

START_TEST(a_column_that_may_not_shrink_does_before_a_line_is_too_long)
{
	static const struct table_column two[] = { { "A", 0 }, { "B", 0 }, { NULL, 0 } };
	_cleanup_(table_freep) struct table *t = table_new(two);
	_cleanup_free_ char *s = NULL;

	table_cell(t, COLOR_NONE, "abcdefghijklmnopqrstuvwxyz");
	table_cell(t, COLOR_NONE, "abcdefghijklmnopqrstuvwxyz");
	s = render(t, (struct table_style){ .columns = 20 });
	ck_assert_str_eq(s, "abcdefgh> abcdefghi>\n");
}
END_TEST

START_TEST(wide_and_combining_characters_are_measured_as_shown)
{
	_cleanup_(table_freep) struct table *t = table_new(three);
	_cleanup_free_ char *s = NULL;

	ck_assert_int_eq(table_width("\xe6\x97\xa5\xe6\x9c\xac"), 4);
	ck_assert_int_eq(table_width("e\xcc\x81"), 1);
	table_cell(t, COLOR_NONE, "\xe6\x97\xa5\xe6\x9c\xac");
	table_cell(t, COLOR_NONE, "1");
	table_cell(t, COLOR_NONE, "x");
	table_cell(t, COLOR_NONE, "abcde");
	table_cell(t, COLOR_NONE, "2");
	table_cell(t, COLOR_NONE, "y");
	s = render(t, (struct table_style){ .legend = false });
	ck_assert_str_eq(s, "\xe6\x97\xa5\xe6\x9c\xac  1 x\nabcde 2 y\n");
}
END_TEST

START_TEST(control_characters_never_reach_the_terminal)
{
	_cleanup_(table_freep) struct table *t = table_new(three);
	_cleanup_free_ char *s = NULL;

	table_cell(t, COLOR_NONE, "a\tb\nc");
	table_cell(t, COLOR_NONE, "\033[2J");
	table_cell(t, COLOR_NONE, "\033[31mred\033[0m\xff");
	s = render(t, (struct table_style){ .legend = false });
	ck_assert_str_eq(s, "a b c ^[[2J red\xef\xbf\xbd\n");
}
END_TEST

START_TEST(colour_does_not_disturb_the_alignment)
{
	_cleanup_(table_freep) struct table *t = sample();
	_cleanup_free_ char *s = render(t, (struct table_style){ .color = true });

	ck_assert_str_eq(s, "digits   \033[1;32m4\033[0m loss 0.31 after a while\nx      128\n");
}
END_TEST

START_TEST(a_table_without_rows_is_its_legend)
{
	_cleanup_(table_freep) struct table *t = table_new(three);
	_cleanup_free_ char *s = render(t, (struct table_style){ .legend = true });

	ck_assert_str_eq(s, "NAME N TEXT\n");
}
END_TEST

START_TEST(colour_is_wanted_on_a_terminal_that_can_and_may_show_it)
{
	enum color_mode m;

	ck_assert(color_wanted(COLOR_AUTO, true, NULL, "xterm"));
	ck_assert(color_wanted(COLOR_AUTO, true, "", "xterm"));
	ck_assert(!color_wanted(COLOR_AUTO, false, NULL, "xterm"));
	ck_assert(!color_wanted(COLOR_AUTO, true, "1", "xterm"));
	ck_assert(!color_wanted(COLOR_AUTO, true, NULL, "dumb"));
	ck_assert(!color_wanted(COLOR_AUTO, true, NULL, NULL));
	ck_assert(color_wanted(COLOR_ALWAYS, false, "1", "dumb"));
	ck_assert(!color_wanted(COLOR_NEVER, true, NULL, "xterm"));
	ck_assert_int_eq(color_mode_parse("always", &m), 0);
	ck_assert_int_lt(color_mode_parse("maybe", &m), 0);
	ck_assert_str_ne(color_rank(0), color_rank(1));
	ck_assert_ptr_nonnull(color_rank(-1));
	ck_assert_int_eq(color_state("no-such-state"), COLOR_NONE);
	ck_assert_int_eq(color_state(NULL), COLOR_NONE);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("table");
	TCase *tc = tcase_create("table");

	setlocale(LC_CTYPE, "C.UTF-8");
	tcase_add_test(tc, columns_are_as_wide_as_their_widest_cell);
	tcase_add_test(tc, without_a_legend_titles_take_no_room);
	tcase_add_test(tc, the_last_column_is_cut_at_the_edge_of_the_terminal);
	tcase_add_test(tc, columns_that_may_shrink_do_so_when_the_last_one_is_small_already);
	tcase_add_test(tc, columns_that_say_least_are_left_out_of_a_narrow_table);
	tcase_add_test(tc, a_column_that_may_not_shrink_does_before_a_line_is_too_long);
	tcase_add_test(tc, wide_and_combining_characters_are_measured_as_shown);
	tcase_add_test(tc, control_characters_never_reach_the_terminal);
	tcase_add_test(tc, colour_does_not_disturb_the_alignment);
	tcase_add_test(tc, a_table_without_rows_is_its_legend);
	tcase_add_test(tc, colour_is_wanted_on_a_terminal_that_can_and_may_show_it);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
