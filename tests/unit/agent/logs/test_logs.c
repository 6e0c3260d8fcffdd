/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/logs.h"
#include "tests/unit/child.h"
#include "tests/unit/logtest.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

static struct logtest t;
static struct logs *logs;
static struct spec_logs spec;
static int console[2]; /* read ends */
static char *events;

static void on_event(void *arg, const char *event, int rank, const char *text)
{
	char *more;

	ck_assert_int_ge(asprintf(&more, "%s%s %d\n", events ? events : "", event, rank), 0);
	free(events);
	events = more;
}

static void setup(void)
{
	logtest_init(&t);
	signal(SIGPIPE, SIG_IGN);
	spec = (struct spec_logs){ 0 };
	events = NULL;
	logs = NULL;
}

static void teardown(void)
{
	logs_free(logs);
	std_map_fini(&spec.redirects);
	std_map_fini(&spec.tee);
	free(events);
	logtest_fini(&t);
}

static void set_map(struct std_map *map, const char *text)
{
	std_map_fini(map);
	ck_assert_int_eq(std_map_parse(map, text, "x", NULL), 0);
}

static void open_logs(const char *root, bool foreground)
{
	struct logs_options opt = {
		.spec = &spec,
		.root = root,
		.job = "job",
		.run = "job_12345678",
		.foreground = foreground,
		.use_console = foreground,
		.host = "here",
		.event = on_event,
	};
	struct error err = { 0 };
	int fds[2], out, errfd;

	logtest_pipe(&console[0], &out);
	logtest_pipe(&console[1], &errfd);
	fds[0] = out;
	fds[1] = errfd;
	opt.console_fds = fds;
	ck_assert_msg(logs_new(t.loop, &opt, &logs, &err) == 0, "%s", err.text);
	ck_assert_int_eq(logs_begin_attempt(logs, 0, &err), 0);
}

static struct logs_fds open_worker(int rank)
{
	struct logs_worker who = {
		.role = "worker", .index = rank, .rank = rank, .local_rank = rank
	};
	struct logs_fds fds;
	struct error err = { 0 };

	ck_assert_msg(logs_open_worker(logs, &who, &fds, &err) == 0, "%s", err.text);
	return fds;
}

static void on_drained(void *arg)
{
	*(bool *)arg = true;
}

static void drain(void)
{
	bool done = false;

	ck_assert_int_eq(logs_drain(logs, 600000, on_drained, &done), 0);
	ck_assert(!done);
	LOGTEST_UNTIL(&t, done);
}

static const char *file(const char *name)
{
	static char text[65536];

	return logtest_read(&t, name, text, sizeof(text));
}

#define RUN "job_12345678"

START_TEST(a_redirected_stream_is_the_workers_own_file)
{
	struct logs_fds fds;
	struct stat st;

	set_map(&spec.redirects, "3");
	open_logs(t.dir, true);
	fds = open_worker(0);
	ck_assert_int_ge(fds.out, 0);
	ck_assert_int_ge(fds.err, 0);
	ck_assert(fcntl(fds.out, F_GETFD) & FD_CLOEXEC);
	ck_assert(fcntl(fds.out, F_GETFL) & O_APPEND);
	logtest_say(fds.out, "out\n");
	logtest_say(fds.err, "err\n");
	logs_fds_fini(&fds);
	ck_assert_str_eq(file(RUN "/attempt_0/0/stdout.log"), "out\n");
	ck_assert_str_eq(file(RUN "/attempt_0/0/stderr.log"), "err\n");
	logs_worker_ended(logs, 0);
	drain();
	ck_assert_str_eq(logtest_console(console[0]), "");
	ck_assert_int_eq(stat(logtest_path(&t, RUN), &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0750);
	ck_assert_int_eq(stat(logtest_path(&t, "job.latest/attempt_0/0/stdout.log"), &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0640);
	ck_assert_ptr_null(events);
}
END_TEST

START_TEST(a_teed_stream_reaches_console_and_file)
{
	struct logs_fds fds;

	set_map(&spec.tee, "3");
	open_logs(t.dir, true);
	fds = open_worker(1);
	logtest_say(fds.out, "one\ntwo\n");
	logtest_say(fds.err, "oops\npartial");
	drain();
	ck_assert_str_eq(logtest_console(console[0]), "[worker:1] one\n[worker:1] two\n");
	ck_assert_str_eq(logtest_console(console[1]), "[worker:1] oops\n[worker:1] partial\n");
	logtest_say(fds.err, " end");
	logs_fds_fini(&fds);
	logs_worker_ended(logs, 1);
	drain();
	ck_assert_str_eq(logtest_console(console[1]), "[worker:1]  end\n");
	ck_assert_str_eq(file(RUN "/attempt_0/1/stderr.log"), "oops\npartial end");
}
END_TEST

START_TEST(a_log_dir_that_is_a_file_is_refused_with_its_name)
{
	struct logs_options opt = { .spec = &spec, .job = "job", .run = "r", .event = on_event };
	struct error err = { 0 };

	logtest_write(&t, "file", "");
	opt.root = logtest_path(&t, "file");
	ck_assert_int_eq(logs_new(t.loop, &opt, &logs, &err), -ENOTDIR);
	ck_assert_ptr_nonnull(strstr(err.text, "/file: is a file, expected a directory"));
}
END_TEST

START_TEST(without_files_a_tee_reaches_the_console_and_a_redirect_vanishes)
{
	struct logs_fds fds;
	json_t *tail;

	set_map(&spec.tee, "0:2");
	set_map(&spec.redirects, "3");
	open_logs("/dev/null", true);
	ck_assert_ptr_null(logs_run_dir(logs));
	fds = open_worker(0);
	ck_assert_str_eq(fds.error_file, "");
	logtest_say(fds.out, "gone\n");
	logtest_say(fds.err, "shown\nto the end");
	drain();
	logs_fds_fini(&fds);
	logs_worker_ended(logs, 0);
	drain();
	ck_assert_str_eq(logtest_console(console[0]), "");
	ck_assert_str_eq(logtest_console(console[1]), "[worker:0] shown\n[worker:0] to the end\n");
	tail = logs_tail(logs, 0, 1, 5);
	ck_assert_uint_eq(json_array_size(tail), 2);
	ck_assert_str_eq(json_string_value(json_array_get(tail, 1)), "to the end");
	json_decref(tail);
}
END_TEST

START_TEST(files_are_exact_whatever_the_bytes)
{
	static const char bytes[] = "a\0b\r\n\xff\xfe\n\x1b[31mred\r50%\r100%\n";
	struct logs_fds fds;
	char back[64];
	int fd;

	set_map(&spec.tee, "3");
	open_logs(t.dir, true);
	fds = open_worker(0);
	ck_assert_int_eq(write(fds.out, bytes, sizeof(bytes) - 1), sizeof(bytes) - 1);
	drain();
	fd = open(logtest_path(&t, RUN "/attempt_0/0/stdout.log"), O_RDONLY);
	ck_assert_int_eq(read(fd, back, sizeof(back)), sizeof(bytes) - 1);
	ck_assert_int_eq(memcmp(back, bytes, sizeof(bytes) - 1), 0);
	close(fd);
	ck_assert_int_eq(read(console[0], back, 17), 17);
	ck_assert_int_eq(memcmp(back, "[worker:0] a\0b\n[w", 17), 0);
	logs_fds_fini(&fds);
}
END_TEST

START_TEST(the_console_filter_hides_tees_and_what_is_not_redirected)
{
	struct logs_fds shown, hidden;
	struct stat st;

	spec.filter = (char *)"0,5-9";
	set_map(&spec.tee, "1");
	open_logs(t.dir, true);
	shown = open_worker(0);
	hidden = open_worker(1);
	ck_assert_int_eq(shown.err, -1);
	ck_assert_int_eq(fstat(hidden.err, &st), 0);
	ck_assert(S_ISCHR(st.st_mode));
	logtest_say(shown.out, "a\n");
	logtest_say(hidden.out, "b\n");
	drain();
	ck_assert_str_eq(logtest_console(console[0]), "[worker:0] a\n");
	ck_assert_str_eq(file(RUN "/attempt_0/1/stdout.log"), "b\n");
	logs_fds_fini(&shown);
	logs_fds_fini(&hidden);
}
END_TEST

START_TEST(prefix_and_duplicates_are_as_specified)
{
	char *texts[] = { (char *)"2", NULL };
	struct logs_fds fds;
	char line[16];

	spec.prefix = (char *)"<${host}/${rank}> ";
	spec.duplicate_stdout = texts;
	set_map(&spec.tee, "0:1,2:1");
	set_map(&spec.redirects, "3");
	open_logs(t.dir, true);
	for (int rank = 0; rank < 3; rank++) {
		fds = open_worker(rank);
		for (int i = 0; i < 20; i++) {
			snprintf(line, sizeof(line), "%d\n", i);
			logtest_say(fds.out, line);
		}
		logs_fds_fini(&fds);
		logs_worker_ended(logs, rank);
	}
	drain();
	/* Copies have the lines of teed streams only. */
	ck_assert_uint_eq(strlen(file(RUN "/attempt_0/filtered_stdout.log")),
		2 * strlen("<here/0> 2\n<here/0> 12\n"));
	ck_assert_ptr_nonnull(
		strstr(file(RUN "/attempt_0/filtered_stdout.log"), "<here/2> 2\n<here/2> 12\n"));
	ck_assert_ptr_nonnull(strstr(logtest_console(console[0]), "<here/0> 19\n"));
}
END_TEST

START_TEST(merged_streams_share_a_file)
{
	struct logs_fds fds;
	json_t *tail;

	spec.merge = true;
	set_map(&spec.redirects, "3");
	open_logs(t.dir, false);
	fds = open_worker(0);
	logtest_say(fds.out, "out\n");
	logtest_say(fds.err, "err\n");
	logtest_say(fds.out, "out again\n");
	logs_fds_fini(&fds);
	ck_assert_str_eq(file(RUN "/attempt_0/0/stdout.log"), "out\nerr\nout again\n");
	ck_assert_int_lt(access(logtest_path(&t, RUN "/attempt_0/0/stderr.log"), F_OK), 0);
	tail = logs_tail(logs, 0, 1, 2);
	ck_assert_str_eq(json_string_value(json_array_get(tail, 0)), "err");
	json_decref(tail);
}
END_TEST

START_TEST(every_attempt_keeps_its_logs)
{
	struct logs_fds fds;
	struct error err = { 0 };
	const char *console_text;

	set_map(&spec.tee, "3");
	open_logs(t.dir, true);
	for (int attempt = 0; attempt < 3; attempt++) {
		char line[32];

		if (attempt)
			ck_assert_int_eq(logs_begin_attempt(logs, attempt, &err), 0);
		fds = open_worker(0);
		snprintf(line, sizeof(line), "attempt %d", attempt);
		logtest_say(fds.out, line);
		logs_fds_fini(&fds);
	}
	drain();
	ck_assert_str_eq(file(RUN "/attempt_0/0/stdout.log"), "attempt 0");
	ck_assert_str_eq(file(RUN "/attempt_2/0/stdout.log"), "attempt 2");
	/* The tees followed the earlier attempts' files to their ends. */
	console_text = logtest_console(console[0]);
	ck_assert_ptr_nonnull(strstr(console_text, "[worker:0] attempt 0\n"));
	ck_assert_ptr_nonnull(strstr(console_text, "[worker:0] attempt 1\n"));
	ck_assert_ptr_nonnull(strstr(console_text, "[worker:0] attempt 2\n"));
}
END_TEST

START_TEST(a_worker_that_is_started_again_appends_and_keeps_its_error_file)
{
	struct logs_fds fds;

	set_map(&spec.tee, "3");
	open_logs(t.dir, true);
	for (int i = 0; i < 3; i++) {
		char line[32];

		fds = open_worker(0);
		ck_assert_int_lt(access(fds.error_file, F_OK), 0);
		snprintf(line, sizeof(line), "start %d\n", i);
		logtest_say(fds.out, line);
		logtest_write(&t, RUN "/attempt_0/0/error.json", line);
		logs_fds_fini(&fds);
	}
	drain();
	ck_assert_str_eq(file(RUN "/attempt_0/0/stdout.log"), "start 0\nstart 1\nstart 2\n");
	ck_assert_str_eq(file(RUN "/attempt_0/0/error.json.1"), "start 0\n");
	ck_assert_str_eq(file(RUN "/attempt_0/0/error.json.2"), "start 1\n");
	ck_assert_str_eq(logtest_console(console[0]),
		"[worker:0] start 0\n[worker:0] start 1\n[worker:0] start 2\n");
}
END_TEST

START_TEST(tail_has_lines_that_were_written_just_now)
{
	struct logs_fds fds;
	json_t *tail;
	char *last;

	spec.timestamps = _i & 1;
	spec.max_size = _i & 2 ? 40 : 0;
	set_map(&spec.redirects, "3");
	open_logs(t.dir, true);
	ck_assert_ptr_null(logs_last_line(logs, 0));
	fds = open_worker(0);
	ck_assert_uint_eq(json_array_size(tail = logs_tail(logs, 0, 1, 3)), 0);
	json_decref(tail);
	logtest_say(fds.err, "one\ntwo\nthree\xff\n10%\r50%\rdone \033[31mred\033[0m\n\n");
	logs_fds_fini(&fds);
	logs_worker_ended(logs, 0);
	tail = logs_tail(logs, 0, 1, 3);
	ck_assert_uint_eq(json_array_size(tail), 3);
	ck_assert_str_eq(json_string_value(json_array_get(tail, 0)), "three\xef\xbf\xbd");
	ck_assert_str_eq(json_string_value(json_array_get(tail, 2)), "");
	json_decref(tail);
	last = logs_last_line(logs, 0);
	ck_assert_str_eq(last, "done red");
	free(last);
	ck_assert_ptr_null(logs_last_line(logs, 7));
	tail = logs_tail(logs, 7, 1, 3);
	ck_assert_uint_eq(json_array_size(tail), 0);
	json_decref(tail);
}
END_TEST

START_TEST(the_last_line_of_a_progress_bar_is_its_newest_state)
{
	struct logs_fds fds;
	char *last;

	set_map(&spec.redirects, "3");
	open_logs(t.dir, true);
	fds = open_worker(0);
	logtest_say(fds.err, "begin\n 99%\r\r\n");
	last = logs_last_line(logs, 0);
	ck_assert_str_eq(last, " 99%");
	free(last);
	logtest_say(fds.err, "\r 1%\r 2%");
	last = logs_last_line(logs, 0);
	ck_assert_str_eq(last, " 2%");
	free(last);
	logs_fds_fini(&fds);
}
END_TEST

START_TEST(a_drain_does_not_wait_for_ever_for_a_console)
{
	struct logs_fds fds;
	bool done = false;
	char block[4096];

	memset(block, '\n', sizeof(block));
	set_map(&spec.tee, "1");
	open_logs(t.dir, true);
	fds = open_worker(0);
	for (int i = 0; i < 200; i++)
		ck_assert_int_eq(write(fds.out, block, sizeof(block)), sizeof(block));
	ck_assert_int_eq(logs_drain(logs, 100, on_drained, &done), 0);
	LOGTEST_UNTIL(&t, done);
	done = false;
	ck_assert_int_eq(logs_drain(logs, 20000, on_drained, &done), 0);
	while (!done) {
		logtest_console(console[0]);
		loop_run_once(t.loop, false);
	}
	logs_fds_fini(&fds);
}
END_TEST

static void free_logs(void *arg)
{
	logs = logs_free(logs);
	*(bool *)arg = true;
}

START_TEST(drain_callback_may_free_the_logs)
{
	bool done = false, never = false;

	set_map(&spec.tee, "3");
	open_logs(t.dir, true);
	ck_assert_int_eq(logs_drain(logs, 1000, free_logs, &done), 0);
	ck_assert_int_eq(logs_drain(logs, 1000, on_drained, &never), 0);
	LOGTEST_UNTIL(&t, done);
	loop_run_once(t.loop, false);
	ck_assert(!never);
}
END_TEST

START_TEST(without_room_for_files_a_worker_runs_without_them)
{
	static char block[65536];
	struct logs_fds fds;
	struct error err = { 0 };
	int fill;

	if (!logtest_small_disk(&t, 256 * 1024))
		return;
	set_map(&spec.tee, "1");
	set_map(&spec.redirects, "3");
	open_logs(logtest_path(&t, "disk"), true);
	/* On so small a disk the agent writes the file. */
	fds = open_worker(0);
	ck_assert(!(fcntl(fds.out, F_GETFL) & O_APPEND));
	logs_fds_fini(&fds);
	fill = open(logtest_path(&t, "disk/fill"), O_WRONLY | O_CREAT, 0600);
	while (write(fill, block, sizeof(block)) > 0)
		;
	for (int i = 0; i >= 0; i++) {
		char name[32];
		int fd;

		snprintf(name, sizeof(name), "disk/%d", i);
		fd = open(logtest_path(&t, name), O_WRONLY | O_CREAT, 0600);
		if (fd < 0)
			break;
		close(fd);
	}
	ck_assert_int_eq(logs_begin_attempt(logs, 1, &err), 0);
	fds = open_worker(0);
	logtest_say(fds.out, "still shown\n");
	for (int i = 0; i < 64; i++) {
		ck_assert_int_eq(write(fds.err, block, sizeof(block)), sizeof(block));
		loop_run_once(t.loop, false);
	}
	drain();
	ck_assert_str_eq(logtest_console(console[0]), "[worker:0] still shown\n");
	ck_assert_ptr_nonnull(strstr(events, "log-disk-full"));
	logs_fds_fini(&fds);
	close(fill);
}
END_TEST

START_TEST(a_closed_console_is_an_event_and_files_go_on)
{
	struct logs_fds fds;

	set_map(&spec.tee, "1");
	open_logs(t.dir, true);
	close(console[0]);
	t.fds[0] = open("/dev/null", O_RDONLY);
	fds = open_worker(0);
	logtest_say(fds.out, "one\n");
	LOGTEST_UNTIL(&t, events);
	logtest_say(fds.out, "two\n");
	drain();
	ck_assert_str_eq(events, "console-closed -1\n");
	ck_assert_str_eq(file(RUN "/attempt_0/0/stdout.log"), "one\ntwo\n");
	logs_fds_fini(&fds);
}
END_TEST

START_TEST(the_agents_own_messages_are_lines_among_the_others)
{
	struct logs_fds fds;

	set_map(&spec.tee, "2");
	open_logs(t.dir, true);
	fds = open_worker(0);
	logtest_say(fds.err, "partial");
	drain();
	logtest_say(fds.err, "ly");
	drain();
	ck_assert(logs_put_message(logs, "agent: message"));
	logtest_say(fds.err, " done\n");
	drain();
	ck_assert_str_eq(logtest_console(console[1]),
		"[worker:0] partial\n[worker:0] ly\nagent: message\n[worker:0]  done\n");
	logs_fds_fini(&fds);
}
END_TEST

START_TEST(messages_never_wait_for_the_console)
{
	int messages = walk_length(20000, 20000, 4000); /* more than a pipe takes */

	open_logs(t.dir, true);
	for (int i = 0; i < messages; i++)
		ck_assert(logs_put_message(logs, "a message that is not so short"));
	close(console[1]);
	t.fds[2] = open("/dev/null", O_RDONLY);
	drain();
	ck_assert(!logs_put_message(logs, "too late"));
	ck_assert_str_eq(events, "console-closed -1\n");
}
END_TEST

START_TEST(a_file_without_a_tee_is_missed_when_it_vanishes)
{
	struct logs_fds fds;

	set_map(&spec.redirects, "3");
	set_map(&spec.tee, "2");
	open_logs(t.dir, true);
	fds = open_worker(4);
	unlink(logtest_path(&t, RUN "/attempt_0/4/stdout.log"));
	LOGTEST_UNTIL(&t, events);
	unlink(logtest_path(&t, RUN "/attempt_0/4/stderr.log"));
	LOGTEST_UNTIL(&t, strlen(events) > 15);
	for (int i = 0; i < 5; i++)
		loop_run_once(t.loop, false);
	ck_assert_str_eq(events, "log-vanished 4\nlog-vanished 4\n");
	logs_fds_fini(&fds);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("logs");
	TCase *c = tcase_create("logs");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_redirected_stream_is_the_workers_own_file);
	tcase_add_test(c, a_teed_stream_reaches_console_and_file);
	tcase_add_test(c, a_log_dir_that_is_a_file_is_refused_with_its_name);
	tcase_add_test(c, without_files_a_tee_reaches_the_console_and_a_redirect_vanishes);
	tcase_add_test(c, files_are_exact_whatever_the_bytes);
	tcase_add_test(c, the_console_filter_hides_tees_and_what_is_not_redirected);
	tcase_add_test(c, prefix_and_duplicates_are_as_specified);
	tcase_add_test(c, merged_streams_share_a_file);
	tcase_add_test(c, every_attempt_keeps_its_logs);
	tcase_add_test(c, a_worker_that_is_started_again_appends_and_keeps_its_error_file);
	tcase_add_loop_test(c, tail_has_lines_that_were_written_just_now, 0, 4);
	tcase_add_test(c, the_last_line_of_a_progress_bar_is_its_newest_state);
	tcase_add_test(c, a_drain_does_not_wait_for_ever_for_a_console);
	tcase_add_test(c, drain_callback_may_free_the_logs);
	tcase_add_test(c, without_room_for_files_a_worker_runs_without_them);
	tcase_add_test(c, a_closed_console_is_an_event_and_files_go_on);
	tcase_add_test(c, the_agents_own_messages_are_lines_among_the_others);
	tcase_add_test(c, messages_never_wait_for_the_console);
	tcase_add_test(c, a_file_without_a_tee_is_missed_when_it_vanishes);
	suite_add_tcase(s, c);
	return suite_run(s);
}
