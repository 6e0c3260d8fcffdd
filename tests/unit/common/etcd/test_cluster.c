/* SPDX-License-Identifier: Apache-2.0 */
/* The client against real etcds that go away, come back, and are three. */
#include "tests/unit/etcd_real.h"
#include "tests/unit/etcd_test.h"
#include "tests/unit/etcd_tools.h"
#include "tests/unit/run.h"

static void client_start(void)
{
	const char *endpoints[MEMBERS_MAX];
	struct etcd_options o = { .endpoints = endpoints, .n = (size_t)n_members };
	struct error err = { 0 };

	for (int i = 0; i < n_members; i++)
		endpoints[i] = members[i].client;
	ck_assert_int_eq(loop_new(&loop), 0);
	ck_assert_msg(etcd_new(loop, &o, &etcd, &err) == 0, "%s", err.text);
}

static void client_end(void)
{
	etcd = etcd_free(etcd);
	loop = loop_free(loop);
	members_end();
}

static void one(void)
{
	members_start(1);
	client_start();
}

static void three(void)
{
	members_start(3);
	client_start();
}

static void again(struct member *m)
{
	member_start(m, NULL);
	member_wait(m);
}

START_TEST(a_watch_goes_on_after_a_restart_of_etcd)
{
	struct etcd_watch *w;

	put("a", "1", 0);
	ck_assert_int_eq(etcd_watch_new(etcd, "a", NULL, got.revision, on_news, NULL, &w), 0);
	WAIT_UNTIL(seen.n == 1);
	member_kill(&members[0], SIGKILL);
	WAIT_UNTIL(seen.down == 1);
	ck_assert_int_eq(seen.status, STATUS_UNAVAILABLE);
	put("a", "2", 0);
	ck_assert_status(STATUS_UNAVAILABLE);
	ck_assert(!got.maybe);
	again(&members[0]);
	put("a", "2", 0);
	ck_assert_status(STATUS_OK);
	WAIT_UNTIL(seen.n == 2);
	ck_assert_int_eq(seen.up, 2);
	ck_assert_int_eq(seen.gaps, 0);
	ck_assert_int_eq(seen.revisions[1], got.revision);
	etcd_watch_free(w);
}
END_TEST

/* Revisions mean nothing there. */
START_TEST(another_cluster_in_place_of_the_first_is_a_gap)
{
	struct etcd_watch *w;
	char renamed[64];
	uint64_t cluster;

	put("a", "1", 0);
	cluster = got.cluster;
	ck_assert_int_eq(etcd_watch_new(etcd, "a", NULL, got.revision + 1, on_news, NULL, &w), 0);
	WAIT_UNTIL(seen.up == 1);
	member_kill(&members[0], SIGKILL);
	if (_i == 0) {
		static const char *const token[] = { "--initial-cluster-token", "new", NULL };

		snprintf(renamed, sizeof(renamed), "%s/old", real_dir);
		ck_assert_int_eq(rename(members[0].dir, renamed), 0);
		member_start(&members[0], token);
	} else {
		/* The same cluster, which has lost what was in it. */
		snprintf(renamed, sizeof(renamed), "%s/old", real_dir);
		ck_assert_int_eq(rename(members[0].dir, renamed), 0);
		member_start(&members[0], NULL);
	}
	member_wait(&members[0]);
	WAIT_UNTIL(seen.gaps == 1);
	ck_assert_ptr_nonnull(
		strstr(seen.text, _i == 0 ? "another etcd cluster" : "has lost changes"));
	get("a", NULL);
	ck_assert_status(STATUS_OK);
	ck_assert_uint_eq(got.n_entries, 0);
	ck_assert_int_eq(got.cluster == cluster, _i == 1);
	etcd_watch_free(w);
}
END_TEST

START_TEST(callers_do_not_notice_a_member_that_dies)
{
	struct etcd_watch *w;
	int64_t first;

	put("a", "0", 0);
	first = got.revision;
	ck_assert_int_eq(etcd_watch_new(etcd, "a", NULL, first + 1, on_news, NULL, &w), 0);
	WAIT_UNTIL(seen.up == 1);
	for (int i = 0; i < 3; i++) {
		int64_t before = got.revision;

		member_kill(&members[i], SIGKILL);
		/* Without a leader for a moment, reads fail; nothing that was written is lost. */
		do
			get("a", NULL);
		while (got.status == STATUS_UNAVAILABLE);
		ck_assert_status(STATUS_OK);
		ck_assert_int_eq(got.revision, before);
		put("a", "x", 0);
		ck_assert_status(STATUS_OK);
		WAIT_UNTIL(seen.n == (size_t)i + 1);
		ck_assert_int_eq(seen.revisions[i], first + 1 + i);
		again(&members[i]);
	}
	ck_assert_int_eq(seen.gaps, 0);
	etcd_watch_free(w);
}
END_TEST

START_TEST(a_cluster_without_a_majority_says_so_at_once)
{
	struct etcd_watch *w;
	int64_t lease;
	uint64_t began;

	ANSWER_OF(etcd_grant(etcd, 60, PATIENT_MS, on_answer, NULL, NULL));
	lease = got.leases[0].id;
	put("a", "1", lease);
	ck_assert_int_eq(etcd_watch_new(etcd, "a", NULL, got.revision + 1, on_news, NULL, &w), 0);
	WAIT_UNTIL(seen.up == 1);
	member_kill(&members[0], SIGKILL);
	member_kill(&members[1], SIGKILL);
	/* Until the last one notices; what it got before then is not answered. */
	do
		get_within("a", NULL, 300);
	while (!strstr(got.text, "no leader"));
	began = loop_now_ms();
	get("a", NULL);
	ck_assert_status(STATUS_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(got.text, "no leader"));
	ANSWER_OF(etcd_keep_alive(etcd, &lease, 1, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_UNAVAILABLE);
	put("a", "2", 0);
	ck_assert_status(STATUS_UNAVAILABLE);
	ck_assert(!got.maybe);
	ck_assert_uint_lt(loop_now_ms() - began, PATIENT_MS / 2);
	WAIT_UNTIL(seen.down > 0);
	ANSWER_OF(etcd_status(etcd, PATIENT_MS, on_answer, NULL, NULL));
	ck_assert_status(STATUS_OK);
	ck_assert_uint_eq(got.leader, 0);

	again(&members[0]);
	do
		put("a", "2", lease);
	while (got.status == STATUS_UNAVAILABLE);
	ck_assert_status(STATUS_OK);
	WAIT_UNTIL(seen.n == 1);
	ck_assert_int_eq(seen.gaps, 0);
	etcd_watch_free(w);
}
END_TEST

/* One of them is the one in use, and one the leader. */
START_TEST(a_member_that_hangs_is_left)
{
	struct etcd_watch *w;

	put("a", "1", 0);
	ck_assert_int_eq(etcd_watch_new(etcd, "a", NULL, got.revision + 1, on_news, NULL, &w), 0);
	WAIT_UNTIL(seen.up == 1);
	for (int i = 0; i < 3; i++) {
		member_stop(&members[i]);
		do
			get_within("a", NULL, 600);
		while (got.status != STATUS_OK);
		/* The watch may leave the member that has just answered. A write goes to one alone:
		 * if that is the one that hangs, the next write goes to another, and the hanging
		 * member carries the first one out when it goes on. */
		do
			put_within("a", "2", 0, 3000);
		while (got.status == STATUS_DEADLINE_EXCEEDED);
		ck_assert_status(STATUS_OK);
		WAIT_UNTIL(seen.n && seen.revisions[seen.n - 1] >= got.revision);
		kill(members[i].pid, SIGCONT);
	}
	ck_assert_int_ge(seen.up, 2);
	ck_assert_int_eq(seen.gaps, 0);
	etcd_watch_free(w);
}
END_TEST

static void add(Suite *s, const char *name, void (*start)(void), void (*tests)(TCase *))
{
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, start, client_end);
	tests(t);
	suite_add_tcase(s, t);
}

static void tests_of_one(TCase *t)
{
	tcase_add_test(t, a_watch_goes_on_after_a_restart_of_etcd);
	tcase_add_loop_test(t, another_cluster_in_place_of_the_first_is_a_gap, 0, 2);
}

static void tests_of_three(TCase *t)
{
	tcase_add_test(t, callers_do_not_notice_a_member_that_dies);
	tcase_add_test(t, a_cluster_without_a_majority_says_so_at_once);
	tcase_add_test(t, a_member_that_hangs_is_left);
}

int main(void)
{
	Suite *s;

	real_or_skip();
	s = suite_create("etcd, several real ones");
	add(s, "one", one, tests_of_one);
	add(s, "three", three, tests_of_three);
	return suite_run(s);
}
