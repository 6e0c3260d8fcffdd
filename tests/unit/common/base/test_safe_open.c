/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/safe_open.h"

#include "common/base/file.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

static char dir[64], path[128];
static int dirfd_;

static const char *at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void setup(void)
{
	strcpy(dir, "/tmp/test-safe-open-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dirfd_, 0);
}

/* As a kernel before Linux 5.6, or a container that knows no openat2(). */
static void without_openat2(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(filter) / sizeof(*filter), .filter = filter };

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	ck_assert_int_eq(syscall(SYS_openat2, -1, NULL, NULL, 0), -1);
	ck_assert_int_eq(errno, ENOSYS);
	setup();
}

static void teardown(void)
{
	close(dirfd_);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

/* Both ways to name it. */
static void both(const char *name, int flags, int expected)
{
	ck_assert_int_eq(safe_open(dirfd_, name, flags, 0600), expected);
	ck_assert_int_eq(safe_open(-1, at(name), flags, 0600), expected);
}

START_TEST(a_regular_file_is_made_and_opened_without_what_only_the_open_needs)
{
	int fd = safe_open(dirfd_, "log", O_WRONLY | O_APPEND | O_CREAT, 0640);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(
		fcntl(fd, F_GETFL) & (O_APPEND | O_NONBLOCK | O_ACCMODE), O_WRONLY | O_APPEND);
	ck_assert_int_eq(write(fd, "x", 1), 1);
	close(fd);
	fd = safe_open(-1, at("log"), O_RDONLY, 0);
	ck_assert_int_ge(fd, 0);
	close(fd);
	both("none", O_RDONLY, -ENOENT);
}
END_TEST

START_TEST(a_fifo_never_blocks_and_is_refused)
{
	ck_assert_int_eq(mkfifo(at("fifo"), 0600), 0);
	both("fifo", O_RDONLY, -ENOTSUP);
	both("fifo", O_WRONLY, -ENOTSUP);
	both("fifo", O_WRONLY | O_APPEND | O_CREAT, -ENOTSUP);
	both("fifo", O_RDWR, -ENOTSUP);
	ck_assert_str_eq(safe_open_text(-ENOTSUP), "expected a regular file");
}
END_TEST

START_TEST(sockets_directories_and_devices_are_refused)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, at("socket"));
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd);
	both("socket", O_RDONLY, -ENOTSUP);
	ck_assert_int_eq(mkdir(at("directory"), 0700), 0);
	both("directory", O_RDONLY, -EISDIR);
	both("directory", O_WRONLY, -EISDIR);
	ck_assert_int_eq(safe_open(-1, "/dev/zero", O_RDONLY, 0), -ENOTSUP);
}
END_TEST

START_TEST(no_link_is_followed_at_the_end_or_on_the_way)
{
	ck_assert_int_eq(mkdir(at("real"), 0700), 0);
	close(safe_open(dirfd_, "real/log", O_WRONLY | O_CREAT, 0600));
	ck_assert_int_eq(symlink("real/log", at("link")), 0);
	ck_assert_int_eq(symlink("real", at("way")), 0);
	both("link", O_RDONLY, -ELOOP);
	both("way/log", O_RDONLY, -ELOOP);
	ck_assert_int_eq(safe_open_dir(dirfd_, "way"), -ENOTDIR);
	ck_assert_int_eq(safe_open_dir(dirfd_, "way/below"), -ELOOP);
	both("real/log/more", O_RDONLY, -ENOTDIR);
	ck_assert_int_eq(safe_open(dirfd_, "../../etc/passwd", O_RDONLY, 0), -EXDEV);
}
END_TEST

START_TEST(directories_are_opened_by_the_same_rules)
{
	int fd;

	ck_assert_int_eq(mkfifo(at("fifo"), 0600), 0);
	ck_assert_int_eq(mkdir(at("real"), 0700), 0);
	fd = safe_open_dir(-1, at("real"));
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(safe_open_dir(dirfd_, "fifo"), -ENOTDIR);
}
END_TEST

static void add_case(Suite *s, const char *name, void (*begin)(void))
{
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, begin, teardown);
	tcase_add_test(t, a_regular_file_is_made_and_opened_without_what_only_the_open_needs);
	tcase_add_test(t, a_fifo_never_blocks_and_is_refused);
	tcase_add_test(t, sockets_directories_and_devices_are_refused);
	tcase_add_test(t, no_link_is_followed_at_the_end_or_on_the_way);
	tcase_add_test(t, directories_are_opened_by_the_same_rules);
	suite_add_tcase(s, t);
}

int main(void)
{
	Suite *s = suite_create("safe_open");

	add_case(s, "safe_open", setup);
	add_case(s, "without_openat2", without_openat2);
	return suite_run(s);
}
