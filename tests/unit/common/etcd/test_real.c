/* SPDX-License-Identifier: Apache-2.0 */
/* The client against one real etcd. */
#include "tests/unit/etcd_real.h"
#include "tests/unit/etcd_test.h"
#include "tests/unit/etcd_tools.h"
#include "tests/unit/run.h"

static void client_start_with(struct etcd_options o)
{
	const char *const endpoints[] = { members[0].client };
	struct error err = { 0 };

	o.endpoints = endpoints;
	o.n = 1;
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_msg(etcd_new(loop, &o, &etcd, &err) == 0, "%s", err.text);
}

static void client_start(void)
{
	client_start_with((struct etcd_options){ 0 });
}

static void client_end(void)
{
	etcd = etcd_free(etcd);
	loop = loop_free(loop);
}

static void one_start(void)
{
	members_start(1);
}

START_TEST(a_transaction_puts_reads_and_deletes)
{
	struct etcd_compare absent = { .key = "a/1" };
	struct etcd_op then_ops[] = { op_put("a/1", "one", 0), op_put("a/2", "", 0),
		{ .kind = ETCD_GET, .key = "a/", .end = "a0" } };
	struct etcd_op else_ops[] = { { .kind = ETCD_GET, .key = "a/1" },
		{ .kind = ETCD_DELETE, .key = "a/", .end = "a0" },
		{ .kind = ETCD_GET, .key = "", .end = "" } };
	struct etcd_txn t = { .compares = &absent,
		.n_compares = 1,
		.then_ops = then_ops,
		.n_then = 3,
		.else_ops = else_ops,
		.n_else = 3 };
	int64_t revision;

	ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert(got.succeeded);
	ck_assert_uint_eq(got.n_results, 3);
	ck_assert_int_eq(got.counts[2], 2);
	ck_assert_uint_eq(got.n_entries, 2);
	ck_assert_str_eq(got.keys[0], "a/1");
	ck_assert_str_eq(got.values[0], "one");
	ck_assert_str_eq(got.values[1], "");
	revision = got.revision;
	ck_assert_int_eq(got.mods[0], revision);
	ck_assert_uint_ne(got.cluster, 0);

	ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert(!got.succeeded);
	ck_assert_int_eq(got.revision, revision + 1);
	ck_assert_int_eq(got.counts[0], 1);
	ck_assert_int_eq(got.counts[1], 2);
	ck_assert_int_eq(got.counts[2], 0);
	ck_assert_str_eq(got.keys[0], "a/1");
}
END_TEST

START_TEST(a_compare_holds_for_the_revision_of_the_key)
{
	struct etcd_compare c = { .key = "c" };
	struct etcd_txn t = { .compares = &c, .n_compares = 1 };
	int64_t lease;

	ANSWER_OF(etcd_grant(etcd, 60, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(got.leases[0].ttl_s, 60);
	lease = got.leases[0].id;
	put("c", "1", lease);
	ck_assert_status(STATUS_OK);
	c.mod_revision = got.revision;
	ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert(got.succeeded);
	c.mod_revision++;
	ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert(!got.succeeded);
	get("c", NULL);
	ck_assert_int_eq(got.entry_leases[0], lease);
	ANSWER_OF(etcd_revoke(etcd, lease, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	get("c", NULL);
	ck_assert_uint_eq(got.n_entries, 0);
	ANSWER_OF(etcd_revoke(etcd, lease, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
}
END_TEST

START_TEST(a_lease_that_is_not_kept_alive_ends_with_its_keys)
{
	struct etcd_watch *w;
	int64_t leases[2];
	uint64_t began;

	ANSWER_OF(etcd_grant(etcd, 2, PATIENT_MS, on_answer, NULL, NULL));
	leases[0] = got.leases[0].id;
	began = got.sent_ms;
	put("l", "1", leases[0]);
	ck_assert_int_eq(etcd_watch_new(etcd, "l", NULL, got.revision + 1, on_news, NULL, &w), 0);
	WAIT_UNTIL(seen.n == 1);
	ck_assert(seen.deleted[0]);
	ck_assert_uint_ge(loop_now_ms() - began, 2000);
	leases[1] = leases[0] - 1;
	ANSWER_OF(etcd_keep_alive(etcd, leases, 2, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert_uint_eq(got.n_leases, 2);
	ck_assert_int_eq(got.leases[0].id, leases[0]);
	ck_assert_int_eq(got.leases[0].ttl_s, 0);
	ck_assert_int_eq(got.leases[1].ttl_s, 0);
	put("l", "1", leases[0]);
	ck_assert_status(STATUS_NOT_FOUND);
	ck_assert(!got.maybe);
	etcd_watch_free(w);
}
END_TEST

START_TEST(several_leases_are_kept_alive_at_once)
{
	int64_t leases[GOT_MAX];

	for (int i = 0; i < 3; i++) {
		ANSWER_OF(etcd_grant(etcd, 30 + i, PATIENT_MS, on_answer, NULL, NULL));
		leases[i] = got.leases[0].id;
	}
	leases[3] = 12345;
	ANSWER_OF(etcd_keep_alive(etcd, leases, 4, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(got.leases[i].id, leases[i]);
		ck_assert_int_eq(got.leases[i].ttl_s, i < 3 ? 30 + i : 0);
	}
	ck_assert_uint_le(got.sent_ms, loop_now_ms());
	ck_assert_uint_gt(got.sent_ms + PATIENT_MS, loop_now_ms());
}
END_TEST

START_TEST(values_are_any_bytes_up_to_the_limit)
{
	static char value[1536 * 1024 + 1];
	struct etcd_op op = { .kind = ETCD_PUT, .key = "big", .value = value };
	struct etcd_txn t = { .then_ops = &op, .n_then = 1 };

	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (char)i;
	op.len = 1400 * 1024;
	ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	get("big", NULL);
	ck_assert_status(STATUS_OK);
	ck_assert_uint_eq(got.n_entries, 1);
	op.len = sizeof(value) - 513;
	ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	op.len = sizeof(value);
	ck_assert_int_eq(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL), -EMSGSIZE);
}
END_TEST

/* Ten values of 1.4 MiB are more than 16 MiB of base64. */
START_TEST(an_answer_that_is_too_large_is_refused)
{
	static char value[1400 * 1024];
	struct etcd_op op = { .kind = ETCD_PUT, .value = value, .len = sizeof(value) };
	struct etcd_txn t = { .then_ops = &op, .n_then = 1 };
	char key[16];

	for (int i = 0; i < 10; i++) {
		snprintf(key, sizeof(key), "large/%d", i);
		op.key = key;
		ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
		ck_assert_status(STATUS_OK);
	}
	get("large/", "large0");
	ck_assert_status(STATUS_RESOURCE_EXHAUSTED);
	ck_assert_ptr_nonnull(strstr(got.text, "the answer is larger than 16 MiB"));
	op = (struct etcd_op){ .kind = ETCD_GET, .key = "large/", .end = "large0", .limit = 2 };
	ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert_uint_eq(got.n_entries, 2);
	ck_assert_int_eq(got.counts[0], 10);
	op = (struct etcd_op){ .kind = ETCD_DELETE, .key = "large/", .end = "large0" };
	ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
}
END_TEST

START_TEST(a_key_twice_in_one_transaction_is_refused)
{
	struct etcd_op ops[] = { op_put("k", "1", 0), { .kind = ETCD_DELETE, .key = "k" } };
	struct etcd_txn t = { .then_ops = ops, .n_then = 2 };

	ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_INVALID_ARGUMENT);
	ck_assert(!got.maybe);
	ck_assert_ptr_nonnull(strstr(got.text, "duplicate key"));
}
END_TEST

static int order[16], n_order;

static void on_ordered(void *arg, const struct etcd_answer *a)
{
	ck_assert_int_eq(a->status, STATUS_OK);
	order[n_order++] = (int)(intptr_t)arg;
}

START_TEST(writes_happen_in_the_order_of_the_calls)
{
	struct etcd_call *c;
	char value[4];

	for (int i = 0; i < 10; i++) {
		struct etcd_op op = op_put("o", value, 0);
		struct etcd_txn t = { .then_ops = &op, .n_then = 1 };

		snprintf(value, sizeof(value), "%d", i);
		op.len = strlen(value);
		ck_assert_int_eq(
			etcd_txn(etcd, &t, PATIENT_MS, on_ordered, (void *)(intptr_t)i, &c), 0);
		if (i == 4)
			etcd_cancel(c);
	}
	WAIT_UNTIL(n_order == 9);
	for (int i = 0; i < 9; i++)
		ck_assert_int_eq(order[i], i + (i >= 4));
	get("o", NULL);
	ck_assert_str_eq(got.values[0], "9");
}
END_TEST

START_TEST(a_watch_reports_each_change_once_and_in_order)
{
	struct etcd_watch *w;
	int64_t first;

	put("w/1", "", 0);
	first = got.revision;
	put("other", "", 0);
	ck_assert_int_eq(etcd_watch_new(etcd, "w/", "w0", first, on_news, NULL, &w), 0);
	put("w/2", "", 0);
	{
		struct etcd_op ops[] = { { .kind = ETCD_DELETE, .key = "w/", .end = "w0" },
			op_put("x", "", 0) };
		struct etcd_txn t = { .then_ops = ops, .n_then = 2 };

		ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	}
	WAIT_UNTIL(seen.n == 4);
	ck_assert_int_eq(seen.up, 1);
	ck_assert_int_eq(seen.revisions[0], first);
	ck_assert_int_eq(seen.revisions[1], first + 2);
	ck_assert_int_eq(seen.revisions[2], first + 3);
	ck_assert_int_eq(seen.revisions[3], first + 3);
	ck_assert(!seen.deleted[1] && seen.deleted[2] && seen.deleted[3]);
	ck_assert_str_eq(seen.keys[3], "w/2");
	etcd_watch_free(w);
}
END_TEST

START_TEST(a_watch_of_compacted_changes_has_a_gap)
{
	struct etcd_watch *w;
	int64_t first;

	put("p", "1", 0);
	first = got.revision;
	put("p", "2", 0);
	put("p", "3", 0);
	gateway_post("/v3/kv/compaction", "{\"revision\":\"%lld\"}", (long long)got.revision);
	ck_assert_int_eq(etcd_watch_new(etcd, "p", NULL, first, on_news, NULL, &w), 0);
	WAIT_UNTIL(seen.gaps == 1);
	ck_assert_uint_eq(seen.n, 0);
	ck_assert_ptr_nonnull(strstr(seen.text, "compacted"));
	etcd_watch_free(w);
	get("p", NULL);
	ck_assert_int_eq(etcd_watch_new(etcd, "p", NULL, got.revision + 1, on_news, NULL, &w), 0);
	put("p", "4", 0);
	WAIT_UNTIL(seen.n == 1);
	ck_assert_int_eq(seen.gaps, 1);
	etcd_watch_free(w);
}
END_TEST

START_TEST(the_status_has_version_leader_and_alarms)
{
	ANSWER_OF(etcd_status(etcd, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(got.version[0], '3');
	ck_assert_uint_ne(got.leader, 0);
	ck_assert(!got.no_space);
}
END_TEST

static void suite_of_one(Suite *s)
{
	TCase *t = tcase_create("one");

	tcase_add_unchecked_fixture(t, one_start, members_end);
	tcase_add_checked_fixture(t, client_start, client_end);
	tcase_add_test(t, a_transaction_puts_reads_and_deletes);
	tcase_add_test(t, a_compare_holds_for_the_revision_of_the_key);
	tcase_add_test(t, a_lease_that_is_not_kept_alive_ends_with_its_keys);
	tcase_add_test(t, several_leases_are_kept_alive_at_once);
	tcase_add_test(t, values_are_any_bytes_up_to_the_limit);
	tcase_add_test(t, an_answer_that_is_too_large_is_refused);
	tcase_add_test(t, a_key_twice_in_one_transaction_is_refused);
	tcase_add_test(t, writes_happen_in_the_order_of_the_calls);
	tcase_add_test(t, a_watch_reports_each_change_once_and_in_order);
	tcase_add_test(t, a_watch_of_compacted_changes_has_a_gap);
	tcase_add_test(t, the_status_has_version_leader_and_alarms);
	suite_add_tcase(s, t);
}

/* --- An etcd that is full, or has no gateway --- */

START_TEST(a_full_etcd_says_how_to_make_room)
{
	static const char *const small[] = { "--quota-backend-bytes", "200000", NULL };
	static char value[150000];
	struct etcd_op op = { .kind = ETCD_PUT, .key = "k", .value = value, .len = sizeof(value) };
	struct etcd_txn t = { .then_ops = &op, .n_then = 1 };

	members_plan(1, "http");
	member_start(&members[0], small);
	member_wait(&members[0]);
	client_start();
	do
		ANSWER_OF(etcd_txn(etcd, &t, PATIENT_MS, on_answer, NULL, NULL));
	while (got.status == STATUS_OK);
	ck_assert_status(STATUS_RESOURCE_EXHAUSTED);
	ck_assert(!got.maybe);
	ck_assert_ptr_nonnull(strstr(got.text, "NOSPACE"));
	ANSWER_OF(etcd_status(etcd, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert(got.no_space);
	client_end();
}
END_TEST

START_TEST(an_etcd_without_a_gateway_is_named_with_its_version)
{
	static const char *const without[] = { "--enable-grpc-gateway=false", NULL };

	members_plan(1, "http");
	member_start(&members[0], without);
	member_wait(&members[0]);
	client_start();
	put("a", "", 0);
	ck_assert_status(STATUS_UNIMPLEMENTED);
	ck_assert(!got.maybe);
	ck_assert_ptr_nonnull(strstr(got.text, "etcd 3."));
	ck_assert_ptr_nonnull(strstr(got.text, "--enable-grpc-gateway"));
	ck_assert_ptr_nonnull(strstr(got.text, "--listen-client-http-urls"));
	client_end();
}
END_TEST

/* --- Users --- */

static void users_start(void)
{
	members_start(1);
	users_make();
}

static void as_user(const char *user, const char *password)
{
	client_start_with((struct etcd_options){ .user = user, .password = password });
}

START_TEST(a_user_reads_and_writes_below_the_users_prefix_alone)
{
	struct etcd_watch *w;

	as_user("u", "pw");
	put("a", "1", 0);
	ck_assert_status(STATUS_OK);
	put("b", "1", 0);
	ck_assert_status(STATUS_PERMISSION_DENIED);
	ck_assert(!got.maybe);
	ck_assert_ptr_nonnull(strstr(got.text, "user u has no right"));
	ck_assert_int_eq(etcd_watch_new(etcd, "b", NULL, 1, on_news, NULL, &w), 0);
	WAIT_UNTIL(seen.down);
	ck_assert_int_eq(seen.status, STATUS_PERMISSION_DENIED);
	etcd_watch_free(w);
	client_end();
}
END_TEST

START_TEST(a_wrong_password_or_none_is_named)
{
	as_user(_i == 0 ? "u" : _i == 1 ? "nobody" : NULL, "wrong");
	put("a", "1", 0);
	ck_assert_status(STATUS_UNAUTHENTICATED);
	ck_assert(!got.maybe);
	ck_assert_ptr_nonnull(strstr(got.text, _i < 2 ? "correct them" : "name one"));
	client_end();
}
END_TEST

/* Simple tokens do not outlive etcd, nor do they know of users who have changed. */
START_TEST(a_token_that_is_no_longer_accepted_is_renewed)
{
	struct etcd_watch *w;

	as_user("u", "pw");
	put("a", "1", 0);
	ck_assert_status(STATUS_OK);
	ck_assert_int_eq(etcd_watch_new(etcd, "a", NULL, got.revision + 1, on_news, NULL, &w), 0);
	WAIT_UNTIL(seen.up == 1);
	member_kill(&members[0], SIGKILL);
	WAIT_UNTIL(seen.down);
	member_start(&members[0], NULL);
	member_wait(&members[0]);
	put("a", "2", 0);
	ck_assert_status(STATUS_OK);
	WAIT_UNTIL(seen.n == 1);
	users_change();
	put("a", "3", 0);
	ck_assert_status(STATUS_OK);
	WAIT_UNTIL(seen.n == 2);
	etcd_watch_free(w);
	client_end();
}
END_TEST

START_TEST(a_user_is_ignored_where_etcd_has_no_users)
{
	members_start(1);
	as_user("u", "pw");
	put("a", "1", 0);
	ck_assert_status(STATUS_OK);
	users_make();
	put("a", "2", 0);
	ck_assert_status(STATUS_OK);
	put("b", "2", 0);
	ck_assert_status(STATUS_PERMISSION_DENIED);
	client_end();
}
END_TEST

/* --- TLS --- */

static void tls_start(bool client_certificates)
{
	const char *args[8] = { "--cert-file", NULL, "--key-file" };

	members_plan(1, "https");
	tls_make();
	args[1] = tls_file("server.pem");
	args[3] = tls_file("server.key");
	if (client_certificates) {
		args[4] = "--client-cert-auth";
		args[5] = "--trusted-ca-file";
		args[6] = tls_file("ca.pem");
	}
	member_start(&members[0], args);
	member_wait(&members[0]);
}

static void tls_put(const char *ca, const char *name, const char *endpoint)
{
	const char *const endpoints[] = { endpoint ? endpoint : members[0].address };
	char cert[16], key[16];
	struct etcd_options o = { .endpoints = endpoints, .n = 1, .tls = true, .ca = tls_file(ca) };
	struct error err = { 0 };

	if (name) {
		snprintf(cert, sizeof(cert), "%s.pem", name);
		snprintf(key, sizeof(key), "%s.key", name);
		o.cert = tls_file(cert);
		o.key = tls_file(key);
	}
	client_end();
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_msg(etcd_new(loop, &o, &etcd, &err) == 0, "%s", err.text);
	put("a", "1", 0);
}

START_TEST(tls_checks_both_certificates)
{
	char other[64];

	tls_start(true);
	tls_put("ca.pem", "client", NULL);
	ck_assert_status(STATUS_OK);
	tls_put("other.pem", "client", NULL);
	ck_assert_status(STATUS_FAILED_PRECONDITION);
	ck_assert(!got.maybe);
	ck_assert_ptr_nonnull(strstr(got.text, "name the CA"));
	/* etcd may close the connection before libcurl reads why. */
	tls_put("ca.pem", NULL, NULL);
	ck_assert_int_ne(got.status, STATUS_OK);
	ck_assert_msg(strstr(got.text, "client certificate") != NULL, "%s", got.text);
	tls_put("ca.pem", "stranger", NULL);
	ck_assert_int_ne(got.status, STATUS_OK);
	ck_assert_msg(strstr(got.text, "client certificate") != NULL, "%s", got.text);
	tls_put("missing.pem", "client", NULL);
	ck_assert_status(STATUS_FAILED_PRECONDITION);
	tls_put("ca.pem", "missing", NULL);
	ck_assert_status(STATUS_FAILED_PRECONDITION);
	tls_put("ca.pem", "locked", NULL);
	ck_assert_status(STATUS_FAILED_PRECONDITION);
	/* The certificate is for 127.0.0.1. */
	snprintf(other, sizeof(other), "localhost%s", strchr(members[0].address, ':'));
	tls_put("ca.pem", "client", other);
	ck_assert_status(STATUS_FAILED_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(got.text, "by a name in that certificate"));
	client_end();
}
END_TEST

START_TEST(http_to_https_and_the_reverse_are_named)
{
	char http[64];

	tls_start(false);
	snprintf(http, sizeof(http), "http://%s", members[0].address);
	tls_put("ca.pem", NULL, http);
	ck_assert_ptr_nonnull(strstr(got.text, "does it speak https?"));
	tls_put("ca.pem", NULL, NULL);
	ck_assert_status(STATUS_OK);
	members_end();
	members_start(1);
	snprintf(http, sizeof(http), "https://%s", members[0].address);
	client_end();
	client_start();
	put("a", "1", 0);
	ck_assert_status(STATUS_OK);
	{
		const char *const endpoints[] = { http };
		struct etcd_options o = { .endpoints = endpoints, .n = 1 };

		client_end();
		ck_assert_int_eq(loop_new(&loop), 0);
		ck_assert_int_eq(etcd_new(loop, &o, &etcd, NULL), 0);
		put("a", "1", 0);
	}
	ck_assert_status(STATUS_FAILED_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(got.text, "does it speak http, not https?"));
	client_end();
}
END_TEST

/* With users, a certificate with a common name would be a user of its own. */
START_TEST(a_certificate_with_a_common_name_is_named_where_there_are_users)
{
	tls_start(true);
	tls_put("ca.pem", "client", NULL);
	users_make_with(tls_file("ca.pem"), tls_file("client.pem"), tls_file("client.key"));
	client_end();
	client_start_with((struct etcd_options){ .ca = tls_file("ca.pem"),
		.cert = tls_file("named.pem"),
		.key = tls_file("named.key"),
		.user = "u",
		.password = "pw" });
	put("a", "1", 0);
	ck_assert_status(STATUS_UNAUTHENTICATED);
	ck_assert_ptr_nonnull(strstr(got.text, "common name"));
	client_end();
	client_start_with((struct etcd_options){ .ca = tls_file("ca.pem"),
		.cert = tls_file("client.pem"),
		.key = tls_file("client.key"),
		.user = "u",
		.password = "pw" });
	put("a", "1", 0);
	ck_assert_status(STATUS_OK);
	client_end();
}
END_TEST

static void suite_of_others(Suite *s)
{
	TCase *t = tcase_create("others");

	tcase_add_checked_fixture(t, NULL, members_end);
	tcase_add_test(t, a_full_etcd_says_how_to_make_room);
	tcase_add_test(t, an_etcd_without_a_gateway_is_named_with_its_version);
	tcase_add_test(t, a_user_is_ignored_where_etcd_has_no_users);
	if (tls_can_be_made()) {
		tcase_add_test(t, tls_checks_both_certificates);
		tcase_add_test(t, http_to_https_and_the_reverse_are_named);
		tcase_add_test(t, a_certificate_with_a_common_name_is_named_where_there_are_users);
	}
	suite_add_tcase(s, t);
	t = tcase_create("users");
	tcase_add_checked_fixture(t, users_start, members_end);
	tcase_add_test(t, a_user_reads_and_writes_below_the_users_prefix_alone);
	tcase_add_loop_test(t, a_wrong_password_or_none_is_named, 0, 3);
	tcase_add_test(t, a_token_that_is_no_longer_accepted_is_renewed);
	suite_add_tcase(s, t);
}

int main(void)
{
	Suite *s;

	real_or_skip();
	s = suite_create("etcd, a real one");
	suite_of_one(s);
	suite_of_others(s);
	return suite_run(s);
}
