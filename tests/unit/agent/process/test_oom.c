/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/oom.h"

#include "common/base/file.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Files as the kernel has them in three groups: slice, slice/scope and slice/scope/job. */
static char top[64], job[128];
static struct oom *oom;
static struct oom_reading reading;

static void put(const char *group, const char *file, const char *fmt, ...)
{
	char path[256];
	va_list ap;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s", top, group, file);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
}

/* kills: in the group and below it; own, all: how often the limit of it, and of those below, was
 * reached. */
static void events(const char *group, int kills, int own, int all)
{
	put(group, "memory.events", "low 0\nhigh 7\nmax 9\noom %d\noom_kill %d\noom_group_kill 0\n",
		all, kills);
	put(group, "memory.events.local", "low 0\nhigh 7\nmax 9\noom %d\noom_kill 0\n", own);
}

static void setup(void)
{
	static const char *const groups[] = { "slice", "slice/scope", "slice/scope/job" };
	char path[128];

	strcpy(top, "/tmp/oom-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", top, groups[i]);
		ck_assert_int_eq(mkdir(path, 0755), 0);
	}
	snprintf(job, sizeof(job), "%s/slice/scope/job", top);
	oom = oom_new(job);
	ck_assert_ptr_nonnull(oom);
}

static void setup_v2(void)
{
	setup();
	events("slice", 5, 3, 5);
	events("slice/scope", 2, 0, 2);
	events("slice/scope/job", 2, 2, 2);
	put("slice", "memory.max", "8589934592\n");
	put("slice/scope", "memory.max", "max\n");
	put("slice/scope/job", "memory.max", "4294967296\n");
	oom_begin(oom);
}

static void setup_v1(void)
{
	setup();
	put("slice/scope/job", "memory.oom_control",
		"oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
	put("slice/scope/job", "memory.failcnt", "10\n");
	put("slice/scope/job", "memory.limit_in_bytes", "1048576\n");
	oom_begin(oom);
}

static void teardown(void)
{
	oom = oom_free(oom);
	ck_assert_int_eq(file_rm_rf(top), 0);
}

static void assert_reading(int64_t kills, int64_t limit, const char *group)
{
	oom_read(oom, &reading);
	ck_assert_int_eq(reading.kills, kills);
	ck_assert_int_eq(reading.sure, kills > 0);
	ck_assert_int_eq(reading.limit, limit);
	ck_assert_str_eq(reading.group, group);
}

START_TEST(kills_before_the_attempt_do_not_count)
{
	assert_reading(0, -1, "");
}
END_TEST

START_TEST(a_kill_for_the_job_s_own_limit_names_it)
{
	events("slice/scope/job", 3, 3, 3);
	events("slice/scope", 3, 0, 3);
	events("slice", 6, 3, 6);
	assert_reading(1, INT64_C(4) << 30, "job");
}
END_TEST

START_TEST(a_kill_for_the_limit_of_a_group_above_names_that)
{
	events("slice/scope/job", 3, 2, 2);
	events("slice/scope", 3, 0, 2);
	events("slice", 6, 4, 6);
	assert_reading(1, INT64_C(8) << 30, "slice");
}
END_TEST

START_TEST(a_kill_beside_the_job_is_none_of_its_own)
{
	events("slice", 7, 4, 7);
	assert_reading(0, -1, "");
}
END_TEST

START_TEST(a_kill_without_a_reached_limit_is_the_host_s)
{
	events("slice/scope/job", 4, 2, 2);
	/* Another job has reached its own limit: the slice counts that, but not as its own. */
	events("slice", 8, 3, 6);
	assert_reading(2, -1, "");
}
END_TEST

START_TEST(kills_that_are_explained_are_not_seen_again)
{
	events("slice/scope/job", 4, 4, 4);
	oom_explained(oom, 1);
	assert_reading(1, INT64_C(4) << 30, "job");
	oom_explained(oom, 1);
	assert_reading(0, -1, "");
	events("slice/scope/job", 5, 5, 5);
	oom_begin(oom);
	assert_reading(0, -1, "");
}
END_TEST

START_TEST(a_group_that_does_not_count_leaves_it_to_the_one_above)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/memory.events", job);
	ck_assert_int_eq(unlink(path), 0);
	oom_begin(oom);
	put("slice/scope", "memory.max", "1073741824\n");
	events("slice/scope", 3, 1, 3);
	assert_reading(1, INT64_C(1) << 30, "scope");
}
END_TEST

START_TEST(version_1_counts_in_other_files)
{
	assert_reading(0, -1, "");
	put("slice/scope/job", "memory.oom_control",
		"oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
	assert_reading(1, -1, "");
	put("slice/scope/job", "memory.failcnt", "12\n");
	assert_reading(1, 1 << 20, "job");
}
END_TEST

START_TEST(without_an_attempt_there_are_no_kills)
{
	oom_read(oom, &reading);
	ck_assert_int_eq(reading.kills, 0);
}
END_TEST

START_TEST(a_group_without_counters_is_no_error)
{
	oom_begin(oom);
	oom_read(oom, &reading);
	ck_assert_int_eq(reading.kills, 0);
}
END_TEST

static TCase *add_case(Suite *s, const char *name, SFun begin)
{
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, begin, teardown);
	suite_add_tcase(s, t);
	return t;
}

int main(void)
{
	Suite *s = suite_create("oom");
	TCase *t = add_case(s, "version 2", setup_v2);

	tcase_add_test(t, kills_before_the_attempt_do_not_count);
	tcase_add_test(t, a_kill_for_the_job_s_own_limit_names_it);
	tcase_add_test(t, a_kill_for_the_limit_of_a_group_above_names_that);
	tcase_add_test(t, a_kill_beside_the_job_is_none_of_its_own);
	tcase_add_test(t, a_kill_without_a_reached_limit_is_the_host_s);
	tcase_add_test(t, kills_that_are_explained_are_not_seen_again);
	tcase_add_test(t, a_group_that_does_not_count_leaves_it_to_the_one_above);
	t = add_case(s, "version 1", setup_v1);
	tcase_add_test(t, version_1_counts_in_other_files);
	t = add_case(s, "none", setup);
	tcase_add_test(t, without_an_attempt_there_are_no_kills);
	tcase_add_test(t, a_group_without_counters_is_no_error);
	return suite_run(s);
}
