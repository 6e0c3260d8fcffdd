/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/file_tail.h"

#include "tests/unit/run.h"

#include <check.h>
#include <string.h>

#define MARK "\xef\xbf\xbd" /* in place of an invalid byte */

static json_t *tail(const char *text, bool whole, int n, size_t max_line)
{
	json_t *lines = log_tail_of(text, strlen(text), whole, false, n, max_line);

	ck_assert_ptr_nonnull(lines);
	return lines;
}

static const char *line(const json_t *lines, size_t i)
{
	return json_string_value(json_array_get(lines, i));
}

START_TEST(the_last_lines_are_returned_in_their_order)
{
	json_t *lines = tail("one\ntwo\nthree\n", true, 2, 100);

	ck_assert_uint_eq(json_array_size(lines), 2);
	ck_assert_str_eq(line(lines, 0), "two");
	ck_assert_str_eq(line(lines, 1), "three");
	json_decref(lines);
}
END_TEST

START_TEST(a_first_line_without_its_start_is_left_out_unless_it_is_the_only_one)
{
	json_t *lines = tail("of one\ntwo\n", false, 5, 100);

	ck_assert_uint_eq(json_array_size(lines), 1);
	ck_assert_str_eq(line(lines, 0), "two");
	json_decref(lines);
	lines = tail("of one", false, 5, 100);
	ck_assert_str_eq(line(lines, 0), "of one");
	json_decref(lines);
}
END_TEST

/* A report has room for so many bytes of each line, whatever bytes those are. */
START_TEST(a_line_is_no_longer_than_its_limit_also_where_invalid_bytes_become_three)
{
	json_t *lines = tail("\x80\x80\x80\x80\n"
			     "\xc3\xa4\xc3\xa4\xc3\xa4\n",
		true, 2, 5);

	ck_assert_str_eq(line(lines, 0), MARK);
	ck_assert_str_eq(line(lines, 1), "\xc3\xa4\xc3\xa4");
	json_decref(lines);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("file_tail");
	TCase *t = tcase_create("file_tail");

	tcase_add_test(t, the_last_lines_are_returned_in_their_order);
	tcase_add_test(t, a_first_line_without_its_start_is_left_out_unless_it_is_the_only_one);
	tcase_add_test(t, a_line_is_no_longer_than_its_limit_also_where_invalid_bytes_become_three);
	suite_add_tcase(s, t);
	return suite_run(s);
}
