/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/worker.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static char role_name[] = "trainer";
static const struct spec_role role = { .name = role_name, .replicas = 4 };
static struct worker worker;

static void setup(void)
{
	worker_init(&worker, &role, 2, 5);
}

static void teardown(void)
{
	worker_fini(&worker);
}

/* The text of worker_exit_json(). */
static void assert_exit_json(const char *expected)
{
	_cleanup_json_ json_t *j = worker_exit_json(&worker.exit);
	_cleanup_free_ char *text = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);

	ck_assert_str_eq(text, expected);
}

START_TEST(a_new_worker_waits_and_has_no_process)
{
	ck_assert_int_eq(worker.state, WORKER_WAITING);
	ck_assert_str_eq(worker_state_name(worker.state), "waiting");
	ck_assert(!worker_alive(&worker));
	ck_assert(!worker_bad_exit(&worker));
	ck_assert_int_eq(worker.role_rank, 2);
	ck_assert_int_eq(worker.role_world, 4);
	ck_assert_int_eq(worker.local_rank, 5);
	ck_assert_ptr_null(worker_exit_json(&worker.exit));
}
END_TEST

START_TEST(a_state_has_its_reason_until_the_next_state)
{
	char longer[400];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	worker_set_state(&worker, WORKER_RUNNING, "because");
	ck_assert_int_eq(worker.state, WORKER_RUNNING);
	ck_assert_str_eq(worker.reason, "because");
	worker_set_state(&worker, WORKER_STOPPING, longer);
	ck_assert_uint_eq(strlen(worker.reason), WORKER_REASON_MAX - 1);
	worker_set_state(&worker, WORKER_STOPPED, NULL);
	ck_assert_ptr_null(worker.reason);
}
END_TEST

START_TEST(a_worker_is_named_by_its_role_and_index)
{
	ck_assert_str_eq(worker_name(&worker), "trainer:2");
	worker.rank = 2;
	ck_assert_str_eq(worker_name(&worker), "trainer:2");
}
END_TEST

START_TEST(an_exit_code_is_kept_and_named)
{
	worker_set_exit(&worker, CLD_EXITED, 3);
	ck_assert(worker_bad_exit(&worker));
	ck_assert_str_eq(worker.exit.text, "exit code 3");
	ck_assert_int_eq(worker_failed_status(&worker), 3);
	assert_exit_json("{\"code\":3}");
	worker_set_exit(&worker, CLD_EXITED, 0);
	ck_assert(!worker_bad_exit(&worker));
	ck_assert(worker.exit.ended);
	assert_exit_json("{\"code\":0}");
}
END_TEST

START_TEST(a_signal_is_kept_and_named)
{
	json_t *json;

	worker_set_exit(&worker, CLD_KILLED, SIGKILL);
	ck_assert(worker_bad_exit(&worker));
	ck_assert_str_eq(worker.exit.text, "signal 9 (SIGKILL)");
	ck_assert_int_eq(worker_failed_status(&worker), 137);
	assert_exit_json("{\"core_dumped\":false,\"signal\":9,\"signal_name\":\"SIGKILL\"}");
	worker_set_exit(&worker, CLD_DUMPED, SIGSEGV);
	ck_assert_str_eq(worker.exit.text, "signal 11 (SIGSEGV), core dumped");
	assert_exit_json("{\"core_dumped\":true,\"signal\":11,\"signal_name\":\"SIGSEGV\"}");
	worker.exit.core_file = strdup("/logs/core");
	worker.exit.kernel = strdup("train[71]: segfault at 8");
	json = worker_exit_json(&worker.exit);
	worker_set_exit_json(&worker, json);
	json_decref(json);
	assert_exit_json("{\"core\":\"/logs/core\",\"core_dumped\":true,"
			 "\"kernel\":\"train[71]: segfault at 8\",\"signal\":11,"
			 "\"signal_name\":\"SIGSEGV\"}");
	worker_set_exit(&worker, CLD_KILLED, SIGRTMIN + 3);
	ck_assert_ptr_nonnull(strstr(worker.exit.text, "SIGRTMIN+3"));
}
END_TEST

START_TEST(a_note_is_the_end_of_the_text_of_an_exit)
{
	worker_set_exit(&worker, CLD_KILLED, SIGKILL);
	worker_note_exit(&worker, "");
	ck_assert_str_eq(worker_exit_note(&worker.exit), "");
	worker_note_exit(&worker, ", perhaps out of memory");
	ck_assert_str_eq(worker_exit_note(&worker.exit), ", perhaps out of memory");
	ck_assert_str_eq(worker.exit.text, "signal 9 (SIGKILL), perhaps out of memory");
	worker_renew(&worker);
	ck_assert_str_eq(worker_exit_note(&worker.exit), "");
}
END_TEST

START_TEST(a_head_can_have_one_for_each_worker_of_thousands_of_hosts)
{
	ck_assert_uint_le(sizeof(struct worker), 704);
}
END_TEST

START_TEST(every_exit_code_and_signal_but_success_has_the_status_of_a_shell)
{
	for (int i = 0; i < 256; i++) {
		worker_set_exit(&worker, CLD_EXITED, i);
		ck_assert_int_eq(worker_failed_status(&worker), i ? i : 1);
		ck_assert_int_eq(worker_bad_exit(&worker), i != 0);
	}
	for (int i = 1; i < 65; i++) {
		worker_set_exit(&worker, CLD_KILLED, i);
		ck_assert_int_eq(worker_failed_status(&worker), 128 + i);
		ck_assert(worker_bad_exit(&worker));
	}
}
END_TEST

START_TEST(a_failure_that_the_agent_ended_has_the_status_1)
{
	worker_set_exit(&worker, CLD_KILLED, SIGTERM);
	ck_assert_int_eq(worker_failed_status(&worker), 143);
	ck_assert(!worker_ended_by_agent(&worker));
	worker.stop_signal = SIGTERM;
	ck_assert_int_eq(worker_failed_status(&worker), 1);
	worker_set_exit(&worker, CLD_KILLED, SIGKILL);
	ck_assert_int_eq(worker_failed_status(&worker), 1);
	worker_set_exit(&worker, CLD_EXITED, 143);
	ck_assert(worker_ended_by_agent(&worker));
	ck_assert_int_eq(worker_failed_status(&worker), 1);
	/* Another exit code is the worker's own, also during a stop. */
	worker_set_exit(&worker, CLD_EXITED, 3);
	ck_assert(!worker_ended_by_agent(&worker));
	ck_assert_int_eq(worker_failed_status(&worker), 3);
	worker_set_exit(&worker, CLD_EXITED, 0);
	ck_assert_int_eq(worker_failed_status(&worker), 1);
	worker_renew(&worker);
	ck_assert_int_eq(worker.stop_signal, 0);
}
END_TEST

START_TEST(a_command_that_was_not_executed_is_127_or_126)
{
	worker_set_exec_error(&worker, ENOENT, "exec", "train");
	ck_assert(worker_bad_exit(&worker));
	ck_assert_str_eq(worker.exit.text, "cannot exec train: No such file or directory");
	ck_assert_int_eq(worker_failed_status(&worker), 127);
	assert_exit_json(
		"{\"errno\":2,\"error\":\"cannot exec train: No such file or directory\"}");
	worker_set_exec_error(&worker, EACCES, "exec", "train");
	ck_assert_int_eq(worker_failed_status(&worker), 126);
	worker_set_exec_error(&worker, ENOENT, "change to the working directory", "/gone");
	ck_assert_int_eq(worker_failed_status(&worker), 125);
}
END_TEST

START_TEST(a_program_with_a_long_or_binary_name_does_no_harm)
{
	_cleanup_json_ json_t *j = NULL;
	const json_t *error;
	char program[5000];

	memset(program, '\xff', sizeof(program) - 1);
	program[sizeof(program) - 1] = '\0';
	worker_set_exec_error(&worker, ENOENT, "exec", program);
	ck_assert_uint_eq(strlen(worker.exit.text), sizeof(worker.exit.text) - 1);
	worker_set_state(&worker, WORKER_FAILED, worker.exit.text);
	j = worker_json(&worker);
	/* The text is there, as valid UTF-8. */
	error = json_object_get(json_object_get(j, "exit"), "error");
	ck_assert_int_eq(strncmp(json_string_value(error), "cannot exec \xef\xbf\xbd", 15), 0);
	ck_assert(json_is_string(json_object_get(j, "reason")));
}
END_TEST

START_TEST(an_earlier_end_leaves_no_trace_in_the_next)
{
	worker_set_exec_error(&worker, ENOENT, "exec", "train");
	worker_set_exit(&worker, CLD_DUMPED, SIGABRT);
	worker_set_exit(&worker, CLD_EXITED, 1);
	assert_exit_json("{\"code\":1}");
	ck_assert_int_eq(worker.exit.signal, 0);
	ck_assert(!worker.exit.core);
}
END_TEST

static void assert_json(const char *expected)
{
	_cleanup_json_ json_t *j = worker_json(&worker);
	_cleanup_free_ char *text = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);

	ck_assert_str_eq(text, expected);
}

#define WHO "\"index\":2,\"local_rank\":5,"

START_TEST(the_json_has_what_is_known_so_far)
{
	assert_json("{" WHO "\"rank\":5,\"role\":\"trainer\",\"state\":\"waiting\"}");
	worker.pid = 77;
	worker.started_us = 1000;
	worker_set_state(&worker, WORKER_STOPPING, "why");
	assert_json("{" WHO "\"pid\":77,\"rank\":5,\"reason\":\"why\",\"role\":\"trainer\","
		    "\"started_us\":1000,\"state\":\"stopping\"}");
	worker.pid = 0;
	worker.exit_pid = 77;
	worker.ended_us = 2000;
	worker_set_exit(&worker, CLD_EXITED, 0);
	worker_set_state(&worker, WORKER_SUCCEEDED, NULL);
	assert_json("{\"ended_us\":2000,\"exit\":{\"code\":0}," WHO
		    "\"pid\":77,\"rank\":5,\"role\":\"trainer\",\"started_us\":1000,"
		    "\"state\":\"succeeded\"}");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker");
	TCase *t = tcase_create("worker");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_new_worker_waits_and_has_no_process);
	tcase_add_test(t, a_state_has_its_reason_until_the_next_state);
	tcase_add_test(t, a_worker_is_named_by_its_role_and_index);
	tcase_add_test(t, an_exit_code_is_kept_and_named);
	tcase_add_test(t, a_signal_is_kept_and_named);
	tcase_add_test(t, a_note_is_the_end_of_the_text_of_an_exit);
	tcase_add_test(t, a_head_can_have_one_for_each_worker_of_thousands_of_hosts);
	tcase_add_test(t, every_exit_code_and_signal_but_success_has_the_status_of_a_shell);
	tcase_add_test(t, a_failure_that_the_agent_ended_has_the_status_1);
	tcase_add_test(t, a_command_that_was_not_executed_is_127_or_126);
	tcase_add_test(t, a_program_with_a_long_or_binary_name_does_no_harm);
	tcase_add_test(t, an_earlier_end_leaves_no_trace_in_the_next);
	tcase_add_test(t, the_json_has_what_is_known_so_far);
	suite_add_tcase(s, t);
	return suite_run(s);
}
