/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/clock_offset.h"

#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>

static struct clock_offset c;

static void setup(void)
{
	c = (struct clock_offset){ 0 };
}

/* A beat of a member whose clock is behind the head's by that much. */
static bool beat(int64_t at_us, int64_t behind_us, int there_us, int held_us, int back_us)
{
	struct clock_beat b = { .sent_us = at_us };

	b.came_us = at_us + behind_us + there_us;
	b.answered_us = b.came_us + held_us;
	b.back_us = b.answered_us - behind_us + back_us;
	return clock_offset_add(&c, &b);
}

static void expect(int64_t offset_us, int64_t uncertainty_us)
{
	struct clock_estimate e = { 0 };

	ck_assert(clock_offset_get(&c, &e));
	ck_assert_int_eq(e.offset_us, offset_us);
	ck_assert_int_eq(e.uncertainty_us, uncertainty_us);
}

START_TEST(nothing_is_known_before_the_first_beat)
{
	struct clock_estimate e;

	ck_assert(!clock_offset_get(&c, &e));
}
END_TEST

START_TEST(half_of_the_round_trip_is_the_uncertainty)
{
	ck_assert(beat(1000000, 70000, 100, 5000, 100));
	expect(70000, 101);
	setup();
	ck_assert(beat(1000000, -70000, 300, 0, 100));
	expect(-69900, 201);
}
END_TEST

START_TEST(the_shortest_of_the_last_eight_round_trips_decides)
{
	ck_assert(beat(0, 500, 10, 0, 10));
	for (int i = 1; i < 8; i++) {
		ck_assert(beat(i * 1000, 500, 200 + i, 0, 200 + i));
		expect(500, 11);
	}
	/* the ninth: the first is forgotten */
	ck_assert(beat(8000, 500, 900, 0, 900));
	expect(500, 202);
}
END_TEST

START_TEST(of_equal_round_trips_the_newest_decides)
{
	ck_assert(beat(0, 500, 10, 0, 10));
	ck_assert(beat(1000, 505, 10, 0, 10));
	expect(505, 11);
}
END_TEST

START_TEST(a_clock_that_was_set_is_believed_at_once)
{
	for (int i = 0; i < 8; i++)
		ck_assert(beat(i * 1000, 500, 10, 0, 10));
	ck_assert(beat(8000, 900000, 400, 0, 400));
	expect(900000, 401);
	ck_assert(beat(9000, 900000, 500, 0, 500));
	expect(900000, 401);
}
END_TEST

START_TEST(a_beat_that_came_before_it_was_sent_does_not_count)
{
	struct clock_beat set_back = { 1000, 1500, 1600, 900 };
	struct clock_beat head_set_back = { 1000, 1500, 1400, 2000 };
	struct clock_beat too_long_held = { 1000, 1000, 3000, 2000 };

	ck_assert(!clock_offset_add(&c, &set_back));
	ck_assert(!clock_offset_add(&c, &head_set_back));
	ck_assert(!clock_offset_add(&c, &too_long_held));
	ck_assert_uint_eq(c.n, 0);
}
END_TEST

/* The other side's times come from the network. */
START_TEST(a_beat_with_a_time_that_is_no_date_does_not_count)
{
	static const int64_t wrong[] = { -1, INT64_MIN, CLOCK_BEYOND_US, INT64_MAX };
	struct clock_beat right = { 1000, 1500, 1600, 2000 };

	ck_assert(clock_offset_add(&c, &right));
	expect(50, 451);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		for (size_t k = 0; k < 4; k++) {
			struct clock_beat b = right;

			*(int64_t *[]){ &b.sent_us, &b.came_us, &b.answered_us, &b.back_us }[k] =
				wrong[i];
			ck_assert_msg(!clock_offset_add(&c, &b), "time %zu, %zu", k, i);
		}
	}
	ck_assert(!clock_offset_add(
		&c, &(struct clock_beat){ 1000, INT64_MAX, INT64_MAX, INT64_MAX }));
	ck_assert(!clock_offset_add(&c, &(struct clock_beat){ INT64_MIN, 0, 0, INT64_MAX }));
	ck_assert_uint_eq(c.n, 1);
	expect(50, 451);
}
END_TEST

START_TEST(the_latest_dates_count)
{
	struct clock_beat ahead = { 0, CLOCK_BEYOND_US - 1, CLOCK_BEYOND_US - 1, 0 };
	struct clock_beat behind = { CLOCK_BEYOND_US - 1, 0, 0, CLOCK_BEYOND_US - 1 };

	ck_assert(clock_offset_add(&c, &ahead));
	expect(CLOCK_BEYOND_US - 1, 1);
	ck_assert(clock_offset_add(&c, &behind));
	expect(1 - CLOCK_BEYOND_US, 1);
}
END_TEST

START_TEST(the_truth_is_never_further_than_the_uncertainty)
{
	uint32_t seed = 11;

	for (int i = 0; i < 1000; i++) {
		int64_t behind = (int64_t)next_random(&seed) - (1 << 23);

		setup();
		for (int k = 0; k < 20; k++) {
			struct clock_estimate e = { 0 };
			int64_t off;

			if (!beat(100000000 + k * 2000000, behind, (int)(next_random(&seed) % 5000),
				    (int)(next_random(&seed) % 500),
				    (int)(next_random(&seed) % 5000)) ||
				!clock_offset_get(&c, &e))
				ck_abort_msg("beat %d does not count", k);
			off = e.offset_us - behind;
			if ((off < 0 ? -off : off) > e.uncertainty_us)
				ck_abort_msg("off by %d", (int)off);
		}
		ck_assert_uint_eq(c.kept, 8);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("clock_offset");
	TCase *t = tcase_create("clock_offset");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, nothing_is_known_before_the_first_beat);
	tcase_add_test(t, half_of_the_round_trip_is_the_uncertainty);
	tcase_add_test(t, the_shortest_of_the_last_eight_round_trips_decides);
	tcase_add_test(t, of_equal_round_trips_the_newest_decides);
	tcase_add_test(t, a_clock_that_was_set_is_believed_at_once);
	tcase_add_test(t, a_beat_that_came_before_it_was_sent_does_not_count);
	tcase_add_test(t, a_beat_with_a_time_that_is_no_date_does_not_count);
	tcase_add_test(t, the_latest_dates_count);
	tcase_add_test(t, the_truth_is_never_further_than_the_uncertainty);
	suite_add_tcase(s, t);
	return suite_run(s);
}
