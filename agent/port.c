/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/port.h"

#include "common/cleanup.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>

enum { PORT_FIRST = 20000, PORT_LAST = 65000, PORT_ENOUGH = 1000, PORT_TRIES = 128 };

static void port_ephemeral(int *ret_first, int *ret_last)
{
	_cleanup_file_ FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");

	if (!f || fscanf(f, "%d %d", ret_first, ret_last) != 2) {
		*ret_first = 32768;
		*ret_last = 60999;
	}
}

/* Both families: a worker may bind either. A host without IPv6 says so by EAFNOSUPPORT. */
static int port_try(int family, int port)
{
	_cleanup_close_ int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int one = 1;

	if (fd < 0)
		return errno == EAFNOSUPPORT ? 0 : -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	if (family == AF_INET)
		return bind(fd, (struct sockaddr *)&a4, sizeof(a4)) < 0 ? -errno : 0;
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0 ||
		bind(fd, (struct sockaddr *)&a6, sizeof(a6)) < 0)
		return errno == EADDRNOTAVAIL ? 0 : -errno;
	return 0;
}

static int port_clamp(int n)
{
	return n < 0 ? 0 : n > PORT_LAST - PORT_FIRST + 1 ? PORT_LAST - PORT_FIRST + 1 : n;
}

int port_pick(void)
{
	int first, last, below, above, r = -EADDRINUSE;

	port_ephemeral(&first, &last);
	below = port_clamp(first - PORT_FIRST);
	above = port_clamp(PORT_LAST - last);
	/* A host may give nearly everything to outgoing connections. */
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
		r = port_try(AF_INET, port);
		if (!r)
			r = port_try(AF_INET6, port);
		if (!r)
			return port;
		if (r != -EADDRINUSE && r != -EACCES)
			return r;
	}
	return r;
}
