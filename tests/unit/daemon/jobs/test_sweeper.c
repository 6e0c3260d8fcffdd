/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps beside the loop: each reports how many processes it killed, and a cancelled one nothing.
 */
#include "daemon/jobs/sweeper.h"

#include "common/base/file.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>

static struct loop *loop;
static struct offload *sweepers;
static char run[64], entry[96];
static int told[2], wanted;
static char hangs[64]; /* in place of a cgroup: a search of it never comes to an end */

static void setup(void)
{
	snprintf(run, sizeof(run), "sweeper_%d", (int)getpid());
	snprintf(entry, sizeof(entry), "ELASTICD_RUN=%s", run);
	told[0] = told[1] = -1;
	strcpy(hangs, "/tmp/test-sweeper-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(hangs));
	strcat(hangs, "/cgroup.kill");
	ck_assert_int_eq(mkfifo(hangs, 0600), 0);
	*strrchr(hangs, '/') = '\0';
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(offload_new(loop, &sweepers), 0);
}

static void teardown(void)
{
	sweepers = offload_free(sweepers);
	loop = loop_free(loop);
	ck_assert_int_eq(file_rm_rf(hangs), 0);
}

static void on_swept(void *arg, int n)
{
	*(int *)arg = n;
	if (--wanted == 0)
		loop_quit(loop, 0);
}

static struct offload_request *begin_in(const char *cgroup, uid_t uid, int *told_to)
{
	const struct sweep_target target = { .run = run, .uid = uid, .cgroup = cgroup };
	struct offload_request *r = NULL;

	ck_assert_int_eq(sweeper_begin(sweepers, &target, on_swept, told_to, &r), 0);
	wanted++;
	return r;
}

static struct offload_request *begin(uid_t uid, int *told_to)
{
	return begin_in(NULL, uid, told_to);
}

START_TEST(killed_processes_are_counted_once_by_sweeps_of_one_user)
{
	char *const envp[] = { entry, NULL };
	struct child c = child_start(envp, getuid());

	(void)begin(getuid(), &told[0]);
	(void)begin(getuid(), &told[1]);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(told[0], 1);
	ck_assert_int_eq(told[1], 0);
	ck_assert_int_eq(child_release(&c), -SIGKILL);
}
END_TEST

START_TEST(a_cancelled_request_is_not_answered_and_others_go_on)
{
	struct offload_request *first = begin(getuid(), &told[0]);

	(void)begin(getuid(), &told[1]);
	ck_assert_ptr_null(sweeper_cancel(first));
	wanted--;
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(told[0], -1);
	ck_assert_int_eq(told[1], 0);
}
END_TEST

START_TEST(an_ended_helper_is_reaped)
{
	(void)begin(getuid(), &told[0]);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(told[0], 0);
	ck_assert_int_eq(child_any(), 0);
}
END_TEST

START_TEST(a_sweep_that_dies_is_reaped_and_fails_and_the_next_begins)
{
	(void)begin_in(hangs, getuid(), &told[0]);
	(void)begin(getuid(), &told[1]);
	while (!child_any())
		loop_run_once(loop, true);
	ck_assert_int_eq(kill(child_any(), SIGKILL), 0);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(told[0], -EIO);
	ck_assert_int_eq(told[1], 0);
	ck_assert_int_eq(child_any(), 0);
}
END_TEST

START_TEST(a_cancelled_sweep_is_ended_and_reaped)
{
	struct offload_request *r = begin_in(hangs, getuid(), &told[0]);

	while (!child_any())
		loop_run_once(loop, true);
	ck_assert_int_eq(kill(child_any(), SIGSTOP), 0);
	ck_assert_ptr_null(sweeper_cancel(r));
	while (child_any())
		loop_run_once(loop, true);
	ck_assert_int_eq(told[0], -1);
}
END_TEST

START_TEST(a_hanging_search_of_one_user_delays_no_other_user)
{
	struct offload_request *r = begin_in(hangs, getuid(), &told[0]);

	(void)begin(getuid() + 1, &told[1]);
	wanted--;
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(told[0], -1);
	ck_assert_int_eq(told[1], 0);
	sweeper_cancel(r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sweeper");
	TCase *t = tcase_create("sweeper");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, killed_processes_are_counted_once_by_sweeps_of_one_user);
	tcase_add_test(t, a_cancelled_request_is_not_answered_and_others_go_on);
	tcase_add_test(t, an_ended_helper_is_reaped);
	tcase_add_test(t, a_sweep_that_dies_is_reaped_and_fails_and_the_next_begins);
	tcase_add_test(t, a_cancelled_sweep_is_ended_and_reaped);
	tcase_add_test(t, a_hanging_search_of_one_user_delays_no_other_user);
	suite_add_tcase(s, t);
	return suite_run(s);
}
