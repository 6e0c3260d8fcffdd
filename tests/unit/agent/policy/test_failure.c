/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure.h"

#include "common/base/file.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

enum { S = 1000000, N = 6 };

/* The workers of these tests begin at 100 s. */
#define AT(s) ((int64_t)((s)*S))

static char role_name[] = "trainer";
static const struct spec_role role = { .name = role_name, .replicas = N };
static struct worker workers[N];
static struct failures failures;
static char dir[64];

static void setup(void)
{
	strcpy(dir, "/tmp/test_failure.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	failures = (struct failures){ 0 };
	for (int i = 0; i < N; i++) {
		worker_init(&workers[i], &role, i, i);
		workers[i].started_us = AT(100);
		workers[i].exit_pid = 1000 + i;
	}
}

static void teardown(void)
{
	failures_fini(&failures);
	for (int i = 0; i < N; i++)
		worker_fini(&workers[i]);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void ended(int i, double at, int code)
{
	workers[i].ended_us = AT(at);
	worker_set_exit(&workers[i], CLD_EXITED, code);
}

static void killed(int i, double at, int signo)
{
	workers[i].ended_us = AT(at);
	worker_set_exit(&workers[i], CLD_KILLED, signo);
}

static void wrote(int i, const char *text)
{
	ck_assert_int_gt(asprintf(&workers[i].error_file, "%s/%d.json", dir, i), 0);
	if (text)
		ck_assert_int_eq(
			file_write_atomic(workers[i].error_file, text, strlen(text), 0600, false),
			0);
}

/* Collects failures, and checks the order of their ranks. */
static void collect(size_t n, const int *ranks)
{
	ck_assert_int_eq(failures_known(&failures, workers, N, 0), 0);
	ck_assert_uint_eq(failures.n, n);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(failures.items[i].worker->rank == ranks[i], "%zu. is rank %d", i,
			failures.items[i].worker->rank);
}

START_TEST(running_and_succeeded_workers_are_no_failures)
{
	ended(1, 101, 0);
	workers[2].stop_us = AT(101);
	ended(2, 102, 0);
	collect(0, NULL);
	ck_assert(!failures.has_root);
	failures_fini(&failures);
	ck_assert_int_eq(failures_known(&failures, workers, 0, 0), 0);
	ck_assert_uint_eq(failures.n, 0);
}
END_TEST

START_TEST(the_root_cause_is_first_then_others_by_time_then_the_collateral)
{
	/* 3 failed first, 1 and 4 after it by themselves, 0 and 5 were stopped. */
	killed(0, 104, SIGTERM);
	workers[0].stop_us = AT(103);
	ended(1, 102.5, 1);
	ended(2, 103, 0);
	killed(3, 101, SIGSEGV);
	ended(4, 102, 7);
	killed(5, 103.5, SIGTERM);
	workers[5].stop_us = AT(103);
	collect(5, (int[]){ 3, 4, 1, 5, 0 });
	ck_assert(failures.has_root);
	for (size_t i = 0; i < 5; i++)
		ck_assert_int_eq(failures.items[i].collateral, i >= 3);
}
END_TEST

START_TEST(failures_stand_as_their_places_say_whatever_they_are)
{
	unsigned seed = 1;

	for (int round = 0; round < 2000; round++) {
		for (int i = 0; i < N; i++) {
			seed = seed * 1103515245 + 12345;
			workers[i].stop_us = seed >> 16 & 1 ? AT(101) : 0;
			if (seed >> 17 & 1)
				killed(i, 100 + (seed >> 20) % 3, SIGABRT);
			else
				ended(i, 100 + (seed >> 20) % 3, 1);
		}
		ck_assert_int_eq(failures_known(&failures, workers, N, 0), 0);
		ck_assert_uint_eq(failures.n, N);
		ck_assert_int_eq(failures.has_root, !failures.items[0].collateral);
		for (int i = 0; i < N; i++) {
			const struct failure *f = &failures.items[i];

			/* No worker wrote a file, so nothing shows that it failed before the stop.
			 */
			ck_assert_int_eq(f->collateral, f->worker->stop_us != 0);
			ck_assert(i == 0 || root_cause_compare(&f[-1].place, &f->place) <= 0);
		}
		failures_fini(&failures);
	}
}
END_TEST

START_TEST(ties_go_to_a_signal_and_then_to_the_lower_rank)
{
	ended(1, 101, 1);
	killed(2, 101, SIGSEGV);
	ended(3, 101, 1);
	killed(4, 101, SIGSEGV);
	collect(4, (int[]){ 2, 4, 1, 3 });
}
END_TEST

START_TEST(when_all_were_stopped_there_is_no_root_cause)
{
	for (int i = 0; i < 2; i++) {
		killed(i, 103 - i, SIGTERM);
		workers[i].stop_us = AT(101);
	}
	collect(2, (int[]){ 1, 0 });
	ck_assert(!failures.has_root);
	ck_assert(!failures.items[0].place.by_signal);
}
END_TEST

START_TEST(a_worker_s_own_timestamp_decides)
{
	ended(0, 102, 1);
	ended(1, 104, 1);
	wrote(0, NULL);
	wrote(1, "{\"message\": \"first\", \"timestamp\": 101.5}");
	collect(2, (int[]){ 1, 0 });
	ck_assert(failures.items[0].has_file);
	ck_assert_str_eq(failures.items[0].file.message, "first");
	ck_assert_ptr_null(failures.items[0].problem);
	/* A missing file is no problem to report. */
	ck_assert(!failures.items[1].has_file);
	ck_assert_ptr_null(failures.items[1].problem);
}
END_TEST

START_TEST(an_implausible_timestamp_is_named_and_not_used)
{
	ended(0, 102, 1);
	ended(1, 104, 1);
	wrote(1, "{\"message\": \"x\", \"timestamp\": 5.5}");
	collect(2, (int[]){ 0, 1 });
	ck_assert(failures.items[1].has_file);
	ck_assert_str_eq(failures.items[1].problem,
		"its timestamp is not between the worker's start and end and is not used");
}
END_TEST

START_TEST(a_broken_file_is_named_and_costs_nothing_else)
{
	char text[256];

	ended(0, 102, 9);
	wrote(0, "{\"message\": ");
	collect(1, (int[]){ 0 });
	ck_assert(!failures.items[0].has_file);
	ck_assert_str_eq(failures.items[0].problem, "not valid JSON");
	failure_message(&failures.items[0], text, sizeof(text));
	ck_assert_str_eq(text, "exited with code 9 and left no error file");
}
END_TEST

START_TEST(a_message_is_one_line)
{
	char text[256];

	ended(0, 102, 1);
	killed(1, 103, SIGSEGV);
	workers[2].ended_us = AT(104);
	worker_set_exec_error(&workers[2], ENOENT, "exec", "a\nb");
	wrote(0, "{\"message\": \"RuntimeError: CUDA\\nline 2\\ttab\\u007f \xc3\xa4\"}");
	collect(3, (int[]){ 0, 1, 2 });
	failure_message(&failures.items[0], text, sizeof(text));
	ck_assert_str_eq(text, "RuntimeError: CUDA line 2 tab  \xc3\xa4");
	failure_message(&failures.items[1], text, sizeof(text));
	ck_assert_str_eq(text, "Signal 11 (SIGSEGV) received by PID 1001");
	failure_message(&failures.items[2], text, sizeof(text));
	ck_assert_str_eq(text, "cannot exec a b: No such file or directory");
}
END_TEST

START_TEST(known_failures_include_workers_that_hang_or_reported_an_error)
{
	char text[512];

	ended(0, 103, 4);
	workers[1].pid = 77;
	workers[1].app_error = strdup("out of data (Internal)");
	workers[1].blame_us = AT(102);
	workers[2].pid = 78;
	strcpy(workers[2].blame, "no beat for 10 s");
	workers[2].blame_us = AT(104);
	workers[3].pid = 79;
	collect(1, (int[]){ 0 });
	failures_fini(&failures);
	ck_assert_int_eq(failures_known(&failures, workers, N, AT(105)), 0);
	ck_assert_uint_eq(failures.n, 3);
	ck_assert_int_eq(failures.items[0].worker->rank, 1);
	ck_assert_int_eq(failures.items[1].worker->rank, 0);
	ck_assert_int_eq(failures.items[2].worker->rank, 2);
	ck_assert_int_eq(failures.items[0].status, 1);
	failure_text(&failures.items[0], text, sizeof(text));
	ck_assert_str_eq(text, "trainer:1: out of data (Internal)");
	/* It then ends by the agent's signal, which its text does not mention. */
	failures_fini(&failures);
	workers[1].pid = 0;
	workers[1].stop_us = AT(105);
	workers[1].stop_signal = SIGTERM;
	killed(1, 106, SIGTERM);
	collect(2, (int[]){ 1, 0 });
	ck_assert_int_eq(failures.items[0].status, 1);
	failure_text(&failures.items[0], text, sizeof(text));
	ck_assert_str_eq(text, "trainer:1: out of data (Internal)");
}
END_TEST

START_TEST(the_json_of_a_failure_has_every_member)
{
	_cleanup_free_ char *text = NULL, *expected = NULL;
	_cleanup_json_ json_t *j = NULL;
	json_t *tail = json_pack("[s]", "last line");

	ended(3, 104, 17);
	wrote(3, "{\"message\": {\"message\": \"a\\nb\", \"extraInfo\": {\"py_callstack\": "
		 "\"tb\\n\", \"timestamp\": \"102.5\"}}}");
	collect(1, (int[]){ 3 });
	j = failure_json(&failures.items[0], "node1", 2, tail);
	text = json_dumps(j, JSON_COMPACT);
	ck_assert_int_gt(asprintf(&expected,
				 "{\"role\":\"trainer\",\"index\":3,\"rank\":3,\"local_rank\":3,"
				 "\"host\":\"node1\",\"pid\":1003,\"attempt\":2,"
				 "\"time_us\":102500000,\"exit\":{\"code\":17},"
				 "\"message\":\"a\\nb\",\"text\":\"trainer:3: a b "
				 "(exit code 17)\",\"exit_status\":17,\"reported\":true,"
				 "\"traceback\":\"tb\\n\","
				 "\"error_file\":\"%s/3.json\",\"collateral\":false,"
				 "\"stderr_tail\":[\"last line\"]}",
				 dir),
		0);
	ck_assert_str_eq(text, expected);
}
END_TEST

START_TEST(the_json_leaves_out_what_is_not_known)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_json_ json_t *j = NULL;

	workers[0].exit_pid = 0;
	workers[0].ended_us = AT(100);
	worker_set_exec_error(&workers[0], EACCES, "exec", "\xff");
	wrote(0, NULL);
	collect(1, (int[]){ 0 });
	j = failure_json(&failures.items[0], "host\xff", 0, NULL);
	text = json_dumps(j, JSON_COMPACT);
	ck_assert_str_eq(text,
		"{\"role\":\"trainer\",\"index\":0,\"rank\":0,\"local_rank\":0,"
		"\"host\":\"host\xef\xbf\xbd\",\"attempt\":0,\"time_us\":100000000,"
		"\"exit\":{\"error\":\"cannot exec \xef\xbf\xbd: Permission denied\",\"errno\":13},"
		"\"message\":\"cannot exec \xef\xbf\xbd: Permission denied\","
		"\"text\":\"trainer:0: cannot exec \xef\xbf\xbd: Permission denied\","
		"\"exit_status\":126,"
		"\"collateral\":false}");
}
END_TEST

START_TEST(the_json_names_a_broken_file_and_its_problem)
{
	_cleanup_json_ json_t *j = NULL;

	ended(0, 102, 1);
	wrote(0, "");
	collect(1, (int[]){ 0 });
	j = failure_json(&failures.items[0], "h", 0, NULL);
	ck_assert_str_eq(
		json_string_value(json_object_get(j, "error_file")), workers[0].error_file);
	ck_assert_str_eq(
		json_string_value(json_object_get(j, "error_file_problem")), "the file is empty");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("failure");
	TCase *t = tcase_create("failure");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, running_and_succeeded_workers_are_no_failures);
	tcase_add_test(t, the_root_cause_is_first_then_others_by_time_then_the_collateral);
	tcase_add_test(t, failures_stand_as_their_places_say_whatever_they_are);
	tcase_add_test(t, ties_go_to_a_signal_and_then_to_the_lower_rank);
	tcase_add_test(t, when_all_were_stopped_there_is_no_root_cause);
	tcase_add_test(t, a_worker_s_own_timestamp_decides);
	tcase_add_test(t, an_implausible_timestamp_is_named_and_not_used);
	tcase_add_test(t, a_broken_file_is_named_and_costs_nothing_else);
	tcase_add_test(t, a_message_is_one_line);
	tcase_add_test(t, known_failures_include_workers_that_hang_or_reported_an_error);
	tcase_add_test(t, the_json_of_a_failure_has_every_member);
	tcase_add_test(t, the_json_leaves_out_what_is_not_known);
	tcase_add_test(t, the_json_names_a_broken_file_and_its_problem);
	suite_add_tcase(s, t);
	return suite_run(s);
}
