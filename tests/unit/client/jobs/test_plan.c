/* SPDX-License-Identifier: Apache-2.0 */
#include "client/jobs/plan.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

static struct plan_file files[MOST];
static struct plan_run runs[MOST];
static struct plan_input in;
static struct plan plan;
static struct error err;

static void setup(void)
{
	in = (struct plan_input){ .files = files, .runs = runs, .dir = "/jobs.d" };
	err = (struct error){ 0 };
}

static void teardown(void)
{
	plan_fini(&plan);
	for (size_t i = 0; i < in.n_files; i++)
		json_decref(files[i].spec);
	for (size_t i = 0; i < in.n_runs; i++) {
		json_decref(runs[i].job);
		json_decref(runs[i].spec);
	}
}

static json_t *spec(const char *name, int max, const char *key, const char *other)
{
	json_t *s = json_pack("{s:s, s:{s:i}}", "name", name, "restart", "max", max);

	if (key)
		json_object_set_new(s, key, json_pack("[s]", other));
	return s;
}

/* A file that is called as its path. */
static void file(const char *path, const char *name, int max, const char *key, const char *other)
{
	files[in.n_files++] =
		(struct plan_file){ .path = (char *)path, .spec = spec(name, max, key, other) };
}

static void run(const char *name, const char *origin, const char *state, int created, int max)
{
	runs[in.n_runs++] = (struct plan_run){
		.job = json_pack("{s:s, s:s*, s:s, s:i}", "name", name, "origin", origin, "state",
			state, "created_us", created),
		.spec = spec(name, max, NULL, NULL),
	};
}

/* "+" starts, "~" restarts, "-" stops, "=" keeps, "." leaves, "!" is taken, "o" is in a circle. */
static void expect(const char *wanted)
{
	static const char signs[] = { [PLAN_KEEP] = '=',
		[PLAN_START] = '+',
		[PLAN_RESTART] = '~',
		[PLAN_STOP] = '-',
		[PLAN_LEAVE] = '.',
		[PLAN_TAKEN] = '!',
		[PLAN_CIRCLE] = 'o' };
	char text[256] = "";

	ck_assert_msg(plan_make(&in, &plan, &err) == 0, "%s", err.text);
	for (size_t i = 0; i < plan.n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%c%s", i ? " " : "",
			signs[plan.steps[i].action], plan.steps[i].name);
	ck_assert_str_eq(text, wanted);
}

START_TEST(each_job_gets_what_it_lacks)
{
	file("/jobs.d/a.yaml", "a", 1, NULL, NULL);
	file("/jobs.d/b.yaml", "b", 1, NULL, NULL);
	file("/jobs.d/c.yaml", "c", 1, NULL, NULL);
	file("/jobs.d/d.yaml", "d", 1, NULL, NULL);
	run("b", "/jobs.d/b.yaml", "running", 1, 1);
	run("c", "/jobs.d/c.yaml", "backoff", 1, 2);
	run("gone", "/jobs.d/gone.yaml", "running", 1, 1);
	run("d", NULL, "running", 1, 1);
	run("other", "/elsewhere/jobs.d/x.yaml", "running", 1, 1);
	run("deep", "/jobs.d/more/x.yaml", "running", 1, 1);
	expect("-gone +a =b ~c !d");
	ck_assert_int_eq(json_array_size(plan.steps[3].diff), 1);
}
END_TEST

START_TEST(a_run_that_has_ended_is_started_again_when_its_file_has_changed)
{
	file("/jobs.d/a.yaml", "a", 1, NULL, NULL);
	file("/jobs.d/b.yaml", "b", 1, NULL, NULL);
	file("/jobs.d/c.yaml", "c", 1, NULL, NULL);
	run("a", "/jobs.d/a.yaml", "stopped", 1, 1);
	run("b", "/jobs.d/b.yaml", "succeeded", 1, 2);
	run("c", NULL, "succeeded", 1, 1); /* it was not started from the file */
	expect(".a +b +c");
}
END_TEST

START_TEST(after_a_boot_only_those_that_succeeded_are_left)
{
	in.boot = true;
	file("/jobs.d/a.yaml", "a", 1, NULL, NULL);
	file("/jobs.d/b.yaml", "b", 1, NULL, NULL);
	file("/jobs.d/c.yaml", "c", 1, NULL, NULL);
	run("a", "/jobs.d/a.yaml", "stopped", 1, 1);
	run("b", "/jobs.d/b.yaml", "succeeded", 1, 1);
	run("c", "/jobs.d/c.yaml", "failed", 1, 1);
	expect("+a .b +c");
}
END_TEST

START_TEST(the_active_run_counts_and_else_the_newest)
{
	file("/jobs.d/a.yaml", "a", 1, NULL, NULL);
	file("/jobs.d/b.yaml", "b", 1, NULL, NULL);
	run("a", "/jobs.d/a.yaml", "running", 1, 1);
	run("a", "/jobs.d/a.yaml", "failed", 2, 7);
	run("b", "/jobs.d/b.yaml", "failed", 2, 7);
	run("b", "/jobs.d/b.yaml", "failed", 3, 1);
	run("b", "/jobs.d/b.yaml", "failed", 1, 7);
	expect("=a .b");
}
END_TEST

START_TEST(a_job_that_has_another_name_in_its_file_is_another_job)
{
	file("/jobs.d/a.yaml", "new", 1, NULL, NULL);
	run("old", "/jobs.d/a.yaml", "running", 1, 1);
	expect("-old +new");
}
END_TEST

START_TEST(the_job_of_a_wrong_file_goes_on)
{
	char *wrong[] = { (char *)"/jobs.d/a.yaml", NULL };

	in.wrong = wrong;
	run("a", "/jobs.d/a.yaml", "running", 1, 1);
	run("b", "/jobs.d/b.yaml", "running", 1, 1);
	expect("-b");
}
END_TEST

START_TEST(jobs_come_after_those_that_they_wait_for)
{
	file("/jobs.d/a.yaml", "a", 1, "after", "b");
	file("/jobs.d/b.yaml", "b", 1, "needs", "c");
	file("/jobs.d/c.yaml", "c", 1, "needs", "elsewhere");
	file("/jobs.d/d.yaml", "d", 1, NULL, NULL);
	expect("+c +b +a +d");
}
END_TEST

START_TEST(a_circle_is_refused_with_its_jobs)
{
	file("/jobs.d/a.yaml", "a", 1, "after", "b");
	file("/jobs.d/b.yaml", "b", 1, "needs", "c");
	file("/jobs.d/c.yaml", "c", 1, "needs", "b");
	ck_assert_int_eq(plan_make(&in, &plan, &err), -EINVAL);
	ck_assert_str_eq(err.text, "/jobs.d/b.yaml: jobs wait for each other: b -> c -> b");
}
END_TEST

START_TEST(after_a_boot_a_circle_keeps_no_other_job_from_starting)
{
	in.boot = true;
	file("/jobs.d/a.yaml", "a", 1, "after", "b");
	file("/jobs.d/b.yaml", "b", 1, "needs", "c");
	file("/jobs.d/c.yaml", "c", 1, "needs", "b");
	file("/jobs.d/d.yaml", "d", 1, "after", "d");
	file("/jobs.d/e.yaml", "e", 1, "needs", "f");
	file("/jobs.d/f.yaml", "f", 1, "after", "e");
	expect("oc +b +a +d +f +e");
	ck_assert_str_eq(
		plan.steps[0].circle, "/jobs.d/c.yaml: jobs wait for each other: c -> b -> c");
}
END_TEST

START_TEST(two_files_with_one_name_are_refused)
{
	file("/jobs.d/a.yaml", "a", 1, NULL, NULL);
	file("/jobs.d/b.yaml", "a", 1, NULL, NULL);
	ck_assert_int_eq(plan_make(&in, &plan, &err), -EINVAL);
	ck_assert_str_eq(err.text, "/jobs.d/b.yaml: /jobs.d/a.yaml has a job of the name a, too");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plan");
	TCase *t = tcase_create("plan");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, each_job_gets_what_it_lacks);
	tcase_add_test(t, a_run_that_has_ended_is_started_again_when_its_file_has_changed);
	tcase_add_test(t, after_a_boot_only_those_that_succeeded_are_left);
	tcase_add_test(t, the_active_run_counts_and_else_the_newest);
	tcase_add_test(t, a_job_that_has_another_name_in_its_file_is_another_job);
	tcase_add_test(t, the_job_of_a_wrong_file_goes_on);
	tcase_add_test(t, jobs_come_after_those_that_they_wait_for);
	tcase_add_test(t, a_circle_is_refused_with_its_jobs);
	tcase_add_test(t, after_a_boot_a_circle_keeps_no_other_job_from_starting);
	tcase_add_test(t, two_files_with_one_name_are_refused);
	suite_add_tcase(s, t);
	return suite_run(s);
}
