/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes may come from the peer of a link: the link ends or goes on, and another link of the
 * same head carries its messages as before. The first byte says which side the bytes come to and
 * what comes before them: 0 a head, 1 a head after a Hello, 2 a member, 3 a member after a Welcome.
 * A 0xff byte gives the loop its turns between what came before it and what comes after.
 */
#include "agent/link/listen.h"
#include "common/base/socket_address.h"
#include "common/text/json.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TO_HEAD, TO_GREETED_HEAD, TO_MEMBER, TO_WELCOME_MEMBER, KINDS };
enum { LEASE_MS = 3600000, LINKS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EXPECT(condition)         \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static const char hello[] =
	"{\"method\":\"io.elasticd.Peer.Hello\",\"oneway\":true,\"parameters\":{"
	"\"major\":1,\"minor\":0,\"group\":\"g\",\"agent\":\"a\",\"boot\":\"b\",\"host\":\"h\","
	"\"version\":\"1\",\"session\":\"0123456789abcdef0123456789abcdef\",\"resume\":0}}";
static const char welcome[] =
	"{\"method\":\"io.elasticd.Peer.Welcome\",\"oneway\":true,\"parameters\":{"
	"\"major\":1,\"minor\":0,\"group\":\"g\",\"run\":\"r\",\"agent\":\"a\",\"boot\":\"b\","
	"\"host\":\"h\",\"version\":\"1\",\"head\":\"x\",\"resume\":0,\"lease_ms\":3600000,"
	"\"word\":\"w\"}}";

static struct loop *loop;
static struct link_listen *head;
static struct link *good, *heads[LINKS]; /* heads[0] is the good one's other side */
static int n_heads, listening;
static struct sockaddr_in head_at, impostor_at;
static int got; /* by the good one's other side */
static bool good_up;

static int on_message(void *arg, const char *method, json_t *parameters, struct error *err)
{
	EXPECT(json_is_object(parameters) && json_get_int(parameters, "n", 0) > 0);
	got += arg == &heads[0];
	return 0;
}

static void on_state(void *arg, enum link_state state, const struct error *why)
{
	EXPECT(state == LINK_UP || (arg != &heads[0] && arg != &good));
	EXPECT(!why || why->text[0]);
	if (arg == &good)
		good_up = state == LINK_UP;
}

static const struct link_events link_events = { .message = on_message, .state = on_state };

static int on_joined(void *arg, struct link *l, struct error *err)
{
	if (n_heads == LINKS)
		return -ENOBUFS;
	link_accept(l, &link_events, &heads[n_heads]);
	heads[n_heads++] = l;
	return 0;
}

static const struct link_listen_events listen_events = { .joined = on_joined };

static struct link *connect_to(const struct sockaddr_in *at, void *arg)
{
	char endpoint[32];
	struct link_options o = {
		.self = { .group = "g", .agent = "m", .boot = "b", .host = "m" },
		.endpoint = endpoint,
		.limit_ms = LEASE_MS,
		.lease_ms = LEASE_MS,
		.events = &link_events,
		.arg = arg,
	};
	struct link *l;

	snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%d", ntohs(at->sin_port));
	EXPECT(link_connect(loop, &o, &l, NULL) == 0);
	return l;
}

static void turns(int n)
{
	while (n-- > 0)
		loop_run_once(loop, false);
}

static void begin(void)
{
	struct link_addresses a = { .n = 1 };
	struct link_listen_options o = {
		.self = { .group = "g", .run = "r", .agent = "a", .boot = "b", .host = "h" },
		.lease_ms = LEASE_MS,
		.listen = &listen_events
	};
	socklen_t len = sizeof(impostor_at);
	char text[SOCKET_ADDRESS_MAX];

	impostor_at = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	memcpy(&a.at[0], &impostor_at, sizeof(impostor_at));
	EXPECT(loop_new(&loop) == 0);
	EXPECT(link_listen_new(loop, &a, &o, &head, NULL) == 0);
	link_listen_address(head, text);
	head_at = impostor_at;
	head_at.sin_port = htons((uint16_t)atoi(strrchr(text, ':') + 1));
	listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	EXPECT(bind(listening, (struct sockaddr *)&impostor_at, len) == 0);
	EXPECT(listen(listening, 8) == 0);
	EXPECT(getsockname(listening, (struct sockaddr *)&impostor_at, &len) == 0);
	good = connect_to(&head_at, &good);
	while (!n_heads || !good_up)
		loop_run_once(loop, true);
}

static void put(int fd, const void *data, size_t len)
{
	/* The other side may have had enough. */
	(void)!send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	turns(2);
}

static void put_pieces(int fd, const uint8_t *data, size_t size)
{
	while (size) {
		const uint8_t *pause = memchr(data, 0xff, size);
		size_t len = pause ? (size_t)(pause - data) : size;

		put(fd, data, len);
		len += pause != NULL;
		data += len;
		size -= len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Closed by RST, a connection keeps no port. */
	struct linger now = { .l_onoff = 1, .l_linger = 0 };
	struct link *member = NULL;
	int fd, kind, before = got;

	if (!size)
		return 0;
	if (!loop)
		begin();
	kind = data[0] % KINDS;
	if (kind < TO_MEMBER) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		EXPECT(connect(fd, (struct sockaddr *)&head_at, sizeof(head_at)) == 0);
	} else {
		member = connect_to(&impostor_at, NULL);
		turns(2);
		fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
		EXPECT(fd >= 0);
	}
	turns(2);
	if (kind == TO_GREETED_HEAD)
		put(fd, hello, sizeof(hello));
	if (kind == TO_WELCOME_MEMBER)
		put(fd, welcome, sizeof(welcome));
	put_pieces(fd, data + 1, size - 1);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
	turns(2);
	link_free(member);
	while (n_heads > 1)
		link_free(heads[--n_heads]);
	EXPECT(link_send(good, "Bye", NULL) == 0);
	for (int i = 0; i < 100 && got == before; i++)
		loop_run_once(loop, false);
	EXPECT(got == before + 1);
	return 0;
}
