/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/worker.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static char role_name[] = "trainer";
static const struct spec_role role = { .name = role_name, .replicas = 4 };
static struct task task;

static void setup(void)
{
	task_init(&task, &role, 2, 5);
}

static void teardown(void)
{
	task_fini(&task);
}

/* What task_exit_json() makes, as text. */
static void assert_exit_json(const char *expected)
{
	_cleanup_json_ json_t *j = task_exit_json(&task.exit);
	_cleanup_free_ char *text = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);

	ck_assert_str_eq(text, expected);
}

START_TEST(a_new_task_waits_and_has_no_process)
{
	ck_assert_int_eq(task.state, TASK_WAITING);
	ck_assert_str_eq(task_state_name(task.state), "waiting");
	ck_assert(!task_alive(&task));
	ck_assert(!task_bad_exit(&task));
	ck_assert_int_eq(task.role_rank, 2);
	ck_assert_int_eq(task.role_world, 4);
	ck_assert_int_eq(task.local_rank, 5);
	ck_assert_ptr_null(task_exit_json(&task.exit));
}
END_TEST

START_TEST(a_state_has_its_reason_until_the_next_state)
{
	char longer[400];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	task_set_state(&task, TASK_RUNNING, "because");
	ck_assert_int_eq(task.state, TASK_RUNNING);
	ck_assert_str_eq(task.reason, "because");
	task_set_state(&task, TASK_STOPPING, longer);
	ck_assert_uint_eq(strlen(task.reason), sizeof(task.reason) - 1);
	task_set_state(&task, TASK_STOPPED, NULL);
	ck_assert_str_eq(task.reason, "");
}
END_TEST

START_TEST(it_is_called_by_its_role_and_index)
{
	ck_assert_str_eq(task_called(&task), "trainer:2");
	task.rank = 2;
	ck_assert_str_eq(task_called(&task), "trainer:2");
}
END_TEST

START_TEST(an_exit_code_is_kept_and_told)
{
	task_set_exit(&task, CLD_EXITED, 3);
	ck_assert(task_bad_exit(&task));
	ck_assert_str_eq(task.exit.text, "exit code 3");
	ck_assert_int_eq(task_exit_status(&task.exit), 3);
	assert_exit_json("{\"code\":3}");
	task_set_exit(&task, CLD_EXITED, 0);
	ck_assert(!task_bad_exit(&task));
	ck_assert(task.exit.ended);
	ck_assert_int_eq(task_exit_status(&task.exit), 0);
	assert_exit_json("{\"code\":0}");
}
END_TEST

START_TEST(a_signal_is_kept_and_told_by_name)
{
	task_set_exit(&task, CLD_KILLED, SIGKILL);
	ck_assert(task_bad_exit(&task));
	ck_assert_str_eq(task.exit.text, "signal 9 (SIGKILL)");
	ck_assert_int_eq(task_exit_status(&task.exit), 137);
	assert_exit_json("{\"core_dumped\":false,\"signal\":9,\"signal_name\":\"SIGKILL\"}");
	task_set_exit(&task, CLD_DUMPED, SIGSEGV);
	ck_assert_str_eq(task.exit.text, "signal 11 (SIGSEGV), core dumped");
	assert_exit_json("{\"core_dumped\":true,\"signal\":11,\"signal_name\":\"SIGSEGV\"}");
	task_set_exit(&task, CLD_KILLED, SIGRTMIN + 3);
	ck_assert_ptr_nonnull(strstr(task.exit.text, "SIGRTMIN+3"));
}
END_TEST

START_TEST(every_exit_code_and_signal_has_the_status_of_a_shell)
{
	for (int i = 0; i < 256; i++) {
		task_set_exit(&task, CLD_EXITED, i);
		ck_assert_int_eq(task_exit_status(&task.exit), i);
		ck_assert_int_eq(task_bad_exit(&task), i != 0);
	}
	for (int i = 1; i < 65; i++) {
		task_set_exit(&task, CLD_KILLED, i);
		ck_assert_int_eq(task_exit_status(&task.exit), 128 + i);
		ck_assert(task_bad_exit(&task));
	}
}
END_TEST

START_TEST(a_failure_that_the_agent_ended_has_the_status_1)
{
	task_set_exit(&task, CLD_KILLED, SIGTERM);
	ck_assert_int_eq(task_failed_status(&task), 143);
	ck_assert(!task_ended_by_agent(&task));
	task.stop_signal = SIGTERM;
	ck_assert_int_eq(task_failed_status(&task), 1);
	task_set_exit(&task, CLD_KILLED, SIGKILL);
	ck_assert_int_eq(task_failed_status(&task), 1);
	task_set_exit(&task, CLD_EXITED, 143);
	ck_assert(task_ended_by_agent(&task));
	ck_assert_int_eq(task_failed_status(&task), 1);
	/* Its own word, also while it is being stopped. */
	task_set_exit(&task, CLD_EXITED, 3);
	ck_assert(!task_ended_by_agent(&task));
	ck_assert_int_eq(task_failed_status(&task), 3);
	task_set_exit(&task, CLD_EXITED, 0);
	ck_assert_int_eq(task_failed_status(&task), 1);
	task_renew(&task);
	ck_assert_int_eq(task.stop_signal, 0);
}
END_TEST

START_TEST(a_command_that_was_not_executed_is_127_or_126)
{
	task_set_exec_error(&task, ENOENT, "exec", "train");
	ck_assert(task_bad_exit(&task));
	ck_assert_str_eq(task.exit.text, "cannot exec train: No such file or directory");
	ck_assert_int_eq(task_exit_status(&task.exit), 127);
	assert_exit_json(
		"{\"errno\":2,\"error\":\"cannot exec train: No such file or directory\"}");
	task_set_exec_error(&task, EACCES, "exec", "train");
	ck_assert_int_eq(task_exit_status(&task.exit), 126);
	task_set_exec_error(&task, ENOENT, "change to the working directory", "/gone");
	ck_assert_int_eq(task_exit_status(&task.exit), 125);
}
END_TEST

START_TEST(a_program_with_a_long_or_binary_name_does_no_harm)
{
	_cleanup_json_ json_t *j = NULL;
	const json_t *error;
	char program[5000];

	memset(program, '\xff', sizeof(program) - 1);
	program[sizeof(program) - 1] = '\0';
	task_set_exec_error(&task, ENOENT, "exec", program);
	ck_assert_uint_eq(strlen(task.exit.text), sizeof(task.exit.text) - 1);
	task_set_state(&task, TASK_FAILED, task.exit.text);
	j = task_json(&task);
	/* Still there, as valid UTF-8. */
	error = json_object_get(json_object_get(j, "exit"), "error");
	ck_assert_int_eq(strncmp(json_string_value(error), "cannot exec \xef\xbf\xbd", 15), 0);
	ck_assert(json_is_string(json_object_get(j, "reason")));
}
END_TEST

START_TEST(an_earlier_end_leaves_no_trace_in_the_next)
{
	task_set_exec_error(&task, ENOENT, "exec", "train");
	task_set_exit(&task, CLD_DUMPED, SIGABRT);
	task_set_exit(&task, CLD_EXITED, 1);
	assert_exit_json("{\"code\":1}");
	ck_assert_int_eq(task.exit.signal, 0);
	ck_assert(!task.exit.core);
}
END_TEST

static void assert_json(const char *expected)
{
	_cleanup_json_ json_t *j = task_json(&task);
	_cleanup_free_ char *text = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);

	ck_assert_str_eq(text, expected);
}

#define WHO "\"index\":2,\"local_rank\":5,"

START_TEST(the_json_has_what_is_known_so_far)
{
	assert_json("{" WHO "\"rank\":5,\"role\":\"trainer\",\"state\":\"waiting\"}");
	task.pid = 77;
	task.started_us = 1000;
	task_set_state(&task, TASK_STOPPING, "why");
	assert_json("{" WHO "\"pid\":77,\"rank\":5,\"reason\":\"why\",\"role\":\"trainer\","
		    "\"started_us\":1000,\"state\":\"stopping\"}");
	task.pid = 0;
	task.exit_pid = 77;
	task.ended_us = 2000;
	task_set_exit(&task, CLD_EXITED, 0);
	task_set_state(&task, TASK_SUCCEEDED, NULL);
	assert_json("{\"ended_us\":2000,\"exit\":{\"code\":0}," WHO
		    "\"pid\":77,\"rank\":5,\"role\":\"trainer\",\"started_us\":1000,"
		    "\"state\":\"succeeded\"}");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("task");
	TCase *t = tcase_create("task");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_new_task_waits_and_has_no_process);
	tcase_add_test(t, a_state_has_its_reason_until_the_next_state);
	tcase_add_test(t, it_is_called_by_its_role_and_index);
	tcase_add_test(t, an_exit_code_is_kept_and_told);
	tcase_add_test(t, a_signal_is_kept_and_told_by_name);
	tcase_add_test(t, every_exit_code_and_signal_has_the_status_of_a_shell);
	tcase_add_test(t, a_failure_that_the_agent_ended_has_the_status_1);
	tcase_add_test(t, a_command_that_was_not_executed_is_127_or_126);
	tcase_add_test(t, a_program_with_a_long_or_binary_name_does_no_harm);
	tcase_add_test(t, an_earlier_end_leaves_no_trace_in_the_next);
	tcase_add_test(t, the_json_has_what_is_known_so_far);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
