/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/drain.h"

#include "agent/logs/line_splitter.h"
#include "tests/unit/logtest.h"
#include "tests/unit/run.h"

#include <signal.h>

enum { LINES = 1000, TIMEOUT_MS = 20, EVER_MS = 1 << 30 };

static struct logtest t;
static struct console *console;
static struct log_drains *drains;
static int in;
static bool done;

static void on_console(void *arg, bool closed, int error)
{
	log_drains_progress(drains);
}

static void on_drained(void *arg)
{
	done = true;
}

/* Fills the pipe: the rest waits for the reader. */
static void setup(void)
{
	static char line[1000];
	int out;

	logtest_init(&t);
	signal(SIGPIPE, SIG_IGN);
	logtest_pipe(&in, &out);
	done = false;
	ck_assert_int_eq(console_new(t.loop, (int[]){ out, out }, on_console, NULL, &console), 0);
	ck_assert_int_eq(log_drains_new(t.loop, NULL, console, &drains), 0);
	memset(line, 'x', sizeof(line));
	for (int i = 0; i < LINES; i++)
		console_put(console, 0, line, "", 0, line, sizeof(line) - 1, LINE_START | LINE_END);
	console_flush(console);
}

static void teardown(void)
{
	log_drains_free(drains);
	console_free(console);
	logtest_fini(&t);
}

/* Long enough for the drain to check for progress. */
static void pass(void)
{
	uint64_t until = loop_now_ms() + 2 * TIMEOUT_MS;

	while (loop_now_ms() < until)
		usleep(1000);
}

START_TEST(drain_waits_for_a_slow_console)
{
	size_t got = strlen(logtest_console(in)), first = got;

	ck_assert_int_eq(log_drains_add(drains, TIMEOUT_MS, EVER_MS, on_drained, NULL), 0);
	while (!done) {
		loop_run_once(t.loop, false);
		pass();
		got += strlen(logtest_console(in));
	}
	ck_assert_uint_gt(first, 0);
	ck_assert_uint_eq(got + strlen(logtest_console(in)), LINES * 1000);
}
END_TEST

START_TEST(drain_gives_up_on_a_console_that_takes_nothing)
{
	ck_assert_int_eq(log_drains_add(drains, TIMEOUT_MS, EVER_MS, on_drained, NULL), 0);
	LOGTEST_UNTIL(&t, done);
	ck_assert_uint_lt(strlen(logtest_console(in)), LINES * 1000);
}
END_TEST

START_TEST(drain_gives_up_on_a_slow_console_at_last)
{
	char some[1000];

	ck_assert_int_eq(log_drains_add(drains, TIMEOUT_MS, 3 * TIMEOUT_MS, on_drained, NULL), 0);
	for (int i = 0; !done; i++) {
		ck_assert_int_lt(i, LINES);
		loop_run_once(t.loop, false);
		pass();
		ck_assert_int_gt(read(in, some, sizeof(some)), 0);
	}
}
END_TEST

START_TEST(drain_ends_at_once_after_drains_end)
{
	ck_assert_int_eq(log_drains_add(drains, EVER_MS, EVER_MS, on_drained, NULL), 0);
	loop_run_once(t.loop, false);
	ck_assert(!done);
	log_drains_end(drains);
	LOGTEST_UNTIL(&t, done);
	done = false;
	ck_assert_int_eq(log_drains_add(drains, EVER_MS, EVER_MS, on_drained, NULL), 0);
	LOGTEST_UNTIL(&t, done);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log_drain");
	TCase *c = tcase_create("log_drain");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, drain_waits_for_a_slow_console);
	tcase_add_test(c, drain_gives_up_on_a_console_that_takes_nothing);
	tcase_add_test(c, drain_gives_up_on_a_slow_console_at_last);
	tcase_add_test(c, drain_ends_at_once_after_drains_end);
	suite_add_tcase(s, c);
	return suite_run(s);
}
