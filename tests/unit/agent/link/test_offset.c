/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/offset.h"

#include "tests/unit/random.h"

#include <check.h>

static struct link_offset o;
static int64_t offset_us, uncertainty_us;

static void setup(void)
{
	o = (struct link_offset){ .n = 0 };
}

/* A beat that took there and back so long, to a clock that is ahead by ahead_us. */
static void beat(
	int64_t sent_us, int64_t ahead_us, int64_t there_us, int64_t held_us, int64_t back_us)
{
	int64_t came_us = sent_us + there_us + ahead_us;

	link_offset_put(&o, sent_us, there_us + held_us + back_us, came_us, came_us + held_us);
}

START_TEST(without_a_beat_nothing_is_known)
{
	ck_assert(!link_offset_get(&o, &offset_us, &uncertainty_us));
}
END_TEST

START_TEST(equal_ways_give_the_exact_offset)
{
	beat(1000000, -777, 50, 13, 50);
	ck_assert(link_offset_get(&o, &offset_us, &uncertainty_us));
	ck_assert_int_eq(offset_us, -777);
	ck_assert_int_eq(uncertainty_us, 51);
}
END_TEST

START_TEST(the_shortest_of_the_last_eight_round_trips_counts)
{
	beat(1000000, 5, 10, 0, 10);
	for (int i = 0; i < 7; i++)
		beat(2000000, 500, 100 + i, 0, 100 + i);
	ck_assert(link_offset_get(&o, &offset_us, &uncertainty_us));
	ck_assert_int_eq(offset_us, 5);
	beat(3000000, 600, 200, 0, 200);
	ck_assert(link_offset_get(&o, &offset_us, &uncertainty_us));
	ck_assert_int_eq(offset_us, 500);
	ck_assert_int_eq(uncertainty_us, 101);
}
END_TEST

START_TEST(the_true_offset_is_always_within_the_uncertainty)
{
	uint32_t seed = 1;

	for (int i = 0; i < 100000; i++) {
		int64_t ahead = (int64_t)(next_random(&seed) % 2000000) - 1000000;

		setup();
		for (int k = 0; k < 3; k++)
			beat(10000000 + k, ahead, next_random(&seed) % 5000,
				next_random(&seed) % 300, next_random(&seed) % 5000);
		must(link_offset_get(&o, &offset_us, &uncertainty_us), "known");
		must(llabs(offset_us - ahead) <= uncertainty_us, "within");
	}
}
END_TEST

START_TEST(times_that_cannot_be_are_ignored)
{
	link_offset_put(&o, 10, 5, 100, 90);
	link_offset_put(&o, 10, 5, 100, 106);
	link_offset_put(&o, -1, 5, 100, 101);
	link_offset_put(&o, 10, 5, INT64_MAX, INT64_MAX);
	link_offset_put(&o, INT64_MAX, INT64_MAX, 0, INT64_MAX);
	ck_assert(!link_offset_get(&o, &offset_us, &uncertainty_us));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("link_offset");
	TCase *t = tcase_create("link_offset");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, without_a_beat_nothing_is_known);
	tcase_add_test(t, equal_ways_give_the_exact_offset);
	tcase_add_test(t, the_shortest_of_the_last_eight_round_trips_counts);
	tcase_add_test(t, the_true_offset_is_always_within_the_uncertainty);
	tcase_add_test(t, times_that_cannot_be_are_ignored);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
