/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue/progress.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct progress p;
static uint64_t now_ms = 5000;
static char buf[256];

static void setup(void)
{
	progress_begin(&p);
}

/* A look, ms after the one before. */
static const char *look(uint64_t ms, int64_t accepted, int64_t queued, int64_t running)
{
	struct progress_counts c = {
		.accepted = accepted, .queued = queued, .running = running, .all = true
	};

	now_ms += ms;
	progress_update(&p, &c, now_ms);
	return progress_line(&p, &c, buf, sizeof(buf));
}

static void expect(const char *line, const char *end)
{
	size_t n = strlen(line), m = strlen(end);

	ck_assert_msg(
		n >= m && !strcmp(line + n - m, end), "\"%s\", expected \"...%s\"", line, end);
}

START_TEST(the_rate_is_unknown_before_the_second_look)
{
	expect(look(0, 1000, 990, 10), "  990 queued  10 running  0 done  ?/s  ETA ?");
	expect(look(200, 1000, 970, 10), "  970 queued  10 running  20 done  100/s  ETA 9.8s");
}
END_TEST

START_TEST(a_steady_rate_is_the_rate_from_the_beginning_on)
{
	look(1000, 10000, 10000, 0);
	for (int i = 1; i < 400; i++)
		ck_assert_msg(strstr(look(200, 10000, 10000 - 20 * i, 0), "  100/s"), "%s", buf);
}
END_TEST

START_TEST(work_before_the_first_look_is_in_no_rate)
{
	expect(look(60000, 1000, 400, 0), "  600 done  ?/s  ETA ?");
	expect(look(100, 1000, 399, 0), "  601 done  10/s  ETA 39s");
}
END_TEST

START_TEST(a_process_that_ends_after_many_looks_counts_for_all_of_them)
{
	look(0, 10, 9, 1);
	for (int i = 0; i < 4; i++)
		expect(look(200, 10, 9, 1), "  0 done  0.0/s  ETA ?");
	expect(look(200, 10, 8, 1), "  1 done  1.1/s  ETA 7.9s");
}
END_TEST

START_TEST(a_rate_that_changes_is_followed)
{
	int64_t left = 100000;

	look(0, left, left, 0);
	for (int i = 0; i < 100; i++)
		look(200, 100000, left -= 100, 0);
	for (int i = 0; i < 200; i++)
		look(200, 100000, left -= 4, 0);
	ck_assert_msg(strstr(buf, "  20/s"), "%s", buf);
}
END_TEST

START_TEST(at_the_end_nothing_is_left_to_wait_for)
{
	look(0, 4, 2, 2);
	expect(look(1000, 4, 0, 0), "100%  0 queued  0 running  4 done  4.0/s  ETA 0s");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("progress_line");
	TCase *t = tcase_create("progress_line");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, the_rate_is_unknown_before_the_second_look);
	tcase_add_test(t, a_steady_rate_is_the_rate_from_the_beginning_on);
	tcase_add_test(t, work_before_the_first_look_is_in_no_rate);
	tcase_add_test(t, a_process_that_ends_after_many_looks_counts_for_all_of_them);
	tcase_add_test(t, a_rate_that_changes_is_followed);
	tcase_add_test(t, at_the_end_nothing_is_left_to_wait_for);
	suite_add_tcase(s, t);
	return suite_run(s);
}
