/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/files/inotify.h"

#include "tests/unit/logtest.h"
#include "tests/unit/run.h"

#include <check.h>
#include <sys/resource.h>

static struct logtest t;
static struct log_watch *watches[4];
static int seen[4];
static int file;

static void setup(void)
{
	logtest_init(&t);
	memset(watches, 0, sizeof(watches));
	memset(seen, 0, sizeof(seen));
	file = open(logtest_path(&t, "file"), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(file, 0);
}

static void teardown(void)
{
	for (int i = 0; i < 4; i++)
		log_watch_free(watches[i]);
	close(file);
	logtest_fini(&t);
}

static void on_event(void *arg, int events)
{
	*(int *)arg |= events;
}

static void watch(int i, int fd, int events)
{
	ck_assert_int_eq(log_watch_new(t.loop, fd, events, on_event, &seen[i], &watches[i]), 0);
}

static void turn(void)
{
	for (int i = 0; i < 3; i++)
		loop_run_once(t.loop, false);
}

START_TEST(watches_of_one_file_get_their_own_events)
{
	watch(0, file, LOG_WATCH_MODIFY);
	watch(1, file, LOG_WATCH_GONE);
	watch(2, file, LOG_WATCH_MODIFY | LOG_WATCH_GONE);
	logtest_say(file, "x");
	turn();
	ck_assert_int_eq(seen[0], LOG_WATCH_MODIFY);
	ck_assert_int_eq(seen[1], 0);
	ck_assert_int_eq(seen[2], LOG_WATCH_MODIFY);
	unlink(logtest_path(&t, "file"));
	turn();
	ck_assert_int_eq(seen[0], LOG_WATCH_MODIFY);
	ck_assert_int_eq(seen[1], LOG_WATCH_GONE);
	ck_assert_int_eq(seen[2], LOG_WATCH_MODIFY | LOG_WATCH_GONE);
	/* The file lives on with its descriptor. */
	seen[0] = 0;
	logtest_say(file, "x");
	turn();
	ck_assert_int_eq(seen[0], LOG_WATCH_MODIFY);
}
END_TEST

static void on_turn(void *arg, int events)
{
	static int turns;

	*(int *)arg = ++turns;
}

START_TEST(events_come_in_the_order_of_the_writes)
{
	static const int order[] = { 2, 0, 3, 1 };
	int fds[4];

	for (int i = 0; i < 4; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file.%d", i);
		fds[i] = open(logtest_path(&t, name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		ck_assert_int_ge(fds[i], 0);
		t.fds[t.n_fds++] = fds[i];
		ck_assert_int_eq(log_watch_new(t.loop, fds[i], LOG_WATCH_MODIFY, on_turn, &seen[i],
					 &watches[i]),
			0);
	}
	for (int i = 0; i < 4; i++)
		logtest_say(fds[order[i]], "x");
	logtest_say(fds[2], "x");
	turn();
	for (int i = 1; i < 4; i++)
		ck_assert_int_lt(seen[order[i - 1]], seen[order[i]]);
}
END_TEST

START_TEST(a_watch_that_is_off_sees_nothing_and_disturbs_no_other)
{
	watch(0, file, LOG_WATCH_MODIFY);
	watch(1, file, 0);
	ck_assert_int_eq(log_watch_set(watches[0], file, 0), 0);
	logtest_say(file, "x");
	turn();
	ck_assert_int_eq(seen[0] | seen[1], 0);
	ck_assert_int_eq(log_watch_set(watches[1], file, LOG_WATCH_MODIFY), 0);
	ck_assert_int_eq(log_watch_set(watches[0], file, LOG_WATCH_GONE), 0);
	logtest_say(file, "x");
	turn();
	ck_assert_int_eq(seen[0], 0);
	ck_assert_int_eq(seen[1], LOG_WATCH_MODIFY);
	watches[1] = log_watch_free(watches[1]);
	seen[1] = 0;
	logtest_say(file, "x");
	turn();
	ck_assert_int_eq(seen[0] | seen[1], 0);
}
END_TEST

START_TEST(names_in_a_directory_are_seen)
{
	int dir = open(t.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	watch(0, dir, LOG_WATCH_NAMES);
	close(dir);
	logtest_write(&t, "new", "");
	turn();
	ck_assert_int_eq(seen[0], LOG_WATCH_NAMES);
	seen[0] = 0;
	rename(logtest_path(&t, "new"), logtest_path(&t, "newer"));
	turn();
	ck_assert_int_eq(seen[0], LOG_WATCH_NAMES);
}
END_TEST

static void free_all(void *arg, int events)
{
	seen[0]++;
	for (int i = 0; i < 4; i++)
		watches[i] = log_watch_free(watches[i]);
}

START_TEST(a_callback_may_free_all_watches)
{
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(
			log_watch_new(t.loop, file, LOG_WATCH_MODIFY, free_all, NULL, &watches[i]),
			0);
	logtest_say(file, "x");
	turn();
	ck_assert_int_eq(seen[0], 1);
}
END_TEST

START_TEST(without_inotify_watches_that_must_be_called_are_called)
{
	struct rlimit old, none = { 0 };
	uint64_t before = loop_now_ms();

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	none.rlim_max = old.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	watch(0, file, LOG_WATCH_MODIFY | LOG_WATCH_MUST);
	watch(1, file, LOG_WATCH_MODIFY);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	logtest_say(file, "x");
	LOGTEST_UNTIL(&t, seen[0]);
	ck_assert_uint_lt(loop_now_ms() - before, 60000);
	ck_assert_int_eq(seen[1], 0);
	/* While the watch is off, no callback runs. */
	ck_assert_int_eq(log_watch_set(watches[0], file, 0), 0);
	seen[0] = 0;
	turn();
	ck_assert_int_eq(seen[0], 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log_watch");
	TCase *c = tcase_create("log_watch");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, watches_of_one_file_get_their_own_events);
	tcase_add_test(c, events_come_in_the_order_of_the_writes);
	tcase_add_test(c, a_watch_that_is_off_sees_nothing_and_disturbs_no_other);
	tcase_add_test(c, names_in_a_directory_are_seen);
	tcase_add_test(c, a_callback_may_free_all_watches);
	tcase_add_test(c, without_inotify_watches_that_must_be_called_are_called);
	suite_add_tcase(s, c);
	return suite_run(s);
}
