/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/wrap.h"

#include "common/base/cleanup.h"
#include "common/base/memstream.h"
#include "tests/unit/run.h"

#include <check.h>
#include <locale.h>
#include <string.h>

static void is(const char *text, int indent, int columns, const char *expected)
{
	char *got = NULL;
	size_t size;
	FILE *f = open_memstream(&got, &size);

	ck_assert_ptr_nonnull(f);
	wrap_print(f, text, indent, columns);
	ck_assert_ptr_nonnull(memstream_end(f, &got));
	ck_assert_str_eq(got, expected);
	free(got);
}

START_TEST(short_text_stays_as_it_is)
{
	is("a  b\n\n  c", 4, 4, "a  b\n\n  c");
	is("a long line that goes nowhere\n", 4, 0, "a long line that goes nowhere\n");
	is("", 4, 10, "");
}
END_TEST

START_TEST(a_long_line_is_broken_at_spaces_and_indented)
{
	is("12:30 one two three\n", 6, 13, "12:30 one two\n      three\n");
	is("12:30 one two  three", 6, 12, "12:30 one\n      two\n      three");
	is("  one two three\nnext\n", WRAP_OWN, 8, "  one\n    two\n    three\nnext\n");
}
END_TEST

START_TEST(a_word_is_never_broken)
{
	is("see that /a/very/long/path now", 4, 10, "see that\n    /a/very/long/path\n    now");
	is("/a/very/long/path", 4, 10, "/a/very/long/path");
	is("a /very/long/path", 4, 10, "a /very/long/path");
}
END_TEST

START_TEST(a_rule_is_cut)
{
	is("======\nab\n------\n", 2, 4, "====\nab\n----\n");
}
END_TEST

START_TEST(colours_take_no_room_and_wide_characters_two)
{
	is("\033[1;31mred\033[0m and more", 2, 7, "\033[1;31mred\033[0m and\n  more");
	is("\xe6\x97\xa5\xe6\x9c\xac \xe6\x97\xa5 x", 1, 7,
		"\xe6\x97\xa5\xe6\x9c\xac \xe6\x97\xa5\n x");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("wrap");
	TCase *t = tcase_create("wrap");

	setlocale(LC_CTYPE, "C.UTF-8");
	tcase_add_test(t, short_text_stays_as_it_is);
	tcase_add_test(t, a_long_line_is_broken_at_spaces_and_indented);
	tcase_add_test(t, a_word_is_never_broken);
	tcase_add_test(t, a_rule_is_cut);
	tcase_add_test(t, colours_take_no_room_and_wide_characters_two);
	suite_add_tcase(s, t);
	return suite_run(s);
}
