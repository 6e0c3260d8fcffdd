/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay between a member and its head that cuts the connection after a given number of bytes, in
 * either direction: after every one that a session has. Each message must be handled once, in
 * order, which world_message() checks.
 */
#include "tests/unit/child.h"
#include "tests/unit/link_world.h"
#include "tests/unit/run.h"

struct pipe {
	int fd[2]; /* of the member's side, of the head's */
	struct loop_fd *watch[2];
	size_t passed[2]; /* bytes from the member, from the head */
};

static struct {
	int fd, port;
	struct loop_fd *watch;
	struct pipe *pipe; /* NULL: there is no connection */
	int from;	   /* of which side bytes count towards the cut */
	size_t after;	   /* that many */
	int cuts;	   /* still to be made */
	bool reset;	   /* by RST, which loses what is under way; else by FIN */
	size_t most[2];	   /* bytes that one connection had */
} relay;

static void unplug(void)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };
	struct pipe *p = relay.pipe;

	if (!p)
		return;
	relay.pipe = NULL;
	for (int i = 0; i < 2; i++) {
		loop_fd_free(p->watch[i]);
		if (relay.reset)
			setsockopt(p->fd[i], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(p->fd[i]);
	}
	free(p);
}

static bool cut_is_due(const struct pipe *p)
{
	return relay.cuts && p->passed[relay.from] >= relay.after;
}

static void cut(void)
{
	relay.cuts--;
	unplug();
}

/* At most so many bytes may still go. */
static size_t room(const struct pipe *p, int i, size_t most)
{
	size_t left = relay.after - p->passed[i];

	return relay.cuts && i == relay.from && left < most ? left : most;
}

static void on_bytes(int fd, int events, void *arg)
{
	static char data[65536];
	struct pipe *p = relay.pipe;
	int i = fd == p->fd[1];
	ssize_t n = recv(fd, data, room(p, i, sizeof(data)), MSG_DONTWAIT);

	if (n <= 0) {
		unplug();
		return;
	}
	if (send(p->fd[!i], data, (size_t)n, MSG_NOSIGNAL) != n) {
		unplug();
		return;
	}
	p->passed[i] += (size_t)n;
	if (p->passed[i] > relay.most[i])
		relay.most[i] = p->passed[i];
	if (cut_is_due(p))
		cut();
}

static void on_member(int fd, int events, void *arg)
{
	struct pipe *p = calloc(1, sizeof(*p));

	unplug();
	p->fd[0] = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	must(p->fd[0] >= 0, "accept");
	link_channel_tune(p->fd[0], 0);
	p->fd[1] = raw_connect(head_port());
	relay.pipe = p;
	if (cut_is_due(p)) {
		for (int i = 0; i < 2; i++)
			p->watch[i] = NULL;
		cut();
		return;
	}
	for (int i = 0; i < 2; i++)
		must(loop_fd_new(loop, p->fd[i], LOOP_READ, on_bytes, NULL, &p->watch[i]) == 0,
			"watch");
}

static void setup(void)
{
	struct link_addresses a = loopback(0);
	socklen_t len = sizeof(struct sockaddr_in);

	world_setup();
	memset(&relay, 0, sizeof(relay));
	relay.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(bind(relay.fd, (struct sockaddr *)&a.at[0], len) == 0, "bind");
	must(listen(relay.fd, 8) == 0, "listen");
	must(getsockname(relay.fd, (struct sockaddr *)&a.at[0], &len) == 0, "name");
	relay.port = ntohs(((struct sockaddr_in *)&a.at[0])->sin_port);
	must(loop_fd_new(loop, relay.fd, LOOP_READ, on_member, NULL, &relay.watch) == 0, "watch");
}

static void teardown(void)
{
	unplug();
	loop_fd_free(relay.watch);
	close(relay.fd);
	world_teardown();
}

static void say_some(int n)
{
	for (int i = 0; i < n; i++) {
		say(&members[0]);
		if (n_joined)
			say(&heads[0]);
	}
}

/* One link, from its beginning to its end in order, with the cuts that the relay is to make. */
static void session(void)
{
	n_joined = 0;
	start_member(0, relay.port);
	say_some(2);
	UNTIL(n_joined);
	say_some(2);
	settle(0);
	must(n_joined == 1, "joined once");
	must(link_send(heads[0].link, "End", NULL) == 0, "end");
	UNTIL(!strcmp(members[0].last, "End"));
	must(link_send(members[0].link, "Bye", NULL) == 0, "bye");
	link_finish(members[0].link, WORLD_LIMIT_MS);
	UNTIL(!strcmp(heads[0].last, "Bye"));
	link_finish(heads[0].link, WORLD_LIMIT_MS);
	UNTIL(members[0].ends && heads[0].ends);
	must(members[0].ended_well, "the member's end");
	free_links();
	unplug();
}

/* The head may not hear that its last acknowledgement arrived, but the member has ended then. */
static void cut_everywhere(int times, bool reset, size_t stride)
{
	session();
	for (int from = 0; from < 2; from++) {
		size_t most = relay.most[from];

		must(most > 500, "a session of some bytes");
		for (size_t after = 0; after <= most; after += stride) {
			relay.from = from;
			relay.after = after;
			relay.cuts = times;
			relay.reset = reset;
			session();
		}
	}
	relay.cuts = 0;
}

START_TEST(a_cut_after_every_byte_loses_and_repeats_nothing)
{
	cut_everywhere(1, false, (size_t)walk_length(1, 3, 1));
}
END_TEST

START_TEST(a_reset_after_every_byte_loses_and_repeats_nothing)
{
	cut_everywhere(1, true, (size_t)walk_length(1, 3, 1));
}
END_TEST

START_TEST(three_cuts_in_a_row_lose_and_repeat_nothing)
{
	cut_everywhere(3, true, getenv("ELASTIC_ALL") ? 1 : 5);
}
END_TEST

START_TEST(cuts_at_random_lose_and_repeat_nothing)
{
	for (uint32_t walk = 1; walk <= 20; walk++) {
		uint32_t seed = walk;

		relay.cuts = 0;
		n_joined = 0;
		start_member(0, relay.port);
		UNTIL(members[0].ups && heads[0].ups);
		for (int i = 0; i < 40; i++) {
			relay.from = (int)(next_random(&seed) % 2);
			relay.after = next_random(&seed) % 1500;
			if (relay.pipe)
				relay.after += relay.pipe->passed[relay.from];
			relay.reset = next_random(&seed) % 2;
			relay.cuts = 1;
			say_some((int)(next_random(&seed) % 12));
			turns((int)(next_random(&seed) % 20));
			loop_pass(loop, next_random(&seed) % 60);
			if (next_random(&seed) % 4 == 0)
				unplug();
		}
		relay.cuts = 0;
		settle(0);
		must(heads[0].got > 100, "many messages");
		must(members[0].waits > 5, "many cuts");
		free_links();
		unplug();
	}
}
END_TEST

START_TEST(a_link_resumes_after_the_connection_was_lost)
{
	n_joined = 0;
	start_member(0, relay.port);
	UNTIL(members[0].ups && heads[0].ups);
	unplug();
	UNTIL(heads[0].waits && members[0].waits);
	say_some(3);
	UNTIL(members[0].ups == 2 && heads[0].ups == 2);
	settle(0);
	ck_assert_str_eq(members[0].why.text, "the other side closed the connection");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("link_relay");
	TCase *t = tcase_create("link_relay");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_cut_after_every_byte_loses_and_repeats_nothing);
	tcase_add_test(t, a_reset_after_every_byte_loses_and_repeats_nothing);
	tcase_add_test(t, three_cuts_in_a_row_lose_and_repeat_nothing);
	tcase_add_test(t, cuts_at_random_lose_and_repeat_nothing);
	tcase_add_test(t, a_link_resumes_after_the_connection_was_lost);
	suite_add_tcase(s, t);
	return suite_run(s);
}
