/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/varlink_demo.h"

#include "common/varlink/client.h"
#include "common/varlink/socket.h"
#include "common/varlink/sync.h"
#include "tests/unit/run.h"

#include <signal.h>
#include <time.h>

static struct varlink_client *client;
static char heard[1024];
static int n_closed;

static void on_closed(void *arg)
{
	n_closed++;
	strcat(heard, "closed;");
	if (arg)
		client = varlink_client_free(client);
}

/* Two ends of a socket: the server's is served, the other returned. */
static void setup(void)
{
	struct varlink_options opt = demo_options();

	heard[0] = '\0';
	n_closed = 0;
	demo_start(&opt);
	ck_assert_int_eq(varlink_client_new_fd(loop, new_peer(), on_closed, NULL, &client), 0);
}

static void teardown(void)
{
	client = varlink_client_free(client);
	demo_stop();
}

/* Replaces the client by one whose far end is a bare socket. */
static int bare_peer(void *arg)
{
	int p[2];

	varlink_client_free(client);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p), 0);
	ck_assert_int_eq(varlink_client_new_fd(loop, p[0], on_closed, arg, &client), 0);
	return p[1];
}

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	_cleanup_free_ char *text = json_dump_text(parameters, NULL);

	ck_assert(json_is_object(parameters));
	sprintf(heard + strlen(heard), "%s%s%s%s;", arg ? (const char *)arg : "",
		error ? error : "", text, continues ? "+" : "");
	if (arg && !strcmp(arg, "free"))
		client = varlink_client_free(client);
	if (arg && !strcmp(arg, "pause"))
		varlink_client_pause(client, true);
}

static void ask(const char *method, json_t *parameters, bool more, const char *tag)
{
	ck_assert_int_eq(
		varlink_client_call(client, method, parameters, more, on_answer, (void *)tag), 0);
}

static json_t *text_of(const char *text)
{
	return json_pack("{s:s}", "text", text);
}

START_TEST(calls_are_pipelined_and_answered_in_order)
{
	ask(DEMO "Echo", text_of("1"), false, "a");
	ask(DEMO "Echo", NULL, false, "b");
	ask(DEMO "Echo", text_of("3"), false, "c");
	ck_assert_str_eq(heard, "");
	turn();
	ck_assert_str_eq(heard,
		"a{\"text\":\"1\"};borg.varlink.service.InvalidParameter{\"parameter\":\"text\"};"
		"c{\"text\":\"3\"};");
}
END_TEST

START_TEST(a_stream_goes_on_until_its_last_answer)
{
	ask(DEMO "Keep", NULL, true, NULL);
	turn();
	ck_assert_int_eq(varlink_notify(kept[0], json_pack("{s:s}", "key", "x")), 0);
	turn();
	ck_assert_str_eq(heard, "{\"key\":\"x\"}+;");
	answer_kept(0, "end");
	turn();
	ck_assert_str_eq(heard, "{\"key\":\"x\"}+;{\"key\":\"end\"};");
}
END_TEST

START_TEST(freeing_the_client_cancels_its_calls)
{
	ask(DEMO "Keep", NULL, false, NULL);
	turn();
	client = varlink_client_free(client);
	turn();
	ck_assert_int_eq(n_gone, 1);
	ck_assert_str_eq(heard, "");
}
END_TEST

START_TEST(requests_made_before_freeing_are_sent)
{
	ask(DEMO "Echo", text_of("1"), false, NULL);
	client = varlink_client_free(client);
	turn();
	ck_assert_int_eq(n_handled, 1);
	ck_assert_str_eq(heard, "");
}
END_TEST

START_TEST(a_callback_may_free_the_client)
{
	ask(DEMO "Echo", text_of("1"), false, "free");
	ask(DEMO "Echo", text_of("2"), false, NULL);
	turn();
	ck_assert_ptr_null(client);
	ck_assert_str_eq(heard, "free{\"text\":\"1\"};");
}
END_TEST

START_TEST(open_calls_hear_that_the_connection_broke)
{
	ask(DEMO "Keep", NULL, false, "a");
	ask(DEMO "Keep", NULL, false, "b");
	turn();
	server = varlink_server_free(server);
	turn();
	ck_assert_str_eq(heard, "adisconnected{};bdisconnected{};closed;");
	ck_assert_int_eq(varlink_client_call(client, DEMO "Echo", NULL, false, on_answer, NULL),
		-ECONNRESET);
	varlink_client_pause(client, true);
	turn();
	ck_assert_int_eq(n_closed, 1);
}
END_TEST

START_TEST(a_callback_may_free_the_client_while_the_connection_breaks)
{
	int fd = bare_peer(&client);

	ask("a.b.C", NULL, false, "a");
	ask("a.b.C", NULL, false, "free");
	ask("a.b.C", NULL, false, "c");
	turn();
	close(fd);
	turn();
	ck_assert_ptr_null(client);
	ck_assert_str_eq(heard, "adisconnected{};freedisconnected{};");
	heard[0] = '\0';
	fd = bare_peer(&client);
	close(fd);
	turn();
	ck_assert_str_eq(heard, "closed;");
	ck_assert_ptr_null(client);
}
END_TEST

START_TEST(the_last_answers_are_read_though_nothing_can_be_sent)
{
	int fd = bare_peer(NULL);

	say(fd, "{'error':'a.b.ResourceExhausted','parameters':{}}");
	close(fd);
	ask("a.b.C", NULL, false, NULL);
	turn();
	ck_assert_str_eq(heard, "a.b.ResourceExhausted{};closed;");
}
END_TEST

START_TEST(an_invalid_answer_breaks_the_connection)
{
	static const char *const bad[] = { "", "[]", "{'parameters':[]}", "{'error':1}",
		"{'parameters':{},'continues':true}" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		int fd = bare_peer(NULL);

		heard[0] = '\0';
		ask("a.b.C", NULL, false, NULL);
		say(fd, bad[i]);
		turn();
		ck_assert_str_eq(heard, "disconnected{};closed;");
		close(fd);
	}
}
END_TEST

START_TEST(an_answer_without_a_call_breaks_the_connection)
{
	int fd = bare_peer(NULL);

	say(fd, "{'parameters':{}}");
	turn();
	ck_assert_str_eq(heard, "closed;");
	close(fd);
}
END_TEST

START_TEST(an_answer_may_leave_out_its_parameters)
{
	int fd = bare_peer(NULL);

	ask("a.b.C", NULL, false, NULL);
	ask("a.b.C", NULL, false, NULL);
	say(fd, "{}");
	say(fd, "{'parameters':null,'error':null,'continues':false}");
	turn();
	ck_assert_str_eq(heard, "{};{};");
	close(fd);
}
END_TEST

static void on_answer_catch_up(void *arg, const char *error, json_t *parameters, bool continues)
{
	on_answer(NULL, error, parameters, continues);
	varlink_client_catch_up(client);
	strcat(heard, "|");
}

START_TEST(received_answers_are_handed_out_on_request)
{
	int fd = bare_peer(NULL);

	ask("a.b.C", NULL, true, NULL);
	varlink_client_catch_up(client);
	ck_assert_str_eq(heard, "");
	say(fd, "{'parameters':{'text':'1'},'continues':true}");
	say(fd, "{'parameters':{'text':'2'},'continues':true}");
	varlink_client_catch_up(client);
	ck_assert_str_eq(heard, "{\"text\":\"1\"}+;{\"text\":\"2\"}+;");
	heard[0] = '\0';
	varlink_client_pause(client, true);
	say(fd, "{'parameters':{'text':'3'},'continues':true}");
	varlink_client_catch_up(client);
	ck_assert_str_eq(heard, "");
	varlink_client_pause(client, false);
	/* The end as well, behind what came before it. */
	close(fd);
	varlink_client_catch_up(client);
	ck_assert_str_eq(heard, "{\"text\":\"3\"}+;disconnected{};closed;");
	varlink_client_catch_up(client);
	turn();
	ck_assert_str_eq(heard, "{\"text\":\"3\"}+;disconnected{};closed;");
}
END_TEST

START_TEST(catching_up_inside_a_callback_changes_no_order)
{
	int fd = bare_peer(&client);

	ck_assert_int_eq(
		varlink_client_call(client, "a.b.C", NULL, true, on_answer_catch_up, NULL), 0);
	turn();
	say(fd, "{'parameters':{'text':'1'},'continues':true}");
	say(fd, "{'parameters':{'text':'2'},'continues':true}");
	varlink_client_catch_up(client);
	ck_assert_str_eq(heard, "{\"text\":\"1\"}+;|{\"text\":\"2\"}+;|");
	heard[0] = '\0';
	say(fd, "{'nothing':");
	say(fd, "[]");
	varlink_client_catch_up(client);
	ck_assert_str_eq(heard, "disconnected{};|closed;");
	ck_assert_ptr_null(client);
	close(fd);
}
END_TEST

START_TEST(a_paused_client_leaves_answers_where_they_are)
{
	ask(DEMO "Echo", text_of("1"), false, "pause");
	ask(DEMO "Echo", text_of("2"), false, NULL);
	turn();
	ck_assert_str_eq(heard, "pause{\"text\":\"1\"};");
	ask(DEMO "Echo", text_of("3"), false, NULL);
	turn();
	ck_assert_int_eq(n_handled, 3);
	ck_assert_str_eq(heard, "pause{\"text\":\"1\"};");
	varlink_client_pause(client, false);
	turn();
	ck_assert_str_eq(heard, "pause{\"text\":\"1\"};{\"text\":\"2\"};{\"text\":\"3\"};");
}
END_TEST

START_TEST(a_large_call_leaves_in_pieces)
{
	size_t n = 900000;
	char *big = calloc(1, n + 1);

	memset(big, 'x', n);
	ask(DEMO "Echo", json_pack("{s:s,s:s}", "text", "1", "other", big), false, NULL);
	free(big);
	for (int i = 0; i < 100 && !*heard; i++)
		turn();
	ck_assert_str_eq(heard, "org.varlink.service.InvalidParameter{\"parameter\":\"other\"};");
}
END_TEST

static char dir[64], path[80];

static void sync_setup(void)
{
	setup();
	strcpy(dir, "/tmp/test_sync.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	ck_assert_int_eq(varlink_server_listen_path(server, path, 0600, &err), 0);
}

static void sync_teardown(void)
{
	teardown();
	rmdir(dir);
}

/* Receives one answer as text: "error {parameters}+", or "code: text" on failure. */
static const char *receive(struct varlink_sync *c)
{
	static char text[sizeof(err.text) + 64];
	_cleanup_json_ json_t *parameters = NULL;
	_cleanup_free_ char *error = NULL;
	_cleanup_free_ char *dump = NULL;
	bool continues = false;
	int r;

	err = (struct error){ 0 };
	r = varlink_sync_receive(c, &parameters, &error, &continues, &err);
	if (r < 0 && r != -EREMOTEIO)
		snprintf(text, sizeof(text), "%d: %s", r, err.text);
	else {
		dump = json_dump_text(parameters, NULL);
		snprintf(text, sizeof(text), "%s%s%s", error ? error : "", dump,
			continues ? "+" : "");
	}
	return text;
}

/* --- limits --- */

enum { UNITS = 100 };

static struct budget *budget;

static void share_of(size_t bytes)
{
	const struct budget_limits l = { .total = 1 << 20, .share = bytes };

	ck_assert_int_eq(budget_new(&l, &budget), 0);
}

/* Another client, whose answers the test gives, and that has asked for one or more. */
static struct varlink_client *limited(uint64_t message_ms, bool more, int *ret_fd)
{
	struct varlink_client *c;
	int p[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p), 0);
	ck_assert_int_eq(varlink_client_new_fd(loop, p[0], on_closed, NULL, &c), 0);
	ck_assert_int_eq(varlink_client_limit(c, &(struct varlink_client_limits){ .budget = budget,
							 .key = 1,
							 .message_ms = message_ms,
							 .message_units = UNITS }),
		0);
	ck_assert_int_eq(varlink_client_call(c, "a.b.C", NULL, more, on_answer, NULL), 0);
	turn();
	*ret_fd = p[1];
	return c;
}

static void drop_limited(struct varlink_client *c, int fd)
{
	varlink_client_free(c);
	close(fd);
}

START_TEST(an_answer_that_has_begun_and_does_not_come_ends_its_connection_alone)
{
	struct varlink_client *half, *quiet, *paused;
	int fds[3];

	loop_freeze();
	share_of(1 << 20);
	quiet = limited(50, false, &fds[1]);
	paused = limited(50, false, &fds[2]);
	say_bytes(fds[2], "{", 1);
	turn();
	varlink_client_pause(paused, true);
	half = limited(50, false, &fds[0]);
	say_bytes(fds[0], "{\"param", 7);
	turn();
	loop_pass(loop, 49);
	turn();
	ck_assert_str_eq(heard, "");
	loop_pass(loop, 1);
	turn();
	ck_assert_str_eq(heard, "disconnected{};closed;");
	/* Neither the quiet nor the paused one has reached its limit: both go on. */
	say(fds[1], "{'parameters':{'n':1}}");
	say_bytes(fds[2], "}", 2);
	varlink_client_pause(paused, false);
	turn();
	ck_assert_str_eq(heard, "disconnected{};closed;{\"n\":1};{};");
	drop_limited(half, fds[0]);
	drop_limited(quiet, fds[1]);
	drop_limited(paused, fds[2]);
	budget_free(budget);
}
END_TEST

START_TEST(each_answer_of_a_stream_has_its_own_time)
{
	struct varlink_client *c;
	int fd;

	loop_freeze();
	share_of(1 << 20);
	c = limited(200, true, &fd);
	say_bytes(fd, "{", 1);
	for (int n = 0; n < 5; n++) {
		*heard = '\0';
		turn();
		loop_pass(loop, 199);
		/* The end of one with the beginning of the next. */
		say_bytes(fd, "\"continues\":true}\0{", 19);
		turn();
		ck_assert_str_eq(heard, "{}+;");
	}
	drop_limited(c, fd);
	budget_free(budget);
}
END_TEST

START_TEST(an_answer_that_comes_byte_by_byte_ends_where_there_is_no_room_for_it)
{
	struct varlink_client *c;
	int fd, n = 0;

	share_of(4096);
	c = limited(60000, false, &fd);
	for (; !n_closed; n++) {
		ck_assert_int_lt(n, 8192);
		say_bytes(fd, "x", 1);
		turn();
		ck_assert_uint_le(budget_of_all(budget), 4096);
	}
	ck_assert_int_gt(n, 2048);
	ck_assert_uint_eq(budget_of_all(budget), 0);
	*heard = '\0';
	ask(DEMO "Echo", text_of("1"), false, NULL);
	turn();
	ck_assert_str_eq(heard, "{\"text\":\"1\"};");
	drop_limited(c, fd);
	budget_free(budget);
}
END_TEST

START_TEST(an_answer_of_more_values_than_may_be_is_an_error_and_the_last)
{
	struct varlink_client *c;
	char many[512] = "{'parameters':{'x':[1";
	int fd;

	share_of(1 << 20);
	c = limited(60000, false, &fd);
	ck_assert_int_eq(varlink_client_call(c, "a.b.C", NULL, false, on_answer, (void *)"b"), 0);
	turn();
	for (int i = 0; i < UNITS; i++)
		strcat(many, ",1");
	strcat(many, "]}}");
	say(fd, many);
	say(fd, "{}");
	turn();
	ck_assert_str_eq(heard, "too much{\"limit\":100};bdisconnected{};closed;");
	drop_limited(c, fd);
	budget_free(budget);
}
END_TEST

/* Moves the frozen clock by 3 ms: a turn in which this process gets no processor would be dearer.
 */
static void on_dear(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct varlink_client **c = arg;

	strcat(heard, error ? error : "x");
	loop_pass(loop, 3);
	if (c)
		*c = varlink_client_free(*c);
}

/* Whether or not the callback frees its client. */
START_TEST(costly_answers_of_one_account_share_its_time_in_each_turn)
{
	struct varlink_client *c[8];
	int fds[8];

	loop_freeze();
	share_of(1 << 20);
	for (int i = 0; i < 8; i++) {
		c[i] = limited(60000, false, &fds[i]);
		ck_assert_int_eq(
			varlink_client_call(c[i], "a.b.C", NULL, false, on_dear, _i ? &c[i] : NULL),
			0);
	}
	turn();
	for (int i = 0; i < 8; i++)
		say(fds[i], "{}");
	turn();
	*heard = '\0';
	for (int i = 0; i < 8; i++)
		say(fds[i], "{}");
	for (int n = 2; n <= 8; n += 2) {
		loop_run_once(loop, false);
		ck_assert_int_ge(strlen(heard), n);
		ck_assert_int_le(strlen(heard), n + 2);
	}
	ck_assert_str_eq(heard, "xxxxxxxx");
	for (int i = 0; i < 8; i++)
		drop_limited(c[i], fds[i]);
	budget_free(budget);
}
END_TEST

START_TEST(answers_that_wait_for_their_turn_can_be_fetched_for_a_time)
{
	struct varlink_client *c[2];
	int fds[2];

	loop_freeze();
	share_of(1 << 20);
	for (int k = 0; k < 2; k++) {
		c[k] = limited(60000, false, &fds[k]);
		for (int i = 0; i < 20; i++)
			ck_assert_int_eq(
				varlink_client_call(c[k], "a.b.C", NULL, false, on_dear, NULL), 0);
		turn();
		say(fds[k], "{}");
		turn();
	}
	*heard = '\0';
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < 20; i++)
			say(fds[k], "{}");
	varlink_client_catch_up(c[0]);
	ck_assert_str_eq(heard, "xxxxxxx");
	ck_assert(!varlink_client_may_catch_up(c[1]));
	varlink_client_catch_up(c[1]);
	varlink_client_catch_up(c[0]);
	ck_assert_str_eq(heard, "xxxxxxx");
	loop_run_once(loop, false);
	ck_assert_uint_le(strlen(heard), 7 + 2);
	while (strlen(heard) < 40)
		loop_run_once(loop, false);
	for (int k = 0; k < 2; k++)
		drop_limited(c[k], fds[k]);
	budget_free(budget);
}
END_TEST

/* A socket that is connected to the server. */
static int connect_fd(void)
{
	int fd;

	ck_assert_int_eq(varlink_socket_connect(path, 0, &fd, &err), 0);
	return fd;
}

START_TEST(a_blocking_caller_gets_answers_errors_and_streams)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *c = NULL;

	ck_assert_int_eq(varlink_sync_new_fd(connect_fd(), &c, &err), 0);
	ck_assert_int_ge(varlink_sync_fd(c), 0);
	ck_assert_int_eq(varlink_sync_send(c, DEMO "Echo", text_of("1"), false, &err), 0);
	ck_assert_int_eq(varlink_sync_send(c, DEMO "Fail", NULL, false, &err), 0);
	ck_assert_int_eq(varlink_sync_send(c, DEMO "Keep", NULL, true, &err), 0);
	ck_assert_int_eq(varlink_sync_wait(c, 0), 0);
	turn();
	ck_assert_int_eq(varlink_notify(kept[0], json_pack("{s:s}", "key", "x")), 0);
	ck_assert_int_eq(varlink_error(kept[0], "Refused", json_pack("{s:s}", "why", "so")), 0);
	turn();
	ck_assert_int_eq(varlink_sync_wait(c, 0), 1);
	ck_assert_str_eq(receive(c), "{\"text\":\"1\"}");
	ck_assert_int_eq(varlink_sync_wait(c, 0), 1);
	ck_assert_str_eq(receive(c),
		"org.test.demo.Internal{\"message\":\"No space left on device\","
		"\"errno\":28}");
	ck_assert_str_eq(err.text, "No space left on device");
	ck_assert_int_eq(err.code, -EREMOTEIO);
	ck_assert_str_eq(receive(c), "{\"key\":\"x\"}+");
	ck_assert_str_eq(receive(c), "org.test.demo.Refused{\"why\":\"so\"}");
	ck_assert_str_eq(err.text, "Refused: why so");
	ck_assert_int_eq(varlink_sync_wait(c, 0), 0);
}
END_TEST

START_TEST(a_blocking_caller_gets_all_answers_before_the_end)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *c = NULL;

	ck_assert_int_eq(varlink_sync_new_fd(connect_fd(), &c, &err), 0);
	ck_assert_int_eq(varlink_sync_send(c, DEMO "Echo", text_of("1"), false, &err), 0);
	ck_assert_int_eq(varlink_sync_send(c, DEMO "Keep", NULL, false, &err), 0);
	turn();
	server = varlink_server_free(server);
	ck_assert_int_eq(varlink_sync_send(c, DEMO "Echo", text_of("1"), false, &err), 0);
	ck_assert_str_eq(receive(c), "{\"text\":\"1\"}");
	ck_assert_int_eq(varlink_sync_wait(c, -1), 1);
	ck_assert_str_eq(receive(c), "-104: the service closed the connection");
	ck_assert_str_eq(receive(c), "-104: the service closed the connection");
}
END_TEST

static void on_alarm(int signo)
{
}

START_TEST(a_signal_interrupts_receiving_and_nothing_is_lost)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	_cleanup_(varlink_sync_freep) struct varlink_sync *c = NULL;
	/* Again and again, for one may come just before the wait. */
	struct itimerspec often = { .it_value.tv_nsec = 10000000, .it_interval.tv_nsec = 10000000 };
	struct itimerspec never = { 0 };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	timer_t timer;

	sigaction(SIGALRM, &sa, NULL);
	ck_assert_int_eq(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
	ck_assert_int_eq(varlink_sync_new_fd(connect_fd(), &c, &err), 0);
	ck_assert_int_eq(varlink_sync_send(c, DEMO "Echo", text_of("1"), false, &err), 0);
	timer_settime(timer, 0, &often, NULL);
	ck_assert_str_eq(receive(c), "-4: Interrupted system call");
	ck_assert_int_eq(varlink_sync_wait(c, -1), -EINTR);
	timer_settime(timer, 0, &never, NULL);
	turn();
	ck_assert_str_eq(receive(c), "{\"text\":\"1\"}");
	timer_delete(timer);
}
END_TEST

static void add_client_tests(Suite *s)
{
	TCase *t = tcase_create("client");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, calls_are_pipelined_and_answered_in_order);
	tcase_add_test(t, a_stream_goes_on_until_its_last_answer);
	tcase_add_test(t, freeing_the_client_cancels_its_calls);
	tcase_add_test(t, requests_made_before_freeing_are_sent);
	tcase_add_test(t, a_callback_may_free_the_client);
	tcase_add_test(t, open_calls_hear_that_the_connection_broke);
	tcase_add_test(t, a_callback_may_free_the_client_while_the_connection_breaks);
	tcase_add_test(t, the_last_answers_are_read_though_nothing_can_be_sent);
	tcase_add_test(t, an_invalid_answer_breaks_the_connection);
	tcase_add_test(t, an_answer_without_a_call_breaks_the_connection);
	tcase_add_test(t, an_answer_may_leave_out_its_parameters);
	tcase_add_test(t, received_answers_are_handed_out_on_request);
	tcase_add_test(t, catching_up_inside_a_callback_changes_no_order);
	tcase_add_test(t, a_paused_client_leaves_answers_where_they_are);
	tcase_add_test(t, a_large_call_leaves_in_pieces);
	suite_add_tcase(s, t);
}

static void add_sync_tests(Suite *s)
{
	TCase *t = tcase_create("sync");

	tcase_add_checked_fixture(t, sync_setup, sync_teardown);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, an_answer_that_has_begun_and_does_not_come_ends_its_connection_alone);
	tcase_add_test(t, each_answer_of_a_stream_has_its_own_time);
	tcase_add_test(t, an_answer_that_comes_byte_by_byte_ends_where_there_is_no_room_for_it);
	tcase_add_loop_test(t, costly_answers_of_one_account_share_its_time_in_each_turn, 0, 2);
	tcase_add_test(t, an_answer_of_more_values_than_may_be_is_an_error_and_the_last);
	tcase_add_test(t, answers_that_wait_for_their_turn_can_be_fetched_for_a_time);
	tcase_add_test(t, a_blocking_caller_gets_answers_errors_and_streams);
	tcase_add_test(t, a_blocking_caller_gets_all_answers_before_the_end);
	tcase_add_test(t, a_signal_interrupts_receiving_and_nothing_is_lost);
	suite_add_tcase(s, t);
}

int main(void)
{
	Suite *s = suite_create("varlink_client");

	add_client_tests(s);
	add_sync_tests(s);
	return suite_run(s);
}
