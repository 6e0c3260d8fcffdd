/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness waits for a file, or for a port. */
#include "agent/ready/file.h"
#include "agent/ready/port.h"
#include "common/base/file.h"
#include "tests/unit/run.h"

#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct loop *loop;
static char dir[64], path[128];
static int came;

static void on_come(void *arg)
{
	came++;
}

static void setup(void)
{
	strcpy(dir, "/tmp/test-ready-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a/b/up", dir);
	ck_assert_int_eq(loop_new(&loop), 0);
	came = 0;
}

static void teardown(void)
{
	loop_free(loop);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void make(const char *name, bool directory)
{
	char full[160];

	snprintf(full, sizeof(full), "%s/%s", dir, name);
	if (directory)
		ck_assert_int_eq(mkdir(full, 0755), 0);
	else
		ck_assert_int_eq(file_write_atomic(full, "x", 1, 0644, false), 0);
}

static struct ready_file *wait_file(void)
{
	struct ready_file *f = NULL;

	ck_assert_int_eq(ready_file_new(loop, path, on_come, NULL, &f), 0);
	ck_assert_int_eq(came, 0);
	loop_run_once(loop, false);
	return f;
}

START_TEST(a_file_comes_with_its_directories)
{
	struct ready_file *f = wait_file();

	make("a", true);
	loop_run_once(loop, false);
	make("a/b", true);
	make("a/b/other", false);
	loop_run_once(loop, false);
	ck_assert_int_eq(came, 0);
	make("a/b/up", false);
	loop_run_once(loop, false);
	ck_assert_int_eq(came, 1);
	make("a/b/up", false);
	loop_run_once(loop, false);
	ck_assert_int_eq(came, 1);
	ready_file_free(f);
}
END_TEST

START_TEST(an_old_file_counts_once_it_is_written)
{
	struct ready_file *f;
	FILE *stream;

	make("a", true);
	make("a/b", true);
	make("a/b/up", false);
	f = wait_file();
	make("a/b/other", false);
	loop_run_once(loop, false);
	ck_assert_int_eq(came, 0);
	stream = fopen(path, "a");
	ck_assert_ptr_nonnull(stream);
	fputs("again", stream);
	ck_assert_int_eq(fclose(stream), 0);
	loop_run_once(loop, false);
	ck_assert_int_eq(came, 1);
	ready_file_free(f);
}
END_TEST

START_TEST(a_directory_that_is_made_again_is_watched_again)
{
	char moved[160], from[160];
	struct ready_file *f;

	snprintf(from, sizeof(from), "%s/a", dir);
	snprintf(moved, sizeof(moved), "%s/was", dir);
	make("a", true);
	make("a/b", true);
	f = wait_file();
	ck_assert_int_eq(rmdir(strcat(strcpy(path, from), "/b")), 0);
	loop_run_once(loop, false);
	ck_assert_int_eq(rename(from, moved), 0);
	loop_run_once(loop, false);
	make("a", true);
	make("a/b", true);
	make("a/b/up", false);
	loop_run_once(loop, false);
	ck_assert_int_eq(came, 1);
	ready_file_free(f);
}
END_TEST

START_TEST(a_port_is_open_when_a_program_listens)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);
	struct ready_port_sockets before;
	struct ready_port *p = NULL;

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	loop_freeze();
	ready_port_find_sockets(ntohs(at.sin_port), &before);
	ck_assert_uint_eq(before.n, 0);
	ck_assert_int_eq(ready_port_new(loop, ntohs(at.sin_port), &before, on_come, NULL, &p), 0);
	for (int i = 0; i < 8; i++) {
		loop_pass(loop, 1000);
		loop_run_once(loop, false);
		loop_run_once(loop, false);
	}
	ck_assert_int_eq(came, 0);
	ck_assert_int_eq(listen(fd, 4), 0);
	loop_pass(loop, 999);
	loop_run_once(loop, false);
	loop_run_once(loop, false);
	ck_assert_int_eq(came, 0);
	loop_pass(loop, 1);
	loop_run_once(loop, false);
	loop_run_once(loop, false);
	ck_assert_int_eq(came, 1);
	ready_port_free(p);
	close(fd);
}
END_TEST

/* A socket that listens at *port, which 0 has the kernel choose, on 127.0.0.1 or on all addresses.
 */
static int listener(int family, in_port_t *port)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = *port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
	};
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = *port };
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(v4);

	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){ 1 }, sizeof(int)), 0);
	ck_assert_int_eq(family == AF_INET ? bind(fd, (struct sockaddr *)&v4, sizeof(v4))
					   : bind(fd, (struct sockaddr *)&v6, sizeof(v6)),
		0);
	ck_assert_int_eq(listen(fd, 4), 0);
	if (!*port) {
		ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&v4, &len), 0);
		*port = v4.sin_port;
	}
	return fd;
}

static void pass_a_second(void)
{
	loop_pass(loop, 1000);
	for (int i = 0; i < 3; i++)
		loop_run_once(loop, false);
}

START_TEST(a_port_that_was_open_before_is_not_waited_for)
{
	struct ready_port_sockets before;
	struct ready_port *p = NULL;
	in_port_t port = 0;
	int theirs = listener(AF_INET, &port), ours;

	ready_port_find_sockets(ntohs(port), &before);
	ck_assert_uint_eq(before.n, 1);
	loop_freeze();
	ck_assert_int_eq(ready_port_new(loop, ntohs(port), &before, on_come, NULL, &p), 0);
	for (int i = 0; i < 8; i++)
		pass_a_second();
	ck_assert_int_eq(came, 0);
	ours = listener(AF_INET6, &port); /* reached by IPv4, too */
	close(theirs);
	pass_a_second();
	ck_assert_int_eq(came, 1);
	ready_port_free(p);
	close(ours);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ready");
	TCase *t = tcase_create("waits");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_file_comes_with_its_directories);
	tcase_add_test(t, an_old_file_counts_once_it_is_written);
	tcase_add_test(t, a_directory_that_is_made_again_is_watched_again);
	tcase_add_test(t, a_port_is_open_when_a_program_listens);
	tcase_add_test(t, a_port_that_was_open_before_is_not_waited_for);
	suite_add_tcase(s, t);
	return suite_run(s);
}
