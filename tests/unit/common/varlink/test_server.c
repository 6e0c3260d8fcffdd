/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/run.h"
#include "tests/unit/varlink_demo.h"

static int peer;

static void start(const struct varlink_options *opt)
{
	demo_start(opt);
	peer = new_peer();
}

static void setup(void)
{
	struct varlink_options opt = demo_options();

	start(&opt);
}

static void teardown(void)
{
	close_fd(peer);
	demo_stop();
}

/* Starts over with another limit or hook. */
static void restart(const struct varlink_options *opt)
{
	teardown();
	start(opt);
}

static void vanish(void)
{
	peer = close_fd(peer);
	turn();
}

#define ECHO_TEXT "{'parameters':{'text':'a'}}\n"
#define NOTED(key) "{'parameters':{'key':'" key "'},'continues':true}\n"
#define REPLY(key) "{'parameters':{'key':'" key "'}}\n"

static void keep(int n)
{
	for (int i = 0; i < n; i++)
		call_method(peer, DEMO "Keep", "{}", "");
	turn();
}

static int note(int i, const char *key)
{
	return varlink_notify(kept[i], json_pack("{s:s}", "key", key));
}

START_TEST(a_call_is_answered)
{
	call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	ck_assert_str_eq(hear(peer), ECHO_TEXT);
	say(peer, "{'method':'org.test.demo.Echo','parameters':{'text':'a','n':null},'more':null}");
	ck_assert_str_eq(hear(peer), ECHO_TEXT);
}
END_TEST

START_TEST(parameters_that_are_left_out_are_empty)
{
	say(peer, "{'method':'org.test.demo.Keep'}");
	say(peer, "{'method':'org.test.demo.Keep','parameters':null}");
	turn();
	ck_assert_int_eq(n_kept, 2);
}
END_TEST

START_TEST(answers_leave_in_the_order_of_the_calls)
{
	keep(3);
	call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	turn();
	ck_assert_int_eq(n_handled, 4);
	answer_kept(1, "1");
	ck_assert_str_eq(hear(peer), "");
	answer_kept(0, "0");
	ck_assert_str_eq(hear(peer), REPLY("0") REPLY("1"));
	answer_kept(2, "2");
	ck_assert_str_eq(hear(peer), REPLY("2") ECHO_TEXT);
}
END_TEST

START_TEST(a_stream_behind_an_open_call_is_held_back)
{
	keep(1);
	call_method(peer, DEMO "Keep", "{}", ",'more':true");
	turn();
	ck_assert(varlink_call_more(kept[1]));
	ck_assert_int_eq(note(1, "x"), 0);
	ck_assert_str_eq(hear(peer), "");
	answer_kept(0, "0");
	ck_assert_int_eq(note(1, "y"), 0);
	ck_assert_str_eq(hear(peer), REPLY("0") NOTED("x") NOTED("y"));
	ck_assert_int_eq(note(1, "z"), 0);
	answer_kept(1, "end");
	ck_assert_str_eq(hear(peer), NOTED("z") REPLY("end"));
}
END_TEST

START_TEST(a_notification_needs_more)
{
	keep(1);
	ck_assert_int_eq(note(0, "x"), -EBADE);
	ck_assert_str_eq(hear(peer), "");
	ck_assert_int_eq(varlink_error_expected_more(kept[0]), 0);
	ck_assert_str_eq(
		hear(peer), "{'error':'org.varlink.service.ExpectedMore','parameters':{}}\n");
}
END_TEST

START_TEST(a_oneway_call_is_handled_and_never_answered)
{
	call_method(peer, DEMO "Echo", "{'text':'a'}", ",'oneway':true");
	call_method(peer, DEMO "Nothing", "{}", ",'oneway':true");
	call_method(peer, DEMO "Keep", "{}", ",'oneway':true");
	call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	ck_assert_str_eq(hear(peer), "");
	ck_assert_int_eq(n_handled, 3);
	ck_assert(varlink_call_oneway(kept[0]));
	ck_assert_int_eq(note(0, "x"), -EBADE);
	answer_kept(0, "x");
	ck_assert_str_eq(hear(peer), ECHO_TEXT);
}
END_TEST

START_TEST(oneway_calls_of_a_peer_that_left_are_handled)
{
	for (int i = 0; i < 10; i++)
		call_method(peer, DEMO "Echo", "{'text':'a'}", ",'oneway':true");
	call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	call_method(peer, DEMO "Echo", "{'text':'a'}", ",'oneway':true");
	vanish();
	ck_assert_int_eq(n_handled, 12);
	ck_assert_int_eq(varlink_server_connections(server), 0);
}
END_TEST

static void assert_service_error(
	const char *method, const char *parameters, const char *error, const char *answer)
{
	char expected[256];

	snprintf(expected, sizeof(expected), "{'error':'org.varlink.service.%s','parameters':%s}\n",
		error, answer);
	call_method(peer, method, parameters, "");
	ck_assert_str_eq(hear(peer), expected);
}

START_TEST(unknown_calls_get_the_standard_errors)
{
	assert_service_error("Echo", "{}", "InterfaceNotFound", "{'interface':'Echo'}");
	assert_service_error("a.b.Echo", "{}", "InterfaceNotFound", "{'interface':'a.b'}");
	assert_service_error(DEMO "No", "{}", "MethodNotFound", "{'method':'org.test.demo.No'}");
	assert_service_error(
		DEMO "Refused", "{}", "MethodNotFound", "{'method':'org.test.demo.Refused'}");
	assert_service_error(
		DEMO "Undone", "{}", "MethodNotImplemented", "{'method':'org.test.demo.Undone'}");
	assert_service_error(DEMO "Echo", "{}", "InvalidParameter", "{'parameter':'text'}");
	assert_service_error(
		DEMO "Echo", "{'text':'a','n':1.5}", "InvalidParameter", "{'parameter':'n'}");
	assert_service_error(
		DEMO "Echo", "{'text':'a','z':1}", "InvalidParameter", "{'parameter':'z'}");
	assert_service_error(DEMO "Echo", "[]", "InvalidParameter", "{'parameter':'parameters'}");
	call_method(peer, DEMO "Echo", "{'text':'a'}", ",'upgrade':true");
	ck_assert_str_eq(hear(peer), "{'error':'org.varlink.service.InvalidParameter',"
				     "'parameters':{'parameter':'upgrade'}}\n");
	ck_assert_int_eq(n_handled, 0);
}
END_TEST

START_TEST(a_failing_handler_is_answered_for)
{
	call_method(peer, DEMO "Fail", "{}", "");
	ck_assert_str_eq(hear(peer),
		"{'error':'org.test.demo.Internal',"
		"'parameters':{'message':'No space left on device','errno':28}}\n");
}
END_TEST

START_TEST(errors_carry_the_interface_and_their_parameters)
{
	keep(3);
	ck_assert_int_eq(varlink_error(kept[0], "Refused", json_pack("{s:s}", "why", "so")), 0);
	ck_assert_int_eq(varlink_error(kept[1], "org.other.Error", NULL), 0);
	ck_assert_int_eq(varlink_error_parameter(kept[2], "spec.roles"), 0);
	ck_assert_str_eq(hear(peer), "{'error':'org.test.demo.Refused','parameters':{'why':'so'}}\n"
				     "{'error':'org.other.Error','parameters':{}}\n"
				     "{'error':'org.varlink.service.InvalidParameter',"
				     "'parameters':{'parameter':'spec.roles'}}\n");
}
END_TEST

START_TEST(ready_text_is_sent_as_it_is)
{
	keep(1);
	ck_assert_int_eq(varlink_reply_text(kept[0], "{\"key\": \"x\"}trash", 12), 0);
	ck_assert_str_eq(hear(peer), "{'parameters':{'key': 'x'}}\n");
}
END_TEST

START_TEST(the_service_describes_itself)
{
	call_method(peer, "org.varlink.service.GetInfo", "{}", "");
	ck_assert_str_eq(hear(peer),
		"{'parameters':{'vendor':'Test','product':'demo','version':'1',"
		"'url':'https://demo.test',"
		"'interfaces':['org.varlink.service','org.test.demo']}}\n");
	call_method(peer, "org.varlink.service.GetInterfaceDescription",
		"{'interface':'org.test.demo'}", "");
	ck_assert_ptr_nonnull(strstr(hear(peer), "{'parameters':{'description':'interface org.test."
						 "demo\\nmethod Echo(text: string"));
	call_method(peer, "org.varlink.service.GetInterfaceDescription",
		"{'interface':'org.varlink.service'}", "");
	ck_assert_ptr_nonnull(strstr(hear(peer), "error ExpectedMore ()"));
	call_method(peer, "org.varlink.service.GetInterfaceDescription", "{'interface':'a.b'}", "");
	ck_assert_str_eq(hear(peer), "{'error':'org.varlink.service.InterfaceNotFound',"
				     "'parameters':{'interface':'a.b'}}\n");
}
END_TEST

START_TEST(an_invalid_call_ends_the_connection)
{
	static const char *const bad[] = { "", "{'method':}", "[]", "{}", "{'method':1}",
		"{'method':'a.b.C','method':'a.b.C'}", "{'method':'a.b.C','more':1}",
		"{'method':'a.b.C','oneway':'yes'}",
		"{'method':'a.b.C','more':true,'oneway':true}" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		say(peer, bad[i]);
		ck_assert_str_eq(hear(peer), "EOF");
		close(peer);
		peer = new_peer();
	}
	ck_assert_int_eq(varlink_server_connections(server), 1);
}
END_TEST

START_TEST(a_message_over_the_limit_is_answered_in_turn_and_ends_the_connection)
{
	struct varlink_options opt = demo_options();
	char big[300];

	opt.limits.message_bytes = 200;
	restart(&opt);
	keep(1);
	memset(big, 'x', sizeof(big));
	say_bytes(peer, big, sizeof(big));
	ck_assert_str_eq(hear(peer), "");
	answer_kept(0, "0");
	ck_assert_str_eq(hear(peer),
		REPLY("0") "{'error':'org.test.demo.ResourceExhausted','parameters'"
			   ":{'message':'the limit of 200 message_bytes is reached','limit':200}}\nEOF");
}
END_TEST

START_TEST(an_answer_may_be_longer_than_a_call_and_than_what_a_slow_reader_leaves)
{
	struct varlink_options opt = demo_options();
	_cleanup_free_ char *big = malloc(1 << 20);

	opt.limits.message_bytes = opt.limits.queued_bytes = 1000;
	restart(&opt);
	memset(big, 'x', 1 << 20);
	big[(1 << 20) - 1] = '\0';
	keep(1);
	ck_assert_int_eq(varlink_reply(kept[0], json_pack("{s:s}", "key", big)), 0);
	turn();
	ck_assert_int_eq(varlink_server_connections(server), 1);
	ck_assert_uint_gt(strlen(hear(peer)), 1 << 20);
}
END_TEST

START_TEST(an_answer_over_the_limit_becomes_an_error)
{
	struct varlink_options opt = demo_options();
	char big[300];

	opt.limits.reply_bytes = 200;
	restart(&opt);
	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = '\0';
	keep(1);
	ck_assert_int_eq(varlink_reply(kept[0], json_pack("{s:s}", "key", big)), -EMSGSIZE);
	call_method(peer, DEMO "Keep", "{}", ",'more':true");
	ck_assert_str_eq(hear(peer),
		"{'error':'org.test.demo.Internal','parameters':{'message':"
		"'the answer is longer than the limit of 200 bytes','errno':90}}\n");
	ck_assert_int_eq(note(1, big), -EMSGSIZE);
	ck_assert_int_eq(note(1, "x"), 0);
	ck_assert_str_eq(hear(peer), NOTED("x"));
}
END_TEST

START_TEST(a_peer_that_only_stops_sending_is_still_answered)
{
	keep(2);
	call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
	ck_assert_str_eq(hear(peer), "");
	answer_kept(0, "0");
	ck_assert_str_eq(hear(peer), REPLY("0"));
	ck_assert_int_eq(n_gone, 0);
	answer_kept(1, "1");
	ck_assert_str_eq(hear(peer), REPLY("1") ECHO_TEXT "EOF");
}
END_TEST

START_TEST(a_peer_that_vanishes_cancels_its_calls)
{
	int other = new_peer();

	keep(3);
	answer_kept(1, "1");
	call_method(other, DEMO "Keep", "{}", "");
	vanish();
	ck_assert_int_eq(n_gone, 2);
	ck_assert_int_eq(varlink_server_connections(server), 1);
	answer_kept(3, "3");
	ck_assert_str_eq(hear(other), REPLY("3"));
	close(other);
}
END_TEST

START_TEST(a_peer_that_vanishes_after_it_stopped_sending_is_noticed)
{
	keep(1);
	ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
	turn();
	ck_assert_int_eq(n_gone, 0);
	vanish();
	ck_assert_int_eq(n_gone, 1);
	ck_assert_int_eq(varlink_server_connections(server), 0);
}
END_TEST

START_TEST(a_peer_that_vanishes_with_unread_answers_is_noticed)
{
	call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	keep(1);
	ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
	turn();
	vanish();
	ck_assert_int_eq(n_gone, 1);
}
END_TEST

START_TEST(reading_pauses_at_the_limit_of_open_calls)
{
	struct varlink_options opt = demo_options();

	opt.limits.calls_in_flight = 4;
	restart(&opt);
	keep(10);
	ck_assert_int_eq(n_kept, 4);
	answer_kept(1, "1");
	turn();
	ck_assert_int_eq(n_kept, 4);
	answer_kept(0, "0");
	ck_assert_str_eq(hear(peer), REPLY("0") REPLY("1"));
	ck_assert_int_eq(n_kept, 6);
	keep(5);
	ck_assert_int_eq(n_kept, 6);
	vanish();
	ck_assert_int_eq(n_gone, 4);
}
END_TEST

START_TEST(calls_behind_the_limit_are_answered_after_the_peer_stopped_sending)
{
	struct varlink_options opt = demo_options();

	opt.limits.calls_in_flight = 1;
	restart(&opt);
	keep(3);
	ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
	for (int i = 0; i < 3; i++) {
		turn();
		ck_assert_int_eq(n_kept, i + 1);
		answer_kept(i, "x");
	}
	ck_assert_str_eq(hear(peer), REPLY("x") REPLY("x") REPLY("x") "EOF");
}
END_TEST

static int n_woken;

static void on_woken(void *arg)
{
	n_woken++;
}

/* Notifies call 0 with a kilobyte until it is congested; returns how often. */
static int fill(void)
{
	char kilobyte[1024];
	int n = 0;

	memset(kilobyte, 'x', sizeof(kilobyte));
	kilobyte[sizeof(kilobyte) - 1] = '\0';
	while (!varlink_call_congested(kept[0], on_woken, NULL)) {
		ck_assert_int_eq(note(0, kilobyte), 0);
		ck_assert_int_lt(++n, 10000);
	}
	return n;
}

static void start_stream(void)
{
	struct varlink_options opt = demo_options();

	n_woken = 0;
	opt.limits.queued_bytes = opt.limits.reply_bytes = 65536;
	restart(&opt);
	call_method(peer, DEMO "Keep", "{}", ",'more':true");
	turn();
}

START_TEST(a_slow_reader_is_congested_until_half_has_drained)
{
	int n;

	start_stream();
	n = fill();
	ck_assert_int_gt(n, 64);
	turn();
	ck_assert(varlink_call_congested(kept[0], on_woken, NULL));
	ck_assert_int_eq(n_woken, 0);
	hear(peer);
	ck_assert_int_eq(n_woken, 1);
	ck_assert(!varlink_call_congested(kept[0], on_woken, NULL));
	ck_assert_int_gt(fill(), 64);
}
END_TEST

START_TEST(a_stream_is_not_woken_before_half_has_drained)
{
	char text[40001];

	start_stream();
	keep(1);
	call_method(peer, DEMO "Keep", "{}", ",'more':true");
	call_method(peer, DEMO "Keep", "{}", ",'more':true");
	turn();
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	ck_assert_int_eq(note(3, text), 0);
	text[30000] = '\0';
	ck_assert_int_eq(note(2, text), 0);
	ck_assert(varlink_call_congested(kept[3], on_woken, NULL));
	answer_kept(0, "0");
	answer_kept(1, "1");
	hear(peer);
	ck_assert(!varlink_call_congested(kept[2], NULL, NULL));
	ck_assert_int_eq(n_woken, 0);
	answer_kept(2, "2");
	hear(peer);
	ck_assert_int_eq(n_woken, 1);
}
END_TEST

START_TEST(calls_that_wait_for_output_to_leave_need_no_further_input)
{
	struct varlink_options opt = demo_options();
	int p[2], small = 4096, answers = 0;

	opt.limits.queued_bytes = 100;
	restart(&opt);
	close(peer);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p), 0);
	ck_assert_int_eq(setsockopt(p[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	ck_assert_int_eq(varlink_server_add_connection(server, p[1], &err), 0);
	peer = p[0];
	for (int i = 0; i < 200; i++)
		call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	turn();
	ck_assert_int_lt(n_handled, 200);
	for (const char *s = hear(peer); (s = strchr(s, '\n')); s++)
		answers++;
	ck_assert_int_eq(answers, 200);
}
END_TEST

START_TEST(a_connection_that_is_not_read_leaves_the_loop_idle)
{
	struct loop_timer *timer;
	int turns = 0;

	keep(1);
	ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
	turn();
	n_woken = 0;
	ck_assert_int_eq(loop_timer_new(loop, on_woken, NULL, &timer), 0);
	loop_timer_arm(timer, 200);
	for (; !n_woken; turns++)
		loop_run_once(loop, true);
	/* A few, where the timer was early by the loop's coarse clock. */
	ck_assert_int_lt(turns, 20);
	loop_timer_free(timer);
}
END_TEST

START_TEST(a_peer_that_never_reads_is_cut_off_but_not_inside_a_notification)
{
	char kilobyte[1024];
	int r = 0;

	start_stream();
	fill();
	memset(kilobyte, 'x', sizeof(kilobyte));
	kilobyte[sizeof(kilobyte) - 1] = '\0';
	for (int i = 0; r == 0; i++) {
		ck_assert_int_lt(i, 1000);
		r = note(0, kilobyte);
	}
	ck_assert_int_eq(r, -ECONNRESET);
	ck_assert_int_eq(n_gone, 0);
	turn();
	ck_assert_int_eq(n_gone, 1);
	ck_assert_int_eq(varlink_server_connections(server), 0);
}
END_TEST

START_TEST(a_burst_is_no_fault_of_a_peer_that_reads)
{
	char kilobyte[1024];

	start_stream();
	memset(kilobyte, 'x', sizeof(kilobyte));
	kilobyte[sizeof(kilobyte) - 1] = '\0';
	for (int i = 0; i < 300; i++)
		ck_assert_int_eq(note(0, kilobyte), 0);
	answer_kept(0, "end");
	ck_assert_ptr_nonnull(strstr(hear(peer), REPLY("end")));
}
END_TEST

START_TEST(a_caller_that_does_not_read_its_answers_is_not_read_either)
{
	struct varlink_options opt = demo_options();
	char call[3000] = "{\"method\":\"org.test.demo.Echo\",\"parameters\":{\"text\":\"";
	size_t n = strlen(call);
	int sent = 0, answers = 0;

	opt.limits.queued_bytes = 1000;
	restart(&opt);
	memset(call + n, 'x', 2000);
	strcpy(call + n + 2000, "\"}}");
	n = strlen(call) + 1;
	while (send(peer, call, n, MSG_NOSIGNAL) == (ssize_t)n) {
		turn();
		ck_assert_int_lt(++sent, 5000);
	}
	ck_assert_int_lt(n_handled, sent);
	for (const char *s = hear(peer); (s = strchr(s, '\n')); s++)
		answers++;
	ck_assert_int_eq(answers, sent);
	ck_assert_int_eq(n_handled, sent);
}
END_TEST

static int authorize(struct varlink_call *call, const char *method, json_t *parameters, void *arg)
{
	const char *text = json_get_string(parameters, "text", "");

	ck_assert_str_eq(method, "Echo");
	ck_assert_str_eq(varlink_call_method(call), "Echo");
	ck_assert_ptr_eq(arg, &peer);
	if (!strcmp(text, "refuse"))
		varlink_error(call, "Refused", json_pack("{s:s}", "why", "told so"));
	return strcmp(text, "a") != 0;
}

START_TEST(authorization_comes_before_the_handler)
{
	struct varlink_options opt = demo_options();

	opt.authorize = authorize;
	opt.arg = &peer;
	restart(&opt);
	call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	call_method(peer, DEMO "Echo", "{'text':'refuse'}", "");
	call_method(peer, DEMO "Echo", "{'text':'forgot to answer'}", "");
	ck_assert_str_eq(hear(peer),
		ECHO_TEXT "{'error':'org.test.demo.Refused','parameters':{'why':'told so'}}\n"
			  "{'error':'org.varlink.service.PermissionDenied','parameters':{}}\n");
	ck_assert_int_eq(n_handled, 1);
	call_method(peer, "org.varlink.service.GetInfo", "{}", "");
	ck_assert_ptr_nonnull(strstr(hear(peer), "'vendor'"));
}
END_TEST

START_TEST(a_peer_that_pipelines_calls_lets_others_in_between)
{
	static const char call[] =
		"{\"method\":\"org.test.demo.Echo\",\"parameters\":{\"text\":\"a\"}}";
	int other = new_peer();
	char many[600 * sizeof(call)];

	for (int i = 0; i < 600; i++)
		memcpy(many + i * sizeof(call), call, sizeof(call));
	say_bytes(peer, many, sizeof(many));
	call_method(other, DEMO "Echo", "{'text':'a'}", "");
	loop_run_once(loop, false);
	ck_assert_int_gt(n_handled, 1);
	ck_assert_int_lt(n_handled, 200);
	ck_assert_str_eq(hear(other), ECHO_TEXT);
	turn();
	ck_assert_int_eq(n_handled, 601);
	close(other);
}
END_TEST

START_TEST(a_call_knows_its_peer)
{
	keep(1);
	ck_assert_int_eq(varlink_call_peer(kept[0])->pid, getpid());
	ck_assert_uint_eq(varlink_call_peer(kept[0])->uid, getuid());
	ck_assert_uint_eq(varlink_call_peer(kept[0])->gid, getgid());
}
END_TEST

static int n_drained;

static void on_drained(void *arg)
{
	n_drained++;
}

START_TEST(draining_answers_what_is_open_and_takes_nothing_new)
{
	int idle = new_peer(), p[2];

	n_drained = 0;
	keep(2);
	varlink_server_drain(server, on_drained, NULL);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	ck_assert_int_eq(varlink_server_add_connection(server, p[1], &err), -ESHUTDOWN);
	close(p[0]);
	call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	ck_assert_str_eq(hear(idle), "EOF");
	answer_kept(0, "0");
	ck_assert_str_eq(hear(peer), REPLY("0"));
	ck_assert_int_eq(n_drained, 0);
	answer_kept(1, "1");
	ck_assert_str_eq(hear(peer), REPLY("1") "EOF");
	ck_assert_int_eq(n_drained, 1);
	ck_assert_int_eq(n_handled, 2);
	close(idle);
}
END_TEST

START_TEST(draining_an_idle_server_ends_in_the_next_turn)
{
	n_drained = 0;
	vanish();
	varlink_server_drain(server, on_drained, NULL);
	ck_assert_int_eq(n_drained, 0);
	turn();
	ck_assert_int_eq(n_drained, 1);
}
END_TEST

START_TEST(freeing_the_server_sends_answers_and_runs_on_gone_of_open_calls)
{
	char text[256] = "";

	keep(3);
	answer_kept(0, "0");
	server = varlink_server_free(server);
	ck_assert_int_eq(n_gone, 2);
	ck_assert_int_gt(recv(peer, text, sizeof(text) - 1, 0), 0);
	ck_assert_str_eq(text, "{\"parameters\":{\"key\":\"0\"}}");
}
END_TEST

static void answer_the_others(void *arg)
{
	ck_assert_int_eq(varlink_reply(kept[1], NULL), -ECONNRESET);
	ck_assert_int_eq(note(2, "x"), -ECONNRESET);
	kept[1] = NULL;
}

START_TEST(an_on_gone_function_may_answer_other_calls_of_that_peer)
{
	keep(2);
	call_method(peer, DEMO "Keep", "{}", ",'more':true");
	turn();
	varlink_call_on_gone(kept[0], answer_the_others, NULL);
	vanish();
	ck_assert_ptr_null(kept[1]);
	ck_assert_int_eq(n_gone, 1);
}
END_TEST

START_TEST(answers_are_checked_where_that_is_asked_for)
{
	call_method(peer, DEMO "Wrong", "{}", "");
	ck_assert_str_eq(hear(peer), "{'parameters':{'n':'many'}}\n");
	varlink_server_check_replies(server, true);
	call_method(peer, DEMO "Wrong", "{}", "");
	ck_assert_str_eq(hear(peer),
		"{'error':'org.test.demo.Internal','parameters':{'message':"
		"'the answer to Wrong does not fit the interface: parameters.n: "
		"expected an integer, got \\'many\\'','errno':71}}\n");
	call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	ck_assert_str_eq(hear(peer), ECHO_TEXT);
	keep(3);
	varlink_reply_text(kept[0], "{\"key\":\"k\"}", 11);
	ck_assert_str_eq(hear(peer), REPLY("k"));
	varlink_error(kept[1], "Refused", NULL);
	ck_assert_ptr_nonnull(strstr(hear(peer), "parameters.why: missing"));
	varlink_error(kept[2], "Unheard", NULL);
	ck_assert_ptr_nonnull(strstr(hear(peer), "org.test.demo.Unheard is not declared"));
}
END_TEST

START_TEST(a_service_with_a_wrong_interface_is_refused)
{
	static const struct varlink_method strange[] = { { "Strange", demo_echo }, { NULL, NULL } };
	struct varlink_options opt = demo_options();
	struct varlink_server *s = NULL;

	opt.methods = strange;
	ck_assert_int_eq(varlink_server_new(loop, &opt, &s, &err), -EINVAL);
	ck_assert_str_eq(err.text, "org.test.demo has no method Strange");
	opt.idl = "interface org.test.demo\nmethod A(";
	ck_assert_int_eq(varlink_server_new(loop, &opt, &s, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "interface text: line 2, column 10: "));
	ck_assert_ptr_null(s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_server");
	TCase *t = tcase_create("varlink_server");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, a_call_is_answered);
	tcase_add_test(t, parameters_that_are_left_out_are_empty);
	tcase_add_test(t, answers_leave_in_the_order_of_the_calls);
	tcase_add_test(t, a_stream_behind_an_open_call_is_held_back);
	tcase_add_test(t, a_notification_needs_more);
	tcase_add_test(t, a_oneway_call_is_handled_and_never_answered);
	tcase_add_test(t, oneway_calls_of_a_peer_that_left_are_handled);
	tcase_add_test(t, unknown_calls_get_the_standard_errors);
	tcase_add_test(t, a_failing_handler_is_answered_for);
	tcase_add_test(t, errors_carry_the_interface_and_their_parameters);
	tcase_add_test(t, ready_text_is_sent_as_it_is);
	tcase_add_test(t, the_service_describes_itself);
	tcase_add_test(t, an_invalid_call_ends_the_connection);
	tcase_add_test(t, a_message_over_the_limit_is_answered_in_turn_and_ends_the_connection);
	tcase_add_test(t, an_answer_may_be_longer_than_a_call_and_than_what_a_slow_reader_leaves);
	tcase_add_test(t, an_answer_over_the_limit_becomes_an_error);
	tcase_add_test(t, a_peer_that_only_stops_sending_is_still_answered);
	tcase_add_test(t, a_peer_that_vanishes_cancels_its_calls);
	tcase_add_test(t, a_peer_that_vanishes_after_it_stopped_sending_is_noticed);
	tcase_add_test(t, a_peer_that_vanishes_with_unread_answers_is_noticed);
	tcase_add_test(t, reading_pauses_at_the_limit_of_open_calls);
	tcase_add_test(t, calls_behind_the_limit_are_answered_after_the_peer_stopped_sending);
	tcase_add_test(t, a_slow_reader_is_congested_until_half_has_drained);
	tcase_add_test(t, a_stream_is_not_woken_before_half_has_drained);
	tcase_add_test(t, calls_that_wait_for_output_to_leave_need_no_further_input);
	tcase_add_test(t, a_connection_that_is_not_read_leaves_the_loop_idle);
	tcase_add_test(t, a_peer_that_never_reads_is_cut_off_but_not_inside_a_notification);
	tcase_add_test(t, a_burst_is_no_fault_of_a_peer_that_reads);
	tcase_add_test(t, a_caller_that_does_not_read_its_answers_is_not_read_either);
	tcase_add_test(t, authorization_comes_before_the_handler);
	tcase_add_test(t, a_peer_that_pipelines_calls_lets_others_in_between);
	tcase_add_test(t, a_call_knows_its_peer);
	tcase_add_test(t, draining_answers_what_is_open_and_takes_nothing_new);
	tcase_add_test(t, draining_an_idle_server_ends_in_the_next_turn);
	tcase_add_test(t, freeing_the_server_sends_answers_and_runs_on_gone_of_open_calls);
	tcase_add_test(t, an_on_gone_function_may_answer_other_calls_of_that_peer);
	tcase_add_test(t, answers_are_checked_where_that_is_asked_for);
	tcase_add_test(t, a_service_with_a_wrong_interface_is_refused);
	suite_add_tcase(s, t);
	return suite_run(s);
}
