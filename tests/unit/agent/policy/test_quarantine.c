/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/quarantine.h"

#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { HOUR = 3600000, NOW = 5 * HOUR };

static struct quarantine q;

static void setup(void)
{
	quarantine_init(&q, 3, HOUR);
}

static void teardown(void)
{
	quarantine_fini(&q);
}

START_TEST(the_third_fault_within_an_hour_keeps_a_host_out_for_an_hour)
{
	ck_assert_uint_eq(quarantine_fault(&q, "a", NOW), 0);
	ck_assert_uint_eq(quarantine_fault(&q, "b", NOW + 1), 0);
	ck_assert_uint_eq(quarantine_fault(&q, "a", NOW + 2), 0);
	ck_assert_uint_eq(quarantine_fault(&q, "a", NOW + 1000), NOW + 1000 + HOUR);
	ck_assert_uint_eq(quarantine_until(&q, "a", NOW + 1000 + HOUR - 1), NOW + 1000 + HOUR);
	ck_assert_uint_eq(quarantine_until(&q, "a", NOW + 1000 + HOUR), 0);
	ck_assert_uint_eq(quarantine_until(&q, "b", NOW + 1000), 0);
	ck_assert_uint_eq(quarantine_until(&q, "c", NOW + 1000), 0);
}
END_TEST

START_TEST(faults_that_are_an_hour_apart_do_not_count_together)
{
	quarantine_fault(&q, "a", NOW);
	quarantine_fault(&q, "a", NOW + 10);
	ck_assert_uint_eq(quarantine_fault(&q, "a", NOW + HOUR), 0);
	ck_assert_uint_eq(quarantine_fault(&q, "a", NOW + HOUR + 9), NOW + 2 * HOUR + 9);
}
END_TEST

START_TEST(another_fault_of_a_host_that_is_needed_prolongs_its_time)
{
	for (int i = 0; i < 3; i++)
		quarantine_fault(&q, "a", NOW);
	ck_assert_uint_eq(quarantine_fault(&q, "a", NOW + 5), NOW + 5 + HOUR);
	/* After its time it begins with none. */
	ck_assert_uint_eq(quarantine_fault(&q, "a", NOW + 5 + HOUR), 0);
	ck_assert_uint_eq(quarantine_fault(&q, "a", NOW + 6 + HOUR), 0);
}
END_TEST

START_TEST(a_host_that_is_let_back_begins_with_no_fault)
{
	ck_assert(!quarantine_forget(&q, "a", NOW));
	for (int i = 0; i < 3; i++)
		quarantine_fault(&q, "a", NOW);
	ck_assert(quarantine_forget(&q, "a", NOW));
	ck_assert(!quarantine_forget(&q, "a", NOW));
	quarantine_fault(&q, "a", NOW);
	ck_assert_uint_eq(quarantine_fault(&q, "a", NOW), 0);
	ck_assert(!quarantine_forget(&q, "a", NOW));
}
END_TEST

START_TEST(without_a_limit_no_host_is_kept_out)
{
	quarantine_init(&q, 0, HOUR);
	for (int i = 0; i < 20; i++)
		ck_assert_uint_eq(quarantine_fault(&q, "a", NOW), 0);
	ck_assert_ptr_null(quarantine_save(&q, NOW, NOW));
}
END_TEST

START_TEST(hosts_whose_faults_are_over_are_forgotten)
{
	char name[16];
	int n = 0;
	_cleanup_json_ json_t *saved = NULL;

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		quarantine_fault(&q, name, NOW + (uint64_t)i * HOUR / 10);
	}
	saved = quarantine_save(&q, NOW, NOW);
	n = (int)json_array_size(saved);
	ck_assert_int_eq(n, 10);
}
END_TEST

START_TEST(the_next_head_knows_the_faults_by_its_own_clock)
{
	struct quarantine next;
	_cleanup_json_ json_t *saved = NULL;
	const uint64_t real = UINT64_C(1700000000000);

	for (int i = 0; i < 3; i++)
		quarantine_fault(&q, "a", NOW + (uint64_t)i);
	quarantine_fault(&q, "b", NOW + 3);
	saved = quarantine_save(&q, NOW + 1000, real);
	quarantine_init(&next, 3, HOUR);
	/* A second later; the host of this head was started two hours ago. */
	quarantine_load(&next, saved, 2 * HOUR, real + 1000);
	ck_assert_uint_eq(quarantine_until(&next, "a", 2 * HOUR), 3 * HOUR + 2 - 2000);
	ck_assert_uint_eq(quarantine_fault(&next, "b", 2 * HOUR), 0);
	ck_assert_uint_eq(quarantine_fault(&next, "b", 2 * HOUR), 3 * HOUR);
	quarantine_fini(&next);
	/* ... or just now, and its clock is behind. */
	quarantine_init(&next, 3, HOUR);
	quarantine_load(&next, saved, 7, real - 60000);
	ck_assert_uint_eq(quarantine_until(&next, "a", 7), HOUR + 7);
	quarantine_fini(&next);
}
END_TEST

START_TEST(what_is_no_record_of_faults_is_left_out)
{
	static const char *const texts[] = { "null", "{}", "[]", "[1]", "[{}]",
		"[{\"host\":\"a\"}]", "[{\"host\":\"a\",\"faults_ms\":[-5,\"x\",0,null]}]",
		"[{\"host\":3,\"faults_ms\":[18000000,18000000,18000000]}]",
		"[{\"host\":\"a\",\"faults_ms\":[1,2,3]}]" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		_cleanup_json_ json_t *j = json_loads(texts[i], JSON_DECODE_ANY, NULL);

		quarantine_load(&q, j, NOW, NOW);
		ck_assert_msg(!quarantine_save(&q, NOW, NOW), "%s", texts[i]);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("quarantine");
	TCase *t = tcase_create("quarantine");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_third_fault_within_an_hour_keeps_a_host_out_for_an_hour);
	tcase_add_test(t, faults_that_are_an_hour_apart_do_not_count_together);
	tcase_add_test(t, another_fault_of_a_host_that_is_needed_prolongs_its_time);
	tcase_add_test(t, a_host_that_is_let_back_begins_with_no_fault);
	tcase_add_test(t, without_a_limit_no_host_is_kept_out);
	tcase_add_test(t, hosts_whose_faults_are_over_are_forgotten);
	tcase_add_test(t, the_next_head_knows_the_faults_by_its_own_clock);
	tcase_add_test(t, what_is_no_record_of_faults_is_left_out);
	suite_add_tcase(s, t);
	return suite_run(s);
}
