/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preempt/notice_command.h"
#include "tests/unit/run.h"

#include <check.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static struct notice_command_result r;

static void judge(int code, int status, const char *out, const char *err)
{
	notice_command_evaluate(code, status, out, err, &r);
}

START_TEST(exit_code_0_is_a_notice_with_its_line)
{
	judge(CLD_EXITED, 0, "the rack loses its power", "");
	ck_assert_int_eq(r.what, NOTICE_COMMAND_NOTICE);
	ck_assert_str_eq(r.text, "the rack loses its power");
	ck_assert_int_eq(r.grace_ms, SPEC_UNSET);
}
END_TEST

START_TEST(exit_code_0_without_output_is_a_notice)
{
	judge(CLD_EXITED, 0, "", "noise");
	ck_assert_int_eq(r.what, NOTICE_COMMAND_NOTICE);
	ck_assert_str_eq(r.text, "");
}
END_TEST

static const struct {
	const char *line, *text;
	int64_t grace_ms;
} graces[] = {
	{ "grace=30s", "", 30000 },
	{ "power grace=30s", "power", 30000 },
	{ "grace=1h30m power", "power", 5400000 },
	{ "power grace=0 off", "power  off", 0 },
	{ "power grace=", "power grace=", SPEC_UNSET },
	{ "power grace=soon", "power grace=soon", SPEC_UNSET },
	{ "disgrace=30s", "disgrace=30s", SPEC_UNSET },
	{ "disgrace=1s grace=2s", "disgrace=1s", 2000 },
	{ "grace=99999999999999999999999999999999999999999999999999999999999999999999999d", NULL,
		SPEC_UNSET },
};

START_TEST(a_word_of_the_line_sets_the_grace)
{
	judge(CLD_EXITED, 0, graces[_i].line, "");
	ck_assert_int_eq(r.what, NOTICE_COMMAND_NOTICE);
	ck_assert_int_eq(r.grace_ms, graces[_i].grace_ms);
	if (graces[_i].text)
		ck_assert_str_eq(r.text, graces[_i].text);
}
END_TEST

START_TEST(exit_code_1_is_no_notice)
{
	judge(CLD_EXITED, 1, "grace=5s", "noise");
	ck_assert_int_eq(r.what, NOTICE_COMMAND_NONE);
}
END_TEST

START_TEST(other_ends_are_faults_with_a_reason)
{
	judge(CLD_EXITED, 127, "out", "not found");
	ck_assert_int_eq(r.what, NOTICE_COMMAND_BROKEN);
	ck_assert_ptr_nonnull(strstr(r.text, "exited with 127"));
	ck_assert_ptr_nonnull(strstr(r.text, "not found"));
	judge(CLD_EXITED, 2, "only this", "");
	ck_assert_ptr_nonnull(strstr(r.text, "only this"));
	judge(CLD_KILLED, SIGKILL, "", "");
	ck_assert_int_eq(r.what, NOTICE_COMMAND_BROKEN);
	ck_assert_ptr_nonnull(strstr(r.text, "SIGKILL"));
	judge(CLD_DUMPED, SIGSEGV, "", "");
	ck_assert_int_eq(r.what, NOTICE_COMMAND_BROKEN);
}
END_TEST

static const struct {
	enum notice_command_what last, what;
	int64_t last_grace, grace, after;
	bool news;
} news[] = {
	{ NOTICE_COMMAND_NONE, NOTICE_COMMAND_NONE, SPEC_UNSET, SPEC_UNSET, 1000, false },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NONE, SPEC_UNSET, SPEC_UNSET, 1000, false },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_BROKEN, SPEC_UNSET, SPEC_UNSET, 1000, false },
	{ NOTICE_COMMAND_NONE, NOTICE_COMMAND_NOTICE, SPEC_UNSET, SPEC_UNSET, 1000, true },
	{ NOTICE_COMMAND_BROKEN, NOTICE_COMMAND_NOTICE, SPEC_UNSET, SPEC_UNSET, 1000, true },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NOTICE, SPEC_UNSET, SPEC_UNSET, 1000, false },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NOTICE, SPEC_UNSET, 30000, 1000, true },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NOTICE, 30000, SPEC_UNSET, 1000, true },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NOTICE, 30000, 30000, 1000, false },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NOTICE, 30000, 29000, 1000, false },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NOTICE, 30000, 28000, 1000, false },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NOTICE, 30000, 25000, 1000, true },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NOTICE, 30000, 0, 30000, false },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NOTICE, 30000, 0, 1000, true },
	{ NOTICE_COMMAND_NOTICE, NOTICE_COMMAND_NOTICE, 30000, 60000, 1000, false },
};

START_TEST(a_notice_is_new_if_it_leaves_less_time)
{
	struct notice_command_result last = { news[_i].last, news[_i].last_grace, 7000, "30 s" };

	r = (struct notice_command_result){ news[_i].what, news[_i].grace,
		7000 + (uint64_t)news[_i].after, "29 s" };
	ck_assert_int_eq(notice_command_is_news(&last, &r), news[_i].news);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("notice_command");
	TCase *t = tcase_create("judge");

	tcase_add_test(t, exit_code_0_is_a_notice_with_its_line);
	tcase_add_test(t, exit_code_0_without_output_is_a_notice);
	tcase_add_loop_test(
		t, a_word_of_the_line_sets_the_grace, 0, sizeof(graces) / sizeof(graces[0]));
	tcase_add_test(t, exit_code_1_is_no_notice);
	tcase_add_test(t, other_ends_are_faults_with_a_reason);
	tcase_add_loop_test(
		t, a_notice_is_new_if_it_leaves_less_time, 0, sizeof(news) / sizeof(news[0]));
	suite_add_tcase(s, t);
	return suite_run(s);
}
