/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/link_raw.h"
#include "tests/unit/run.h"

static struct endpoint endpoint;

static void assert_endpoint(const char *text, const char *host, int port)
{
	int r = endpoint_parse(text, LINK_ENDPOINT_FIELD, &endpoint, &err);

	ck_assert_msg(r == 0, "%s", err.text);
	ck_assert_str_eq(endpoint.host, host);
	ck_assert_int_eq(endpoint.port, port);
}

START_TEST(endpoints_are_names_or_addresses_with_or_without_a_port)
{
	char text[ENDPOINT_TEXT_MAX];

	assert_endpoint("node0", "node0", 29400);
	assert_endpoint("node0.lan:1", "node0.lan", 1);
	assert_endpoint("10.0.0.1:65535", "10.0.0.1", 65535);
	assert_endpoint("fd00::1", "fd00::1", 29400);
	assert_endpoint("[fd00::1]", "fd00::1", 29400);
	assert_endpoint("[fd00::1]:29500", "fd00::1", 29500);
	endpoint_text(&endpoint, text);
	ck_assert_str_eq(text, "[fd00::1]:29500");
}
END_TEST

START_TEST(a_malformed_endpoint_is_refused)
{
	static const char *const wrong[] = { "", ":1", "node0:", "node0:0", "node0:65536",
		"node0:x", "node0:-1", "[fd00::1", "[fd00::1]x", "[]:1", "http://node0", "a b",
		"a,b", "node0:99999999999999999999" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		err = (struct error){ 0 };
		ck_assert_msg(
			endpoint_parse(wrong[i], LINK_ENDPOINT_FIELD, &endpoint, &err) == -EINVAL,
			"%s", wrong[i]);
		ck_assert_str_eq(err.field, "rendezvous.endpoints");
		ck_assert_ptr_nonnull(strstr(err.text, "expected HOST or HOST:PORT, got \""));
	}
}
END_TEST

START_TEST(loopback_is_here_and_test_networks_are_not)
{
	struct link_addresses a = loopback(1);
	char text[512];

	ck_assert(socket_address_is_here((struct sockaddr *)&a.at[0]));
	((struct sockaddr_in *)&a.at[0])->sin_addr.s_addr = inet_addr("192.0.2.1");
	ck_assert(!socket_address_is_here((struct sockaddr *)&a.at[0]));
	socket_address_list(text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "127.0.0.1 (lo)"));
	socket_address_list(text, 8);
	ck_assert_uint_lt(strlen(text), 8);
}
END_TEST

static void start(const char *text, uint64_t limit_ms)
{
	struct link_options o = { .self = identity("node1", NULL),
		.endpoint = text,
		.limit_ms = limit_ms,
		.lease_ms = WORLD_LEASE_MS,
		.events = &world_events,
		.arg = &members[0] };

	members[0] = (struct end){ .link = NULL };
	ck_assert_int_eq(link_connect(loop, &o, &members[0].link, &err), 0);
}

/* A port of this host on which no process listens; the socket keeps it. */
static int closed_port(int *ret_fd)
{
	struct link_addresses a = loopback(0);
	socklen_t len = sizeof(struct sockaddr_in);

	*ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(bind(*ret_fd, (struct sockaddr *)&a.at[0], len) == 0, "bind");
	must(getsockname(*ret_fd, (struct sockaddr *)&a.at[0], &len) == 0, "name");
	return ntohs(((struct sockaddr_in *)&a.at[0])->sin_port);
}

START_TEST(an_endpoint_without_a_listener_is_reported_after_ten_seconds_and_tried_on)
{
	char text[64], expected[256];
	int fd, port = closed_port(&fd);
	uint64_t begun = loop_now_ms();

	snprintf(text, sizeof(text), "127.0.0.1:%d", port);
	start(text, 30000);
	UNTIL(members[0].waits);
	ck_assert_uint_ge(loop_now_ms() - begun, 10000);
	ck_assert_uint_lt(loop_now_ms() - begun, 11000);
	snprintf(expected, sizeof(expected),
		"rendezvous.endpoints: %s: Connection refused; still trying, for 30 s in all",
		text);
	ck_assert_str_eq(members[0].why.text, expected);
	UNTIL(members[0].ends);
	ck_assert_uint_ge(loop_now_ms() - begun, 30000);
	ck_assert_int_eq(members[0].waits, 1);
	ck_assert_int_eq(members[0].why.code, -ETIMEDOUT);
	ck_assert_str_eq(members[0].why.field, "rendezvous.endpoints");
	ck_assert_ptr_nonnull(strstr(members[0].why.text, "Connection refused; gave up after 30"));
	close(fd);
}
END_TEST

START_TEST(a_head_that_comes_later_is_found_within_a_second)
{
	int port, kept = stop_head(&port);
	uint64_t begun;

	start_member(0, port);
	UNTIL(members[0].waits);
	start_head(port);
	begun = loop_now_ms();
	UNTIL(members[0].ups);
	ck_assert_uint_le(loop_now_ms() - begun, 1100);
	close(kept);
}
END_TEST

static int tries;

static void on_try(int fd, int events, void *arg)
{
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

	must(peer >= 0, "accept");
	tries++;
	if (arg)
		raw_send(peer, arg, strlen(arg));
	close(peer);
}

/* Listens in place of a head: answers text (NULL: nothing) and closes. */
static struct loop_fd *impostor(int *ret_fd, int *ret_port, char *text)
{
	struct loop_fd *watch = NULL;

	*ret_port = closed_port(ret_fd);
	must(listen(*ret_fd, 100) == 0, "listen");
	must(loop_fd_new(loop, *ret_fd, LOOP_READ, on_try, text, &watch) == 0, "watch");
	tries = 0;
	return watch;
}

START_TEST(tries_come_after_50_ms_doubled_to_a_second)
{
	int fd, port;
	struct loop_fd *watch = impostor(&fd, &port, NULL);
	uint64_t begun;

	start_member(0, port);
	UNTIL(tries == 1);
	begun = loop_now_ms();
	UNTIL(tries == 6);
	/* 50, 100, 200, 400, 800 */
	ck_assert_uint_ge(loop_now_ms() - begun, 1500);
	ck_assert_uint_lt(loop_now_ms() - begun, 2200);
	begun = loop_now_ms();
	UNTIL(tries == 9);
	ck_assert_uint_ge(loop_now_ms() - begun, 2900);
	ck_assert_uint_lt(loop_now_ms() - begun, 3700);
	UNTIL(members[0].waits);
	ck_assert_ptr_nonnull(strstr(
		members[0].why.text, ": the other side closed the connection; still trying"));
	loop_fd_free(watch);
	close(fd);
}
END_TEST

START_TEST(another_service_at_the_endpoint_is_named)
{
	static char text[] = "SSH-2.0-OpenSSH_9.2\r\n";
	int fd, port;
	struct loop_fd *watch = impostor(&fd, &port, text);

	start_member(0, port);
	UNTIL(members[0].ends);
	ck_assert_ptr_nonnull(strstr(members[0].why.text,
		"message: expected one of io.elasticd.Peer, got \"SSH-2.0-OpenSSH_9.2"));
	ck_assert_ptr_nonnull(strstr(members[0].why.text, "127.0.0.1:"));
	loop_fd_free(watch);
	close(fd);
}
END_TEST

START_TEST(a_service_that_never_answers_is_reported)
{
	int fd, port = closed_port(&fd);

	must(listen(fd, 100) == 0, "listen");
	start_member(0, port);
	UNTIL(members[0].waits);
	ck_assert_ptr_nonnull(strstr(members[0].why.text, "127.0.0.1:"));
	close(fd);
}
END_TEST

START_TEST(an_address_of_no_host_is_reported_with_those_of_this_one)
{
	start("192.0.2.1:29400", 12000);
	UNTIL(members[0].waits);
	ck_assert_ptr_nonnull(strstr(members[0].why.text, "192.0.2.1:29400: "));
	ck_assert_ptr_nonnull(
		strstr(members[0].why.text, "it is none of this host's addresses: 127.0.0.1 (lo)"));
	ck_assert_ptr_nonnull(strstr(members[0].why.text, "still trying, for 12 s in all"));
}
END_TEST

/* "a..b" can be no name, so that no name server is asked. */
START_TEST(a_name_that_does_not_resolve_is_reported_and_tried_on)
{
	start("a..b:1", WORLD_LIMIT_MS);
	loop_run_once(loop, true); /* the try begins */
	loop_run_once(loop, true); /* the thread has ended */
	UNTIL(members[0].waits);
	ck_assert_ptr_nonnull(strstr(members[0].why.text, "rendezvous.endpoints: a..b: "));
	ck_assert_ptr_nonnull(strstr(members[0].why.text, "; still trying, for 600 s in all"));
	ck_assert_int_eq(members[0].ends, 0);
}
END_TEST

START_TEST(names_are_resolved_in_a_thread)
{
	char text[64];

	snprintf(text, sizeof(text), "localhost:%d", head_port());
	start(text, WORLD_LIMIT_MS);
	while (!members[0].ups)
		loop_run_once(loop, true);
	ck_assert_int_eq(n_joined, 1);
}
END_TEST

START_TEST(a_link_may_be_freed_at_any_moment_of_its_beginning)
{
	char text[64];

	snprintf(text, sizeof(text), "localhost:%d", head_port());
	for (int i = 0; i < 40; i++) {
		start(text, WORLD_LIMIT_MS);
		for (int k = 0; k < i; k++)
			loop_run_once(loop, !members[0].ups);
		members[0].link = link_free(members[0].link);
		turns(8);
		for (; n_joined; n_joined--)
			heads[n_joined - 1].link = link_free(heads[n_joined - 1].link);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("link_dial");
	TCase *t = tcase_create("link_dial");

	tcase_add_checked_fixture(t, world_setup, world_teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, endpoints_are_names_or_addresses_with_or_without_a_port);
	tcase_add_test(t, a_malformed_endpoint_is_refused);
	tcase_add_test(t, loopback_is_here_and_test_networks_are_not);
	tcase_add_test(
		t, an_endpoint_without_a_listener_is_reported_after_ten_seconds_and_tried_on);
	tcase_add_test(t, a_head_that_comes_later_is_found_within_a_second);
	tcase_add_test(t, tries_come_after_50_ms_doubled_to_a_second);
	tcase_add_test(t, another_service_at_the_endpoint_is_named);
	tcase_add_test(t, a_service_that_never_answers_is_reported);
	tcase_add_test(t, an_address_of_no_host_is_reported_with_those_of_this_one);
	tcase_add_test(t, a_name_that_does_not_resolve_is_reported_and_tried_on);
	tcase_add_test(t, names_are_resolved_in_a_thread);
	tcase_add_test(t, a_link_may_be_freed_at_any_moment_of_its_beginning);
	suite_add_tcase(s, t);
	return suite_run(s);
}
