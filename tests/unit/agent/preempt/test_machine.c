/* SPDX-License-Identifier: Apache-2.0 */

/* One round: the participants, the agreed step, the answers, and the meaning of an end. */

#include "tests/unit/preempt_script.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <time.h>

START_TEST(without_a_notice_all_go_on)
{
	start(0, 5);
	ask(0, 6);
	expect("0:continue@-1");
	state_is("none");
	ck_assert_int_eq(preempt_saved(p, 0, 6, now), -ERANGE);
	ck_assert_uint_eq(preempt_due_ms(p), UINT64_MAX);
	ck_assert_int_eq(end(0, PREEMPT_END_DONE), PREEMPT_SUCCEEDED);
	start(0, 5);
	ck_assert_int_eq(end(0, PREEMPT_END_LEFT), PREEMPT_FAILED);
	start(0, 5);
	ck_assert_int_eq(end(0, PREEMPT_END_SIGNAL), PREEMPT_FAILED);
	start(0, 5);
	ck_assert_int_eq(end(0, PREEMPT_END_OTHER), PREEMPT_FAILED);
	ck_assert_str_eq(missing(), "");
	expect("");
}
END_TEST

START_TEST(the_step_is_one_more_than_the_last_that_any_has_begun)
{
	start(0, 37);
	start(1, 40);
	start(2, 12);
	notice(false, -1);
	state_is("agreeing");
	expect("announce read publish:41");
	state_is("saving");
	ck_assert_int_eq(preempt_view(p).step, 41);
	ck_assert_int_eq(preempt_view(p).participants, 3);
	ck_assert(preempt_view(p).final);
	ck_assert_str_eq(reports,
		"notice of preemption from operator: maintenance\nworkers save at step 41 and leave\n");
}
END_TEST

START_TEST(steps_begun_before_all_see_the_notice_count)
{
	start(0, 3);
	start(1, 3);
	slow = true;
	notice(false, -1);
	expect("announce read");
	ck_assert_uint_eq(preempt_due_ms(p), UINT64_MAX);
	begin(1, 4);
	begin(1, 5);
	ask(0, 4);
	expect("");
	look();
	expect("publish:6 0:continue@6");
}
END_TEST

START_TEST(a_worker_below_the_step_continues_and_others_save)
{
	start(0, 9);
	start(1, 9);
	start(2, 9);
	notice(false, -1);
	expect("announce read publish:10");
	ask(0, 5);
	expect("0:continue@10");
	ask(0, 10);
	expect("0:save_exit@10");
	ask(1, 500);
	expect("1:save_exit@10");
	ask(2, 10);
	expect("2:save_exit@10");
	saved(0, 10);
	saved(1, 500);
	state_is("saving");
	ck_assert_int_eq(preempt_view(p).saved, 2);
	saved(2, 10);
	state_is("leaving");
	ck_assert_int_eq(preempt_view(p).saved, 3);
	ck_assert_int_eq(preempt_saved_step(p, 0), 10);
	ck_assert_int_eq(preempt_saved_step(p, 1), 500);
	ck_assert_int_eq(preempt_saved_step(p, 7), -1);
	expect("");
	ck_assert_ptr_nonnull(strstr(reports, "all have saved, and leave\n"));
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(end(i, i ? PREEMPT_END_LEFT : PREEMPT_END_DONE), PREEMPT_LEFT);
	expect("stop");
	state_is("over");
	ck_assert_str_eq(why, "all have left");
	ck_assert_str_eq(missing(), "");
	ck_assert_uint_eq(preempt_due_ms(p), UINT64_MAX);
}
END_TEST

START_TEST(a_worker_saves_once_and_then_leaves)
{
	start(0, 9);
	start(1, 9);
	notice(false, -1);
	expect("announce read publish:10");
	ask(0, 10);
	expect("0:save_exit@10");
	ask(0, 11);
	expect("0:exit@10");
	ck_assert_int_eq(preempt_saved_step(p, 0), 10);
	ask(0, 12);
	expect("0:exit@10");
	saved_again(0, 10);
	ck_assert_int_eq(preempt_saved(p, 0, 11, now), -ERANGE);
	ck_assert_int_eq(preempt_saved(p, 1, 10, now), -ERANGE);
	ck_assert_int_eq(preempt_saved(p, 1, -1, now), -ERANGE);
	ck_assert_int_eq(preempt_saved(p, 6, 10, now), -ERANGE);
}
END_TEST

START_TEST(saved_may_be_repeated_for_the_ordered_step_only)
{
	start(0, 9);
	notice(false, -1);
	expect("announce read publish:10");
	ask(0, 12);
	ck_assert_int_eq(preempt_saved(p, 0, 12, now), -ERANGE);
	expect("0:save_exit@10");
	ck_assert_int_eq(preempt_saved(p, 0, 10, now), -ERANGE);
	saved(0, 12);
	saved_again(0, 12);
	ck_assert_int_eq(preempt_view(p).saved, 1);
}
END_TEST

START_TEST(a_worker_that_leaves_as_ordered_has_saved)
{
	start(0, 9);
	start(1, 9);
	start(2, 9);
	notice(false, -1);
	expect("announce read publish:10");
	ask(0, 10);
	ask(1, 10);
	ask(2, 10);
	expect("0:save_exit@10 1:save_exit@10 2:save_exit@10");
	ck_assert_int_eq(end(0, PREEMPT_END_DONE), PREEMPT_LEFT);
	ck_assert_int_eq(end(1, PREEMPT_END_LEFT), PREEMPT_LEFT);
	ck_assert_int_eq(end(2, PREEMPT_END_OTHER), PREEMPT_FAILED);
	expect("stop");
	ck_assert_int_eq(preempt_saved_step(p, 0), 10);
	ck_assert_int_eq(preempt_saved_step(p, 1), 10);
	ck_assert_int_eq(preempt_saved_step(p, 2), -1);
	ck_assert_str_eq(missing(),
		"worker:2 ended before it reported that it had saved at step 10 (its last was 10)");
	ck_assert_ptr_nonnull(strstr(reports, "worker:2 ended before it reported"));
	ck_assert_ptr_null(strstr(reports, "worker:0"));
}
END_TEST

START_TEST(ends_of_workers_without_an_order_have_their_meaning)
{
	for (int i = 0; i < 5; i++)
		start(i, 9);
	notice(false, -1);
	expect("announce read publish:10");
	ck_assert_int_eq(end(0, PREEMPT_END_DONE), PREEMPT_SUCCEEDED);
	ck_assert_int_eq(end(1, PREEMPT_END_LEFT), PREEMPT_LEFT);
	ck_assert_int_eq(end(2, PREEMPT_END_SIGNAL), PREEMPT_FAILED);
	ck_assert_int_eq(end(3, PREEMPT_END_OTHER), PREEMPT_FAILED);
	ck_assert_int_eq(preempt_ended(p, 7, PREEMPT_END_OTHER, now), PREEMPT_FAILED);
	expect("");
	state_is("saving");
	ck_assert_str_eq(missing(), "worker:1 ended before step 10 (its last was 9); "
				    "worker:2 ended before step 10 (its last was 9); "
				    "worker:3 ended before step 10 (its last was 9); "
				    "worker:4 did not reach step 10 (its last was 9)");
	ck_assert_ptr_nonnull(strstr(reports, "worker:3 ended before step 10 (its last was 9)\n"));
	ask(4, 10);
	expect("4:save_exit@10");
	saved(4, 10);
	state_is("leaving");
}
END_TEST

START_TEST(an_ended_worker_affects_no_step_and_blocks_no_other)
{
	start(0, 9);
	start(1, 70);
	slow = true;
	notice(false, -1);
	expect("announce read");
	end(1, PREEMPT_END_OTHER);
	look();
	expect("publish:10");
	ask(0, 10);
	expect("0:save_exit@10");
	end(0, PREEMPT_END_LEFT);
	expect("stop");
}
END_TEST

START_TEST(dead_workers_are_left_out_at_each_stage)
{
	for (int i = 0; i < 4; i++)
		start(i, 1);
	notice(false, -1);
	expect("announce read publish:2");
	end(0, PREEMPT_END_OTHER); /* before */
	ask(1, 2);
	end(1, PREEMPT_END_OTHER); /* it asked, and ended before the answer */
	expect("");
	ask(2, 2);
	expect("2:save_exit@2");
	end(2, PREEMPT_END_SIGNAL); /* with the order */
	ask(3, 2);
	expect("3:save_exit@2");
	saved(3, 2);
	end(3, PREEMPT_END_OTHER); /* it has saved */
	expect("stop");
	ck_assert_int_eq(preempt_saved_step(p, 3), 2);
	ck_assert_str_eq(missing(),
		"worker:0 ended before step 2 (its last was 1); "
		"worker:1 ended before step 2 (its last was 2); "
		"worker:2 ended before it reported that it had saved at step 2 (its last was 2)");
}
END_TEST

START_TEST(a_notice_without_workers_stops_the_job_at_once)
{
	notice(true, 60000);
	expect("stop");
	state_is("over");
	ck_assert_str_eq(why, "there is no worker to save");
	ck_assert_ptr_nonnull(strstr(reports, "notice of preemption"));
	notice(false, -1);
	expect("");
	ck_assert_int_eq(preempt_view(p).notices, 2);
	preempt_cancel(p);
	expect("");
	state_is("none");
}
END_TEST

START_TEST(signalled_workers_without_the_library_are_not_participants)
{
	start(0, 9);
	start(1, -1);
	start(2, -1);
	board[2].connected = true;
	notice(false, -1);
	expect("announce read publish:10 signal:1");
	ck_assert_int_eq(preempt_view(p).participants, 1);
	ask(0, 10);
	expect("0:save_exit@10");
	end(0, PREEMPT_END_LEFT);
	expect("read");
	state_is("leaving"); /* the signalled one has until the limit */
	ck_assert_int_eq(end(1, PREEMPT_END_SIGNAL), PREEMPT_LEFT);
	expect("read stop"); /* the worker that was left alone */
	ck_assert_str_eq(why, "all participants have left");
	ck_assert_int_eq(end(2, PREEMPT_END_SIGNAL), PREEMPT_LEFT);
	expect("");
}
END_TEST

START_TEST(ends_of_signalled_workers_have_their_meaning)
{
	for (int i = 0; i < 5; i++)
		start(i, -1);
	notice(false, -1);
	expect("announce read signal:0 signal:1 signal:2 signal:3 signal:4");
	state_is("agreeing");
	ck_assert_int_eq(end(0, PREEMPT_END_DONE), PREEMPT_LEFT);
	ck_assert_int_eq(end(1, PREEMPT_END_LEFT), PREEMPT_LEFT);
	ck_assert_int_eq(end(2, PREEMPT_END_SIGNAL), PREEMPT_LEFT);
	ck_assert_int_eq(end(3, PREEMPT_END_OTHER), PREEMPT_FAILED);
	expect("");
	ck_assert_str_eq(missing(), "worker:4 did not leave on the signal");
	ck_assert_int_eq(end(4, PREEMPT_END_SIGNAL), PREEMPT_LEFT);
	expect("stop");
}
END_TEST

START_TEST(without_reported_steps_all_are_signalled_until_the_first_step)
{
	start(0, -1);
	start(1, -1);
	board[0].connected = board[1].connected = true;
	notice(false, -1);
	expect("announce read signal:0 signal:1");
	ask(0, 7);
	expect("read publish:8 0:continue@8");
	ask(1, 3);
	expect("1:continue@8");
	ck_assert_int_eq(preempt_view(p).participants, 2);
	ask(1, 8);
	ask(0, 8);
	expect("1:save_exit@8 0:save_exit@8");
	ck_assert_int_eq(end(0, PREEMPT_END_SIGNAL), PREEMPT_LEFT);
	ck_assert_int_eq(end(1, PREEMPT_END_LEFT), PREEMPT_LEFT);
	expect("stop");
}
END_TEST

START_TEST(a_step_begun_before_any_report_counts)
{
	start(0, -1);
	start(1, -1);
	notice(false, -1);
	expect("announce read signal:0 signal:1");
	begin(1, 30);
	ask(0, 7);
	expect("read publish:31 0:continue@31");
}
END_TEST

START_TEST(how_agree_signals_no_worker)
{
	spec.how = SPEC_PREEMPT_AGREE;
	start(0, -1);
	start(1, -1);
	notice(false, -1);
	expect("announce read");
	ck_assert_str_eq(missing(), "worker:0 has begun no step; worker:1 has begun no step");
	now = preempt_due_ms(p);
	look();
	expect("stop");
	ck_assert_str_eq(
		why, "the time is over: worker:0 has begun no step; worker:1 has begun no step");
}
END_TEST

START_TEST(how_signal_signals_all_and_asks_none)
{
	spec.how = SPEC_PREEMPT_SIGNAL;
	start(0, 9);
	start(1, -1);
	notice(false, -1);
	state_is("leaving");
	expect("announce publish:max signal:0 signal:1");
	ask(0, 10);
	expect("0:continue@-1");
	ck_assert_int_eq(preempt_saved(p, 0, 10, now), -ERANGE);
	start(2, -1);
	expect("signal:2");
	ck_assert_int_eq(end(2, PREEMPT_END_SIGNAL), PREEMPT_LEFT);
	ck_assert_int_eq(end(1, PREEMPT_END_OTHER), PREEMPT_FAILED);
	notice(true, 5000);
	expect("");
	ck_assert_uint_eq(preempt_due_ms(p), now + 5000);
	now += 5000;
	look();
	expect("stop");
	ck_assert_str_eq(why, "the time is over: worker:0 did not leave on the signal");
}
END_TEST

START_TEST(a_late_worker_is_asked_or_signalled_like_the_others)
{
	start(0, 9);
	notice(false, -1);
	expect("announce read publish:10");
	start(1, -1);
	expect("read signal:1");
	start(2, 3);
	expect("read");
	ck_assert_int_eq(preempt_view(p).participants, 2);
	start(3, -1);
	board[3].connected = true;
	expect("read");
	ask(3, 11);
	expect("3:save_exit@10");
	ck_assert_int_eq(preempt_view(p).participants, 3);
}
END_TEST

START_TEST(silent_workers_are_read_again_before_the_end)
{
	start(0, 9);
	start(1, -1);
	board[1].connected = true;
	notice(false, -1);
	expect("announce read publish:10");
	ask(0, 10);
	expect("0:save_exit@10");
	begin(1, 1);
	end(0, PREEMPT_END_LEFT);
	expect("read");
	state_is("saving");
	ck_assert_str_eq(missing(), "worker:1 did not reach step 10 (its last was 1)");
	ask(1, 10);
	expect("1:save_exit@10");
	end(1, PREEMPT_END_LEFT);
	expect("stop");
}
END_TEST

START_TEST(a_worker_that_first_steps_after_all_saved_saves_too)
{
	start(0, 9);
	start(1, -1);
	board[1].connected = true;
	notice(false, -1);
	expect("announce read publish:10");
	ask(0, 10);
	expect("0:save_exit@10");
	saved(0, 10);
	state_is("leaving");
	ask(1, 2);
	expect("1:continue@10");
	state_is("saving");
	ask(1, 10);
	expect("1:save_exit@10");
	saved(1, 10);
	state_is("leaving");
}
END_TEST

START_TEST(a_withdrawn_question_is_not_answered)
{
	start(0, 9);
	start(1, 9);
	slow = true;
	notice(false, -1);
	expect("announce read");
	ask(0, 10);
	ask(1, 10);
	preempt_drop_question(p, 0);
	preempt_drop_question(p, 0);
	preempt_drop_question(p, 6);
	look();
	expect("publish:11 1:continue@11");
	ask(0, 11);
	preempt_drop_question(p, 0);
	expect("");
	ck_assert_int_eq(preempt_saved(p, 0, 11, now), -ERANGE);
	ask(0, 11);
	expect("0:save_exit@11");
}
END_TEST

START_TEST(a_question_of_an_ended_worker_is_ignored)
{
	start(0, 9);
	end(0, PREEMPT_END_DONE);
	preempt_add_question(p, 0, 10, now);
	preempt_add_question(p, 5, 10, now);
	preempt_add_question(p, -1, 10, now);
	expect("");
}
END_TEST

START_TEST(a_newer_question_replaces_the_older)
{
	start(0, 9);
	slow = true;
	notice(false, -1);
	expect("announce read");
	ask(0, 10);
	ask(0, 11);
	look();
	expect("publish:12 0:continue@12");
}
END_TEST

START_TEST(at_the_limit_remaining_workers_are_named_and_stopped)
{
	start(0, 9);
	start(1, 9);
	start(2, -1);
	board[2].connected = true;
	notice(false, -1);
	expect("announce read publish:10");
	ck_assert_uint_eq(preempt_due_ms(p), now + 600000);
	ask(0, 10);
	expect("0:save_exit@10");
	now += 599999;
	look();
	expect("");
	now++;
	board[1].step = 8;
	look();
	expect("stop");
	ck_assert_str_eq(why,
		"the time is over: worker:0 did not report that it had saved at step 10 "
		"(its last was 10); worker:1 did not reach step 10 (its last was 8)");
	ask(1, 10);
	expect("1:exit@10");
	saved(0, 10);
	ck_assert_int_eq(preempt_saved_step(p, 0), 10);
	ck_assert_int_eq(end(0, PREEMPT_END_SIGNAL), PREEMPT_LEFT);
	ck_assert_int_eq(end(1, PREEMPT_END_OTHER), PREEMPT_FAILED);
	expect("");
	notice(false, -1);
	expect("");
	state_is("over");
}
END_TEST

START_TEST(after_a_failure_unsaved_workers_have_the_stop_timeout)
{
	start(0, 9);
	start(1, 9);
	notice(false, -1);
	expect("announce read publish:10");
	ck_assert_int_eq(end(1, PREEMPT_END_SIGNAL), PREEMPT_FAILED);
	expect("");
	ck_assert_uint_eq(preempt_due_ms(p), now + STOP_MS);
	now += STOP_MS - 1;
	look();
	expect("");
	now++;
	look();
	expect("stop");
	ck_assert_str_eq(why, "the time is over: worker:0 did not reach step 10 (its last was 9); "
			      "worker:1 ended before step 10 (its last was 9)");
}
END_TEST

START_TEST(the_failure_of_a_signalled_worker_does_not_shorten_the_time)
{
	start(0, 9);
	start(1, -1);
	start(2, 9);
	notice(false, -1);
	expect("announce read publish:10 signal:1");
	end(1, PREEMPT_END_OTHER);
	end(2, PREEMPT_END_DONE);
	expect("");
	ck_assert_uint_eq(preempt_due_ms(p), now + 600000);
}
END_TEST

START_TEST(a_failure_leaves_no_more_time_than_there_was)
{
	start(0, 9);
	start(1, 9);
	notice(true, 5000);
	expect("announce read publish:10");
	end(1, PREEMPT_END_OTHER);
	expect("");
	ck_assert_uint_eq(preempt_due_ms(p), now + 5000);
}
END_TEST

START_TEST(a_question_at_the_limit_is_answered_exit)
{
	start(0, -1);
	notice(false, -1);
	expect("announce read signal:0");
	slow = true;
	ask(0, 4);
	expect("read");
	now += 600000;
	look();
	expect("0:exit@-1 stop");
}
END_TEST

START_TEST(a_cancelled_notice_orders_nothing)
{
	start(0, 9);
	start(1, 9);
	slow = true;
	notice(true, 60000);
	expect("announce read");
	ask(1, 10);
	ask(0, 10);
	preempt_cancel(p);
	expect("0:continue@-1 1:continue@-1 clear");
	state_is("none");
	ck_assert_uint_eq(preempt_due_ms(p), UINT64_MAX);
	look();
	expect("");
	ask(0, 500);
	expect("0:continue@-1");
	ck_assert_int_eq(preempt_view(p).notices, 0);
	ck_assert_int_eq(preempt_view(p).participants, 0);
	ck_assert_str_eq(missing(), "");
	preempt_cancel(p);
	expect("");
}
END_TEST

START_TEST(a_notice_cancelled_before_its_announcement_is_not_cleared)
{
	start(0, 9);
	notice(false, -1);
	preempt_cancel(p);
	expect("");
	notice(false, -1);
	expect("announce read publish:10");
	ask(0, 10);
	preempt_cancel(p);
	notice(false, -1);
	expect("announce read publish:11 0:continue@11 clear");
}
END_TEST

START_TEST(a_notice_after_a_cancelled_one_begins_again)
{
	start(0, 9);
	start(1, -1);
	notice(false, -1);
	expect("announce read publish:10 signal:1");
	ask(0, 10);
	expect("0:save_exit@10");
	saved(0, 10);
	preempt_cancel(p);
	expect("clear");
	ck_assert_int_eq(preempt_saved_step(p, 0), -1);
	ck_assert_int_eq(preempt_saved(p, 0, 10, now), -ERANGE);
	begin(0, 20);
	reports[0] = '\0';
	notice(false, -1);
	expect("announce read publish:21 signal:1");
	ck_assert_int_eq(preempt_view(p).notices, 1);
	ask(0, 21);
	expect("0:save_exit@21");
}
END_TEST

START_TEST(workers_save_at_the_largest_step_numbers)
{
	start(0, INT64_MAX);
	start(1, 3);
	notice(false, -1);
	expect("announce read publish:9223372036854775806");
	ask(0, INT64_MAX);
	expect("0:save_exit@9223372036854775806");
	saved(0, INT64_MAX);
	ask(1, 4);
	expect("1:continue@9223372036854775806");
}
END_TEST

START_TEST(negative_steps_are_steps)
{
	start(0, 9);
	board[0].step = INT64_MIN;
	notice(false, -1);
	expect("announce read publish:-9223372036854775807");
}
END_TEST

START_TEST(samples_of_unknown_slots_are_ignored)
{
	struct preempt_sample s[] = { { .slot = 99, .stepped = true, .step = 1000 },
		{ .slot = -1, .stepped = true, .step = 1000 },
		{ .slot = 1, .stepped = true, .step = 1000 },
		{ .slot = 0, .stepped = true, .step = 5 } };

	start(0, 5);
	start(1, 5);
	end(1, PREEMPT_END_DONE);
	slow = true;
	notice(false, -1);
	expect("announce read");
	preempt_read(p, s, 4, now);
	expect("publish:6");
}
END_TEST

START_TEST(missing_workers_text_is_cut_between_characters)
{
	char text[24], none[1] = "x";

	ck_assert_int_eq(preempt_started(p, 0, "worker-\xc3\xa4:0"), 0);
	runs[0] = true;
	board[0].stepped = true;
	notice(false, -1);
	expect("announce read publish:1");
	preempt_missing(p, text, 9);
	ck_assert_str_eq(text, "worker-");
	preempt_missing(p, text, 10);
	ck_assert_str_eq(text, "worker-\xc3\xa4");
	preempt_missing(p, none, 1);
	ck_assert_str_eq(none, "");
	none[0] = 'x';
	preempt_missing(p, none, 0);
	ck_assert_int_eq(none[0], 'x');
}
END_TEST

START_TEST(many_names_leave_a_reason_that_fits)
{
	for (int i = 0; i < SCRIPT_WORKERS; i++)
		start(i, 9);
	notice(false, -1);
	expect("announce read publish:10");
	now += 600000;
	look();
	expect("stop");
	ck_assert_uint_lt(strlen(why), sizeof(why));
	ck_assert_ptr_nonnull(strstr(why, "worker:3 did not reach"));
	ck_assert_ptr_nonnull(strstr(missing(), "worker:7 did not reach step 10 (its last was 9)"));
}
END_TEST

START_TEST(a_question_costs_the_same_however_many_workers_there_are)
{
	enum { MANY = 100000 };
	clock_t begun = clock();
	struct preempt_do d;

	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(preempt_started(p, i, "w"), 0);
	notice(false, -1);
	for (int i = 0; i < MANY; i++)
		preempt_add_question(p, i, 7, now);
	while (preempt_next(p, &d) != PREEMPT_NOTHING)
		if (d.what == PREEMPT_READ)
			preempt_read(p, NULL, 0, now);
	for (int i = 0; i < MANY; i++) {
		preempt_add_question(p, i, 8, now);
		ck_assert_int_eq(preempt_next(p, &d), PREEMPT_ANSWER);
		ck_assert_int_eq(d.order, PREEMPT_SAVE_EXIT);
		ck_assert_int_eq(preempt_view(p).participants, MANY);
	}
	/* A look at each worker takes minutes. */
	ck_assert_int_lt((clock() - begun) / CLOCKS_PER_SEC, 10);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("preempt");
	TCase *t = tcase_create("round");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, without_a_notice_all_go_on);
	tcase_add_test(t, the_step_is_one_more_than_the_last_that_any_has_begun);
	tcase_add_test(t, steps_begun_before_all_see_the_notice_count);
	tcase_add_test(t, a_worker_below_the_step_continues_and_others_save);
	tcase_add_test(t, a_worker_saves_once_and_then_leaves);
	tcase_add_test(t, saved_may_be_repeated_for_the_ordered_step_only);
	tcase_add_test(t, a_worker_that_leaves_as_ordered_has_saved);
	tcase_add_test(t, ends_of_workers_without_an_order_have_their_meaning);
	tcase_add_test(t, an_ended_worker_affects_no_step_and_blocks_no_other);
	tcase_add_test(t, dead_workers_are_left_out_at_each_stage);
	tcase_add_test(t, a_notice_without_workers_stops_the_job_at_once);
	tcase_add_test(t, signalled_workers_without_the_library_are_not_participants);
	tcase_add_test(t, ends_of_signalled_workers_have_their_meaning);
	tcase_add_test(t, without_reported_steps_all_are_signalled_until_the_first_step);
	tcase_add_test(t, a_step_begun_before_any_report_counts);
	tcase_add_test(t, how_agree_signals_no_worker);
	tcase_add_test(t, how_signal_signals_all_and_asks_none);
	tcase_add_test(t, a_late_worker_is_asked_or_signalled_like_the_others);
	tcase_add_test(t, silent_workers_are_read_again_before_the_end);
	tcase_add_test(t, a_worker_that_first_steps_after_all_saved_saves_too);
	tcase_add_test(t, a_withdrawn_question_is_not_answered);
	tcase_add_test(t, a_question_of_an_ended_worker_is_ignored);
	tcase_add_test(t, a_newer_question_replaces_the_older);
	tcase_add_test(t, at_the_limit_remaining_workers_are_named_and_stopped);
	tcase_add_test(t, after_a_failure_unsaved_workers_have_the_stop_timeout);
	tcase_add_test(t, the_failure_of_a_signalled_worker_does_not_shorten_the_time);
	tcase_add_test(t, a_failure_leaves_no_more_time_than_there_was);
	tcase_add_test(t, a_question_at_the_limit_is_answered_exit);
	tcase_add_test(t, a_cancelled_notice_orders_nothing);
	tcase_add_test(t, a_notice_cancelled_before_its_announcement_is_not_cleared);
	tcase_add_test(t, a_notice_after_a_cancelled_one_begins_again);
	tcase_add_test(t, workers_save_at_the_largest_step_numbers);
	tcase_add_test(t, negative_steps_are_steps);
	tcase_add_test(t, samples_of_unknown_slots_are_ignored);
	tcase_add_test(t, missing_workers_text_is_cut_between_characters);
	tcase_add_test(t, many_names_leave_a_reason_that_fits);
	tcase_add_test(t, a_question_costs_the_same_however_many_workers_there_are);
	suite_add_tcase(s, t);
	return suite_run(s);
}
