/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs.h"
#include "tests/unit/logtest.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
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

static struct logs_fds open_task(int rank)
{
	struct logs_task who = {
		.role = "worker", .index = rank, .rank = rank, .local_rank = rank
	};
	struct logs_fds fds;
	struct error err = { 0 };

	ck_assert_msg(logs_open_task(logs, &who, &fds, &err) == 0, "%s", err.text);
	return fds;
}

static void on_drained(void *arg)
{
	*(bool *)arg = true;
}

static void drain(void)
{
	bool done = false;

	ck_assert_int_eq(logs_drain(logs, 5000, on_drained, &done), 0);
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
	fds = open_task(0);
	ck_assert_int_ge(fds.out, 0);
	ck_assert_int_ge(fds.err, 0);
	ck_assert(fcntl(fds.out, F_GETFD) & FD_CLOEXEC);
	ck_assert(fcntl(fds.out, F_GETFL) & O_APPEND);
	logtest_say(fds.out, "out\n");
	logtest_say(fds.err, "err\n");
	logs_fds_fini(&fds);
	ck_assert_str_eq(file(RUN "/attempt_0/0/stdout.log"), "out\n");
	ck_assert_str_eq(file(RUN "/attempt_0/0/stderr.log"), "err\n");
	logs_task_ended(logs, 0);
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
	fds = open_task(1);
	logtest_say(fds.out, "one\ntwo\n");
	logtest_say(fds.err, "oops\npartial");
	drain();
	ck_assert_str_eq(logtest_console(console[0]), "[worker1]:one\n[worker1]:two\n");
	ck_assert_str_eq(logtest_console(console[1]), "[worker1]:oops\n[worker1]:partial\n");
	logtest_say(fds.err, " end");
	logs_fds_fini(&fds);
	logs_task_ended(logs, 1);
	drain();
	ck_assert_str_eq(logtest_console(console[1]), "[worker1]: end\n");
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
	fds = open_task(0);
	ck_assert_str_eq(fds.error_file, "");
	logtest_say(fds.out, "gone\n");
	logtest_say(fds.err, "shown\nto the end");
	drain();
	logs_fds_fini(&fds);
	logs_task_ended(logs, 0);
	drain();
	ck_assert_str_eq(logtest_console(console[0]), "");
	ck_assert_str_eq(logtest_console(console[1]), "[worker0]:shown\n[worker0]:to the end\n");
	tail = logs_tail(logs, 0, 1, 5);
	ck_assert_uint_eq(json_array_size(tail), 2);
	ck_assert_str_eq(json_string_value(json_array_get(tail, 1)), "to the end");
	json_decref(tail);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("logs");
	TCase *c = tcase_create("logs");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_redirected_stream_is_the_workers_own_file);
	tcase_add_test(c, a_teed_stream_reaches_console_and_file);
	tcase_add_test(c, a_log_dir_that_is_a_file_is_refused_with_its_name);
	tcase_add_test(c, without_files_a_tee_reaches_the_console_and_a_redirect_vanishes);
	suite_add_tcase(s, c);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
