/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/port.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORT_FIRST = 20000, PORT_LAST = 65000, PORT_ENOUGH = 1000, PORT_TRIES = 128 };

static void port_ephemeral(int *ret_first, int *ret_last)
{
	_cleanup_file_ FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");

	if (!f || fscanf(f, "%d %d", ret_first, ret_last) != 2) {
		*ret_first = 32768;
		*ret_last = 60999;
	}
}

/* A socket bound at all addresses: exclusively, or as a server does (again), which may take a port
 * whose connections are closed. Family AF_INET6 covers both. A host without IPv6 fails with
 * EAFNOSUPPORT, or with EADDRNOTAVAIL where it is switched off. */
static int port_bind(int family, int port, int again)
{
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	const bool both = family == AF_INET6;
	const struct sockaddr *to = both ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4;
	_cleanup_close_ int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int zero = 0;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &again, sizeof(again)) < 0)
		return -errno;
	if (both && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) < 0)
		return -errno;
	if (bind(fd, to, both ? sizeof(a6) : sizeof(a4)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int port_bind_all(int port, int again)
{
	int fd = port_bind(AF_INET6, port, again);

	return fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL ? port_bind(AF_INET, port, again) : fd;
}

/* Claims a port's name, which other agents see. */
static int port_bind_name(int port)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "elasticd-port-%d", port);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);

	if (fd < 0 || bind(fd, (struct sockaddr *)&name, len) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int port_try_hold(int port)
{
	_cleanup_close_ int fd = port_bind_all(port, 0);
	_cleanup_close_ int name = fd < 0 ? -1 : port_bind_name(port);
	int one = 1;

	if (fd < 0 || name < 0)
		return fd < 0 ? fd : name;
	/* From now on the worker may bind the port, too. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int port_try_claim_as(int port, int again)
{
	_cleanup_close_ int name = port_bind_name(port);
	_cleanup_close_ int fd = name < 0 ? -1 : port_bind_all(port, again);

	if (name < 0 || fd < 0)
		return name < 0 ? name : fd;
	return TAKE_FD(name);
}

static int port_try_claim(int port)
{
	return port_try_claim_as(port, 0);
}

static int port_clamp(int n)
{
	return n < 0 ? 0 : n > PORT_LAST - PORT_FIRST + 1 ? PORT_LAST - PORT_FIRST + 1 : n;
}

/* Tries ports at random until one is taken. */
static int port_take(int (*try)(int port), struct port *ret)
{
	int first, last, below, above, r = -EADDRINUSE;

	port_ephemeral(&first, &last);
	below = port_clamp(first - PORT_FIRST);
	above = port_clamp(PORT_LAST - last);
	/* Some hosts give nearly all ports to outgoing connections. */
	if (below + above < PORT_ENOUGH) {
		below = 0;
		above = PORT_LAST - PORT_FIRST + 1;
	}
	for (int i = 0; i < PORT_TRIES; i++) {
		unsigned random;
		int port;

		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -EIO;
		port = (int)(random % (unsigned)(below + above));
		port = port < below ? PORT_FIRST + port : PORT_LAST - (port - below);
		r = try(port);
		if (r >= 0) {
			*ret = (struct port){ port, r };
			return 0;
		}
		if (r != -EADDRINUSE && r != -EACCES)
			return r;
	}
	return r;
}

int port_hold(struct port *ret)
{
	return port_take(port_try_hold, ret);
}

int port_claim(struct port *ret)
{
	return port_take(port_try_claim, ret);
}

int port_claim_of(int first, int last, struct port *ret)
{
	unsigned random, n = (unsigned)(last - first + 1);
	int r = -EADDRINUSE;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (unsigned i = 0; i < 2 * n; i++) {
		int port = first + (int)((random % n + i) % n);

		r = port_try_claim_as(port, i >= n);
		if (r >= 0) {
			*ret = (struct port){ port, r };
			return 0;
		}
		if (r != -EADDRINUSE && r != -EACCES)
			return r;
	}
	return r;
}

int port_claim_number(int number, struct port *ret)
{
	int fd = port_bind_name(number);

	if (fd < 0 && fd != -EADDRINUSE)
		return fd;
	*ret = (struct port){ number, fd < 0 ? -1 : fd };
	return 0;
}

void port_release(struct port *p)
{
	if (p->number && p->fd >= 0)
		close(p->fd);
	*p = (struct port){ 0 };
}
