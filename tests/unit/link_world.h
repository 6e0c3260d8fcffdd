/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A head that listens on loopback, members that connect to it, and raw peers, all in one loop whose
 * clock is frozen: only a test lets time pass. Included once by each test program. */

#include "agent/link/channel.h"
#include "agent/link/listen.h"
#include "agent/link/message.h"
#include "common/base/socket_address.h"
#include "common/text/json.h"
#include "tests/unit/random.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>

/* The kernel breaks a connection, by its own clock, when the other side has not read for a lease:
 * this one is longer than a test takes. */
enum { WORLD_LEASE_MS = 600000, WORLD_LIMIT_MS = 600000, WORLD_ENDS = 8 };

/* One side of a link and what it has seen. */
struct end {
	struct link *link;
	int sent, got; /* messages; their rounds count from 1 */
	int ups, waits, ends, beats;
	bool refuses, frees; /* the next message */
	bool ended_well;
	struct error why;
	struct link_beat beat;
	char last[32]; /* method */
};

static struct loop *loop;
static struct link_listen *head;
static struct end heads[WORLD_ENDS], members[WORLD_ENDS]; /* heads: in the order of joining */
static int n_joined, n_last_words, n_refused;
static char refused[1024];
static struct error err;
static bool refuse_join;
static const struct link_tls *head_tls, *member_tls;

static inline int world_message(void *arg, const char *method, json_t *parameters, struct error *e)
{
	struct end *end = arg;

	snprintf(end->last, sizeof(end->last), "%s", method);
	if (!strcmp(method, "Started")) {
		must(json_get_int(parameters, "round", 0) == end->got + 1, "in order, once");
		end->got++;
	}
	if (end->frees)
		end->link = link_free(end->link);
	if (end->refuses)
		return error_field(e, -EINVAL, "parameters.round", "expected another one");
	return 0;
}

static inline void world_state(void *arg, enum link_state state, const struct error *why)
{
	struct end *end = arg;

	end->ups += state == LINK_UP;
	end->waits += state == LINK_WAITING;
	end->ends += state == LINK_ENDED;
	end->ended_well = state == LINK_ENDED && !why;
	if (why)
		end->why = *why;
}

static inline void world_beat(void *arg, const struct link_beat *beat)
{
	struct end *end = arg;

	end->beats++;
	end->beat = *beat;
}

static const struct link_events world_events = {
	.message = world_message,
	.state = world_state,
	.beat = world_beat,
};

static inline int world_joined(void *arg, struct link *l, struct error *e)
{
	if (refuse_join)
		return error_field(e, -EINVAL, "parameters.host", "expected another one");
	heads[n_joined] = (struct end){ .link = l };
	link_accept(l, &world_events, &heads[n_joined++]);
	return 0;
}

static inline void world_last_word(void *arg, struct link *l)
{
	must(l == heads[0].link, "whose last word");
	n_last_words++;
}

static inline void world_refused(void *arg, const struct error *why)
{
	n_refused++;
	snprintf(refused, sizeof(refused), "%s", why->text);
}

static const struct link_listen_events world_listen_events = {
	.joined = world_joined,
	.last_word = world_last_word,
	.refused = world_refused,
};

static inline struct link_addresses loopback(int port)
{
	struct link_addresses a = { .n = 1 };
	struct sockaddr_in *in = (struct sockaddr_in *)&a.at[0];

	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static inline struct link_identity identity(const char *host, const char *run)
{
	return (struct link_identity){
		.group = "g1", .run = run, .agent = host, .boot = "b1", .host = host
	};
}

static inline void start_head(int port)
{
	struct link_addresses a = loopback(port);
	struct link_listen_options o = { .self = identity("node0", "r1"),
		.lease_ms = WORLD_LEASE_MS,
		.tls = head_tls,
		.listen = &world_listen_events };
	int r = link_listen_new(loop, &a, &o, &head, &err);

	ck_assert_msg(r == 0, "%s", err.text);
}

static inline int head_port(void)
{
	char text[SOCKET_ADDRESS_MAX];

	link_listen_address(head, text);
	return atoi(strrchr(text, ':') + 1);
}

/* The head goes; the socket that is returned keeps its port from other programs until it is back.
 */
static inline int stop_head(int *ret_port)
{
	struct link_addresses a = loopback(head_port());
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	*ret_port = head_port();
	head = link_listen_free(head);
	must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0, "reuse");
	must(bind(fd, (struct sockaddr *)&a.at[0], sizeof(struct sockaddr_in)) == 0, "keep");
	return fd;
}

static inline void start_member_as(int i, int port, struct link_identity self)
{
	char endpoint[32];
	struct link_options o = { .self = self,
		.endpoint = endpoint,
		.limit_ms = WORLD_LIMIT_MS,
		.lease_ms = WORLD_LEASE_MS,
		.tls = member_tls,
		.events = &world_events,
		.arg = &members[i] };

	snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%d", port);
	members[i] = (struct end){ .link = NULL };
	must(link_connect(loop, &o, &members[i].link, &err) == 0, "connect");
}

static inline void start_member(int i, int port)
{
	static const char *const names[WORLD_ENDS] = { "node1", "node2", "node3", "node4", "node5",
		"node6", "node7", "node8" };

	start_member_as(i, port, identity(names[i], NULL));
}

static inline void say(struct end *e)
{
	char body[64];

	snprintf(body, sizeof(body), "{\"round\":%d,\"time_us\":1}", ++e->sent);
	must(link_send_text(e->link, "Started", body, strlen(body)) == 0, "send");
}

enum { UNTIL_TURNS = 2000000 }; /* the kernel may be slow to deliver */

/* Runs what is ready; lets ms pass each time that is not enough. */
#define UNTIL_PASSING(condition, ms)                              \
	do {                                                      \
		int turns_ = 0;                                   \
		while (!(condition)) {                            \
			must(turns_++ < UNTIL_TURNS, #condition); \
			loop_run_once(loop, false);               \
			if (turns_ % 16 == 0)                     \
				loop_pass(loop, ms);              \
		}                                                 \
	} while (0)
#define UNTIL(condition) UNTIL_PASSING(condition, 25)
/* ... while no time passes */
#define AT_ONCE(condition) UNTIL_PASSING(condition, 0)
/* ... in steps that are short for beats, but long for tries to connect */
#define UNTIL_BEAT(condition) UNTIL_PASSING(condition, WORLD_LEASE_MS / 100)

/* Everything that was said has been handled on the other side. */
static inline void settle(int i)
{
	UNTIL(heads[i].got == members[i].sent && members[i].got == heads[i].sent);
}

static inline void turns(int n)
{
	while (n-- > 0)
		loop_run_once(loop, false);
}

static inline void world_setup(void)
{
	loop_freeze();
	memset(heads, 0, sizeof(heads));
	memset(members, 0, sizeof(members));
	must(loop_new(&loop) == 0, "loop");
	n_joined = n_last_words = n_refused = 0;
	refused[0] = '\0';
	refuse_join = false;
	start_head(0);
}

static inline void free_links(void)
{
	for (int i = 0; i < WORLD_ENDS; i++) {
		members[i].link = link_free(members[i].link);
		heads[i].link = link_free(heads[i].link);
	}
}

static inline void world_teardown(void)
{
	free_links();
	head = link_listen_free(head);
	loop = loop_free(loop);
}

/* A peer that is none: see link_raw.h. */
static inline int raw_connect(int port)
{
	struct link_addresses a = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0, "socket");
	link_channel_tune(fd, 0);
	must(connect(fd, (struct sockaddr *)&a.at[0], sizeof(struct sockaddr_in)) == 0, "connect");
	return fd;
}
