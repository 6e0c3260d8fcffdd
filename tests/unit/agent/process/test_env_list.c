/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/env_list.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct env env;

static void setup(void)
{
	env = (struct env){ 0 };
}

static void teardown(void)
{
	env_fini(&env);
	ck_assert_ptr_null(env.vars);
}

static void put(const char *entry)
{
	ck_assert_int_eq(env_put(&env, entry), 0);
}

START_TEST(an_empty_environment_has_nothing)
{
	ck_assert_ptr_null(env_get(&env, "PATH"));
	ck_assert_int_eq(env_add(&env, NULL), 0);
	ck_assert_uint_eq(env.n, 0);
}
END_TEST

START_TEST(a_later_entry_replaces_an_earlier_in_its_place)
{
	put("A=1");
	put("B=2");
	put("A=3");
	ck_assert_uint_eq(env.n, 2);
	ck_assert_str_eq(env.vars[0], "A=3");
	ck_assert_str_eq(env.vars[1], "B=2");
	ck_assert_ptr_null(env.vars[2]);
}
END_TEST

START_TEST(a_name_is_compared_whole)
{
	put("PATHEXT=1");
	put("PATH=2");
	put("PAT=3");
	ck_assert_uint_eq(env.n, 3);
	ck_assert_str_eq(env_get(&env, "PATH"), "2");
	ck_assert_str_eq(env_get(&env, "PATHEXT"), "1");
	ck_assert_ptr_null(env_get(&env, "PA"));
	ck_assert_ptr_null(env_get(&env, "path"));
}
END_TEST

START_TEST(a_value_may_hold_anything_and_be_empty)
{
	put("A=b=c=\n \xff");
	put("E=");
	ck_assert_str_eq(env_get(&env, "A"), "b=c=\n \xff");
	ck_assert_str_eq(env_get(&env, "E"), "");
}
END_TEST

START_TEST(a_formatted_value_replaces_too)
{
	put("RANK=7");
	ck_assert_int_eq(env_setf(&env, "RANK", "%d of %s", 3, "all"), 0);
	ck_assert_uint_eq(env.n, 1);
	ck_assert_str_eq(env.vars[0], "RANK=3 of all");
}
END_TEST

START_TEST(a_list_is_added_in_its_order)
{
	char a[] = "A=1", b[] = "B=2", again[] = "A=3";
	char *list[] = { a, b, again, NULL };

	put("B=0");
	ck_assert_int_eq(env_add(&env, list), 0);
	ck_assert_uint_eq(env.n, 2);
	ck_assert_str_eq(env_get(&env, "A"), "3");
	ck_assert_str_eq(env_get(&env, "B"), "2");
}
END_TEST

START_TEST(a_large_environment_stays_complete_and_ended)
{
	char name[16];

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "N%d", i);
		ck_assert_int_eq(env_setf(&env, name, "%d", i), 0);
		ck_assert_ptr_null(env.vars[env.n]);
	}
	ck_assert_uint_eq(env.n, 1000);
	ck_assert_str_eq(env_get(&env, "N999"), "999");
	ck_assert_str_eq(env_get(&env, "N0"), "0");
}
END_TEST

START_TEST(an_entry_is_copied)
{
	char entry[] = "A=1";

	put(entry);
	entry[2] = '2';
	ck_assert_str_eq(env_get(&env, "A"), "1");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("env");
	TCase *t = tcase_create("env");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, an_empty_environment_has_nothing);
	tcase_add_test(t, a_later_entry_replaces_an_earlier_in_its_place);
	tcase_add_test(t, a_name_is_compared_whole);
	tcase_add_test(t, a_value_may_hold_anything_and_be_empty);
	tcase_add_test(t, a_formatted_value_replaces_too);
	tcase_add_test(t, a_list_is_added_in_its_order);
	tcase_add_test(t, a_large_environment_stays_complete_and_ended);
	tcase_add_test(t, an_entry_is_copied);
	suite_add_tcase(s, t);
	return suite_run(s);
}
