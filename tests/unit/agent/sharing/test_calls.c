/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of calls over a link, whose messages are handed over by hand. */
#include "agent/sharing/calls_in.h"
#include "agent/sharing/calls_out.h"
#include "tests/unit/run.h"
#include "tests/unit/varlink_demo.h"

#include <stdio.h>
#include <stdlib.h>

/* A message that one end has sent. */
struct message {
	char method[16];
	json_t *body;
};

static struct calls_out out;
static struct calls_in in;
static struct message to_in[64], to_out[64];
static size_t n_to_in, n_to_out;
static int send_fails; /* what the way of out returns */
static bool congested; /* the way of in */

struct connection {
	struct call_in in;
};

static void keep(struct message *list, size_t *n, const char *method, const char *body, size_t len)
{
	ck_assert_uint_lt(*n, 64);
	snprintf(list[*n].method, sizeof(list[*n].method), "%s", method);
	list[*n].body = json_loadb(body, len, 0, NULL);
	ck_assert_ptr_nonnull(list[*n].body);
	++*n;
}

static int out_send(void *arg, const char *method, const char *body, size_t len)
{
	if (!send_fails)
		keep(to_in, &n_to_in, method, body, len);
	return send_fails;
}

static int in_send(void *arg, const char *method, const char *body, size_t len)
{
	keep(to_out, &n_to_out, method, body, len);
	return 0;
}

static bool is_congested(void *arg)
{
	return congested;
}

static void on_closed(void *user, void *arg)
{
	struct connection *c = user;

	call_in_left(&c->in);
	free(c);
}

static void hear_in(const struct message *m)
{
	int64_t number = json_get_int(m->body, "connection", 0);
	struct connection *c = (struct connection *)calls_in_find(&in, number);

	if (strcmp(m->method, "Call") != 0) {
		calls_in_received(&in, m->method, m->body);
		return;
	}
	if (!c) {
		c = calloc(1, sizeof(*c));
		ck_assert_int_eq(calls_in_open(&in, number, server, c, &c->in), 0);
	}
	ck_assert_int_eq(call_in_feed(&c->in, m->body), 0);
}

/* Hands over what the ends have sent, until nothing more comes. */
static void exchange(void)
{
	do {
		for (size_t i = 0; i < n_to_in; i++) {
			hear_in(&to_in[i]);
			json_decref(to_in[i].body);
		}
		n_to_in = 0;
		turn();
		for (size_t i = 0; i < n_to_out; i++) {
			calls_out_received(&out, to_out[i].method, to_out[i].body);
			json_decref(to_out[i].body);
		}
		n_to_out = 0;
	} while (n_to_in);
}

static void setup_with(bool negative, bool stepwise)
{
	const struct calls_way way_out = { .send = out_send, .congested = is_congested };
	const struct calls_way way_in = { .send = in_send, .congested = is_congested };
	struct varlink_options opt = demo_options();

	opt.closed = on_closed;
	demo_start(&opt);
	calls_out_init(&out, &way_out, negative);
	calls_in_init(&in, &way_in, stepwise);
	send_fails = 0;
	congested = false;
}

static void setup(void)
{
	setup_with(false, false);
}

static void teardown(void)
{
	calls_out_cut(&out, "the test is over");
	exchange();
	calls_out_fini(&out);
	calls_in_fini(&in);
	demo_stop();
	for (size_t i = 0; i < n_to_out; i++)
		json_decref(to_out[i].body);
	n_to_out = 0;
}

/* The answers that a caller has got: "text," for each answer, "(name)" for an error, "." at the
 * end. */
static char heard[256];

static void on_answer(void *arg, const char *error, json_t *p, bool continues)
{
	size_t n = strlen(heard);

	if (error)
		snprintf(heard + n, sizeof(heard) - n, "(%s).", error);
	else
		snprintf(heard + n, sizeof(heard) - n, "%s%s",
			json_get_string(p, "text", json_get_string(p, "key", "")),
			continues ? "," : ".");
}

static struct call_out *call(
	struct calls_out_connection *c, const char *method, const char *text, bool more)
{
	_cleanup_json_ json_t *p = text ? json_pack("{s:s}", "text", text) : json_object();
	const struct calls_out_message m = { .round = 1,
		.worker = "",
		.interface = "org.test.demo",
		.method = method,
		.more = more,
		.parameters = p };
	struct call_out *x = NULL;

	*heard = '\0';
	ck_assert_int_eq(calls_out_call(c, &m, on_answer, NULL, &x), 0);
	return x;
}

static void notify_kept(int i, const char *key)
{
	ck_assert_int_eq(varlink_notify(kept[i], json_pack("{s:s}", "key", key)), 0);
}

START_TEST(a_connection_for_one_call_ends_with_its_answer)
{
	call(calls_out_open(&out, NULL), "Echo", "a", false);
	exchange();
	ck_assert_str_eq(heard, "a.");
	ck_assert(LIST_EMPTY(&out.connections));
	ck_assert(TAILQ_EMPTY(&in.connections));
	turn();
	ck_assert_int_eq(varlink_server_connections(server), 0);
}
END_TEST

START_TEST(a_connection_with_an_owner_stays)
{
	struct calls_out_connection *c = NULL;

	c = calls_out_open(&out, &c);
	call(c, "Echo", "a", false);
	exchange();
	call(c, "Echo", "b", false);
	exchange();
	ck_assert_str_eq(heard, "b.");
	ck_assert_int_eq(varlink_server_connections(server), 1);
	calls_out_close(c);
	ck_assert_ptr_null(c);
	exchange();
	ck_assert_int_eq(varlink_server_connections(server), 0);
}
END_TEST

START_TEST(errors_have_their_names)
{
	call(calls_out_open(&out, NULL), "Undone", NULL, false);
	exchange();
	ck_assert_str_eq(heard, "(org.varlink.service.MethodNotImplemented).");
}
END_TEST

START_TEST(the_end_of_the_link_answers_all_calls)
{
	struct calls_out_connection *c = NULL;

	c = calls_out_open(&out, &c);
	call(c, "Keep", NULL, false);
	call(calls_out_open(&out, NULL), "Keep", NULL, false);
	exchange();
	calls_out_cut(&out, "it is cut");
	ck_assert_str_eq(heard, "(Unavailable).(Unavailable).");
	ck_assert_ptr_null(c);
	exchange();
	ck_assert_int_eq(n_gone, 2);
}
END_TEST

START_TEST(a_caller_that_is_gone_ends_its_call_at_the_other_end)
{
	struct call_out *x = call(calls_out_open(&out, NULL), "Keep", NULL, false);

	exchange();
	calls_out_drop(x);
	exchange();
	ck_assert_int_eq(n_gone, 1);
	ck_assert_str_eq(heard, "");
}
END_TEST

START_TEST(a_way_that_is_shut_begins_no_call)
{
	const struct calls_out_message m = {
		.worker = "", .interface = "org.test.demo", .method = "Keep", .parameters = NULL
	};

	send_fails = -ECONNRESET;
	ck_assert_int_lt(calls_out_call(calls_out_open(&out, NULL), &m, on_answer, NULL, NULL), 0);
	ck_assert(LIST_EMPTY(&out.connections));
}
END_TEST

START_TEST(numbers_say_who_has_begun)
{
	teardown();
	setup_with(true, false);
	call(calls_out_open(&out, NULL), "Echo", "a", false);
	ck_assert_int_eq(json_get_int(to_in[0].body, "connection", 0), -1);
	exchange();
	ck_assert_str_eq(heard, "a.");
}
END_TEST

START_TEST(answers_wait_while_the_caller_does_not_read)
{
	struct call_out *x = call(calls_out_open(&out, NULL), "Keep", NULL, true);

	exchange();
	calls_out_flow(x, true);
	exchange();
	notify_kept(0, "1");
	exchange();
	ck_assert_str_eq(heard, "");
	calls_out_flow(x, false);
	exchange();
	ck_assert_str_eq(heard, "1,");
}
END_TEST

START_TEST(step_by_step_each_answer_is_asked_for)
{
	struct call_out *x;

	teardown();
	setup_with(true, true);
	x = call(calls_out_open(&out, NULL), "Keep", NULL, true);
	exchange();
	for (int i = 1; i <= 3; i++)
		notify_kept(0, (const char *[]){ "0", "1", "2", "3" }[i]);
	exchange();
	ck_assert_str_eq(heard, "1,");
	exchange();
	ck_assert_str_eq(heard, "1,");
	calls_out_flow(x, false);
	exchange();
	ck_assert_str_eq(heard, "1,2,");
	answer_kept(0, "4");
	calls_out_flow(x, false);
	exchange();
	calls_out_flow(x, false);
	exchange();
	ck_assert_str_eq(heard, "1,2,3,4.");
}
END_TEST

START_TEST(a_full_way_holds_the_others_until_it_has_room)
{
	call(calls_out_open(&out, NULL), "Keep", NULL, true);
	call(calls_out_open(&out, NULL), "Keep", NULL, true);
	exchange();
	congested = true;
	notify_kept(0, "a");
	exchange();
	notify_kept(0, "b");
	notify_kept(1, "c");
	exchange();
	ck_assert_str_eq(heard, "a,");
	congested = false;
	calls_in_ready(&in);
	exchange();
	ck_assert_uint_eq(strlen(heard), strlen("a,b,c,"));
}
END_TEST

START_TEST(what_belongs_to_no_connection_is_dropped)
{
	json_t *body = json_pack("{s:i, s:{s:{}}}", "connection", 99, "message", "parameters");

	calls_out_received(&out, "Answer", body);
	calls_out_received(&out, "Hangup", body);
	calls_in_received(&in, "Flow", body);
	calls_in_received(&in, "Hangup", body);
	json_decref(body);
	ck_assert_int_eq(varlink_server_connections(server), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("calls");
	TCase *t = tcase_create("calls");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_connection_for_one_call_ends_with_its_answer);
	tcase_add_test(t, a_connection_with_an_owner_stays);
	tcase_add_test(t, errors_have_their_names);
	tcase_add_test(t, the_end_of_the_link_answers_all_calls);
	tcase_add_test(t, a_caller_that_is_gone_ends_its_call_at_the_other_end);
	tcase_add_test(t, a_way_that_is_shut_begins_no_call);
	tcase_add_test(t, numbers_say_who_has_begun);
	tcase_add_test(t, answers_wait_while_the_caller_does_not_read);
	tcase_add_test(t, step_by_step_each_answer_is_asked_for);
	tcase_add_test(t, a_full_way_holds_the_others_until_it_has_room);
	tcase_add_test(t, what_belongs_to_no_connection_is_dropped);
	suite_add_tcase(s, t);
	return suite_run(s);
}
