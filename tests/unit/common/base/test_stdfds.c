/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/stdfds.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_null(int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat("/dev/null", &b) == 0 && a.st_rdev == b.st_rdev;
}

static bool is_cloexec(int fd)
{
	return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

/* In a child without those of 0, 1 and 2 that mask names. Returns the number of what is wrong. */
static int look(int mask, bool tell, int file)
{
	char c;

	for (int fd = 0; fd < 3; fd++) {
		/* An open one is no /dev/null: that would hide that it was replaced. */
		if (dup2(file, fd) != fd)
			return 1;
		if (mask & 1 << fd)
			close(fd);
	}
	if (stdfds_open(tell) < 0)
		return 2;
	for (int fd = 0; fd < 3; fd++)
		if (is_null(fd) != (bool)(mask & 1 << fd))
			return 3 + fd;
	if (mask & 1 && read(0, &c, 1) != 0)
		return 6;
	if (mask & 2 && (write(1, "x", 1) == 1) == tell)
		return 7;
	if (mask & 2 && tell && errno != EBADF)
		return 8;
	if (mask & 4 && write(2, "x", 1) != 1)
		return 9;
	if (is_cloexec(1) != (tell && mask & 2))
		return 10;
	stdfds_inherit();
	if (is_null(1) != (bool)(mask & 2) || is_cloexec(1) || write(1, "x", 1) != 1)
		return 11;
	return 0;
}

START_TEST(only_closed_standard_descriptors_become_the_null_device)
{
	int held = memfd_create("stdfds", MFD_CLOEXEC), high, status;

	ck_assert_int_ge(held, 0);
	/* Away from where the three are. */
	high = fcntl(held, F_DUPFD_CLOEXEC, 10);
	close(held);
	for (int mask = 0; mask < 8; mask++)
		for (int tell = 0; tell < 2; tell++) {
			pid_t pid = fork();

			if (pid == 0)
				_exit(look(mask, tell, high));
			ck_assert_int_eq(waitpid(pid, &status, 0), pid);
			ck_assert_msg(status == 0, "mask %d, tell %d: %#x", mask, tell, status);
		}
	close(high);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("stdfds");
	TCase *t = tcase_create("stdfds");

	tcase_add_test(t, only_closed_standard_descriptors_become_the_null_device);
	suite_add_tcase(s, t);
	return suite_run(s);
}
