/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/time_index.h"

#include "agent/logs/disk_reserve.h"
#include "agent/logs/parts.h"
#include "tests/unit/logtest.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <sys/stat.h>

static struct logtest t;
static struct log_indexes *set;
static int full_events, free_events;

static void on_full(void *arg, int rank, const char *path, bool full)
{
	ck_assert_int_eq(rank, 5);
	full_events += full;
	free_events += !full;
}

static void on_vanished(void *arg, int rank, const char *path)
{
	ck_abort_msg("%s", path);
}

static void setup(void)
{
	const struct log_index_hooks hooks = { .full = on_full, .vanished = on_vanished };

	logtest_init(&t);
	full_events = free_events = 0;
	ck_assert_int_eq(log_indexes_new(t.loop, &hooks, &set), 0);
}

static void teardown(void)
{
	log_indexes_free(set);
	logtest_fini(&t);
}

static struct log_index_table table;
static int64_t range;

static size_t load(const char *name)
{
	log_index_table_fini(&table);
	log_index_load(logtest_path(&t, name), 0, &table);
	return table.n;
}

START_TEST(an_index_lies_beside_its_log)
{
	char buf[PATH_MAX], deep[PATH_MAX];

	ck_assert(log_parts_beside("/a/stdout.log", "idx", 0, buf));
	ck_assert_str_eq(buf, "/a/stdout.idx");
	ck_assert(log_parts_beside("/a/stdout.log", "idx", 12, buf));
	ck_assert_str_eq(buf, "/a/stdout.idx.12");
	ck_assert(!log_parts_beside("/a/stdout", "idx", 0, buf));
	memset(deep, 'd', sizeof(deep));
	strcpy(deep + sizeof(deep) - sizeof(".log"), ".log");
	ck_assert(log_parts_beside(deep, "idx", 0, buf));
	ck_assert(!log_parts_beside(deep, "idx", 1, buf));
}
END_TEST

START_TEST(a_place_is_found_by_time_and_a_time_by_place)
{
	static const struct {
		int64_t offset, time_s;
	} in[] = { { 0, 100 }, { 50, 101 }, { 80, 102 }, { 80, 200 }, { 90, 300 } };
	const char *path = logtest_path(&t, "x.log");

	for (int i = 0; i < 5; i++)
		log_index_append(path, in[i].offset, in[i].time_s * 1000000);
	ck_assert_uint_eq(load("x.log"), 5);
	ck_assert_int_eq(log_index_since(&table, 0), 0);
	ck_assert_int_eq(log_index_since(&table, 100000000), 0);
	/* The write began at 100, and may have lasted until 101. */
	ck_assert_int_eq(log_index_since(&table, 100900000), 0);
	ck_assert_int_eq(log_index_since(&table, 150000000), 80);
	ck_assert_int_eq(log_index_since(&table, 250000000), 80);
	ck_assert_int_eq(log_index_since(&table, 300500000), 90);
	ck_assert_int_eq(log_index_since(&table, 400000000), INT64_MAX);
	ck_assert_int_eq(log_index_time(&table, 0, &range), 100000000);
	ck_assert_int_eq(log_index_time(&table, 49, &range), 100000000);
	ck_assert_int_eq(log_index_time(&table, 50, &range), 101000000);
	ck_assert_int_eq(range, 1000000);
	ck_assert_int_eq(log_index_time(&table, 80, &range), 200000000);
	ck_assert_int_eq(range, 100000000);
	ck_assert_int_eq(log_index_time(&table, 1000, &range), 300000000);
	ck_assert_int_eq(range, 1000000);
	/* For sorting, the bytes count as spread evenly. */
	ck_assert_int_eq(log_index_order(&table, 0), 100000000);
	ck_assert_int_eq(log_index_order(&table, 25), 100500000);
	ck_assert_int_eq(log_index_order(&table, 65), 101500000);
	ck_assert_int_eq(log_index_order(&table, 80), 200000000);
	ck_assert_int_eq(log_index_order(&table, 90), 300000000);
	ck_assert_int_eq(log_index_order(&table, 95), 300000000);
	log_index_table_fini(&table);
	ck_assert_int_eq(log_index_since(&table, 5), 0);
	ck_assert_int_eq(log_index_time(&table, 5, &range), -1);
}
END_TEST

START_TEST(lines_of_a_burst_stay_together)
{
	const char *path = logtest_path(&t, "x.log");

	log_index_append(path, 0, 1000000);
	log_index_append(path, 5000, 1000000 + LOG_INDEX_BURST_US - 1);
	ck_assert_uint_eq(load("x.log"), 2);
	ck_assert_int_eq(log_index_order(&table, 0), 1000000);
	ck_assert_int_eq(log_index_order(&table, 4999), 1000000);
	log_index_table_fini(&table);
	ck_assert_int_eq(log_index_order(&table, 0), -1);
}
END_TEST

START_TEST(a_clock_that_goes_back_and_a_truncated_file_do_no_harm)
{
	const char *path = logtest_path(&t, "x.log");

	log_index_append(path, 0, 1000);
	log_index_append(path, 10, 500);
	log_index_append(path, 20, 2000);
	ck_assert_uint_eq(load("x.log"), 3);
	ck_assert_int_eq(log_index_time(&table, 10, &range), 1000);
	log_index_append(path, 5, 3000);
	log_index_append(path, 6, 4000);
	ck_assert_uint_eq(load("x.log"), 2);
	ck_assert_int_eq(log_index_time(&table, 5, &range), 3000);
	/* A record that was cut off by a crash. */
	ck_assert_int_eq(
		truncate(logtest_path(&t, "x.idx"), 4 * sizeof(struct log_index_entry) + 7), 0);
	ck_assert_uint_eq(load("x.log"), 1);
	log_index_table_fini(&table);
}
END_TEST

static void on_over(void *arg)
{
	*(bool *)arg = true;
}

START_TEST(a_file_that_grows_gets_two_records_a_second)
{
	const char *path = logtest_path(&t, "stdout.log");
	struct log_index *index;
	struct loop_timer *timer;
	bool over = false;
	uint64_t before = loop_real_us(), said;
	struct stat st;
	int fd;

	logtest_write(&t, "stdout.log", "earlier\n");
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	ck_assert_int_eq(log_index_add(set, path, 5, &index), 0);
	logtest_say(fd, "one\n");
	LOGTEST_UNTIL(&t, access(logtest_path(&t, "stdout.idx"), F_OK) == 0);
	logtest_say(fd, "within the second\n");
	said = loop_real_us() + LOG_INDEX_TICK_US;
	loop_run_once(t.loop, false);
	ck_assert_uint_eq(load("stdout.log"), 1);
	ck_assert_int_eq(table.entries[0].offset, 8);
	/* It is the file's, by the kernel's last tick before the write. */
	ck_assert_int_ge(table.entries[0].time_us, (int64_t)before - LOG_INDEX_TICK_US);
	/* The second is over: the next write is the next record. */
	ck_assert_int_eq(loop_timer_new(t.loop, on_over, &over, &timer), 0);
	loop_timer_arm(timer, 1200);
	LOGTEST_UNTIL(&t, over);
	loop_timer_free(timer);
	logtest_say(fd, "later\n");
	LOGTEST_UNTIL(&t, load("stdout.log") == 3);
	ck_assert_int_eq(table.entries[1].offset, 8 + 4 + 18);
	ck_assert_int_eq(table.entries[2].offset, 8 + 4 + 18);
	ck_assert_int_ge(table.entries[2].time_us - table.entries[0].time_us, 900000);
	/* The time of the second's last write is the file's modification time. */
	ck_assert_int_le(table.entries[1].time_us, (int64_t)said);
	/* The reserved blocks are free again, and the last second ends with its writer. */
	log_index_free(index);
	ck_assert_uint_eq(load("stdout.log"), 4);
	ck_assert_int_eq(table.entries[3].offset, 8 + 4 + 18 + 6);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_lt(st.st_blocks, 64);
	close(fd);
	log_index_table_fini(&table);
}
END_TEST

static void set_age(int fd, int64_t seconds)
{
	int64_t us = (int64_t)loop_real_us() - seconds * 1000000;
	const struct timespec at = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	ck_assert_int_eq(futimens(fd, (const struct timespec[]){ at, at }), 0);
}

/* A file that is not new may be on a file system with another clock. */
START_TEST(a_line_that_is_seen_late_has_the_time_of_a_new_file)
{
	const char *path = logtest_path(&t, "stdout.log");
	int64_t before = (int64_t)loop_real_us();
	struct log_index *index;
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (_i == 1)
		set_age(fd, 100);
	ck_assert_int_eq(log_index_add(set, path, 5, &index), 0);
	logtest_say(fd, "one\n");
	set_age(fd, 5);
	LOGTEST_UNTIL(&t, load("stdout.log") == 1);
	if (_i == 0)
		ck_assert_int_le(table.entries[0].time_us, before - 3000000);
	else
		ck_assert_int_ge(table.entries[0].time_us, before);
	log_index_free(index);
	close(fd);
}
END_TEST

START_TEST(lines_written_just_before_the_end_have_a_time)
{
	const char *path = logtest_path(&t, "stdout.log");
	int64_t before = (int64_t)loop_real_us() - LOG_INDEX_EVERY_MS * 1000;
	struct log_index *i;
	FILE *f = fopen(path, "we");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(log_index_add(set, path, 5, &i), 0);
	ck_assert_int_ge(fputs("last words", f), 0);
	ck_assert_int_eq(fclose(f), 0);
	/* The loop does not run between the write and the end. */
	log_index_free(i);
	ck_assert_uint_eq(load("stdout.log"), 2);
	ck_assert_int_gt(log_index_time(&table, 0, &range), before);
	ck_assert_int_ge(table.entries[1].offset, 10);
}
END_TEST

START_TEST(room_is_reserved_ahead_of_the_writer)
{
	const char *path;
	off_t reserved = 0;
	struct stat st;
	int fd;

	if (!logtest_small_disk(&t, 3 * LOG_DISK_RESERVE_BYTES))
		return;
	path = logtest_path(&t, "disk/stdout.log");
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	logtest_say(fd, "x\n");
	ck_assert_int_eq(log_disk_reserve(path, &reserved), 0);
	ck_assert_int_eq(reserved, 2 + LOG_DISK_RESERVE_BYTES);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, 2);
	ck_assert_int_ge(st.st_blocks * 512, LOG_DISK_RESERVE_BYTES);
	/* Half of it is enough for now. */
	ck_assert_int_eq(ftruncate(fd, LOG_DISK_RESERVE_BYTES / 4), 0);
	ck_assert_int_eq(log_disk_reserve(path, &reserved), 0);
	ck_assert_int_eq(reserved, 2 + LOG_DISK_RESERVE_BYTES);
	log_disk_release(path);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_le(st.st_blocks * 512, LOG_DISK_RESERVE_BYTES / 4 + 8192);
	close(fd);
}
END_TEST

START_TEST(a_full_disk_is_reported_before_a_write_fails)
{
	static char block[65536];
	const char *path;
	struct log_index *index, *other;
	int fd, fill;

	if (!logtest_small_disk(&t, 3 * LOG_DISK_RESERVE_BYTES))
		return;
	path = logtest_path(&t, "disk/stdout.log");
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	fill = open(logtest_path(&t, "disk/fill"), O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(log_index_add(set, path, 5, &index), 0);
	while (write(fill, block, sizeof(block)) > 0)
		;
	ck_assert_int_eq(full_events, 0);
	/* The disk is full, but the worker still writes: */
	for (int i = 0; i < 12; i++)
		ck_assert_int_eq(write(fd, block, sizeof(block)), sizeof(block));
	LOGTEST_UNTIL(&t, full_events == 1);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(write(fd, block, sizeof(block)), sizeof(block));
	/* A new file has no room at all. */
	ck_assert_int_eq(log_index_add(set, logtest_path(&t, "disk/fill"), 5, &other), -ENOSPC);
	ck_assert_int_eq(ftruncate(fill, 0), 0);
	LOGTEST_UNTIL(&t, free_events == 1);
	ck_assert_int_eq(full_events, 1);
	close(fd);
	close(fill);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log_index");
	TCase *c = tcase_create("log_index");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, an_index_lies_beside_its_log);
	tcase_add_test(c, a_place_is_found_by_time_and_a_time_by_place);
	tcase_add_test(c, lines_of_a_burst_stay_together);
	tcase_add_test(c, a_clock_that_goes_back_and_a_truncated_file_do_no_harm);
	tcase_add_test(c, a_file_that_grows_gets_two_records_a_second);
	tcase_add_loop_test(c, a_line_that_is_seen_late_has_the_time_of_a_new_file, 0, 2);
	tcase_add_test(c, lines_written_just_before_the_end_have_a_time);
	tcase_add_test(c, room_is_reserved_ahead_of_the_writer);
	tcase_add_test(c, a_full_disk_is_reported_before_a_write_fails);
	suite_add_tcase(s, c);
	return suite_run(s);
}
