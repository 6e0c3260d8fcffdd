/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The played agent's end of a ring, and a worker that has just come to ask for one. */

#include "common/ring.h"
#include "tests/unit/fake_handle.h"

#include <sched.h>

enum { CALLS_BEFORE = 8 }; /* by the socket alone */

#define SHARE "{'method':'io.elasticd.Worker.Share','parameters':{'version':1}}"
#define SHARED "{'parameters':{'version':1,'ring_bytes':16384,'mirror':false}}"
#define SHARED_BOTH "{'parameters':{'version':1,'ring_bytes':16384,'mirror':true}}"
#define PUT "{'method':'io.elasticd.Worker.Put','parameters':{'key':'k','value':'v'}}"
#define PUT_DONE "{'parameters':{'revision':1}}"
#define GET "{'method':'io.elasticd.Worker.Get','parameters':{'key':'k','wait':true}}"
#define GET_DONE "{'parameters':{'entry':{'key':'k','value':'v','revision':1}}}"

static struct ring ring;
static int ring_fd, bells; /* the socket of the connection that has the ring */

static inline void setup_share(void)
{
	agent_start();
	unsetenv("ELASTICD_SHARE");
	h = handle_open(&fd);
	bells = fd;
	ck_assert_int_eq(ring_new(&ring, &ring_fd), 0);
}

static inline void teardown_share(void)
{
	teardown();
	close_fd(ring_fd);
	ring_fini(&ring);
}

static inline void puts_text(struct worker *me)
{
	me->r = elasticd_put(me->h, "k", "v", 1, 0);
}

/* One over the socket s. */
static inline void one_call(int s)
{
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(agent_hear(s), PUT);
	agent_say(s, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
}

static inline void calls_before(int s)
{
	for (int i = 0; i < CALLS_BEFORE; i++)
		one_call(s);
}

/* len bytes of text, with n descriptors on the first. */
static inline void agent_hands_over_some(
	int s, const char *text, size_t len, const int *fds, size_t n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	char *copy = strdup(text);
	struct iovec v = { copy, len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	for (char *c = copy; *c; c++)
		if (*c == '\'')
			*c = '"';
	if (n) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, n * sizeof(int));
	}
	ck_assert_int_eq(sendmsg(s, &m, MSG_NOSIGNAL), (ssize_t)v.iov_len);
	free(copy);
}

static inline void agent_hands_over(int s, const char *text, const int *fds, size_t n)
{
	agent_hands_over_some(s, text, strlen(text) + 1, fds, n);
}

/* A bell. */
static inline void agent_is_rung(void)
{
	char c;

	agent_await(bells);
	ck_assert_int_eq(recv(bells, &c, 1, 0), 1);
	ck_assert_int_eq(c, '\0');
}

/* What the socket has beside that. */
static inline void no_other_bytes(void)
{
	char c;
	ssize_t n;

	while ((n = recv(bells, &c, 1, MSG_DONTWAIT)) == 1)
		ck_assert_int_eq(c, '\0');
	ck_assert(n < 0 && errno == EAGAIN);
}

/* The next message in the ring. */
static inline const char *ring_hear(void)
{
	static char text[RING_BYTES + 1];
	size_t n = 0;

	do {
		while (ring_ready(&ring) == 0)
			if (ring_sleep(&ring))
				agent_is_rung();
		ring_wake(&ring);
		ck_assert_int_eq(ring_read(&ring, text + n, 1), 1);
		if (text[n] == '"')
			text[n] = '\'';
	} while (text[n++]);
	return text;
}

/* A worker that was just about to sleep may have seen by itself that the ring is closed, and have
 * hung up since. */
static inline void ring_told(void)
{
	if (ring_tell(&ring))
		ck_assert(send(bells, "", 1, MSG_NOSIGNAL) == 1 || errno == EPIPE);
}

static inline void ring_say(const char *text)
{
	char *copy = strdup(text);

	for (char *c = copy; *c; c++)
		if (*c == '\'')
			*c = '"';
	ck_assert_int_eq(ring_write(&ring, copy, strlen(text) + 1), 0);
	free(copy);
	ring_told();
}

/* The call after those before, which a ring is asked for. */
static inline void share_begins(void)
{
	calls_before(fd);
	worker_start(&w, puts_text, h);
	ck_assert_str_eq(agent_hear(fd), SHARE);
}

/* It goes through the ring, which the agent has handed over. */
static inline void share_ends(void)
{
	ck_assert_str_eq(ring_hear(), PUT);
	ring_say(PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
	no_other_bytes();
}

/* The worker's connection has a ring. */
static inline void shares(void)
{
	share_begins();
	agent_hands_over(fd, SHARED, &ring_fd, 1);
	share_ends();
}

static inline void one_call_by_ring(void)
{
	worker_start(&w, puts_text, h);
	share_ends();
}

/* Until the worker has gone to sleep on its socket. */
static inline void until_on_socket(void)
{
	while (!ring_tell(&ring))
		sched_yield();
}

/* The worker has hung up, and said nothing before but bells. */
static inline void no_more_on(int s)
{
	char c;
	ssize_t n;

	do {
		agent_await(s);
		n = recv(s, &c, 1, 0);
		ck_assert(n <= 0 || c == '\0');
	} while (n > 0);
}

static inline void put_again_on_a_new_one(void)
{
	fd = close_fd(fd);
	fd = agent_greets();
	ck_assert_str_eq(agent_hear(fd), PUT);
	agent_say(fd, PUT_DONE);
	ck_assert_int_eq(worker_end(&w), 0);
}

/* The call is in the ring, and nothing of it was taken. */
static inline void call_lies_there(void)
{
	shares();
	ck_assert(ring_sleep(&ring));
	worker_start(&w, puts_text, h);
	agent_await(fd);
}
