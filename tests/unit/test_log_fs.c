/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/log_fs.h"

#include "common/file.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>

enum { LIMIT_MS = 50 };

static char dir[64], path[128];
static int gate[2], dropped[2]; /* pipes: what holds a call, and that it was dropped */

static void setup(void)
{
	strcpy(dir, "/tmp/test-log-fs-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/file", dir);
	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(dropped, O_CLOEXEC), 0);
	ck_assert_int_eq(log_fs_start(LIMIT_MS), 0);
}

static void teardown(void)
{
	log_fs_stop();
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

/* A file system that does not answer until a byte comes. */
static int wait_at_gate(struct log_fs_op *op)
{
	char c;

	return read(gate[0], &c, 1) == 1 ? 7 : -EIO;
}

static void drop(struct log_fs_op *op)
{
	free(op);
	ck_assert_int_eq(write(dropped[1], "x", 1), 1);
}

static struct log_fs_op *hanging(void)
{
	struct log_fs_op *op = calloc(1, sizeof(*op));

	ck_assert_ptr_nonnull(op);
	op->fn = wait_at_gate;
	op->drop = drop;
	return op;
}

static void open_gate(void)
{
	char c;

	ck_assert_int_eq(write(gate[1], "x", 1), 1);
	ck_assert_int_eq(read(dropped[0], &c, 1), 1);
}

START_TEST(calls_do_what_they_say_in_the_thread)
{
	char **names = NULL, *text = NULL, buf[8];
	size_t len;
	struct stat st;
	int fd;

	ck_assert_int_eq(log_fs_replace(path, "hello", 5, 0640), 0);
	ck_assert_int_eq(log_fs_read(path, 5, &text, &len), 0);
	ck_assert_int_eq(len, 5);
	ck_assert_str_eq(text, "hello");
	free(text);
	ck_assert_int_eq(log_fs_read(path, 4, &text, &len), -EFBIG);
	fd = log_fs_open(path, O_RDWR | O_APPEND, 0);
	ck_assert_int_eq(log_fs_write(fd, " you", 4), 4);
	ck_assert_int_eq(log_fs_pread(fd, buf, sizeof(buf), 6), 3);
	ck_assert_mem_eq(buf, "you", 3);
	ck_assert_int_eq(log_fs_truncate(fd, 2), 0);
	ck_assert_int_eq(log_fs_fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, 2);
	log_fs_close(fd);
	ck_assert_int_eq(log_fs_names(dir, &names), 0);
	ck_assert_str_eq(names[0], "file");
	ck_assert_ptr_null(names[1]);
	log_fs_names_free(&names);
	ck_assert_int_eq(log_fs_unlink(path), 0);
	ck_assert_int_eq(log_fs_stat(path, &st), -ENOENT);
}
END_TEST

START_TEST(who_waits_for_a_file_system_that_hangs_goes_on_and_others_do_not_wait_at_all)
{
	struct log_fs_op *op = hanging();
	uint64_t waited = 0;
	struct stat st;

	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	ck_assert_ptr_null(op);
	/* Each of these would take LIMIT_MS: all together take less than their sum by far. */
	for (int i = 0; i < 100000; i++)
		waited += log_fs_stat(dir, &st) == -ETIMEDOUT;
	ck_assert_uint_eq(waited, 100000);
	open_gate();
	while (log_fs_stat(dir, &st) == -ETIMEDOUT)
		;
	ck_assert_int_eq(log_fs_stat(dir, &st), 0);
}
END_TEST

START_TEST(a_close_waits_for_nothing_and_comes_after_what_was_before_it)
{
	struct log_fs_op *op = hanging();
	int fd = log_fs_open(dir, O_DIRECTORY, 0);
	struct stat st;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	ck_assert_int_eq(log_fs_close(fd), -1);
	ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
	open_gate();
	while (log_fs_stat(dir, &st) == -ETIMEDOUT)
		;
	ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
}
END_TEST

START_TEST(a_child_makes_its_calls_itself)
{
	struct log_fs_op *op = hanging();
	struct stat st;
	int status;
	pid_t pid;

	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	pid = fork();
	if (pid == 0)
		_exit(log_fs_stat(dir, &st) == 0 ? 5 : 6);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(WEXITSTATUS(status), 5);
	open_gate();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log_fs");
	TCase *t = tcase_create("log_fs");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, calls_do_what_they_say_in_the_thread);
	tcase_add_test(
		t, who_waits_for_a_file_system_that_hangs_goes_on_and_others_do_not_wait_at_all);
	tcase_add_test(t, a_close_waits_for_nothing_and_comes_after_what_was_before_it);
	tcase_add_test(t, a_child_makes_its_calls_itself);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
