/* SPDX-License-Identifier: Apache-2.0 */
/* Connections without a socket. */
#include "tests/unit/run.h"
#include "tests/unit/varlink_demo.h"

static struct varlink_connection *carried;
static char said[1 << 15]; /* what the server sent, one line each, with ' for " */
static bool takes;	   /* whether it takes more after each message */
static int n_ended, n_closed, n_shut;
static bool ends_first; /* the server ends the connection, not its peer */
static int user;

static bool on_send(void *arg, const char *text, size_t len)
{
	size_t n = strlen(said);

	ck_assert_uint_lt(n + len + 2, sizeof(said));
	for (size_t i = 0; i < len; i++)
		said[n++] = text[i] == '"' ? '\'' : text[i];
	said[n++] = '\n';
	said[n] = '\0';
	return takes;
}

static void on_ended(void *arg)
{
	n_ended++;
	carried = NULL;
}

static void on_closed(void *u, void *arg)
{
	ck_assert_ptr_eq(u, &user);
	/* It may free what on_ended() needs. */
	ck_assert(!ends_first || n_ended);
	n_closed++;
}

static void on_shut(void *u, void *arg)
{
	n_shut++;
}

static void setup_with(struct varlink_options opt)
{
	const struct varlink_carrier carrier = { .send = on_send, .ended = on_ended };
	const struct varlink_peer peer = { .uid = 7 };

	opt.closed = on_closed;
	opt.shut = on_shut;
	demo_start(&opt);
	n_ended = n_closed = n_shut = 0;
	ends_first = false;
	takes = true;
	*said = '\0';
	ck_assert_int_eq(varlink_carried_new(server, &peer, &user, &carrier, &carried), 0);
}

static void setup(void)
{
	setup_with(demo_options());
}

static void call(const char *text)
{
	char line[512];
	size_t n = 0;

	for (; text[n]; n++)
		line[n] = text[n] == '\'' ? '"' : text[n];
	ck_assert_int_eq(varlink_carried_feed(carried, line, n), 0);
}

static const char *heard(void)
{
	static char text[sizeof(said)];

	turn();
	strcpy(text, said);
	*said = '\0';
	return text;
}

#define KEEP "{'method':'org.test.demo.Keep'}"
#define ECHO_A "{'method':'org.test.demo.Echo','parameters':{'text':'a'}}"
#define ECHOED "{'parameters':{'text':'a'}}\n"
#define REPLY(key) "{'parameters':{'key':'" key "'}}\n"

START_TEST(a_call_is_answered_by_the_carrier)
{
	call(ECHO_A);
	ck_assert_str_eq(said, ""); /* never inside feed */
	ck_assert_str_eq(heard(), ECHOED);
	ck_assert_int_eq(varlink_server_connections(server), 1);
}
END_TEST

START_TEST(answers_leave_in_the_order_of_the_calls)
{
	call(KEEP);
	call(ECHO_A);
	ck_assert_str_eq(heard(), "");
	answer_kept(0, "0");
	ck_assert_str_eq(heard(), REPLY("0") ECHOED);
}
END_TEST

START_TEST(a_carrier_that_takes_no_more_gets_the_rest_later)
{
	takes = false;
	for (int i = 0; i < 3; i++)
		call(ECHO_A);
	ck_assert_str_eq(heard(), ECHOED);
	ck_assert_str_eq(heard(), "");
	varlink_carried_ready(carried);
	ck_assert_str_eq(heard(), ECHOED);
	takes = true;
	varlink_carried_ready(carried);
	ck_assert_str_eq(heard(), ECHOED);
}
END_TEST

START_TEST(a_carrier_that_is_held_gets_nothing)
{
	varlink_carried_hold(carried);
	call(ECHO_A);
	ck_assert_str_eq(heard(), "");
	varlink_carried_ready(carried);
	ck_assert_str_eq(heard(), ECHOED);
}
END_TEST

static int n_uncongested;

static void on_uncongested(void *arg)
{
	n_uncongested++;
}

START_TEST(streams_pause_while_the_carrier_takes_nothing)
{
	struct varlink_options opt = demo_options();

	demo_stop();
	opt.limits.queued_bytes = 100;
	setup_with(opt);
	takes = false;
	n_uncongested = 0;
	call("{'method':'org.test.demo.Keep','more':true}");
	turn();
	ck_assert(!varlink_call_congested(kept[0], on_uncongested, NULL));
	for (int i = 0; i < 5; i++)
		varlink_notify(kept[0], json_pack("{s:s}", "key", "0123456789012345678901234567"));
	turn();
	ck_assert(varlink_call_congested(kept[0], on_uncongested, NULL));
	takes = true;
	varlink_carried_ready(carried);
	turn();
	ck_assert_int_eq(n_uncongested, 1);
}
END_TEST

START_TEST(calls_are_gone_when_the_peer_is)
{
	call(KEEP);
	turn();
	varlink_carried_close(carried);
	ck_assert_int_eq(n_gone, 0); /* never inside close */
	turn();
	ck_assert_int_eq(n_gone, 1);
	ck_assert_int_eq(n_closed, 1);
	ck_assert_int_eq(n_ended, 0);
	ck_assert_int_eq(varlink_server_connections(server), 0);
}
END_TEST

START_TEST(calls_that_have_come_are_handled_before_what_comes_after_them)
{
	call(KEEP);
	for (int i = 0; i < 300; i++)
		call(ECHO_A);
	varlink_carried_receive(carried);
	ck_assert_int_eq(n_handled, 64); /* as many as may wait for an answer */
	answer_kept(0, "0");
	varlink_carried_receive(carried);
	ck_assert_int_eq(n_handled, 301);
	varlink_carried_close(carried);
	turn();
	ck_assert_int_eq(varlink_server_connections(server), 0);
}
END_TEST

START_TEST(a_message_that_is_no_call_ends_the_connection_there)
{
	ends_first = true;
	call("no call");
	varlink_carried_receive(carried);
	ck_assert_ptr_null(carried);
	ck_assert_int_eq(n_closed, 1);
}
END_TEST

START_TEST(a_peer_that_sends_no_more_gets_its_answers)
{
	call(KEEP);
	varlink_carried_shut(carried);
	turn();
	ck_assert_int_eq(n_shut, 1);
	answer_kept(0, "0");
	ck_assert_str_eq(heard(), REPLY("0"));
	ck_assert_int_eq(n_ended, 1);
	ck_assert_int_eq(n_closed, 1);
}
END_TEST

START_TEST(the_server_tells_the_carrier_of_the_end)
{
	ends_first = true;
	call("no call");
	turn();
	ck_assert_int_eq(n_ended, 1);
	ck_assert_int_eq(n_closed, 1);
}
END_TEST

START_TEST(the_end_of_the_server_ends_it)
{
	call(KEEP);
	turn();
	server = varlink_server_free(server);
	ck_assert_int_eq(n_gone, 1);
	ck_assert_int_eq(n_ended, 1);
}
END_TEST

START_TEST(the_server_has_a_limit_of_them)
{
	const struct varlink_carrier carrier = { .send = on_send, .ended = on_ended };
	struct varlink_options opt = demo_options();
	struct varlink_connection *second;

	demo_stop();
	opt.limits.connections = 1;
	setup_with(opt);
	ck_assert_int_eq(varlink_carried_new(server, &(struct varlink_peer){ .uid = 7 }, NULL,
				 &carrier, &second),
		-EUSERS);
	ck_assert_int_eq(n_ended, 0);
	call(ECHO_A);
	ck_assert_str_eq(heard(), ECHOED);
}
END_TEST

/* --- answers that wait --- */

static const char promise_idl[] = "interface org.test.promise\n"
				  "method Echo(text: string, n: ?int) -> (text: string)\n"
				  "error Internal (message: string, errno: ?int)\n";
static const struct varlink_method promise_methods[] = { { "Echo", demo_echo }, { NULL, NULL } };

static uint64_t records, kept_elsewhere; /* so many are made; of these are kept */
static int n_asked;
static bool lost;

static int on_holds(void *arg, uint64_t *mark)
{
	n_asked++;
	if (!*mark)
		*mark = records;
	return lost ? -1 : *mark > kept_elsewhere;
}

static void setup_promising(void)
{
	static const struct varlink_interface_options more[] = {
		{ .idl = promise_idl, .methods = promise_methods, .promises = true },
		{ .idl = NULL }
	};
	struct varlink_options opt = demo_options();

	demo_stop();
	records = 1, kept_elsewhere = 0, n_asked = 0, lost = false;
	opt.more_interfaces = more;
	opt.holds = on_holds;
	setup_with(opt);
}

static void keep_elsewhere(uint64_t up_to)
{
	kept_elsewhere = up_to;
	varlink_server_kept(server);
}

#define PROMISE(text) "{'method':'org.test.promise.Echo','parameters':{'text':'" text "'}}"
#define PROMISED(text) "{'parameters':{'text':'" text "'}}\n"

START_TEST(an_answer_waits_until_what_it_promises_is_kept)
{
	setup_promising();
	call(PROMISE("1"));
	ck_assert_str_eq(heard(), "");
	records = 2;
	call(PROMISE("2"));
	call(ECHO_A); /* behind them */
	ck_assert_str_eq(heard(), "");
	keep_elsewhere(1);
	ck_assert_str_eq(heard(), PROMISED("1"));
	records = 3;
	call(PROMISE("3"));
	ck_assert_str_eq(heard(), "");
	keep_elsewhere(2);
	ck_assert_str_eq(heard(), PROMISED("2") ECHOED);
	keep_elsewhere(3);
	ck_assert_str_eq(heard(), PROMISED("3"));
}
END_TEST

START_TEST(answers_of_other_interfaces_do_not_wait)
{
	setup_promising();
	call(ECHO_A);
	ck_assert_str_eq(heard(), ECHOED);
	ck_assert_int_eq(n_asked, 0);
}
END_TEST

/* The call before it is answered later. */
START_TEST(an_answer_that_was_kept_back_for_an_earlier_one_waits_like_others)
{
	setup_promising();
	call(KEEP);
	call(PROMISE("1"));
	ck_assert_str_eq(heard(), "");
	answer_kept(0, "0");
	ck_assert_str_eq(heard(), "");
	keep_elsewhere(1);
	ck_assert_str_eq(heard(), REPLY("0") PROMISED("1"));
}
END_TEST

START_TEST(an_answer_whose_promise_is_lost_is_not_sent)
{
	setup_promising();
	ends_first = true;
	call(PROMISE("1"));
	ck_assert_str_eq(heard(), "");
	lost = true;
	varlink_server_kept(server);
	ck_assert_str_eq(heard(), "");
	ck_assert_int_eq(n_ended, 1);
}
END_TEST

START_TEST(a_carrier_that_takes_no_more_gets_what_may_leave_and_no_more)
{
	setup_promising();
	call(PROMISE("1"));
	call(PROMISE("2"));
	ck_assert_str_eq(heard(), "");
	takes = false;
	keep_elsewhere(1);
	ck_assert_str_eq(heard(), PROMISED("1"));
	records = 2;
	call(PROMISE("3"));
	takes = true;
	varlink_carried_ready(carried);
	ck_assert_str_eq(heard(), PROMISED("2"));
	keep_elsewhere(2);
	ck_assert_str_eq(heard(), PROMISED("3"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_carried");
	TCase *t = tcase_create("carried");

	tcase_add_checked_fixture(t, setup, demo_stop);
	tcase_add_test(t, a_call_is_answered_by_the_carrier);
	tcase_add_test(t, answers_leave_in_the_order_of_the_calls);
	tcase_add_test(t, a_carrier_that_takes_no_more_gets_the_rest_later);
	tcase_add_test(t, a_carrier_that_is_held_gets_nothing);
	tcase_add_test(t, streams_pause_while_the_carrier_takes_nothing);
	tcase_add_test(t, calls_are_gone_when_the_peer_is);
	tcase_add_test(t, calls_that_have_come_are_handled_before_what_comes_after_them);
	tcase_add_test(t, a_message_that_is_no_call_ends_the_connection_there);
	tcase_add_test(t, a_peer_that_sends_no_more_gets_its_answers);
	tcase_add_test(t, the_server_tells_the_carrier_of_the_end);
	tcase_add_test(t, the_end_of_the_server_ends_it);
	tcase_add_test(t, the_server_has_a_limit_of_them);
	tcase_add_test(t, an_answer_waits_until_what_it_promises_is_kept);
	tcase_add_test(t, answers_of_other_interfaces_do_not_wait);
	tcase_add_test(t, an_answer_that_was_kept_back_for_an_earlier_one_waits_like_others);
	tcase_add_test(t, an_answer_whose_promise_is_lost_is_not_sent);
	tcase_add_test(t, a_carrier_that_takes_no_more_gets_what_may_leave_and_no_more);
	suite_add_tcase(s, t);
	return suite_run(s);
}
