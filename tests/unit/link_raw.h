/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Peers of a head that send what a test likes, in text. Included once by each test program. */

#include "tests/unit/link_world.h"

#include <poll.h>

static inline void raw_send(int fd, const char *data, size_t len)
{
	must(send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len, "raw send");
}

/* A message with its NUL; parameters is JSON text. */
static inline void raw_say(int fd, const char *method, const char *parameters)
{
	char text[8192];
	int n = snprintf(text, sizeof(text),
		"{\"method\":\"io.elasticd.Peer.%s\",\"oneway\":true,\"parameters\":%s}", method,
		parameters);

	raw_send(fd, text, (size_t)n + 1);
}

/* Appends what has come to text (NULs become newlines); returns true at the end. */
static inline bool raw_read(int fd, char *text, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (poll(&p, 1, 0) > 0) {
		size_t have = strlen(text);
		ssize_t n = recv(fd, text + have, size - have - 1, 0);

		if (n <= 0)
			return true;
		for (ssize_t k = 0; k < n; k++)
			if (!text[have + (size_t)k])
				text[have + (size_t)k] = '\n';
		text[have + (size_t)n] = '\0';
	}
	return false;
}

#define HELLO_WITH(major, group, session, rest)                                                  \
	"{\"major\":" major ",\"minor\":0,\"group\":\"" group "\",\"agent\":\"a9\","             \
	"\"boot\":\"b9\",\"host\":\"node9\",\"version\":\"1\",\"session\":\"" session "\"," rest \
	"}"
#define SESSION "0123456789abcdef0123456789abcdef"
#define HELLO HELLO_WITH("1", "g1", SESSION, "\"resume\":0")
