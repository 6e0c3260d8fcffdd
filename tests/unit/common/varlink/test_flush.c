/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that do not wait for the next turn of the loop. */
#include "tests/unit/run.h"
#include "tests/unit/varlink_demo.h"

#define REPLY "{'parameters':{'key':'x'}}\n"

static int peer;

static void setup(void)
{
	struct varlink_options opt = demo_options();

	demo_start(&opt);
	peer = new_peer();
}

static void teardown(void)
{
	close_fd(peer);
	demo_stop();
}

static void keep_two(void)
{
	for (int i = 0; i < 2; i++)
		call_method(peer, DEMO "Keep", "{}", "");
	turn();
	ck_assert_int_eq(n_kept, 2);
}

/* The number of bytes that have come to fd without a turn of the loop. */
static size_t come(int fd)
{
	char data[256];
	ssize_t n = recv(fd, data, sizeof(data), MSG_DONTWAIT);

	return n < 0 ? 0 : (size_t)n;
}

START_TEST(a_flush_sends_answers_at_once)
{
	keep_two();
	answer_kept(0, "x");
	ck_assert_uint_eq(come(peer), 0);
	varlink_server_flush(server);
	ck_assert_uint_eq(come(peer), strlen(REPLY));
	varlink_server_flush(server);
	ck_assert_uint_eq(come(peer), 0);
	answer_kept(1, "x");
	ck_assert_str_eq(hear(peer), REPLY);
}
END_TEST

START_TEST(a_peer_that_vanishes_before_its_answers_ends_in_its_turn)
{
	keep_two();
	answer_kept(0, "x");
	peer = close_fd(peer);
	varlink_server_flush(server);
	ck_assert_int_eq(varlink_server_connections(server), 1);
	ck_assert_ptr_nonnull(kept[1]);
	turn();
	ck_assert_int_eq(varlink_server_connections(server), 0);
	ck_assert_ptr_null(kept[1]);
}
END_TEST

static int n_ahead, other = -1;

/* The first of the kept calls hears of every other answer before that leaves. */
static void ahead(void *arg)
{
	struct varlink_call *stream = kept[0];

	n_ahead++;
	ck_assert_uint_eq(come(other), 0);
	varlink_notify(stream, json_pack("{s:s}", "key", "told"));
	varlink_call_flush(stream);
	ck_assert_uint_gt(come(peer), 0);
}

START_TEST(listeners_are_sent_to_before_callers_are_answered)
{
	struct varlink_options opt = demo_options();

	demo_stop();
	close_fd(peer);
	opt.ahead = ahead;
	demo_start(&opt);
	peer = new_peer();
	other = new_peer();
	call_method(peer, DEMO "Keep", "{}", ",'more':true");
	turn();
	ck_assert_int_eq(n_kept, 1);
	ck_assert_int_eq(n_ahead, 0);
	call_method(other, DEMO "Keep", "{}", "");
	turn();
	ck_assert_int_eq(n_kept, 2);
	answer_kept(1, "x");
	ck_assert_int_eq(n_ahead, 0);
	turn();
	ck_assert_uint_eq(come(other), strlen(REPLY));
	ck_assert_int_eq(n_ahead, 1);
	/* A flush waits for no promise. */
	call_method(other, DEMO "Keep", "{}", "");
	turn();
	answer_kept(2, "x");
	varlink_server_flush(server);
	ck_assert_uint_eq(come(other), strlen(REPLY));
	ck_assert_int_eq(n_ahead, 1);
	other = close_fd(other);
}
END_TEST

static int n_leaving, handled_by_then;

static void leaving(void *arg)
{
	n_leaving++;
	handled_by_then = n_handled;
}

static void start_with_leaving(void)
{
	struct varlink_options opt = demo_options();

	demo_stop();
	opt.leaving = leaving;
	demo_start(&opt);
	n_leaving = handled_by_then = 0;
}

/* All calls of one turn are handled before the first answer leaves. */
START_TEST(answers_that_promise_something_leave_together)
{
	int peers[8];
	bool seen[8] = { false };
	int n = 0;

	start_with_leaving();
	for (int i = 0; i < 8; i++)
		peers[i] = new_peer();
	turn();
	for (int i = 0; i < 8; i++)
		call_method(peers[i], DEMO "Echo", "{'text':'x'}", "");
	while (n < 8) {
		int before = n_handled;

		loop_run_once(loop, true);
		for (int i = 0; i < 8; i++) {
			if (seen[i] || !come(peers[i]))
				continue;
			seen[i] = true;
			n++;
		}
		/* All of them are there, and none of them before leaving() ran. */
		ck_assert_int_eq(n, n_handled);
		ck_assert_int_eq(handled_by_then, n_handled);
		ck_assert_int_gt(n_handled, before);
	}
	for (int i = 0; i < 8; i++)
		close(peers[i]);
}
END_TEST

START_TEST(a_peer_that_sends_and_ends_its_side_gets_what_is_promised)
{
	int fd;

	start_with_leaving();
	fd = new_peer();
	for (int i = 0; i < 100; i++)
		call_method(fd, DEMO "Echo", "{'text':'x'}", "");
	ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
	ck_assert_uint_eq(strlen(hear(fd)), 100 * strlen("{'parameters':{'text':'x'}}\n") + 3);
	ck_assert_int_gt(n_leaving, 0);
	ck_assert_int_eq(handled_by_then, 100);
	turn();
	ck_assert_int_eq(varlink_server_connections(server), 0);
	close(fd);
}
END_TEST

START_TEST(a_flush_sends_kept_promises_at_once)
{
	int fd;

	start_with_leaving();
	fd = new_peer();
	call_method(fd, DEMO "Keep", "{}", "");
	turn();
	answer_kept(0, "x");
	ck_assert_int_eq(n_leaving, 0);
	varlink_server_flush(server);
	ck_assert_int_eq(n_leaving, 1);
	ck_assert_uint_eq(come(fd), strlen(REPLY));
	close(fd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_flush");
	TCase *t = tcase_create("varlink_flush");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, listeners_are_sent_to_before_callers_are_answered);
	tcase_add_test(t, a_flush_sends_answers_at_once);
	tcase_add_test(t, a_peer_that_vanishes_before_its_answers_ends_in_its_turn);
	tcase_add_test(t, answers_that_promise_something_leave_together);
	tcase_add_test(t, a_peer_that_sends_and_ends_its_side_gets_what_is_promised);
	tcase_add_test(t, a_flush_sends_kept_promises_at_once);
	suite_add_tcase(s, t);
	return suite_run(s);
}
