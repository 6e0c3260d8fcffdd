/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/registry.h"

#include "daemon/jobs/job.h"
#include "tests/unit/run.h"

#include <check.h>
#include <string.h>

static struct registry *registry;
static struct job_host host;
static int n_runs;

static void setup(void)
{
	ck_assert_int_eq(loop_new(&host.loop), 0);
	ck_assert_int_eq(registry_new(&registry), 0);
}

static void teardown(void)
{
	registry = registry_free(registry);
	host.loop = loop_free(host.loop);
}

static struct job *add(enum life life)
{
	struct job_record rec = { .name = strdup("job"), .user = strdup("me"), .uid = 1000 };
	struct job *j;

	ck_assert_int_gt(asprintf(&rec.run, "job_%08d", n_runs++), 0);
	rec.log_dir = strdup("/dev/null");
	ck_assert_int_eq(job_new(&host, &rec, &j), 0);
	j->life = life;
	j->accepted = true;
	registry_add(registry, j);
	return j;
}

static int count(bool active)
{
	int n = 0;

	for (struct job *j = active ? registry_first_active(registry) : registry_first(registry); j;
		j = active ? registry_next_active(j) : registry_next(j))
		n++;
	return n;
}

START_TEST(ended_jobs_are_left_out_after_tidying)
{
	struct job *over = add(LIFE_ENDED), *first = add(LIFE_LINKED), *second = add(LIFE_CLOSING);

	ck_assert_int_eq(count(true), 3);
	ck_assert_uint_eq(registry_count_active(registry, -1), 2);
	registry_tidy(registry);
	ck_assert_ptr_eq(registry_first_active(registry), first);
	ck_assert_ptr_eq(registry_next_active(first), second);
	ck_assert_int_eq(count(true), 2);
	ck_assert_int_eq(count(false), 3);
	second->life = LIFE_ENDED;
	registry_tidy(registry);
	ck_assert_int_eq(count(true), 1);
	ck_assert_uint_eq(registry_count_active(registry, 1000), 1);
	ck_assert_uint_eq(registry_count(registry), 3);
	registry_remove(registry, over);
	job_free(over);
	registry_remove(registry, first);
	job_free(first);
	ck_assert_int_eq(count(true), 0);
	ck_assert_int_eq(count(false), 1);
}
END_TEST

START_TEST(jobs_that_may_go_on_or_were_not_accepted_stay)
{
	struct job *unheard = add(LIFE_ENDED), *refused = add(LIFE_ENDED);

	unheard->unheard = true;
	refused->accepted = false;
	registry_tidy(registry);
	ck_assert_int_eq(count(true), 2);
	unheard->unheard = false;
	registry_tidy(registry);
	ck_assert_ptr_eq(registry_first_active(registry), refused);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("registry");
	TCase *t = tcase_create("registry");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, ended_jobs_are_left_out_after_tidying);
	tcase_add_test(t, jobs_that_may_go_on_or_were_not_accepted_stay);
	suite_add_tcase(s, t);
	return suite_run(s);
}
