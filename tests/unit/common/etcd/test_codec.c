/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/codec.h"
#include "common/etcd/failure.h"
#include "common/etcd/split.h"
#include "tests/unit/nomem.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static struct json_writer w;
static struct etcd_decoded d;

static void setup(void)
{
	w = (struct json_writer){ 0 };
	d = (struct etcd_decoded){ 0 };
}

static void teardown(void)
{
	json_writer_fini(&w);
	etcd_decoded_fini(&d);
}

static void ck_assert_written(const char *text)
{
	json_write(&w, "", 1);
	ck_assert(!w.failed);
	ck_assert_str_eq(w.data, text);
}

/* --- Requests --- */

START_TEST(a_transaction_is_written_as_etcd_reads_it)
{
	struct etcd_compare compares[] = { { "a", INT64_MAX }, { "b", 0 } };
	struct etcd_op then_ops[] = {
		{ .kind = ETCD_PUT, .key = "a", .value = "\0\xff", .len = 2, .lease = 5 },
		{ .kind = ETCD_DELETE, .key = "a/", .end = "a0" },
	};
	struct etcd_op else_ops[] = {
		{ .kind = ETCD_GET, .key = "", .end = "", .limit = 3 },
		{ .kind = ETCD_GET, .key = "a" },
	};
	struct etcd_txn t = { compares, 2, then_ops, else_ops, 2, 2 };
	struct etcd_shape shape;

	ck_assert_int_eq(etcd_encode_txn(&w, &t, &shape), 0);
	ck_assert_written("{\"compare\":["
			  "{\"key\":\"YQ==\",\"target\":\"MOD\",\"result\":\"EQUAL\","
			  "\"mod_revision\":\"9223372036854775807\"},"
			  "{\"key\":\"Yg==\",\"target\":\"MOD\",\"result\":\"EQUAL\","
			  "\"mod_revision\":\"0\"}],"
			  "\"success\":["
			  "{\"request_put\":{\"key\":\"YQ==\",\"value\":\"AP8=\",\"lease\":\"5\"}},"
			  "{\"request_delete_range\":{\"key\":\"YS8=\",\"range_end\":\"YTA=\"}}],"
			  "\"failure\":["
			  "{\"request_range\":{\"key\":\"AA==\",\"range_end\":\"AA==\","
			  "\"limit\":\"3\"}},"
			  "{\"request_range\":{\"key\":\"YQ==\"}}]}");
	ck_assert_uint_eq(shape.n_then, 2);
	ck_assert_uint_eq(shape.n_else, 2);
	ck_assert_mem_eq(
		shape.kinds, ((unsigned char[]){ ETCD_PUT, ETCD_DELETE, ETCD_GET, ETCD_GET }), 4);
}
END_TEST

static struct etcd_op bad_ops[] = {
	{ .kind = ETCD_PUT, .key = "" },
	{ .kind = ETCD_PUT, .key = "a", .end = "b" },
	{ .kind = ETCD_PUT, .key = "a", .lease = -1 },
	{ .kind = ETCD_GET, .key = "" },
	{ .kind = ETCD_DELETE, .key = "" },
	{ .kind = ETCD_GET, .key = "a", .limit = -1 },
};
enum { BAD_OPS = sizeof(bad_ops) / sizeof(bad_ops[0]) };

START_TEST(a_wrong_operation_is_refused)
{
	struct etcd_compare compares[] = { { "", 1 }, { "a", -1 } };
	struct etcd_txn t = { .n_then = 1, .then_ops = &bad_ops[_i] };
	struct etcd_shape shape;

	if (_i < BAD_OPS)
		ck_assert_int_eq(etcd_encode_txn(&w, &t, &shape), -EINVAL);
	t = (struct etcd_txn){ .n_compares = 1, .compares = &compares[_i % 2] };
	ck_assert_int_eq(etcd_encode_txn(&w, &t, &shape), -EINVAL);
}
END_TEST

START_TEST(a_request_has_limits)
{
	static char value[ETCD_REQUEST_MAX + 1];
	static struct etcd_op ops[ETCD_OPS_MAX + 1];
	static struct etcd_compare compares[ETCD_OPS_MAX + 1];
	struct etcd_txn t = { .then_ops = ops, .n_then = ETCD_OPS_MAX };
	static int64_t leases[ETCD_OPS_MAX + 1];
	struct etcd_shape shape;

	for (int i = 0; i <= ETCD_OPS_MAX; i++) {
		ops[i] = (struct etcd_op){ .kind = ETCD_GET, .key = "a" };
		compares[i] = (struct etcd_compare){ .key = "a" };
		leases[i] = i + 1;
	}
	t.else_ops = ops;
	t.n_else = ETCD_OPS_MAX;
	t.compares = compares;
	t.n_compares = ETCD_OPS_MAX;
	ck_assert_int_eq(etcd_encode_txn(&w, &t, &shape), 0);
	t.n_compares++;
	ck_assert_int_eq(etcd_encode_txn(&w, &t, &shape), -E2BIG);
	t.n_compares = 0;
	t.n_else++;
	ck_assert_int_eq(etcd_encode_txn(&w, &t, &shape), -E2BIG);
	t.n_else = 0;
	t.n_then++;
	ck_assert_int_eq(etcd_encode_txn(&w, &t, &shape), -E2BIG);
	t.n_then = 1;
	ops[0] = (struct etcd_op){ .kind = ETCD_PUT, .key = "a", .value = value };
	ops[0].len = sizeof(value) / 4 * 3 - 100;
	w.len = 0;
	ck_assert_int_eq(etcd_encode_txn(&w, &t, &shape), 0);
	ops[0].len += 100;
	w.len = 0;
	ck_assert_int_eq(etcd_encode_txn(&w, &t, &shape), -EMSGSIZE);
	ops[0].len = sizeof(value);
	w.len = 0;
	ck_assert_int_eq(etcd_encode_txn(&w, &t, &shape), -EMSGSIZE);
	ck_assert_int_eq(etcd_encode_keep_alive(&w, leases, ETCD_OPS_MAX + 1), -E2BIG);
	ck_assert_int_eq(etcd_encode_keep_alive(&w, leases, 0), -EINVAL);
	leases[0] = 0;
	ck_assert_int_eq(etcd_encode_keep_alive(&w, leases, 1), -EINVAL);
}
END_TEST

START_TEST(other_requests_are_written_as_etcd_reads_them)
{
	const int64_t leases[] = { 77, 78 };

	ck_assert_int_eq(etcd_encode_keep_alive(&w, leases, 2), 0);
	etcd_encode_grant(&w, 9);
	etcd_encode_revoke(&w, 5);
	ck_assert_int_eq(etcd_encode_watch(&w, "a/", "a0", 3), 0);
	ck_assert_int_eq(etcd_encode_user(&w, "u\"", "p\xc3\xa4"), 0);
	ck_assert_int_eq(etcd_encode_user(&w, "", "\xff"), -EINVAL);
	ck_assert_int_eq(etcd_encode_watch(&w, "", NULL, 3), -EINVAL);
	ck_assert_int_eq(etcd_encode_watch(&w, "a", NULL, 0), -EINVAL);
	w.len = (size_t)(strstr(w.data, "\"p\xc3\xa4\"}") - w.data) + strlen("\"p\xc3\xa4\"}");
	ck_assert_written("{\"ID\":\"77\"}{\"ID\":\"78\"}{\"TTL\":\"9\"}{\"ID\":\"5\"}"
			  "{\"create_request\":{\"key\":\"YS8=\",\"range_end\":\"YTA=\","
			  "\"start_revision\":\"3\"}}"
			  "{\"name\":\"u\\\"\",\"password\":\"p\xc3\xa4\"}");
}
END_TEST

START_TEST(a_prefix_ends_behind_its_last_key)
{
	static const char *const rows[][2] = { { "a/", "a0" }, { "a\xff\xff", "b" }, { "\xff", "" },
		{ "", "" }, { "\x7f", "\x80" } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *end = etcd_prefix_end(rows[i][0]);

		ck_assert_str_eq(end, rows[i][1]);
		free(end);
	}
}
END_TEST

/* --- Answers --- */

#define HEADER                                                                                  \
	"\"header\":{\"cluster_id\":\"17953654596774702974\",\"member_id\":\"1\",\"revision\":" \
	"\"7\",\"raft_term\":\"2\"}"

static const char txn_answer[] =
	"{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{\"header\":{\"revision\":"
	"\"7\"}}},{\"response_range\":{\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"2\","
	"\"mod_revision\":\"3\",\"version\":\"1\",\"value\":\"AP8=\",\"lease\":\"77\"},{\"key\":"
	"\"Yg==\",\"create_revision\":4,\"mod_revision\":5}],\"count\":\"9\",\"more\":true}},"
	"{\"response_delete_range\":{\"deleted\":\"2\"}}]}";

static const struct etcd_shape txn_shape = {
	.n_then = 3, .n_else = 1, .kinds = { ETCD_PUT, ETCD_GET, ETCD_DELETE, ETCD_GET }
};

static int decode_txn(const char *text)
{
	etcd_decoded_fini(&d);
	return etcd_decode_txn(text, strlen(text), &txn_shape, &d);
}

START_TEST(an_answer_of_a_transaction_is_read)
{
	const struct etcd_result *r;

	ck_assert_int_eq(decode_txn(txn_answer), 0);
	ck_assert_uint_eq(d.answer.cluster, 17953654596774702974u);
	ck_assert_int_eq(d.answer.revision, 7);
	ck_assert(d.answer.succeeded);
	ck_assert_uint_eq(d.answer.n_results, 3);
	r = d.answer.results;
	ck_assert_uint_eq(r[0].n, 0);
	ck_assert_uint_eq(r[1].n, 2);
	ck_assert_int_eq(r[1].count, 9);
	ck_assert_int_eq(r[2].count, 2);
	ck_assert_str_eq(r[1].entries[0].key, "a");
	ck_assert_uint_eq(r[1].entries[0].len, 2);
	ck_assert_mem_eq(r[1].entries[0].value, "\0\xff", 3);
	ck_assert_int_eq(r[1].entries[0].lease, 77);
	ck_assert_int_eq(r[1].entries[0].mod_revision, 3);
	ck_assert_str_eq(r[1].entries[1].key, "b");
	ck_assert_uint_eq(r[1].entries[1].len, 0);
	ck_assert_int_eq(r[1].entries[1].mod_revision, 5);
	ck_assert_int_eq(r[1].entries[1].lease, 0);
	/* All is left out that is empty, and false. */
	ck_assert_int_eq(decode_txn("{" HEADER ",\"responses\":[{\"response_range\":{}}]}"), 0);
	ck_assert(!d.answer.succeeded);
	ck_assert_uint_eq(d.answer.n_results, 1);
	ck_assert_uint_eq(d.answer.results[0].n, 0);
}
END_TEST

static const char *const bad_txns[] = {
	"",
	"{}",
	"[]",
	"{" HEADER "}",
	"{" HEADER ",\"responses\":[]}",
	"{" HEADER ",\"responses\":[{}]}",
	"{" HEADER ",\"responses\":{}}",
	"{" HEADER ",\"responses\":[{\"response_put\":{}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{}},{\"response_range\":{}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":{}}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[1]}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":1}]}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"Y\"}]}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"lease\":\"-1\"}]}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"lease\":\"1x\"}]}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"lease\":\"\"}]}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"lease\":\" 1\"}]}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"lease\":1.5}]}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":"
	"[{\"lease\":\"9223372036854775808\"}]}}]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{\"count\":[]}}]}",
	"{" HEADER ",\"succeeded\":1,\"responses\":[{\"response_range\":{}}]}",
	"{\"header\":{\"revision\":\"99999999999999999999\"},\"responses\":[{\"response_range\":{}}"
	"]}",
	"{" HEADER ",\"responses\":[{\"response_range\":{}}]} x",
};

START_TEST(a_malformed_answer_of_a_transaction_is_refused)
{
	static const struct etcd_shape empty;

	ck_assert_int_eq(etcd_decode_txn("{}", 2, &empty, &d), -EBADMSG);
	ck_assert_int_eq(decode_txn(bad_txns[_i]), -EBADMSG);
}
END_TEST

START_TEST(answers_about_leases_are_read)
{
	static const char granted[] = "{" HEADER ",\"ID\":\"5\",\"TTL\":\"9\"}";
	static const char kept[] = "{\"result\":{" HEADER ",\"ID\":\"77\",\"TTL\":\"5\"}}\n"
				   "{\"result\":{" HEADER ",\"ID\":\"78\"}}\n";
	static const char *const bad[] = { "{\"result\":{" HEADER ",\"ID\":\"77\"}}",
		"{\"result\":{" HEADER ",\"ID\":\"78\"}}{\"result\":{" HEADER ",\"ID\":\"77\"}}",
		"{}{}", "", "x", "{\"result\":{\"ID\":\"77\"}}{\"result\":{\"ID\":\"78\"}" };
	const int64_t leases[] = { 77, 78 };

	ck_assert_int_eq(etcd_decode_grant(granted, strlen(granted), &d), 0);
	ck_assert_int_eq(d.answer.leases[0].id, 5);
	ck_assert_int_eq(d.answer.leases[0].ttl_s, 9);
	teardown();
	ck_assert_int_eq(etcd_decode_grant("{\"ID\":\"5\"}", 10, &d), -EBADMSG);
	teardown();
	ck_assert_int_eq(etcd_decode_keep_alive(kept, strlen(kept), leases, 2, &d), 0);
	ck_assert_uint_eq(d.answer.n_leases, 2);
	ck_assert_int_eq(d.answer.leases[0].ttl_s, 5);
	ck_assert_int_eq(d.answer.leases[1].id, 78);
	ck_assert_int_eq(d.answer.leases[1].ttl_s, 0);
	ck_assert_int_eq(d.answer.revision, 7);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		teardown();
		ck_assert_int_eq(
			etcd_decode_keep_alive(bad[i], strlen(bad[i]), leases, 2, &d), -EBADMSG);
	}
	teardown();
	ck_assert_int_eq(etcd_decode_revoke("{" HEADER "}", strlen("{" HEADER "}"), &d), 0);
	teardown();
	ck_assert_int_eq(etcd_decode_revoke("{}", 2, &d), -EBADMSG);
}
END_TEST

START_TEST(a_status_is_read_with_its_alarms)
{
	static const char full[] =
		"{" HEADER ",\"version\":\"3.6.1\",\"errors\":[\"memberID:1 alarm:NOSPACE \"]}";
	static const char corrupt[] = "{" HEADER ",\"version\":\"3.5.9\",\"leader\":\"12\","
				      "\"errors\":[\"memberID:1 alarm:CORRUPT \"]}";

	ck_assert_int_eq(etcd_decode_status(full, strlen(full), &d), 0);
	ck_assert_str_eq(d.answer.member->version, "3.6.1");
	ck_assert_uint_eq(d.answer.member->leader, 0);
	ck_assert(d.answer.member->no_space && !d.answer.member->corrupt);
	teardown();
	ck_assert_int_eq(etcd_decode_status(corrupt, strlen(corrupt), &d), 0);
	ck_assert_uint_eq(d.answer.member->leader, 12);
	ck_assert(!d.answer.member->no_space && d.answer.member->corrupt);
	teardown();
	ck_assert_int_eq(etcd_decode_status("{}", 2, &d), -EBADMSG);
}
END_TEST

START_TEST(a_token_must_fit_into_a_header)
{
	static const char good[] = "{" HEADER ",\"token\":\"abc.13\"}";
	static const char *const bad[] = { "{}", "{\"token\":\"\"}", "{\"token\":\"a\\r\\nb\"}",
		"{\"token\":\"\xc3\xa4\"}" };

	ck_assert_int_eq(etcd_decode_user(good, strlen(good), &d), 0);
	ck_assert_str_eq(d.token, "abc.13");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		teardown();
		ck_assert_int_eq(etcd_decode_user(bad[i], strlen(bad[i]), &d), -EBADMSG);
	}
}
END_TEST

/* --- Watches --- */

static int decode_change(const char *text)
{
	etcd_decoded_fini(&d);
	return etcd_decode_change(text, strlen(text), &d);
}

START_TEST(messages_of_a_watch_are_read)
{
	ck_assert_int_eq(decode_change("{\"result\":{" HEADER ",\"created\":true}}"), 0);
	ck_assert(d.change.created && !d.change.canceled && !d.change.refused);
	ck_assert_uint_eq(d.answer.cluster, 17953654596774702974u);

	ck_assert_int_eq(
		decode_change(
			"{\"result\":{" HEADER ",\"events\":["
			"{\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"2\",\"value\":\"Yg==\"}},"
			"{\"type\":\"DELETE\",\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"3\"}}"
			"]}}"),
		0);
	ck_assert_uint_eq(d.change.n, 2);
	ck_assert(!d.change.events[0].deleted && d.change.events[1].deleted);
	ck_assert_str_eq(d.change.events[0].entry.value, "b");
	ck_assert_int_eq(d.change.events[1].entry.mod_revision, 3);

	ck_assert_int_eq(decode_change("{\"result\":{" HEADER
				       ",\"canceled\":true,\"compact_revision\":\"3\"}}"),
		0);
	ck_assert(d.change.canceled && !d.change.refused);
	ck_assert_int_eq(d.change.compact_revision, 3);

	ck_assert_int_eq(
		decode_change("{\"result\":{" HEADER ",\"created\":true,\"canceled\":true,"
			      "\"cancel_reason\":\"rpc error: code = PermissionDenied desc = "
			      "etcdserver: permission denied\"}}"),
		0);
	ck_assert(d.change.refused);
	ck_assert_int_eq(d.change.refusal.code, STATUS_PERMISSION_DENIED);
	ck_assert_str_eq(d.change.refusal.text, "etcdserver: permission denied");

	ck_assert_int_eq(
		decode_change("{\"result\":{\"canceled\":true,\"cancel_reason\":\"a reason\"}}"),
		0);
	ck_assert(d.change.refused);
	ck_assert_int_eq(d.change.refusal.code, -1);
	ck_assert_str_eq(d.change.refusal.text, "a reason");
}
END_TEST

static const char *const bad_changes[] = {
	"{}",
	"{\"result\":1}",
	"{\"result\":{\"events\":{}}}",
	"{\"result\":{\"events\":[{}]}}",
	"{\"result\":{\"events\":[{\"kv\":{\"key\":\"YQ==\"}}]}}",
	"{\"result\":{\"events\":[{\"kv\":{\"mod_revision\":\"3\"}}]}}",
	"{\"result\":{\"events\":[{\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"3\"}},"
	"{\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"2\"}}]}}",
	"{\"result\":{\"created\":\"true\"}}",
};

START_TEST(a_malformed_message_of_a_watch_is_refused)
{
	ck_assert_int_eq(decode_change(bad_changes[_i]), -EBADMSG);
}
END_TEST

/* --- Refusals --- */

static const struct {
	int http_status;
	const char *body;
	enum status status;
	bool certain, elsewhere;
	const char *part;
} refusals[] = {
	/* 3.4 */
	{ 503,
		"{\"error\":\"etcdserver: no leader\",\"message\":\"etcdserver: no leader\","
		"\"code\":14}",
		STATUS_UNAVAILABLE, true, true, "no leader" },
	{ 503,
		"{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no "
		"leader\",\"http_status\":\"Service Unavailable\"}}",
		STATUS_UNAVAILABLE, true, true, "no leader" },
	/* 3.5 and 3.6 */
	{ 503, "{\"code\":14,\"message\":\"etcdserver: no leader\",\"details\":[]}",
		STATUS_UNAVAILABLE, true, true, "no leader" },
	{ 503, "{\"error\":{\"code\":14,\"message\":\"etcdserver: no leader\",\"details\":[]}}",
		STATUS_UNAVAILABLE, true, true, "no leader" },
	{ 503, "{\"code\":14,\"message\":\"etcdserver: request timed out\",\"details\":[]}",
		STATUS_UNAVAILABLE, false, true, "request timed out" },
	{ 500, "{\"code\":2,\"message\":\"context deadline exceeded\"}", STATUS_UNAVAILABLE, false,
		true, "context deadline" },
	{ 404, "{\"code\":5,\"message\":\"etcdserver: requested lease not found\"}",
		STATUS_NOT_FOUND, true, false, "lease not found" },
	{ 403, "{\"code\":7,\"message\":\"etcdserver: permission denied\"}",
		STATUS_PERMISSION_DENIED, true, false, "user u has no right" },
	{ 429, "{\"code\":8,\"message\":\"etcdserver: mvcc: database space exceeded\"}",
		STATUS_RESOURCE_EXHAUSTED, true, false, "NOSPACE" },
	{ 400, "{\"code\":3,\"message\":\"etcdserver: request is too large\"}",
		STATUS_RESOURCE_EXHAUSTED, true, false, "--max-request-bytes" },
	{ 400, "{\"code\":3,\"message\":\"etcdserver: duplicate key given in txn request\"}",
		STATUS_INVALID_ARGUMENT, true, false, "duplicate key" },
	{ 401, "{\"code\":16,\"message\":\"etcdserver: invalid auth token\"}",
		STATUS_UNAUTHENTICATED, true, false, "invalid auth token" },
	{ 400,
		"CommonName of client sending a request against gateway will be ignored and not "
		"used as expected",
		STATUS_UNAUTHENTICATED, true, false, "common name" },
	{ 501, "{\"code\":12,\"message\":\"unknown method\"}", STATUS_UNIMPLEMENTED, true, true,
		"unknown method" },
	/* Not etcd's. */
	{ 404, "404 page not found\n", STATUS_UNIMPLEMENTED, true, true, "HTTP status 404" },
	{ 302, "", STATUS_UNIMPLEMENTED, true, true, "HTTP status 302" },
	{ 502, "<html>Bad\x1b[2J Gateway</html>", STATUS_UNAVAILABLE, false, true,
		"HTTP status 502" },
	{ 500, "{\"code\":99,\"message\":\"?\"}", STATUS_UNAVAILABLE, false, true, "500" },
};

START_TEST(a_refusal_says_what_to_change_and_whether_it_is_certain)
{
	struct etcd_failure f;

	etcd_failure_of_answer(
		refusals[_i].http_status, refusals[_i].body, strlen(refusals[_i].body), "u", &f);
	ck_assert_msg(f.status == refusals[_i].status, "%s: %s", status_name(f.status), f.text);
	ck_assert_int_eq(f.certain, refusals[_i].certain);
	ck_assert_int_eq(f.elsewhere, refusals[_i].elsewhere);
	ck_assert_msg(strstr(f.text, refusals[_i].part) != NULL, "%s", f.text);
	ck_assert_ptr_null(strpbrk(f.text, "\n\x1b"));
}
END_TEST

START_TEST(a_missing_gateway_is_explained_by_the_version)
{
	static const char *const rows[][2] = {
		{ "{\"etcdserver\":\"3.3.25\",\"etcdcluster\":\"3.3.0\"}", "3.4 or later" },
		{ "{\"etcdserver\":\"2.3.8\"}", "3.4 or later" },
		{ "{\"etcdserver\":\"3.4.23\",\"etcdcluster\":\"3.4.0\"}",
			"--enable-grpc-gateway" },
		{ "{\"etcdserver\":\"3.10.1\"}", "--enable-grpc-gateway" },
		{ "hello", "no etcd is there" },
		{ "{}", "no etcd is there" },
	};
	char version[ETCD_VERSION_MAX];
	struct etcd_failure f;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		etcd_decode_version(rows[i][0], strlen(rows[i][0]), version);
		etcd_failure_of_version(version, &f);
		ck_assert_int_eq(f.status, STATUS_UNIMPLEMENTED);
		ck_assert_msg(strstr(f.text, rows[i][1]) != NULL, "%s", f.text);
	}
}
END_TEST

/* --- Streams --- */

START_TEST(a_stream_is_split_wherever_it_is_cut)
{
	static const char stream[] = "{\"a\":\"}{\\\"}\"} \n{}{\"b\":[{\"c\":{}},\"\\\\\"]}\r\n";
	static const char *const objects[] = { "{\"a\":\"}{\\\"}\"}", " \n{}",
		"{\"b\":[{\"c\":{}},\"\\\\\"]}" };

	for (size_t step = 1; step <= strlen(stream); step++) {
		struct etcd_split s = { 0 };
		size_t begin = 0, end = 0, n = 0;

		while (end < strlen(stream)) {
			ssize_t taken;

			end = end + step < strlen(stream) ? end + step : strlen(stream);
			while ((taken = etcd_split(&s, stream + begin, end - begin)) > 0) {
				ck_assert_uint_lt(n, 3);
				ck_assert_uint_eq((size_t)taken, strlen(objects[n]));
				ck_assert_mem_eq(stream + begin, objects[n], strlen(objects[n]));
				begin += (size_t)taken;
				n++;
			}
			ck_assert_int_eq(taken, 0);
		}
		ck_assert_uint_eq(n, 3);
	}
}
END_TEST

START_TEST(a_stream_of_anything_else_is_refused)
{
	static const char *const bad[] = { "x", "[1]", "\"a\"", "1", " }", "<html>" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct etcd_split s = { 0 };

		ck_assert_int_eq(etcd_split(&s, bad[i], strlen(bad[i])), -EBADMSG);
	}
	{
		struct etcd_split s = { 0 };

		ck_assert_int_eq(etcd_split(&s, "\0{}", 3), -EBADMSG);
	}
}
END_TEST

/* --- Memory --- */

static int all(void)
{
	static const char change[] =
		"{\"result\":{\"events\":[{\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"2\"}}]}}";
	static const char kept[] = "{\"result\":{\"ID\":\"77\",\"TTL\":\"5\"}}";
	static const char login[] = "{\"token\":\"a\"}";
	const int64_t lease = 77;
	int r[4];

	r[0] = decode_txn(txn_answer);
	r[1] = decode_change(change);
	etcd_decoded_fini(&d);
	r[2] = etcd_decode_keep_alive(kept, strlen(kept), &lease, 1, &d);
	etcd_decoded_fini(&d);
	r[3] = etcd_decode_user(login, strlen(login), &d);
	for (int i = 0; i < 4; i++)
		if (r[i] < 0)
			return r[i];
	return 0;
}

START_TEST(without_memory_an_answer_is_refused)
{
	long n;

	ck_assert_int_eq(all(), 0);
	for (n = 1; n < 1000; n++) {
		int r;

		allocations = 0;
		which = _i;
		fail_at = n;
		r = all();
		fail_at = 0;
		if (allocations < n) {
			ck_assert_int_eq(r, 0);
			break;
		}
		/* jansson calls a string that it had no memory for a wrong one, and does without
		 * some memory. */
		ck_assert(r == -ENOMEM || r == -EBADMSG || (r == 0 && which == ALONE));
	}
	ck_assert_int_lt(n, 1000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("etcd codec");
	TCase *t = tcase_create("codec");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_transaction_is_written_as_etcd_reads_it);
	tcase_add_loop_test(t, a_wrong_operation_is_refused, 0, BAD_OPS);
	tcase_add_test(t, a_request_has_limits);
	tcase_add_test(t, other_requests_are_written_as_etcd_reads_them);
	tcase_add_test(t, a_prefix_ends_behind_its_last_key);
	tcase_add_test(t, an_answer_of_a_transaction_is_read);
	tcase_add_loop_test(t, a_malformed_answer_of_a_transaction_is_refused, 0,
		sizeof(bad_txns) / sizeof(bad_txns[0]));
	tcase_add_test(t, answers_about_leases_are_read);
	tcase_add_test(t, a_status_is_read_with_its_alarms);
	tcase_add_test(t, a_token_must_fit_into_a_header);
	tcase_add_test(t, messages_of_a_watch_are_read);
	tcase_add_loop_test(t, a_malformed_message_of_a_watch_is_refused, 0,
		sizeof(bad_changes) / sizeof(bad_changes[0]));
	tcase_add_loop_test(t, a_refusal_says_what_to_change_and_whether_it_is_certain, 0,
		sizeof(refusals) / sizeof(refusals[0]));
	tcase_add_test(t, a_missing_gateway_is_explained_by_the_version);
	tcase_add_test(t, a_stream_is_split_wherever_it_is_cut);
	tcase_add_test(t, a_stream_of_anything_else_is_refused);
	tcase_add_loop_test(t, without_memory_an_answer_is_refused, 0, 2);
	suite_add_tcase(s, t);
	return suite_run(s);
}
