/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/files/file_system.h"

#include "common/base/file.h"
#include "common/base/log.h"
#include "tests/unit/run.h"

#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	LIMIT_MS = 50,		 /* where a call hangs */
	PATIENT_MS = 600 * 1000, /* where none does: the thread may get its turn late */
};

static char dir[64], path[128];
static int gate[2], dropped[2]; /* pipes: a byte lets a call go on, or reports its drop */

static int64_t slow_ns;		 /* how long it takes to look at one file */
static _Atomic int64_t ahead_ns; /* how far the clock is ahead; each look adds to it */
static int64_t stands_ns;	 /* the time at which the clock stands still; 0: it runs */

/* These two functions take the place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);
	int64_t ns = ret->tv_sec * 1000000000 + ret->tv_nsec;

	ns = (stands_ns ? stands_ns : ns) + ahead_ns;

	*ret = (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
	return r;
}

int fstatat(int fd, const char *restrict name, struct stat *restrict ret, int flags)
{
	ahead_ns += slow_ns;
	return (int)syscall(SYS_newfstatat, fd, name, ret, flags);
}

static void setup(void)
{
	strcpy(dir, "/tmp/test-log-fs-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/file", dir);
	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(dropped, O_CLOEXEC), 0);
	ck_assert_int_eq(log_fs_start(PATIENT_MS), 0);
}

static void restart_with_limit(int ms)
{
	ck_assert(!log_fs_stop());
	ck_assert_int_eq(log_fs_start(ms), 0);
}

static void teardown(void)
{
	log_fs_stop();
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
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

START_TEST(each_call_does_what_its_name_says)
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
	ck_assert_int_eq(log_fs_append(path, "!", 1, 0640), 0);
	ck_assert_int_eq(log_fs_fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, 10);
	log_fs_close(fd);
	ck_assert_int_eq(log_fs_names(dir, &names), 0);
	ck_assert_str_eq(names[0], "file");
	ck_assert_ptr_null(names[1]);
	strings_free(names);
	ck_assert_int_eq(log_fs_unlink(path), 0);
	ck_assert_int_eq(log_fs_stat(path, &st), -ENOENT);
}
END_TEST

START_TEST(append_writes_all_or_nothing)
{
	struct rlimit limit, small;
	char *text = NULL;
	size_t len;

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = (struct rlimit){ 8, limit.rlim_max };
	ck_assert_int_eq(log_fs_append(path, "hello", 5, 0640), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	ck_assert_int_eq(log_fs_append(path, " world", 6, 0640), -EFBIG);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(log_fs_read(path, 100, &text, &len), 0);
	ck_assert_str_eq(text, "hello");
	free(text);
}
END_TEST

START_TEST(callers_wait_once_for_a_file_system_that_hangs)
{
	struct log_fs_op *op = hanging();
	uint64_t waited = 0;
	struct stat st;
	int r;

	restart_with_limit(LIMIT_MS);
	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	ck_assert_ptr_null(op);
	/* Each of these calls would take LIMIT_MS; together they take far less than their sum. */
	for (int i = 0; i < 100000; i++)
		waited += log_fs_stat(dir, &st) == -ETIMEDOUT;
	ck_assert_uint_eq(waited, 100000);
	open_gate();
	while ((r = log_fs_stat(dir, &st)) == -ETIMEDOUT)
		;
	ck_assert_int_eq(r, 0);
}
END_TEST

START_TEST(a_close_waits_for_nothing_and_comes_after_what_was_before_it)
{
	struct log_fs_op *op = hanging();
	int fd = log_fs_open(dir, O_DIRECTORY, 0);
	struct stat st;

	ck_assert_int_ge(fd, 0);
	restart_with_limit(LIMIT_MS);
	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	ck_assert_int_eq(log_fs_close(fd), -1);
	ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
	open_gate();
	while (log_fs_stat(dir, &st) == -ETIMEDOUT)
		;
	ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
}
END_TEST

START_TEST(a_file_system_that_hangs_again_costs_less)
{
	struct log_fs_op *op;
	int64_t first, again;
	struct stat st;

	restart_with_limit(20 * LIMIT_MS);
	op = hanging();
	first = now_ms();
	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	first = now_ms() - first;
	open_gate();
	while (log_fs_stat(dir, &st) == -ETIMEDOUT)
		;
	op = hanging();
	again = now_ms();
	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	again = now_ms() - again;
	open_gate();
	ck_assert_msg(again < first / 2, "%d ms, then %d ms", (int)first, (int)again);
}
END_TEST

START_TEST(a_hanging_call_aside_delays_no_log)
{
	struct log_fs_op *op = hanging();
	struct stat st;

	restart_with_limit(LIMIT_MS);
	op->aside = "another";
	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	ck_assert_ptr_null(op);
	/* The time of the next call ends that much later: its thread may get its turn late. */
	ahead_ns = PATIENT_MS * 1000000LL;
	ck_assert_int_eq(log_fs_stat(dir, &st), 0);
	ahead_ns = 0;
	op = hanging();
	op->aside = "another";
	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	ck_assert_ptr_nonnull(op);
	free(op);
	open_gate();
}
END_TEST

START_TEST(stop_says_that_a_call_holds_the_thread)
{
	struct log_fs_op *op = hanging();

	restart_with_limit(LIMIT_MS);
	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	ck_assert(log_fs_stop());
	open_gate();
}
END_TEST

static char caught[256];
static bool endless; /* directories are */

/* Takes the place of the C library's. */
struct dirent *readdir(DIR *d)
{
	static struct dirent e = { .d_name = "name" };

	return endless ? &e : ((struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir"))(d);
}

static void catch_text(int level, const char *text, const struct log_field *fields)
{
	snprintf(caught, sizeof(caught), "%s", text);
}

START_TEST(listing_ends_at_its_limit_and_logs_that)
{
	char **names = NULL, name[192];
	int n = 0;

	log_set_sink(catch_text, 1);
	endless = true;
	ck_assert_int_eq(log_fs_names(dir, &names), 0);
	endless = false;
	log_set_sink(NULL, 0);
	while (names[n])
		n++;
	ck_assert_int_gt(n, 0);
	ck_assert_int_le(n, 100000);
	snprintf(name, sizeof(name), "%s: there are too many names in it: only the first %d", dir,
		n);
	ck_assert_msg(!strncmp(caught, name, strlen(name)), "%s", caught);
	strings_free(names);
}
END_TEST

START_TEST(a_child_makes_its_calls_itself)
{
	struct log_fs_op *op = hanging();
	struct stat st;
	int status;
	pid_t pid;

	restart_with_limit(LIMIT_MS);
	ck_assert_int_eq(log_fs_do(&op), -ETIMEDOUT);
	pid = fork();
	if (pid == 0)
		_exit(log_fs_stat(dir, &st) == 0 ? 5 : 6);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(WEXITSTATUS(status), 5);
	open_gate();
}
END_TEST

static int64_t usage_of(int files, int64_t ns_each)
{
	static const char kilobytes[8192] = "x";
	char name[160];
	int64_t n = 0;

	for (int i = 0; i < files; i++) {
		snprintf(name, sizeof(name), "%s/%d", dir, i);
		ck_assert_int_eq(log_fs_replace(name, kilobytes, sizeof(kilobytes), 0640), 0);
	}
	slow_ns = ns_each;
	stands_ns = now_ms() * 1000000;
	ck_assert_int_eq(log_fs_usage(dir, &n), 0);
	slow_ns = stands_ns = 0;
	return n;
}

START_TEST(bytes_are_counted_for_half_a_second)
{
	int64_t one;

	log_fs_stop(); /* its caller waits by the same clock */
	one = usage_of(1, 0);
	if (!one)
		return; /* this file system does not report blocks */
	ck_assert_int_eq(usage_of(9, 0), 9 * one);
	/* The first file is looked at after 0 ms, the last after 400 ms. */
	ck_assert_int_eq(usage_of(9, 100 * 1000000), 5 * one);
	ck_assert_int_eq(usage_of(9, 40 * 1000000), 9 * one);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log_fs");
	TCase *t = tcase_create("log_fs");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, each_call_does_what_its_name_says);
	tcase_add_test(t, append_writes_all_or_nothing);
	tcase_add_test(t, callers_wait_once_for_a_file_system_that_hangs);
	tcase_add_test(t, a_close_waits_for_nothing_and_comes_after_what_was_before_it);
	tcase_add_test(t, a_file_system_that_hangs_again_costs_less);
	tcase_add_test(t, a_hanging_call_aside_delays_no_log);
	tcase_add_test(t, stop_says_that_a_call_holds_the_thread);
	tcase_add_test(t, listing_ends_at_its_limit_and_logs_that);
	tcase_add_test(t, a_child_makes_its_calls_itself);
	tcase_add_test(t, bytes_are_counted_for_half_a_second);
	suite_add_tcase(s, t);
	return suite_run(s);
}
