/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/report.h"

#include "common/base/cleanup.h"
#include "common/base/printable.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BASE                                                                               \
	"\"role\":\"trainer\",\"index\":2,\"rank\":2,\"local_rank\":2,\"host\":\"node1\"," \
	"\"pid\":4711,\"attempt\":1,\"time_us\":1700000000123456,"

static char *format(const char *failures)
{
	_cleanup_json_ json_t *j = json_loads(failures, JSON_DECODE_ANY, NULL);
	char *text;

	ck_assert_ptr_nonnull(j);
	text = report_format("train.py", j, false);
	ck_assert_ptr_nonnull(text);
	return text;
}

static void has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part), "missing:\n%s\nin:\n%s", part, text);
}

static void has_not(const char *text, const char *part)
{
	ck_assert_msg(!strstr(text, part), "should not be there:\n%s\nin:\n%s", part, text);
}

static void in_order(const char *text, const char *a, const char *b)
{
	const char *pa = strstr(text, a), *pb = strstr(text, b);

	ck_assert_msg(pa && pb && pa < pb, "expected '%s' before '%s' in:\n%s", a, b, text);
}

START_TEST(the_root_cause_has_all_fields_of_torchelastic)
{
	_cleanup_free_ char *t = format("[{" BASE "\"exit\":{\"code\":17},\"message\":\"boom\","
					"\"error_file\":\"/l/error.json\",\"collateral\":false}]");

	has(t, "train.py FAILED\n");
	has(t, "Root Cause (first observed failure):\n[0]:\n");
	has(t, "  time      : 2023-11-14_22:13:20.123456\n");
	has(t, "  host      : node1\n");
	has(t, "  rank      : 2 (local_rank: 2)\n");
	has(t, "  role      : trainer:2 (attempt: 1)\n");
	has(t, "  exitcode  : 17 (pid: 4711)\n");
	has(t, "  error_file: /l/error.json\n");
	has(t, "  message   : boom\n  traceback : <N/A>\n");
	has(t, "  <NO_OTHER_FAILURES>\n");
	has_not(t, "Collateral");
}
END_TEST

#define AT(us, more) "{\"rank\":0,\"time_us\":" us ",\"exit\":{\"code\":1},\"collateral\":" more "}"

START_TEST(the_root_cause_is_called_the_first_where_it_is)
{
	static const struct {
		const char *failures;
		bool first;
	} cases[] = {
		{ "[" AT("20", "false") "]", true },
		{ "[" AT("20", "false") "," AT("30", "false") "]", true },
		{ "[" AT("20", "false") "," AT("20", "false") "]", true },
		{ "[" AT("20", "false") "," AT("10", "true") "]", true },
		{ "[" AT("20", "false") ",{\"rank\":1}]", true },
		{ "[" AT("20", "false") "," AT("10", "false") "]", false },
		{ "[" AT("20", "false") "," AT("30", "true") "," AT("19", "false") "]", false },
		{ "[" AT("20", "true") "]", true },
		{ "[]", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_free_ char *t = format(cases[i].failures);

		has(t, cases[i].first ? "Root Cause (first observed failure):\n"
				      : "Root Cause (earlier failures stand below):\n[0]:\n");
	}
}
END_TEST

START_TEST(a_signal_is_named_and_shown_as_a_negative_exit_code)
{
	_cleanup_free_ char *t = format("[{" BASE "\"exit\":{\"signal\":11,\"signal_name\":"
					"\"SIGSEGV\",\"core_dumped\":true},\"message\":"
					"\"Signal 11 (SIGSEGV) received by PID 4711\"}]");

	has(t, "  exitcode  : -11 (pid: 4711)\n  signal    : 11 (SIGSEGV), core dumped\n");
	has(t, "  message   : Signal 11 (SIGSEGV) received by PID 4711\n");
	has(t, "  error_file: <N/A>\n");
}
END_TEST

START_TEST(a_signal_without_a_name_is_still_reported)
{
	_cleanup_free_ char *t = format("[{" BASE "\"exit\":{\"signal\":35},\"message\":\"x\"}]");

	has(t, "  signal    : 35 (<N/A>)\n");
}
END_TEST

START_TEST(an_exec_error_is_shown_with_its_reason)
{
	_cleanup_free_ char *t = format("[{" BASE "\"exit\":{\"error\":\"No such file\","
					"\"errno\":2},\"message\":\"cannot execute ./x\"}]");

	has(t, "  exitcode  : <N/A> (pid: 4711)\n  exec error: No such file\n");
}
END_TEST

START_TEST(a_traceback_keeps_its_lines_and_makes_its_own_message_superfluous)
{
	_cleanup_free_ char *t = format(
		"[{" BASE "\"exit\":{\"code\":1},\"message\":\"ValueError: no\","
		"\"traceback\":\"Traceback (most recent call last):\\n  File 1\\nValueError: no\\n\"}]");

	has(t, "  traceback : Traceback (most recent call last):\n      File 1\n    ValueError: no\n");
	has_not(t, "message");
}
END_TEST

START_TEST(a_message_that_the_traceback_lacks_is_shown_too)
{
	_cleanup_free_ char *t = format("[{" BASE "\"exit\":{\"code\":1},\"message\":\"why\","
					"\"traceback\":\"tb\"}]");

	in_order(t, "  message   : why\n", "  traceback : tb\n");
}
END_TEST

START_TEST(other_failures_follow_and_collateral_comes_last_in_one_line_each)
{
	_cleanup_free_ char *t = format(
		"[{" BASE "\"exit\":{\"code\":1},\"message\":\"first\"},"
		"{\"rank\":0,\"local_rank\":0,\"pid\":7,\"collateral\":true,"
		"\"exit\":{\"signal\":15,\"signal_name\":\"SIGTERM\"}},"
		"{\"rank\":3,\"local_rank\":3,\"exit\":{\"code\":4},\"message\":\"second\"}]");

	in_order(t, "message   : first", "Other failures:\n[1]:\n");
	in_order(t, "message   : second", "Collateral (ended after the failure");
	has(t, "  rank 0 (local_rank: 0, pid: 7): killed by signal 15 (SIGTERM)\n");
	has_not(t, "<NO_OTHER_FAILURES>");
}
END_TEST

START_TEST(collateral_alone_is_never_a_root_cause)
{
	_cleanup_free_ char *t = format("[{" BASE "\"exit\":{\"code\":1},\"collateral\":true}]");

	has(t, "  <NO_ROOT_CAUSE>\n");
	has(t, "  rank 2 (local_rank: 2, pid: 4711): exited with code 1\n");
}
END_TEST

START_TEST(the_end_of_stderr_belongs_to_the_root_cause_and_is_limited)
{
	_cleanup_json_ json_t *j = json_loads("[{" BASE "\"exit\":{\"code\":1}}]", 0, NULL);
	json_t *tail = json_array();
	_cleanup_free_ char *t = NULL;
	char line[32];

	for (int i = 0; i < 40; i++) {
		snprintf(line, sizeof(line), "line-%d", i);
		ck_assert_int_eq(json_array_append_new(tail, json_string(line)), 0);
	}
	ck_assert_int_eq(json_object_set_new(json_array_get(j, 0), "stderr_tail", tail), 0);
	t = report_format("x", j, false);
	has(t, "  stderr    : last 30 lines\n    | line-10\n");
	has(t, "    | line-39\n");
	has_not(t, "line-9\n");
}
END_TEST

START_TEST(a_broken_error_file_is_reported)
{
	_cleanup_free_ char *t = format("[{" BASE "\"exit\":{\"code\":1},\"error_file\":\"/e\","
					"\"error_file_problem\":\"not JSON\"}]");

	has(t, "  error_file: /e\n  problem   : not JSON\n");
}
END_TEST

START_TEST(a_worker_cannot_steer_the_terminal)
{
	_cleanup_free_ char *t =
		format("[{" BASE "\"exit\":{\"code\":1},\"message\":\"\\u001b[2Jx\\u0007\","
		       "\"stderr_tail\":[\"\\u001b[31mred\\u001b[0m\\r\"]}]");

	has(t, "  message   : ^[[2Jx^G\n");
	has(t, "    | red\n");
	has_not(t, "\033");
}
END_TEST

START_TEST(nonsense_is_survived)
{
	static const char *const docs[] = { "[]", "{}", "null", "[null]", "[1,2]",
		"[{\"exit\":3,\"rank\":\"x\",\"stderr_tail\":{},\"time_us\":-1}]",
		"[{\"time_us\":9223372036854775807,\"stderr_tail\":[1]}]" };

	for (size_t i = 0; i < sizeof(docs) / sizeof(docs[0]); i++) {
		_cleanup_free_ char *t = format(docs[i]);

		has(t, "train.py FAILED");
	}
	{
		_cleanup_free_ char *t = report_format(NULL, NULL, true);

		has(t, "job FAILED");
	}
}
END_TEST

START_TEST(colour_is_only_there_when_asked_for)
{
	_cleanup_json_ json_t *j = json_loads("[{" BASE "\"exit\":{\"code\":1}}]", 0, NULL);
	_cleanup_free_ char *with = report_format("x", j, true);
	_cleanup_free_ char *without = report_format("x", j, false);

	has(with, "\033[1;31mx FAILED\033[0m");
	has_not(without, "\033");
}
END_TEST

START_TEST(printable_text_has_no_controls_and_is_utf8)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "plain \xc3\xa9\xe2\x82\xac", "plain \xc3\xa9\xe2\x82\xac" },
		{ "a\tb", "a\tb" },
		{ "a\x01\x7f", "a^A^?" },
		{ "\xff\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xc2\x9b", "<9B>" },
		{ "\033[1;32mok\033[m", "ok" },
		{ "\033[", "^[[" },
		{ "\xf0\x9f\x98\x80\xf0\x9f", "\xf0\x9f\x98\x80\xef\xbf\xbd\xef\xbf\xbd" },
		{ "50%\r60%\r", "50%^M60%" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_free_ char *s = printable_dup(rows[i].in);

		ck_assert_str_eq(s, rows[i].out);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("report");
	TCase *tc = tcase_create("report");

	setenv("TZ", "UTC", 1);
	tzset();
	tcase_add_test(tc, the_root_cause_has_all_fields_of_torchelastic);
	tcase_add_test(tc, the_root_cause_is_called_the_first_where_it_is);
	tcase_add_test(tc, a_signal_is_named_and_shown_as_a_negative_exit_code);
	tcase_add_test(tc, a_signal_without_a_name_is_still_reported);
	tcase_add_test(tc, an_exec_error_is_shown_with_its_reason);
	tcase_add_test(tc, a_traceback_keeps_its_lines_and_makes_its_own_message_superfluous);
	tcase_add_test(tc, a_message_that_the_traceback_lacks_is_shown_too);
	tcase_add_test(tc, other_failures_follow_and_collateral_comes_last_in_one_line_each);
	tcase_add_test(tc, collateral_alone_is_never_a_root_cause);
	tcase_add_test(tc, the_end_of_stderr_belongs_to_the_root_cause_and_is_limited);
	tcase_add_test(tc, a_broken_error_file_is_reported);
	tcase_add_test(tc, a_worker_cannot_steer_the_terminal);
	tcase_add_test(tc, nonsense_is_survived);
	tcase_add_test(tc, colour_is_only_there_when_asked_for);
	tcase_add_test(tc, printable_text_has_no_controls_and_is_utf8);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
