/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/pipe.h"

#include "tests/unit/logtest.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <signal.h>

static struct logtest t;
static struct console *console;
static struct tee *follower;
static struct tee_stream *stream;
static struct log_pipe *pipe_;
static int in, worker;
static int full_events, free_events;
static char text[1 << 20];

static void on_console(void *arg, bool closed, int error)
{
	if (!closed)
		tee_console_ready(follower);
}

static void on_tee_vanished(void *arg, int rank, const char *what)
{
}

static void on_progress(void *arg)
{
	if (pipe_)
		log_pipe_console_ready(pipe_);
}

static void on_full(void *arg, int rank, const char *path, bool full)
{
	full_events += full;
	free_events += !full;
}

static void on_failed(void *arg, int rank, const char *path, int error)
{
	ck_abort_msg("%s: %s", path, strerror(error));
}

static void on_vanished(void *arg, int rank, const char *path)
{
}

/* One turn of the loop, in which time passes. */
static void turn(void)
{
	loop_pass(t.loop, 10);
	loop_run_once(t.loop, false);
}

#define UNTIL(cond)             \
	do {                    \
		while (!(cond)) \
			turn(); \
	} while (0)

static void setup(void)
{
	const struct tee_hooks hooks = { on_tee_vanished, on_progress, NULL };
	int fds[2];

	logtest_init(&t);
	loop_freeze();
	signal(SIGPIPE, SIG_IGN);
	logtest_pipe(&in, &fds[0]);
	fds[1] = fds[0];
	pipe_ = NULL;
	stream = NULL;
	worker = -1;
	full_events = free_events = 0;
	ck_assert_int_eq(console_new(t.loop, fds, on_console, NULL, &console), 0);
	ck_assert_int_eq(tee_new(t.loop, console, &hooks, &follower), 0);
}

static void teardown(void)
{
	log_pipe_free(pipe_);
	tee_free(follower);
	console_free(console);
	close_fd(worker);
	logtest_fini(&t);
}

static void open_pipe(const char *path, bool timestamps, int64_t max_size, bool tee)
{
	const struct log_pipe_options opt = { .path = path,
		.rank = 1,
		.timestamps = timestamps,
		.max_size = max_size,
		.keep = 3,
		.full = on_full,
		.failed = on_failed,
		.vanished = on_vanished };
	const struct tee_options tee_opt = {
		.to_console = true, .prefix = "w:", .stamped = timestamps
	};
	int fd = -1;

	ck_assert_int_eq(log_pipe_new(t.loop, &opt, &worker, &pipe_), 0);
	if (!tee)
		return;
	if (path)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(tee_add(follower, &tee_opt, fd, 0, &stream), 0);
	log_pipe_set_tee(pipe_, stream);
}

static bool file_has(const char *name, const char *what)
{
	if (access(logtest_path(&t, name), F_OK) < 0)
		return false;
	return strstr(logtest_read(&t, name, text, sizeof(text)), what);
}

START_TEST(a_workers_end_is_an_ordinary_blocking_pipe)
{
	open_pipe(logtest_path(&t, "stdout.log"), false, 0, false);
	ck_assert_int_eq(fcntl(worker, F_GETFL) & O_NONBLOCK, 0);
	ck_assert(fcntl(worker, F_GETFD) & FD_CLOEXEC);
	logtest_say(worker, "one\ntwo");
	UNTIL(file_has("stdout.log", "two"));
	ck_assert_str_eq(text, "one\ntwo");
}
END_TEST

START_TEST(lines_reach_file_with_and_console_without_stamps)
{
	char shown[256] = "";

	open_pipe(logtest_path(&t, "stdout.log"), true, 0, true);
	logtest_say(worker, "one\n");
	logtest_say(worker, "two\n");
	while (!strstr(shown, "two\n")) {
		turn();
		strcat(shown, logtest_console(in));
	}
	ck_assert_str_eq(shown, "w:one\nw:two\n");
	logtest_read(&t, "stdout.log", text, sizeof(text));
	ck_assert_uint_eq(strlen(text), 2 * (28 + 4));
	ck_assert_int_eq(text[26], 'Z');
}
END_TEST

START_TEST(the_console_follows_over_rotation)
{
	static char shown[1 << 16];
	size_t n = 0;
	char line[32];
	const char *p = shown;

	open_pipe(logtest_path(&t, "stdout.log"), _i, 200, true);
	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "line %d\n", i);
		logtest_say(worker, line);
	}
	shown[0] = '\0';
	while (!strstr(shown, "line 999\n")) {
		turn();
		strcpy(shown + n, logtest_console(in));
		n += strlen(shown + n);
	}
	for (int i = 0; i < 1000; i++) {
		int len = snprintf(line, sizeof(line), "w:line %d\n", i);

		if (strncmp(p, line, len) != 0)
			ck_abort_msg("%.30s in place of %s", p, line);
		p += len;
	}
	ck_assert(access(logtest_path(&t, "stdout.log.1"), F_OK) == 0);
	ck_assert(access(logtest_path(&t, "stdout.log.2"), F_OK) != 0);
}
END_TEST

static void write_much(size_t bytes)
{
	static char block[4096];

	memset(block, 'x', sizeof(block));
	block[sizeof(block) - 1] = '\n';
	ck_assert_int_eq(fcntl(worker, F_SETFL, O_NONBLOCK), 0);
	for (size_t n = 0; n < bytes;) {
		if (write(worker, block, sizeof(block)) > 0)
			n += sizeof(block);
		else
			turn();
	}
}

START_TEST(a_full_disk_never_holds_the_worker_up)
{
	int fill;

	if (!logtest_small_disk(&t, 512 * 1024))
		return;
	open_pipe(logtest_path(&t, "disk/stdout.log"), false, 0, false);
	fill = open(logtest_path(&t, "disk/fill"), O_WRONLY | O_CREAT, 0600);
	while (write(fill, text, 4096) > 0)
		;
	write_much(4 << 20);
	ck_assert_int_eq(full_events, 1);
	ck_assert_int_eq(free_events, 0);
	ck_assert_int_eq(ftruncate(fill, 0), 0);
	UNTIL(free_events == 1);
	logtest_say(worker, "on again\n");
	UNTIL(file_has("disk/stdout.log", "on again\n"));
	ck_assert_ptr_nonnull(strstr(text, "bytes of this log were lost while the disk was full"));
	ck_assert_int_eq(full_events, 1);
	close(fill);
}
END_TEST

START_TEST(without_a_file_a_slow_console_loses_nothing)
{
	size_t lines = 0;

	open_pipe(NULL, false, 0, true);
	ck_assert_int_eq(fcntl(worker, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 20000; i++) {
		while (write(worker, "0123456789012345678901234567890123456789\n", 41) < 0) {
			const char *p = logtest_console(in);

			for (; (p = strchr(p, '\n')); p++)
				lines++;
			turn();
		}
	}
	while (lines < 20000) {
		const char *p = logtest_console(in);

		for (; (p = strchr(p, '\n')); p++)
			lines++;
		turn();
	}
	ck_assert_uint_eq(lines, 20000);
}
END_TEST

START_TEST(without_a_file_nothing_is_lost_where_the_agent_itself_stood_still)
{
	static const char line[] = "0123456789012345678901234567890123456789\n";
	size_t written = 0, lines = 0;

	open_pipe(NULL, false, 0, true);
	ck_assert_int_eq(fcntl(worker, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 4; i++) {
		/* Writes until both pipes and the buffers between them are full, and the agent has
		 * seen that the console takes nothing. */
		for (int idle = 0; idle < 20; idle++) {
			for (; write(worker, line, sizeof(line) - 1) > 0; idle = 0)
				written++;
			turn();
		}
		/* The agent does not run, as on a suspended or overloaded machine. */
		loop_pass(t.loop, LOG_PIPE_STALL_MS + 100);
		for (int k = 0; k < 3; k++)
			loop_run_once(t.loop, false);
		for (const char *p = logtest_console(in); (p = strchr(p, '\n')); p++)
			lines++;
	}
	while (lines < written) {
		const char *p = logtest_console(in);

		ck_assert_ptr_null(strstr(p, "bytes were lost"));
		for (; (p = strchr(p, '\n')); p++)
			lines++;
		turn();
	}
	ck_assert_uint_eq(lines, written);
}
END_TEST

START_TEST(without_a_file_a_console_that_stands_still_loses_lines_and_says_so)
{
	uint64_t before = loop_now_ms();
	const char *note;
	size_t len;

	open_pipe(NULL, false, 0, true);
	write_much(4 << 20);
	/* The worker waited for the console, but not for ever. */
	ck_assert_uint_ge(loop_now_ms() - before, LOG_PIPE_STALL_MS);
	ck_assert_uint_lt(loop_now_ms() - before, 1000 * LOG_PIPE_STALL_MS);
	while (!(note = logtest_line(in, "w:elasticd: ")))
		turn();
	ck_assert_ptr_nonnull(strstr(note, "bytes were lost while the console stood still\n"));
	/* The end of the stream is kept for reports. */
	ck_assert_ptr_nonnull(log_pipe_recent(pipe_, &len));
	ck_assert_uint_ge(len, 4096);
}
END_TEST

/* No turn of the loop comes between the room in the console and the end. */
START_TEST(without_a_file_the_rest_is_shown_at_the_end_if_the_console_has_room_again)
{
	open_pipe(NULL, false, 0, true);
	write_much(4 << 20);
	while (!tee_has_room(stream)) {
		ck_assert_int_gt(read(in, text, 32 << 10), 0);
		loop_run_once(t.loop, false);
	}
	logtest_say(worker, "last words\n");
	log_pipe_end(pipe_);
	while (!logtest_line(in, "w:elasticd: "))
		turn();
	while (!logtest_line(in, "w:last words"))
		turn();
}
END_TEST

START_TEST(freeing_a_pipe_reads_its_rest)
{
	open_pipe(logtest_path(&t, "stdout.log"), false, 0, false);
	logtest_say(worker, "last words");
	pipe_ = log_pipe_free(pipe_);
	ck_assert(file_has("stdout.log", "last words"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log_pipe");
	TCase *c = tcase_create("log_pipe");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_workers_end_is_an_ordinary_blocking_pipe);
	tcase_add_test(c, lines_reach_file_with_and_console_without_stamps);
	tcase_add_loop_test(c, the_console_follows_over_rotation, 0, 2);
	tcase_add_test(c, a_full_disk_never_holds_the_worker_up);
	tcase_add_test(c, without_a_file_a_slow_console_loses_nothing);
	tcase_add_test(c, without_a_file_nothing_is_lost_where_the_agent_itself_stood_still);
	tcase_add_test(c, without_a_file_a_console_that_stands_still_loses_lines_and_says_so);
	tcase_add_test(
		c, without_a_file_the_rest_is_shown_at_the_end_if_the_console_has_room_again);
	tcase_add_test(c, freeing_a_pipe_reads_its_rest);
	suite_add_tcase(s, c);
	return suite_run(s);
}
