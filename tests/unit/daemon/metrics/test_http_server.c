/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/http_server.h"
#include "tests/unit/run.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct loop *loop;
static struct http_server *server;
static struct sockaddr_in at;
static struct http_call *held; /* not answered yet */
static char asked[HTTP_HEAD_MAX];
static size_t answer_len;
static bool holds;
static int n_calls;
static const char *highest, *lowest; /* frames of on_call() */

static void note_frame(const char *frame)
{
	n_calls++;
	if (!highest || frame > highest)
		highest = frame;
	if (!lowest || frame < lowest)
		lowest = frame;
}

static void on_call(void *arg, struct http_call *call, const char *path)
{
	char *text;

	note_frame(__builtin_frame_address(0));
	strcpy(asked, path);
	if (holds) {
		ck_assert_ptr_null(held);
		held = call;
		return;
	}
	text = malloc(answer_len + 1);
	memset(text, 'x', answer_len);
	http_call_answer(call, 200, "text/plain", text, answer_len);
}

static void setup(void)
{
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	loop_freeze();
	at = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(listen(fd, 128), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_int_eq(http_server_new(loop, on_call, NULL, &server), 0);
	ck_assert_int_eq(http_server_listen(server, fd), 0);
	answer_len = 5;
	holds = false;
	held = NULL;
	asked[0] = '\0';
	n_calls = 0;
	highest = lowest = NULL;
}

static void teardown(void)
{
	server = http_server_free(server);
	if (held)
		http_call_answer(held, 200, "text/plain", strdup("late"), 4);
	loop = loop_free(loop);
}

static void turn(void)
{
	for (int i = 0; i < 8; i++)
		loop_run_once(loop, false);
}

static int reader(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	turn();
	return fd;
}

static void say(int fd, const char *text)
{
	ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
	turn();
}

/* The bytes that have come by now; *ret_closed: no more will. */
static const char *heard(int fd, bool *ret_closed)
{
	static char text[4096];
	size_t len = 0;
	ssize_t n;

	for (;;) {
		n = recv(fd, text + len, sizeof(text) - 1 - len, MSG_DONTWAIT);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (ret_closed)
		*ret_closed = n == 0 || errno != EAGAIN;
	text[len] = '\0';
	return text;
}

/* Reads nothing. */
static bool is_closed(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	ck_assert_int_ge(poll(&p, 1, 0), 0);
	return p.revents != 0;
}

START_TEST(a_call_is_answered_and_the_connection_stays)
{
	int fd = reader();
	bool closed;

	for (int i = 0; i < 3; i++) {
		say(fd, "GET /metrics?a=b HTTP/1.1\r\nHost: x\r\n\r\n");
		ck_assert_str_eq(heard(fd, &closed),
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n"
			"xxxxx");
		ck_assert(!closed);
		ck_assert_str_eq(asked, "/metrics");
	}
	close(fd);
}
END_TEST

START_TEST(calls_in_pieces_and_several_at_once_are_answered_in_order)
{
	int fd = reader();

	say(fd, "GET /one HT");
	ck_assert_str_eq(heard(fd, NULL), "");
	holds = true;
	say(fd, "TP/1.1\r\n\r\nGET /two HTTP/1.1\r\n\r\n");
	ck_assert_str_eq(asked, "/one");
	holds = false;
	http_call_answer(held, 200, "text/plain", strdup("first"), 5);
	held = NULL;
	turn();
	ck_assert_str_eq(asked, "/two");
	ck_assert_ptr_nonnull(strstr(heard(fd, NULL), "first"));
	close(fd);
}
END_TEST

START_TEST(many_calls_at_once_need_no_more_stack_than_one)
{
	static const char call[] = "GET / HTTP/1.\r\n\r\n";
	char many[sizeof(call) * 400] = "";
	int fd = reader();

	for (char *end = many; n_calls < 400; n_calls++)
		end = stpcpy(end, call);
	n_calls = 0;
	say(fd, many);
	ck_assert_int_eq(n_calls, 400);
	ck_assert_int_lt(highest - lowest, 1024);
	close(fd);
}
END_TEST

START_TEST(the_head_alone_is_answered_without_the_text)
{
	int fd = reader();

	say(fd, "HEAD / HTTP/1.1\r\n\r\n");
	ck_assert_str_eq(heard(fd, NULL),
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n");
	close(fd);
}
END_TEST

START_TEST(the_connection_ends_where_the_reader_wants_that)
{
	static const char *const calls[] = { "GET / HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nconnection:  close\r\n\r\n" };

	for (size_t i = 0; i < 2; i++) {
		bool closed;
		int fd = reader();

		say(fd, calls[i]);
		ck_assert_ptr_nonnull(strstr(heard(fd, &closed), "Connection: close\r\n"));
		ck_assert(closed);
		close(fd);
	}
}
END_TEST

static const struct {
	const char *call, *status;
} bad[] = {
	{ "POST / HTTP/1.1\r\n\r\n", "405 Method Not Allowed" },
	{ "GET /\r\n\r\n", "400 Bad Request" },
	{ "GET x HTTP/1.1\r\n\r\n", "400 Bad Request" },
	{ "GET / HTTP/2\r\n\r\n", "400 Bad Request" },
	{ "\r\n\r\n", "400 Bad Request" },
};

START_TEST(calls_that_make_no_sense_are_refused)
{
	int fd = reader();
	bool closed;

	say(fd, bad[_i].call);
	ck_assert_ptr_nonnull(strstr(heard(fd, &closed), bad[_i].status));
	ck_assert(closed);
	ck_assert_str_eq(asked, "");
	close(fd);
}
END_TEST

START_TEST(a_zero_byte_is_refused)
{
	int fd = reader();

	ck_assert_int_eq(send(fd, "GET /\0 HTTP/1.1\r\n\r\n", 19, 0), 19);
	turn();
	ck_assert_ptr_nonnull(strstr(heard(fd, NULL), "400"));
	close(fd);
}
END_TEST

START_TEST(a_head_that_never_ends_is_refused)
{
	char line[1024];
	int fd = reader();

	memset(line, 'a', sizeof(line));
	say(fd, "GET / HTTP/1.1\r\n");
	for (size_t i = 0; i < HTTP_HEAD_MAX / sizeof(line); i++)
		(void)!send(fd, line, sizeof(line), MSG_NOSIGNAL);
	turn();
	ck_assert_ptr_nonnull(strstr(heard(fd, NULL), "431"));
	close(fd);
}
END_TEST

START_TEST(a_reader_that_is_slow_loses_its_connection)
{
	int silent = reader();
	int slow = reader();
	int idle = reader();

	say(idle, "GET / HTTP/1.1\r\n\r\n");
	heard(idle, NULL);
	loop_pass(loop, HTTP_HEAD_MS - 1);
	say(slow, "G");
	turn();
	ck_assert(!is_closed(silent));
	loop_pass(loop, 2);
	turn();
	ck_assert(is_closed(silent));
	loop_pass(loop, HTTP_HEAD_MS - 10);
	say(slow, "E");
	ck_assert(!is_closed(slow));
	loop_pass(loop, 10);
	turn();
	ck_assert(is_closed(slow));
	ck_assert(!is_closed(idle));
	loop_pass(loop, HTTP_IDLE_MS);
	turn();
	ck_assert(is_closed(idle));
	close(silent);
	close(slow);
	close(idle);
}
END_TEST

/* Reads to the end of the connection. Returns how much came. */
static size_t read_all(int fd)
{
	static char text[64 << 10];
	size_t total = 0;

	for (ssize_t n = 1; n; total += (size_t)n) {
		turn();
		n = recv(fd, text, sizeof(text), 0);
		ck_assert_int_ge(n, 0);
	}
	return total;
}

START_TEST(an_answer_that_is_not_read_waits_and_then_is_cut)
{
	int fd = reader();

	answer_len = 16 << 20;
	say(fd, "GET / HTTP/1.1\r\n\r\n");
	loop_pass(loop, HTTP_ANSWER_MS - 1);
	turn();
	ck_assert(!is_closed(fd));
	loop_pass(loop, 2);
	turn();
	ck_assert_uint_lt(read_all(fd), answer_len);
	close(fd);
}
END_TEST

START_TEST(a_long_answer_arrives_whole)
{
	size_t total;
	int fd = reader();

	answer_len = 8 << 20;
	say(fd, "GET / HTTP/1.0\r\n\r\n");
	total = read_all(fd);
	ck_assert_uint_gt(total, answer_len);
	ck_assert_uint_lt(total, answer_len + 200);
	close(fd);
}
END_TEST

START_TEST(one_reader_too_many_takes_the_place_of_the_longest_idle)
{
	int fds[HTTP_CONNECTIONS_MAX + 1];

	for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++)
		fds[i] = reader();
	say(fds[0], "GET / HTTP/1.1\r\n\r\n"); /* now fds[1] is idle for longest */
	heard(fds[0], NULL);
	fds[HTTP_CONNECTIONS_MAX] = reader();
	ck_assert(is_closed(fds[1]));
	for (int i = 0; i <= HTTP_CONNECTIONS_MAX; i++) {
		ck_assert(i == 1 || !is_closed(fds[i]));
		close(fds[i]);
	}
}
END_TEST

START_TEST(an_answer_for_a_reader_that_is_gone_goes_nowhere)
{
	int fd = reader();

	holds = true;
	say(fd, "GET / HTTP/1.1\r\n\r\n");
	ck_assert_ptr_nonnull(held);
	close(fd);
	turn();
	http_call_answer(held, 200, "text/plain", strdup("late"), 4);
	held = NULL;
	turn();
	fd = reader();
	say(fd, "GET / HTTP/1.1\r\n\r\n");
	server = http_server_free(server); /* the call is answered by teardown() */
	close(fd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http_server");
	TCase *t = tcase_create("http_server");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_call_is_answered_and_the_connection_stays);
	tcase_add_test(t, calls_in_pieces_and_several_at_once_are_answered_in_order);
	tcase_add_test(t, many_calls_at_once_need_no_more_stack_than_one);
	tcase_add_test(t, the_head_alone_is_answered_without_the_text);
	tcase_add_test(t, the_connection_ends_where_the_reader_wants_that);
	tcase_add_loop_test(
		t, calls_that_make_no_sense_are_refused, 0, (int)(sizeof(bad) / sizeof(*bad)));
	tcase_add_test(t, a_zero_byte_is_refused);
	tcase_add_test(t, a_head_that_never_ends_is_refused);
	tcase_add_test(t, a_reader_that_is_slow_loses_its_connection);
	tcase_add_test(t, an_answer_that_is_not_read_waits_and_then_is_cut);
	tcase_add_test(t, a_long_answer_arrives_whole);
	tcase_add_test(t, one_reader_too_many_takes_the_place_of_the_longest_idle);
	tcase_add_test(t, an_answer_for_a_reader_that_is_gone_goes_nowhere);
	suite_add_tcase(s, t);
	return suite_run(s);
}
