/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall clock is set while timers wait and while workers fail. clock_gettime() below takes the
 * place of the C library's, in the libraries too.
 */
#include "agent/policy/restart_budget.h"
#include "agent/policy/root_cause.h"
#include "common/loop/loop.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { DELAY_MS = 200 };

static const int64_t second_us = 1000000, year_s = 365 * 24 * 3600;

static int64_t set_by_s; /* how far the clock was set */

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);

	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		ret->tv_sec += set_by_s;
	return r;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	*ret = (struct timeval){ .tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000 };
	return 0;
}

static bool is_collateral(const struct root_cause *r)
{
	return root_cause_place(r).group == ROOT_CAUSE_COLLATERAL;
}

static void note_time(void *arg)
{
	*(uint64_t *)arg = loop_now_ms();
}

static void check_delay(int64_t jump_s)
{
	_cleanup_(loop_freep) struct loop *loop = NULL;
	struct loop_timer *timer;
	uint64_t begun, fired = 0;
	int64_t real = (int64_t)loop_real_us();

	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(loop_timer_new(loop, note_time, &fired, &timer), 0);
	begun = loop_now_ms();
	loop_timer_arm(timer, DELAY_MS);
	loop_run_once(loop, false);
	set_by_s += jump_s;
	/* Every caller sees the new time. */
	ck_assert_int_ge(llabs((int64_t)loop_real_us() - real), llabs(jump_s) / 2 * second_us);
	loop_run_once(loop, false);
	while (!fired)
		loop_run_once(loop, true);
	ck_assert_uint_ge(fired - begun, DELAY_MS);
	loop_timer_free(timer);
}

START_TEST(a_delay_takes_its_time_whatever_the_wall_clock_does)
{
	check_delay(year_s);
	check_delay(-2 * year_s);
	check_delay(year_s);
	check_delay(-40);
}
END_TEST

START_TEST(a_window_of_restarts_does_not_slide_with_the_wall_clock)
{
	const struct spec_restart policy = { .policy = SPEC_RESTART_ON_FAILURE,
		.max = SPEC_UNSET,
		.max_by_cause = { SPEC_UNSET, SPEC_UNSET, SPEC_UNSET, SPEC_UNSET },
		.window_ms = 3600000,
		.window_max = 1,
		.backoff_max_ms = SPEC_UNSET,
		.healthy_after_ms = SPEC_UNSET };
	const struct restart_fault fault = { .cause = RESTART_EXIT, .value = 1, .ran_ms = 1000 };
	struct restart_budget budget = { 0 };
	struct restart_decision d;

	restart_decide(&policy, &budget, &fault, loop_now_ms(), &d);
	ck_assert(d.restart);
	set_by_s += year_s;
	ck_assert_int_eq(restart_window_used(&policy, &budget, loop_now_ms()), 1);
	restart_decide(&policy, &budget, &fault, loop_now_ms(), &d);
	ck_assert(!d.restart);
	set_by_s -= 2 * year_s;
	restart_decide(&policy, &budget, &fault, loop_now_ms(), &d);
	ck_assert(!d.restart);
}
END_TEST

/* A worker that began at 1000 s and whose end was seen at at_s. Negative: no such time. */
static struct root_cause failed(int64_t at_s, int64_t claimed_s, int64_t stopped_s)
{
	return (struct root_cause){ .start_us = 1000 * second_us,
		.observed_us = at_s * second_us,
		.claimed_us = claimed_s < 0 ? -1 : claimed_s * second_us,
		.written_us = -1,
		.stop_us = stopped_s < 0 ? -1 : stopped_s * second_us };
}

START_TEST(a_failure_before_the_clock_was_set_is_the_cause_and_a_stop_after_that_is_not)
{
	/* The clock is set between the first failure and the stop of the others; each worker's
	 * timestamp is the clock's time at its failure. */
	for (int64_t jump = -900; jump <= 900; jump += 300) {
		struct root_cause both[] = { failed(1011 + jump, 1011 + jump, 1010 + jump),
			failed(1010, 1009, -1) };

		struct root_cause_place stopped = root_cause_place(&both[0]);
		struct root_cause_place cause = root_cause_place(&both[1]);

		ck_assert_int_lt(root_cause_compare(&cause, &stopped), 0);
		ck_assert(is_collateral(&both[0]));
		ck_assert(!is_collateral(&both[1]));
	}
}
END_TEST

START_TEST(a_failure_across_the_setting_of_the_clock_has_the_time_at_which_it_was_seen)
{
	struct root_cause back = failed(500, 1010, -1), long_back = failed(500, 490, -1),
			  forth = failed(5000, 1010, -1);
	bool plausible = true;

	/* Set back: the worker's timestamp is in the future, or before its own start. */
	ck_assert_int_eq(root_cause_time(&back, &plausible), 500 * second_us);
	ck_assert(!plausible);
	ck_assert_int_eq(root_cause_time(&long_back, &plausible), 500 * second_us);
	ck_assert(!plausible);
	/* Set forward: the timestamp is plausible. */
	ck_assert_int_eq(root_cause_time(&forth, &plausible), 1010 * second_us);
	ck_assert(plausible);
}
END_TEST

START_TEST(a_failure_before_the_own_stop_that_the_clock_denies_is_taken_for_collateral)
{
	/* The worker failed at 1010 and reported that time; then the clock was set back by 600 s,
	 * and the agent, which had not seen the failure, stopped it. No time shows the order. */
	struct root_cause r = failed(411, 1010, 410);

	ck_assert(is_collateral(&r));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("clock");
	TCase *t = tcase_create("clock");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_delay_takes_its_time_whatever_the_wall_clock_does);
	tcase_add_test(t, a_window_of_restarts_does_not_slide_with_the_wall_clock);
	tcase_add_test(
		t, a_failure_before_the_clock_was_set_is_the_cause_and_a_stop_after_that_is_not);
	tcase_add_test(
		t, a_failure_across_the_setting_of_the_clock_has_the_time_at_which_it_was_seen);
	tcase_add_test(
		t, a_failure_before_the_own_stop_that_the_clock_denies_is_taken_for_collateral);
	suite_add_tcase(s, t);
	return suite_run(s);
}
