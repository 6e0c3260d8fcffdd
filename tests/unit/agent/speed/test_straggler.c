/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/step_window.h"
#include "agent/speed/straggler.h"

#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* --- the window --- */

START_TEST(a_span_has_the_looks_of_the_window)
{
	struct step_window w = { 0 };
	struct step_span span = step_window_span(&w, 1000);

	ck_assert_uint_eq(span.took_ms, 0);
	step_window_add(&w, 1000, 5000, 7, 1);
	span = step_window_span(&w, 1000);
	ck_assert(span.took_ms == 0 && span.made == 0 && span.lag == 1);
	step_window_add(&w, 1000, 5500, 9, 0);
	step_window_add(&w, 1000, 6000, 17, 0.5);
	span = step_window_span(&w, 1000);
	ck_assert(span.took_ms == 1000 && span.made == 10 && span.lag == 0.5);
	step_window_add(&w, 1000, 6001, 18, 0.25);
	span = step_window_span(&w, 1000);
	ck_assert(span.took_ms == 501 && span.made == 9 && span.lag == 0.25);
	step_window_add(&w, 1000, 99000, 20, 0);
	ck_assert_uint_eq(step_window_span(&w, 1000).took_ms, 0);
}
END_TEST

/* At any pace of looks the window is covered by them, and no look in it is lost but for those that
 * come too fast. */
START_TEST(looks_of_any_pace_cover_the_window)
{
	const uint64_t window = 6000;

	for (uint64_t pace = 1; pace <= 300; pace++) {
		struct step_window w = { 0 };
		struct step_span span;

		for (uint64_t now = 1; now < 4 * window; now += pace)
			step_window_add(&w, window, now, now, 0);
		span = step_window_span(&w, window);
		ck_assert_uint_eq(span.made, span.took_ms);
		ck_assert_uint_gt(span.took_ms, window - 2 * (pace > 100 ? pace : 100));
		ck_assert_uint_le(span.took_ms, window);
	}
}
END_TEST

/* --- the comparison --- */

static double percent[64];
static bool out[64];

/* Which of n workers that made so many steps are out, as bits. */
static unsigned independent(const uint64_t *made, size_t n, double limit)
{
	struct straggler_facts facts[64] = { 0 };
	unsigned bits = 0;

	for (size_t i = 0; i < n; i++)
		facts[i].made = made[i];
	straggler_compare(facts, n, false, limit, percent, out);
	for (size_t i = 0; i < n; i++)
		bits |= (unsigned)out[i] << i;
	return bits;
}

static unsigned together(const double *lag, size_t n, double limit)
{
	struct straggler_facts facts[64] = { 0 };
	unsigned bits = 0;

	for (size_t i = 0; i < n; i++)
		facts[i] = (struct straggler_facts){ .made = 100, .lag = lag[i] };
	straggler_compare(facts, n, true, limit, percent, out);
	for (size_t i = 0; i < n; i++)
		bits |= (unsigned)out[i] << i;
	return bits;
}

START_TEST(a_worker_that_makes_fewer_steps_is_found)
{
	static const struct {
		uint64_t made[8];
		size_t n;
		unsigned out;
	} cases[] = {
		{ { 100, 100, 100, 70 }, 4, 1 << 3 }, { { 100, 100, 100, 0 }, 4, 1 << 3 },
		{ { 100, 70, 100 }, 3, 1 << 1 },
		{ { 100, 70 }, 2, 0 }, /* which of the two is the usual one? */
		{ { 100, 100, 100, 90 }, 4, 0 }, { { 100, 100, 100, 100 }, 4, 0 },
		{ { 100, 100, 130, 100 }, 4, 0 }, /* a fast one is none */
		{ { 0, 0, 0, 0 }, 4, 0 },
		{ { 3, 3, 3, 2 }, 4, 0 }, /* it may have begun its third right after the look */
		{ { 3, 3, 3, 1 }, 4, 1 << 3 },
		{ { 100, 60, 100, 60, 100, 100, 100 }, 7, 1 << 1 | 1 << 3 },
		{ { 100, 60, 100, 60, 100, 60, 60 }, 7, 0 }, /* half of them: that is usual here */
		{ { 100, 90, 80, 70, 60, 50, 40 }, 7, 0 },   /* they differ all the time */
	};

	for (int i = 0; i < N(cases); i++)
		ck_assert_msg(
			independent(cases[i].made, cases[i].n, 20) == cases[i].out, "case %d", i);
}
END_TEST

START_TEST(among_workers_that_wait_for_each_other_the_late_one_is_found)
{
	static const struct {
		double lag[8];
		size_t n;
		unsigned out;
	} cases[] = {
		{ { 0, 0, 0, 0.3 }, 4, 1 << 3 },
		{ { 0, 0.02, 0.01, 0.3, 0 }, 5, 1 << 3 },
		{ { 0, 0, 0, 0.1 }, 4, 0 },
		{ { 0, 0.3 }, 2, 0 },
		{ { 0.3, 0.3, 0.3 }, 3, 0 },
		{ { 0.1, 0.25, 0.3, 0.05, 0.2 }, 5, 0 },
	};

	for (int i = 0; i < N(cases); i++)
		ck_assert_msg(together(cases[i].lag, cases[i].n, 20) == cases[i].out, "case %d", i);
}
END_TEST

START_TEST(a_lag_is_counted_from_the_middle_worker)
{
	const int64_t same[] = { 4, 4, 4 }, late[] = { 4, 5, 5 }, ahead[] = { 4, 4, 5 };

	ck_assert(straggler_lag(same, 3, 4) == 0);
	ck_assert(straggler_lag(late, 3, 4) == 1 && straggler_lag(late, 3, 5) == 0);
	ck_assert(straggler_lag(ahead, 3, 4) == 0 && straggler_lag(ahead, 3, 5) == 0);
}
END_TEST

/* Steps of a second, in which worker 3 is late by a part of it: looks at changing times see that
 * part. */
START_TEST(looks_measure_how_late_a_worker_is)
{
	double late = 0.1 * _i;
	struct step_window windows[4] = { 0 };
	double lag[4];

	for (unsigned k = 1; k <= 60; k++) {
		double part = 0.618034 * k, now = k - 1 + (part - (unsigned)part);
		int64_t steps[4], sorted[4];

		for (int i = 0; i < 4; i++)
			steps[i] = (int64_t)(now + 10 - (i == 3 ? late : 0));
		memcpy(sorted, steps, sizeof(steps));
		sorted[0] = steps[3];
		sorted[3] = steps[0];
		for (int i = 0; i < 4; i++)
			step_window_add(&windows[i], 60000, k * 1000, (uint64_t)steps[i],
				straggler_lag(sorted, 4, steps[i]));
	}
	for (int i = 0; i < 4; i++)
		lag[i] = step_window_span(&windows[i], 60000).lag;
	ck_assert_uint_eq(together(lag, 4, 20), late > 0.2 ? 1 << 3 : late < 0.2 ? 0 : out[3] << 3);
	ck_assert_msg(percent[3] > late * 100 - 4 && percent[3] < late * 100 + 4, "%f", percent[3]);
}
END_TEST

/* --- begin and end --- */

START_TEST(percents_are_rounded_and_have_a_limit)
{
	struct straggler s = { 0 };

	straggler_add_look(&s, 28.6, true, 20);
	ck_assert_int_eq(s.percent, 29);
	straggler_add_look(&s, 1e30, true, 20);
	ck_assert_int_eq(s.percent, STRAGGLER_MOST);
	straggler_add_look(&s, -1e30, true, 20);
	ck_assert_int_eq(s.percent, 0);
}
END_TEST

/* Looks with these percents at a limit of 20; returns the news as letters. */
static const char *news(const char *percents)
{
	static char text[64];
	struct straggler s = { 0 };
	char *to = text;

	for (const char *p = percents; *p; p++) {
		double value = *p == 'h' ? 30 : *p == 'm' ? 15 : 5;

		*to++ = ".()"[straggler_add_look(&s, value, value >= 20, 20)];
	}
	*to = '\0';
	return text;
}

START_TEST(begin_and_end_take_three_looks_and_do_not_flap)
{
	static const char *const walks[][2] = {
		{ "hhh", "..(" },
		{ "hhlhhl", "......" },
		{ "hhhhhhh", "..(...." },
		{ "hhhlll", "..(..)" },
		{ "hhhmmmmmm", "..(......" },
		{ "mmmmmm", "......" },
		{ "hhhllhllmlll", "..(........)" },
		{ "hhhlllhhhlll", "..(..)..(..)" },
	};

	for (int i = 0; i < N(walks); i++)
		ck_assert_str_eq(news(walks[i][0]), walks[i][1]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("straggler");
	TCase *t = tcase_create("straggler");

	tcase_add_test(t, a_span_has_the_looks_of_the_window);
	tcase_add_test(t, looks_of_any_pace_cover_the_window);
	tcase_add_test(t, a_worker_that_makes_fewer_steps_is_found);
	tcase_add_test(t, among_workers_that_wait_for_each_other_the_late_one_is_found);
	tcase_add_test(t, a_lag_is_counted_from_the_middle_worker);
	tcase_add_loop_test(t, looks_measure_how_late_a_worker_is, 0, 10);
	tcase_add_test(t, begin_and_end_take_three_looks_and_do_not_flap);
	tcase_add_test(t, percents_are_rounded_and_have_a_limit);
	suite_add_tcase(s, t);
	return suite_run(s);
}
