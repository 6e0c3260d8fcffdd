/* SPDX-License-Identifier: Apache-2.0 */
#include "common/memory_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 1 << 20, SIGNALS = 300 };

static off_t memory_of(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return (off_t)st.st_blocks * 512;
}

START_TEST(it_has_the_memory_that_was_asked_for)
{
	int fd = memory_file_new("test", BYTES, 8192);
	struct stat st;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, BYTES);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	ck_assert_int_ge(memory_of(fd), 8192);
	ck_assert_int_lt(memory_of(fd), BYTES);
	ck_assert_int_eq(memory_file_fill(fd, 8192, BYTES - 8192), 0);
	ck_assert_int_ge(memory_of(fd), BYTES);
	ck_assert_int_eq(memory_file_fill(fd, 0, 0), 0);
	close(fd);
	fd = memory_file_new("test", BYTES, 0);
	ck_assert_int_eq(memory_of(fd), 0);
	close(fd);
}
END_TEST

START_TEST(it_stays_as_long_as_it_is_once_it_is_sealed)
{
	int fd = memory_file_new("test", BYTES, 0);

	ck_assert_int_eq(ftruncate(fd, BYTES + 1), 0);
	ck_assert_int_eq(ftruncate(fd, BYTES), 0);
	ck_assert_int_eq(memory_file_seal(fd, 0), 0);
	ck_assert_int_eq(ftruncate(fd, BYTES + 1), -1);
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	ck_assert_int_eq(memory_file_fill(fd, BYTES, 1), -EPERM);
	ck_assert_int_eq(memory_file_fill(fd, 0, BYTES), 0);
	ck_assert_int_eq(memory_file_seal(fd, F_SEAL_SEAL), 0);
	ck_assert_int_eq(memory_file_seal(fd, 0), -EPERM);
	close(fd);
}
END_TEST

static pthread_t main_thread;
static atomic_bool over;

static void on_signal(int number)
{
}

static void *interrupt(void *arg)
{
	for (int i = 0; i < SIGNALS; i++) {
		pthread_kill(main_thread, SIGUSR1);
		usleep(100);
	}
	atomic_store(&over, true);
	return NULL;
}

START_TEST(a_signal_does_not_make_it_fail)
{
	const struct sigaction action = { .sa_handler = on_signal };
	pthread_t thread;

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	main_thread = pthread_self();
	ck_assert_int_eq(pthread_create(&thread, NULL, interrupt, NULL), 0);
	while (!atomic_load(&over)) {
		int fd = memory_file_new("test", 16 * BYTES, 16 * BYTES);

		ck_assert_int_ge(fd, 0);
		close(fd);
	}
	pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("memory_file");
	TCase *t = tcase_create("memory_file");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_test(t, it_has_the_memory_that_was_asked_for);
	tcase_add_test(t, it_stays_as_long_as_it_is_once_it_is_sealed);
	tcase_add_test(t, a_signal_does_not_make_it_fail);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
