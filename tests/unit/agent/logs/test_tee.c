/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/tee.h"

#include "tests/unit/logtest.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>

static struct logtest t;
static struct console *console;
static struct tee *follower;
static int in[2]; /* what the console's readers see */
static char shown[2][1 << 20];
static size_t shown_len[2];
static char events[1024];
static int files[8];
static int runs; /* of the follower */

static void on_console(void *arg, bool closed, int error)
{
	if (closed)
		tee_console_closed(follower, 0);
	else
		tee_console_ready(follower);
}

static void on_vanished(void *arg, int rank, const char *text)
{
	size_t n = strlen(events);

	snprintf(events + n, sizeof(events) - n, "%d: %s\n", rank, strstr(text, " was "));
}

static void on_progress(void *arg)
{
	runs++;
}

static void setup(void)
{
	const struct tee_hooks hooks = { on_vanished, on_progress, NULL };
	int fds[2];

	logtest_init(&t);
	signal(SIGPIPE, SIG_IGN);
	logtest_pipe(&in[0], &fds[0]);
	logtest_pipe(&in[1], &fds[1]);
	shown_len[0] = shown_len[1] = 0;
	events[0] = '\0';
	memset(files, -1, sizeof(files));
	ck_assert_int_eq(console_new(t.loop, fds, on_console, NULL, &console), 0);
	ck_assert_int_eq(tee_new(t.loop, console, &hooks, &follower), 0);
}

static void teardown(void)
{
	tee_free(follower);
	console_free(console);
	for (int i = 0; i < 8; i++)
		close_fd(files[i]);
	logtest_fini(&t);
}

static const char *name_of(int rank)
{
	static char name[32];

	snprintf(name, sizeof(name), "%d.log", rank);
	return name;
}

/* A file that a worker of this rank would write, and its follower. */
static struct tee_stream *follow(int rank, struct log_copy *copy)
{
	char prefix[32];
	struct tee_options opt = {
		.rank = rank, .std = 0, .to_console = true, .prefix = prefix, .copy = copy
	};
	struct tee_stream *s;
	const char *path = logtest_path(&t, name_of(rank));
	int fd;

	snprintf(prefix, sizeof(prefix), "[%d]", rank);
	opt.path = path;
	files[rank] = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(files[rank], 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(tee_add(follower, &opt, fd, 0, &s), 0);
	return s;
}

static const char *console_text(int std)
{
	const char *text = logtest_console(in[std]);

	ck_assert_uint_lt(shown_len[std] + strlen(text), sizeof(shown[std]));
	strcpy(shown[std] + shown_len[std], text);
	shown_len[std] += strlen(text);
	return shown[std];
}

#define UNTIL_SHOWN(text) LOGTEST_UNTIL(&t, strstr(console_text(0), text))

START_TEST(lines_come_as_they_are_written)
{
	follow(0, NULL);
	logtest_say(files[0], "one\n");
	UNTIL_SHOWN("one\n");
	logtest_say(files[0], "two\nthr");
	UNTIL_SHOWN("two\n");
	logtest_say(files[0], "ee\n");
	UNTIL_SHOWN("ee\n");
	ck_assert_str_eq(shown[0], "[0]one\n[0]two\n[0]three\n");
}
END_TEST

START_TEST(partial_lines_of_two_ranks_are_kept_apart)
{
	follow(0, NULL);
	follow(1, NULL);
	logtest_say(files[0], "par");
	UNTIL_SHOWN("[0]par");
	logtest_say(files[1], "par");
	UNTIL_SHOWN("[1]par");
	logtest_say(files[0], "tial\n");
	UNTIL_SHOWN("tial");
	logtest_say(files[1], "tial\n");
	UNTIL_SHOWN("[1]tial");
	ck_assert_str_eq(shown[0], "[0]par\n[1]par\n[0]tial\n[1]tial\n");
}
END_TEST

START_TEST(the_last_line_is_shown_and_completed_at_the_end)
{
	struct tee_stream *s = follow(0, NULL);

	logtest_say(files[0], "one\nlast words");
	tee_end(s);
	/* Another process may append to the same file. */
	logtest_say(files[0], "not followed\n");
	UNTIL_SHOWN("words\n");
	for (int i = 0; i < 3; i++)
		loop_run_once(t.loop, false);
	ck_assert_str_eq(console_text(0), "[0]one\n[0]last words\n");
}
END_TEST

START_TEST(a_console_that_is_not_read_stops_the_reading_and_loses_nothing)
{
	struct tee_stream *s = follow(0, NULL);
	char block[65536];
	size_t lines = 0;

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = i % 64 == 63 ? '\n' : 'x';
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(write(files[0], block, sizeof(block)), sizeof(block));
	for (int i = 0; i < 50; i++)
		loop_run_once(t.loop, false);
	ck_assert(!tee_has_room(s));
	tee_end(s);
	while (lines < 100 * sizeof(block) / 64) {
		const char *text = logtest_console(in[0]);

		for (; (text = strchr(text, '\n')); text++)
			lines++;
		loop_run_once(t.loop, false);
	}
	ck_assert_uint_eq(lines, 100 * sizeof(block) / 64);
}
END_TEST

START_TEST(a_line_that_lies_in_the_file_is_not_released_in_part)
{
	char block[65536], *all = calloc(1, 8 << 20);
	size_t len = 0, lines = 0;
	struct tee_stream *other;
	uint64_t late;

	other = follow(1, NULL);
	follow(0, NULL);
	/* 65536 is no multiple of a line's length, so blocks end inside lines. */
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = i % 60 == 59 ? '\n' : 'x';
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(write(files[0], block, 65520), 65520);
	for (int i = 0; i < 20; i++)
		loop_run_once(t.loop, false);
	late = loop_now_ms() + 2 * TEE_QUIET_MS;
	/* The other file keeps the follower awake, and its lines come between. */
	while (loop_now_ms() < late) {
		logtest_say(files[1], "y\n");
		tee_file_grew(other);
		loop_run_once(t.loop, false);
	}
	while (lines < 20 * 65520 / 60) {
		strcpy(all + len, logtest_console(in[0]));
		for (; all[len]; len++)
			lines += all[len] == '\n' && len > 20 && all[len - 1] == 'x';
		loop_run_once(t.loop, false);
	}
	for (const char *p = all; *p; p += strcspn(p, "\n") + 1)
		if (p[1] == '0' && strcspn(p, "\n") != 3 + 59)
			ck_abort_msg("%.*s", (int)strcspn(p, "\n"), p);
	free(all);
}
END_TEST

START_TEST(a_file_that_is_removed_is_followed_to_its_end)
{
	follow(0, NULL);
	logtest_say(files[0], "one\n");
	UNTIL_SHOWN("one\n");
	unlink(logtest_path(&t, "0.log"));
	LOGTEST_UNTIL(&t, events[0]);
	logtest_say(files[0], "two\n");
	UNTIL_SHOWN("two\n");
	ck_assert_str_eq(events, "0:  was removed; following what is still open\n");
}
END_TEST

START_TEST(a_file_that_is_replaced_is_reported_once)
{
	follow(3, NULL);
	logtest_write(&t, "other", "x\n");
	rename(logtest_path(&t, "other"), logtest_path(&t, "3.log"));
	LOGTEST_UNTIL(&t, events[0]);
	unlink(logtest_path(&t, "3.log"));
	logtest_say(files[3], "still here\n");
	UNTIL_SHOWN("[3]still here\n");
	ck_assert_str_eq(events, "3:  was replaced; following what is still open\n");
}
END_TEST

START_TEST(a_file_that_is_truncated_is_followed_from_its_start)
{
	follow(0, NULL);
	logtest_say(files[0], "one\ntwo\n");
	UNTIL_SHOWN("two\n");
	ck_assert_int_eq(ftruncate(files[0], 0), 0);
	LOGTEST_UNTIL(&t, events[0]);
	logtest_say(files[0], "new\n");
	UNTIL_SHOWN("new\n");
	ck_assert_str_eq(events, "0:  was truncated; following what is still open\n");
}
END_TEST

static void on_time(void *arg)
{
	*(bool *)arg = true;
}

/* Counts the turns of the loop within 500 ms. */
static int turns(void)
{
	struct loop_timer *timer;
	bool over = false;
	int n = 0;

	ck_assert_int_eq(loop_timer_new(t.loop, on_time, &over, &timer), 0);
	loop_timer_arm(timer, 500);
	for (; !over; n++)
		loop_run_once(t.loop, true);
	loop_timer_free(timer);
	return n;
}

/* True once a period has only the turn of its own timer. Some periods have more: the loop's coarse
 * clock may fire a timer early, or the machine stood still. A follower that polls has more in every
 * period. */
static bool goes_idle(void)
{
	for (int i = 0; i < 100; i++)
		if (turns() == 1)
			return true;
	return false;
}

START_TEST(an_idle_follower_does_nothing_at_all)
{
	follow(0, NULL);
	follow(1, NULL);
	logtest_say(files[0], "one\npartial");
	UNTIL_SHOWN("partial");
	ck_assert(goes_idle());
}
END_TEST

START_TEST(a_closed_console_ends_the_following_only)
{
	struct tee_stream *s = follow(0, NULL);

	close(in[0]);
	t.fds[0] = open("/dev/null", O_RDONLY);
	logtest_say(files[0], "one\n");
	LOGTEST_UNTIL(&t, console_is_closed(console, 0));
	logtest_say(files[0], "two\n");
	tee_end(s);
	ck_assert(goes_idle());
}
END_TEST

START_TEST(rotated_files_are_read_one_after_the_other)
{
	struct tee_options opt = { .to_console = true, .prefix = "p:" };
	struct tee_stream *s;
	char name[16], text[16];
	int fd;

	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "part%d", i);
		snprintf(text, sizeof(text), "line %d\n", i);
		logtest_write(&t, name, text);
		fd = open(logtest_path(&t, name), O_RDONLY | O_CLOEXEC);
		if (i == 0)
			ck_assert_int_eq(tee_add(follower, &opt, fd, 0, &s), 0);
		else
			tee_follow_next(s, fd);
		unlink(logtest_path(&t, name));
	}
	UNTIL_SHOWN("line 2\n");
	ck_assert_str_eq(shown[0], "p:line 0\np:line 1\np:line 2\n");
	tee_end(s);
}
END_TEST

START_TEST(a_console_that_stands_still_does_not_keep_rotated_files_for_ever)
{
	struct tee_options opt = { .to_console = true, .prefix = "p:" };
	struct tee_stream *s;
	char *block = malloc(1 << 20);
	int fd, before;

	memset(block, 'x', 1 << 20);
	for (int i = 63; i < 1 << 20; i += 64)
		block[i] = '\n';
	block[(1 << 20) - 1] = '\0';
	logtest_write(&t, "part", block);
	fd = open(logtest_path(&t, "part"), O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(tee_add(follower, &opt, fd, 0, &s), 0);
	for (int i = 0; i < 20; i++)
		loop_run_once(t.loop, false);
	ck_assert(!tee_has_room(s));
	before = dup(0);
	close(before);
	for (int i = 0; i < 100; i++)
		tee_follow_next(s, open(logtest_path(&t, "part"), O_RDONLY | O_CLOEXEC));
	fd = dup(0);
	ck_assert_int_le(fd, before + 20);
	close(fd);
	while (!logtest_line(in[0], "p:elasticd: 88080300 bytes are only in"))
		loop_run_once(t.loop, false);
	free(block);
}
END_TEST

static void on_copy_failed(void *arg, const char *path, int error)
{
	snprintf(events, sizeof(events), "%s", strerror(error));
}

START_TEST(a_filtered_copy_has_whole_lines_with_one_of_its_texts)
{
	char *texts[] = { (char *)"2", (char *)"err", NULL };
	struct log_copy *copy;
	char text[4096];

	ck_assert_int_eq(
		log_copy_new(logtest_path(&t, "filtered"), texts, on_copy_failed, NULL, &copy), 0);
	for (int rank = 0; rank < 3; rank++)
		follow(rank, copy);
	for (int i = 0; i < 20; i++) {
		for (int rank = 0; rank < 3; rank++) {
			char line[16];

			snprintf(line, sizeof(line), "%d\n", i);
			logtest_say(files[rank], line);
		}
	}
	/* A line that comes in two writes, with a pause between. */
	logtest_say(files[0], "e");
	UNTIL_SHOWN("[0]e");
	logtest_say(files[0], "rr");
	UNTIL_SHOWN("rr");
	logtest_say(files[0], "or\nend\n");
	UNTIL_SHOWN("end\n");
	logtest_read(&t, "filtered", text, sizeof(text));
	for (int rank = 0; rank < 3; rank++) {
		char both[64];

		snprintf(both, sizeof(both), "[%d]2\n[%d]12\n", rank, rank);
		ck_assert_ptr_nonnull(strstr(text, both));
	}
	ck_assert_ptr_nonnull(strstr(text, "[0]error\n"));
	ck_assert_uint_eq(strlen(text), 3 * strlen("[0]2\n[0]12\n") + strlen("[0]error\n"));
	log_copy_unref(copy);
}
END_TEST

START_TEST(bytes_that_are_fed_need_no_file)
{
	static const char want[] = "w:a\0b\nw:c\n";
	struct tee_options opt = { .std = 1, .to_console = true, .prefix = "w:" };
	struct tee_stream *s;
	size_t n = 0;

	ck_assert_int_eq(tee_add(follower, &opt, -1, 0, &s), 0);
	tee_feed(s, "a\0b\nc", 5);
	tee_end(s);
	ck_assert_int_eq(fcntl(in[1], F_SETFL, O_NONBLOCK), 0);
	while (n < sizeof(want) - 1) {
		ssize_t r = read(in[1], shown[1] + n, 64);

		n += r > 0 ? (size_t)r : 0;
		loop_run_once(t.loop, false);
	}
	ck_assert_mem_eq(shown[1], want, sizeof(want) - 1);
}
END_TEST

START_TEST(a_mark_is_reached_when_all_was_handed_out)
{
	struct tee_stream *s = follow(0, NULL);

	logtest_say(files[0], "one\npartial");
	tee_mark(follower);
	ck_assert(tee_caught_up(follower));
	ck_assert_str_eq(console_text(0), "[0]one\n[0]partial\n");
	tee_end(s);
}
END_TEST

/* A worker that writes line by line must not cause an event or wake the agent for each line. */
START_TEST(a_busy_file_is_read_at_intervals)
{
	uint64_t before;

	follow(0, NULL);
	logtest_say(files[0], "first\n");
	UNTIL_SHOWN("first\n");
	before = loop_now_ms();
	runs = 0;
	for (int i = 0; i < 2000; i++) {
		logtest_say(files[0], "x\n");
		loop_run_once(t.loop, false);
	}
	logtest_say(files[0], "last\n");
	UNTIL_SHOWN("last\n");
	ck_assert_uint_le(runs, (loop_now_ms() - before) / TEE_BATCH_MS + 5);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tee");
	TCase *c = tcase_create("tee");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, lines_come_as_they_are_written);
	tcase_add_test(c, partial_lines_of_two_ranks_are_kept_apart);
	tcase_add_test(c, the_last_line_is_shown_and_completed_at_the_end);
	tcase_add_test(c, a_console_that_is_not_read_stops_the_reading_and_loses_nothing);
	tcase_add_test(c, a_line_that_lies_in_the_file_is_not_released_in_part);
	tcase_add_test(c, a_file_that_is_removed_is_followed_to_its_end);
	tcase_add_test(c, a_file_that_is_replaced_is_reported_once);
	tcase_add_test(c, a_file_that_is_truncated_is_followed_from_its_start);
	tcase_add_test(c, an_idle_follower_does_nothing_at_all);
	tcase_add_test(c, a_closed_console_ends_the_following_only);
	tcase_add_test(c, rotated_files_are_read_one_after_the_other);
	tcase_add_test(c, a_console_that_stands_still_does_not_keep_rotated_files_for_ever);
	tcase_add_test(c, a_filtered_copy_has_whole_lines_with_one_of_its_texts);
	tcase_add_test(c, bytes_that_are_fed_need_no_file);
	tcase_add_test(c, a_mark_is_reached_when_all_was_handed_out);
	tcase_add_test(c, a_busy_file_is_read_at_intervals);
	suite_add_tcase(s, c);
	return suite_run(s);
}
