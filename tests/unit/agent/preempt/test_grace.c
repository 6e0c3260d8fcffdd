/* SPDX-License-Identifier: Apache-2.0 */

/* Two rounds and the time between them, and notices while one is up. */

#include "tests/unit/preempt_script.h"
#include "tests/unit/run.h"

#include <errno.h>

enum { SECOND = 1000 };

/* Two workers at step 9, with a step a second, get a minute's notice, and are at step 10 now.
 */
static void a_minute(void)
{
	start(0, 9);
	start(1, 9);
	notice(true, 60 * SECOND);
	expect("announce read publish:10");
	ck_assert(!preempt_view(p).final);
	now += SECOND;
	ask(0, 10);
	expect("read 0:save@10");
	ask(1, 10);
	expect("1:save@10");
}

/* ... and have saved, in half a second. */
static void a_countdown(void)
{
	a_minute();
	now += SECOND / 2;
	saved(0, 10);
	expect("");
	state_is("saving");
	saved(1, 10);
	expect("read publish:max");
	state_is("countdown");
}

/* Both workers go on, with a step each `pace_ms`, until the machine has an order; calls it when it
 * is due. Returns the orders. */
static const char *go_on(uint64_t pace_ms)
{
	const char *line = "";

	while (!*line && now < 1000000 + 60 * SECOND) {
		now += pace_ms;
		for (int i = 0; i < 2; i++)
			if (runs[i])
				begin(i, board[i].step + 1);
		if (preempt_due_ms(p) <= now)
			look();
		line = says();
	}
	return line;
}

START_TEST(workers_with_spare_time_save_continue_and_save_again)
{
	a_countdown();
	ck_assert(!preempt_view(p).final);
	ck_assert_int_eq(preempt_view(p).saved, 2);
	ask(0, 11);
	expect("0:continue@10");
	/* Six steps of a second, one more that the second worker is behind, with a quarter more,
	 * and two saves of half a second: eight and a quarter before the deadline. */
	ck_assert_str_eq(go_on(SECOND), "publish:min read publish:63");
	ck_assert_uint_ge(now, 1000000 + 51 * SECOND);
	ck_assert_uint_le(now, 1000000 + 53 * SECOND);
	ck_assert(preempt_view(p).final);
	ck_assert_int_eq(preempt_view(p).saved, 0);
	state_is("saving");
	ask(0, 63);
	ask(1, 63);
	expect("0:save_exit@63 1:save_exit@63");
	saved(0, 63);
	saved_again(0, 63);
	ask(1, 64);
	expect("1:exit@63");
	state_is("leaving");
	ck_assert_int_eq(preempt_saved_step(p, 0), 63);
	end(0, PREEMPT_END_LEFT);
	end(1, PREEMPT_END_LEFT);
	expect("stop");
	ck_assert_str_eq(reports, "notice of preemption from operator: maintenance\n"
				  "workers save at step 10\n"
				  "all have saved, and go on: they save again before the deadline\n"
				  "workers save at step 63 and leave\n"
				  "all have saved, and leave\n");
}
END_TEST

START_TEST(a_worker_saves_once_in_the_first_round)
{
	a_minute();
	ask(0, 11);
	expect("0:continue@10");
	ck_assert_int_eq(preempt_saved_step(p, 0), 10);
	ask(0, 12);
	expect("0:continue@10");
	ck_assert_int_eq(preempt_view(p).saved, 1);
	ask(1, 11);
	expect("read publish:max 1:continue@10");
}
END_TEST

START_TEST(the_time_for_two_saves_is_two_margins)
{
	for (int less = 0; less < 2; less++) {
		start(0, 9);
		notice(true, 13 * SECOND - less);
		expect("announce read publish:10");
		now += SECOND;
		ask(0, 10);
		expect(less ? "read 0:save_exit@10" : "read 0:save@10");
		ck_assert_int_eq(preempt_view(p).final, less);
		preempt_cancel(p);
		expect("clear");
	}
}
END_TEST

START_TEST(the_slowest_worker_makes_the_margin)
{
	start(0, 9);
	start(1, 9);
	notice(true, 60 * SECOND);
	expect("announce read publish:10");
	begin(0, 10);
	begin(0, 11);
	now += 6 * SECOND;
	begin(0, 12);
	ask(1, 10); /* 36 seconds of the 54 that are left */
	expect("read 1:save_exit@10");
}
END_TEST

START_TEST(steps_that_become_slower_make_the_margin_wider)
{
	a_countdown();
	/* The mean of steps of 1 and then 4 seconds is 3.4 after 10 of these: 21 seconds. */
	ck_assert_str_eq(go_on(4 * SECOND), "publish:min read publish:20");
	ck_assert_uint_eq(now, 1000000 + 1500 + 9 * 4 * SECOND);
}
END_TEST

START_TEST(time_spent_saving_does_not_count_as_steps)
{
	a_minute();
	now += 10 * SECOND;
	saved(0, 10);
	saved(1, 10);
	expect("read publish:max");
	/* Six steps of a second, two saves of ten: 26 seconds before the deadline. */
	ck_assert_str_eq(go_on(SECOND), "publish:min read publish:34");
	ck_assert_uint_ge(now, 1000000 + 34 * SECOND);
	ck_assert_uint_le(now, 1000000 + 35 * SECOND);
}
END_TEST

START_TEST(time_of_an_unfinished_save_does_not_count_as_steps)
{
	a_minute();
	now += 20 * SECOND;
	look();
	expect("");
	now += 9 * SECOND;
	/* Twenty-nine seconds after the order there are thirty left: enough, steps take one. */
	saved(0, 10);
	board[0].steps++;
	look();
	expect("");
	state_is("saving");
	ck_assert(preempt_view(p).final); /* but two saves take 58 */
}
END_TEST

START_TEST(a_save_that_took_most_of_the_time_is_the_only_one)
{
	start(0, 9);
	notice(true, 60 * SECOND);
	expect("announce read publish:10");
	now += SECOND;
	ask(0, 10);
	expect("read 0:save@10");
	now += 29 * SECOND;
	saved(0, 10);
	/* 30 seconds are left, and one save and three steps take 32. */
	expect("read");
	state_is("leaving");
	ck_assert_ptr_nonnull(
		strstr(reports, "there is no second save: some steps and a save take "
				"1m 4s, and 30s are left; workers that have saved leave\n"));
	ck_assert_str_eq(
		preempt_no_second_text(p), "some steps and a save take 1m 4s, and 30s are left");
	ask(0, 11);
	expect("0:exit@10");
	ck_assert_int_eq(end(0, PREEMPT_END_DONE), PREEMPT_LEFT);
	expect("stop");
}
END_TEST

START_TEST(a_long_save_that_fits_again_is_repeated_at_once)
{
	start(0, 9);
	notice(true, 60 * SECOND);
	expect("announce read publish:10");
	now += SECOND;
	ask(0, 10);
	expect("read 0:save@10");
	now += 25 * SECOND;
	ask(0, 11);
	expect("read publish:min read publish:12 0:continue@12");
	state_is("saving");
	ck_assert(preempt_view(p).final);
	ask(0, 12);
	expect("0:save_exit@12");
}
END_TEST

START_TEST(an_unfinished_save_at_the_margin_is_the_last)
{
	start(0, 9);
	start(1, 9);
	notice(true, 60 * SECOND);
	expect("announce read publish:10");
	now += SECOND;
	ask(0, 10);
	expect("read 0:save@10");
	saved(0, 10);
	while (now < 1000000 + 53 * SECOND) {
		ck_assert(!preempt_view(p).final);
		now += SECOND;
		ask(0, board[0].step + 1);
		expect("0:continue@10");
	}
	look();
	expect("");
	ck_assert(!preempt_view(p).final);
	now += SECOND;
	begin(0, board[0].step + 1);
	look();
	expect("");
	ck_assert(preempt_view(p).final);
	state_is("saving");
	ask(0, board[0].step);
	expect("0:exit@10");
	ask(1, 10);
	expect("1:save_exit@10");
	saved(1, 10);
	state_is("leaving");
}
END_TEST

START_TEST(the_margin_is_checked_after_the_measured_time_and_at_half_time)
{
	a_countdown();
	ck_assert_uint_le(preempt_due_ms(p), now + 1500);
	now = 1000000 + 40 * SECOND;
	board[0].steps += 39;
	board[1].steps += 39;
	look();
	expect("");
	ck_assert_uint_ge(preempt_due_ms(p), now + (20000 - 7000) / 2);
	ck_assert_uint_lt(preempt_due_ms(p), now + (20000 - 7000) / 2 + 100);
	now = 1000000 + 52 * SECOND;
	board[0].steps += 12;
	board[1].steps += 12;
	look();
	expect("");
	state_is("countdown");
	ck_assert_uint_gt(preempt_due_ms(p), now);
	ck_assert_uint_le(preempt_due_ms(p), now + 2 * SECOND);
}
END_TEST

START_TEST(a_failure_in_the_countdown_begins_the_last_round_at_once)
{
	a_countdown();
	begin(0, 20);
	begin(1, 19);
	ck_assert_int_eq(end(1, PREEMPT_END_OTHER), PREEMPT_FAILED);
	expect("publish:min read publish:21");
	ck_assert(preempt_view(p).final);
	state_is("saving");
	ask(0, 21);
	expect("0:save_exit@21");
	saved(0, 21);
	ck_assert_str_eq(missing(), "worker:1 ended before step 21 (its last was 19)");
}
END_TEST

START_TEST(a_worker_that_ends_in_the_countdown_does_not_stop_others)
{
	a_countdown();
	start(2, 9);
	expect("read");
	ck_assert_int_eq(end(0, PREEMPT_END_DONE), PREEMPT_SUCCEEDED);
	expect("");
	ck_assert_int_eq(end(1, PREEMPT_END_LEFT), PREEMPT_LEFT);
	expect("");
	state_is("countdown");
	ck_assert_str_eq(missing(), "worker:2 did not reach step 10 (its last was 9)");
	end(2, PREEMPT_END_DONE);
	expect("stop");
}
END_TEST

START_TEST(the_last_round_comes_once)
{
	a_countdown();
	start(2, 11);
	start(3, 11);
	expect("read");
	end(1, PREEMPT_END_OTHER);
	expect("publish:min read publish:12");
	end(2, PREEMPT_END_OTHER);
	notice(false, -1);
	notice(true, 10);
	expect("");
	now += 5;
	look();
	expect("");
	ask(0, 12);
	expect("0:save_exit@12");
}
END_TEST

START_TEST(a_failure_in_the_first_round_makes_it_the_last)
{
	a_minute();
	start(2, 9);
	expect("read");
	saved(0, 10);
	end(1, PREEMPT_END_SIGNAL);
	expect("");
	ck_assert(preempt_view(p).final);
	ask(0, 11);
	expect("0:exit@10");
	ask(2, 10);
	expect("2:save_exit@10");
}
END_TEST

START_TEST(the_failure_of_a_nonparticipant_changes_nothing)
{
	start(0, 9);
	start(1, -1);
	notice(true, 60 * SECOND);
	expect("announce read publish:10 signal:1");
	end(1, PREEMPT_END_OTHER);
	now += SECOND;
	ask(0, 10);
	expect("read 0:save@10");
	start(2, -1);
	saved(0, 10);
	expect("read publish:max signal:2");
	end(2, PREEMPT_END_OTHER);
	expect("");
	state_is("countdown");
}
END_TEST

START_TEST(many_notices_are_one_agreement)
{
	start(0, 9);
	start(1, 9);
	slow = true;
	notice(true, 60 * SECOND);
	notice(true, 60 * SECOND);
	expect("announce read");
	notice(true, 90 * SECOND);
	expect("");
	look();
	expect("publish:10");
	notice(true, 70 * SECOND);
	expect("");
	ck_assert_int_eq(preempt_view(p).notices, 4);
	ck_assert_int_eq(preempt_view(p).deadline_ms, 1060000);
	state_is("saving");
	ck_assert_str_eq(reports, "notice of preemption from operator: maintenance\n"
				  "workers save at step 10\n");
}
END_TEST

/* How often a notice was reported. */
static int times_reported(void)
{
	int n = 0;

	for (const char *at = reports; (at = strstr(at, "notice of preemption")); at++)
		n++;
	return n;
}

static void notice_of(const char *source, const char *reason, int64_t ms)
{
	struct preempt_notice n = { now, (int64_t)now + ms, source, reason };

	preempt_notice(p, &n, true);
	says();
	now += SECOND;
}

START_TEST(a_repeated_notice_is_only_counted)
{
	start(0, 9);
	for (int i = 0; i < 50; i++)
		notice_of("worker", i % 2 ? "odd" : "even", 600 * SECOND - i * SECOND);
	ck_assert_int_eq(times_reported(), 1);
	notice_of("aws", "the spot goes", 1000 * SECOND);
	ck_assert_int_eq(times_reported(), 2);
	ck_assert_ptr_nonnull(strstr(reports, "from aws: the spot goes"));
	notice_of("worker", "sooner", 100 * SECOND);
	ck_assert_int_eq(times_reported(), 3);
	notice_of("operator", "", 600 * SECOND);
	notice_of("aws", "still", 600 * SECOND);
	ck_assert_int_eq(times_reported(), 4);
	ck_assert_int_eq(preempt_view(p).notices, 54);
	notice(false, -1);
	says();
	notice(false, -1);
	says();
	ck_assert_int_eq(times_reported(), 5);
	preempt_cancel(p);
	says();
	notice_of("aws", "again", 600 * SECOND);
	ck_assert_int_eq(times_reported(), 6);
}
END_TEST

START_TEST(notices_with_less_time_are_reported_up_to_a_limit_per_source)
{
	start(0, 9);
	for (int i = 0; i < 100; i++)
		notice_of("worker", "less", (100000 - 10 * i) * SECOND);
	ck_assert_int_eq(times_reported(), 8);
	notice_of("gce", "the host goes", 200000 * SECOND);
	ck_assert_int_eq(times_reported(), 9);
	for (int i = 0; i < 100; i++) {
		char source[16];

		snprintf(source, sizeof(source), "source %d", i);
		notice_of(source, "", 200000 * SECOND);
	}
	ck_assert_int_eq(times_reported(), 16);
	ck_assert_int_eq(preempt_view(p).notices, 201);
}
END_TEST

START_TEST(a_second_saved_for_one_step_changes_nothing)
{
	start(0, 9);
	notice(true, 600 * SECOND);
	expect("announce read publish:10");
	ask(0, 10);
	expect("read 0:save@10");
	saved(0, 10);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(preempt_saved(p, 0, 10, now), 1);
	expect("read publish:max");
	ask(0, 11);
	expect("0:continue@10");
	ck_assert_int_eq(preempt_saved(p, 0, 10, now), 1);
	ck_assert_int_eq(preempt_saved(p, 0, 11, now), -ERANGE);
}
END_TEST

START_TEST(an_earlier_deadline_ends_the_countdown_earlier_and_a_later_one_does_not)
{
	a_countdown();
	notice(true, 3600 * SECOND);
	ck_assert_int_eq(preempt_view(p).deadline_ms, 1060000);
	notice(true, 10 * SECOND);
	expect("");
	state_is("countdown");
	ck_assert_int_eq(preempt_view(p).deadline_ms, (int64_t)now + 10 * SECOND);
	ck_assert_uint_le(preempt_due_ms(p), now + 3 * SECOND);
	now += 3 * SECOND;
	begin(0, 13);
	board[0].steps += 2;
	begin(1, 13);
	board[1].steps += 2;
	look();
	expect("publish:min read publish:14");
	ck_assert_uint_eq(preempt_due_ms(p), now + 7 * SECOND);
}
END_TEST

START_TEST(a_near_deadline_ends_the_countdown_without_a_second_save)
{
	a_countdown();
	begin(0, 30);
	notice(true, 2 * SECOND);
	ck_assert_uint_le(preempt_due_ms(p), now);
	look();
	expect("publish:10");
	state_is("leaving");
	ask(0, 31);
	expect("0:exit@10");
	ask(1, 11);
	expect("1:exit@10");
}
END_TEST

START_TEST(a_notice_without_grace_ends_the_countdown_at_once)
{
	a_countdown();
	notice(false, -1);
	expect("publish:min read publish:11");
	ck_assert_uint_eq(preempt_due_ms(p), 1060000);
}
END_TEST

START_TEST(a_notice_without_grace_makes_the_first_round_the_last)
{
	start(0, 9);
	start(1, 9);
	notice(true, 3600 * SECOND);
	expect("announce read publish:10");
	ask(0, 10);
	expect("read 0:save@10");
	notice(false, -1);
	expect("");
	ck_assert_uint_eq(preempt_due_ms(p), now + 600 * SECOND);
	ask(1, 10);
	expect("1:save_exit@10");
	ask(0, 11);
	expect("0:exit@10");
}
END_TEST

START_TEST(a_deadline_shortens_a_notice_without_grace)
{
	start(0, 9);
	notice(false, -1);
	expect("announce read publish:10");
	notice(true, 30 * SECOND);
	ck_assert(preempt_view(p).final);
	ck_assert_uint_eq(preempt_due_ms(p), now + 30 * SECOND);
}
END_TEST

START_TEST(a_deadline_that_is_unknown_or_has_passed_gives_no_grace)
{
	for (int i = 0; i < 3; i++) {
		start(0, 9);
		notice(true, i == 0 ? -1 : 0);
		if (i == 2)
			notice(true, 0);
		expect("announce read publish:10");
		ck_assert(preempt_view(p).final);
		ck_assert_uint_eq(preempt_due_ms(p), now + 600 * SECOND);
		preempt_cancel(p);
		expect("clear");
	}
}
END_TEST

START_TEST(with_grace_the_limit_is_the_deadline)
{
	a_minute();
	now = 1000000 + 60 * SECOND;
	look();
	expect("stop");
	ck_assert_str_eq(why,
		"the time is over: worker:0 did not report that it had saved at step 10 "
		"(its last was 10); worker:1 did not report that it had saved at step 10 "
		"(its last was 10)");
}
END_TEST

START_TEST(a_worker_that_first_steps_in_the_countdown_saves_in_the_last_round)
{
	start(2, -1);
	board[2].connected = true;
	a_minute();
	ask(0, 11);
	ask(1, 11);
	/* The machine reads the silent worker before it reports that all have saved. */
	expect("read publish:max 0:continue@10 1:continue@10");
	ask(2, 3);
	expect("2:continue@10");
	state_is("countdown");
	notice(false, -1);
	expect("publish:min read publish:12");
	ask(2, 12);
	expect("2:save_exit@12");
}
END_TEST

START_TEST(a_worker_whose_first_step_is_read_late_saves_in_the_first_round)
{
	start(2, -1);
	board[2].connected = true;
	a_minute();
	saved(0, 10);
	begin(2, 3);
	saved(1, 10);
	expect("read");
	state_is("saving");
	ask(2, 10);
	expect("2:save@10");
	saved(2, 10);
	expect("read publish:max");
}
END_TEST

START_TEST(participants_leave_in_the_countdown_and_a_signalled_worker_stays)
{
	start(2, -1);
	notice(true, 60 * SECOND);
	expect("announce read signal:2");
	start(0, 9);
	expect("read publish:10");
	now += SECOND;
	ask(0, 10);
	expect("read 0:save@10");
	saved(0, 10);
	expect("read publish:max");
	end(0, PREEMPT_END_DONE);
	expect("read publish:10");
	state_is("leaving");
	ask(2, 5);
	expect("2:continue@10");
	state_is("saving");
	ask(2, 10);
	expect("2:save@10");
	end(2, PREEMPT_END_SIGNAL);
	expect("stop");
}
END_TEST

START_TEST(a_newcomer_is_asked_after_the_last_participant_fails)
{
	start(2, -1);
	board[2].connected = true;
	a_minute();
	saved(0, 10);
	saved(1, 10);
	expect("read publish:max");
	end(0, PREEMPT_END_DONE);
	expect("");
	begin(2, 30);
	end(1, PREEMPT_END_OTHER);
	expect("publish:10 read");
	state_is("saving");
	ask(2, 31);
	expect("2:save_exit@10");
	end(2, PREEMPT_END_LEFT);
	expect("stop");
}
END_TEST

START_TEST(a_question_in_the_countdown_is_answered_continue)
{
	a_countdown();
	start(2, -1);
	board[2].connected = true;
	expect("read");
	ask(2, 50); /* it had seen the step of the first round still */
	expect("2:continue@10");
	state_is("countdown");
}
END_TEST

START_TEST(no_worker_is_ordered_to_save_before_the_time_is_measured)
{
	start(0, 9);
	notice(true, 9 * SECOND);
	expect("announce read publish:10");
	slow = true;
	now += SECOND;
	ask(0, 10);
	expect("read");
	expect("");
	look();
	expect("0:save_exit@10");
}
END_TEST

START_TEST(time_before_a_newcomers_first_sample_does_not_count)
{
	start(2, -1);
	board[2].connected = true;
	notice(true, 60 * SECOND);
	expect("announce read signal:2");
	start(0, 9);
	expect("read publish:10");
	now += SECOND;
	ask(0, 10);
	expect("read 0:save@10");
	ask(2, 10);
	expect("2:save@10");
	now += 10 * SECOND;
	look(); /* the first one at the newcomer, which is saving */
	saved(2, 10);
	begin(2, 11);
	now += SECOND;
	look();
	ck_assert(!preempt_view(p).final);
}
END_TEST

START_TEST(a_worker_that_ended_gets_no_signal)
{
	start(0, -1);
	start(1, -1);
	slow = true;
	notice(false, -1);
	expect("announce read");
	look();
	end(0, PREEMPT_END_DONE);
	expect("signal:1");
}
END_TEST

START_TEST(the_last_round_waits_until_all_see_it)
{
	start(2, -1);
	board[2].connected = true;
	a_minute();
	saved(0, 10);
	saved(1, 10);
	expect("read publish:max");
	slow = true;
	start(3, -1);
	board[3].connected = true;
	expect("read");
	begin(0, 40);
	notice(false, -1);
	/* All must also see what was published after READ. */
	expect("publish:min");
	look();
	expect("read");
	begin(1, 50);
	look();
	expect("publish:51");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("preempt_grace");
	TCase *t = tcase_create("grace");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, workers_with_spare_time_save_continue_and_save_again);
	tcase_add_test(t, a_worker_saves_once_in_the_first_round);
	tcase_add_test(t, the_time_for_two_saves_is_two_margins);
	tcase_add_test(t, the_slowest_worker_makes_the_margin);
	tcase_add_test(t, steps_that_become_slower_make_the_margin_wider);
	tcase_add_test(t, time_spent_saving_does_not_count_as_steps);
	tcase_add_test(t, time_of_an_unfinished_save_does_not_count_as_steps);
	tcase_add_test(t, a_save_that_took_most_of_the_time_is_the_only_one);
	tcase_add_test(t, a_long_save_that_fits_again_is_repeated_at_once);
	tcase_add_test(t, an_unfinished_save_at_the_margin_is_the_last);
	tcase_add_test(t, the_margin_is_checked_after_the_measured_time_and_at_half_time);
	tcase_add_test(t, a_failure_in_the_countdown_begins_the_last_round_at_once);
	tcase_add_test(t, a_worker_that_ends_in_the_countdown_does_not_stop_others);
	tcase_add_test(t, the_last_round_comes_once);
	tcase_add_test(t, a_failure_in_the_first_round_makes_it_the_last);
	tcase_add_test(t, the_failure_of_a_nonparticipant_changes_nothing);
	tcase_add_test(t, many_notices_are_one_agreement);
	tcase_add_test(t, a_repeated_notice_is_only_counted);
	tcase_add_test(t, notices_with_less_time_are_reported_up_to_a_limit_per_source);
	tcase_add_test(t, a_second_saved_for_one_step_changes_nothing);
	tcase_add_test(t, an_earlier_deadline_ends_the_countdown_earlier_and_a_later_one_does_not);
	tcase_add_test(t, a_near_deadline_ends_the_countdown_without_a_second_save);
	tcase_add_test(t, a_notice_without_grace_ends_the_countdown_at_once);
	tcase_add_test(t, a_notice_without_grace_makes_the_first_round_the_last);
	tcase_add_test(t, a_deadline_shortens_a_notice_without_grace);
	tcase_add_test(t, a_deadline_that_is_unknown_or_has_passed_gives_no_grace);
	tcase_add_test(t, with_grace_the_limit_is_the_deadline);
	tcase_add_test(t, a_worker_that_first_steps_in_the_countdown_saves_in_the_last_round);
	tcase_add_test(t, a_worker_whose_first_step_is_read_late_saves_in_the_first_round);
	tcase_add_test(t, participants_leave_in_the_countdown_and_a_signalled_worker_stays);
	tcase_add_test(t, a_newcomer_is_asked_after_the_last_participant_fails);
	tcase_add_test(t, a_question_in_the_countdown_is_answered_continue);
	tcase_add_test(t, no_worker_is_ordered_to_save_before_the_time_is_measured);
	tcase_add_test(t, time_before_a_newcomers_first_sample_does_not_count);
	tcase_add_test(t, a_worker_that_ended_gets_no_signal);
	tcase_add_test(t, the_last_round_waits_until_all_see_it);
	suite_add_tcase(s, t);
	return suite_run(s);
}
