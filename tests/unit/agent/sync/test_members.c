/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/members_test.h"
#include "tests/unit/run.h"

static int n_errors, answers_at_error;

static void on_error(void *arg, const struct members_error *error)
{
	(void)arg;
	(void)error;
	n_errors++;
	answers_at_error = n_answers;
}

static void setup(void)
{
	static const struct members_options opt = {
		.answer = on_answer, .error = on_error, .name = name_of
	};

	n_answers = n_errors = 0;
	in_callback = NULL;
	ck_assert_int_eq(members_new(&opt, &m), 0);
}

static void start(int n)
{
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(members_started(m, i, false, false), 0);
}

static const struct answered *answer_of(intptr_t token)
{
	for (int i = 0; i < n_answers; i++)
		if (answers[i].token == token)
			return &answers[i];
	ck_abort_msg("call %ld is not answered", (long)token);
}

static void wait_error(intptr_t token)
{
	ck_assert_int_eq(members_wait_error(m, NEVER, (void *)token), 0);
}

static void alive(int slot, const int *set, size_t n, intptr_t token)
{
	ck_assert_int_eq(members_wait_alive(m, slot, set, n, false, NEVER, (void *)token), 0);
}

static void leave(int slot, uint64_t deadline, intptr_t token)
{
	ck_assert_int_eq(members_leave(m, slot, deadline, (void *)token), 0);
}

START_TEST(members_are_healthy_while_they_run_without_error)
{
	start(3);
	for (int i = 0; i < 3; i++)
		ck_assert(members_healthy(m, i) && !members_own_error(m, i));
	members_ended(m, 0, true, "signal 9 (Killed)", 5);
	ck_assert(!members_healthy(m, 0));
	ck_assert(members_healthy(m, 1) && !members_own_error(m, 1));
	ck_assert_int_eq(members_own_error(m, 0)->code, STATUS_UNAVAILABLE);
	ck_assert_str_eq(members_own_error(m, 0)->message, "worker:0 ended: signal 9 (Killed)");
	ck_assert(!members_own_error(m, 0)->reported);
	ck_assert_int_eq(members_own_error(m, 0)->time_us, 5);
	start(1);
	ck_assert(members_healthy(m, 0) && !members_own_error(m, 0));
}
END_TEST

START_TEST(first_error_is_the_groups_and_all_get_it)
{
	start(3);
	wait_error(1);
	ck_assert_int_eq(
		members_report(m, 1, STATUS_RESOURCE_EXHAUSTED, "Running out of resources", 7), 0);
	ck_assert_int_eq(members_report(m, 2, STATUS_INTERNAL, "another", 8), 0);
	members_ended(m, 0, true, "exit code 1", 9);
	wait_error(2);
	ck_assert_int_eq(n_errors, 1);
	ck_assert_int_eq(answers_at_error, 0); /* the error callback comes first */
	for (int i = 1; i <= 2; i++) {
		ck_assert_int_eq(answer_of(i)->status, STATUS_OK);
		ck_assert_int_eq(answer_of(i)->error_slot, 1);
		ck_assert_int_eq(answer_of(i)->error_code, STATUS_RESOURCE_EXHAUSTED);
	}
	ck_assert_str_eq(members_group_error(m)->message, "Running out of resources");
	ck_assert(members_group_error(m)->reported);
	ck_assert_str_eq(members_own_error(m, 2)->message, "another");
}
END_TEST

START_TEST(group_error_ends_with_the_next_process_of_its_worker)
{
	start(3);
	members_ended(m, 1, true, "exit code 1", 5);
	wait_error(1);
	ck_assert_int_eq(answer_of(1)->error_slot, 1);
	leave(0, NEVER, 2);
	ck_assert_int_eq(answer_of(2)->status, STATUS_ABORTED);
	ck_assert_int_eq(members_started(m, 1, false, false), 0);
	ck_assert_ptr_null(members_group_error(m));
	wait_error(3);
	leave(1, NEVER, 4);
	ck_assert_int_eq(n_answers, 2);
	ck_assert_int_eq(members_report(m, 2, STATUS_INTERNAL, "no", 6), 0);
	ck_assert_int_eq(answer_of(3)->error_slot, 2);
	ck_assert_int_eq(n_errors, 2);
}
END_TEST

START_TEST(oldest_remaining_error_replaces_one_that_is_over)
{
	start(4);
	ck_assert_int_eq(members_report(m, 3, STATUS_INTERNAL, "no", 5), 0);
	members_ended(m, 0, true, "exit code 1", 7);
	members_ended(m, 1, true, "exit code 1", 6);
	ck_assert_int_eq(members_started(m, 0, false, false), 0);
	ck_assert_int_eq(members_group_error(m)->slot, 3);
	ck_assert_int_eq(n_errors, 1);
	ck_assert_int_eq(members_started(m, 3, false, false), 0);
	ck_assert_int_eq(members_group_error(m)->slot, 1);
	ck_assert_int_eq(n_errors, 2);
	ck_assert_int_eq(members_started(m, 1, false, false), 0);
	ck_assert_ptr_null(members_group_error(m));
}
END_TEST

START_TEST(overdue_leave_stays_an_error_after_a_new_process)
{
	start(2);
	leave(0, 10, 1);
	ck_assert_uint_eq(members_expire(m, 10, 5), NEVER);
	ck_assert_int_eq(members_group_error(m)->slot, 1);
	members_ended(m, 1, true, "exit code 1", 6);
	ck_assert_int_eq(members_started(m, 1, false, false), 0);
	ck_assert_int_eq(members_group_error(m)->code, STATUS_DEADLINE_EXCEEDED);
}
END_TEST

START_TEST(recoverable_members_errors_are_not_the_groups)
{
	start(2);
	ck_assert_int_eq(members_started(m, 2, true, false), 0);
	wait_error(1);
	ck_assert_int_eq(members_report(m, 2, STATUS_INTERNAL, "mine", 1), 0);
	members_ended(m, 2, true, "exit code 1", 2);
	ck_assert_int_eq(n_answers, 0);
	ck_assert_int_eq(n_errors, 0);
	ck_assert_str_eq(members_own_error(m, 2)->message, "mine");
}
END_TEST

START_TEST(ends_of_observers_good_ends_and_ends_after_leave_are_no_errors)
{
	start(3);
	ck_assert_int_eq(members_started(m, 3, false, true), 0);
	members_ended(m, 3, true, "exit code 1", 1);
	members_ended(m, 0, false, "exit code 0", 1);
	leave(1, NEVER, 1);
	members_ended(m, 1, true, "signal 11", 1);
	members_ended(m, 7, true, "nobody", 1);
	ck_assert_ptr_null(members_group_error(m));
	members_ended(m, 2, true, "exit code 1", 1);
	ck_assert_int_eq(members_group_error(m)->slot, 2);
}
END_TEST

START_TEST(report_after_the_end_is_the_workers_own_error)
{
	start(1);
	members_ended(m, 0, true, "exit code 1", 1);
	ck_assert_int_eq(members_report(m, 0, STATUS_DATA_LOSS, "the file is torn", 2), 0);
	ck_assert_int_eq(members_report(m, 0, STATUS_INTERNAL, "second", 3), 0);
	ck_assert_str_eq(members_own_error(m, 0)->message, "the file is torn");
	ck_assert_int_eq(members_group_error(m)->code, STATUS_UNAVAILABLE);
	ck_assert_int_eq(members_report(m, 5, STATUS_INTERNAL, "no member", 3), -EINVAL);
}
END_TEST

START_TEST(a_long_message_is_cut_between_characters)
{
	static char text[MEMBERS_ERROR_MAX + 100];
	size_t len;

	text[0] = 'x';
	for (size_t i = 1; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\u00e9", 3);
	start(1);
	ck_assert_int_eq(members_report(m, 0, STATUS_INTERNAL, text, 1), 0);
	len = strlen(members_group_error(m)->message);
	ck_assert_uint_eq(len, MEMBERS_ERROR_MAX - 1);
	ck_assert_int_eq((unsigned char)members_group_error(m)->message[len - 1], 0xa9);
}
END_TEST

START_TEST(all_callers_get_the_same_living_members)
{
	static const int set[] = { 3, 1, 0, 2 }, same[] = { 0, 1, 2, 3, 3 };

	start(4);
	members_ended(m, 3, true, "signal 9", 1);
	alive(0, set, 4, 1);
	alive(2, same, 5, 2);
	ck_assert_int_eq(n_answers, 0);
	n_texts = 0;
	alive(1, set, 4, 3);
	ck_assert_int_eq(n_answers, 3);
	ck_assert_int_eq(n_texts, 1);
	for (int i = 1; i <= 3; i++) {
		ck_assert_int_eq(answer_of(i)->status, STATUS_OK);
		ck_assert_uint_eq(answer_of(i)->slots, 7);
	}
}
END_TEST

START_TEST(alive_does_not_wait_for_a_member_that_ended)
{
	static const int set[] = { 0, 1, 2 };

	start(3);
	alive(0, set, 3, 1);
	alive(1, set, 3, 2);
	members_ended(m, 2, false, "exit code 0", 1);
	ck_assert_uint_eq(answer_of(1)->slots, 3);
	ck_assert_uint_eq(answer_of(2)->slots, 3);
}
END_TEST

START_TEST(alive_leaves_out_a_member_that_ended_after_its_call)
{
	static const int set[] = { 0, 1, 2 };

	start(3);
	alive(0, set, 3, 1);
	alive(1, set, 3, 2);
	members_ended(m, 1, false, "exit code 0", 1);
	ck_assert_int_eq(answer_of(2)->status, STATUS_CANCELLED);
	alive(2, set, 3, 3);
	ck_assert_uint_eq(answer_of(1)->slots, 5);
	ck_assert_uint_eq(answer_of(3)->slots, 5);
}
END_TEST

START_TEST(alive_caller_must_be_in_its_set_and_sets_are_separate)
{
	static const int set[] = { 0, 1 }, other[] = { 0, 2 };

	start(3);
	alive(2, set, 2, 1);
	ck_assert_int_eq(answer_of(1)->status, STATUS_INVALID_ARGUMENT);
	ck_assert_str_eq(answer_of(1)->message, "members: expected the calling worker among them");
	alive(0, set, 0, 2);
	ck_assert_int_eq(answer_of(2)->status, STATUS_INVALID_ARGUMENT);
	alive(0, set, 2, 3);
	alive(0, other, 2, 4);
	alive(2, other, 2, 5);
	ck_assert_uint_eq(answer_of(4)->slots, 5);
	ck_assert_int_eq(n_answers, 4);
}
END_TEST

START_TEST(overdue_alive_names_members_that_have_not_called)
{
	static const int set[] = { 0, 1, 2 };

	start(3);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(
			members_wait_alive(m, i, set, 3, false, 100, (void *)(intptr_t)(i + 1)), 0);
	ck_assert_uint_eq(members_expire(m, 99, 0), 100);
	ck_assert_uint_eq(members_expire(m, 100, 0), NEVER);
	for (int i = 1; i <= 2; i++) {
		ck_assert_int_eq(answer_of(i)->status, STATUS_DEADLINE_EXCEEDED);
		ck_assert_uint_eq(answer_of(i)->slots, 4);
		ck_assert_str_eq(answer_of(i)->message,
			"some living members have not called Alive in time; missing: worker:2");
	}
}
END_TEST

START_TEST(all_leave_together)
{
	start(3);
	ck_assert_int_eq(members_started(m, 3, true, false), 0);
	ck_assert_int_eq(members_started(m, 4, false, true), 0);
	leave(0, NEVER, 1);
	ck_assert(members_left(m, 0) && !members_healthy(m, 0));
	leave(1, NEVER, 2);
	ck_assert_int_eq(n_answers, 0);
	leave(2, NEVER, 3);
	for (int i = 1; i <= 3; i++)
		ck_assert_int_eq(answer_of(i)->status, STATUS_OK);
}
END_TEST

START_TEST(overdue_leave_names_members_that_have_not_left)
{
	start(3);
	wait_error(10);
	leave(0, 2000, 1);
	ck_assert_uint_eq(members_expire(m, 1999, 5), 2000);
	ck_assert_int_eq(n_answers, 0);
	ck_assert_uint_eq(members_expire(m, 2000, 6), NEVER);
	ck_assert_int_eq(answer_of(1)->status, STATUS_DEADLINE_EXCEEDED);
	ck_assert_uint_eq(answer_of(1)->slots, 6);
	ck_assert_str_eq(answer_of(1)->message, "the shutdown barrier timed out: 1 of 3 have left; "
						"missing: worker:1, worker:2");
	ck_assert_int_eq(answer_of(10)->error_code, STATUS_DEADLINE_EXCEEDED);
	ck_assert_str_eq(members_group_error(m)->message, answer_of(1)->message);
	ck_assert_int_eq(members_group_error(m)->time_us, 6);
	leave(1, NEVER, 2);
	ck_assert_int_eq(answer_of(2)->status, STATUS_DEADLINE_EXCEEDED);
	ck_assert_str_eq(answer_of(2)->message, answer_of(1)->message);
}
END_TEST

START_TEST(group_error_ends_waiting_leaves)
{
	start(3);
	leave(0, NEVER, 1);
	members_ended(m, 1, true, "exit code 4", 1);
	ck_assert_int_eq(answer_of(1)->status, STATUS_ABORTED);
	ck_assert_str_eq(answer_of(1)->message,
		"the group has an error (worker:1 ended: exit code 4): 1 of 3 have left, "
		"1 ended without leaving; missing: worker:2");
	leave(2, NEVER, 2);
	ck_assert_int_eq(answer_of(2)->status, STATUS_ABORTED);
}
END_TEST

START_TEST(leave_does_not_wait_for_a_member_that_ended_well)
{
	start(2);
	leave(0, NEVER, 1);
	members_ended(m, 1, false, "exit code 0", 1);
	ck_assert_int_eq(answer_of(1)->status, STATUS_OK);
	leave(9, NEVER, 2);
	ck_assert_int_eq(answer_of(2)->status, STATUS_INVALID_ARGUMENT);
}
END_TEST

START_TEST(stop_and_reset_end_all_waits)
{
	static const int set[] = { 0, 1 };

	for (int round = 0; round < 2; round++) {
		n_answers = 0;
		start(2);
		wait_error(1);
		alive(0, set, 2, 2);
		leave(0, NEVER, 3);
		if (round == 0)
			members_stop(m, STATUS_ABORTED, "the group is restarted");
		else
			members_reset(m);
		ck_assert_int_eq(n_answers, 3);
		for (int i = 1; i <= 3; i++)
			ck_assert_int_eq(answer_of(i)->status,
				round == 0 ? STATUS_ABORTED : STATUS_CANCELLED);
		if (round == 0) {
			wait_error(4);
			alive(0, set, 2, 5);
			leave(1, NEVER, 6);
			for (int i = 4; i <= 6; i++)
				ck_assert_str_eq(answer_of(i)->message, "the group is restarted");
		}
		members_reset(m);
		ck_assert(!members_healthy(m, 0) && !members_left(m, 0));
	}
}
END_TEST

START_TEST(impossible_slots_are_refused)
{
	ck_assert_int_eq(members_started(m, MEMBERS_SLOTS, false, false), -EINVAL);
	ck_assert_int_eq(members_started(m, -1, false, false), -EINVAL);
}
END_TEST

START_TEST(wait_for_the_error_ends_at_its_own_deadline)
{
	start(1);
	ck_assert_int_eq(members_wait_error(m, 300, (void *)1), 0);
	ck_assert_int_eq(members_wait_error(m, 200, (void *)2), 0);
	ck_assert_uint_eq(members_expire(m, 100, 0), 200);
	members_forget(m, (void *)2);
	ck_assert_uint_eq(members_expire(m, 250, 0), 300);
	ck_assert_int_eq(n_answers, 0);
	ck_assert_uint_eq(members_expire(m, 300, 0), NEVER);
	ck_assert_int_eq(answer_of(1)->status, STATUS_DEADLINE_EXCEEDED);
}
END_TEST

static void again(intptr_t token)
{
	static const int set[] = { 0, 1 };

	if (token > 2)
		return;
	members_reset(m);
	start(2);
	alive(0, set, 2, token + 10);
	alive(1, set, 2, token + 20);
	members_ended(m, 1, true, "signal 6", 1);
	wait_error(token + 30);
	members_forget(m, (void *)2);
}

START_TEST(callbacks_may_call_any_function)
{
	start(2);
	wait_error(1);
	wait_error(2);
	in_callback = again;
	ck_assert_int_eq(members_report(m, 0, STATUS_INTERNAL, "no", 1), 0);
	ck_assert_int_eq(n_errors, 2);
	ck_assert_int_eq(n_answers, 4);
	ck_assert_int_eq(answer_of(1)->error_slot, 0);
	ck_assert_uint_eq(answer_of(11)->slots, 3);
	ck_assert_int_eq(answer_of(31)->error_slot, 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("members");
	TCase *t = tcase_create("members");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, members_are_healthy_while_they_run_without_error);
	tcase_add_test(t, first_error_is_the_groups_and_all_get_it);
	tcase_add_test(t, group_error_ends_with_the_next_process_of_its_worker);
	tcase_add_test(t, oldest_remaining_error_replaces_one_that_is_over);
	tcase_add_test(t, overdue_leave_stays_an_error_after_a_new_process);
	tcase_add_test(t, recoverable_members_errors_are_not_the_groups);
	tcase_add_test(t, ends_of_observers_good_ends_and_ends_after_leave_are_no_errors);
	tcase_add_test(t, report_after_the_end_is_the_workers_own_error);
	tcase_add_test(t, a_long_message_is_cut_between_characters);
	tcase_add_test(t, all_callers_get_the_same_living_members);
	tcase_add_test(t, alive_does_not_wait_for_a_member_that_ended);
	tcase_add_test(t, alive_leaves_out_a_member_that_ended_after_its_call);
	tcase_add_test(t, alive_caller_must_be_in_its_set_and_sets_are_separate);
	tcase_add_test(t, overdue_alive_names_members_that_have_not_called);
	tcase_add_test(t, all_leave_together);
	tcase_add_test(t, overdue_leave_names_members_that_have_not_left);
	tcase_add_test(t, group_error_ends_waiting_leaves);
	tcase_add_test(t, leave_does_not_wait_for_a_member_that_ended_well);
	tcase_add_test(t, stop_and_reset_end_all_waits);
	tcase_add_test(t, impossible_slots_are_refused);
	tcase_add_test(t, wait_for_the_error_ends_at_its_own_deadline);
	tcase_add_test(t, callbacks_may_call_any_function);
	suite_add_tcase(s, t);
	return suite_run(s);
}
