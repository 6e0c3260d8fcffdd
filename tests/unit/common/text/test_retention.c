/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/retention.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define DAY INT64_C(86400000000)
#define NOW (1000 * DAY)

static struct retention_run runs[8];
static size_t n;

static void setup(void)
{
	n = 0;
}

static void add(int64_t days_ago, int64_t bytes)
{
	runs[n++] = (struct retention_run){ .ended_us = NOW - days_ago * DAY, .bytes = bytes };
}

/* One letter for each, the oldest first. */
static const char *chosen(struct retention k)
{
	static char text[16];

	retention_choose(&k, runs, n, NOW);
	for (size_t i = 0; i < n; i++)
		text[i] = "-ANB"[runs[i].why];
	text[n] = '\0';
	return text;
}

START_TEST(without_limits_all_stay)
{
	add(900, INT64_MAX);
	add(1, INT64_MAX);
	ck_assert_str_eq(chosen((struct retention){ 0 }), "--");
	n = 0;
	ck_assert_str_eq(chosen((struct retention){ 1, 1, 1 }), "");
}
END_TEST

START_TEST(old_runs_go_and_the_next_is_due_in_time)
{
	const struct retention k = { .days = 30 };

	add(1, 0);
	add(31, 0);
	add(30, 0);
	add(29, 0);
	ck_assert_str_eq(chosen(k), "AA--");
	ck_assert_int_eq(retention_choose(&k, runs, n, NOW), NOW + DAY);
	ck_assert_int_eq(retention_choose(&k, runs, 0, NOW), INT64_MAX);
}
END_TEST

START_TEST(the_oldest_of_too_many_go)
{
	add(1, 0);
	add(4, 0);
	add(2, 0);
	add(3, 0);
	ck_assert_str_eq(chosen((struct retention){ .runs = 3 }), "N---");
	ck_assert_str_eq(chosen((struct retention){ .runs = 1 }), "NNN-");
}
END_TEST

START_TEST(the_oldest_go_until_the_rest_fits_and_the_newest_always_stays)
{
	add(4, 1);
	add(3, 5);
	add(2, 4);
	add(1, 3);
	ck_assert_str_eq(chosen((struct retention){ .bytes = 100 }), "----");
	ck_assert_str_eq(chosen((struct retention){ .bytes = 12 }), "B---");
	ck_assert_str_eq(chosen((struct retention){ .bytes = 8 }), "BB--");
	ck_assert_str_eq(chosen((struct retention){ .bytes = 1 }), "BBB-");
	runs[3].bytes = INT64_MAX;
	ck_assert_str_eq(chosen((struct retention){ .bytes = 12 }), "BBB-");
}
END_TEST

START_TEST(a_run_says_why_it_goes)
{
	const struct retention k = { .runs = 1, .days = 30, .bytes = RETENTION_BYTES };
	char buf[RETENTION_TEXT_MAX];

	ck_assert_str_eq(retention_text(&k, RETENTION_TOO_OLD, buf), "older than 30 days");
	ck_assert_str_eq(retention_text(&k, RETENTION_TOO_MANY, buf), "more than 1 ended run");
	ck_assert_str_eq(
		retention_text(&k, RETENTION_TOO_LARGE, buf), "more than 10.0 GiB of logs");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("retention");
	TCase *t = tcase_create("retention");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, without_limits_all_stay);
	tcase_add_test(t, old_runs_go_and_the_next_is_due_in_time);
	tcase_add_test(t, the_oldest_of_too_many_go);
	tcase_add_test(t, the_oldest_go_until_the_rest_fits_and_the_newest_always_stays);
	tcase_add_test(t, a_run_says_why_it_goes);
	suite_add_tcase(s, t);
	return suite_run(s);
}
