/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/file.h"
#include "tests/unit/run.h"
#include "tests/unit/spec_doc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

static char dir[] = "/tmp/test-spec-preemption-XXXXXX";

static void firmware(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	ck_assert_int_eq(file_write_atomic(path, text, strlen(text), 0600, false), 0);
}

static enum spec_exit_class class_of(const struct spec_restart *r, int code)
{
	for (size_t i = 0; i < r->n_codes; i++)
		if (!r->codes[i].is_signal && r->codes[i].value == code)
			return r->codes[i].class;
	return SPEC_EXIT_COUNT;
}

START_TEST(a_job_takes_no_notice_that_it_does_not_name)
{
	_cleanup_(spec_freep) struct spec *s = parse("{'roles':[{'command':['a']}]}");
	const struct spec_preemption *p = &s->preemption;

	ck_assert_uint_eq(p->notices, 0);
	ck_assert_int_eq(p->signals[0], SIGTERM);
	ck_assert_int_eq(p->signals[1], 0);
	ck_assert_ptr_null(p->command);
	ck_assert_int_eq(p->poll_ms, 1000);
	ck_assert_int_eq(p->grace_ms, SPEC_UNSET);
	ck_assert_int_eq(p->timeout_ms, 600000);
	ck_assert_int_eq(p->how, SPEC_PREEMPT_AUTO);
	ck_assert_int_eq(p->signal, 0);
	ck_assert_int_eq(p->whom, SPEC_WHOM_MAIN);
	ck_assert_int_eq(p->exit_code, SPEC_UNSET);
	ck_assert(!p->resume);
}
END_TEST

START_TEST(all_of_it_is_read_as_it_stands)
{
	_cleanup_(spec_freep) struct spec *s =
		parse("{'roles':[{'command':['a']}],'preemption':{'notices':['logind','signal',"
		      "'command'],'signals':['USR1','TERM'],'command':['poll','x'],'poll':'5s',"
		      "'grace':0,'timeout':'1m','how':'agree','signal':'USR2','whom':'all',"
		      "'exit_code':99,'resume':true}}");
	const struct spec_preemption *p = &s->preemption;

	ck_assert_uint_eq(
		p->notices, SPEC_NOTICE_LOGIND | SPEC_NOTICE_SIGNAL | SPEC_NOTICE_COMMAND);
	ck_assert_int_eq(p->signals[0], SIGUSR1);
	ck_assert_int_eq(p->signals[1], SIGTERM);
	ck_assert_str_eq(p->command[1], "x");
	ck_assert_int_eq(p->poll_ms, 5000);
	ck_assert_int_eq(p->grace_ms, 0);
	ck_assert_int_eq(p->timeout_ms, 60000);
	ck_assert_int_eq(p->how, SPEC_PREEMPT_AGREE);
	ck_assert_int_eq(p->signal, SIGUSR2);
	ck_assert_int_eq(p->whom, SPEC_WHOM_ALL);
	ck_assert_int_eq(p->exit_code, 99);
	ck_assert(p->resume);
}
END_TEST

static const struct {
	const char *section, *text;
} wrong[] = {
	{ "{'notices':['command']}",
		"preemption.notices: \"command\" needs `command`, the program that tells of a notice" },
	{ "{'command':['a']}",
		"preemption.command: needs \"command\" among `notices`, or it is never run" },
	{ "{'notices':['signal'],'signals':[]}",
		"preemption.signals: expected at least one signal, which \"signal\" in `notices` "
		"waits for" },
	{ "{'notices':['gce','gcp']}",
		"preemption.notices[1]: expected \"signal\", \"command\", \"gce\", \"aws\", "
		"\"azure\", \"cloud\" or \"logind\", got \"gcp\"" },
	{ "{'exit_code':0}", "preemption.exit_code: expected an integer from 1 to 255, got 0" },
	{ "{'timeout':0}", "preemption.timeout: expected a duration greater than 0, got 0" },
};

START_TEST(errors_say_what_was_expected)
{
	char text[256];
	_cleanup_json_ json_t *doc = NULL;
	struct error err = { 0 };
	struct spec *s;

	snprintf(text, sizeof(text), "{'roles':[{'command':['a']}],'preemption':%s}",
		wrong[_i].section);
	doc = J(text);
	ck_assert_int_eq(spec_parse(doc, &s, &err), -EINVAL);
	ck_assert_str_eq(err.text, wrong[_i].text);
}
END_TEST

START_TEST(the_exit_code_is_free_where_no_rule_names_it)
{
	_cleanup_(spec_freep) struct spec *s =
		parse("{'roles':[{'name':'a','command':['a']},"
		      "{'name':'b','command':['a'],'restart':{'codes':{'99':'fatal'}}},"
		      "{'name':'c','command':['a'],'restart':{'max':1}}],"
		      "'restart':{'codes':{'7':'fatal','200':'fatal'}},"
		      "'preemption':{'exit_code':99}}");

	ck_assert_int_eq(class_of(&s->restart, 99), SPEC_EXIT_FREE);
	ck_assert_int_eq(class_of(&s->restart, 42), SPEC_EXIT_FREE);
	ck_assert_int_eq(class_of(&s->restart, 7), SPEC_EXIT_FATAL);
	ck_assert_int_eq(class_of(&s->restart, 200), SPEC_EXIT_FATAL);
	ck_assert_int_eq(class_of(s->roles[1].restart, 99), SPEC_EXIT_FATAL);
	ck_assert_int_eq(class_of(s->roles[2].restart, 99), SPEC_EXIT_FREE);
	ck_assert_uint_eq(s->restart.n_codes, 4);
	for (size_t i = 1; i < s->restart.n_codes; i++)
		ck_assert_int_lt(s->restart.codes[i - 1].value, s->restart.codes[i].value);
}
END_TEST

static int host_code(const char *section, bool gpu)
{
	_cleanup_(spec_freep) struct spec *s = NULL;
	char text[128];

	snprintf(text, sizeof(text), "{'roles':[{'command':['a']}],'preemption':%s}", section);
	s = parse(text);
	ck_assert_int_eq(spec_host_exit_code(s, dir, gpu), 0);
	if (s->preemption.exit_code != SPEC_UNSET)
		ck_assert_int_eq(class_of(&s->restart, s->preemption.exit_code), SPEC_EXIT_FREE);
	return s->preemption.exit_code;
}

START_TEST(a_machine_of_gces_with_a_gpu_has_a_code_of_its_own)
{
	ck_assert_int_eq(host_code("{}", true), SPEC_UNSET);
	firmware("sys_vendor", "Google\n");
	firmware("product_name", "Google Compute Engine\n");
	ck_assert_int_eq(host_code("{}", true), 143);
	ck_assert_int_eq(host_code("{}", false), SPEC_UNSET);
	ck_assert_int_eq(host_code("{'exit_code':42}", true), 42);
	firmware("sys_vendor", "Amazon EC2\n");
	firmware("product_name", "p5.48xlarge\n");
	ck_assert_int_eq(host_code("{}", true), SPEC_UNSET);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("spec_preemption");
	TCase *t = tcase_create("spec_preemption");
	int failed;

	if (!mkdtemp(dir))
		return EXIT_FAILURE;
	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_job_takes_no_notice_that_it_does_not_name);
	tcase_add_test(t, all_of_it_is_read_as_it_stands);
	tcase_add_loop_test(
		t, errors_say_what_was_expected, 0, (int)(sizeof(wrong) / sizeof(wrong[0])));
	tcase_add_test(t, the_exit_code_is_free_where_no_rule_names_it);
	tcase_add_test(t, a_machine_of_gces_with_a_gpu_has_a_code_of_its_own);
	suite_add_tcase(s, t);
	failed = suite_run(s);
	(void)!file_rm_rf(dir);
	return failed;
}
