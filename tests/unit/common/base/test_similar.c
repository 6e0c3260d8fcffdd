/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/similar.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>

START_TEST(the_distance_counts_letters_more_less_other_and_swapped)
{
	ck_assert_uint_eq(similar_distance("status", "status"), 0);
	ck_assert_uint_eq(similar_distance("statsu", "status"), 1);
	ck_assert_uint_eq(similar_distance("statu", "status"), 1);
	ck_assert_uint_eq(similar_distance("status", "statuss"), 1);
	ck_assert_uint_eq(similar_distance("stetus", "status"), 1);
	ck_assert_uint_eq(similar_distance("jsn", "json"), 1);
	ck_assert_uint_eq(similar_distance("", "abc"), 3);
	ck_assert_uint_eq(similar_distance("stop", "list"), 4);
}
END_TEST

START_TEST(a_long_word_is_like_no_other)
{
	static const char longer[] = "abcdefghijklmnopqrstuvwxyzabcdef";

	ck_assert_uint_eq(similar_distance(longer, longer), SIMILAR_MAX);
	ck_assert_uint_eq(similar_distance(longer + 1, longer + 1), 0);
}
END_TEST

START_TEST(a_short_word_has_few_misspellings)
{
	ck_assert_uint_eq(similar_limit("ls"), 1);
	ck_assert_uint_eq(similar_limit("list"), 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("similar");
	TCase *t = tcase_create("all");

	tcase_add_test(t, the_distance_counts_letters_more_less_other_and_swapped);
	tcase_add_test(t, a_long_word_is_like_no_other);
	tcase_add_test(t, a_short_word_has_few_misspellings);
	suite_add_tcase(s, t);
	return suite_run(s);
}
