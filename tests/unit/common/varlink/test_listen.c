/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/varlink_demo.h"

#include "common/base/file.h"
#include "common/varlink/socket.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/un.h>

static char dir[64];
static char path[4096];

static void setup(void)
{
	struct varlink_options opt = demo_options();

	strcpy(dir, "/tmp/test_listen.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	demo_start(&opt);
}

static void teardown(void)
{
	demo_stop();
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static int listen_at(const char *at)
{
	err = (struct error){ 0 };
	return varlink_server_listen_path(server, at, 0640, &err);
}

static int connect_to(const char *at)
{
	int fd = -1;

	ck_assert_msg(varlink_socket_connect(at, SOCK_NONBLOCK, &fd, &err) == 0, "%s", err.text);
	return fd;
}

static void assert_served(int fd)
{
	call_method(fd, DEMO "Echo", "{'text':'a'}", "");
	ck_assert_str_eq(hear(fd), "{'parameters':{'text':'a'}}\n");
	close(fd);
}

static int entries(void)
{
	_cleanup_dir_ DIR *d = opendir(dir);
	int n = 0;

	while (readdir(d))
		n++;
	return n - 2;
}

START_TEST(a_path_is_served_with_its_mode_and_removed_at_the_end)
{
	struct stat st;

	ck_assert_int_eq(listen_at(path), 0);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_int_eq(st.st_mode, S_IFSOCK | 0640);
	ck_assert_int_eq(entries(), 1);
	assert_served(connect_to(path));
	demo_stop();
	ck_assert_int_eq(entries(), 0);
}
END_TEST

START_TEST(closed_peers_do_not_delay_the_ones_behind_them)
{
	char answer[64];
	int fd;

	ck_assert_int_eq(listen_at(path), 0);
	for (int i = 0; i < 120; i++)
		close(connect_to(path));
	fd = connect_to(path);
	call_method(fd, DEMO "Echo", "{'text':'a'}", "");
	for (int i = 0; i < 2; i++)
		loop_run_once(loop, false);
	ck_assert_int_gt(recv(fd, answer, sizeof(answer), MSG_DONTWAIT), 0);
	ck_assert_int_eq(varlink_server_connections(server), 1);
	close(fd);
}
END_TEST

START_TEST(a_call_of_a_peer_that_closed_at_once_is_handled)
{
	int fd;

	ck_assert_int_eq(listen_at(path), 0);
	fd = connect_to(path);
	call_method(fd, DEMO "Echo", "{'text':'a'}", ",'oneway':true");
	close(fd);
	turn();
	ck_assert_int_eq(n_handled, 1);
	ck_assert_int_eq(varlink_server_connections(server), 0);
}
END_TEST

/* A socket file on which no process listens, as a killed process leaves it. */
static void leave_stale(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	close(fd);
}

START_TEST(a_stale_socket_is_replaced)
{
	leave_stale();
	ck_assert_int_eq(listen_at(path), 0);
	assert_served(connect_to(path));
	ck_assert_int_eq(entries(), 1);
}
END_TEST

START_TEST(a_live_socket_is_left_alone)
{
	char expected[sizeof(path) + 64];

	ck_assert_int_eq(listen_at(path), 0);
	ck_assert_int_eq(listen_at(path), -EADDRINUSE);
	snprintf(expected, sizeof(expected), "%s: another process listens there already", path);
	ck_assert_str_eq(err.text, expected);
	assert_served(connect_to(path));
	ck_assert_int_eq(entries(), 1);
}
END_TEST

START_TEST(anything_else_in_the_way_is_left_alone)
{
	ck_assert_int_eq(file_write_atomic(path, "x", 1, 0600, false), 0);
	ck_assert_int_eq(listen_at(path), -EEXIST);
	ck_assert_ptr_nonnull(strstr(err.text, "in the way and not a socket"));
	snprintf(path, sizeof(path), "%s/none/sock", dir);
	ck_assert_int_eq(listen_at(path), -ENOENT);
	ck_assert_int_eq(listen_at(""), -EINVAL);
	ck_assert_int_eq(entries(), 1);
}
END_TEST

START_TEST(a_socket_that_took_our_place_is_not_removed)
{
	struct stat st;

	ck_assert_int_eq(listen_at(path), 0);
	ck_assert_int_eq(unlink(path), 0);
	leave_stale();
	demo_stop();
	ck_assert_int_eq(lstat(path, &st), 0);
}
END_TEST

START_TEST(a_path_too_long_for_an_address_works_all_the_same)
{
	memset(path + strlen(dir) + 1, 'd', 200);
	path[strlen(dir) + 201] = '\0';
	ck_assert_int_eq(file_mkdir_p(path, 0700), 0);
	strcat(path, "/sock");
	ck_assert_int_eq(listen_at(path), 0);
	assert_served(connect_to(path));
	demo_stop();
	ck_assert_int_eq(access(path, F_OK), -1);
	memset(path + strlen(dir) + 1, 'd', 200);
	ck_assert_int_eq(varlink_socket_connect(path, 0, &(int){ -1 }, &err), -ENOENT);
}
END_TEST

START_TEST(a_socket_that_was_passed_on_is_served)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert_int_eq(varlink_server_listen_fd(server, fd, &err), 0);
	assert_served(connect_to(path));
	ck_assert_int_eq(
		varlink_server_listen_fd(server, open("/dev/null", O_RDWR), &err), -ENOTSOCK);
}
END_TEST

START_TEST(a_connection_over_the_limit_gets_an_error)
{
	struct varlink_options opt = demo_options();
	int a, b, c;

	demo_stop();
	opt.limits.connections = 2;
	demo_start(&opt);
	ck_assert_int_eq(listen_at(path), 0);
	a = connect_to(path);
	b = connect_to(path);
	c = connect_to(path);
	call_method(c, DEMO "Echo", "{'text':'a'}", "");
	ck_assert_str_eq(hear(c),
		"{'error':'org.test.demo.ResourceExhausted',"
		"'parameters':{'message':'the limit of 2 connections is reached','limit':2}}\nEOF");
	ck_assert_int_eq(varlink_server_connections(server), 2);
	assert_served(a);
	turn();
	assert_served(connect_to(path));
	close(b);
	close(c);
}
END_TEST

static rlim_t limit_files(rlim_t n)
{
	struct rlimit rl;
	rlim_t before;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &rl), 0);
	before = rl.rlim_cur;
	rl.rlim_cur = n;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &rl), 0);
	return before;
}

START_TEST(running_out_of_descriptors_neither_spins_nor_lasts)
{
	int a = -1, b = -1, lowest;
	rlim_t before;
	uint64_t start;

	ck_assert_int_eq(listen_at(path), 0);
	a = connect_to(path);
	lowest = dup(a);
	close(lowest);
	before = limit_files(lowest);
	start = loop_now_ms();
	turn();
	ck_assert_int_eq(varlink_server_connections(server), 0);
	/* It rests once before it drops the waiting connections. */
	while (strcmp(hear(a), "EOF")) {
		loop_run_once(loop, true);
		ck_assert_uint_lt(loop_now_ms(), start + 60000);
	}
	/* valgrind itself refuses a descriptor beyond the limit, after the kernel gave it. */
	if (!under_valgrind())
		ck_assert_uint_ge(loop_now_ms(), start + 100);
	limit_files(before);
	b = connect_to(path);
	while (!varlink_server_connections(server))
		loop_run_once(loop, true);
	assert_served(b);
	close(a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_listen");
	TCase *t = tcase_create("varlink_listen");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, a_path_is_served_with_its_mode_and_removed_at_the_end);
	tcase_add_test(t, closed_peers_do_not_delay_the_ones_behind_them);
	tcase_add_test(t, a_call_of_a_peer_that_closed_at_once_is_handled);
	tcase_add_test(t, a_stale_socket_is_replaced);
	tcase_add_test(t, a_live_socket_is_left_alone);
	tcase_add_test(t, anything_else_in_the_way_is_left_alone);
	tcase_add_test(t, a_socket_that_took_our_place_is_not_removed);
	tcase_add_test(t, a_path_too_long_for_an_address_works_all_the_same);
	tcase_add_test(t, a_socket_that_was_passed_on_is_served);
	tcase_add_test(t, a_connection_over_the_limit_gets_an_error);
	tcase_add_test(t, running_out_of_descriptors_neither_spins_nor_lasts);
	suite_add_tcase(s, t);
	return suite_run(s);
}
