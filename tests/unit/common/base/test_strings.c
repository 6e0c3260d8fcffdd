/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of strings, and random ones. */
#include "common/base/strings.h"

#include "common/base/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static char *const variables[] = { (char *)"AB=ab", (char *)"A=a=b", (char *)"A=second",
	(char *)"EMPTY=", (char *)"BARE", NULL };

START_TEST(a_value_is_found_by_its_whole_name_and_the_first_counts)
{
	ck_assert_str_eq(strings_value(variables, "A"), "a=b");
	ck_assert_str_eq(strings_value(variables, "AB"), "ab");
	ck_assert_str_eq(strings_value(variables, "EMPTY"), "");
	ck_assert_ptr_null(strings_value(variables, "BARE"));
	ck_assert_ptr_null(strings_value(variables, "B"));
	ck_assert_ptr_null(strings_value(NULL, "A"));
}
END_TEST

START_TEST(a_copy_has_strings_of_its_own)
{
	_cleanup_strings_ char **copy = strings_copy(variables);
	_cleanup_strings_ char **none = strings_copy(NULL);

	ck_assert_uint_eq(strings_count(copy), 5);
	for (int i = 0; i < 5; i++) {
		ck_assert_str_eq(copy[i], variables[i]);
		ck_assert_ptr_ne(copy[i], variables[i]);
	}
	ck_assert_uint_eq(strings_count(none), 0);
	ck_assert_uint_eq(strings_count(NULL), 0);
}
END_TEST

START_TEST(strings_are_added_to_no_list_and_to_a_list)
{
	_cleanup_strings_ char **list = NULL;
	size_t n = 0;

	ck_assert_int_eq(strings_add(&list, &n, "x"), 0);
	ck_assert_int_eq(strings_add(&list, &n, ""), 0);
	ck_assert_uint_eq(n, 2);
	ck_assert_uint_eq(strings_count(list), 2);
	ck_assert_str_eq(list[0], "x");
	ck_assert_str_eq(list[1], "");
}
END_TEST

START_TEST(random_texts_have_their_length_and_letters_and_differ)
{
	char a[33], b[33];

	ck_assert_int_eq(random_letters(a, 32), 0);
	ck_assert_int_eq(random_letters(b, 32), 0);
	ck_assert_uint_eq(strspn(a, RANDOM_LETTERS), 32);
	ck_assert_uint_eq(strlen(a), 32);
	ck_assert_str_ne(a, b);
	ck_assert_int_eq(random_hex(a, 31), 0);
	ck_assert_uint_eq(strspn(a, "0123456789abcdef"), 31);
	ck_assert_uint_eq(strlen(a), 31);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("strings");
	TCase *t = tcase_create("all");

	tcase_add_test(t, a_value_is_found_by_its_whole_name_and_the_first_counts);
	tcase_add_test(t, a_copy_has_strings_of_its_own);
	tcase_add_test(t, strings_are_added_to_no_list_and_to_a_list);
	tcase_add_test(t, random_texts_have_their_length_and_letters_and_differ);
	suite_add_tcase(s, t);
	return suite_run(s);
}
