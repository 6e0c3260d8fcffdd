/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/message.h"

#include "common/text/json.h"
#include "common/varlink/peer_idl.h"
#include "common/varlink/peer_ranges.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#define PEER "io.elasticd.Peer."

static struct varlink_idl *idl;
static struct varlink_buffer out;
static struct link_message in;
static struct error err;

static void setup(void)
{
	ck_assert_int_eq(link_message_interface(&idl), 0);
}

static void teardown(void)
{
	link_message_fini(&in);
	varlink_buffer_fini(&out);
	idl = varlink_idl_free(idl);
}

static void assert_read(const char *text)
{
	int r = link_message_read(idl, text, strlen(text), &in, &err);

	ck_assert_msg(r == 0, "%s", err.text);
}

static void assert_refused(const char *text, const char *field, const char *why)
{
	char expected[512];

	err = (struct error){ 0 };
	ck_assert_int_eq(link_message_read(idl, text, strlen(text), &in, &err), -EPROTO);
	ck_assert_int_eq(err.code, -EPROTO);
	snprintf(expected, sizeof(expected), "%s: %s", field, why);
	ck_assert_str_eq(err.text, expected);
	ck_assert_str_eq(err.field, field);
}

START_TEST(messages_carry_their_number_and_acknowledgement)
{
	ck_assert_int_eq(link_message_put(&out, "Bye", 7, 0, NULL), 0);
	ck_assert_str_eq(out.data, "{\"method\":\"" PEER "Bye\",\"oneway\":true,"
				   "\"parameters\":{\"n\":7,\"ack\":0}}");
	assert_read(out.data);
	ck_assert_str_eq(in.method, "Bye");
	ck_assert_int_eq(in.n, 7);
	ck_assert_int_eq(in.ack, 0);
}
END_TEST

START_TEST(a_body_stands_behind_number_and_acknowledgement)
{
	json_t *body = json_pack("{s:i,s:s}", "round", 3, "why", "no port");

	ck_assert_int_eq(link_message_put(&out, "Unable", 1, 9, body), 0);
	assert_read(out.data);
	ck_assert_str_eq(json_get_string(in.parameters, "why", ""), "no port");
	ck_assert_int_eq(in.ack, 9);
}
END_TEST

START_TEST(messages_without_number_and_body_are_whole)
{
	ck_assert_int_eq(link_message_put(&out, "Refuse", 0, -1,
				 json_pack("{s:s,s:s}", "field", "a", "why", "b")),
		0);
	assert_read(out.data);
	ck_assert_int_eq(in.n, 0);
	ck_assert_int_eq(in.ack, -1);
	link_message_fini(&in);
	varlink_buffer_fini(&out);
	ck_assert_int_eq(link_message_put(&out, "Ack", 0, 5, NULL), 0);
	assert_read(out.data);
	ck_assert_int_eq(in.ack, 5);
}
END_TEST

START_TEST(a_message_over_the_limit_leaves_the_buffer_alone)
{
	char *text = malloc(LINK_MESSAGE_BYTES);

	memset(text, 'x', LINK_MESSAGE_BYTES);
	text[LINK_MESSAGE_BYTES - 1] = '\0';
	ck_assert_int_eq(link_message_put(&out, "Bye", 1, 0, NULL), 0);
	ck_assert_int_eq(link_message_put(&out, "Unable", 2, 0,
				 json_pack("{s:i,s:s}", "round", 1, "why", text)),
		-EMSGSIZE);
	ck_assert_uint_eq(varlink_buffer_len(&out), strlen(out.data) + 1);
	free(text);
}
END_TEST

START_TEST(errors_name_the_field_and_what_was_expected)
{
	assert_refused("GET / HTTP/1.1", "message",
		"expected a JSON object: line 1, column 3: '[' or '{' expected near 'GET'");
	assert_refused("{}", "method", "missing, expected a string");
	assert_refused("{\"method\":\"Bye\"}", "method",
		"expected a method of io.elasticd.Peer, got \"Bye\"");
	assert_refused("{\"method\":\"" PEER "Fly\",\"oneway\":true}", "method",
		"expected a method of io.elasticd.Peer, got \"" PEER "Fly\"");
	assert_refused("{\"method\":\"" PEER "Bye\"}", "oneway", "expected true");
	assert_refused("{\"method\":\"" PEER "Bye\",\"oneway\":true,\"parameters\":[]}",
		"parameters", "expected an object");
	assert_refused("{\"method\":\"" PEER "Bye\",\"oneway\":true,\"parameters\":{\"n\":1}}",
		"parameters.ack", "missing, expected an integer");
	assert_refused("{\"method\":\"" PEER "Bye\",\"oneway\":true,\"parameters\":"
		       "{\"n\":0,\"ack\":0}}",
		"parameters.n", "expected 1 to 9223372036854775807, got 0");
	assert_refused("{\"method\":\"" PEER "Bye\",\"oneway\":true,\"parameters\":"
		       "{\"n\":1,\"ack\":0,\"x\":1}}",
		"parameters.x", "unknown, expected one of: n, ack");
}
END_TEST

START_TEST(another_major_version_is_named_before_anything_else)
{
	assert_refused("{\"method\":\"" PEER "Hello\",\"oneway\":true,\"parameters\":"
		       "{\"major\":2,\"who\":[]}}",
		"parameters.major", "expected version 1 of io.elasticd.Peer, got 2");
}
END_TEST

START_TEST(a_newer_minor_version_may_say_more_in_its_hello)
{
	assert_read("{\"method\":\"" PEER "LastWord\",\"oneway\":true,\"parameters\":{\"major\":1,"
		    "\"minor\":9,\"group\":\"g\",\"agent\":\"a\",\"word\":\"w\",\"more\":{}}}");
	ck_assert_str_eq(in.method, "LastWord");
}
END_TEST

START_TEST(integers_are_checked_at_any_depth)
{
	static const char join[] = "{\"method\":\"" PEER "Join\",\"oneway\":true,\"parameters\":{"
				   "\"n\":1,\"ack\":0,\"run\":\"r\","
				   "\"address\":\"a\",\"settings\":[],\"known_round\":0,"
				   "\"attempts\":0,\"restarts\":0,"
				   "\"roles\":[{\"role\":\"worker\",\"replicas\":%d}]}}";
	char text[512];

	snprintf(text, sizeof(text), join, 8);
	assert_read(text);
	snprintf(text, sizeof(text), join, -1);
	assert_refused(text, "parameters.roles[0].replicas", "expected 0 to 4096, got -1");
}
END_TEST

START_TEST(every_range_is_of_an_integer_of_the_interface)
{
	for (const struct varlink_range *r = peer_ranges; r->parameter; r++) {
		char text[64];

		snprintf(text, sizeof(text), "%s: int", r->parameter);
		if (!strstr(peer_idl, text)) {
			snprintf(text, sizeof(text), "%s: ?int", r->parameter);
			ck_assert_msg(strstr(peer_idl, text) != NULL, "%s", r->parameter);
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("link_message");
	TCase *t = tcase_create("link_message");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, messages_carry_their_number_and_acknowledgement);
	tcase_add_test(t, a_body_stands_behind_number_and_acknowledgement);
	tcase_add_test(t, messages_without_number_and_body_are_whole);
	tcase_add_test(t, a_message_over_the_limit_leaves_the_buffer_alone);
	tcase_add_test(t, errors_name_the_field_and_what_was_expected);
	tcase_add_test(t, another_major_version_is_named_before_anything_else);
	tcase_add_test(t, a_newer_minor_version_may_say_more_in_its_hello);
	tcase_add_test(t, integers_are_checked_at_any_depth);
	tcase_add_test(t, every_range_is_of_an_integer_of_the_interface);
	suite_add_tcase(s, t);
	return suite_run(s);
}
