/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/log_file.h"

#include "agent/logs/parts.h"
#include "agent/logs/timestamp.h"
#include "agent/logs/zstd.h"
#include "tests/unit/logtest.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct logtest t;
static struct log_file *file;
static struct log_compress *c; /* static, so that a memory checker finds it in children, too */
static char text[1 << 20];
static int rotations, vanished;

static void setup(void)
{
	logtest_init(&t);
	file = NULL;
	rotations = vanished = 0;
}

static void teardown(void)
{
	log_file_free(file);
	logtest_fini(&t);
}

static void on_rotated(void *arg, int fd)
{
	rotations++;
	close(fd);
}

static void on_vanished(void *arg, const char *path)
{
	vanished++;
}

static void open_file(struct log_file_options opt)
{
	if (!opt.path)
		opt.path = logtest_path(&t, "stdout.log");
	opt.rotated = on_rotated;
	opt.vanished = on_vanished;
	if (!opt.backlog)
		opt.backlog = 4096;
	ck_assert_int_eq(log_file_new(&opt, &file), 0);
}

static void put_at(const char *data, uint64_t us)
{
	ck_assert_int_eq(log_file_write(file, data, strlen(data), us), 0);
}

static const char *get(const char *name)
{
	return logtest_read(&t, name, text, sizeof(text));
}

START_TEST(bytes_are_written_as_they_come)
{
	open_file((struct log_file_options){ 0 });
	put_at("one\ntw", 1);
	put_at("o\n", 2);
	ck_assert_int_eq(log_file_write(file, "\0\xff", 2, 3), 0);
	ck_assert_str_eq(get("stdout.log"), "one\ntwo\n");
	ck_assert_int_eq(text[9], '\xff');
}
END_TEST

#define AT 1767225601500000 /* 2026-01-01T00:00:01.5Z */
#define STAMP "2026-01-01T00:00:01.500000Z "

START_TEST(each_line_gets_the_time_at_which_it_began)
{
	open_file((struct log_file_options){ .timestamps = true });
	put_at("one\ntw", AT);
	put_at("o\n\nx", AT + 250000);
	ck_assert_str_eq(get("stdout.log"), STAMP "one\n" STAMP "two\n"
						  "2026-01-01T00:00:01.750000Z \n"
						  "2026-01-01T00:00:01.750000Z x");
}
END_TEST

START_TEST(a_long_line_gets_one_stamp)
{
	static char big[300001];

	memset(big, 'x', 300000);
	open_file((struct log_file_options){ .timestamps = true });
	put_at(big, AT);
	put_at("y\nz\n", AT);
	get("stdout.log");
	ck_assert_uint_eq(strlen(text), 28 + 300000 + 2 + 28 + 2);
	ck_assert_int_eq(memcmp(text, STAMP "xx", 30), 0);
	ck_assert_str_eq(text + 28 + 300000, "y\n" STAMP "z\n");
}
END_TEST

START_TEST(stamps_are_read_as_they_are_written)
{
	static const uint64_t times[] = { 0, 1, 999999, 1000000, AT, 951782400000000,
		4102444799999999 };

	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		char stamp[LOG_STAMP_LEN];
		int64_t us;

		log_stamp_write(stamp, times[i]);
		ck_assert_int_eq(log_stamp_read(stamp, &us), 0);
		ck_assert_int_eq(us, times[i]);
		for (int k = 0; k < LOG_STAMP_LEN; k++) {
			char old = stamp[k];

			stamp[k] = 'x';
			ck_assert_int_eq(log_stamp_read(stamp, &us), -EINVAL);
			stamp[k] = old;
		}
	}
}
END_TEST

static char *parts(void)
{
	struct log_parts s;
	static char list[256];

	list[0] = '\0';
	ck_assert_int_eq(log_parts_list(logtest_path(&t, "stdout.log"), &s), 0);
	for (size_t i = 0; i < s.n; i++)
		sprintf(list + strlen(list), "%d ", s.numbers[i]);
	log_parts_fini(&s);
	return list;
}

START_TEST(a_full_file_becomes_a_part_at_a_lines_end)
{
	open_file((struct log_file_options){ .max_size = 10, .keep = 5 });
	put_at("12345\n1234\n1\n", 1);
	ck_assert_str_eq(get("stdout.log.1"), "12345\n");
	ck_assert_str_eq(get("stdout.log"), "1234\n1\n");
	put_at("123456789012345\n", 1);
	ck_assert_str_eq(get("stdout.log.2"), "1234\n1\n");
	put_at("a", 1);
	put_at("b\n", 1);
	ck_assert_str_eq(get("stdout.log.3"), "123456789012345\n");
	ck_assert_str_eq(get("stdout.log"), "ab\n");
	ck_assert_int_eq(rotations, 3);
}
END_TEST

START_TEST(rotation_keeps_head_tail_and_the_newest_parts)
{
	static const char *const kept[] = { "1 20 ", "1 20 ", "1 19 20 ", "1 18 19 20 " };

	open_file((struct log_file_options){ .max_size = 5, .keep = _i });
	for (int i = 0; i <= 20; i++)
		put_at("1234\n", 1);
	ck_assert_str_eq(parts(), kept[_i]);
}
END_TEST

START_TEST(an_earlier_process_keeps_its_head_and_tail)
{
	open_file((struct log_file_options){ .max_size = 5, .keep = 1 });
	for (int i = 0; i < 5; i++)
		put_at("1234\n", 1);
	ck_assert_str_eq(parts(), "1 4 ");
	put_at("tail\n", 1);
	file = log_file_free(file);
	open_file((struct log_file_options){ .max_size = 5, .keep = 1 });
	ck_assert_str_eq(parts(), "1 5 6 ");
	for (int i = 0; i < 5; i++)
		put_at("head\n", 1);
	ck_assert_str_eq(parts(), "1 5 6 7 10 ");
	ck_assert_str_eq(get("stdout.log.6"), "tail\n");
	ck_assert_str_eq(get("stdout.log.7"), "head\n");
}
END_TEST

START_TEST(an_endless_line_does_not_make_an_endless_file)
{
	static char block[65536];
	struct stat st;

	memset(block, 'x', sizeof(block));
	open_file((struct log_file_options){ .max_size = 100000, .keep = 3 });
	for (int i = 0; i < 64; i++)
		ck_assert_int_eq(log_file_write(file, block, sizeof(block), 1), 0);
	ck_assert_int_eq(rotations, 3);
	ck_assert_int_eq(stat(logtest_path(&t, "stdout.log.1"), &st), 0);
	ck_assert_int_lt(st.st_size, 1300000);
}
END_TEST

START_TEST(a_file_that_vanishes_is_begun_again)
{
	open_file((struct log_file_options){ 0 });
	put_at("one\n", 1000000);
	unlink(logtest_path(&t, "stdout.log"));
	put_at("two\n", 1500000);
	put_at("three\n", 9000000);
	ck_assert_str_eq(get("stdout.log"), "three\n");
	ck_assert_int_eq(vanished, 1);
	ck_assert_int_eq(rotations, 1);
}
END_TEST

START_TEST(a_full_disk_delays_then_drops_and_counts)
{
	static char line[101];
	uint64_t lines = 0;
	int fill, lost = 0;
	char *note;

	if (!logtest_small_disk(&t, 256 * 1024))
		return;
	memset(line, 'x', 99);
	line[99] = '\n';
	fill = open(logtest_path(&t, "disk/fill"), O_WRONLY | O_CREAT, 0600);
	open_file((struct log_file_options){
		.path = logtest_path(&t, "disk/stdout.log"), .timestamps = _i });
	while (write(fill, text, 4096) > 0)
		;
	while (lines < 1000 || !log_file_full(file)) {
		put_at(line, AT);
		lines++;
	}
	ck_assert_int_eq(log_file_retry(file, AT), 0);
	ck_assert(log_file_full(file));
	ck_assert_int_eq(ftruncate(fill, 0), 0);
	ck_assert_int_eq(log_file_retry(file, AT), 0);
	ck_assert(!log_file_full(file));
	put_at("on again\n", AT);
	get("disk/stdout.log");
	note = strstr(text, "elasticd: ");
	ck_assert_ptr_nonnull(note);
	ck_assert_int_eq(sscanf(note, "elasticd: %d bytes of this log were lost", &lost), 1);
	ck_assert_int_gt(lost, 10000);
	ck_assert_str_eq(strchr(note, '\n') + 1, _i ? STAMP "on again\n" : "on again\n");
	ck_assert_int_eq(note[_i ? -29 : -1], '\n');
	if (!_i)
		ck_assert_uint_eq((note - text) + lost, 100 * lines);
	close(fill);
}
END_TEST

START_TEST(a_disk_that_is_full_for_a_moment_loses_nothing)
{
	int fill;

	if (!logtest_small_disk(&t, 256 * 1024))
		return;
	fill = open(logtest_path(&t, "disk/fill"), O_WRONLY | O_CREAT, 0600);
	open_file((struct log_file_options){ .path = logtest_path(&t, "disk/stdout.log") });
	while (write(fill, text, 4096) > 0)
		;
	put_at("one\n", 1);
	put_at("two\n", 1);
	ck_assert(log_file_full(file));
	ck_assert_int_eq(ftruncate(fill, 0), 0);
	ck_assert_int_eq(log_file_retry(file, 1), 0);
	put_at("three\n", 1);
	ck_assert_str_eq(get("disk/stdout.log"), "one\ntwo\nthree\n");
	close(fill);
}
END_TEST

START_TEST(the_note_about_a_loss_begins_a_line)
{
	static char block[8192];
	int fill;

	if (!logtest_small_disk(&t, 256 * 1024))
		return;
	memset(block, 'x', sizeof(block));
	fill = open(logtest_path(&t, "disk/fill"), O_WRONLY | O_CREAT, 0600);
	open_file((struct log_file_options){ .path = logtest_path(&t, "disk/stdout.log") });
	while (write(fill, text, 4096) > 0)
		;
	put_at("half a line", 1);
	ck_assert_int_eq(log_file_write(file, block, sizeof(block), 1), 0);
	ck_assert_int_eq(ftruncate(fill, 0), 0);
	ck_assert_int_eq(log_file_retry(file, 1), 0);
	put_at("rest\n", 1);
	ck_assert_str_eq(get("disk/stdout.log"),
		"half a line\nelasticd: 8192 bytes of this log were lost while the disk was full\n"
		"rest\n");
	close(fill);
}
END_TEST

START_TEST(closed_parts_are_compressed_by_children)
{
	pid_t pids[4];
	int status, done = 0;
	char back[64];
	struct log_zstd *z;
	int fd, compressed;

	if (!HAVE_ZSTD)
		return;
	ck_assert_int_eq(log_compress_new(&c), 0);
	open_file((struct log_file_options){ .max_size = 5, .keep = 10, .compress = c });
	for (int i = 0; i < 5; i++) {
		put_at("1234\n", 1);
		ck_assert_uint_le(log_compress_pids(c, pids, 4), 2);
	}
	ck_assert(!log_compress_exited(c, getpid(), true));
	while (log_compress_pids(c, pids, 4) > 0) {
		pid_t pid = waitpid(pids[0], &status, 0);

		ck_assert_int_eq(status, 0);
		ck_assert(log_compress_exited(c, pid, true));
		done++;
	}
	ck_assert_int_eq(done, 4);
	ck_assert_str_eq(parts(), "1 2 3 4 ");
	for (int i = 1; i <= 4; i++) {
		fd = log_parts_open(logtest_path(&t, "stdout.log"), i, &compressed);
		ck_assert_int_ge(fd, 0);
		ck_assert(compressed);
		ck_assert_int_eq(log_zstd_new(fd, &z), 0);
		ck_assert_int_eq(log_zstd_read(z, back, sizeof(back)), 5);
		ck_assert_int_eq(memcmp(back, "1234\n", 5), 0);
		ck_assert_int_eq(log_zstd_read(z, back, sizeof(back)), 0);
		log_zstd_free(z);
		close(fd);
	}
	/* A part that was removed meanwhile does not come back; one that failed stays. */
	log_compress_free(c);
}
END_TEST

START_TEST(an_unfinished_compression_leaves_the_plain_file)
{
	pid_t pids[4];

	if (!HAVE_ZSTD)
		return;
	ck_assert_int_eq(log_compress_new(&c), 0);
	logtest_write(&t, "a", "a\n");
	logtest_write(&t, "b", "b\n");
	logtest_write(&t, "c", "c\n");
	log_compress_add(c, logtest_path(&t, "a"));
	log_compress_add(c, logtest_path(&t, "b"));
	log_compress_add(c, logtest_path(&t, "c"));
	ck_assert_uint_eq(log_compress_pids(c, pids, 4), 2);
	waitpid(pids[0], NULL, 0);
	ck_assert(log_compress_exited(c, pids[0], false));
	unlink(logtest_path(&t, "b"));
	ck_assert_uint_eq(log_compress_pids(c, pids, 4), 2);
	waitpid(pids[0], NULL, 0);
	ck_assert(log_compress_exited(c, pids[0], true));
	log_compress_free(c);
	ck_assert_str_eq(get("a"), "a\n");
	ck_assert_int_lt(access(logtest_path(&t, "a.zst"), F_OK), 0);
	ck_assert_int_lt(access(logtest_path(&t, "b.zst"), F_OK), 0);
	ck_assert_str_eq(get("c"), "c\n");
	for (const char *p = "abc"; *p; p++) {
		char name[16];

		snprintf(name, sizeof(name), "%c.zst.tmp", *p);
		ck_assert_int_lt(access(logtest_path(&t, name), F_OK), 0);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log_file");
	TCase *tc = tcase_create("log_file");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, bytes_are_written_as_they_come);
	tcase_add_test(tc, each_line_gets_the_time_at_which_it_began);
	tcase_add_test(tc, a_long_line_gets_one_stamp);
	tcase_add_test(tc, stamps_are_read_as_they_are_written);
	tcase_add_test(tc, a_full_file_becomes_a_part_at_a_lines_end);
	tcase_add_loop_test(tc, rotation_keeps_head_tail_and_the_newest_parts, 0, 4);
	tcase_add_test(tc, an_earlier_process_keeps_its_head_and_tail);
	tcase_add_test(tc, an_endless_line_does_not_make_an_endless_file);
	tcase_add_test(tc, a_file_that_vanishes_is_begun_again);
	tcase_add_loop_test(tc, a_full_disk_delays_then_drops_and_counts, 0, 2);
	tcase_add_test(tc, a_disk_that_is_full_for_a_moment_loses_nothing);
	tcase_add_test(tc, the_note_about_a_loss_begins_a_line);
	tcase_add_test(tc, closed_parts_are_compressed_by_children);
	tcase_add_test(tc, an_unfinished_compression_leaves_the_plain_file);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
