/* SPDX-License-Identifier: Apache-2.0 */
/* Connections with a ring: limits, rest, what ends them, and peers that keep to no
 * rule. */
#include "tests/unit/random.h"
#include "tests/unit/ring_peer.h"

static int n_leaving, leaving_after;

static void leaving(void *arg)
{
	n_leaving++;
	leaving_after = n_handled;
}

/* --- limits */

START_TEST(calls_over_the_limit_wait_in_the_ring)
{
	struct varlink_options opt = ring_options();

	opt.limits.calls_in_flight = 2;
	restart_with_peer(&opt);
	for (int i = 0; i < 40; i++)
		put(&peer, KEEP, true);
	bell(&peer);
	for (int i = 0; i < 40; i++) {
		turn();
		ck_assert_int_eq(n_kept, i + 2 < 40 ? i + 2 : 40);
		if (i % 10 == 0)
			come_to_rest();
		answer_kept(i, "x");
	}
	turn();
	for (int i = 0; i < 40; i++) {
		char text[sizeof(KEPT("x"))];

		ck_assert_int_eq(ring_read(&peer.ring, text, sizeof(text) - 1), sizeof(text) - 1);
	}
	ck_assert_str_eq(hear_ring(&peer), "");
	come_to_rest();
}
END_TEST

/* The server is awake or asleep when the ring is filled, and when there is room for a call. */
START_TEST(a_ring_that_was_left_alone_is_looked_at_again)
{
	struct varlink_options opt = ring_options();
	struct ring_peer other;

	opt.limits.calls_in_flight = 1;
	restart_with_peer(&opt);
	other = new_ring_peer();
	for (int i = 0; i < 8; i++) {
		int n = n_kept;

		ask(&peer, KEEP);
		turn();
		if (_i & 1)
			come_to_rest();
		if (_i & 8)
			ask(&other, ECHO("a"));
		if (_i & 16)
			hear_ring(&other);
		/* Some ring a bell, as they are told to. */
		put(&peer, KEEP, true);
		bell(&peer);
		if (_i & 2)
			come_to_rest();
		ck_assert_int_eq(n_kept, n + 1);
		answer_kept(n, "x");
		if (_i & 4)
			come_to_rest();
		turn();
		ck_assert_int_eq(n_kept, n + 2);
		answer_kept(n + 1, "y");
		ck_assert_str_eq(hear_ring(&peer), KEPT("x") KEPT("y"));
		hear_ring(&other);
	}
	end_ring_peer(&other);
}
END_TEST

START_TEST(one_who_reads_nothing_is_not_read_either)
{
	struct varlink_options opt = ring_options();
	size_t n, in_ring;
	int before;

	opt.limits.queued_bytes = 100000;
	restart_with_peer(&opt);
	for (int i = 0; i < 10; i++)
		put(&peer, BIG(20000), true);
	for (int i = 0; i < 60; i++)
		put(&peer, BIG(200000), true);
	bell(&peer);
	come_to_rest();
	before = n_handled;
	ck_assert_int_lt(before, 71);
	ck_assert_int_gt(ring_ready(&peer.ring) + before, 1);
	ck_assert_int_eq(ring_ready(&peer.ring), 0);
	answer_bytes(hear(peer.fd), &n);
	for (int i = 0; i < 100 && n_handled < 71; i++) {
		size_t more;

		answer_bytes(hear(peer.fd), &more);
		n += more;
	}
	answer_bytes(hear_ring(&peer), &in_ring);
	ck_assert_uint_eq(n, 70);
	ck_assert_uint_eq(in_ring, 0);
	come_to_rest();
}
END_TEST

/* --- awake and asleep */

START_TEST(a_server_with_rings_comes_to_rest)
{
	struct ring_peer others[20];

	for (int i = 0; i < 20; i++)
		others[i] = new_ring_peer();
	come_to_rest();
	for (int n = 0; n < 5; n++) {
		for (int i = 0; i < 20; i++)
			ask(&others[i], ECHO("a"));
		for (int i = 0; i < 20; i++)
			ck_assert_str_eq(hear_ring(&others[i]), ECHOED("a"));
		/* All at the same time, sooner or later. */
		for (int i = 0; i < 20; i++)
			while (!ring_bell_due(&others[i].ring))
				loop_run_once(loop, false);
		come_to_rest();
	}
	for (int i = 0; i < 20; i++)
		end_ring_peer(&others[i]);
	come_to_rest();
}
END_TEST

START_TEST(a_ring_that_is_not_used_is_not_looked_at_and_wakes_by_its_bell)
{
	struct ring_peer quiet = new_ring_peer();

	ask(&quiet, ECHO("a"));
	ck_assert_str_eq(hear_ring(&quiet), ECHOED("a"));
	for (int i = 0; i < 3000; i++) {
		ask(&peer, ECHO("b"));
		ck_assert_str_eq(hear_ring(&peer), ECHOED("b"));
	}
	ck_assert(ring_bell_due(&quiet.ring));
	/* While the server is awake, too. */
	ask(&peer, ECHO("b"));
	turn();
	ck_assert(ring_bell_due(&quiet.ring));
	ask(&quiet, ECHO("c"));
	ck_assert_str_eq(hear_ring(&quiet), ECHOED("c"));
	ck_assert_str_eq(hear_ring(&peer), ECHOED("b"));
	end_ring_peer(&quiet);
}
END_TEST

/* --- the end */

START_TEST(what_was_asked_before_the_end_is_handled)
{
	for (int i = 0; i < 100; i++)
		put(&peer, ECHO("a"), true);
	/* No bell: it died before. */
	peer.fd = close_fd(peer.fd);
	turn();
	ck_assert_int_eq(n_handled, 101);
	turn();
	ck_assert_int_eq(varlink_server_connections(server), 0);
	ck_assert(ring_closed(&peer.ring));
}
END_TEST

START_TEST(who_says_no_more_is_answered)
{
	for (int i = 0; i < 50; i++)
		put(&peer, ECHO("a"), true);
	put(&peer, KEEP, true);
	ck_assert_int_eq(shutdown(peer.fd, SHUT_WR), 0);
	come_to_rest();
	ck_assert_int_eq(n_handled, 52);
	answer_kept(0, "x");
	ck_assert_ptr_nonnull(strstr(hear_ring(&peer), KEPT("x")));
	ck_assert(ring_closed(&peer.ring));
	ck_assert_str_eq(hear(peer.fd), "EOF");
}
END_TEST

START_TEST(what_lies_in_rings_can_be_had_at_once)
{
	come_to_rest();
	for (int i = 0; i < 200; i++)
		put(&peer, ECHO("a"), true);
	varlink_server_receive(server);
	ck_assert_int_eq(n_handled, 201);
	ck_assert_ptr_nonnull(strstr(hear_ring(&peer), ECHOED("a")));
	ask(&peer, ECHO("b"));
	ck_assert_ptr_nonnull(strstr(hear_ring(&peer), ECHOED("b")));
	come_to_rest();
}
END_TEST

START_TEST(a_server_that_drains_answers_what_is_open)
{
	bool drained = false;

	ask(&peer, KEEP);
	turn();
	varlink_server_drain(server, on_rest, &drained);
	put(&peer, ECHO("a"), true);
	bell(&peer);
	turn();
	ck_assert(!drained);
	ck_assert(!ring_closed(&peer.ring));
	answer_kept(0, "x");
	ck_assert_str_eq(hear_ring(&peer), KEPT("x"));
	ck_assert(drained);
	ck_assert(ring_closed(&peer.ring));
	ck_assert_int_eq(n_handled, 2);
	ck_assert(ring_untouched(&peer.ring, strlen(ECHO("a")) + 1));
}
END_TEST

START_TEST(a_server_that_ends_says_so)
{
	ask(&peer, KEEP);
	turn();
	ck_assert(!ring_closed(&peer.ring));
	answer_kept(0, "x");
	server = varlink_server_free(server);
	ck_assert(ring_closed(&peer.ring));
	ck_assert_int_eq(ring_await(&peer.ring, 0, 0), 1);
	ck_assert_int_eq(ring_ready(&peer.ring), strlen(KEPT("x")));
}
END_TEST

START_TEST(promises_are_kept_before_answers_leave_by_the_ring)
{
	struct varlink_options opt = ring_options();

	opt.leaving = leaving;
	restart_with_peer(&opt);
	come_to_rest();
	n_leaving = 0;
	for (int i = 0; i < 10; i++)
		put(&peer, ECHO("a"), true);
	bell(&peer);
	varlink_server_receive(server);
	ck_assert_int_eq(ring_ready(&peer.ring), 0);
	ck_assert_int_eq(n_leaving, 0);
	turn();
	ck_assert_int_eq(n_leaving, 1);
	ck_assert_int_eq(leaving_after, n_handled);
	ck_assert_int_eq(ring_ready(&peer.ring), 10 * strlen(ECHOED("a")));
	ck_assert_uint_ge(varlink_server_sent(server), 10 * strlen(ECHOED("a")));
}
END_TEST

/* --- a peer that keeps to no rule */

static unsigned char *raw_memory(struct ring_peer *p)
{
	return (unsigned char *)p->ring.memory;
}

START_TEST(who_counts_wrong_is_not_served)
{
	const int words[] = { 256, 260 }; /* what it has sent, and taken */
	struct ring_peer bad = new_ring_peer();

	memset(raw_memory(&bad) + words[_i], 0xa5, 4);
	say_bytes(bad.fd, "", 1);
	if (_i == 1) {
		memcpy(raw_memory(&bad) + 4096 + RING_BYTES, ECHO("x"), strlen(ECHO("x")) + 1);
		put(&bad, ECHO("a"), true);
	}
	ck_assert_ptr_nonnull(strstr(hear(bad.fd), "EOF"));
	ck_assert(ring_closed(&bad.ring));
	ck_assert_int_eq(varlink_server_connections(server), 1);
	ask(&peer, ECHO("b"));
	ck_assert_str_eq(hear_ring(&peer), ECHOED("b"));
	end_ring_peer(&bad);
	come_to_rest();
}
END_TEST

/* All words of the first page that mean something, and calls in between. */
START_TEST(scribbles_harm_no_other_connection)
{
	static const char call[] =
		"{\"method\":\"org.test.demo.Echo\",\"parameters\":{\"text\":\"a\"}}";
	uint32_t seed = (uint32_t)_i + 1;

	for (int n = 0; n < 40; n++) {
		struct ring_peer bad = new_ring_peer();

		for (int i = 0; i < 60; i++) {
			uint32_t at = next_random(&seed) % 384, value = next_random(&seed);

			if (next_random(&seed) % 3 == 0)
				raw_memory(&bad)[at] = (unsigned char)value;
			if (next_random(&seed) % 20 == 0)
				raw_memory(&bad)[4096 + value % (2 * RING_BYTES)] ^= 1;
			bad.ring.sent += next_random(&seed) % 10 ? 0 : value;
			if (ring_write(&bad.ring, call, sizeof(call)) < 0)
				bad.ring.sent = 0;
			(void)!send(bad.fd, value % 2 ? "" : "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (value % 5 == 0)
				turn();
		}
		ask(&peer, ECHO("b"));
		ck_assert_str_eq(hear_ring(&peer), ECHOED("b"));
		end_ring_peer(&bad);
	}
	come_to_rest();
	ck_assert_int_eq(varlink_server_connections(server), 1);
	ck_assert_int_eq(count_fds(), n_fds + 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_ring_end");
	TCase *t = tcase_create("varlink_ring_end");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup_peer, teardown_peer);
	tcase_set_timeout(t, 300);
	tcase_add_test(t, calls_over_the_limit_wait_in_the_ring);
	tcase_add_loop_test(t, a_ring_that_was_left_alone_is_looked_at_again, 0, 32);
	tcase_add_test(t, one_who_reads_nothing_is_not_read_either);
	tcase_add_test(t, a_server_with_rings_comes_to_rest);
	tcase_add_test(t, a_ring_that_is_not_used_is_not_looked_at_and_wakes_by_its_bell);
	tcase_add_test(t, what_was_asked_before_the_end_is_handled);
	tcase_add_test(t, who_says_no_more_is_answered);
	tcase_add_test(t, what_lies_in_rings_can_be_had_at_once);
	tcase_add_test(t, a_server_that_drains_answers_what_is_open);
	tcase_add_test(t, a_server_that_ends_says_so);
	tcase_add_test(t, promises_are_kept_before_answers_leave_by_the_ring);
	tcase_add_loop_test(t, who_counts_wrong_is_not_served, 0, 2);
	tcase_add_loop_test(t, scribbles_harm_no_other_connection, 0, 8);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
