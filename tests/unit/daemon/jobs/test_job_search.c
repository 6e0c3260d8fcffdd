/* SPDX-License-Identifier: Apache-2.0 */
/* A job whose agent is gone waits for the search for what that left, and goes on after it. The test
 * searches in place of daemon/jobs/sweeper.c. */
#include "daemon/jobs/job.h"

#include "common/base/file.h"
#include "common/base/log.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static char dir[64];
static struct record_store store, living;
static struct job_host host;
static struct child_orphans orphans;
static struct job *job;

static offload_fn found; /* NULL: no search is under way */
static int n_searches;

int sweeper_begin(struct offload *s, const struct sweep_target *target, offload_fn fn, void *arg,
	struct offload_request **ret)
{
	ck_assert_ptr_null(found);
	found = fn;
	n_searches++;
	*ret = arg;
	return 0;
}

struct offload_request *sweeper_cancel(struct offload_request *r)
{
	found = NULL;
	return NULL;
}

static void quiet(int level, const char *text, const struct log_field *fields)
{
}

static void on_events(void *arg, struct job *j, json_t *events)
{
}

static void on_changed(void *arg, struct job *j)
{
}

static char *at(const char *name)
{
	char *path = NULL;

	ck_assert_int_gt(asprintf(&path, "%s/%s", dir, name), 0);
	return path;
}

/* A job that was accepted, by an elasticd that is gone; its agent is gone, too. */
static void setup(void)
{
	struct job_record rec = { .name = strdup("job"),
		.run = strdup("job_aaaaaaaa"),
		.user = strdup("somebody"),
		.uid = geteuid(),
		.created_us = (int64_t)loop_real_us(),
		.log_dir = strdup("/dev/null") };
	_cleanup_json_ json_t *spec =
		json_pack("{s:s, s:[{s:[s]}]}", "name", "job", "roles", "command", "true");
	_cleanup_free_ char *jobs = NULL, *alive = NULL;
	const struct job_last last = { 0 };
	struct error err = { 0 };

	log_set_sink(quiet, 1);
	strcpy(dir, "/tmp/test-job-search-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	jobs = at("run/jobs");
	ck_assert_int_eq(file_mkdir_p(jobs, 0700), 0);
	alive = at("run/living");
	ck_assert_int_eq(file_mkdir_p(alive, 0700), 0);
	ck_assert_int_eq(record_store_open(&living, alive, &err), 0);
	ck_assert_int_eq(record_store_open(&store, dir, &err), 0);
	host = (struct job_host){ .store = &store,
		.living = &living,
		.orphans = &orphans,
		.runtime_dir = at("run"),
		.agent_program = at("no-such-program"),
		.agent_log_level = "warning",
		.events = on_events,
		.changed = on_changed };
	ck_assert_int_eq(loop_new(&host.loop), 0);
	ck_assert_msg(job_record_create(&store, &rec, spec, &err) == 0, "%s", err.text);
	ck_assert_int_eq(job_new(&host, &rec, &job), 0);
	ck_assert_msg(job_recover(job, &last, true, &err) == 0, "%s", err.text);
	ck_assert_int_eq(job->life, LIFE_SWEEPING);
	ck_assert_int_eq(n_searches, 1);
}

static void teardown(void)
{
	job = job_free(job);
	child_orphans_fini(&orphans);
	host.loop = loop_free(host.loop);
	record_store_close(&living);
	record_store_close(&store);
	free((char *)host.runtime_dir);
	free((char *)host.agent_program);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void finds(int n)
{
	offload_fn fn = found;

	found = NULL;
	fn(job, n);
}

static void next_search(void)
{
	int before = n_searches;

	ck_assert_int_eq(job->life, LIFE_SWEEPING);
	while (n_searches == before)
		loop_run_once(host.loop, true);
}

START_TEST(a_search_that_found_nothing_has_the_job_go_on)
{
	finds(0);
	ck_assert_int_ne(job->life, LIFE_SWEEPING);
}
END_TEST

START_TEST(another_search_follows_a_kill_and_a_search_that_died)
{
	finds(3);
	next_search();
	finds(-EIO);
	next_search();
	finds(0);
	ck_assert_int_ne(job->life, LIFE_SWEEPING);
}
END_TEST

START_TEST(a_sweep_that_hung_is_not_repeated)
{
	finds(-ETIMEDOUT);
	ck_assert_int_ne(job->life, LIFE_SWEEPING);
}
END_TEST

enum { WATCHES = 120000 };

static struct job_watch watches[WATCHES];
static int n_told;

/* The first removes itself and the last, the second adds one. */
static void on_told(void *arg, struct job *j, enum job_news news)
{
	static struct job_watch more;
	int i = (int)(intptr_t)arg;

	ck_assert_int_eq(i, n_told++);
	if (i == 0) {
		job_unwatch(j, &watches[0]);
		job_unwatch(j, &watches[WATCHES - 1]);
	} else if (i == 1) {
		job_watch(j, &more, on_told, NULL);
	}
}

/* It took minutes where each call went through all watches again. */
START_TEST(many_watchers_get_news_once_and_in_order)
{
	for (int i = 0; i < WATCHES; i++)
		job_watch(job, &watches[i], on_told, (void *)(intptr_t)i);
	job_notify(job, JOB_UPDATED);
	ck_assert_int_eq(n_told, WATCHES - 1);
	for (int i = 1; i < WATCHES - 1; i++)
		job_unwatch(job, &watches[i]);
	TAILQ_INIT(&job->watches);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("job_search");
	TCase *t = tcase_create("job_search");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_search_that_found_nothing_has_the_job_go_on);
	tcase_add_test(t, another_search_follows_a_kill_and_a_search_that_died);
	tcase_add_test(t, a_sweep_that_hung_is_not_repeated);
	tcase_add_test(t, many_watchers_get_news_once_and_in_order);
	suite_add_tcase(s, t);
	return suite_run(s);
}
