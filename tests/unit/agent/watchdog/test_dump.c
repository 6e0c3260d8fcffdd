/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/dump.h"

#include "common/base/file.h"
#include "common/base/proc.h"
#include "tests/unit/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

static char dir[64];
static struct loop *loop;
static struct hang_dumps *dumps;
static int done;
static char *first;

static void setup(void)
{
	strcpy(dir, "/tmp/test-hang-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(hang_dumps_new(loop, &dumps), 0);
	done = 0;
}

static void teardown(void)
{
	hang_dumps_free(dumps);
	loop_free(loop);
	free(first);
	first = NULL;
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void on_done(void *arg, char *const *dirs, size_t n)
{
	done++;
	free(first);
	first = n && dirs[0] ? strdup(dirs[0]) : NULL;
}

/* As the agent's reaping does. */
static void reap_dump(void)
{
	siginfo_t si;
	pid_t pid;

	ck_assert_uint_eq(hang_helpers(dumps, &pid, 1), 1);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	ck_assert(hang_child_exited(dumps, pid, si.si_status));
	ck_assert_uint_eq(hang_helpers(dumps, &pid, 1), 0);
	ck_assert(!hang_child_exited(dumps, pid, 0));
}

static char *slurp(const char *name)
{
	_cleanup_free_ char *path = NULL;
	char *text = NULL;

	ck_assert_int_gt(asprintf(&path, "%s/%s", first, name), 0);
	ck_assert_msg(file_read(path, 0, &text, NULL) == 0, "no %s", path);
	return text;
}

static struct hang_worker worker_of(const struct child *c)
{
	static const char *const tail[] = { "one", "two", NULL };

	return (struct hang_worker){ .pid = c->pid,
		.rank = 3,
		.name = "worker:3",
		.dir = dir,
		.why = "no step for 10 s",
		.tail = tail };
}

START_TEST(a_dump_says_what_the_process_does)
{
	struct child c = child_start(NULL, getuid());
	struct hang_worker t = worker_of(&c);
	struct error err = { 0 };
	_cleanup_free_ char *why = NULL, *tail = NULL, *text = NULL, *list = NULL;
	char name[32];

	ck_assert_int_eq(hang_dump(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	reap_dump();
	ck_assert_int_eq(done, 1);
	ck_assert_ptr_nonnull(first);
	why = slurp("why.txt");
	ck_assert_ptr_nonnull(strstr(why, "worker:3 (rank 3, pid "));
	ck_assert_ptr_nonnull(strstr(why, "no step for 10 s"));
	tail = slurp("tail.txt");
	ck_assert_str_eq(tail, "one\ntwo\n");
	snprintf(name, sizeof(name), "%d.txt", (int)c.pid);
	text = slurp(name);
	ck_assert_ptr_nonnull(strstr(text, "command: cat"));
	ck_assert_ptr_nonnull(strstr(text, "== thread "));
	ck_assert_ptr_nonnull(strstr(text, "0 -> pipe:["));
	list = slurp("processes.txt");
	ck_assert_ptr_nonnull(strstr(list, "name cat"));
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

START_TEST(a_second_dump_has_a_directory_of_its_own)
{
	struct child c = child_start(NULL, getuid());
	struct hang_worker t = worker_of(&c);
	struct error err = { 0 };
	struct stat st;

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(hang_dump(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
		reap_dump();
		ck_assert_ptr_nonnull(first);
		ck_assert_int_eq(stat(first, &st), 0);
	}
	ck_assert_ptr_nonnull(strstr(first, "/hang.2"));
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

START_TEST(a_process_that_is_gone_and_one_without_logs_hurt_nobody)
{
	struct child c = child_start(NULL, getuid());
	struct hang_worker t[2] = { worker_of(&c), worker_of(&c) };
	struct error err = { 0 };

	ck_assert_int_eq(child_release(&c), 0);
	t[1].dir = NULL;
	ck_assert_int_eq(hang_dump(dumps, t, 2, 600000, on_done, NULL, &err), 0);
	reap_dump();
	ck_assert_int_eq(done, 1);
	ck_assert_int_eq(hang_dump(dumps, &t[1], 1, 600000, on_done, NULL, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "no logs"));
	t[0].dir = "/proc";
	ck_assert_int_lt(hang_dump(dumps, t, 1, 600000, on_done, NULL, &err), 0);
	ck_assert_int_eq(done, 1);
}
END_TEST

START_TEST(what_takes_too_long_is_ended_and_kept_as_far_as_it_came)
{
	struct child c = child_start(NULL, getuid());
	struct hang_worker t = worker_of(&c);
	struct error err = { 0 };

	/* No time at all: it is killed on the loop's next turn, wherever it stands. */
	ck_assert_int_eq(hang_dump(dumps, &t, 1, 0, on_done, NULL, &err), 0);
	loop_run_once(loop, true);
	reap_dump();
	ck_assert_int_eq(done, 1);
	ck_assert_ptr_nonnull(first);
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

/* A debugger that stops the process and does not come to an end. */
START_TEST(what_a_debugger_left_stopped_goes_on)
{
	struct child c = child_start(NULL, getuid());
	struct hang_worker t = worker_of(&c);
	struct error err = { 0 };
	_cleanup_free_ char *path = NULL, *gdb = NULL;
	struct proc_stat stat;
	FILE *f;

	ck_assert_int_gt(asprintf(&gdb, "%s/gdb", dir), 0);
	ck_assert_int_gt(asprintf(&path, "%s:%s", dir, getenv("PATH")), 0);
	f = fopen(gdb, "w");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "#!/bin/sh\nkill -STOP %d\necho stopped\nexec sleep 1000\n", (int)c.pid);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(chmod(gdb, 0755), 0);
	ck_assert_int_eq(setenv("PATH", path, 1), 0);
	ck_assert_int_eq(hang_dump(dumps, &t, 1, 2000, on_done, NULL, &err), 0);
	reap_dump();
	ck_assert_int_eq(proc_stat_read(c.pid, &stat), 0);
	ck_assert_int_ne(stat.state, 'T');
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

/* What another dump was told when it was over. */
struct told {
	int times;
	char *dirs[2];
};

static void on_told(void *arg, char *const *dirs, size_t n)
{
	struct told *t = arg;

	t->times++;
	ck_assert_uint_le(n, 2);
	for (size_t i = 0; i < n; i++)
		t->dirs[i] = dirs[i] ? strdup(dirs[i]) : NULL;
}

static void told_fini(struct told *t)
{
	free(t->dirs[0]);
	free(t->dirs[1]);
}

START_TEST(who_asks_while_a_dump_runs_gets_the_same_one_at_its_end)
{
	struct child c = child_start(NULL, getuid());
	struct hang_worker t = worker_of(&c);
	struct error err = { 0 };
	_cleanup_(told_fini) struct told one = { 0 }, two = { 0 };
	pid_t pids[4];

	ck_assert_int_eq(hang_dump(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	ck_assert_int_eq(hang_dump(dumps, &t, 1, 600000, on_told, &one, &err), 0);
	ck_assert_int_eq(hang_dump(dumps, &t, 1, 600000, on_told, &two, &err), 0);
	ck_assert_uint_eq(hang_helpers(dumps, pids, 4), 1);
	ck_assert_int_eq(done + one.times + two.times, 0);
	reap_dump();
	ck_assert_int_eq(done, 1);
	ck_assert_int_eq(one.times, 1);
	ck_assert_int_eq(two.times, 1);
	ck_assert_str_eq(one.dirs[0], first);
	ck_assert_str_eq(two.dirs[0], first);
	/* What is asked for from now on is another one. */
	ck_assert_int_eq(hang_dump(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	reap_dump();
	ck_assert_str_ne(one.dirs[0], first);
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

/* Of n that run. */
static pid_t newest_child(size_t n)
{
	pid_t pids[4];

	ck_assert_uint_eq(hang_helpers(dumps, pids, 4), n);
	return pids[0];
}

static void reap_one(pid_t pid)
{
	siginfo_t si;

	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	ck_assert(hang_child_exited(dumps, pid, si.si_status));
}

START_TEST(of_several_workers_only_those_that_no_other_dump_has_are_begun)
{
	struct child c = child_start(NULL, getuid()), other = child_start(NULL, getuid());
	struct hang_worker t[2] = { worker_of(&c), worker_of(&other) };
	struct error err = { 0 };
	_cleanup_(told_fini) struct told both = { 0 }, third = { 0 };
	_cleanup_free_ char *theirs = NULL;
	pid_t begun;
	struct stat st;

	ck_assert_int_eq(hang_dump(dumps, &t[0], 1, 600000, on_done, NULL, &err), 0);
	begun = newest_child(1);
	ck_assert_int_eq(hang_dump(dumps, t, 2, 600000, on_told, &both, &err), 0);
	/* Its own part is over, and that of the first one is not. */
	reap_one(newest_child(2));
	ck_assert_int_eq(both.times, 0);
	/* The worker that nobody has any more is a third one's own. */
	ck_assert_int_eq(hang_dump(dumps, &t[1], 1, 600000, on_told, &third, &err), 0);
	reap_one(newest_child(2));
	ck_assert_int_eq(third.times, 1);
	ck_assert_int_eq(done + both.times, 0);
	reap_one(begun);
	ck_assert_int_eq(done, 1);
	ck_assert_int_eq(both.times, 1);
	ck_assert_str_eq(both.dirs[0], first);
	ck_assert_str_ne(both.dirs[1], first);
	ck_assert_str_ne(both.dirs[1], third.dirs[0]);
	ck_assert_int_gt(asprintf(&theirs, "%s/%d.txt", both.dirs[1], (int)other.pid), 0);
	ck_assert_int_eq(stat(theirs, &st), 0);
	free(theirs);
	ck_assert_int_gt(asprintf(&theirs, "%s/%d.txt", both.dirs[1], (int)c.pid), 0);
	ck_assert_int_lt(stat(theirs, &st), 0);
	ck_assert_int_eq(child_release(&c), 0);
	ck_assert_int_eq(child_release(&other), 0);
}
END_TEST

START_TEST(who_waits_for_another_dump_waits_for_its_own_time_only)
{
	struct child c = child_start(NULL, getuid());
	struct hang_worker t = worker_of(&c);
	struct error err = { 0 };
	_cleanup_(told_fini) struct told brief = { 0 };

	ck_assert_int_eq(hang_dump(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	ck_assert_int_eq(hang_dump(dumps, &t, 1, 0, on_told, &brief, &err), 0);
	while (!brief.times)
		loop_run_once(loop, true);
	ck_assert_ptr_nonnull(brief.dirs[0]);
	ck_assert_int_eq(done, 0);
	reap_dump();
	ck_assert_int_eq(done, 1);
	ck_assert_int_eq(brief.times, 1);
	ck_assert_str_eq(brief.dirs[0], first);
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

START_TEST(who_waits_is_told_at_the_end_of_all_too)
{
	struct child c = child_start(NULL, getuid());
	struct hang_worker t = worker_of(&c);
	struct error err = { 0 };
	_cleanup_(told_fini) struct told other = { 0 };
	siginfo_t si;
	pid_t pid;

	ck_assert_int_eq(hang_dump(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	ck_assert_int_eq(hang_dump(dumps, &t, 1, 600000, on_told, &other, &err), 0);
	ck_assert_uint_eq(hang_helpers(dumps, &pid, 1), 1);
	dumps = hang_dumps_free(dumps);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	ck_assert_int_eq(done, 1);
	ck_assert_int_eq(other.times, 1);
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

START_TEST(dumps_that_run_end_with_their_owner)
{
	struct child c = child_start(NULL, getuid());
	struct hang_worker t = worker_of(&c);
	struct error err = { 0 };
	siginfo_t si;
	pid_t pid;

	ck_assert_int_eq(hang_dump(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	ck_assert_uint_eq(hang_helpers(dumps, &pid, 1), 1);
	dumps = hang_dumps_free(dumps);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	ck_assert_int_eq(done, 1);
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hang");
	TCase *t = tcase_create("hang");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_dump_says_what_the_process_does);
	tcase_add_test(t, a_second_dump_has_a_directory_of_its_own);
	tcase_add_test(t, a_process_that_is_gone_and_one_without_logs_hurt_nobody);
	tcase_add_test(t, what_takes_too_long_is_ended_and_kept_as_far_as_it_came);
	tcase_add_test(t, what_a_debugger_left_stopped_goes_on);
	tcase_add_test(t, who_asks_while_a_dump_runs_gets_the_same_one_at_its_end);
	tcase_add_test(t, of_several_workers_only_those_that_no_other_dump_has_are_begun);
	tcase_add_test(t, who_waits_for_another_dump_waits_for_its_own_time_only);
	tcase_add_test(t, who_waits_is_told_at_the_end_of_all_too);
	tcase_add_test(t, dumps_that_run_end_with_their_owner);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
