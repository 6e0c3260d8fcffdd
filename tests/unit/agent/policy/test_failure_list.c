/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure_list.h"

#include "common/base/cleanup.h"
#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static json_t *list;

static void setup(void)
{
	list = json_array();
}

static void teardown(void)
{
	json_decref(list);
}

/* flags: c collateral, g made good, r reported, s by a signal, o out of memory. */
static json_t *add(int index, int64_t time_us, const char *flags)
{
	json_t *j = json_pack("{s:s, s:i, s:i, s:I, s:{}}", "role", "worker", "index", index,
		"attempt", 0, "time_us", (json_int_t)time_us, "exit");

	json_put(j, "collateral", json_boolean(strchr(flags, 'c') != NULL));
	if (strchr(flags, 'g'))
		json_put(j, "made_good", json_true());
	if (strchr(flags, 'r'))
		json_put(j, "reported", json_true());
	if (strchr(flags, 's'))
		json_put_int(json_object_get(j, "exit"), "signal", 9);
	if (strchr(flags, 'o'))
		json_put(json_object_get(j, "exit"), "out_of_memory", json_true());
	json_array_append_new(list, j);
	return j;
}

static void order_is(const char *indices)
{
	char text[64];
	json_t *failure;
	size_t i;

	json_array_foreach (list, i, failure)
		text[i] = (char)('0' + json_get_int(failure, "index", 0));
	text[json_array_size(list)] = '\0';
	ck_assert_str_eq(text, indices);
}

START_TEST(failures_that_ended_the_attempt_come_first_whatever_the_order)
{
	add(0, 30, "c");
	add(1, 20, "");
	add(2, 40, "g");
	add(3, 10, "");
	add(4, 5, "g");
	add(5, 1, "c");
	failure_list_order(list);
	order_is("315042");
}
END_TEST

START_TEST(a_tie_goes_to_a_signal_and_then_to_the_earlier_event)
{
	add(3, 10, "");
	add(1, 10, "");
	add(2, 10, "s");
	failure_list_order(list);
	order_is("231");
	json_array_clear(list);
	failure_list_order(list);
	order_is("");
}
END_TEST

START_TEST(a_kill_for_want_of_memory_comes_before_failures_seen_shortly_before)
{
	add(0, 6000000, "so");
	add(1, 3000000, "r");
	add(2, 900000, "");
	add(3, 0, "co");
	failure_list_order(list);
	order_is("2013");
}
END_TEST

START_TEST(a_cut_keeps_the_first_in_order)
{
	add(0, 30, "c");
	add(1, 20, "");
	add(2, 40, "g");
	add(3, 10, "");
	add(4, 15, "");
	failure_list_cut(list, 5);
	order_is("34102");
	failure_list_cut(list, 2);
	order_is("34");
	failure_list_cut(list, 3);
	order_is("34");
}
END_TEST

START_TEST(the_verdicts_cause_is_put_first)
{
	_cleanup_json_ json_t *root = NULL;

	add(0, 10, "");
	add(1, 20, "");
	add(2, 30, "r");
	root = json_deep_copy(json_array_get(list, 2));
	failure_list_put_first(list, root);
	order_is("201");
	failure_list_put_first(list, root);
	order_is("201");
	failure_list_put_first(list, NULL);
	json_put_int(root, "attempt", 1);
	failure_list_put_first(list, root);
	order_is("201");
}
END_TEST

START_TEST(the_last_failure_is_what_ended_the_attempt_and_an_error_first)
{
	json_t *first, *reported;

	ck_assert_ptr_null(failure_list_last(list));
	add(9, 1, "c");
	ck_assert_ptr_null(failure_list_last(list));
	first = add(0, 10, "");
	add(1, 20, "");
	add(2, 30, "g");
	ck_assert_ptr_eq(failure_list_last(list), first);
	reported = add(3, 30, "r");
	add(4, 40, "r");
	add(5, 50, "gr");
	ck_assert_ptr_eq(failure_list_last(list), reported);
}
END_TEST

START_TEST(of_failures_with_a_restart_the_newest_counts_and_an_error_first)
{
	json_t *newest, *reported;

	add(0, 10, "g");
	newest = add(1, 20, "g");
	ck_assert_ptr_eq(failure_list_last(list), newest);
	reported = add(2, 30, "gr");
	add(3, 40, "g");
	ck_assert_ptr_eq(failure_list_last(list), reported);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("failure_list");
	TCase *t = tcase_create("failure_list");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, failures_that_ended_the_attempt_come_first_whatever_the_order);
	tcase_add_test(t, a_tie_goes_to_a_signal_and_then_to_the_earlier_event);
	tcase_add_test(t, a_kill_for_want_of_memory_comes_before_failures_seen_shortly_before);
	tcase_add_test(t, a_cut_keeps_the_first_in_order);
	tcase_add_test(t, the_verdicts_cause_is_put_first);
	tcase_add_test(t, the_last_failure_is_what_ended_the_attempt_and_an_error_first);
	tcase_add_test(t, of_failures_with_a_restart_the_newest_counts_and_an_error_first);
	suite_add_tcase(s, t);
	return suite_run(s);
}
