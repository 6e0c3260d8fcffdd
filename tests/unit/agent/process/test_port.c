/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/port.h"

#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

/*
 * A test that needs ports in a certain state runs in a network of its own, in a process of its own.
 * There need() ends the process with the line of the condition that does not hold.
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

/* Runs fn in a network of its own, if this user may make one. */
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

/* Tests run once for each way to take a port. */
static int (*const takes[])(struct port *ret) = { port_hold, port_claim };
enum { HOLD, CLAIM, TAKES };
static int way;

/* Takes a port and releases it. Returns its number, or a negative errno. */
static int pick(void)
{
	struct port port = { 0 };
	int r = takes[way](&port), number = port.number;

	port_release(&port);
	need(port.number == 0);
	return r < 0 ? r : number;
}

/* No program listens on the port, and a worker can, at all addresses of both families. */
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
		int port = pick();

		need(port > LAST - ABOVE && port <= LAST);
		need(!taken[port]);
		check_free(port);
	}
}

START_TEST(a_port_that_is_listened_on_is_never_picked)
{
	way = _i;
	in_network(pick_beside_listeners);
}
END_TEST

static void pick_where_all_are_taken(void)
{
	ephemeral(FIRST, LAST - 1000);
	for (int port = LAST - 999; port <= LAST; port++)
		listen_at(port, port % KINDS);
	need(pick() == -EADDRINUSE);
}

START_TEST(with_all_ports_taken_the_error_is_eaddrinuse)
{
	way = _i;
	in_network(pick_where_all_are_taken);
}
END_TEST

static void check_range(int first, int last)
{
	ephemeral(first, last);
	for (int i = 0; i < 300; i++) {
		int port = pick();

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
	check_range(10000, 64000); /* the ports outside this range are just enough */
	check_range(65001, 65535);
	check_range(65100, 65500);
}

START_TEST(a_port_lies_outside_of_what_outgoing_connections_get)
{
	way = _i;
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
			int port = pick();

			need(port >= FIRST && port <= LAST);
			check_free(port);
		}
	}
}

START_TEST(with_few_other_ports_one_for_outgoing_connections_is_picked)
{
	way = _i;
	in_network(pick_where_nothing_is_outside);
}
END_TEST

static void pick_without_ipv6(void)
{
	FILE *f = fopen("/proc/sys/net/ipv6/conf/all/disable_ipv6", "we");

	if (!f)
		_exit(NOT_HERE);
	need(fputs("1\n", f) >= 0 && fclose(f) == 0);
	need(pick() >= FIRST);
}

START_TEST(a_host_whose_ipv6_is_switched_off_has_ports_too)
{
	way = _i;
	in_network(pick_without_ipv6);
}
END_TEST

START_TEST(ports_of_two_picks_are_seldom_the_same)
{
	int before = 0, same = 0;

	way = _i;
	for (int i = 0; i < 50; i++) {
		int port = pick();

		ck_assert_int_ge(port, FIRST);
		ck_assert_int_le(port, LAST);
		same += port == before;
		before = port;
	}
	ck_assert_int_lt(same, 5);
}
END_TEST

/* Binds and listens with these options set before. Returns 0 with the listener in *ret_fd, or a
 * negative errno. */
static int listen_with(int port, int kind, bool addr, bool share, int *ret_fd)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	int fd = socket(kind < 2 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1, v6only = kind == 3, r;

	if (kind == 1)
		a4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (kind == 2)
		a6.sin6_addr = in6addr_loopback;
	need(fd >= 0);
	if (addr)
		need(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
	if (share)
		need(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) == 0);
	if (kind >= 2)
		need(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) == 0);
	r = kind < 2 ? bind(fd, (struct sockaddr *)&a4, sizeof(a4))
		     : bind(fd, (struct sockaddr *)&a6, sizeof(a6));
	if (r == 0)
		r = listen(fd, 4);
	*ret_fd = fd;
	if (r == 0)
		return 0;
	r = errno;
	close(fd);
	return r;
}

/* A connection to the port reaches the listener at fd. */
static void check_reached(int fd, int port, int kind)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	int from = socket(kind < 2 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), to;

	a4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a6.sin6_addr = in6addr_loopback;
	need(connect(from, kind < 2 ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6,
		     kind < 2 ? sizeof(a4) : sizeof(a6)) == 0);
	to = accept(fd, NULL, NULL);
	need(to >= 0);
	/* In this order, so that the port is left behind in TIME_WAIT. */
	close(to);
	close(from);
}

static void hold_for_a_worker(int kind, bool addr, bool share)
{
	struct port port = { 0 };
	int fd, other;

	need(port_hold(&port) == 0);
	need(listen_with(port.number, kind, false, false, &fd) == EADDRINUSE);
	/* Twice: a restarted worker can listen again, whatever the first left. */
	for (int i = 0; i < 2; i++) {
		need(listen_with(port.number, kind, addr, share, &fd) == 0);
		check_reached(fd, port.number, kind);
		/* While it listens, no other program can. */
		need(listen_with(port.number, kind, true, false, &other) == EADDRINUSE);
		need(listen_with(port.number, kind, false, false, &other) == EADDRINUSE);
		close(fd);
		need(listen_with(port.number, kind, false, false, &fd) == EADDRINUSE);
	}
	port_release(&port);
}

static void hold_for_workers(void)
{
	for (int kind = 0; kind < KINDS; kind++)
		for (int options = 1; options < 4; options++)
			hold_for_a_worker(kind, options & 1, options & 2);
}

START_TEST(a_held_port_is_free_only_for_sockets_that_share_it)
{
	in_network(hold_for_workers);
}
END_TEST

static int claim_of(int first, int last)
{
	struct port port = { 0 };
	int r = port_claim_of(first, last, &port), number = port.number;

	port_release(&port);
	return r < 0 ? r : number;
}

static void claim_of_a_range(void)
{
	enum { BASE = 29500, PORTS = 8, OPEN = 5 };
	struct port port = { 0 }, other = { 0 };

	for (int i = 0; i < PORTS; i++)
		if (i != OPEN)
			listen_at(BASE + i, i % KINDS);
	for (int i = 0; i < 50; i++)
		need(claim_of(BASE, BASE + PORTS - 1) == BASE + OPEN);
	check_free(BASE + OPEN);
	need(port_claim_of(BASE, BASE + PORTS - 1, &port) == 0);
	/* Now another agent has the only one. */
	need(port_claim_of(BASE, BASE + PORTS - 1, &other) == -EADDRINUSE);
	need(claim_of(BASE, BASE) == -EADDRINUSE);
	port_release(&port);
	need(claim_of(BASE + OPEN, BASE + OPEN) == BASE + OPEN);
}

START_TEST(a_free_port_of_a_range_is_found)
{
	in_network(claim_of_a_range);
}
END_TEST

static void claim_of_a_range_again(void)
{
	enum { USED = 29500 };
	int fd = listen_at(USED, 0);

	check_reached(fd, USED, 0);
	close(fd);
	for (int i = 0; i < 50; i++)
		need(claim_of(USED, USED + 1) == USED + 1);
	need(claim_of(USED, USED) == USED);
}

START_TEST(a_port_whose_connections_are_closed_comes_last)
{
	in_network(claim_of_a_range_again);
}
END_TEST

static void hold_against_the_kernel(void)
{
	/* The kernel looks at an even number of ports: of nine it may leave one out. */
	enum { BEFORE = 4, BEHIND = 3, OTHERS = BEFORE + BEHIND };
	struct sockaddr_in a4 = { .sin_family = AF_INET };
	struct port port = { 0 };
	socklen_t len = sizeof(a4);
	int given = 0, far = listen_at(10000, 1);

	ephemeral(1024, 65535);
	need(port_hold(&port) == 0);
	while (port.number < 20000 || port.number > 60000) {
		port_release(&port);
		need(port_hold(&port) == 0);
	}
	ephemeral(port.number - BEFORE, port.number + BEHIND);
	for (int i = 0; i < OTHERS + 1; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		a4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(10000) };
		a4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		if (connect(fd, (struct sockaddr *)&a4, sizeof(a4)) < 0)
			continue;
		need(accept(far, NULL, NULL) >= 0);
		need(getsockname(fd, (struct sockaddr *)&a4, &len) == 0);
		need(ntohs(a4.sin_port) != port.number);
		given++;
	}
	need(given == OTHERS);
	close(far);
	/* These connections use every port of the range except held ones. */
	for (int i = 0; i < 2; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		need(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &i, sizeof(i)) == 0);
		a4 = (struct sockaddr_in){ .sin_family = AF_INET };
		need(bind(fd, (struct sockaddr *)&a4, sizeof(a4)) < 0 && errno == EADDRINUSE);
		close(fd);
	}
}

START_TEST(the_kernel_assigns_a_held_port_to_no_socket)
{
	in_network(hold_against_the_kernel);
}
END_TEST

static void take_from_each_other(void)
{
	enum { BEFORE = 600, EACH = 100 };
	static struct port ports[BEFORE + 2 * EACH];
	static char taken[LAST + 1];

	ephemeral(FIRST, LAST - 1000);
	for (int i = 0; i < BEFORE + 2 * EACH; i++) {
		if (i < BEFORE)
			need(port_claim_number(LAST - i, &ports[i]) == 0);
		else
			need(takes[i % TAKES](&ports[i]) == 0);
		need(!taken[ports[i].number]);
		taken[ports[i].number] = 1;
	}
	for (int i = 0; i < BEFORE + 2 * EACH; i++)
		port_release(&ports[i]);
}

START_TEST(no_port_is_picked_twice)
{
	in_network(take_from_each_other);
}
END_TEST

static void claim_for_a_program_of_any_kind(void)
{
	struct port port = { 0 };
	int fd;

	need(port_claim(&port) == 0);
	for (int kind = 0; kind < KINDS; kind++) {
		need(listen_with(port.number, kind, false, false, &fd) == 0);
		close(fd);
	}
	port_release(&port);
}

START_TEST(a_claimed_port_can_be_bound_without_options)
{
	in_network(claim_for_a_program_of_any_kind);
}
END_TEST

START_TEST(a_number_that_another_has_claimed_is_taken_without_a_claim)
{
	struct port one = { 0 }, two = { 0 };

	ck_assert_int_eq(port_claim(&one), 0);
	ck_assert_int_eq(port_claim_number(one.number, &two), 0);
	ck_assert_int_eq(two.number, one.number);
	ck_assert_int_lt(two.fd, 0);
	port_release(&two);
	port_release(&one);
	ck_assert_int_eq(one.number, 0);
	port_release(&one);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("port");
	TCase *t = tcase_create("port");

	tcase_add_loop_test(t, a_port_that_is_listened_on_is_never_picked, 0, TAKES);
	tcase_add_loop_test(t, with_all_ports_taken_the_error_is_eaddrinuse, 0, TAKES);
	tcase_add_loop_test(t, a_port_lies_outside_of_what_outgoing_connections_get, 0, TAKES);
	tcase_add_loop_test(
		t, with_few_other_ports_one_for_outgoing_connections_is_picked, 0, TAKES);
	tcase_add_loop_test(t, a_host_whose_ipv6_is_switched_off_has_ports_too, 0, TAKES);
	tcase_add_loop_test(t, ports_of_two_picks_are_seldom_the_same, 0, TAKES);
	tcase_add_test(t, a_held_port_is_free_only_for_sockets_that_share_it);
	tcase_add_test(t, a_free_port_of_a_range_is_found);
	tcase_add_test(t, a_port_whose_connections_are_closed_comes_last);
	tcase_add_test(t, the_kernel_assigns_a_held_port_to_no_socket);
	tcase_add_test(t, no_port_is_picked_twice);
	tcase_add_test(t, a_claimed_port_can_be_bound_without_options);
	tcase_add_test(t, a_number_that_another_has_claimed_is_taken_without_a_claim);
	suite_add_tcase(s, t);
	return suite_run(s);
}
