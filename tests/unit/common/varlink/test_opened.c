/* SPDX-License-Identifier: Apache-2.0 */
/* The pointer that opened() gives a connection, its refusals, and receiving ahead of the loop. */
#include "tests/unit/run.h"
#include "tests/unit/varlink_demo.h"

static char users[4];
static int n_opened, n_closed, n_allowed;
static void *last_closed;

static int on_opened(const struct varlink_peer *peer, void **ret_user, void *arg)
{
	ck_assert_int_eq(peer->pid, getpid());
	if (n_opened == n_allowed)
		return 1;
	*ret_user = &users[n_opened++];
	return 0;
}

static void on_user_closed(void *user, void *arg)
{
	n_closed++;
	last_closed = user;
}

static struct varlink_options opened_options(int allowed)
{
	struct varlink_options opt = demo_options();

	n_opened = n_closed = 0;
	n_allowed = allowed;
	last_closed = NULL;
	opt.opened = on_opened;
	opt.closed = on_user_closed;
	return opt;
}

START_TEST(a_connection_keeps_its_user_for_all_its_calls)
{
	struct varlink_options opt = opened_options(2);
	int a, b;

	demo_start(&opt);
	a = new_peer();
	b = new_peer();
	call_method(a, DEMO "Keep", "{}", "");
	call_method(b, DEMO "Keep", "{}", "");
	call_method(b, DEMO "Keep", "{}", "");
	turn();
	ck_assert_int_eq(n_kept, 3);
	ck_assert_ptr_eq(varlink_call_user(kept[0]), &users[0]);
	ck_assert_ptr_eq(varlink_call_user(kept[1]), &users[1]);
	ck_assert_ptr_eq(varlink_call_user(kept[2]), &users[1]);
	varlink_call_set_user(kept[1], &users[3]);
	ck_assert_ptr_eq(varlink_call_user(kept[2]), &users[3]);
	close(b);
	turn();
	ck_assert_int_eq(n_gone, 2);
	ck_assert_int_eq(n_closed, 1);
	ck_assert_ptr_eq(last_closed, &users[3]);
	demo_stop();
	ck_assert_int_eq(n_closed, 2);
	ck_assert_ptr_eq(last_closed, &users[0]);
	close(a);
}
END_TEST

START_TEST(closed_does_not_run_for_a_connection_without_a_user)
{
	struct varlink_options opt = opened_options(1);
	int a;

	demo_start(&opt);
	a = new_peer();
	call_method(a, DEMO "Keep", "{}", "");
	turn();
	varlink_call_set_user(kept[0], NULL);
	close(a);
	turn();
	ck_assert_int_eq(n_gone, 1);
	ck_assert_int_eq(n_closed, 0);
	demo_stop();
}
END_TEST

START_TEST(a_refused_peer_gets_the_limits_error)
{
	struct varlink_options opt = opened_options(0);
	int p[2];

	demo_start(&opt);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p), 0);
	ck_assert_int_lt(varlink_server_add_connection(server, p[1], &err), 0);
	ck_assert_str_eq(hear(p[0]), "{'error':'org.test.demo.ResourceExhausted',"
				     "'parameters':{'message':'the limit of 4096 connections is "
				     "reached','limit':4096}}\nEOF");
	ck_assert_int_eq(n_closed, 0);
	close(p[0]);
	demo_stop();
}
END_TEST

START_TEST(a_message_that_is_too_long_gets_the_limits_error)
{
	struct varlink_options opt = opened_options(1);
	int a;

	opt.limits.message_bytes = 16;
	demo_start(&opt);
	a = new_peer();
	call_method(a, DEMO "Keep", "{}", "");
	ck_assert_str_eq(hear(a), "{'error':'org.test.demo.ResourceExhausted',"
				  "'parameters':{'message':'the limit of 16 message_bytes is "
				  "reached','limit':16}}\nEOF");
	close(a);
	demo_stop();
}
END_TEST

START_TEST(bytes_in_the_sockets_are_handled_at_once)
{
	struct varlink_options opt = opened_options(3);
	int a, b, c;

	demo_start(&opt);
	a = new_peer();
	b = new_peer();
	c = new_peer();
	for (int i = 0; i < 30; i++)
		call_method(a, DEMO "Echo", "{'text':'x'}", ",'oneway':true");
	call_method(b, DEMO "Echo", "{'text':'y'}", "");
	close(a); /* its sender is gone already */
	varlink_server_receive(server);
	ck_assert_int_eq(n_handled, 31);
	ck_assert_int_eq(n_closed, 1);
	ck_assert_str_eq(hear(b), "{'parameters':{'text':'y'}}\n");
	ck_assert_str_eq(hear(c), "");
	varlink_server_receive(server);
	ck_assert_int_eq(n_handled, 31);
	close(b);
	close(c);
	demo_stop();
}
END_TEST

START_TEST(receiving_ahead_takes_what_one_socket_holds)
{
	struct varlink_options opt = opened_options(1);
	static char text[90000];
	int a;

	demo_start(&opt);
	a = new_peer();
	n_handled = 0;
	memset(text, ' ', sizeof(text));
	memcpy(text, "{\"method\":\"org.test.demo.Echo\",\"parameters\":{\"text\":\"x\"", 55);
	text[sizeof(text) - 3] = text[sizeof(text) - 2] = '}';
	text[sizeof(text) - 1] = '\0';
	say_bytes(a, text, sizeof(text));
	varlink_server_receive(server);
	ck_assert_int_eq(n_handled, 1);
	ck_assert_str_eq(hear(a), "{'parameters':{'text':'x'}}\n");
	close(a);
	demo_stop();
}
END_TEST

static int from_inside(struct varlink_call *call, json_t *parameters, void *arg)
{
	n_handled++;
	varlink_server_receive(server);
	return varlink_reply(call, NULL);
}

START_TEST(a_handler_receives_nothing_ahead)
{
	static const struct varlink_method methods[] = { { "Wrong", from_inside },
		{ "Echo", demo_echo }, { NULL, NULL } };
	struct varlink_options opt = opened_options(2);
	int a, b;

	opt.methods = methods;
	demo_start(&opt);
	a = new_peer();
	b = new_peer();
	call_method(a, DEMO "Wrong", "{}", "");
	call_method(b, DEMO "Echo", "{'text':'x'}", "");
	varlink_server_receive(server);
	ck_assert_int_eq(n_handled, 2);
	close(a);
	close(b);
	demo_stop();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_opened");
	TCase *tc = tcase_create("all");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_connection_keeps_its_user_for_all_its_calls);
	tcase_add_test(tc, closed_does_not_run_for_a_connection_without_a_user);
	tcase_add_test(tc, a_refused_peer_gets_the_limits_error);
	tcase_add_test(tc, a_message_that_is_too_long_gets_the_limits_error);
	tcase_add_test(tc, bytes_in_the_sockets_are_handled_at_once);
	tcase_add_test(tc, receiving_ahead_takes_what_one_socket_holds);
	tcase_add_test(tc, a_handler_receives_nothing_ahead);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
