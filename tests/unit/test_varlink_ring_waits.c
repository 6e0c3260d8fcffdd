/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that runs as servers do, and clients that sleep until they are answered, for as long as
 * it takes: a wake-up that is lost is a test that hangs. ELASTICD_TEST_MESSAGES has it go on for
 * longer.
 */
#include "tests/unit/random.h"
#include "tests/unit/ring_peer.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum { CLIENTS = 6 };

struct client {
	struct ring_peer peer;
	uint32_t seed;
	unsigned calls;
	pthread_t thread;
};

static struct client clients[CLIENTS];
static atomic_int running;
static int stop[2]; /* a byte has the server end */

static void wait_for_socket(const struct ring_peer *p)
{
	struct pollfd f = { .fd = p->fd, .events = POLLIN };

	must(poll(&f, 1, -1) == 1, "poll");
}

static void client_waits(struct client *c)
{
	struct ring *r = &c->peer.ring;

	if (next_random(&c->seed) % 3) {
		must(ring_await(r, next_random(&c->seed) % 200, INT64_MAX) == 1, "await");
	} else if (ring_on_socket(r)) {
		wait_for_socket(&c->peer);
		ring_runs(r);
	}
}

/* One read of the socket: messages that have come whole; bells are none. */
static unsigned hear_socket(struct client *c, bool *in_message)
{
	char text[4096];
	unsigned n = 0;
	ssize_t got = recv(c->peer.fd, text, sizeof(text), MSG_DONTWAIT);

	must(got != 0, "the server is there");
	for (ssize_t i = 0; i < got; i++) {
		n += !text[i] && *in_message;
		*in_message = text[i];
	}
	return n;
}

static void hear_answers(struct client *c, unsigned want)
{
	bool spilled = false, in_message = false;
	char text[4096];

	while (want) {
		unsigned before = want;
		int n = ring_read(&c->peer.ring, text, sizeof(text));

		must(n >= 0, "read");
		for (int i = 0; i < n; i++)
			want -= !text[i];
		if (n > 0)
			continue;
		spilled |= ring_spilled(&c->peer.ring);
		if (spilled)
			wait_for_socket(&c->peer);
		want -= hear_socket(c, &in_message);
		if (want == before && !spilled)
			client_waits(c);
	}
}

static const char echo[] = "{\"method\":\"org.test.demo.Echo\",\"parameters\":{\"text\":\"a\"}}";
static const char big[] = "{\"method\":\"org.test.demo.Big\",\"parameters\":{\"bytes\":20000}}";

static void *run_client(void *arg)
{
	struct client *c = arg;

	for (unsigned i = 0; i < c->calls; i++) {
		unsigned n = next_random(&c->seed) % 10 ? 1 : 1 + next_random(&c->seed) % 100;
		char text[100 * sizeof(big)];
		size_t len = 0;

		for (unsigned k = 0; k < n; k++) {
			bool is_big = next_random(&c->seed) % 50 == 0;
			size_t size = is_big ? sizeof(big) : sizeof(echo);

			memcpy(text + len, is_big ? big : echo, size);
			len += size;
		}
		if (next_random(&c->seed) % 16 == 0) {
			must(send(c->peer.fd, text, len, MSG_NOSIGNAL) == (ssize_t)len, "send");
			for (bool in = false; n;) {
				wait_for_socket(&c->peer);
				n -= hear_socket(c, &in);
			}
			continue;
		}
		must(ring_write(&c->peer.ring, text, len) == 0, "write");
		if (ring_bell_due(&c->peer.ring))
			must(send(c->peer.fd, "", 1, MSG_NOSIGNAL) == 1, "bell");
		hear_answers(c, n);
		/* Some think for a while: the server goes to sleep, by and by. */
		for (uint32_t k = next_random(&c->seed) % 30; i % 8 == 0 && k; k--)
			sched_yield();
	}
	if (atomic_fetch_sub(&running, 1) == 1)
		must(write(stop[1], "", 1) == 1, "stop");
	return NULL;
}

static void on_stop(int fd, int events, void *arg)
{
	loop_quit(loop, 7);
}

static unsigned calls_of(unsigned usual)
{
	const char *more = getenv("ELASTICD_TEST_MESSAGES");

	return more ? (unsigned)strtoul(more, NULL, 10) : usual;
}

static void no_promise(void *arg)
{
}

START_TEST(many_clients_wait_for_ever_and_none_does)
{
	struct varlink_options opt = ring_options();
	struct loop_fd *watch;

	opt.leaving = _i & 1 ? no_promise : NULL;
	if (_i & 2)
		opt.limits.calls_in_flight = 3;
	demo_start(&opt);
	ck_assert_int_eq(pipe(stop), 0);
	ck_assert_int_eq(loop_fd_new(loop, stop[0], LOOP_READ, on_stop, NULL, &watch), 0);
	atomic_store(&running, CLIENTS);
	for (unsigned i = 0; i < CLIENTS; i++) {
		clients[i] = (struct client){ .peer = new_ring_peer(), .seed = i + 1 };
		clients[i].calls = calls_of(100);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(
			pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
	ck_assert_int_eq(loop_run(loop), 7);
	loop_fd_free(watch);
	for (unsigned i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i].thread, NULL);
		end_ring_peer(&clients[i].peer);
	}
	come_to_rest();
	ck_assert_int_eq(varlink_server_connections(server), 0);
	close(stop[0]);
	close(stop[1]);
	demo_stop();
}
END_TEST

static void *run_last(void *arg)
{
	struct ring_peer *p = arg;

	must(ring_await(&p->ring, 0, INT64_MAX) == 1, "await");
	must(ring_closed(&p->ring), "closed");
	return NULL;
}

START_TEST(who_waits_hears_of_the_end)
{
	struct varlink_options opt = ring_options();
	struct ring_peer p;
	pthread_t thread;

	for (int i = 0; i < 200; i++) {
		demo_start(&opt);
		p = new_ring_peer();
		ask(&p, KEEP);
		turn();
		ck_assert_int_eq(pthread_create(&thread, NULL, run_last, &p), 0);
		if (i % 2)
			sched_yield();
		demo_stop();
		pthread_join(thread, NULL);
		end_ring_peer(&p);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_ring_waits");
	TCase *t = tcase_create("varlink_ring_waits");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, many_clients_wait_for_ever_and_none_does, 0, 4);
	tcase_add_test(t, who_waits_hears_of_the_end);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
