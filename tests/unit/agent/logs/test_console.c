/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/console.h"

#include "agent/logs/line_splitter.h"
#include "tests/unit/logtest.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

static struct logtest t;
static struct console *console;
static int ready, closed, close_error;

static void on_console(void *arg, bool is_closed, int error)
{
	if (is_closed) {
		closed++;
		close_error = error;
	} else {
		ready++;
	}
}

static void setup(void)
{
	logtest_init(&t);
	signal(SIGPIPE, SIG_IGN);
	console = NULL;
	ready = closed = 0;
}

static void teardown(void)
{
	console_free(console);
	logtest_fini(&t);
}

static void open_console(int out, int err)
{
	int fds[2] = { out, err };

	ck_assert_int_eq(console_new(t.loop, fds, on_console, NULL, &console), 0);
}

static void put(int std, const void *source, const char *text, unsigned flags)
{
	console_put(console, std, source, "P:", 2, text, strlen(text), flags);
}

static const char a, b;
static const unsigned whole = LINE_START | LINE_END;

START_TEST(lines_of_two_sources_are_never_mixed)
{
	int in, out;

	logtest_pipe(&in, &out);
	open_console(out, out);
	put(0, &a, "one", whole);
	put(0, &a, "par", LINE_START);
	put(0, &b, "two", whole);
	put(0, &a, "tial", LINE_END);
	put(0, &a, "more", LINE_START);
	put(0, &a, " and", 0);
	put(0, &a, " more", LINE_END);
	/* Both ends of one pipe are one console. */
	put(0, &a, "open", LINE_START);
	put(1, &b, "err", whole);
	put(0, &a, "on", LINE_END);
	console_flush(console);
	ck_assert_str_eq(logtest_console(in), "P:one\nP:par\nP:two\nP:tial\nP:more and more\n"
					      "P:open\nP:err\nP:on\n");
}
END_TEST

START_TEST(a_break_ends_an_unfinished_line_once)
{
	int in, out;

	logtest_pipe(&in, &out);
	open_console(out, out);
	put(0, &a, "open", LINE_START);
	console_break(console, 0, &b);
	console_break(console, 0, &a);
	console_break(console, 0, &a);
	put(0, &a, "go on", LINE_END);
	console_flush(console);
	ck_assert_str_eq(logtest_console(in), "P:open\nP:go on\n");
}
END_TEST

/* Puts lines until there is no room; returns how many. */
static int fill(int std)
{
	int n = 0;

	while (console_has_room(console, std)) {
		char text[64];

		snprintf(text, sizeof(text), "line %d", n++);
		put(std, &a, text, whole);
		if (n % 100 == 0)
			console_flush(console);
	}
	return n;
}

/* Reads and runs the loop until all lines came, each once and in order. */
static void read_slowly(int in, int lines)
{
	char *all = calloc(1, 4 << 20), line[32];
	size_t n = 0;
	const char *p = all;

	while (n == 0 || console_put_bytes(console, 0) > n) {
		const char *some = logtest_console(in);

		strcpy(all + n, some);
		n += strlen(some);
		loop_run_once(t.loop, false);
	}
	for (int i = 0; i < lines; i++) {
		int len = snprintf(line, sizeof(line), "P:line %d\n", i);

		if (strncmp(p, line, len) != 0)
			ck_abort_msg("%.30s in place of %s", p, line);
		p += len;
	}
	ck_assert_str_eq(p, "");
	free(all);
}

START_TEST(a_slow_reader_blocks_no_writer_and_gets_everything)
{
	int in, out, n;

	logtest_pipe(&in, &out);
	open_console(out, out);
	n = fill(0);
	ck_assert_int_gt(n, 10000);
	ck_assert_int_eq(fcntl(out, F_GETFL) & O_NONBLOCK, 0);
	ck_assert_int_eq(ready, 0);
	read_slowly(in, n);
	ck_assert_int_eq(ready, 1);
	ck_assert(console_has_room(console, 0));
	ck_assert_uint_eq(console_put_bytes(console, 0), console_done_bytes(console, 0));
}
END_TEST

START_TEST(a_socket_is_written_without_blocking_it)
{
	int fds[2], n;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	open_console(fds[1], fds[1]);
	n = fill(0);
	ck_assert_int_eq(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0);
	read_slowly(fds[0], n);
	close(fds[0]);
	put(0, &a, "x", whole);
	console_flush(console);
	ck_assert_int_eq(closed, 1);
	close(fds[1]);
}
END_TEST

START_TEST(a_pipe_that_cannot_be_reopened_is_written_in_small_pieces)
{
	int in, out, n;

	if (geteuid() != 0)
		return;
	logtest_pipe(&in, &out);
	ck_assert_int_eq(seteuid(65534), 0);
	open_console(out, out);
	ck_assert_int_eq(seteuid(0), 0);
	n = fill(0);
	ck_assert_int_eq(fcntl(out, F_GETFL) & O_NONBLOCK, 0);
	read_slowly(in, n);
}
END_TEST

START_TEST(a_closed_pipe_is_reported_once_and_takes_everything)
{
	int in, out, in2, out2;

	logtest_pipe(&in, &out);
	logtest_pipe(&in2, &out2);
	open_console(out, out2);
	t.fds[0] = open("/dev/null", O_RDONLY);
	close(in);
	for (int i = 0; i < 3; i++) {
		put(0, &a, "x", whole);
		console_flush(console);
	}
	ck_assert_int_eq(closed, 1);
	ck_assert_int_eq(close_error, EPIPE);
	ck_assert(console_has_room(console, 0));
	ck_assert(console_is_closed(console, 0));
	ck_assert(!console_is_closed(console, 1));
	ck_assert_uint_eq(console_put_bytes(console, 0), console_done_bytes(console, 0));
	put(1, &a, "y", whole);
	console_flush(console);
	ck_assert_str_eq(logtest_console(in2), "P:y\n");
}
END_TEST

START_TEST(a_regular_file_keeps_its_shared_offset)
{
	char text[256];
	int fd = open(logtest_path(&t, "out"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int other = dup(fd);

	logtest_say(fd, "shell\n");
	open_console(fd, other);
	put(0, &a, "one", whole);
	put(1, &a, "two", whole);
	console_flush(console);
	logtest_say(other, "shell again\n");
	put(0, &a, "three", whole);
	console_flush(console);
	ck_assert_str_eq(logtest_read(&t, "out", text, sizeof(text)),
		"shell\nP:one\nP:two\nshell again\nP:three\n");
	close(fd);
	close(other);
}
END_TEST

START_TEST(a_terminal_is_known_and_written)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;
	char text[64];

	ck_assert_int_ge(master, 0);
	ck_assert_int_eq(grantpt(master), 0);
	ck_assert_int_eq(unlockpt(master), 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(slave, 0);
	open_console(slave, slave);
	ck_assert(console_is_tty(console, 0));
	ck_assert(console_is_tty(console, 1));
	put(0, &a, "hello", whole);
	console_flush(console);
	/* The terminal delivers it in pieces. */
	for (ssize_t n, got = 0; got < 9; got += n) {
		n = read(master, text + got, sizeof(text) - (size_t)got);
		ck_assert_int_gt(n, 0);
	}
	ck_assert_int_eq(memcmp(text, "P:hello\r\n", 9), 0);
	ck_assert_int_eq(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
	/* Stops the terminal's output, so that it takes nothing more. */
	fill(0);
	close(slave);
	close(master);
	console_flush(console);
	ck_assert_int_eq(closed, 1);
}
END_TEST

START_TEST(a_missing_descriptor_is_a_closed_console)
{
	open_console(987, 988);
	put(0, &a, "x", whole);
	console_flush(console);
	ck_assert(console_is_closed(console, 0));
	ck_assert(console_has_room(console, 1));
	ck_assert_int_eq(closed, 0);
}
END_TEST

START_TEST(want_empty_calls_back_once_the_buffer_is_empty)
{
	int in, out;

	logtest_pipe(&in, &out);
	open_console(out, out);
	fill(0);
	console_want_empty(console);
	while (console_put_bytes(console, 0) > console_done_bytes(console, 0)) {
		ck_assert_int_le(ready, 1);
		logtest_console(in);
		loop_run_once(t.loop, true);
	}
	ck_assert_int_eq(ready, 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("console");
	TCase *c = tcase_create("console");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, lines_of_two_sources_are_never_mixed);
	tcase_add_test(c, a_break_ends_an_unfinished_line_once);
	tcase_add_test(c, a_slow_reader_blocks_no_writer_and_gets_everything);
	tcase_add_test(c, a_socket_is_written_without_blocking_it);
	tcase_add_test(c, a_pipe_that_cannot_be_reopened_is_written_in_small_pieces);
	tcase_add_test(c, a_closed_pipe_is_reported_once_and_takes_everything);
	tcase_add_test(c, a_regular_file_keeps_its_shared_offset);
	tcase_add_test(c, a_terminal_is_known_and_written);
	tcase_add_test(c, a_missing_descriptor_is_a_closed_console);
	tcase_add_test(c, want_empty_calls_back_once_the_buffer_is_empty);
	suite_add_tcase(s, c);
	return suite_run(s);
}
