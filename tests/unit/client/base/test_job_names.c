/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/job_names.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static json_t *jobs(void)
{
	json_t *j = json_loads(
		"[{\"name\":\"trial-1\",\"run\":\"trial-1_aaaaaaaa\",\"state\":\"failed\"},"
		"{\"name\":\"trial-1\",\"run\":\"trial-1_bbbbbbbb\",\"state\":\"running\"},"
		"{\"name\":\"trial-2\",\"run\":\"trial-2_cccccccc\",\"state\":\"backoff\"},"
		"{\"name\":\"trial-3\",\"run\":\"trial-3_dddddddd\",\"state\":\"stopped\"},"
		"{\"name\":\"other\",\"run\":\"other_eeeeeeee\",\"state\":\"pending\"},"
		"{\"name\":\"other\",\"run\":\"other_ffffffff\",\"state\":\"preempted\"},{},3]",
		0, NULL);

	ck_assert_ptr_nonnull(j);
	return j;
}

/* The names that pattern means, with spaces between. */
static const char *meant(const char *pattern, enum job_names_choice of, char buf[256])
{
	_cleanup_json_ json_t *j = jobs();
	struct job_names names = { 0 };

	ck_assert_int_ge(job_names_match(&names, pattern, j, of), names.n);
	buf[0] = '\0';
	for (int i = 0; i < names.n; i++) {
		strcat(buf, i ? " " : "");
		strcat(buf, names.names[i]);
	}
	job_names_fini(&names);
	return buf;
}

START_TEST(a_pattern_means_jobs_of_the_verbs_kind_once_each)
{
	char buf[256];

	ck_assert_str_eq(meant("trial-*", JOB_NAMES_ACTIVE, buf), "trial-1 trial-2");
	ck_assert_str_eq(meant("*", JOB_NAMES_ACTIVE, buf), "trial-1 trial-2 other");
	ck_assert_str_eq(meant("*", JOB_NAMES_NEWEST, buf), "trial-1 trial-2 trial-3 other");
	ck_assert_str_eq(meant("*", JOB_NAMES_ENDED, buf),
		"trial-1_aaaaaaaa trial-3_dddddddd other_ffffffff");
	ck_assert_str_eq(meant("tri?l-[12]", JOB_NAMES_ACTIVE, buf), "trial-1 trial-2");
	ck_assert_str_eq(meant("trial", JOB_NAMES_ACTIVE, buf), "");
}
END_TEST

START_TEST(a_pattern_keeps_the_workers_behind_its_slash)
{
	char buf[256];

	ck_assert_str_eq(meant("trial-*/worker:0", JOB_NAMES_ACTIVE, buf),
		"trial-1/worker:0 trial-2/worker:0");
}
END_TEST

START_TEST(a_job_that_several_patterns_match_is_there_once)
{
	_cleanup_json_ json_t *j = jobs();
	struct job_names names = { 0 };

	ck_assert_int_eq(job_names_match(&names, "trial-*", j, JOB_NAMES_ACTIVE), 2);
	ck_assert_int_eq(job_names_match(&names, "*", j, JOB_NAMES_ACTIVE), 3);
	ck_assert_int_eq(names.n, 3);
	ck_assert_ptr_null(names.names[3]);
	job_names_fini(&names);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("job_names");
	TCase *t = tcase_create("all");

	tcase_add_test(t, a_pattern_means_jobs_of_the_verbs_kind_once_each);
	tcase_add_test(t, a_pattern_keeps_the_workers_behind_its_slash);
	tcase_add_test(t, a_job_that_several_patterns_match_is_there_once);
	suite_add_tcase(s, t);
	return suite_run(s);
}
