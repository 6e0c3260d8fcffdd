/* SPDX-License-Identifier: Apache-2.0 */
#include "common/loop/loop.h"

#include "common/base/clock.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct loop *loop;
static char trace[256];
static char one[] = "1", two[] = "2", three[] = "3", a[] = "a", b[] = "b";
static struct loop_timer *timer;
static struct loop_fd *watch;
static struct loop_signal *sig;
static struct loop_again *again, *other;
static int count;
static uint64_t fired_us;

static void setup(void)
{
	trace[0] = '\0';
	count = 0;
	ck_assert_int_eq(loop_new(&loop), 0);
}

static void teardown(void)
{
	timer = loop_timer_free(timer);
	watch = loop_fd_free(watch);
	sig = loop_signal_free(sig);
	again = loop_again_free(again);
	other = loop_again_free(other);
	loop = loop_free(loop);
}

static void note(void *arg)
{
	strncat(trace, arg, sizeof(trace) - strlen(trace) - 1);
}

static void quit(void *arg)
{
	loop_quit(loop, 7);
}

static void post_more(void *arg)
{
	note(one);
	ck_assert_int_eq(loop_defer(loop, note, three), 0);
}

static void post_self(void *arg)
{
	if (++count < 100000)
		ck_assert_int_eq(loop_defer(loop, post_self, arg), 0);
}

static void post_self_for_ever(void *arg)
{
	count++;
	ck_assert_int_eq(loop_defer(loop, post_self_for_ever, arg), 0);
}

START_TEST(deferred_calls_run_in_the_order_of_posting)
{
	ck_assert_int_eq(loop_defer(loop, post_more, NULL), 0);
	ck_assert_int_eq(loop_defer(loop, note, two), 0);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "123");
}
END_TEST

START_TEST(a_pair_posted_twice_runs_once)
{
	ck_assert_int_eq(loop_defer(loop, note, a), 0);
	ck_assert_int_eq(loop_defer(loop, note, b), 0);
	ck_assert_int_eq(loop_defer(loop, note, a), 0);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "ab");
	ck_assert_int_eq(loop_defer(loop, note, a), 0);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "aba");
}
END_TEST

START_TEST(a_cancelled_call_does_not_run)
{
	ck_assert_int_eq(loop_defer(loop, note, a), 0);
	ck_assert_int_eq(loop_defer(loop, note, b), 0);
	loop_cancel(loop, note, a);
	loop_cancel(loop, quit, a);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "b");
}
END_TEST

START_TEST(a_call_that_posts_itself_does_not_starve_descriptors)
{
	ck_assert_int_eq(loop_defer(loop, post_self_for_ever, NULL), 0);
	ck_assert_int_eq(loop_timer_new(loop, quit, NULL, &timer), 0);
	loop_timer_arm(timer, 1);
	ck_assert_int_eq(loop_run(loop), 7);
	ck_assert_int_gt(count, 64);
	loop_cancel(loop, post_self_for_ever, NULL);
}
END_TEST

static void note_ready(int fd, int events, void *arg)
{
	note(arg);
	loop_quit(loop, 0);
}

START_TEST(functions_posted_before_the_first_turn_run_behind_ready_events)
{
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	ck_assert_int_eq(write(fds[1], "x", 1), 1);
	ck_assert_int_eq(loop_fd_new(loop, fds[0], LOOP_READ, note_ready, one, &watch), 0);
	ck_assert_int_eq(loop_defer(loop, note, two), 0);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(trace, "12");
	watch = loop_fd_free(watch);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

START_TEST(a_long_chain_of_deferred_calls_ends_without_waiting)
{
	ck_assert_int_eq(loop_defer(loop, post_self, NULL), 0);
	while (count < 100000)
		loop_run_once(loop, false);
	ck_assert_int_eq(count, 100000);
}
END_TEST

/* The posted pairs in their order, kept beside the loop: -1 where one was cancelled. */
enum { MODEL_PAIRS = 256, MODEL_STEPS = 100000 };
static int posted[4 * MODEL_STEPS], n_posted, n_run;
static bool waits[MODEL_PAIRS];
static char pairs[MODEL_PAIRS / 2];
static uint32_t seed = 3;

static void model_step(void);

static void run_pair(int pair)
{
	while (posted[n_run] < 0)
		n_run++;
	ck_assert_int_eq(posted[n_run++], pair);
	waits[pair] = false;
	if (next_random(&seed) % 2)
		model_step();
}

static void run_even(void *arg)
{
	run_pair((int)((char *)arg - pairs) * 2);
}

static void run_odd(void *arg)
{
	run_pair((int)((char *)arg - pairs) * 2 + 1);
}

static void model_step(void)
{
	int pair = (int)(next_random(&seed) % MODEL_PAIRS);
	loop_fn fn = pair % 2 ? run_odd : run_even;

	if (next_random(&seed) % 4) {
		ck_assert_int_eq(loop_defer(loop, fn, &pairs[pair / 2]), 0);
		if (!waits[pair])
			posted[n_posted++] = pair;
		waits[pair] = true;
		return;
	}
	loop_cancel(loop, fn, &pairs[pair / 2]);
	for (int i = n_run; i < n_posted; i++)
		if (posted[i] == pair)
			posted[i] = -1;
	waits[pair] = false;
}

START_TEST(random_pairs_run_once_and_in_order)
{
	for (int i = 0; i < MODEL_STEPS; i++) {
		model_step();
		if (next_random(&seed) % (i % 1000 < 500 ? 8 : 500) == 0)
			loop_run_once(loop, false);
	}
	while (memchr(waits, true, sizeof(waits)))
		loop_run_once(loop, false);
	ck_assert_int_gt(n_run, MODEL_STEPS / 8);
}
END_TEST

static void count_one(void *arg)
{
	count++;
}

START_TEST(posting_costs_the_same_however_many_wait)
{
	enum { MANY = 200000 };
	static char args[MANY];
	clock_t begun = clock();

	for (int twice = 0; twice < 2; twice++)
		for (int i = 0; i < MANY; i++)
			ck_assert_int_eq(loop_defer(loop, count_one, &args[i]), 0);
	loop_run_once(loop, false);
	ck_assert_int_eq(count, MANY);
	/* A walk over all waiting pairs takes minutes. */
	ck_assert_int_lt((clock() - begun) / CLOCKS_PER_SEC, 10);
}
END_TEST

START_TEST(quitting_runs_what_was_deferred)
{
	ck_assert_int_eq(loop_defer(loop, quit, NULL), 0);
	ck_assert_int_eq(loop_defer(loop, note, a), 0);
	ck_assert_int_eq(loop_run(loop), 7);
	ck_assert_str_eq(trace, "a");
}
END_TEST

START_TEST(quitting_before_running_returns_at_once_and_the_first_code_counts)
{
	loop_quit(loop, -3);
	loop_quit(loop, 9);
	ck_assert_int_eq(loop_run(loop), -3);
	ck_assert_int_eq(loop_defer(loop, quit, NULL), 0);
	ck_assert_int_eq(loop_run(loop), 7);
}
END_TEST

static void free_own_timer(void *arg)
{
	note(a);
	timer = loop_timer_free(timer);
	loop_quit(loop, 0);
}

START_TEST(a_timer_may_free_itself)
{
	ck_assert_int_eq(loop_timer_new(loop, free_own_timer, NULL, &timer), 0);
	loop_timer_arm(timer, 0);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(trace, "a");
}
END_TEST

static void fired(void *arg)
{
	fired_us = monotonic_us();
	ck_assert(!loop_timer_armed(timer));
	if (++count == 20)
		loop_quit(loop, 0);
	else
		loop_timer_arm(timer, count % 4);
}

START_TEST(a_timer_is_never_early)
{
	ck_assert_int_eq(loop_timer_new(loop, fired, NULL, &timer), 0);
	ck_assert(!loop_timer_armed(timer));
	for (uint64_t ms = 1; ms < 12; ms++) {
		uint64_t start;

		/* Late in a millisecond of the clock, where whole milliseconds say too much. */
		while ((start = monotonic_us()) % 1000 < 900)
			;
		count = 19;
		loop_timer_arm(timer, ms);
		ck_assert(loop_timer_armed(timer));
		while (loop_timer_armed(timer))
			loop_run_once(loop, false);
		ck_assert_uint_ge(fired_us, start + ms * 1000);
	}
}
END_TEST

START_TEST(a_timer_fires_once_per_arming)
{
	ck_assert_int_eq(loop_timer_new(loop, fired, NULL, &timer), 0);
	loop_timer_arm(timer, UINT64_MAX);
	loop_timer_arm(timer, 0);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(count, 20);
	loop_run_once(loop, false);
	ck_assert_int_eq(count, 20);
}
END_TEST

START_TEST(time_that_was_stood_still_has_not_passed)
{
	uint64_t before = loop_now_ms(), still = before / 2;

	ck_assert_int_eq(loop_timer_new(loop, fired, NULL, &timer), 0);
	count = 19;
	loop_timer_arm(timer, 0);
	/* As if the clock had gone on for so long in between. */
	loop_stood_still(still);
	ck_assert_int_lt((int64_t)(loop_now_ms() - before), 0);
	loop_run_once(loop, false);
	loop_run_once(loop, false);
	ck_assert(loop_timer_armed(timer));
	ck_assert_int_eq(count, 19);
	loop_stood_still(-still);
	ck_assert_uint_ge(loop_now_ms(), before);
}
END_TEST

START_TEST(a_timer_fires_when_its_time_has_passed_at_once)
{
	uint64_t before = loop_now_ms();

	ck_assert_int_eq(loop_timer_new(loop, note, one, &timer), 0);
	loop_timer_arm(timer, 3600000);
	loop_pass(loop, 3000000);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "");
	loop_pass(loop, 600000);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "1");
	ck_assert(!loop_timer_armed(timer));
	ck_assert_uint_ge(loop_now_ms() - before, 3600000);
	loop_timer_arm(timer, 1000);
	loop_timer_disarm(timer);
	loop_pass(loop, 3600000);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "1");
}
END_TEST

START_TEST(a_clock_that_is_frozen_moves_by_hand_alone)
{
	uint64_t before;

	ck_assert_int_eq(loop_timer_new(loop, note, one, &timer), 0);
	loop_freeze();
	before = loop_now_ms();
	loop_timer_arm(timer, 1);
	/* libevent's own clock goes on: it wakes the loop, for nothing. */
	for (int i = 0; i < 3; i++)
		loop_run_once(loop, true);
	ck_assert_str_eq(trace, "");
	ck_assert(loop_timer_armed(timer));
	ck_assert_uint_eq(loop_now_ms(), before);
	loop_pass(loop, 1);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "1");
	ck_assert_uint_eq(loop_now_ms(), before + 1);
	loop_timer_arm(timer, 0);
	loop_run_once(loop, true);
	ck_assert_str_eq(trace, "11");
}
END_TEST

START_TEST(a_disarmed_timer_does_not_fire)
{
	ck_assert_int_eq(loop_timer_new(loop, fired, NULL, &timer), 0);
	loop_timer_arm(timer, 0);
	loop_timer_disarm(timer);
	loop_timer_disarm(timer);
	ck_assert(!loop_timer_armed(timer));
	loop_run_once(loop, false);
	ck_assert_int_eq(count, 0);
}
END_TEST

static int seen_events;

static void on_ready(int fd, int events, void *arg)
{
	seen_events |= events;
	count++;
	if (arg)
		watch = loop_fd_free(watch);
}

START_TEST(a_descriptor_is_reported_while_it_is_ready_and_not_while_paused)
{
	int p[2];

	seen_events = 0;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	ck_assert_int_eq(loop_fd_new(loop, p[0], LOOP_READ, on_ready, NULL, &watch), 0);
	loop_run_once(loop, false);
	ck_assert_int_eq(count, 0);
	ck_assert_int_eq(write(p[1], "x", 1), 1);
	loop_run_once(loop, false);
	loop_run_once(loop, false);
	ck_assert_int_eq(count, 2);
	ck_assert_int_eq(seen_events, LOOP_READ);
	ck_assert_int_eq(loop_fd_set(watch, 0), 0);
	loop_run_once(loop, false);
	ck_assert_int_eq(count, 2);
	ck_assert_int_eq(loop_fd_set(watch, LOOP_READ | LOOP_WRITE), 0);
	loop_run_once(loop, false);
	ck_assert_int_eq(seen_events, LOOP_READ | LOOP_WRITE);
	watch = loop_fd_free(watch);
	close(p[0]);
	close(p[1]);
}
END_TEST

START_TEST(a_descriptor_handle_may_free_itself)
{
	int p[2];

	ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
	ck_assert_int_eq(loop_fd_new(loop, p[0], LOOP_READ, on_ready, one, &watch), 0);
	close(p[1]);
	loop_run_once(loop, false);
	ck_assert_ptr_null(watch);
	ck_assert_int_eq(count, 1);
	close(p[0]);
}
END_TEST

START_TEST(a_path_that_cannot_be_watched_is_refused)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(loop_fd_new(loop, fd, LOOP_READ, on_ready, NULL, &watch), -EPERM);
	ck_assert_ptr_null(watch);
	close(fd);
}
END_TEST

static void on_usr1(int signo, void *arg)
{
	ck_assert_int_eq(signo, SIGUSR1);
	count++;
	if (arg)
		sig = loop_signal_free(sig);
}

START_TEST(signals_of_one_turn_are_reported_once)
{
	ck_assert_int_eq(loop_signal_new(loop, SIGUSR1, on_usr1, NULL, &sig), 0);
	for (int i = 0; i < 5; i++)
		raise(SIGUSR1);
	loop_run_once(loop, true);
	ck_assert_int_eq(count, 1);
	raise(SIGUSR1);
	loop_run_once(loop, true);
	ck_assert_int_eq(count, 2);
}
END_TEST

START_TEST(a_signal_handle_may_free_itself)
{
	ck_assert_int_eq(loop_signal_new(loop, SIGUSR1, on_usr1, one, &sig), 0);
	raise(SIGUSR1);
	raise(SIGUSR1);
	loop_run_once(loop, true);
	ck_assert_int_eq(count, 1);
	ck_assert_ptr_null(sig);
}
END_TEST

/* --- once more in the next turn */

START_TEST(a_function_runs_again_only_when_armed)
{
	ck_assert_int_eq(loop_again_new(loop, note, a, &again), 0);
	for (int i = 0; i < 3; i++)
		loop_run_once(loop, false);
	ck_assert_str_eq(trace, "");
}
END_TEST

START_TEST(an_armed_function_runs_once_in_the_next_turn)
{
	ck_assert_int_eq(loop_again_new(loop, note, a, &again), 0);
	for (int i = 0; i < 3; i++) {
		loop_again_arm(again);
		loop_again_arm(again);
		for (int turns = 0; turns < 3; turns++) {
			note(one);
			loop_run_once(loop, false);
		}
	}
	ck_assert_str_eq(trace, "1a111a111a11");
}
END_TEST

static void arm_again(void *arg)
{
	note(arg);
	loop_again_arm(again);
}

/* A turn that waited for something would never end here. */
START_TEST(the_turn_in_which_it_runs_does_not_wait)
{
	ck_assert_int_eq(loop_again_new(loop, arm_again, a, &again), 0);
	loop_again_arm(again);
	for (int i = 0; i < 3; i++)
		loop_run_once(loop, true);
	ck_assert_str_eq(trace, "aaa");
}
END_TEST

START_TEST(a_timer_that_arms_itself_starves_no_other)
{
	ck_assert_int_eq(loop_again_new(loop, arm_again, a, &again), 0);
	ck_assert_int_eq(loop_timer_new(loop, quit, NULL, &timer), 0);
	loop_again_arm(again);
	loop_timer_arm(timer, 1);
	ck_assert_int_eq(loop_run(loop), 7);
	trace[0] = '\0';
	ck_assert_int_eq(loop_defer(loop, note, one), 0);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "a1");
}
END_TEST

/* A descriptor that becomes ready while it waits for its turn comes first, too. */
START_TEST(it_runs_after_ready_descriptors_and_before_deferred_calls)
{
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	ck_assert_int_eq(loop_again_new(loop, note, two, &again), 0);
	ck_assert_int_eq(loop_defer(loop, note, three), 0);
	loop_again_arm(again);
	ck_assert_int_eq(loop_fd_new(loop, fds[0], LOOP_READ, note_ready, one, &watch), 0);
	ck_assert_int_eq(write(fds[1], "x", 1), 1);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "123");
	watch = loop_fd_free(watch);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

START_TEST(they_run_in_the_order_in_which_they_were_armed)
{
	ck_assert_int_eq(loop_again_new(loop, note, a, &again), 0);
	ck_assert_int_eq(loop_again_new(loop, note, b, &other), 0);
	for (int i = 0; i < 2; i++) {
		loop_again_arm(i ? other : again);
		loop_again_arm(i ? again : other);
		loop_run_once(loop, true);
	}
	ck_assert_str_eq(trace, "abba");
}
END_TEST

START_TEST(a_turn_begins_with_functions_armed_for_it)
{
	uint64_t before = loop_turn(loop);

	loop_run_once(loop, false);
	ck_assert_uint_eq(loop_turn(loop), before + 1);
}
END_TEST

static void arm_other(void *arg)
{
	note(arg);
	loop_again_arm(other);
}

/* In whichever order they stand. */
START_TEST(a_function_armed_by_another_runs_in_the_next_turn)
{
	ck_assert_int_eq(loop_again_new(loop, _i ? arm_again : note, b, &other), 0);
	ck_assert_int_eq(loop_again_new(loop, _i ? note : arm_other, a, &again), 0);
	loop_again_arm(_i ? other : again);
	loop_run_once(loop, true);
	ck_assert_str_eq(trace, _i ? "b" : "a");
	loop_run_once(loop, true);
	ck_assert_str_eq(trace, _i ? "ba" : "ab");
}
END_TEST

/* A signal comes in a moment. The loop's own timers may have a turn end before they are due. */
static void check_that_a_turn_waits(void)
{
	struct itimerspec soon = { .it_value.tv_nsec = 20000000 };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	timer_t alarm;

	ck_assert_int_eq(loop_signal_new(loop, SIGUSR1, on_usr1, NULL, &sig), 0);
	ck_assert_int_eq(timer_create(CLOCK_MONOTONIC, &event, &alarm), 0);
	ck_assert_int_eq(timer_settime(alarm, 0, &soon, NULL), 0);
	loop_run_once(loop, true);
	ck_assert_int_eq(count, 1);
	timer_delete(alarm);
}

START_TEST(a_freed_function_does_not_run_and_makes_no_turn)
{
	ck_assert_int_eq(loop_again_new(loop, note, a, &again), 0);
	ck_assert_int_eq(loop_again_new(loop, note, b, &other), 0);
	loop_again_arm(again);
	loop_again_arm(again);
	again = loop_again_free(again);
	check_that_a_turn_waits();
	ck_assert_str_eq(trace, "");
	loop_again_arm(other);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "b");
}
END_TEST

START_TEST(a_turn_that_nothing_is_armed_for_waits)
{
	ck_assert_int_eq(loop_again_new(loop, note, a, &again), 0);
	loop_again_arm(again);
	loop_run_once(loop, true);
	check_that_a_turn_waits();
	ck_assert_str_eq(trace, "a");
}
END_TEST

static void free_both(void *arg)
{
	note(arg);
	again = loop_again_free(again);
	other = loop_again_free(other);
}

/* Both are due in this turn; the one that comes first takes itself and the other one away. */
START_TEST(one_may_free_itself_and_another_that_is_due)
{
	ck_assert_int_eq(loop_again_new(loop, free_both, a, &again), 0);
	ck_assert_int_eq(loop_again_new(loop, free_both, a, &other), 0);
	loop_again_arm(again);
	loop_again_arm(other);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "a");
	ck_assert_ptr_null(again);
	ck_assert_ptr_null(other);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "a");
}
END_TEST

static void arm_and_free(void *arg)
{
	note(arg);
	loop_again_arm(again);
	again = loop_again_free(again);
}

START_TEST(one_may_free_itself_after_it_has_armed_itself_again)
{
	ck_assert_int_eq(loop_again_new(loop, arm_and_free, a, &again), 0);
	loop_again_arm(again);
	loop_run_once(loop, false);
	ck_assert_str_eq(trace, "a");
	check_that_a_turn_waits();
	ck_assert_str_eq(trace, "a");
}
END_TEST

static TCase *agains(void)
{
	TCase *t = tcase_create("again");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_function_runs_again_only_when_armed);
	tcase_add_test(t, an_armed_function_runs_once_in_the_next_turn);
	tcase_add_test(t, the_turn_in_which_it_runs_does_not_wait);
	tcase_add_test(t, a_timer_that_arms_itself_starves_no_other);
	tcase_add_test(t, it_runs_after_ready_descriptors_and_before_deferred_calls);
	tcase_add_test(t, they_run_in_the_order_in_which_they_were_armed);
	tcase_add_test(t, a_turn_begins_with_functions_armed_for_it);
	tcase_add_loop_test(t, a_function_armed_by_another_runs_in_the_next_turn, 0, 2);
	tcase_add_test(t, a_freed_function_does_not_run_and_makes_no_turn);
	tcase_add_test(t, a_turn_that_nothing_is_armed_for_waits);
	tcase_add_test(t, one_may_free_itself_and_another_that_is_due);
	tcase_add_test(t, one_may_free_itself_after_it_has_armed_itself_again);
	return t;
}

int main(void)
{
	Suite *s = suite_create("loop");
	TCase *t = tcase_create("loop");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, deferred_calls_run_in_the_order_of_posting);
	tcase_add_test(t, a_pair_posted_twice_runs_once);
	tcase_add_test(t, a_cancelled_call_does_not_run);
	tcase_add_test(t, a_call_that_posts_itself_does_not_starve_descriptors);
	tcase_add_test(t, functions_posted_before_the_first_turn_run_behind_ready_events);
	tcase_add_test(t, a_long_chain_of_deferred_calls_ends_without_waiting);
	tcase_add_test(t, random_pairs_run_once_and_in_order);
	tcase_add_test(t, posting_costs_the_same_however_many_wait);
	tcase_add_test(t, quitting_runs_what_was_deferred);
	tcase_add_test(t, quitting_before_running_returns_at_once_and_the_first_code_counts);
	tcase_add_test(t, a_timer_may_free_itself);
	tcase_add_test(t, a_timer_is_never_early);
	tcase_add_test(t, a_timer_fires_once_per_arming);
	tcase_add_test(t, time_that_was_stood_still_has_not_passed);
	tcase_add_test(t, a_timer_fires_when_its_time_has_passed_at_once);
	tcase_add_test(t, a_clock_that_is_frozen_moves_by_hand_alone);
	tcase_add_test(t, a_disarmed_timer_does_not_fire);
	tcase_add_test(t, a_descriptor_is_reported_while_it_is_ready_and_not_while_paused);
	tcase_add_test(t, a_descriptor_handle_may_free_itself);
	tcase_add_test(t, a_path_that_cannot_be_watched_is_refused);
	tcase_add_test(t, signals_of_one_turn_are_reported_once);
	tcase_add_test(t, a_signal_handle_may_free_itself);
	suite_add_tcase(s, t);
	suite_add_tcase(s, agains());
	return suite_run(s);
}
