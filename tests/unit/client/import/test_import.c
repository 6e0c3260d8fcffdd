/* SPDX-License-Identifier: Apache-2.0 */
#include "client/import/program.h"
#include "client/import/values.h"
#include "client/import/yaml_text.h"
#include "client/launch/yaml.h"

#include "common/base/cleanup.h"
#include "tests/unit/run.h"

#include <check.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALONE "nothing sends it events or opens its socket here: the job is disabled\n"
#define LISTENER "1: [eventlistener:a]: " ALONE
#define FCGI "1: [fcgi-program:a]: " ALONE

static char problems[4096];

static void on_problem(void *arg, const char *file, int line, const char *text)
{
	size_t n = strlen(problems);

	snprintf(problems + n, sizeof(problems) - n, "%d: %s\n", line, text);
}

static void assert_json(json_t *got, const char *expected)
{
	_cleanup_free_ char *text =
		got ? json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;

	ck_assert_str_eq(text ? text : "none", expected);
	json_decref(got);
}

static void assert_expands(const char *text, const char *expected, const char *problem)
{
	const struct value_name names[] = { { "n", "7" }, { "x", "word" } };
	_cleanup_free_ char *got = NULL, *why = NULL;

	ck_assert_int_eq(value_expand(text, names, 2, NULL, &got, &why), 0);
	ck_assert_str_eq(got, expected);
	ck_assert_str_eq(why ? why : "", problem);
}

START_TEST(known_names_are_replaced_and_others_stay)
{
	setenv("TEST_IMPORT", "value", 1);
	assert_expands("a%(x)sb%(n)d %(n)02d %(n)3d 5%%", "awordb7 07   7 5%", "");
	assert_expands("%(ENV_TEST_IMPORT)s/", "value/", "");
	assert_expands("%(y)s %(n", "%(y)s %(n", "%(y)s is not known here: it stays as it is");
	assert_expands("%(x)d", "%(x)d", "%(x)d is not known here: it stays as it is");
	assert_expands("50%", "50%", "% is not known here: it stays as it is");
}
END_TEST

START_TEST(commands_are_split_as_by_a_shell)
{
	assert_json(value_words("  a 'b c'\\ d \"e \\\" \\n\" f''g ''\n h"),
		"[\"a\",\"b c d\",\"e \\\" \\\\n\",\"fg\",\"\",\"h\"]");
	assert_json(value_words(" "), "[]");
	assert_json(value_words("a 'b"), "none");
}
END_TEST

START_TEST(environments_are_pairs)
{
	assert_json(value_pairs("A=1,B=\"x, y\" , C='=',\nD="),
		"{\"A\":\"1\",\"B\":\"x, y\",\"C\":\"=\",\"D\":\"\"}");
	assert_json(value_pairs("A=\"\\d+\\.\",B=\\x"), "{\"A\":\"\\\\d+\\\\.\",\"B\":\"\\\\x\"}");
	assert_json(value_pairs(""), "{}");
	assert_json(value_pairs("A"), "none");
	assert_json(value_pairs("=1"), "none");
	assert_json(value_pairs("A=\"1"), "none");
}
END_TEST

START_TEST(sections_have_long_lines_comments_and_continuations)
{
	_cleanup_(sections_fini) struct sections s = { 0 };
	char text[2048], longer[1024];
	struct section *x;

	problems[0] = '\0';
	memset(longer, 'y', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	snprintf(text, sizeof(text),
		"early=1\n[program:%.60s]\r\n# c\n Key = a ;b\n  ; none\n   more#not # c\n"
		"\n   last\nk: %s\nrubbish\n[bad\n",
		longer, longer);
	ck_assert_int_eq(sections_parse(&s, "/f", text, on_problem, NULL), 0);
	ck_assert_uint_eq(s.n, 1);
	x = &s.items[0];
	ck_assert_uint_eq(strlen(x->name), strlen("program:") + 60);
	ck_assert_str_eq(section_find(x, "key")->value, "a\nmore#not\nlast");
	ck_assert_int_eq(section_find(x, "key")->line, 4);
	ck_assert_str_eq(section_find(x, "k")->value, longer);
	ck_assert_str_eq(problems, "1: expected a [section], \"key = value\" or a comment\n"
				   "10: expected a [section], \"key = value\" or a comment\n"
				   "11: expected \"[section]\"\n");
}
END_TEST

/* Makes the job of the first section. The text below "---" is a file of another directory. */
static void assert_job(const char *text, const char *key, const char *expected, const char *said)
{
	_cleanup_(sections_fini) struct sections s = { 0 };
	const char *main = strstr(text, "---\n");
	_cleanup_free_ char *first = strndup(text, main ? (size_t)(main - text) : strlen(text));
	struct import_job job = { 0 };

	problems[0] = '\0';
	ck_assert_int_eq(sections_parse(&s, "/etc/f", first, on_problem, NULL), 0);
	if (main)
		ck_assert_int_eq(sections_parse(&s, "/main/f", main + 4, on_problem, NULL), 0);
	import_begin(&s, on_problem, NULL);
	ck_assert_int_eq(import_job_make(&s, &s.items[0], on_problem, NULL, &job), 0);
	assert_json(json_incref(json_object_get(job.doc, key)), expected);
	ck_assert_str_eq(problems, said);
	import_job_fini(&job);
}

START_TEST(processes_share_what_is_the_same)
{
	assert_job("[program:a]\ncommand=a\nnumprocs=2\nenvironment=N=%(numprocs)s\n", "roles",
		"[{\"command\":[\"a\"],\"env\":{\"N\":\"2\"},\"replicas\":2}]", "");
	assert_job("[program:a]\ncommand=a %(process_num)d z\nnumprocs=2\nnumprocs_start=4\n",
		"roles",
		"[{\"args\":[[\"4\",\"z\"],[\"5\",\"z\"]],\"command\":[\"a\"],\"replicas\":2}]",
		"");
	assert_job(
		"[program:a]\ncommand=a\nnumprocs=2\nnumprocs_start=1\ndirectory=/%(process_num)d\n",
		"cwd", "\"/1\"", "5: [program:a] directory: all workers have that of process 1\n");
	assert_job("[program:a]\ncommand=%(here)s/a%(process_num)d\nnumprocs=2\n", "roles",
		"[{\"args\":[[\"/etc/a0\"],[\"/etc/a1\"]],\"command\":[\"/usr/bin/env\",\"--\"],"
		"\"replicas\":2}]",
		"");
}
END_TEST

START_TEST(restart_keys_follow_supervisords_rules)
{
	assert_job("[program:a]\ncommand=a\nautorestart=no\nstartretries=0\n", "restart",
		"{\"policy\":\"never\"}", "");
	assert_job("[program:a]\ncommand=a\nautorestart=no\nstartretries=2\n", "restart",
		"{\"policy\":\"never\"}",
		"4: [program:a] startretries: without autorestart no process is started again\n");
	assert_job("[program:a]\ncommand=a\nexitcodes=1,3\nstartsecs=0\nstartretries=0\n",
		"restart",
		"{\"backoff\":\"1s\",\"backoff_max\":\"1s\",\"codes\":{\"1\":\"fatal\",\"3\":\"fatal\"},"
		"\"healthy_after\":\"1ms\",\"policy\":\"on-failure\",\"scope\":\"worker\","
		"\"window\":\"1ms\",\"window_max\":1024}",
		"3: [program:a] exitcodes: a process that exits with 0 is not started again\n"
		"5: [program:a] startretries: a process that is to be started again has at least "
		"one restart\n");
}
END_TEST

START_TEST(files_have_no_characters_that_yaml_refuses)
{
	static const char text[] = "[program:a\xe2\x80\xa8]\ncommand=a \x7f\xc2\x85 "
				   "\xef\xbb\xbf\xe2\x80\xa9\xc3\xa9\xf0\x9f\x98\x80\n";
	_cleanup_(sections_fini) struct sections s = { 0 };
	_cleanup_free_ char *yaml = NULL;
	struct yaml_problems duplicates = { 0 };
	_cleanup_json_ json_t *doc = NULL;
	struct import_job job = { 0 };

	ck_assert_int_eq(sections_parse(&s, "/etc/f", text, on_problem, NULL), 0);
	ck_assert_int_eq(import_job_make(&s, &s.items[0], on_problem, NULL, &job), 0);
	yaml = import_yaml(&job);
	ck_assert_ptr_nonnull(strstr(yaml, "[program:a\\u2028], /etc/f:1\nname: a___\n"));
	ck_assert_ptr_nonnull(
		strstr(yaml, "\"\\u007f\\u0085\", \"\\ufeff\\u2029\xc3\xa9\xf0\x9f\x98\x80\""));
	ck_assert_int_eq(yaml_parse(yaml, strlen(yaml), "f", &doc, &duplicates, NULL), 0);
	ck_assert(json_equal(doc, job.doc));
	import_job_fini(&job);
}
END_TEST

START_TEST(lower_priorities_start_before)
{
	assert_job("[program:a]\ncommand=a\n[program:b]\npriority=5\n[program:c]\npriority=5\n"
		   "[program:d]\npriority=1\n[program:e]\npriority=6\nautostart=false\n",
		"after", "[\"b\",\"c\"]", "");
	setenv("TEST_IMPORT_OFF", "false", 1);
	setenv("TEST_IMPORT_FIVE", "5", 1);
	assert_job(
		"[program:a]\ncommand=a\n[program:b@c]\npriority=%(ENV_TEST_IMPORT_FIVE)s\n"
		"[program:d]\npriority=6\nautostart=%(ENV_TEST_IMPORT_OFF)s\n[eventlistener:e]\n",
		"after", "[\"b_c\"]", "");
}
END_TEST

START_TEST(listeners_start_first)
{
	assert_job("[eventlistener:a]\ncommand=a\n[program:b]\npriority=5\n"
		   "[program:c]\npriority=-2\n",
		"after", "[\"c\"]", LISTENER);
	assert_job(
		"[fcgi-program:a]\ncommand=a\n[program:b]\npriority=5\n", "after", "[\"b\"]", FCGI);
	assert_job("[eventlistener:a]\ncommand=a\npriority=6\n[program:b]\npriority=5\n", "after",
		"[\"b\"]", LISTENER);
}
END_TEST

START_TEST(priorities_see_the_environment_of_supervisord)
{
	assert_job("[program:a]\ncommand=a\npriority=4\n[program:b]\npriority=%(ENV_P)s\n"
		   "[program:c]\npriority=3\nautostart=%(ENV_OFF)s\n[program:d]\npriority=2\n"
		   "[supervisord]\nenvironment=P=5,OFF=false\n",
		"after", "[\"d\"]", "");
	assert_job("[program:a]\ncommand=a\npriority=4x\n[program:b]\npriority=%(ENV_NOT_THERE)s\n"
		   "[program:c]\npriority=998\n[program:d]\n[group:g]\npriority=\nprograms=b,d\n",
		"after", "[\"c\"]",
		"3: [program:a] priority: expected a number, got \"4x\"\n"
		"5: [program:b] priority: %(ENV_NOT_THERE)s is not known here: it stays as it is\n"
		"5: [program:b] priority: expected a number, got \"%(ENV_NOT_THERE)s\"\n"
		"10: [group:g] priority: expected a number, got \"\"\n"
		"9: [group:g]: its programs become jobs of their own, which are not started or stopped "
		"together\n");
}
END_TEST

START_TEST(inherited_values_are_read_as_in_their_section)
{
	char second[64];

	snprintf(second, sizeof(second), "\"%s\"", getpwuid(1)->pw_name);
	assert_job("[program:a]\ncommand=a\n[supervisord]\nuser=1\n", "user", second, "");
	assert_job("[program:a]\ncommand=a\n[supervisord]\nuser=0\n", "user", "none", "");
	assert_job("[program:a]\ncommand=a\n[supervisord]\nuser=4294967294\n", "user",
		"\"4294967294\"",
		"4: [supervisord] user: no user here has the number 4294967294: write its name\n");
	assert_job("[program:a]\ncommand=%(here)s/a\n---\n[supervisord]\ndirectory=%(here)s/d\n",
		"cwd", "\"/main/d\"", "");
	assert_job("[program:a]\ncommand=%(here)s/a %(ENV_D)s\n---\n[supervisord]\n"
		   "environment=D=%(here)s\n",
		"roles", "[{\"command\":[\"/etc/a\",\"/main\"],\"env\":{\"D\":\"/main\"}}]", "");
	assert_job("[program:a]\ncommand=a\n[supervisord]\ndirectory=/%(program_name)s\n", "cwd",
		"\"/%(program_name)s\"",
		"4: [supervisord] directory: %(program_name)s is not known here: it stays as it is\n");
}
END_TEST

START_TEST(some_keys_see_the_environment_of_the_program)
{
	assert_job("[program:a]\ncommand=a\ndirectory=/%(ENV_D)s\nenvironment=D=own\n"
		   "[supervisord]\nenvironment=D=theirs\n",
		"cwd", "\"/own\"", "");
	assert_job("[program:a]\ncommand=a\nenvironment=D=none\nstdout_logfile=%(ENV_D)s\n"
		   "stderr_logfile=%(ENV_D)s\n",
		"logs", "{\"dir\":\"/dev/null\"}", "");
	assert_job("[program:a]\ncommand=a\numask=0%(ENV_D)s\nenvironment=D=77\n"
		   "[supervisord]\nenvironment=D=22\n",
		"umask", "\"022\"", "");
	assert_job("[program:a]\ncommand=a\nnumprocs=2\ndirectory=/%(ENV_D)s\n"
		   "environment=D=d%(process_num)d\n",
		"cwd", "\"/d0\"", "4: [program:a] directory: all workers have that of process 0\n");
}
END_TEST

START_TEST(variables_that_supervisord_gives_stay_as_they_are)
{
	assert_job("[program:a]\ncommand=%(ENV_B)s %(ENV_C)s\nnumprocs=2\n"
		   "environment=C=\"%(ENV_B)s%(process_num)d\"\n[supervisord]\nenvironment=B=b\n",
		"roles",
		"[{\"args\":[[\"b0\"],[\"b1\"]],\"command\":[\"b\"],\"env\":{\"B\":\"b\"},"
		"\"env_per_replica\":[{\"C\":\"b0\"},{\"C\":\"b1\"}],\"replicas\":2}]",
		"");
	assert_job("[program: a ]\ncommand=a\n[supervisord]\nminfds=70000\n", "roles",
		"[{\"command\":[\"a\"],\"limits\":{\"nofile\":70000}}]", "");
	assert_job("[program:a]\ncommand=a\nuser=0\nstdout_syslog=false\n", "user", "\"root\"", "");
	assert_job("[program:a]\ncommand=a\nuser=4294967294\n", "user", "\"4294967294\"",
		"3: [program:a] user: no user here has the number 4294967294: write its name\n");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("import");
	TCase *t = tcase_create("supervisord");

	tcase_add_test(t, known_names_are_replaced_and_others_stay);
	tcase_add_test(t, commands_are_split_as_by_a_shell);
	tcase_add_test(t, environments_are_pairs);
	tcase_add_test(t, sections_have_long_lines_comments_and_continuations);
	tcase_add_test(t, processes_share_what_is_the_same);
	tcase_add_test(t, restart_keys_follow_supervisords_rules);
	tcase_add_test(t, files_have_no_characters_that_yaml_refuses);
	tcase_add_test(t, variables_that_supervisord_gives_stay_as_they_are);
	tcase_add_test(t, lower_priorities_start_before);
	tcase_add_test(t, listeners_start_first);
	tcase_add_test(t, priorities_see_the_environment_of_supervisord);
	tcase_add_test(t, inherited_values_are_read_as_in_their_section);
	tcase_add_test(t, some_keys_see_the_environment_of_the_program);
	suite_add_tcase(s, t);
	return suite_run(s);
}
