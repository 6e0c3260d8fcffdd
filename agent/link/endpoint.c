/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static int refuse(struct error *err, const char *text)
{
	return error_field(err, -EINVAL, LINK_ENDPOINT_FIELD,
		"expected HOST or HOST:PORT, got \"%.200s\"", text);
}

/* The port behind the colon at at; NULL: there is none. */
static int parse_port(const char *at, int *ret)
{
	char *end;
	long n = LINK_PORT;

	if (at) {
		if (strspn(at + 1, "0123456789") != strlen(at + 1) || !at[1])
			return -EINVAL;
		n = strtol(at + 1, &end, 10);
	}
	if (n < 1 || n > 65535)
		return -EINVAL;
	*ret = (int)n;
	return 0;
}

int link_endpoint_parse(const char *text, struct link_endpoint *ret, struct error *err)
{
	struct link_endpoint e = { .port = 0 };
	const char *begin = text, *end, *colon;

	if (*text == '[') {
		begin = text + 1;
		end = strchr(begin, ']');
		if (!end || (end[1] && end[1] != ':'))
			return refuse(err, text);
		colon = end[1] ? end + 1 : NULL;
	} else {
		colon = strrchr(text, ':');
		/* An IPv6 address without brackets has no port. */
		if (colon && colon != strchr(text, ':'))
			colon = NULL;
		end = colon ? colon : text + strlen(text);
	}
	if (end == begin || (size_t)(end - begin) >= sizeof(e.host))
		return refuse(err, text);
	memcpy(e.host, begin, (size_t)(end - begin));
	if (strpbrk(e.host, " \t\r\n/@,") || parse_port(colon, &e.port) < 0)
		return refuse(err, text);
	*ret = e;
	return 0;
}

void link_endpoint_text(const struct link_endpoint *e, char *text)
{
	bool six = strchr(e->host, ':');

	snprintf(text, LINK_ENDPOINT_MAX, "%s%s%s:%d", six ? "[" : "", e->host, six ? "]" : "",
		e->port);
}

socklen_t link_address_len(const struct sockaddr *a)
{
	return a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

void link_address_text(const struct sockaddr *a, socklen_t len, char *text)
{
	char host[48], port[8];

	if (getnameinfo(a, len, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV)) {
		strcpy(text, "a peer");
		return;
	}
	snprintf(
		text, LINK_ADDRESS_MAX, a->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
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

bool link_address_is_here(const struct sockaddr *a)
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

void link_address_list(char *text, size_t size)
{
	struct ifaddrs *all;
	size_t n = 0;

	snprintf(text, size, "unknown");
	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *i = all; i && n < size; i = i->ifa_next) {
		char host[NI_MAXHOST];

		if (!has_address(i) || getnameinfo(i->ifa_addr, link_address_len(i->ifa_addr), host,
					       sizeof(host), NULL, 0, NI_NUMERICHOST))
			continue;
		host[strcspn(host, "%")] = '\0';
		n += (size_t)snprintf(
			text + n, size - n, "%s%s (%s)", n ? ", " : "", host, i->ifa_name);
	}
	freeifaddrs(all);
}
