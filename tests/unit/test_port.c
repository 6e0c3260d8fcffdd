/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/port.h"

#include "tests/unit/child.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

/*
 * What needs ports of a certain state is done in a network of its own, in a process of its own,
 * where need() ends the process with the line of what does not hold.
 */

enum { FIRST = 20000, LAST = 65000, NOT_HERE = 77 };

#define need(what)                                                                 \
	do {                                                                       \
		if (!(what)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			_exit(1);                                                  \
		}                                                                  \
	} while (0)

static void network_of_its_own(void)
{
	_cleanup_close_ int fd = -1;
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	struct rlimit files = { 4096, 4096 };

	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		_exit(NOT_HERE);
	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max < 4096)
		_exit(NOT_HERE);
	files.rlim_cur = files.rlim_max;
	need(setrlimit(RLIMIT_NOFILE, &files) == 0);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	need(ioctl(fd, SIOCSIFFLAGS, &lo) == 0);
}

/* The ports that the kernel gives to outgoing connections. */
static void ephemeral(int first, int last)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "we");

	if (!f)
		_exit(NOT_HERE);
	need(fprintf(f, "%d %d\n", first, last) > 0);
	need(fclose(f) == 0);
}

/* Runs fn where there is a network of its own to be had. */
static void in_network(void (*fn)(void))
{
	pid_t pid = fork();
	int end;

	if (pid == 0) {
		network_of_its_own();
		fn();
		_exit(0);
	}
	end = child_end(pid);
	if (end == NOT_HERE)
		puts("no network namespaces here: left out");
	else
		ck_assert_int_eq(end, 0);
}

static int bind_to(int family, const void *address, socklen_t len, int v6only)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	need(fd >= 0);
	need(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
	if (family == AF_INET6)
		need(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) == 0);
	if (bind(fd, address, len) == 0)
		return fd;
	close(fd);
	return -1;
}

enum { KINDS = 5 };

/* Listens in one of the ways that a program may: either family, all addresses or one. */
static int listen_at(int port, int kind)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	int fd;

	if (kind == 1)
		a4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (kind == 2)
		a6.sin6_addr = in6addr_loopback;
	if (kind < 2)
		fd = bind_to(AF_INET, &a4, sizeof(a4), 0);
	else
		fd = bind_to(AF_INET6, &a6, sizeof(a6), kind == 3);
	need(fd >= 0);
	need(listen(fd, 1) == 0);
	return fd;
}

/* Nobody listens there, and a worker can, at all addresses of both families. */
static void check_free(int port)
{
	for (int kind = 0; kind < KINDS; kind++)
		close(listen_at(port, kind));
}

static void pick_beside_listeners(void)
{
	enum { ABOVE = 1100, FREE = 300 };
	static char taken[LAST + 1];

	/* Only 63901 to 65000 are left to pick, and most of them are taken. */
	ephemeral(FIRST, LAST - ABOVE);
	for (int i = 0; i < ABOVE - FREE; i++) {
		int port = LAST - ABOVE + 1 + i * ABOVE / (ABOVE - FREE);

		listen_at(port, i % KINDS);
		taken[port] = 1;
	}
	for (int i = 0; i < 300; i++) {
		int port = port_pick();

		need(port > LAST - ABOVE && port <= LAST);
		need(!taken[port]);
		check_free(port);
	}
}

START_TEST(a_port_that_is_listened_on_is_never_picked)
{
	in_network(pick_beside_listeners);
}
END_TEST

static void pick_where_all_are_taken(void)
{
	ephemeral(FIRST, LAST - 1000);
	for (int port = LAST - 999; port <= LAST; port++)
		listen_at(port, port % KINDS);
	need(port_pick() == -EADDRINUSE);
}

START_TEST(where_all_are_taken_the_error_says_so)
{
	in_network(pick_where_all_are_taken);
}
END_TEST

static void check_range(int first, int last)
{
	ephemeral(first, last);
	for (int i = 0; i < 300; i++) {
		int port = port_pick();

		need(port >= FIRST && port <= LAST);
		need(port < first || port > last);
	}
}

static void pick_outside_of_any_range(void)
{
	check_range(32768, 60999);
	check_range(1024, 60000);
	check_range(1024, 15000);
	check_range(22000, 65535);
	check_range(10000, 64000); /* what is left is just enough */
	check_range(65001, 65535);
	check_range(65100, 65500);
}

START_TEST(a_port_lies_outside_of_what_outgoing_connections_get)
{
	in_network(pick_outside_of_any_range);
}
END_TEST

static void pick_where_nothing_is_outside(void)
{
	static const int ranges[][2] = { { 1024, 65535 }, { 20000, 65000 }, { 10000, 64500 },
		{ 20500, 65000 } };

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		ephemeral(ranges[i][0], ranges[i][1]);
		for (int k = 0; k < 100; k++) {
			int port = port_pick();

			need(port >= FIRST && port <= LAST);
			check_free(port);
		}
	}
}

START_TEST(where_nearly_all_ports_are_for_outgoing_connections_one_of_them_is_picked)
{
	in_network(pick_where_nothing_is_outside);
}
END_TEST

static void pick_without_ipv6(void)
{
	FILE *f = fopen("/proc/sys/net/ipv6/conf/all/disable_ipv6", "we");

	if (!f)
		_exit(NOT_HERE);
	need(fputs("1\n", f) >= 0 && fclose(f) == 0);
	need(port_pick() >= FIRST);
}

START_TEST(a_host_whose_ipv6_is_switched_off_has_ports_too)
{
	in_network(pick_without_ipv6);
}
END_TEST

START_TEST(ports_of_two_picks_are_seldom_the_same)
{
	int before = 0, same = 0;

	for (int i = 0; i < 50; i++) {
		int port = port_pick();

		ck_assert_int_ge(port, FIRST);
		ck_assert_int_le(port, LAST);
		same += port == before;
		before = port;
	}
	ck_assert_int_lt(same, 5);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("port");
	TCase *t = tcase_create("port");
	SRunner *r;
	int failed;

	tcase_add_test(t, a_port_that_is_listened_on_is_never_picked);
	tcase_add_test(t, where_all_are_taken_the_error_says_so);
	tcase_add_test(t, a_port_lies_outside_of_what_outgoing_connections_get);
	tcase_add_test(
		t, where_nearly_all_ports_are_for_outgoing_connections_one_of_them_is_picked);
	tcase_add_test(t, a_host_whose_ipv6_is_switched_off_has_ports_too);
	tcase_add_test(t, ports_of_two_picks_are_seldom_the_same);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
