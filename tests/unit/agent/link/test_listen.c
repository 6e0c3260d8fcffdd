/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that are none, or that break the rules: each one gets one clear line and its end, and the
 * link of another member goes on, which every test checks at its end. */
#include "tests/unit/link_raw.h"
#include "tests/unit/run.h"

static char heard[65536];
static int peer;

static void setup(void)
{
	world_setup();
	start_member(0, head_port());
	UNTIL(members[0].ups && heads[0].ups);
	peer = raw_connect(head_port());
	heard[0] = '\0';
}

static void teardown(void)
{
	close(peer);
	say(&members[0]);
	say(&heads[0]);
	settle(0);
	must(members[0].ups == 1 && !heads[0].waits, "the other link was left alone");
	world_teardown();
}

/* The peer gets a Refuse with these words, and its end; the owner the same line with its address.
 */
static void assert_told(const char *field, const char *why)
{
	char text[512];

	UNTIL(raw_read(peer, heard, sizeof(heard)));
	snprintf(text, sizeof(text), "{\"field\":\"%s\",\"why\":\"%s", field, why);
	ck_assert_msg(strstr(heard, text) != NULL, "%s", heard);
}

static void assert_refused(const char *field, const char *why)
{
	char text[512];

	assert_told(field, why);
	ck_assert_int_eq(n_refused, 1);
	ck_assert_int_eq(strncmp(refused, "127.0.0.1:", 10), 0);
	snprintf(text, sizeof(text), ": %s: ", field);
	ck_assert_msg(strstr(refused, text) != NULL, "%s", refused);
}

START_TEST(another_protocol_is_named)
{
	raw_send(peer, "GET / HTTP/1.1\r\n\r\n", 18);
	assert_refused("message", "expected one of io.elasticd.Peer, got \\\"GET / HTTP/1.1");
}
END_TEST

START_TEST(tls_without_a_token_here_is_named)
{
	raw_send(peer, "\x16\x03\x01\x02\x00\x01", 6);
	assert_refused("rendezvous.token_file", "expected plain messages");
}
END_TEST

START_TEST(a_broken_frame_is_named)
{
	raw_send(peer, "{\"method\":", 11);
	assert_refused("message", "expected a JSON object: line 1");
}
END_TEST

START_TEST(a_first_message_may_have_four_kilobytes)
{
	char text[LINK_HELLO_BYTES + 1];

	memset(text, '{', sizeof(text));
	raw_send(peer, text, sizeof(text) - 1);
	turns(8);
	ck_assert_int_eq(n_refused, 0);
	raw_send(peer, text, 1);
	assert_refused("message", "expected at most 4096 bytes, got more");
}
END_TEST

START_TEST(a_peer_that_says_nothing_has_five_seconds)
{
	raw_send(peer, "{", 1);
	turns(8);
	loop_pass(loop, 4999);
	turns(8);
	ck_assert_int_eq(n_refused, 0);
	loop_pass(loop, 1);
	AT_ONCE(n_refused);
	assert_refused("message", "expected a Hello within 5000 ms");
}
END_TEST

START_TEST(another_first_message_is_named)
{
	raw_say(peer, "Bye", "{\"n\":1,\"ack\":0}");
	assert_refused("method", "expected Hello or LastWord, got Bye");
}
END_TEST

START_TEST(another_major_version_is_named)
{
	raw_say(peer, "Hello", HELLO_WITH("2", "g1", SESSION, "\"resume\":0"));
	assert_refused("parameters.major", "expected version 1 of io.elasticd.Peer, got 2");
}
END_TEST

START_TEST(another_group_is_named)
{
	raw_say(peer, "Hello", HELLO_WITH("1", "other", SESSION, "\"resume\":0"));
	assert_refused("rendezvous.id", "expected g1, which this head serves, got other");
}
END_TEST

START_TEST(a_short_or_unknown_session_is_refused)
{
	raw_say(peer, "Hello", HELLO_WITH("1", "g1", "x", "\"resume\":0"));
	assert_refused("parameters.session", "expected at least 32 characters");
	close(peer);
	peer = raw_connect(head_port());
	n_refused = 0;
	heard[0] = '\0';
	raw_say(peer, "Hello", HELLO_WITH("1", "g1", SESSION, "\"resume\":3"));
	assert_refused("parameters.session", "expected a link of this head");
}
END_TEST

static void greet(void)
{
	raw_say(peer, "Hello", HELLO);
	UNTIL(n_joined == 2 && heads[1].ups);
}

START_TEST(a_newer_minor_version_is_welcome)
{
	raw_say(peer, "Hello", HELLO_WITH("1", "g1", SESSION, "\"resume\":0,\"colour\":\"blue\""));
	UNTIL(n_joined == 2 && heads[1].ups);
	UNTIL((raw_read(peer, heard, sizeof(heard)), strstr(heard, "Welcome")));
}
END_TEST

START_TEST(a_gap_ends_the_link)
{
	greet();
	raw_say(peer, "Bye", "{\"n\":2,\"ack\":0}");
	assert_told("parameters.n", "expected 1, got 2");
	ck_assert_int_eq(heads[1].ends, 1);
	ck_assert_str_eq(heads[1].why.text, "parameters.n: expected 1, got 2");
}
END_TEST

START_TEST(an_acknowledgement_of_an_unsent_message_ends_the_link)
{
	greet();
	raw_say(peer, "Bye", "{\"n\":1,\"ack\":7}");
	assert_told("parameters.ack", "expected at most 0, got 7");
	ck_assert_int_eq(heads[1].ends, 1);
}
END_TEST

START_TEST(a_message_with_a_wrong_type_ends_the_link_before_a_handler_sees_it)
{
	greet();
	raw_say(peer, "Gone", "{\"n\":1,\"ack\":0,\"round\":\"1\",\"failures\":[]}");
	assert_told("parameters.round", "expected an integer, got \\\"1\\\"");
	ck_assert_str_eq(heads[1].last, "");
}
END_TEST

START_TEST(a_broken_frame_ends_the_link)
{
	greet();
	raw_send(peer, "{}}", 4);
	assert_told("message", "expected a JSON object");
	ck_assert_int_eq(heads[1].ends, 1);
}
END_TEST

START_TEST(messages_of_the_head_are_refused_from_a_member)
{
	greet();
	raw_say(peer, "BeatAnswer",
		"{\"ack\":0,\"boot_us\":1,\"time_us\":1,\"came_us\":1,\"sent_us\":1}");
	assert_told("method", "expected no BeatAnswer at this place of a link");
}
END_TEST

START_TEST(a_second_hello_is_refused)
{
	greet();
	raw_say(peer, "Hello", HELLO);
	assert_told("method", "expected no Hello at this place of a link");
}
END_TEST

START_TEST(a_flood_of_beats_ends_the_link)
{
	greet();
	for (int i = 0; i < 100; i++)
		raw_say(peer, "Beat", "{\"ack\":0,\"boot_us\":1,\"time_us\":1}");
	assert_told("message", "expected at most 64 beats and repeated messages in 120000 ms");
	ck_assert_int_eq(heads[1].ends, 1);
}
END_TEST

START_TEST(a_flood_of_one_message_ends_the_link)
{
	greet();
	for (int i = 0; i < 100; i++)
		raw_say(peer, "Bye", "{\"n\":1,\"ack\":0}");
	assert_told("message", "expected at most 64 beats and repeated messages in 120000 ms");
}
END_TEST

START_TEST(beats_at_their_pace_are_answered)
{
	greet();
	for (int i = 0; i < 100; i++) {
		raw_say(peer, "Beat", "{\"ack\":0,\"boot_us\":1,\"time_us\":1}");
		loop_pass(loop, WORLD_LEASE_MS / 5);
		heard[0] = '\0';
		AT_ONCE((raw_read(peer, heard, sizeof(heard)), strstr(heard, "BeatAnswer")));
	}
	ck_assert_int_eq(heads[1].beats, 100);
}
END_TEST

START_TEST(silent_peers_delay_no_member)
{
	enum { SILENT = 150 };
	int fds[SILENT];

	for (int i = 0; i < SILENT; i++)
		fds[i] = raw_connect(head_port());
	start_member(1, head_port());
	turns(20);
	ck_assert_int_eq(n_joined, 1);
	UNTIL(members[1].ups);
	ck_assert_int_ge(n_refused, SILENT + 1 - 64);
	ck_assert_int_lt(n_refused, SILENT + 1);
	for (int i = 0; i < SILENT; i++)
		close(fds[i]);
}
END_TEST

START_TEST(a_link_resumes_on_a_new_connection_while_the_old_one_seems_to_live)
{
	char again[512], *head_id;
	int old = peer;

	greet();
	say(&heads[1]);
	UNTIL((raw_read(peer, heard, sizeof(heard)), strstr(heard, "Started")));
	head_id = strstr(heard, "\"head\":\"");
	ck_assert_ptr_nonnull(head_id);
	snprintf(again, sizeof(again),
		HELLO_WITH("1", "g1", SESSION, "\"resume\":0,\"head\":\"%.32s\""), head_id + 8);
	peer = raw_connect(head_port());
	raw_say(peer, "Hello", again);
	heard[0] = '\0';
	UNTIL((raw_read(peer, heard, sizeof(heard)), strstr(heard, "Started")));
	ck_assert_int_eq(n_joined, 2);
	ck_assert_int_eq(heads[1].ups, 2);
	close(old);
}
END_TEST

START_TEST(an_address_of_another_host_is_refused_with_those_of_this_one)
{
	struct link_addresses a = loopback(0);
	struct link_listen_options o = { .self = identity("node0", "r1"),
		.lease_ms = WORLD_LEASE_MS,
		.listen = &world_listen_events };
	struct link_listen *second = NULL;

	((struct sockaddr_in *)&a.at[0])->sin_addr.s_addr = inet_addr("192.0.2.1");
	ck_assert_int_eq(link_listen_new(loop, &a, &o, &second, &err), -EADDRNOTAVAIL);
	ck_assert_str_eq(err.field, "rendezvous.endpoints");
	ck_assert_ptr_nonnull(strstr(err.text, "expected an address of this host (127.0.0.1 (lo)"));
	ck_assert_ptr_nonnull(strstr(err.text, "got 192.0.2.1:0"));
	a = loopback(head_port());
	ck_assert_int_eq(link_listen_new(loop, &a, &o, &second, &err), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(err.text, "cannot listen on 127.0.0.1:"));
	a.n = 0;
	ck_assert_int_eq(link_listen_new(loop, &a, &o, &second, &err), -EADDRNOTAVAIL);
}
END_TEST

START_TEST(the_head_listens_on_its_address_alone)
{
	char text[SOCKET_ADDRESS_MAX];
	struct link_addresses a = loopback(head_port());
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	link_listen_address(head, text);
	ck_assert_int_eq(strncmp(text, "127.0.0.1:", 10), 0);
	((struct sockaddr_in *)&a.at[0])->sin_addr.s_addr = inet_addr("127.0.0.2");
	ck_assert_int_lt(connect(fd, (struct sockaddr *)&a.at[0], sizeof(struct sockaddr_in)), 0);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("link_listen");
	TCase *t = tcase_create("link_listen");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, another_protocol_is_named);
	tcase_add_test(t, tls_without_a_token_here_is_named);
	tcase_add_test(t, a_broken_frame_is_named);
	tcase_add_test(t, a_first_message_may_have_four_kilobytes);
	tcase_add_test(t, a_peer_that_says_nothing_has_five_seconds);
	tcase_add_test(t, another_first_message_is_named);
	tcase_add_test(t, another_major_version_is_named);
	tcase_add_test(t, another_group_is_named);
	tcase_add_test(t, a_short_or_unknown_session_is_refused);
	tcase_add_test(t, a_newer_minor_version_is_welcome);
	tcase_add_test(t, a_gap_ends_the_link);
	tcase_add_test(t, an_acknowledgement_of_an_unsent_message_ends_the_link);
	tcase_add_test(t, a_message_with_a_wrong_type_ends_the_link_before_a_handler_sees_it);
	tcase_add_test(t, a_broken_frame_ends_the_link);
	tcase_add_test(t, messages_of_the_head_are_refused_from_a_member);
	tcase_add_test(t, a_second_hello_is_refused);
	tcase_add_test(t, a_flood_of_beats_ends_the_link);
	tcase_add_test(t, a_flood_of_one_message_ends_the_link);
	tcase_add_test(t, beats_at_their_pace_are_answered);
	tcase_add_test(t, silent_peers_delay_no_member);
	tcase_add_test(t, a_link_resumes_on_a_new_connection_while_the_old_one_seems_to_live);
	tcase_add_test(t, an_address_of_another_host_is_refused_with_those_of_this_one);
	tcase_add_test(t, the_head_listens_on_its_address_alone);
	suite_add_tcase(s, t);
	return suite_run(s);
}
