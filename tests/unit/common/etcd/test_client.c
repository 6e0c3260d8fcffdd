/* SPDX-License-Identifier: Apache-2.0 */
/* The client against servers that answer as etcd 3.4, 3.5 and 3.6, or badly, or not. */
#include "tests/unit/etcd_world.h"
#include "tests/unit/run.h"

#include <errno.h>

/* --- What is sent --- */

static char first_request[4096];

static const char *remember(int stub, const char *path, const char *request, const char *body)
{
	snprintf(first_request, sizeof(first_request), "%s", request);
	return well(stub, path, request, body);
}

START_TEST(a_request_is_one_for_the_gateway)
{
	client_start(1, remember);
	put("a", "b", 0);
	ck_assert_status(STATUS_OK);
	ck_assert_ptr_nonnull(strstr(first_request, "POST /v3/kv/txn HTTP/1.1\r\n"));
	ck_assert_ptr_nonnull(strstr(first_request, "\r\nContent-Type: application/json\r\n"));
	ck_assert_ptr_nonnull(strstr(first_request, "\r\nGrpc-Metadata-hasleader: true\r\n"));
	ck_assert_ptr_null(strstr(first_request, "Expect"));
	ck_assert_ptr_null(strstr(first_request, "Authorization"));
	/* A member without a leader has a status, too. */
	ANSWER_OF(etcd_status(etcd, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert_ptr_null(strstr(first_request, "hasleader"));
	ck_assert_int_eq(stubs[0].connections, 1);
}
END_TEST

/* libcurl would wait for the server's leave. */
START_TEST(a_large_request_is_sent_at_once)
{
	static char value[1400 * 1024];
	struct etcd_op op = { .kind = ETCD_PUT, .key = "a", .value = value, .len = sizeof(value) };
	struct etcd_txn t = { .then_ops = &op, .n_then = 1 };

	client_start(1, remember);
	ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert_ptr_null(strstr(first_request, "Expect"));
}
END_TEST

static struct {
	const char *endpoint, *text;
} const endpoints_read[] = {
	{ "", NULL },
	{ "h:0", NULL },
	{ "h:1:2:x]", NULL },
	{ "ftp://h", NULL },
	{ "http://", NULL },
	{ "h/path", NULL },
	{ "h?x", NULL },
	{ "u@h", NULL },
	{ "h#", NULL },
};

START_TEST(a_malformed_endpoint_of_etcd_is_refused)
{
	const char *const endpoint[] = { endpoints_read[_i].endpoint };
	struct etcd_options o = { .endpoints = endpoint, .n = 1 };
	struct error err = { 0 };

	ck_assert_int_eq(etcd_new(loop, &o, &etcd, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "HOST:PORT"));
}
END_TEST

START_TEST(wrong_options_are_refused)
{
	const char *const endpoint[] = { "h" };
	struct etcd_options o = { .endpoints = endpoint };
	struct error err = { 0 };

	ck_assert_int_eq(etcd_new(loop, &o, &etcd, &err), -EINVAL);
	o.n = ETCD_ENDPOINTS_MAX + 1;
	ck_assert_int_eq(etcd_new(loop, &o, &etcd, &err), -EINVAL);
	o.n = 1;
	o.cert = "x";
	ck_assert_int_eq(etcd_new(loop, &o, &etcd, &err), -EINVAL);
	o.cert = NULL;
	o.user = "u";
	o.password = "\xff";
	ck_assert_int_eq(etcd_new(loop, &o, &etcd, &err), -EINVAL);
}
END_TEST

START_TEST(the_first_endpoint_is_chosen_at_random)
{
	int n = 0;

	while (!stubs[0].requests || !stubs[1].requests || !stubs[2].requests) {
		ck_assert_int_lt(n++, 200);
		client_start(3, well);
		get("a", NULL);
		get("a", NULL);
		/* It stays with the one that answers. */
		ck_assert_int_eq(stubs[0].requests % 2 + stubs[1].requests % 2, 0);
		etcd = etcd_free(etcd);
		for (int i = 0; i < STUBS; i++)
			while (stubs[i].n_peers && stubs[i].peers[stubs[i].n_peers - 1]->fd < 0) {
				struct stub_peer *p = stubs[i].peers[--stubs[i].n_peers];

				free(p->in);
				free(p->out);
				free(p);
			}
	}
}
END_TEST

/* --- Other endpoints --- */

static const char *no_leader(int i)
{
	static const char *const shapes[] = {
		"{\"error\":\"etcdserver: no leader\",\"message\":\"etcdserver: no leader\","
		"\"code\":14}",
		"{\"code\":14,\"message\":\"etcdserver: no leader\",\"details\":[]}",
		"{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no "
		"leader\",\"http_status\":\"Service Unavailable\"}}",
		"{\"error\":{\"code\":14,\"message\":\"etcdserver: no leader\",\"details\":[]}}",
	};
	static char *text;

	free(text);
	text = strdup(http(503, shapes[i]));
	return text;
}

START_TEST(a_member_without_a_leader_is_left)
{
	const int64_t lease = 5;

	bad_stubs = 2;
	bad_answer = no_leader(_i);
	client_start(3, first_bad);
	put("a", "b", 0);
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(requests(), 3);
	ANSWER_OF(etcd_keep_alive(etcd, &lease, 1, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(requests(), 4);
}
END_TEST

START_TEST(without_a_leader_anywhere_a_write_has_not_happened)
{
	bad_stubs = 3;
	bad_answer = no_leader(_i);
	client_start(3, first_bad);
	put("a", "b", 0);
	ck_assert_status(STATUS_UNAVAILABLE);
	ck_assert(!got.maybe);
	ck_assert_int_eq(requests(), 3);
	for (int i = 0; i < 3; i++)
		ck_assert_ptr_nonnull(strstr(got.text, names[i]));
}
END_TEST

START_TEST(an_endpoint_without_a_listener_is_left)
{
	for (int i = 0; i < _i; i++) {
		stub_end(&stubs[i]);
		stub_bind(&stubs[i], loop);
	}
	client_start(3, well);
	for (int i = 0; i < 3; i++) {
		put("a", "b", 0);
		if (_i < 3)
			ck_assert_status(STATUS_OK);
		else
			ck_assert_status(STATUS_UNAVAILABLE);
		ck_assert(!got.maybe);
	}
	ck_assert_int_eq(requests(), _i < 3 ? 3 : 0);
}
END_TEST

/* 0: closed, 1: cut, 2: cut in the head, 3: a proxy's, 4: not etcd's, 5: etcd does not know */
static const char *bad(int i)
{
	static char *proxy, *hello, *timeout;

	free(proxy);
	free(hello);
	free(timeout);
	proxy = strdup(http(502, "<html>"));
	hello = strdup(http(200, "hello"));
	timeout = strdup(http(503, "{\"code\":14,\"message\":\"etcdserver: request timed out\"}"));
	return (const char *const[]){ "", CUT "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
		CUT "HTTP/1.1 2", proxy, hello, timeout }[i];
}
enum { BADS = 6 };

START_TEST(a_write_that_may_have_happened_is_not_sent_again)
{
	bad_stubs = 1;
	bad_answer = bad(_i);
	client_start(3, first_bad);
	put("a", "b", 0);
	ck_assert_int_ne(got.status, STATUS_OK);
	ck_assert(got.maybe);
	ck_assert_int_eq(requests(), 1);
	/* The next call goes elsewhere. */
	put("a", "b", 0);
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(requests(), 2);
}
END_TEST

START_TEST(a_read_is_sent_to_another_endpoint)
{
	const int64_t lease = 5;

	bad_stubs = 2;
	bad_answer = bad(_i);
	client_start(3, first_bad);
	get("a", NULL);
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(requests(), 3);
	bad_stubs = 0;
	ANSWER_OF(etcd_keep_alive(etcd, &lease, 1, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(got.leases[0].ttl_s, 9);
}
END_TEST

START_TEST(a_redirection_is_not_followed)
{
	bad_stubs = 1;
	bad_answer = "HTTP/1.1 307 X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
	client_start(1, first_bad);
	put("a", "b", 0);
	ck_assert_status(STATUS_UNIMPLEMENTED);
	ck_assert(!got.maybe);
	ck_assert_int_eq(requests(), 1);
}
END_TEST

/* libcurl would send it again by itself. */
static const char *second_closed(int stub, const char *path, const char *request, const char *body)
{
	return requests() == 2 ? "" : well(stub, path, request, body);
}

START_TEST(a_connection_that_breaks_does_not_send_a_write_twice)
{
	client_start(1, second_closed);
	get("a", NULL);
	put("a", "b", 0);
	ck_assert_status(STATUS_UNAVAILABLE);
	ck_assert(got.maybe);
	ck_assert_int_eq(requests(), 2);
}
END_TEST

START_TEST(a_read_survives_a_connection_that_breaks)
{
	client_start(1, second_closed);
	get("a", NULL);
	get("a", NULL);
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(requests(), 3);
}
END_TEST

/* --- Time --- */

/* Lets the call's time pass only after the server has its request. */
static void call_times_out(struct etcd_op op)
{
	struct etcd_txn t = { .then_ops = &op, .n_then = 1 };
	int before = requests();

	ck_assert_int_eq(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL), 0);
	WAIT_UNTIL(requests() > before);
	loop_pass(loop, PATIENT_MS);
	wait_answers(got.answers + 1);
	ck_assert_status(STATUS_DEADLINE_EXCEEDED);
}

START_TEST(a_silent_server_has_until_the_limit)
{
	bad_stubs = 1;
	bad_answer = NULL;
	client_start(1, first_bad);
	call_times_out(op_put("a", "b", 0));
	ck_assert(got.maybe);
	call_times_out((struct etcd_op){ .kind = ETCD_GET, .key = "a" });
	ck_assert(!got.maybe);
}
END_TEST

START_TEST(a_write_leaves_a_silent_server_to_the_next_one)
{
	bad_stubs = 1;
	bad_answer = NULL;
	client_start(2, first_bad);
	call_times_out(op_put("a", "b", 0));
	ck_assert_int_eq(requests(), 1);
	put("a", "b", 0);
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(requests(), 2);
}
END_TEST

START_TEST(a_read_leaves_a_silent_server_at_half_time)
{
	uint64_t began = loop_now_ms();

	bad_stubs = 1;
	bad_answer = NULL;
	client_start(2, first_bad);
	get_within("a", NULL, 2 * SHORT_MS);
	ck_assert_status(STATUS_OK);
	ck_assert_uint_ge(loop_now_ms() - began, SHORT_MS);
	ck_assert_uint_ge(got.sent_ms, began + SHORT_MS);
	get("a", NULL);
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(requests(), 3);
}
END_TEST

static struct {
	enum status status;
	bool maybe;
} each[4];
static int n_each;

static void on_each(void *arg, const struct etcd_answer *a)
{
	each[n_each].status = a->status;
	each[n_each++].maybe = a->maybe;
}

static int put_each(const char *value, int64_t limit_ms, struct etcd_call **ret)
{
	struct etcd_op op = op_put("a", value, 0);
	struct etcd_txn t = { .then_ops = &op, .n_then = 1 };

	return etcd_txn(etcd, &t, limit_ms, on_each, NULL, ret);
}

START_TEST(a_write_behind_an_unanswered_one_has_not_happened)
{
	bad_stubs = 1;
	bad_answer = NULL;
	client_start(1, first_bad);
	ck_assert_int_eq(put_each("1", 2 * PATIENT_MS, NULL), 0);
	ck_assert_int_eq(put_each("2", PATIENT_MS, NULL), 0);
	WAIT_UNTIL(requests() == 1);
	for (int i = 1; i <= 2; i++) {
		loop_pass(loop, PATIENT_MS);
		WAIT_UNTIL(n_each == i);
	}
	ck_assert_int_eq(each[0].status, STATUS_DEADLINE_EXCEEDED);
	ck_assert(!each[0].maybe);
	ck_assert_int_eq(each[1].status, STATUS_DEADLINE_EXCEEDED);
	ck_assert(each[1].maybe);
	ck_assert_int_eq(requests(), 1);
}
END_TEST

START_TEST(a_cancelled_write_lets_the_next_one_go)
{
	struct etcd_call *first, *second;

	bad_stubs = 1;
	bad_answer = NULL;
	client_start(1, first_bad);
	ck_assert_int_eq(put_each("1", PATIENT_MS, &first), 0);
	ck_assert_int_eq(put_each("2", PATIENT_MS, &second), 0);
	ck_assert_int_eq(put_each("3", PATIENT_MS, NULL), 0);
	WAIT_UNTIL(requests() == 1);
	bad_stubs = 0;
	ck_assert_ptr_null(etcd_cancel(second));
	ck_assert_ptr_null(etcd_cancel(first));
	WAIT_UNTIL(n_each == 1);
	ck_assert_int_eq(each[0].status, STATUS_OK);
	ck_assert_int_eq(requests(), 2);
}
END_TEST

/* --- Users --- */

static int logins, refused;

static const char *with_users(int stub, const char *path, const char *request, const char *body)
{
	static const char *const shapes[] = {
		"{\"error\":\"etcdserver: invalid auth token\",\"message\":\"etcdserver: invalid "
		"auth token\",\"code\":16}",
		"{\"code\":16,\"message\":\"etcdserver: invalid auth token\",\"details\":[]}",
	};
	char token[64];

	if (!strcmp(path, "/v3/auth/authenticate")) {
		char answer[128];

		ck_assert_str_eq(body, "{\"name\":\"u\",\"password\":\"p\"}");
		snprintf(answer, sizeof(answer), "{" HEADER ",\"token\":\"token%d\"}", ++logins);
		return http(200, answer);
	}
	snprintf(token, sizeof(token), "Authorization: token%d\r\n", refused + 1);
	if (strstr(request, token))
		return well(stub, path, request, body);
	return http(401, shapes[requests() % 2]);
}

START_TEST(a_token_is_got_once_and_again_when_it_ends)
{
	stub_answer = with_users;
	client_start_with(1, (struct etcd_options){ .user = "u", .password = "p" });
	for (int i = 0; i < 3; i++) {
		put("a", "b", 0);
		ck_assert_status(STATUS_OK);
		put("a", "b", 0);
		ck_assert_status(STATUS_OK);
		ck_assert_int_eq(logins, i + 1);
		refused++;
	}
	/* None that it gets is good. */
	refused = 99;
	put("a", "b", 0);
	ck_assert_status(STATUS_UNAUTHENTICATED);
	ck_assert(!got.maybe);
	ck_assert_int_eq(logins, 5);
}
END_TEST

static const char *second_silent(int stub, const char *path, const char *request, const char *body)
{
	return requests() == 3 ? NULL : with_users(stub, path, request, body);
}

START_TEST(a_late_refusal_does_not_end_a_newer_token)
{
	struct etcd_call *late;

	stub_answer = second_silent;
	client_start_with(1, (struct etcd_options){ .user = "u", .password = "p" });
	put("a", "b", 0);
	refused = 1;
	ck_assert_int_eq(
		etcd_txn(etcd, &(struct etcd_txn){ 0 }, PATIENT_MS, on_answer, NULL, &late), 0);
	WAIT_UNTIL(requests() == 3);
	put("a", "b", 0);
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(logins, 2);
	stub_peer_put(stubs[0].peers[0], http(401, "{\"code\":16,\"message\":\"no\"}"));
	wait_answers(3);
	ck_assert_int_eq(logins, 2);
}
END_TEST

static const char *login_closed(int stub, const char *path, const char *request, const char *body)
{
	return strcmp(path, "/v3/auth/authenticate") ? well(stub, path, request, body)
						     : (const char *)bad_answer;
}

START_TEST(a_write_without_a_token_has_not_happened)
{
	stub_answer = login_closed;
	bad_answer = _i ? NULL : "";
	client_start_with(1, (struct etcd_options){ .user = "u", .password = "p" });
	put_within("a", "b", 0, _i ? SHORT_MS : PATIENT_MS);
	ck_assert_int_eq(got.status, _i ? STATUS_DEADLINE_EXCEEDED : STATUS_UNAVAILABLE);
	ck_assert(!got.maybe);
}
END_TEST

/* --- No gateway --- */

static const char *version_answer;

static const char *no_gateway(int stub, const char *path, const char *request, const char *body)
{
	if (strcmp(path, "/version"))
		return http(404, "404 page not found\n");
	ck_assert_int_eq(strncmp(request, "GET ", 4), 0);
	return version_answer;
}

START_TEST(an_old_etcd_is_named_with_its_version)
{
	version_answer = http(200, "{\"etcdserver\":\"3.3.25\",\"etcdcluster\":\"3.3.0\"}");
	client_start(1, no_gateway);
	put("a", "b", 0);
	ck_assert_status(STATUS_UNIMPLEMENTED);
	ck_assert(!got.maybe);
	ck_assert_ptr_nonnull(strstr(got.text, "etcd 3.3.25 is too old: 3.4 or later"));
	version_answer = "";
	put("a", "b", 0);
	ck_assert_status(STATUS_UNIMPLEMENTED);
	ck_assert_ptr_nonnull(strstr(got.text, "no etcd is there"));
}
END_TEST

/* A port for gRPC alone answers HTTP/1 with the settings of HTTP/2. */
START_TEST(a_port_for_grpc_alone_is_named)
{
	bad_stubs = 1;
	bad_answer = CUT "\x20\x20\x06\x04\x01\x01\x01\x01\x01";
	client_start(1, first_bad);
	put("a", "b", 0);
	ck_assert_status(STATUS_UNIMPLEMENTED);
	ck_assert_ptr_nonnull(strstr(got.text, "--listen-client-http-urls"));
}
END_TEST

static void on_answer_more(void *arg, const struct etcd_answer *a)
{
	ck_assert_int_eq(a->status, STATUS_OK);
	if (++got.answers < 4)
		ck_assert_int_eq(etcd_status(etcd, PATIENT_MS, on_answer_more, NULL, NULL), 0);
}

START_TEST(a_callback_may_call)
{
	client_start(1, well);
	ck_assert_int_eq(etcd_status(etcd, PATIENT_MS, on_answer_more, NULL, NULL), 0);
	wait_answers(4);
}
END_TEST

static void add_calls(TCase *t)
{
	tcase_add_test(t, a_request_is_one_for_the_gateway);
	tcase_add_test(t, a_large_request_is_sent_at_once);
	tcase_add_loop_test(t, a_malformed_endpoint_of_etcd_is_refused, 0,
		sizeof(endpoints_read) / sizeof(endpoints_read[0]));
	tcase_add_test(t, wrong_options_are_refused);
	tcase_add_test(t, the_first_endpoint_is_chosen_at_random);
	tcase_add_loop_test(t, a_member_without_a_leader_is_left, 0, 4);
	tcase_add_loop_test(t, without_a_leader_anywhere_a_write_has_not_happened, 0, 4);
	tcase_add_loop_test(t, an_endpoint_without_a_listener_is_left, 1, 4);
	tcase_add_loop_test(t, a_write_that_may_have_happened_is_not_sent_again, 0, BADS);
	tcase_add_loop_test(t, a_read_is_sent_to_another_endpoint, 0, BADS);
	tcase_add_test(t, a_redirection_is_not_followed);
	tcase_add_test(t, a_connection_that_breaks_does_not_send_a_write_twice);
	tcase_add_test(t, a_read_survives_a_connection_that_breaks);
	tcase_add_test(t, a_silent_server_has_until_the_limit);
	tcase_add_test(t, a_write_leaves_a_silent_server_to_the_next_one);
	tcase_add_test(t, a_read_leaves_a_silent_server_at_half_time);
	tcase_add_test(t, a_write_behind_an_unanswered_one_has_not_happened);
	tcase_add_test(t, a_cancelled_write_lets_the_next_one_go);
	tcase_add_test(t, a_token_is_got_once_and_again_when_it_ends);
	tcase_add_test(t, a_late_refusal_does_not_end_a_newer_token);
	tcase_add_loop_test(t, a_write_without_a_token_has_not_happened, 0, 2);
	tcase_add_test(t, an_old_etcd_is_named_with_its_version);
	tcase_add_test(t, a_port_for_grpc_alone_is_named);
	tcase_add_test(t, a_callback_may_call);
}

int main(void)
{
	Suite *s;
	TCase *t;

	if (!world_load())
		return 77;
	s = suite_create("etcd client");
	t = tcase_create("client");
	tcase_add_checked_fixture(t, setup, teardown);
	add_calls(t);
	suite_add_tcase(s, t);
	return suite_run(s);
}
