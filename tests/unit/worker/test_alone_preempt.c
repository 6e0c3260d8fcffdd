/* SPDX-License-Identifier: Apache-2.0 */
/* Notices of preemption and errors where no agent supervises the process. */
#include "tests/unit/alone_agent.h"

static struct elasticd *h;

static void setup(void)
{
	alone_environment();
	setenv("ELASTICD_PREEMPTION_EXIT_CODE", "7", 1); /* of whoever started us */
	ck_assert_int_eq(elasticd_open(&h), 0);
}

static void teardown(void)
{
	elasticd_close(h);
}

START_TEST(without_a_notice_steps_go_on)
{
	struct elasticd_preemption p;

	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(elasticd_step(h, i), ELASTICD_CONTINUE);
	ck_assert_int_eq(elasticd_preempted(h, &p), 0);
	ck_assert_int_eq(elasticd_saved(h, 9, "x"), ELASTICD_FAILED_PRECONDITION);
	ck_assert_int_eq(elasticd_exit_code(h), 42);
}
END_TEST

START_TEST(a_notice_is_one_save_and_the_end)
{
	struct elasticd_preemption p;

	ck_assert_int_eq(elasticd_step(h, 4), ELASTICD_CONTINUE);
	ck_assert_int_eq(elasticd_notify(h, "on a whim", -1), 0);
	ck_assert_int_eq(elasticd_notice(h), 1);
	ck_assert_int_eq(elasticd_preempted(h, NULL), 1);
	ck_assert_int_eq(elasticd_preempted(h, &p), 1);
	ck_assert_str_eq(p.source, "worker");
	ck_assert_str_eq(p.reason, "on a whim");
	ck_assert_int_gt(p.time_us, INT64_C(1000000000000000));
	ck_assert_int_eq(p.deadline_us, -1);
	ck_assert_int_eq(p.final, 1);
	ck_assert_int_eq(p.exit_code, 42);
	ck_assert_int_eq(elasticd_saved(h, 5, "x"), ELASTICD_OUT_OF_RANGE);
	ck_assert_int_eq(elasticd_step(h, 5), ELASTICD_SAVE_AND_EXIT);
	ck_assert_int_eq(elasticd_saved(h, 4, "x"), ELASTICD_OUT_OF_RANGE);
	ck_assert_int_eq(elasticd_saved(h, 5, "x"), 0);
	ck_assert_int_eq(elasticd_preempted(h, &p), 1);
	ck_assert_int_eq(p.step, 5);
	ck_assert_int_eq(elasticd_step(h, 6), ELASTICD_EXIT);
	ck_assert_int_eq(elasticd_step(h, 7), ELASTICD_EXIT);
}
END_TEST

START_TEST(notices_are_one_and_the_nearest_end_counts)
{
	struct elasticd_preemption p;
	int64_t first;

	ck_assert_int_eq(elasticd_notify(h, "first", 60000), 0);
	ck_assert_int_eq(elasticd_preempted(h, &p), 1);
	first = p.deadline_us;
	ck_assert_int_ge(first - p.time_us, 59000000);
	ck_assert_int_lt(first - p.time_us, 61000000);
	ck_assert_int_eq(elasticd_notify(h, "second", 3600000), 0);
	ck_assert_int_eq(elasticd_notify(h, "third", INT64_C(1) << 40), 0);
	ck_assert_int_eq(elasticd_preempted(h, &p), 1);
	ck_assert_int_eq(p.deadline_us, first);
	ck_assert_int_eq(elasticd_notify(h, "fourth", 1), 0);
	ck_assert_int_eq(elasticd_preempted(h, &p), 1);
	ck_assert_int_lt(p.deadline_us, first);
	ck_assert_str_eq(p.reason, "first");
}
END_TEST

/* Whoever is there is not ended: a deadline that is over is no end of what is shared. */
START_TEST(a_notice_without_time_ends_no_process)
{
	void *got;
	size_t len;

	ck_assert_int_eq(elasticd_step(h, 0), ELASTICD_CONTINUE);
	ck_assert_int_eq(elasticd_notify(h, "at once", 1), 0);
	ck_assert_int_eq(elasticd_get(h, "never", 300, &got, &len), ELASTICD_DEADLINE_EXCEEDED);
	ck_assert_int_eq(elasticd_put(h, "k", "v", 1, 0), 0);
}
END_TEST

START_TEST(all_handles_of_a_process_and_its_children_are_one_task)
{
	struct elasticd *other;
	int status;
	pid_t pid;

	ck_assert_int_eq(elasticd_open(&other), 0);
	ck_assert_int_eq(elasticd_step(h, 0), ELASTICD_CONTINUE);
	ck_assert_int_eq(elasticd_notify(h, "", 0), 0);
	ck_assert_int_eq(elasticd_notice(other), 1);
	pid = fork();
	if (pid == 0)
		_exit(elasticd_step(h, 1) != ELASTICD_SAVE_AND_EXIT || elasticd_saved(h, 1, NULL));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(elasticd_step(other, 2), ELASTICD_EXIT);
	ck_assert_int_eq(elasticd_step(h, 3), ELASTICD_EXIT);
	elasticd_close(other);
}
END_TEST

START_TEST(an_error_of_its_own_is_every_steps_error)
{
	ck_assert_int_eq(elasticd_report_error(h, ELASTICD_RESOURCE_EXHAUSTED, "Running out"), 0);
	ck_assert_int_eq(elasticd_step(h, 1), -ELASTICD_RESOURCE_EXHAUSTED);
	ck_assert_str_eq(elasticd_error_text(), "Running out");
	ck_assert_str_eq(elasticd_error_missing(), "worker:0");
	ck_assert_int_eq(elasticd_notify(h, "", 0), 0);
	ck_assert_int_eq(elasticd_step(h, 2), -ELASTICD_RESOURCE_EXHAUSTED);
}
END_TEST

START_TEST(a_handle_that_was_cancelled_saves_nothing)
{
	ck_assert_int_eq(elasticd_notify(h, "", 0), 0);
	elasticd_cancel(h);
	ck_assert_int_eq(elasticd_step(h, 2), -ELASTICD_CANCELLED);
	ck_assert_int_eq(elasticd_saved(h, 2, NULL), ELASTICD_CANCELLED);
	ck_assert_int_eq(elasticd_notify(h, "", 0), ELASTICD_CANCELLED);
	ck_assert_int_eq(
		elasticd_preempted(h, &(struct elasticd_preemption){ 0 }), -ELASTICD_CANCELLED);
}
END_TEST

static int saved;

static int save_hook(void *arg, int64_t step, char *path, size_t path_size)
{
	saved++;
	return 0;
}

START_TEST(without_a_hook_for_it_a_task_exits)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (elasticd_checkpoint(h, 1, save_hook, NULL, NULL) != ELASTICD_CONTINUE || saved)
			_exit(1);
		if (elasticd_notify(h, "", 0) != 0)
			_exit(2);
		(void)elasticd_checkpoint(h, 2, save_hook, NULL, NULL);
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
	tcase_add_test(tc, without_a_notice_steps_go_on);
	tcase_add_test(tc, a_notice_is_one_save_and_the_end);
	tcase_add_test(tc, notices_are_one_and_the_nearest_end_counts);
	tcase_add_test(tc, a_notice_without_time_ends_no_process);
	tcase_add_test(tc, all_handles_of_a_process_and_its_children_are_one_task);
	tcase_add_test(tc, an_error_of_its_own_is_every_steps_error);
	tcase_add_test(tc, a_handle_that_was_cancelled_saves_nothing);
	tcase_add_test(tc, without_a_hook_for_it_a_task_exits);
	return tests_run(tc);
}
