/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/duration.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *text;
	int64_t ms;
} good[] = {
	{ "0", 0 },
	{ "0s", 0 },
	{ "500ms", 500 },
	{ "30s", 30000 },
	{ "5m", 300000 },
	{ "1h", 3600000 },
	{ "1h30m", 5400000 },
	{ "1d2h3m4s5ms", 93784005 },
	{ "90m", 5400000 },
	{ "1h0m0s", 3600000 },
	{ "007s", 7000 },
	{ "36500d", DURATION_MAX_MS },
};

static const char *const malformed[] = { "", "5", "00", "-1s", "+1s", "1.5s", "s", "ms", "5 s",
	" 5s", "5s ", "5x", "5S", "5sec", "30m1h", "1h1h", "1s1s", "1h30", "5s,", "1ms1s", "0x10s",
	"infinity" };

static const char *const too_long[] = { "36501d", "36500d1ms", "99999999999999999999s",
	"18446744073709551616ms", "9223372036854775807d", "9223372036854775808ms", "876001h" };

static const struct {
	const char *text;
	int64_t ms;
} seconds[] = {
	{ "0", 0 },
	{ "5", 5000 },
	{ "0.1", 100 },
	{ "0.25", 250 },
	{ "2.005", 2005 },
	{ "30s", 30000 },
	{ "1h30m", 5400000 },
	{ "3153600000", DURATION_MAX_MS },
};

static const char *const bad_seconds[] = { "", "-1", "-5s", "1.", ".5", "1.2345", "1.5s", "1e3",
	"nan", "3153600000.001", "3153600001", "99999999999999999999", "1.-5", "5 " };

START_TEST(a_duration_is_the_sum_of_its_parts)
{
	int64_t ms = -7;

	ck_assert_int_eq(duration_parse(good[_i].text, "x", &ms, NULL), 0);
	ck_assert_int_eq(ms, good[_i].ms);
}
END_TEST

START_TEST(an_invalid_duration_is_refused_by_name)
{
	struct error err = { 0 };
	int64_t ms = -7;

	ck_assert_int_eq(duration_parse(malformed[_i], "stop.timeout", &ms, &err), -EINVAL);
	ck_assert_int_eq(ms, -7);
	ck_assert_str_eq(err.field, "stop.timeout");
	ck_assert_ptr_nonnull(strstr(err.text, "stop.timeout: expected a duration such as"));
}
END_TEST

START_TEST(a_duration_that_overflows_is_refused)
{
	struct error err = { 0 };
	int64_t ms = -7;

	ck_assert_int_eq(duration_parse(too_long[_i], NULL, &ms, &err), -EINVAL);
	ck_assert_int_eq(ms, -7);
	ck_assert_ptr_nonnull(strstr(err.text, "at most 36500d"));
}
END_TEST

START_TEST(a_bare_number_is_seconds_where_torchrun_takes_it)
{
	int64_t ms = -7;

	ck_assert_int_eq(duration_parse_seconds(seconds[_i].text, "x", &ms, NULL), 0);
	ck_assert_int_eq(ms, seconds[_i].ms);
}
END_TEST

START_TEST(a_bad_number_of_seconds_is_refused)
{
	struct error err = { 0 };
	int64_t ms = -7;

	ck_assert_int_eq(duration_parse_seconds(bad_seconds[_i], "x", &ms, &err), -EINVAL);
	ck_assert_int_eq(ms, -7);
}
END_TEST

START_TEST(formatting_gives_the_shortest_text_that_reads_back_the_same)
{
	static const int64_t steps[] = { 1, 7, 999, 1000, 59000, 60000, 61001, 3600000, 86400000,
		86399999 };
	char buf[DURATION_TEXT_MAX];
	int64_t back;

	ck_assert_str_eq(duration_format(0, buf), "0");
	ck_assert_str_eq(duration_format(1500, buf), "1500ms");
	ck_assert_str_eq(duration_format(90000, buf), "90s");
	ck_assert_str_eq(duration_format(3600000, buf), "1h");
	ck_assert_str_eq(duration_format(5400000, buf), "90m");
	ck_assert_str_eq(duration_format(86400000, buf), "1d");
	ck_assert_str_eq(duration_format(3600001, buf), "1h1ms");
	for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
		for (int64_t i = 1; i < 2000; i++) {
			duration_format(i * steps[s], buf);
			ck_assert_int_eq(duration_parse(buf, NULL, &back, NULL), 0);
			ck_assert_int_eq(back, i * steps[s]);
		}
	}
	ck_assert_str_eq(duration_format(DURATION_MAX_MS, buf), "36500d");
	ck_assert_int_lt(strlen(duration_format(INT64_MAX, buf)), DURATION_TEXT_MAX);
}
END_TEST

START_TEST(people_read_two_units_at_most)
{
	char buf[DURATION_TEXT_MAX];

	ck_assert_str_eq(duration_text(-5, buf), "0ms");
	ck_assert_str_eq(duration_text(0, buf), "0ms");
	ck_assert_str_eq(duration_text(40, buf), "40ms");
	ck_assert_str_eq(duration_text(999, buf), "999ms");
	ck_assert_str_eq(duration_text(1000, buf), "1s");
	ck_assert_str_eq(duration_text(12345, buf), "12.3s");
	ck_assert_str_eq(duration_text(59999, buf), "59.9s");
	ck_assert_str_eq(duration_text(60000, buf), "1m 0s");
	ck_assert_str_eq(duration_text(7980000, buf), "2h 13m");
	ck_assert_str_eq(duration_text(3 * 86400000LL + 3600000, buf), "3d 1h");
	ck_assert_int_lt(strlen(duration_text(INT64_MAX, buf)), DURATION_TEXT_MAX);
}
END_TEST

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
	Suite *s = suite_create("duration");
	TCase *t = tcase_create("duration");

	tcase_add_loop_test(t, a_duration_is_the_sum_of_its_parts, 0, N(good));
	tcase_add_loop_test(t, an_invalid_duration_is_refused_by_name, 0, N(malformed));
	tcase_add_loop_test(t, a_duration_that_overflows_is_refused, 0, N(too_long));
	tcase_add_loop_test(t, a_bare_number_is_seconds_where_torchrun_takes_it, 0, N(seconds));
	tcase_add_loop_test(t, a_bad_number_of_seconds_is_refused, 0, N(bad_seconds));
	tcase_add_test(t, formatting_gives_the_shortest_text_that_reads_back_the_same);
	tcase_add_test(t, people_read_two_units_at_most);
	suite_add_tcase(s, t);
	return suite_run(s);
}
