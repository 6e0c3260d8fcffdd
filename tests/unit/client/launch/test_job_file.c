/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/job_file.h"
#include "client/launch/yaml_marks.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Loads text as a file and gives its problems, a line each, without the file's name; or "". */
static char *problems(const char *text)
{
	char path[] = "/tmp/elasticd-test-XXXXXX";
	struct job_file file;
	char *lines = NULL;
	size_t size;
	int fd = mkstemp(path), r;
	FILE *f = open_memstream(&lines, &size);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	r = job_file_load(path, JOB_FILE_WHOLE, &file);
	ck_assert_int_eq(r, file.problems ? -EBADMSG : 0);
	ck_assert((file.doc != NULL) == (r == 0));
	for (char **p = file.problems; p && *p; p++) {
		ck_assert_int_eq(strncmp(*p, path, strlen(path)), 0);
		fprintf(f, "%s\n", *p + strlen(path));
	}
	fclose(f);
	job_file_fini(&file);
	unlink(path);
	return lines;
}

#if HAVE_YAML

static const struct {
	const char *text, *problems;
} rows[] = {
	{ "roles:\n- command: [a]\n", "" },
	{ "roles:\n"
	  "- name: trainer\n"
	  "  replicas: many\n"
	  "  command: [python, 3]\n"
	  "  env:\n"
	  "    A: [1]\n"
	  "  max_size: 10M\n"
	  "retsart:\n"
	  "  max: 3\n"
	  "stop: {signal: NOPE, timeout: 5}\n",
		":3:3: roles[0].replicas: expected an integer from 1 to 4096, \"auto\", \"cpu\", \"gpu\" or "
		"\"xpu\", got \"many\"\n"
		":4:21: roles[0].command[1]: expected a string, got 3: write it in quotes\n"
		":6:5: roles[0].env.A: expected a string, a number or a boolean, got an array\n"
		":7:3: roles[0].max_size: unknown key here; it belongs in `logs`\n"
		":8:1: retsart: unknown key, did you mean `restart`?\n"
		":10:8: stop.signal: expected a signal such as \"TERM\", \"SIGUSR1\", \"RTMIN+3\" or 15, got \"NOPE\"\n"
		":10:22: stop.timeout: expected a duration such as \"500ms\", \"30s\", \"5m\", \"1h30m\" or 0, "
		"got 5\n" },
	/* The place of a missing key is that of the object it would be in. */
	{ "name: a\nroles:\n- name: x\n",
		":3:3: roles[0].command: is required: expected an array of at least one string\n" },
	{ "{}", ":1:1: roles: is required: expected an array of at least one role\n" },
	/* JSON, and an alias, which stands where it is used. */
	{ "{\"roles\": [{\"command\": [\"a\"],\n  \"replicas\": 0}],\n \"x\": 1}",
		":2:3: roles[0].replicas: expected an integer from 1 to 4096, \"auto\", \"cpu\", \"gpu\" or "
		"\"xpu\", got 0\n"
		":3:2: x: unknown key\n" },
	{ "roles:\n- command: [a]\n  env: &e {A: []}\n- name: b\n  command: [a]\n  env: *e\n",
		":3:12: roles[0].env.A: expected a string, a number or a boolean, got []\n"
		":6:3: roles[1].env.A: expected a string, a number or a boolean, got []\n" },
	/* The first of two equal keys is the one that is looked at. */
	{ "name: a\nroles:\n- command: [a]\n  command: 3\n  replicas: 0\nname: /\n",
		":4:3: roles[0].command: duplicate key\n"
		":5:3: roles[0].replicas: expected an integer from 1 to 4096, \"auto\", \"cpu\", \"gpu\" or "
		"\"xpu\", got 0\n"
		":6:1: name: duplicate key\n" },
	{ "roles: [{command: [a], command: [b]}]", ":1:24: roles[0].command: duplicate key\n" },
	/* Reading ends at the first error of YAML's syntax. */
	{ "a: 1\na: 2\nb: [\n", ":2:1: a: duplicate key\n"
				":4:1: did not find expected node content\n" },
	{ "roles: [\n", ":2:1: did not find expected node content\n" },
	{ "- 1\n", ":1:1: a specification is an object with the key `roles`\n" },
};

START_TEST(every_error_has_line_column_and_path_in_the_order_of_the_file)
{
	_cleanup_free_ char *text = problems(rows[_i].text);

	ck_assert_str_eq(text, rows[_i].problems);
}
END_TEST

START_TEST(an_error_about_a_missing_key_has_the_place_of_its_parent)
{
	static const char text[] = "a:\n  b: [x, {c: 1}]\n  bc: 2\n";
	struct yaml_marks marks;

	ck_assert_int_eq(yaml_marks_read(text, strlen(text), &marks), 0);
	ck_assert_uint_eq(yaml_marks_find(&marks, "a.b[1].c")->column, 11);
	ck_assert_uint_eq(yaml_marks_find(&marks, "a.b[1].z")->column, 10);
	ck_assert_uint_eq(yaml_marks_find(&marks, "a.b[7]")->column, 3);
	ck_assert_uint_eq(yaml_marks_find(&marks, "a.bc")->line, 3);
	ck_assert_uint_eq(yaml_marks_find(&marks, "a.bcd")->line, 1);
	ck_assert_uint_eq(yaml_marks_find(&marks, "")->line, 1);
	yaml_marks_fini(&marks);
	ck_assert_ptr_null(yaml_marks_find(&marks, "a"));
}
END_TEST

#endif

START_TEST(a_file_that_cannot_be_read_is_a_problem_of_the_file)
{
	struct job_file file;

	ck_assert_int_eq(job_file_load("/no/such/file", JOB_FILE_WHOLE, &file), -EBADMSG);
	ck_assert_str_eq(file.problems[0], "/no/such/file: No such file or directory");
	ck_assert_ptr_null(file.problems[1]);
	job_file_fini(&file);
}
END_TEST

START_TEST(errors_in_json_with_escapes_that_yaml_lacks_have_no_place)
{
	_cleanup_free_ char *text =
		problems("{\"roles\": [{\"command\": [\"\\ud83d\\ude00\"], \"x\": 1}]}");

	ck_assert_ptr_nonnull(strstr(text, "roles[0].x: unknown key\n"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("job_file");
	TCase *t = tcase_create("all");

#if HAVE_YAML
	tcase_add_loop_test(t, every_error_has_line_column_and_path_in_the_order_of_the_file, 0,
		sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(t, an_error_about_a_missing_key_has_the_place_of_its_parent);
#endif
	tcase_add_test(t, a_file_that_cannot_be_read_is_a_problem_of_the_file);
	tcase_add_test(t, errors_in_json_with_escapes_that_yaml_lacks_have_no_place);
	suite_add_tcase(s, t);
	return suite_run(s);
}
