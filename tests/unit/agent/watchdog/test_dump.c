/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/dump.h"

#include "common/base/file.h"
#include "common/base/proc.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

static char dir[64];
static json_t *tail;
static struct loop *loop;
static struct dumps *dumps;
static int done;
static char *first;

static void setup(void)
{
	strcpy(dir, "/tmp/test-hang-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(dumps_new(loop, &dumps), 0);
	tail = json_pack("[s, s]", "one", "two");
	done = 0;
}

static void teardown(void)
{
	dumps_free(dumps);
	loop_free(loop);
	json_decref(tail);
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

/* Reaps the dump's child, as the agent does. */
static void reap_dump(void)
{
	siginfo_t si;
	pid_t pid;

	ck_assert_uint_eq(dumps_helper_pids(dumps, &pid, 1), 1);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	ck_assert(dumps_child_exited(dumps, pid));
	ck_assert_uint_eq(dumps_helper_pids(dumps, &pid, 1), 0);
	ck_assert(!dumps_child_exited(dumps, pid));
}

static char *slurp(const char *name)
{
	_cleanup_free_ char *path = NULL;
	char *text = NULL;

	ck_assert_int_gt(asprintf(&path, "%s/%s", first, name), 0);
	ck_assert_msg(file_read(path, 0, &text, NULL) == 0, "no %s", path);
	return text;
}

static struct dump_worker worker_of(const struct child *c)
{
	return (struct dump_worker){ .pid = c->pid,
		.rank = 3,
		.name = "worker:3",
		.dir = dir,
		.why = "no step for 10 s",
		.tail = tail };
}

START_TEST(dump_shows_threads_and_files_of_the_process)
{
	struct child c = child_start(NULL, getuid());
	struct dump_worker t = worker_of(&c);
	struct error err = { 0 };
	_cleanup_free_ char *why = NULL, *end = NULL, *text = NULL, *list = NULL;
	char name[32];

	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	reap_dump();
	ck_assert_int_eq(done, 1);
	ck_assert_ptr_nonnull(first);
	why = slurp("why.txt");
	ck_assert_ptr_nonnull(strstr(why, "worker:3 (rank 3, pid "));
	ck_assert_ptr_nonnull(strstr(why, "no step for 10 s"));
	end = slurp("tail.txt");
	ck_assert_str_eq(end, "one\ntwo\n");
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
	struct dump_worker t = worker_of(&c);
	struct error err = { 0 };
	struct stat st;

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(dumps_begin(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
		reap_dump();
		ck_assert_ptr_nonnull(first);
		ck_assert_int_eq(stat(first, &st), 0);
	}
	ck_assert_ptr_nonnull(strstr(first, "/hang.2"));
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

START_TEST(dump_passes_over_ended_processes_and_workers_without_logs)
{
	struct child c = child_start(NULL, getuid());
	struct dump_worker t[2] = { worker_of(&c), worker_of(&c) };
	struct error err = { 0 };

	ck_assert_int_eq(child_release(&c), 0);
	t[1].dir = NULL;
	ck_assert_int_eq(dumps_begin(dumps, t, 2, 600000, on_done, NULL, &err), 0);
	reap_dump();
	ck_assert_int_eq(done, 1);
	ck_assert_int_eq(dumps_begin(dumps, &t[1], 1, 600000, on_done, NULL, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "no logs"));
	t[0].dir = "/proc";
	ck_assert_int_lt(dumps_begin(dumps, t, 1, 600000, on_done, NULL, &err), 0);
	ck_assert_int_eq(done, 1);
}
END_TEST

START_TEST(overdue_dump_is_killed_and_keeps_what_it_wrote)
{
	struct child c = child_start(NULL, getuid());
	struct dump_worker t = worker_of(&c);
	struct error err = { 0 };

	/* With no time at all the loop's next turn kills it. */
	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 0, on_done, NULL, &err), 0);
	loop_run_once(loop, true);
	reap_dump();
	ck_assert_int_eq(done, 1);
	ck_assert_ptr_nonnull(first);
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

/* A debugger that stops the process and never ends. */
START_TEST(process_left_stopped_by_a_debugger_is_continued)
{
	struct child c = child_start(NULL, getuid());
	struct dump_worker t = worker_of(&c);
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
	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 2000, on_done, NULL, &err), 0);
	reap_dump();
	ck_assert_int_eq(proc_stat_read(c.pid, &stat), 0);
	ck_assert_int_ne(stat.state, 'T');
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

/* The callbacks of another dump. */
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

START_TEST(second_request_shares_the_running_dump)
{
	struct child c = child_start(NULL, getuid());
	struct dump_worker t = worker_of(&c);
	struct error err = { 0 };
	_cleanup_(told_fini) struct told one = { 0 }, two = { 0 };
	pid_t pids[4];

	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 600000, on_told, &one, &err), 0);
	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 600000, on_told, &two, &err), 0);
	ck_assert_uint_eq(dumps_helper_pids(dumps, pids, 4), 1);
	ck_assert_int_eq(done + one.times + two.times, 0);
	reap_dump();
	ck_assert_int_eq(done, 1);
	ck_assert_int_eq(one.times, 1);
	ck_assert_int_eq(two.times, 1);
	ck_assert_str_eq(one.dirs[0], first);
	ck_assert_str_eq(two.dirs[0], first);
	/* A later request begins another dump. */
	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	reap_dump();
	ck_assert_str_ne(one.dirs[0], first);
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

/* The child of the newest of n running dumps. */
static pid_t newest_child(size_t n)
{
	pid_t pids[4];

	ck_assert_uint_eq(dumps_helper_pids(dumps, pids, 4), n);
	return pids[0];
}

static void reap_one(pid_t pid)
{
	siginfo_t si;

	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	ck_assert(dumps_child_exited(dumps, pid));
}

START_TEST(a_request_dumps_only_workers_that_no_other_dumps)
{
	struct child c = child_start(NULL, getuid()), other = child_start(NULL, getuid());
	struct dump_worker t[2] = { worker_of(&c), worker_of(&other) };
	struct error err = { 0 };
	_cleanup_(told_fini) struct told both = { 0 }, third = { 0 };
	_cleanup_free_ char *theirs = NULL;
	pid_t begun;
	struct stat st;

	ck_assert_int_eq(dumps_begin(dumps, &t[0], 1, 600000, on_done, NULL, &err), 0);
	begun = newest_child(1);
	ck_assert_int_eq(dumps_begin(dumps, t, 2, 600000, on_told, &both, &err), 0);
	/* Its own part is over, but not that of the first dump. */
	reap_one(newest_child(2));
	ck_assert_int_eq(both.times, 0);
	/* A third request dumps the worker that no other one dumps any more. */
	ck_assert_int_eq(dumps_begin(dumps, &t[1], 1, 600000, on_told, &third, &err), 0);
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

START_TEST(wait_for_another_dump_ends_at_its_own_timeout)
{
	struct child c = child_start(NULL, getuid());
	struct dump_worker t = worker_of(&c);
	struct error err = { 0 };
	_cleanup_(told_fini) struct told brief = { 0 };

	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 0, on_told, &brief, &err), 0);
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

START_TEST(freeing_all_dumps_calls_back_those_that_wait)
{
	struct child c = child_start(NULL, getuid());
	struct dump_worker t = worker_of(&c);
	struct error err = { 0 };
	_cleanup_(told_fini) struct told other = { 0 };
	siginfo_t si;
	pid_t pid;

	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 600000, on_told, &other, &err), 0);
	ck_assert_uint_eq(dumps_helper_pids(dumps, &pid, 1), 1);
	dumps = dumps_free(dumps);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	ck_assert_int_eq(done, 1);
	ck_assert_int_eq(other.times, 1);
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

START_TEST(dumps_that_run_end_with_their_owner)
{
	struct child c = child_start(NULL, getuid());
	struct dump_worker t = worker_of(&c);
	struct error err = { 0 };
	siginfo_t si;
	pid_t pid;

	ck_assert_int_eq(dumps_begin(dumps, &t, 1, 600000, on_done, NULL, &err), 0);
	ck_assert_uint_eq(dumps_helper_pids(dumps, &pid, 1), 1);
	dumps = dumps_free(dumps);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	ck_assert_int_eq(done, 1);
	ck_assert_int_eq(child_release(&c), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hang");
	TCase *t = tcase_create("hang");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, dump_shows_threads_and_files_of_the_process);
	tcase_add_test(t, a_second_dump_has_a_directory_of_its_own);
	tcase_add_test(t, dump_passes_over_ended_processes_and_workers_without_logs);
	tcase_add_test(t, overdue_dump_is_killed_and_keeps_what_it_wrote);
	tcase_add_test(t, process_left_stopped_by_a_debugger_is_continued);
	tcase_add_test(t, second_request_shares_the_running_dump);
	tcase_add_test(t, a_request_dumps_only_workers_that_no_other_dumps);
	tcase_add_test(t, wait_for_another_dump_ends_at_its_own_timeout);
	tcase_add_test(t, freeing_all_dumps_calls_back_those_that_wait);
	tcase_add_test(t, dumps_that_run_end_with_their_owner);
	suite_add_tcase(s, t);
	return suite_run(s);
}
