/* SPDX-License-Identifier: Apache-2.0 */
/* Which ended runs elasticd removes, and when it tries again what failed. Removing itself is
 * daemon/api/remove.h's: here it is the test that does it, or does not. */
#include "daemon/api/prune.h"

#include "common/base/log.h"
#include "daemon/api/remove.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ALICE = 1001, BOB = 1002, HOUR = 3600, ASKED_MAX = 16 };

static struct daemon d;
static struct prune *prune;
static char log_dir[] = "/logs";
static int n_runs;
static time_t later; /* how far this program's clock is ahead */

/* The removals that were asked for. */
static struct {
	uid_t uid;
	size_t n;
	remove_fn fn;
	void *arg;
} asked[ASKED_MAX];
static int n_asked;

/* In place of the C library's, for the loop's timers. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);

	ret->tv_sec += later;
	return r;
}

int remove_prune(struct daemon *of, struct job **jobs, size_t n, remove_fn fn, void *arg)
{
	ck_assert_int_lt(n_asked, ASKED_MAX);
	asked[n_asked].uid = jobs[0]->rec.uid;
	asked[n_asked].n = n;
	asked[n_asked].fn = fn;
	asked[n_asked++].arg = arg;
	for (size_t i = 0; i < n; i++)
		ck_assert_uint_eq(jobs[i]->rec.uid, jobs[0]->rec.uid);
	return 0;
}

bool remove_takes_logs(const struct daemon *of, const struct job_record *rec)
{
	return true;
}

static void quiet(int level, const char *text, const struct log_field *fields)
{
}

static void setup(void)
{
	log_set_sink(quiet, 1);
	ck_assert_int_eq(loop_new(&d.loop), 0);
	ck_assert_int_eq(registry_new(&d.registry), 0);
	d.host.loop = d.loop;
	d.log_dir = log_dir;
	d.config.keep_runs = 1;
	ck_assert_int_eq(prune_new(&d, &prune), 0);
}

static void teardown(void)
{
	prune = prune_free(prune);
	d.registry = registry_free(d.registry);
	d.loop = loop_free(d.loop);
}

static void turn(void)
{
	for (int i = 0; i < 8; i++)
		loop_run_once(d.loop, false);
}

static struct job *ends_at_once(uid_t uid)
{
	struct job_record rec = { .name = strdup("job"),
		.user = strdup("somebody"),
		.uid = uid,
		.created_us = (int64_t)loop_real_us(),
		.log_dir = strdup(log_dir) };
	struct job *j;

	ck_assert_int_gt(asprintf(&rec.run, "job_%08d", n_runs++), 0);
	ck_assert_int_eq(job_new(&d.host, &rec, &j), 0);
	j->accepted = true;
	j->mirror.ended_us = (int64_t)loop_real_us();
	registry_add(d.registry, j);
	prune_update(prune);
	turn();
	return j;
}

/* A second after what came before, so that it is looked at. */
static struct job *ends(uid_t uid)
{
	later++;
	return ends_at_once(uid);
}

/* That removal comes to its end. */
static void answer(int i, int failed)
{
	asked[i].fn(asked[i].arg, failed);
	turn();
}

static void gone(struct job *j)
{
	registry_remove(d.registry, j);
	job_free(j);
}

START_TEST(one_user_has_one_removal_at_a_time_and_the_next_follows_it)
{
	struct job *first = ends(ALICE), *second = ends(ALICE);

	ck_assert_int_eq(n_asked, 1);
	ck_assert_uint_eq(asked[0].n, 1);
	(void)ends(ALICE);
	ck_assert_int_eq(n_asked, 1);
	gone(first);
	answer(0, 0);
	ck_assert_int_eq(n_asked, 2);
	gone(second);
	answer(1, 0);
	ck_assert_int_eq(n_asked, 2);
}
END_TEST

/* Each check goes through all runs, of which there may be thousands. */
START_TEST(checks_follow_each_other_after_a_second)
{
	(void)ends(ALICE);
	for (int i = 0; i < 3; i++)
		(void)ends_at_once(ALICE);
	ck_assert_int_eq(n_asked, 0);
	later++;
	turn();
	ck_assert_int_eq(n_asked, 1);
	ck_assert_uint_eq(asked[0].n, 3);
	later = 0;
}
END_TEST

START_TEST(failed_removals_are_retried_after_an_hour)
{
	(void)ends(ALICE);
	(void)ends(ALICE);
	ck_assert_int_eq(n_asked, 1);
	answer(0, 1);
	for (int i = 0; i < 5; i++)
		(void)ends(ALICE);
	ck_assert_int_eq(n_asked, 1);
	later += HOUR - 60;
	turn();
	ck_assert_int_eq(n_asked, 1);
	later += 60;
	turn();
	ck_assert_int_eq(n_asked, 2);
	ck_assert_uint_eq(asked[1].n, 6);
	answer(1, 6);
	ck_assert_int_eq(n_asked, 2);
	later = 0; /* Check looks at the clock, too */
}
END_TEST

START_TEST(unremovable_runs_of_one_user_keep_no_other_users_runs)
{
	(void)ends(ALICE);
	(void)ends(ALICE);
	(void)ends(BOB);
	/* It hangs: that user may have stopped the process that removes. */
	(void)ends(BOB);
	ck_assert_int_eq(n_asked, 2);
	ck_assert_uint_eq(asked[1].uid, BOB);
	answer(0, 1);
	answer(1, 1);
	ck_assert_int_eq(n_asked, 2);
}
END_TEST

START_TEST(new_limits_take_effect_at_once)
{
	(void)ends(ALICE);
	(void)ends(ALICE);
	(void)ends(ALICE);
	answer(0, 1);
	d.config.keep_runs = 2;
	prune_update(prune);
	turn();
	ck_assert_int_eq(n_asked, 2);
	ck_assert_uint_eq(asked[1].n, 1);
	answer(1, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("prune");
	TCase *t = tcase_create("prune");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, one_user_has_one_removal_at_a_time_and_the_next_follows_it);
	tcase_add_test(t, checks_follow_each_other_after_a_second);
	tcase_add_test(t, failed_removals_are_retried_after_an_hour);
	tcase_add_test(t, unremovable_runs_of_one_user_keep_no_other_users_runs);
	tcase_add_test(t, new_limits_take_effect_at_once);
	suite_add_tcase(s, t);
	return suite_run(s);
}
