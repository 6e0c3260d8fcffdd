/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/time_text.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define S INT64_C(1000000)
/* Tue 2023-11-14 22:13:20 UTC */
#define NOW (INT64_C(1700000000) * S)

static int64_t parsed(const char *text)
{
	struct error err = { 0 };
	int64_t us = -1;

	ck_assert_msg(
		time_text_parse(text, NOW, "--since", &us, &err) == 0, "%s: %s", text, err.text);
	return us;
}

START_TEST(lengths_of_time_get_coarser_as_they_grow)
{
	char b[TIME_TEXT_MAX];

	ck_assert_str_eq(time_text_since(NOW, NOW - 40000, b), "40ms");
	ck_assert_str_eq(time_text_since(NOW, NOW - 1200000, b), "1.2s");
	ck_assert_str_eq(time_text_since(NOW, NOW - 12345678, b), "12s");
	ck_assert_str_eq(time_text_since(NOW, NOW - 192 * S, b), "3m 12s");
	ck_assert_str_eq(time_text_since(NOW, NOW - (2 * 3600 + 13 * 60 + 5) * S, b), "2h 13m");
	ck_assert_str_eq(time_text_since(NOW, NOW - 50 * 3600 * S, b), "2d 2h");
}
END_TEST

START_TEST(a_time_in_the_future_is_zero_seconds_ago)
{
	char b[TIME_TEXT_MAX];

	ck_assert_str_eq(time_text_since(NOW, NOW + 5 * S, b), "0ms");
}
END_TEST

START_TEST(the_past_the_present_and_the_future_read_differently)
{
	char b[TIME_TEXT_MAX];

	ck_assert_str_eq(time_text_ago(NOW, NOW - 90 * S, b), "1m 30s ago");
	ck_assert_str_eq(time_text_ago(NOW, NOW, b), "just now");
	ck_assert_str_eq(time_text_ago(NOW, NOW + 12 * S, b), "in 12s");
}
END_TEST

START_TEST(points_in_time_are_shown_in_the_local_zone)
{
	char b[TIME_TEXT_MAX];

	ck_assert_str_eq(time_text_timestamp(NOW, b), "Tue 2023-11-14 22:13:20 UTC");
	ck_assert_str_eq(time_text_iso(NOW + 1500, 6, b), "2023-11-14T22:13:20.001500+00:00");
	ck_assert_str_eq(time_text_clock(NOW + 123999, false, b), "2023-11-14 22:13:20.123");
	ck_assert_str_eq(time_text_clock(NOW + 123999, true, b), "22:13:20");
	ck_assert_str_eq(time_text_clock(-1, true, b), "?");
	ck_assert_str_eq(time_text_timestamp(-1, b), "?");
	ck_assert_str_eq(time_text_iso(INT64_MAX, 6, b), "?");
	setenv("TZ", "XXX+3:30", 1);
	tzset();
	time_text_iso(NOW, 6, b);
	setenv("TZ", "UTC", 1);
	tzset();
	ck_assert_str_eq(b, "2023-11-14T18:43:20.000000-03:30");
}
END_TEST

START_TEST(times_are_read_in_all_forms)
{
	ck_assert_int_eq(parsed("now"), NOW);
	ck_assert_int_eq(parsed("10m"), NOW - 600 * S);
	ck_assert_int_eq(parsed("-1h30m"), NOW - 5400 * S);
	ck_assert_int_eq(parsed("@1700000000"), NOW);
	ck_assert_int_eq(parsed("@1.25"), S + S / 4);
	ck_assert_int_eq(parsed("today"), NOW - (22 * 3600 + 13 * 60 + 20) * S);
	ck_assert_int_eq(parsed("yesterday"), NOW - (46 * 3600 + 13 * 60 + 20) * S);
	ck_assert_int_eq(parsed("22:13"), NOW - 20 * S);
	ck_assert_int_eq(parsed("22:13:20.5"), NOW + S / 2);
	ck_assert_int_eq(parsed("2023-11-14"), NOW - (22 * 3600 + 13 * 60 + 20) * S);
	ck_assert_int_eq(parsed("2023-11-14 22:13"), NOW - 20 * S);
	ck_assert_int_eq(parsed("2023-11-14T22:13:20Z"), NOW);
	ck_assert_int_eq(parsed("2023-11-15T00:13:20.000001+02:00"), NOW + 1);
	ck_assert_int_eq(parsed("2023-11-14 17:13:20-0500"), NOW);
}
END_TEST

START_TEST(a_formatted_duration_can_be_parsed)
{
	char b[TIME_TEXT_MAX];

	ck_assert_int_eq(parsed(time_text_iso(NOW + 123456, 6, b)), NOW + 123456);
	ck_assert_int_eq(parsed(time_text_clock(NOW + 123456, false, b)), NOW + 123000);
}
END_TEST

START_TEST(nonsense_is_refused_and_the_option_named)
{
	static const char *const bad[] = { "", "-", "10", "10x", "25:00", "12:60", "12:3",
		"2023-13-01", "2023-1-1", "2023-11-14 ", "2023-11-14T22:13:20+2", "@", "@x", "@1.",
		"tomorrow", "2023-11-14 22:13:20 UTC", "--10m" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = { 0 };
		int64_t us = 7;

		ck_assert_msg(time_text_parse(bad[i], NOW, "--since", &us, &err) < 0, "%s", bad[i]);
		ck_assert_str_eq(err.field, "--since");
		ck_assert_ptr_nonnull(strstr(err.text, bad[i]));
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("humane");
	TCase *tc = tcase_create("humane");

	setenv("TZ", "UTC", 1);
	tzset();
	tcase_add_test(tc, lengths_of_time_get_coarser_as_they_grow);
	tcase_add_test(tc, a_time_in_the_future_is_zero_seconds_ago);
	tcase_add_test(tc, the_past_the_present_and_the_future_read_differently);
	tcase_add_test(tc, points_in_time_are_shown_in_the_local_zone);
	tcase_add_test(tc, times_are_read_in_all_forms);
	tcase_add_test(tc, a_formatted_duration_can_be_parsed);
	tcase_add_test(tc, nonsense_is_refused_and_the_option_named);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
