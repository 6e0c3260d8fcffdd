/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a ring side by side, each of which sleeps whenever it likes and for as long as
 * nobody wakes it: a wake-up that is lost is a test that hangs. ELASTICD_TEST_MESSAGES has it go on
 * for longer.
 */
#include "common/ring.h"

#include "tests/unit/random.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVER INT64_MAX

struct end {
	struct ring ring;
	int fd; /* the socket */
	uint32_t seed;
	uint32_t messages;
	uint32_t most; /* bytes of a message */
};

static struct end server, client;
static int fd;

/* Message n of a direction: text without a NUL, and a NUL behind it. */
static size_t make_message(uint32_t n, uint32_t most, char *text)
{
	uint32_t seed = n * 2 + 1;
	size_t len = 1 + next_random(&seed) % most;

	if (next_random(&seed) % 4)
		len = 1 + len % 32;
	for (size_t i = 0; i < len; i++)
		text[i] = (char)('0' + (n + i) % 64);
	text[len] = '\0';
	return len + 1;
}

static void await_socket(const struct end *e)
{
	struct pollfd p = { .fd = e->fd, .events = POLLIN };

	must(poll(&p, 1, -1) == 1, "poll");
}

static void ring_bell(const struct end *e)
{
	must(send(e->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN, "send");
}

/* --- the server's end: what comes goes back */

/* Bells are all that comes there. */
static void take_bells(const struct end *e)
{
	char bells[64];

	while (recv(e->fd, bells, sizeof(bells), MSG_DONTWAIT) > 0)
		;
}

static void server_sleeps(struct end *e)
{
	if (!ring_sleep(&e->ring))
		return;
	await_socket(e);
	take_bells(e);
	ring_wake(&e->ring);
}

/* Some over the socket. */
static void server_answers(struct end *e, const char *text, size_t len)
{
	if (next_random(&e->seed) % 8) {
		must(ring_write(&e->ring, text, len) == 0, "an answer finds room");
		if (ring_tell(&e->ring))
			ring_bell(e);
		return;
	}
	ring_spill(&e->ring);
	if (ring_tell(&e->ring) && next_random(&e->seed) % 2)
		ring_bell(e);
	while (len) {
		ssize_t n = send(e->fd, text, len, MSG_NOSIGNAL);

		must(n > 0, "send");
		text += n;
		len -= (size_t)n;
	}
}

static void *run_server(void *arg)
{
	static char text[RING_BYTES];
	struct end *e = arg;
	size_t have = 0;

	for (uint32_t i = 0; i < e->messages;) {
		int n = ring_read(&e->ring, text + have, sizeof(text) - have);

		must(n >= 0, "the server reads");
		have += (size_t)n;
		if (have && !text[have - 1]) {
			server_answers(e, text, have);
			have = 0;
			i++;
		} else if (n == 0 && next_random(&e->seed) % 4 == 0) {
			server_sleeps(e);
		}
	}
	ring_close(&e->ring);
	if (ring_tell(&e->ring))
		ring_bell(e);
	return NULL;
}

/* --- the client's end */

static void client_waits(struct end *e)
{
	if (next_random(&e->seed) % 3) {
		must(ring_await(&e->ring, next_random(&e->seed) % 64, EVER) == 1, "await");
	} else if (ring_on_socket(&e->ring)) {
		await_socket(e);
		ring_runs(&e->ring);
	}
}

/* Bells before it are left out. The one behind it says that the ring is closed. */
static size_t answer_of_socket(struct end *e, char *text, size_t room)
{
	size_t have = 0;

	while (!have || text[have - 1]) {
		ssize_t n = recv(e->fd, text + have, room - have, MSG_PEEK);
		const char *end = n > 0 ? memchr(text + have, '\0', (size_t)n) : NULL;

		must(n > 0, "recv");
		if (end)
			n = end + 1 - (text + have);
		must(recv(e->fd, text + have, (size_t)n, 0) == n, "recv");
		if (have || n > 1)
			have += (size_t)n;
	}
	return have;
}

static void drop_bells(const struct end *e)
{
	char byte;

	while (recv(e->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && !byte)
		must(recv(e->fd, &byte, 1, 0) == 1, "recv");
}

static size_t client_hears(struct end *e, char *text, size_t room)
{
	size_t have = 0;

	for (;;) {
		int n = ring_read(&e->ring, text + have, room - have);

		must(n >= 0, "the client reads");
		have += (size_t)n;
		if (have && !text[have - 1])
			return have;
		if (ring_spilled(&e->ring)) {
			must(!have, "an answer goes one way");
			return answer_of_socket(e, text, room);
		}
		if (n == 0) {
			client_waits(e);
			drop_bells(e);
		}
	}
}

/* All of them through the ring. */
static void client_says(struct end *e, const char *text, size_t len)
{
	must(ring_write(&e->ring, text, len) == 0, "a call finds room");
	if (ring_bell_due(&e->ring))
		ring_bell(e);
}

static void *run_client(void *arg)
{
	static char text[RING_BYTES], back[RING_BYTES];
	struct end *e = arg;

	for (uint32_t i = 0; i < e->messages; i++) {
		size_t len = make_message(i, e->most, text);

		client_says(e, text, len);
		must(client_hears(e, back, sizeof(back)) == len, "the length comes back");
		must(memcmp(text, back, len) == 0, "the bytes come back");
	}
	while (!ring_closed(&e->ring))
		client_waits(e);
	must(ring_ready(&e->ring) == 0, "nothing else comes");
	return NULL;
}

/* --- both */

static uint32_t messages_of(uint32_t usual)
{
	const char *more = getenv("ELASTICD_TEST_MESSAGES");

	return more ? (uint32_t)strtoul(more, NULL, 10) : usual;
}

static void setup(void)
{
	int p[2];

	server = client = (struct end){ .messages = messages_of(4000), .most = 2000 };
	server.seed = 1;
	client.seed = 2;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	server.fd = p[0];
	client.fd = p[1];
	ck_assert_int_eq(ring_new(&server.ring, &fd), 0);
	client.ring = server.ring;
}

static void teardown(void)
{
	ring_fini(&server.ring);
	close(server.fd);
	close(client.fd);
	close(fd);
}

/* The same memory at the same addresses, for those who watch accesses of threads. */
static void open_in_place(void)
{
	client.ring = (struct ring){
		.own = server.ring.other,
		.other = server.ring.own,
		.out = (unsigned char *)server.ring.in,
		.in = server.ring.out,
	};
}

static void run_threads(void)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, run_server, &server), 0);
	run_client(&client);
	pthread_join(thread, NULL);
}

START_TEST(two_threads_lose_no_message_and_no_wake_up)
{
	open_in_place();
	run_threads();
}
END_TEST

START_TEST(messages_of_any_length_pass)
{
	open_in_place();
	server.messages /= 10;
	client.messages /= 10;
	client.most = RING_BYTES - 1;
	run_threads();
}
END_TEST

START_TEST(two_processes_lose_no_message_and_no_wake_up)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		must(ring_open(&client.ring, fd) == 0, "open");
		run_client(&client);
		ring_fini(&client.ring);
		_exit(0);
	}
	run_server(&server);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* The client sees each answer before it sleeps or is woken, with nothing else to tell it. */
static void *run_echo_of_one(void *arg)
{
	struct end *e = arg;
	char byte;

	for (uint32_t i = 0; i < e->messages;) {
		int n = ring_read(&e->ring, &byte, 1);

		must(n >= 0, "the server reads");
		if (n == 0) {
			if (i % 3)
				server_sleeps(e);
			continue;
		}
		i++;
		must(ring_write(&e->ring, &byte, 1) == 0, "an answer finds room");
		must(!ring_tell(&e->ring), "the client waits for the ring alone");
	}
	return NULL;
}

START_TEST(who_waits_for_the_ring_alone_is_woken_each_time)
{
	pthread_t thread;
	char byte = 'x', back;

	open_in_place();
	ck_assert_int_eq(pthread_create(&thread, NULL, run_echo_of_one, &server), 0);
	for (uint32_t i = 0; i < client.messages; i++) {
		client_says(&client, &byte, 1);
		must(ring_await(&client.ring, i % 5 ? 0 : 100, EVER) == 1, "await");
		must(ring_read(&client.ring, &back, 1) == 1, "the client reads");
	}
	pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ring_waits");
	TCase *t = tcase_create("ring_waits");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 300);
	tcase_add_test(t, two_threads_lose_no_message_and_no_wake_up);
	tcase_add_test(t, messages_of_any_length_pass);
	tcase_add_test(t, two_processes_lose_no_message_and_no_wake_up);
	tcase_add_test(t, who_waits_for_the_ring_alone_is_woken_each_time);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
