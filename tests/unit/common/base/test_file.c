/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/file.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char dir[64];
static char name[PATH_MAX];

static const char *in_dir(const char *rest)
{
	snprintf(name, sizeof(name), "%s/%s", dir, rest);
	return name;
}

static void setup(void)
{
	strcpy(dir, "/tmp/test_file.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	umask(022);
}

static void teardown(void)
{
	ck_assert_int_eq(file_rm_rf(dir), 0);
	ck_assert_int_eq(access(dir, F_OK), -1);
}

static void put(const char *rest, const char *text)
{
	ck_assert_int_eq(file_write_atomic(in_dir(rest), text, strlen(text), 0600, false), 0);
}

static void assert_content(const char *rest, const char *expected)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	ck_assert_int_eq(file_read(in_dir(rest), 0, &text, &len), 0);
	ck_assert_str_eq(text, expected);
	ck_assert_uint_eq(len, strlen(expected));
}

/* Sets a soft limit and returns the one before. */
static rlim_t limit(int resource, rlim_t value)
{
	struct rlimit rl;
	rlim_t before;

	ck_assert_int_eq(getrlimit(resource, &rl), 0);
	before = rl.rlim_cur;
	rl.rlim_cur = value;
	ck_assert_int_eq(setrlimit(resource, &rl), 0);
	return before;
}

static int entries(const char *path)
{
	_cleanup_dir_ DIR *d = opendir(path);
	int n = 0;

	while (readdir(d))
		n++;
	return n - 2;
}

START_TEST(reading_is_bounded_and_ends_with_nul)
{
	_cleanup_free_ char *text = NULL;

	put("f", "12345");
	assert_content("f", "12345");
	ck_assert_int_eq(file_read(in_dir("f"), 4, &text, NULL), -EFBIG);
	ck_assert_ptr_null(text);
	ck_assert_int_eq(file_read(in_dir("f"), 5, &text, NULL), 0);
	put("f", "");
	assert_content("f", "");
}
END_TEST

START_TEST(files_without_a_size_are_read_whole)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	ck_assert_int_eq(file_read("/proc/self/smaps", 0, &text, &len), 0);
	ck_assert_uint_gt(len, 5000);
	ck_assert_uint_eq(strlen(text), len);
	ck_assert_int_eq(file_read("/proc/self/smaps", 4000, &text, &len), -EFBIG);
}
END_TEST

START_TEST(other_kinds_of_files_are_refused_without_blocking)
{
	_cleanup_free_ char *text = NULL;

	ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
	ck_assert_int_eq(file_read(in_dir("fifo"), 0, &text, NULL), -ENOTSUP);
	ck_assert_int_eq(file_read(dir, 0, &text, NULL), -EISDIR);
	ck_assert_int_eq(file_read(in_dir("none"), 0, &text, NULL), -ENOENT);
	ck_assert_ptr_null(text);
}
END_TEST

START_TEST(a_file_is_replaced_with_exactly_the_mode_asked_for)
{
	struct stat st;

	put("f", "old");
	umask(077);
	ck_assert_int_eq(file_write_atomic(in_dir("f"), "new", 3, 0664, true), 0);
	assert_content("f", "new");
	ck_assert_int_eq(stat(in_dir("f"), &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0664);
	ck_assert_int_eq(entries(dir), 1);
}
END_TEST

START_TEST(a_failed_replacement_leaves_the_old_file_and_nothing_else)
{
	rlim_t before;
	char data[8192] = "x";

	put("f", "old");
	signal(SIGXFSZ, SIG_IGN);
	before = limit(RLIMIT_FSIZE, 4096);
	ck_assert_int_eq(file_write_atomic(in_dir("f"), data, sizeof(data), 0600, false), -EFBIG);
	limit(RLIMIT_FSIZE, before);
	assert_content("f", "old");
	ck_assert_int_eq(mkdir(in_dir("d"), 0700), 0);
	ck_assert_int_eq(file_write_atomic(in_dir("d"), "x", 1, 0600, true), -EISDIR);
	ck_assert_int_eq(file_write_atomic(in_dir("none/f"), "x", 1, 0600, true), -ENOENT);
	ck_assert_int_eq(entries(dir), 2);
}
END_TEST

START_TEST(a_name_without_a_directory_is_written_where_we_are)
{
	ck_assert_int_eq(chdir(dir), 0);
	ck_assert_int_eq(file_write_atomic("plain", "x", 1, 0600, true), 0);
	assert_content("plain", "x");
	ck_assert_int_eq(file_rm_rf("plain"), 0);
	ck_assert_int_eq(mkdir("sub", 0700), 0);
	ck_assert_int_eq(file_rm_rf("sub"), 0);
	ck_assert_int_eq(entries(dir), 0);
}
END_TEST

START_TEST(directories_are_made_with_all_above_them)
{
	struct stat st;

	ck_assert_int_eq(file_mkdir_p(in_dir("a//b/c/"), 0750), 0);
	ck_assert_int_eq(stat(in_dir("a/b"), &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0750);
	ck_assert_int_eq(file_mkdir_p(in_dir("a/b/c"), 0700), 0);
	ck_assert_int_eq(stat(in_dir("a/b/c"), &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0750);
	ck_assert_int_eq(file_mkdir_p("/", 0700), 0);
	ck_assert_int_eq(file_mkdir_p("", 0700), -ENOENT);
	put("f", "");
	ck_assert_int_eq(file_mkdir_p(in_dir("f"), 0700), -ENOTDIR);
	ck_assert_int_eq(file_mkdir_p(in_dir("f/g/h"), 0700), -ENOTDIR);
	ck_assert_int_eq(symlink("nowhere", in_dir("link")), 0);
	ck_assert_int_eq(file_mkdir_p(in_dir("link"), 0700), -ENOENT);
}
END_TEST

START_TEST(a_directory_that_must_not_be_made_is_refused_as_such)
{
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	ck_assert_int_eq(file_mkdir_p("/usr/elasticd-test/logs", 0700), -EACCES);
	ck_assert_int_eq(file_mkdir_p("/usr/lib", 0700), 0);
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

START_TEST(removing_follows_no_symbolic_link)
{
	ck_assert_int_eq(file_mkdir_p(in_dir("keep"), 0700), 0);
	put("keep/f", "kept");
	ck_assert_int_eq(file_mkdir_p(in_dir("tree/sub"), 0700), 0);
	put("tree/sub/f", "");
	ck_assert_int_eq(symlink("../keep", in_dir("tree/link")), 0);
	ck_assert_int_eq(symlink("keep", in_dir("link")), 0);
	ck_assert_int_eq(file_rm_rf(in_dir("tree/")), 0);
	ck_assert_int_eq(file_rm_rf(in_dir("link")), 0);
	assert_content("keep/f", "kept");
	ck_assert_int_eq(entries(dir), 1);
	ck_assert_int_eq(file_rm_rf(in_dir("none")), 0);
	ck_assert_int_eq(file_rm_rf(in_dir("none/x")), 0);
	ck_assert_int_eq(file_rm_rf(in_dir("keep/..")), -EINVAL);
	ck_assert_int_eq(file_rm_rf("/"), -EINVAL);
	ck_assert_int_eq(file_rm_rf(""), -EINVAL);
}
END_TEST

START_TEST(a_tree_deeper_than_descriptors_or_paths_reach_is_removed)
{
	rlim_t before;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < 1000; i++) {
		int next;

		ck_assert_int_eq(mkdirat(fd, "deep", 0700), 0);
		ck_assert_int_eq(symlinkat("..", fd, "up"), 0);
		next = openat(fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ck_assert_int_ge(next, 0);
		close(fd);
		fd = next;
	}
	close(fd);
	before = limit(RLIMIT_NOFILE, 64);
	ck_assert_int_eq(file_rm_rf(in_dir("deep")), 0);
	limit(RLIMIT_NOFILE, before);
	ck_assert_int_eq(entries(dir), 1);
}
END_TEST

START_TEST(a_tree_larger_than_a_limit_is_left_in_part)
{
	int fd;

	ck_assert_int_eq(mkdir(in_dir("tree"), 0700), 0);
	for (int i = 0; i < 10; i++) {
		char rest[16];

		snprintf(rest, sizeof(rest), "tree/%d", i);
		fd = open(in_dir(rest), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		ck_assert_int_eq(write(fd, "0123456789", 10), 10);
		close(fd);
	}
	ck_assert_int_eq(file_rm_rf_some(in_dir("tree"), 4, SIZE_MAX), -EAGAIN);
	ck_assert_int_eq(entries(in_dir("tree")), 6);
	ck_assert_int_eq(file_rm_rf_some(in_dir("tree"), 100, 1), -EAGAIN);
	ck_assert_int_eq(entries(in_dir("tree")), 6);
	ck_assert_int_eq(file_rm_rf_some(in_dir("tree"), 6, 1 << 20), 0);
	ck_assert_int_lt(access(in_dir("tree"), F_OK), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("file");
	TCase *t = tcase_create("file");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, reading_is_bounded_and_ends_with_nul);
	tcase_add_test(t, files_without_a_size_are_read_whole);
	tcase_add_test(t, other_kinds_of_files_are_refused_without_blocking);
	tcase_add_test(t, a_file_is_replaced_with_exactly_the_mode_asked_for);
	tcase_add_test(t, a_failed_replacement_leaves_the_old_file_and_nothing_else);
	tcase_add_test(t, a_name_without_a_directory_is_written_where_we_are);
	tcase_add_test(t, directories_are_made_with_all_above_them);
	tcase_add_test(t, a_directory_that_must_not_be_made_is_refused_as_such);
	tcase_add_test(t, removing_follows_no_symbolic_link);
	tcase_add_test(t, a_tree_deeper_than_descriptors_or_paths_reach_is_removed);
	tcase_add_test(t, a_tree_larger_than_a_limit_is_left_in_part);
	suite_add_tcase(s, t);
	return suite_run(s);
}
