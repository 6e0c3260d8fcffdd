/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of servers that cut their streams, break them and end them. */
#include "tests/unit/etcd_world.h"
#include "tests/unit/run.h"

#include <fcntl.h>

#define MESSAGE(members) "{\"result\":{" HEADER members "}}\n"
#define CREATED MESSAGE(",\"created\":true")
#define EVENT(revision) \
	"{\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"" revision "\",\"value\":\"Yg==\"}}"
#define EVENTS(list) MESSAGE(",\"events\":[" list "]")

static char watched_from[64][32]; /* the revision of each */
static int n_watched;
static char opening[16384];

static const char *watched(int stub, const char *path, const char *request, const char *body)
{
	if (strcmp(path, "/v3/watch"))
		return first_bad(stub, path, request, body);
	ck_assert_int_eq(sscanf(strstr(body, "start_revision"), "start_revision\":\"%31[0-9]",
				 watched_from[n_watched++ % 64]),
		1);
	snprintf(opening, sizeof(opening), STREAM "%s", chunk(CREATED));
	return is_bad(stub) ? bad_answer : opening;
}

static void watch_start(struct etcd_watch **ret, int64_t revision)
{
	ck_assert_int_eq(etcd_watch_new(etcd, "a", NULL, revision, on_news, NULL, ret), 0);
	WAIT_UNTIL(seen.up == 1);
}

START_TEST(messages_of_a_watch_come_whole_wherever_they_are_cut)
{
	static const char text[] = EVENTS(EVENT("4") "," EVENT("5")) EVENTS(EVENT("6"));
	struct etcd_watch *w;
	char piece[8] = "";

	client_start(1, watched);
	watch_start(&w, 4);
	for (size_t at = 0; at < strlen(text); at += (size_t)_i) {
		snprintf(piece, (size_t)_i + 1, "%s", text + at);
		stub_push(&stubs[0], chunk(piece));
		loop_run_once(loop, false);
	}
	WAIT_UNTIL(seen.n == 3);
	ck_assert_int_eq(seen.revisions[2], 6);
	etcd_watch_free(w);
}
END_TEST

/* Each breaks the stream in another way. */
static const char *const ends[] = {
	"0\r\n\r\n",
	CUT "1\r\n{\r\n",
	CUT "zz\r\n",
	"6\r\nhello\n\r\n",
	"d\r\n{\"result\":1}\n\r\n",
	"72\r\n{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\","
	"\"http_status\":\"Service Unavailable\"}}\r\n",
	"42\r\n{\"error\":{\"code\":14,\"message\":\"etcdserver: no leader\",\"details\":[]}}\r\n",
	"77\r\n{\"result\":{\"canceled\":true,\"cancel_reason\":\"rpc error: code = Unavailable desc = "
	"etcdserver: no leader\"}}                \r\n",
};

START_TEST(a_broken_watch_goes_on_behind_what_it_has_reported)
{
	struct etcd_watch *w;

	client_start(1, watched);
	watch_start(&w, 4);
	stub_push(&stubs[0], chunk(EVENTS(EVENT("4") "," EVENT("6"))));
	WAIT_UNTIL(seen.n == 2);
	stub_push(&stubs[0], ends[_i]);
	WAIT_UNTIL(seen.up == 2);
	ck_assert_int_eq(seen.down, 1);
	ck_assert_str_eq(watched_from[0], "4");
	ck_assert_str_eq(watched_from[1], "7");
	/* A change that was reported is not reported again. */
	stub_push(&stubs[0], chunk(EVENTS(EVENT("6") "," EVENT("7"))));
	WAIT_UNTIL(seen.n == 3);
	ck_assert_int_eq(seen.revisions[2], 7);
	etcd_watch_free(w);
}
END_TEST

START_TEST(a_watch_that_was_compacted_closes_its_stream)
{
	struct etcd_watch *w;

	client_start(1, watched);
	watch_start(&w, 4);
	stub_push(&stubs[0], chunk(MESSAGE(",\"canceled\":true,\"compact_revision\":\"9\"")));
	WAIT_UNTIL(seen.gaps == 1);
	ck_assert_ptr_nonnull(strstr(seen.text, "before revision 9"));
	WAIT_UNTIL(stubs[0].peers[0]->fd < 0);
	etcd_watch_free(w);
	ck_assert_int_eq(n_watched, 1);
}
END_TEST

/* It ends beyond the limit, if at all. */
START_TEST(a_message_of_a_watch_that_is_too_large_is_a_gap)
{
	static char part[8001];
	struct etcd_watch *w;

	client_start(1, watched);
	watch_start(&w, 4);
	memset(part, ' ', sizeof(part) - 1);
	part[0] = '{';
	for (int i = 0; i * 8000 < ETCD_ANSWER_MAX && !seen.gaps; i++) {
		stub_push(&stubs[0], chunk(part));
		part[0] = ' ';
		loop_run_once(loop, false);
	}
	WAIT_UNTIL(seen.gaps == 1);
	ck_assert_ptr_nonnull(strstr(seen.text, "larger than 16 MiB"));
	ck_assert_int_eq(seen.down, 0);
	etcd_watch_free(w);
}
END_TEST

START_TEST(a_watch_leaves_a_server_that_is_left)
{
	struct etcd_watch *w;
	int at;

	client_start(2, watched);
	watch_start(&w, 4);
	at = stubs[1].connections;
	bad_stubs = 1;
	bad_answer = NULL;
	get_within("a", NULL, 2 * SHORT_MS);
	ck_assert_status(STATUS_OK);
	WAIT_UNTIL(seen.up == 2);
	ck_assert_int_eq(seen.down, 0);
	stub_push(&stubs[1 - at], chunk(EVENTS(EVENT("4"))));
	WAIT_UNTIL(seen.n == 1);
	etcd_watch_free(w);
}
END_TEST

static const char *openings[8]; /* the first messages of each stream, then CREATED */

static const char *opened(int stub, const char *path, const char *request, const char *body)
{
	const char *text = openings[n_watched] ? openings[n_watched] : CREATED;

	if (strcmp(path, "/v3/watch"))
		return well(stub, path, request, body);
	n_watched++;
	snprintf(opening, sizeof(opening), STREAM "%s", chunk(text));
	return opening;
}

#define CREATED_BY(cluster, revision)                                                      \
	"{\"result\":{\"header\":{\"cluster_id\":\"" cluster "\",\"revision\":\"" revision \
	"\"},\"created\":true}}"

START_TEST(a_member_that_lags_behind_has_time_to_follow)
{
	struct etcd_watch *w;

	openings[0] = openings[1] = CREATED_BY("9", "7");
	openings[2] = CREATED_BY("9", "8");
	client_start(1, opened);
	watch_start(&w, 9);
	ck_assert_int_eq(n_watched, 3);
	ck_assert_int_eq(seen.gaps, 0);
	/* Reported once, however often it was tried. */
	ck_assert_int_eq(seen.down, 1);
	etcd_watch_free(w);
}
END_TEST

START_TEST(a_first_watch_knows_the_cluster_of_its_revision)
{
	struct etcd_watch *w;

	openings[0] = CREATED_BY("10", "7");
	client_start(1, opened);
	if (_i) {
		get("a", NULL);
		ck_assert_uint_eq(got.cluster, 9);
	}
	ck_assert_int_eq(etcd_watch_new(etcd, "a", NULL, 4, on_news, NULL, &w), 0);
	WAIT_UNTIL(seen.up + seen.gaps == 1);
	ck_assert_int_eq(seen.gaps, _i);
	etcd_watch_free(w);
}
END_TEST

static int logins;

static const char *opened_to_users(
	int stub, const char *path, const char *request, const char *body)
{
	char answer[128];

	if (strcmp(path, "/v3/auth/authenticate"))
		return opened(stub, path, request, body);
	snprintf(answer, sizeof(answer), "{" HEADER ",\"token\":\"token%d\"}", ++logins);
	return http(200, answer);
}

START_TEST(a_watch_whose_token_has_ended_gets_another)
{
	struct etcd_watch *w;

	openings[0] = MESSAGE(",\"created\":true,\"canceled\":true,\"cancel_reason\":\"rpc error: "
			      "code = Unauthenticated desc = etcdserver: invalid auth token\"");
	stub_answer = opened_to_users;
	client_start_with(1, (struct etcd_options){ .user = "u", .password = "p" });
	watch_start(&w, 4);
	ck_assert_int_eq(logins, 2);
	ck_assert_int_eq(seen.status, STATUS_OK);
	etcd_watch_free(w);
}
END_TEST

static struct etcd_watch *to_free;

static void on_news_free(void *arg, const struct etcd_news *news)
{
	seen.n += news->n;
	if (arg && news->kind != ETCD_WATCH_UP) {
		if (arg == &etcd)
			etcd = etcd_free(etcd);
		to_free = etcd_watch_free(to_free);
		/* Still the caller's to read. */
		if (news->n)
			ck_assert_str_eq(news->events[0].entry.key, "a");
	}
	seen.up++;
}

START_TEST(a_callback_of_a_watch_may_free_all)
{
	client_start(1, watched);
	ck_assert_int_eq(etcd_watch_new(etcd, "a", NULL, 4, on_news_free,
				 _i % 2 ? (void *)&etcd : (void *)&loop, &to_free),
		0);
	WAIT_UNTIL(seen.up == 1);
	stub_push(&stubs[0],
		_i / 2 ? ends[_i / 2 - 1] : chunk(EVENTS(EVENT("4")) EVENTS(EVENT("5"))));
	WAIT_UNTIL(!to_free);
	for (int i = 0; i < 5; i++)
		loop_run_once(loop, false);
	ck_assert_uint_le(seen.n, 1);
}
END_TEST

static void on_answer_free(void *arg, const struct etcd_answer *a)
{
	got.answers++;
	etcd = etcd_free(etcd);
	ck_assert_int_eq(a->results[0].count, 0);
	ck_assert_str_eq(a->text, "");
}

START_TEST(a_callback_of_a_call_may_free_the_client)
{
	struct etcd_op op = op_put("a", "b", 0);
	struct etcd_txn t = { .then_ops = &op, .n_then = 1 };
	struct etcd_watch *w;

	client_start(1, watched);
	ck_assert_int_eq(etcd_watch_new(etcd, "a", NULL, 4, on_news, NULL, &w), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(etcd_txn(etcd, &t, PATIENT_MS, on_answer_free, NULL, NULL), 0);
	wait_answers(1);
	for (int i = 0; i < 5; i++)
		loop_run_once(loop, false);
	ck_assert_int_eq(got.answers, 1);
	etcd_watch_free(w);
}
END_TEST

START_TEST(no_descriptor_is_inherited)
{
	struct etcd_watch *w;
	int found = 0;

	client_start(1, watched);
	watch_start(&w, 4);
	for (int fd = 3; fd < 256; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0)
			continue;
		found++;
		ck_assert_msg(flags & FD_CLOEXEC, "descriptor %d", fd);
	}
	ck_assert_int_gt(found, 3);
	etcd_watch_free(w);
}
END_TEST

static void add_watches(TCase *t)
{
	tcase_add_loop_test(t, messages_of_a_watch_come_whole_wherever_they_are_cut, 1, 8);
	tcase_add_loop_test(t, a_broken_watch_goes_on_behind_what_it_has_reported, 0,
		sizeof(ends) / sizeof(ends[0]));
	tcase_add_test(t, a_watch_that_was_compacted_closes_its_stream);
	tcase_add_test(t, a_message_of_a_watch_that_is_too_large_is_a_gap);
	tcase_add_test(t, a_watch_leaves_a_server_that_is_left);
	tcase_add_test(t, a_member_that_lags_behind_has_time_to_follow);
	tcase_add_loop_test(t, a_first_watch_knows_the_cluster_of_its_revision, 0, 2);
	tcase_add_test(t, a_watch_whose_token_has_ended_gets_another);
	tcase_add_loop_test(t, a_callback_of_a_watch_may_free_all, 0, 2 * 9);
	tcase_add_test(t, a_callback_of_a_call_may_free_the_client);
	tcase_add_test(t, no_descriptor_is_inherited);
}

int main(void)
{
	Suite *s;
	TCase *t;

	if (!world_load())
		return 77;
	s = suite_create("etcd watch");
	t = tcase_create("watch");
	tcase_add_checked_fixture(t, setup, teardown);
	add_watches(t);
	suite_add_tcase(s, t);
	return suite_run(s);
}
