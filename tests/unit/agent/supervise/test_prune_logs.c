/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/prune_logs.h"

#include "agent/logs/dirs.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char dir[64], path[256];
static char locked[512]; /* directories that flock() was called on, each with a comma */

/* Takes the place of the C library's. */
int flock(int fd, int operation)
{
	char link[64], to[256];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, to, sizeof(to) - 1);
	to[n > 0 ? n : 0] = '\0';
	ck_assert_ptr_nonnull(strrchr(to, '/'));
	ck_assert_uint_lt(strlen(locked) + strlen(to), sizeof(locked) - 1);
	strcat(strcat(locked, strrchr(to, '/') + 1), ",");
	return (int)syscall(SYS_flock, fd, operation);
}

static const char *at(const char *run, const char *name)
{
	snprintf(path, sizeof(path), "%s/%s%s%s", dir, run, *name ? "/" : "", name);
	return path;
}

static void put(const char *run, const char *name, const char *text)
{
	ck_assert_int_eq(file_write_atomic(at(run, name), text, strlen(text), 0640, false), 0);
}

static void quiet(int level, const char *text, const struct log_field *fields)
{
}

static void setup(void)
{
	strcpy(dir, "/tmp/test-log-prune-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	log_set_sink(quiet, 1);
}

static void teardown(void)
{
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

/* Makes a run's directory as an agent does. Returns the lock, held until the run is over. */
static int begin(const char *run, const char *more)
{
	_cleanup_free_ char *made = NULL;
	char doc[128];
	int lock = -1;

	ck_assert_int_eq(log_dirs_make_run(dir, "job", run, &made, &lock, NULL), 0);
	ck_assert_int_ge(lock, 0);
	snprintf(doc, sizeof(doc), "{\"name\":\"job\",\"run\":\"%s\"%s}", run, more);
	put(run, "job.json", doc);
	return lock;
}

static void end(const char *run, int lock, int days_ago)
{
	struct timespec now, times[2];

	put(run, "verdict.json", "{}");
	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec -= days_ago * 24 * 3600L;
	times[0] = times[1] = now;
	ck_assert_int_eq(utimensat(AT_FDCWD, at(run, "verdict.json"), times, 0), 0);
	close_fd(lock);
}

static void over(const char *run, int days_ago)
{
	end(run, begin(run, ""), days_ago);
}

static bool there(const char *run)
{
	struct stat st;

	return lstat(at(run, ""), &st) == 0;
}

static const struct retention one_day = { .days = 1 };

START_TEST(prune_removes_runs_beyond_the_limit_with_their_latest_link)
{
	over("job_aaaaaaaa", 3);
	over("job_bbbbbbbb", 2);
	ck_assert_int_eq(prune_logs(dir, &one_day), 2);
	ck_assert(!there("job_aaaaaaaa"));
	ck_assert(!there("job_bbbbbbbb"));
	ck_assert(!there("job.latest"));
	over("job_cccccccc", 2);
	over("job_dddddddd", 0);
	ck_assert_int_eq(prune_logs(dir, &one_day), 1);
	ck_assert(there("job_dddddddd"));
	ck_assert(there("job.latest"));
}
END_TEST

START_TEST(the_newest_stay_by_number_and_size)
{
	static char big[1 << 20];

	memset(big, 'x', sizeof(big) - 1);
	over("job_aaaaaaaa", 3);
	over("job_bbbbbbbb", 2);
	over("job_cccccccc", 1);
	put("job_bbbbbbbb", "log", big);
	ck_assert_int_eq(prune_logs(dir, &(struct retention){ .runs = 3, .bytes = 1 << 21 }), 0);
	ck_assert_int_eq(prune_logs(dir, &(struct retention){ .bytes = 1 << 20 }), 2);
	ck_assert(there("job_cccccccc"));
}
END_TEST

START_TEST(prune_keeps_running_runs_and_removes_those_of_dead_agents)
{
	int lock = begin("job_aaaaaaaa", "");

	ck_assert_int_eq(prune_logs(dir, &(struct retention){ .runs = 1, .days = 1 }), 0);
	end("job_aaaaaaaa", -1, 9);
	ck_assert_int_eq(prune_logs(dir, &one_day), 0);
	ck_assert(there("job_aaaaaaaa"));
	ck_assert_int_eq(unlink(at("job_aaaaaaaa", "verdict.json")), 0);
	close_fd(lock);
	over("job_bbbbbbbb", -1);
	ck_assert_int_eq(prune_logs(dir, &(struct retention){ .runs = 1 }), 1);
	ck_assert(!there("job_aaaaaaaa"));
}
END_TEST

/* A run takes its lock before it writes job.json, and does not wait for it. If a prune held the
 * lock at that moment, the run would go on without it, and look ended. */
START_TEST(a_run_that_begins_finds_its_lock_free)
{
	over("job_aaaaaaaa", 9);
	ck_assert_int_eq(mkdir(at("job_bbbbbbbb", ""), 0700), 0);
	*locked = '\0';
	ck_assert_int_eq(prune_logs(dir, &(struct retention){ .runs = 5 }), 0);
	ck_assert_str_eq(locked, "job_aaaaaaaa,");
}
END_TEST

START_TEST(prune_keeps_directories_that_are_not_our_runs)
{
	int lock = begin("job_aaaaaaaa", ",\"record\":\"/somewhere\"");

	end("job_aaaaaaaa", lock, 9);
	over("job_bbbbbbbb", 9);
	put("job_bbbbbbbb", "job.json", "{\"run\":\"other\"}");
	over("job_cccccccc", 9);
	ck_assert_int_eq(unlink(at("job_cccccccc", "job.json")), 0);
	over("job_dddddddd", 9);
	ck_assert_int_eq(unlink(at("job_dddddddd", "job.json")), 0);
	ck_assert_int_eq(mkfifo(at("job_dddddddd", "job.json"), 0600), 0);
	put(".", "file", "x");
	if (geteuid() == 0) {
		over("job_eeeeeeee", 9);
		ck_assert_int_eq(chown(at("job_eeeeeeee", ""), 12345, 12345), 0);
	}
	ck_assert_int_eq(prune_logs(dir, &one_day), 0);
	ck_assert(there("file"));
	ck_assert(there("job_aaaaaaaa"));
}
END_TEST

START_TEST(no_link_is_followed)
{
	char outside[] = "/tmp/test-log-prune-out-XXXXXX", file[128];

	ck_assert_ptr_nonnull(mkdtemp(outside));
	snprintf(file, sizeof(file), "%s/job.json", outside);
	ck_assert_int_eq(file_write_atomic(file, "{\"run\":\"job_bbbbbbbb\"}", 22, 0640, false), 0);
	over("job_aaaaaaaa", 9);
	ck_assert_int_eq(symlink(outside, at("job_aaaaaaaa", "way")), 0);
	ck_assert_int_eq(symlink(outside, at("job_bbbbbbbb", "")), 0);
	ck_assert_int_eq(prune_logs(dir, &(struct retention){ .runs = 0, .days = 1 }), 1);
	ck_assert(there("job_bbbbbbbb"));
	ck_assert_int_eq(access(file, F_OK), 0);
	ck_assert_int_eq(file_rm_rf(outside), 0);
}
END_TEST

START_TEST(prune_removes_what_a_crash_left)
{
	ck_assert_int_eq(mkdir(at(".pruned-job_aaaaaaaa", ""), 0700), 0);
	put(".pruned-job_aaaaaaaa", "log", "x");
	ck_assert_int_eq(prune_logs(dir, &one_day), 0);
	ck_assert(!there(".pruned-job_aaaaaaaa"));
	ck_assert_int_eq(prune_logs("/nonexistent", &one_day), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("prune_logs");
	TCase *t = tcase_create("prune_logs");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, prune_removes_runs_beyond_the_limit_with_their_latest_link);
	tcase_add_test(t, the_newest_stay_by_number_and_size);
	tcase_add_test(t, prune_keeps_running_runs_and_removes_those_of_dead_agents);
	tcase_add_test(t, a_run_that_begins_finds_its_lock_free);
	tcase_add_test(t, prune_keeps_directories_that_are_not_our_runs);
	tcase_add_test(t, no_link_is_followed);
	tcase_add_test(t, prune_removes_what_a_crash_left);
	suite_add_tcase(s, t);
	return suite_run(s);
}
