/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/socket_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

socklen_t socket_address_len(const struct sockaddr *a)
{
	return a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

void socket_address_text(const struct sockaddr *a, socklen_t len, char *text)
{
	char host[48], port[8];

	if (getnameinfo(a, len, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV)) {
		strcpy(text, "a peer");
		return;
	}
	snprintf(text, SOCKET_ADDRESS_MAX, a->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
		port);
}

void socket_address_set_port(struct sockaddr_storage *a, int port)
{
	if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)a)->sin_port = htons((uint16_t)port);
}

static bool is_same(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		&((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

static bool is_loopback(const struct sockaddr *a)
{
	return a->sa_family == AF_INET &&
	       ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
}

static bool has_address(const struct ifaddrs *i)
{
	return i->ifa_addr &&
	       (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6);
}

bool socket_address_is_here(const struct sockaddr *a)
{
	struct ifaddrs *all;
	bool found = is_loopback(a);

	if (found || getifaddrs(&all) < 0)
		return true;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
		found = has_address(i) && is_same(a, i->ifa_addr);
	freeifaddrs(all);
	return found;
}

void socket_address_list(char *text, size_t size)
{
	struct ifaddrs *all;
	size_t n = 0;

	snprintf(text, size, "unknown");
	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *i = all; i && n < size; i = i->ifa_next) {
		char host[NI_MAXHOST];

		if (!has_address(i) || getnameinfo(i->ifa_addr, socket_address_len(i->ifa_addr),
					       host, sizeof(host), NULL, 0, NI_NUMERICHOST))
			continue;
		host[strcspn(host, "%")] = '\0';
		n += (size_t)snprintf(
			text + n, size - n, "%s%s (%s)", n ? ", " : "", host, i->ifa_name);
	}
	freeifaddrs(all);
}
