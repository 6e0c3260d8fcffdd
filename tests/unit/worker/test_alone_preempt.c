/* SPDX-License-Identifier: Apache-2.0 */
/* Notices of preemption and errors where no agent supervises the process. */
#include "tests/unit/alone_agent.h"

static struct elasticd *h;

static void setup(void)
{
	alone_environment();
	setenv("ELASTICD_PREEMPTION_EXIT_CODE", "7", 1); /* of the test's own supervisor */
	ck_assert_int_eq(elasticd_open(&h), 0);
}

static void teardown(void)
{
	elasticd_close(h);
}

START_TEST(without_a_notice_steps_continue)
{
	struct elasticd_preemption p;

	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(step_action(h, i), ELASTICD_ACTION_CONTINUE);
	ck_assert_int_eq(elasticd_preempted(h, &p), ELASTICD_STATUS_NOT_FOUND);
	ck_assert_int_eq(elasticd_saved(h, 9, "x"), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(elasticd_exit_code(h), 42);
}
END_TEST

START_TEST(after_a_notice_one_step_saves_and_later_ones_exit)
{
	struct elasticd_preemption p;

	ck_assert_int_eq(step_action(h, 4), ELASTICD_ACTION_CONTINUE);
	ck_assert_int_eq(elasticd_notify(h, "on a whim", -1), 0);
	ck_assert_int_eq(elasticd_notice(h), 1);
	ck_assert_int_eq(elasticd_preempted(h, &p), 0);
	ck_assert_str_eq(p.source, "worker");
	ck_assert_str_eq(p.reason, "on a whim");
	ck_assert_int_gt(p.time_us, INT64_C(1000000000000000));
	ck_assert_int_eq(p.deadline_us, -1);
	ck_assert_int_eq(p.final, 1);
	ck_assert_int_eq(p.exit_code, 42);
	ck_assert_int_eq(elasticd_saved(h, 5, "x"), ELASTICD_STATUS_OUT_OF_RANGE);
	ck_assert_int_eq(step_action(h, 5), ELASTICD_ACTION_SAVE_AND_EXIT);
	ck_assert_int_eq(elasticd_saved(h, 4, "x"), ELASTICD_STATUS_OUT_OF_RANGE);
	ck_assert_int_eq(elasticd_saved(h, 5, "x"), 0);
	ck_assert_int_eq(elasticd_preempted(h, &p), 0);
	ck_assert_int_eq(p.step, 5);
	ck_assert_int_eq(step_action(h, 6), ELASTICD_ACTION_EXIT);
	ck_assert_int_eq(step_action(h, 7), ELASTICD_ACTION_EXIT);
}
END_TEST

START_TEST(the_first_notice_counts_with_the_nearest_deadline)
{
	struct elasticd_preemption p;
	int64_t first;

	ck_assert_int_eq(elasticd_notify(h, "first", 60000), 0);
	ck_assert_int_eq(elasticd_preempted(h, &p), 0);
	first = p.deadline_us;
	ck_assert_int_ge(first - p.time_us, 59000000);
	ck_assert_int_lt(first - p.time_us, 61000000);
	ck_assert_int_eq(elasticd_notify(h, "second", 3600000), 0);
	ck_assert_int_eq(elasticd_notify(h, "third", INT64_C(1) << 40), 0);
	ck_assert_int_eq(elasticd_preempted(h, &p), 0);
	ck_assert_int_eq(p.deadline_us, first);
	ck_assert_int_eq(elasticd_notify(h, "fourth", 1), 0);
	ck_assert_int_eq(elasticd_preempted(h, &p), 0);
	ck_assert_int_lt(p.deadline_us, first);
	ck_assert_str_eq(p.reason, "first");
}
END_TEST

/* A deadline that is over ends neither the process nor its agent. */
START_TEST(a_notice_whose_time_is_over_ends_no_process)
{
	void *got;
	size_t len;

	ck_assert_int_eq(step_action(h, 0), ELASTICD_ACTION_CONTINUE);
	ck_assert_int_eq(elasticd_notify(h, "at once", 1), 0);
	ck_assert_int_eq(
		elasticd_get(h, "never", 300, &got, &len), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(elasticd_put(h, "k", "v", 1, 0), 0);
}
END_TEST

START_TEST(all_handles_of_a_process_and_its_children_are_one_worker)
{
	struct elasticd *other;
	int status;
	pid_t pid;

	ck_assert_int_eq(elasticd_open(&other), 0);
	ck_assert_int_eq(step_action(h, 0), ELASTICD_ACTION_CONTINUE);
	ck_assert_int_eq(elasticd_notify(h, "", 0), 0);
	ck_assert_int_eq(elasticd_notice(other), 1);
	pid = fork();
	if (pid == 0)
		_exit(step_action(h, 1) != ELASTICD_ACTION_SAVE_AND_EXIT ||
			elasticd_saved(h, 1, NULL));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(step_action(other, 2), ELASTICD_ACTION_EXIT);
	ck_assert_int_eq(step_action(h, 3), ELASTICD_ACTION_EXIT);
	elasticd_close(other);
}
END_TEST

START_TEST(after_an_error_of_its_own_every_step_fails)
{
	ck_assert_int_eq(
		elasticd_report_error(h, ELASTICD_STATUS_RESOURCE_EXHAUSTED, "Running out"), 0);
	ck_assert_int_eq(elasticd_step(h, 1, NULL), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
	ck_assert_str_eq(elasticd_error_text(), "Running out");
	ck_assert_str_eq(elasticd_error_missing(), "worker:0");
	ck_assert_int_eq(elasticd_notify(h, "", 0), 0);
	ck_assert_int_eq(elasticd_step(h, 2, NULL), ELASTICD_STATUS_RESOURCE_EXHAUSTED);
}
END_TEST

START_TEST(a_cancelled_handle_saves_nothing)
{
	ck_assert_int_eq(elasticd_notify(h, "", 0), 0);
	elasticd_cancel(h);
	ck_assert_int_eq(elasticd_step(h, 2, NULL), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_saved(h, 2, NULL), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_notify(h, "", 0), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_preempted(h, &(struct elasticd_preemption){ 0 }),
		ELASTICD_STATUS_CANCELLED);
}
END_TEST

static int saved;

static int save_hook(void *arg, int64_t step, char *path, size_t path_size)
{
	saved++;
	return 0;
}

START_TEST(without_a_hook_to_leave_a_worker_exits)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (elasticd_checkpoint(h, 1, save_hook, NULL, NULL, NULL) || saved)
			_exit(1);
		if (elasticd_notify(h, "", 0) != 0)
			_exit(2);
		(void)elasticd_checkpoint(h, 2, save_hook, NULL, NULL, NULL);
		_exit(3);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 42 << 8);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("alone_preempt");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, without_a_notice_steps_continue);
	tcase_add_test(tc, after_a_notice_one_step_saves_and_later_ones_exit);
	tcase_add_test(tc, the_first_notice_counts_with_the_nearest_deadline);
	tcase_add_test(tc, a_notice_whose_time_is_over_ends_no_process);
	tcase_add_test(tc, all_handles_of_a_process_and_its_children_are_one_worker);
	tcase_add_test(tc, after_an_error_of_its_own_every_step_fails);
	tcase_add_test(tc, a_cancelled_handle_saves_nothing);
	tcase_add_test(tc, without_a_hook_to_leave_a_worker_exits);
	return tests_run(tc);
}
