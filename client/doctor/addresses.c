/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/doctor.h"
#include "common/base/socket_address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

const char *doctor_look_up(const char *host, int port, struct doctor_addresses *ret)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *list;
	char text[8];
	int code;

	ret->n = 0;
	snprintf(text, sizeof(text), "%d", port);
	code = getaddrinfo(host, text, &hints, &list);
	if (code)
		return code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code);
	for (struct addrinfo *a = list; a && ret->n < DOCTOR_ADDRESSES_MAX; a = a->ai_next)
		if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
			memcpy(&ret->at[ret->n++], a->ai_addr, a->ai_addrlen);
	freeaddrinfo(list);
	return ret->n ? NULL : "it has no address";
}

bool doctor_is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
}

void doctor_addresses_text(const struct doctor_addresses *a, char *text, size_t size)
{
	size_t n = 0;

	*text = '\0';
	for (size_t i = 0; i < a->n && n < size; i++) {
		const struct sockaddr *one = (const struct sockaddr *)&a->at[i];
		char host[NI_MAXHOST];

		if (getnameinfo(one, socket_address_len(one), host, sizeof(host), NULL, 0,
			    NI_NUMERICHOST))
			continue;
		n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", host);
	}
}
