/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/local_address.h"

#include "common/base/cleanup.h"
#include "common/base/scan.h"
#include "common/base/socket_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD "rendezvous.address"

/* A network, or all addresses of an interface. */
struct wanted {
	const char *interface; /* NULL: a network */
	int family;
	unsigned char net[sizeof(struct in6_addr)];
	unsigned bits;
};

static const unsigned char *address_bytes(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return (const unsigned char *)&((const struct sockaddr_in *)a)->sin_addr;
	return (const unsigned char *)&((const struct sockaddr_in6 *)a)->sin6_addr;
}

static bool same_bits(const unsigned char *a, const unsigned char *b, unsigned bits)
{
	unsigned rest = bits % 8;

	if (memcmp(a, b, bits / 8))
		return false;
	return !rest || !((a[bits / 8] ^ b[bits / 8]) >> (8 - rest));
}

static bool is_wanted(const struct wanted *w, const struct ifaddrs *i)
{
	const struct sockaddr *a = i->ifa_addr;

	if (!a || (a->sa_family != AF_INET && a->sa_family != AF_INET6))
		return false;
	if (w->interface)
		return !strcmp(w->interface, i->ifa_name) &&
		       !(a->sa_family == AF_INET6 &&
			       IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)a)->sin6_addr));
	return a->sa_family == w->family && same_bits(address_bytes(a), w->net, w->bits);
}

static int local_address_search(
	const struct wanted *w, const char *text, char **ret, struct error *err)
{
	char here[512], found[INET6_ADDRSTRLEN] = "";
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		return error_field(
			err, -errno, FIELD, "this host's addresses: %s", strerror(errno));
	for (const struct ifaddrs *i = all; i && !*found; i = i->ifa_next)
		if (is_wanted(w, i))
			inet_ntop(i->ifa_addr->sa_family, address_bytes(i->ifa_addr), found,
				sizeof(found));
	freeifaddrs(all);
	if (*found) {
		*ret = strdup(found);
		return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
	}
	socket_address_list(here, sizeof(here));
	return error_field(err, -EINVAL, FIELD,
		"expected an address of this host, its network or its interface, got \"%s\"; this "
		"host has %s",
		text, here);
}

/* "10.1.0.0/16". Returns false for other text. */
static bool parse_network(const char *text, struct wanted *w)
{
	const char *slash = strchr(text, '/');
	char address[INET6_ADDRSTRLEN];
	uint64_t bits;

	if (!slash || (size_t)(slash - text) >= sizeof(address))
		return false;
	snprintf(address, sizeof(address), "%.*s", (int)(slash - text), text);
	w->family = strchr(address, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(w->family, address, w->net) != 1 ||
		scan_whole(slash + 1, w->family == AF_INET ? 32 : 128, &bits) < 0)
		return false;
	w->bits = (unsigned)bits;
	return true;
}

static bool parse_address(const char *text, struct wanted *w)
{
	w->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	w->bits = w->family == AF_INET ? 32 : 128;
	return inet_pton(w->family, text, w->net) == 1;
}

bool local_address_is_network(const char *text)
{
	struct wanted w;

	return parse_network(text, &w);
}

int local_address_find(const char *text, char **ret, struct error *err)
{
	struct wanted w = { .interface = NULL };

	*ret = NULL;
	if (!text)
		return 0;
	if (parse_network(text, &w) || parse_address(text, &w))
		return local_address_search(&w, text, ret, err);
	if (if_nametoindex(text)) {
		w.interface = text;
		return local_address_search(&w, text, ret, err);
	}
	/* A name is for the other hosts to look up. */
	if (strchr(text, '/')) {
		w.family = AF_UNSPEC; /* it is no network, so it has no address here */
		return local_address_search(&w, text, ret, err);
	}
	*ret = strdup(text);
	return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

int local_address_towards(const struct sockaddr *to, struct sockaddr_storage *ret)
{
	_cleanup_close_ int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*ret);

	if (fd < 0 || connect(fd, to, socket_address_len(to)) < 0 ||
		getsockname(fd, (struct sockaddr *)ret, &len) < 0)
		return -errno;
	return 0;
}
