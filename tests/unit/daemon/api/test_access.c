/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/access.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>

enum { OWN = 500, OTHER = 1000, THIRD = 1001 };

static struct error err;

START_TEST(every_combination_has_the_level_that_the_rules_say)
{
	const uid_t uids[] = { 0, OWN, OTHER };

	for (int i = 0; i < 3 * 16; i++) {
		struct access_rules rules = { .own_uid = OWN, .restricted = i & 1 };
		struct access_peer peer = { .uid = uids[i / 16],
			.in_admin_group = i & 2,
			.in_allowed_group = i & 4,
			.is_allowed_user = i & 8 };
		enum access_level level = access_decide(&rules, &peer);

		if (peer.uid != OTHER || peer.in_admin_group)
			ck_assert_int_eq(level, ACCESS_ALL);
		else if (!rules.restricted || peer.in_allowed_group || peer.is_allowed_user)
			ck_assert_int_eq(level, ACCESS_OWN);
		else
			ck_assert_int_eq(level, ACCESS_NONE);
	}
}
END_TEST

START_TEST(own_jobs_only_unless_one_may_do_all)
{
	ck_assert(access_job(ACCESS_ALL, OTHER, THIRD));
	ck_assert(access_job(ACCESS_OWN, OTHER, OTHER));
	ck_assert(!access_job(ACCESS_OWN, OTHER, THIRD));
	ck_assert(!access_job(ACCESS_NONE, OTHER, OTHER));
}
END_TEST

/* The daemon, the caller and the wanted user, and the user of the job (-1: refused). */
static const struct {
	uid_t own, caller, wanted;
	long expected;
} users[] = {
	{ 0, 0, -1, 0 },
	{ 0, 0, OTHER, OTHER },
	{ 0, OTHER, -1, OTHER },
	{ 0, OTHER, OTHER, OTHER },
	{ 0, OTHER, 0, -1 },
	{ 0, OTHER, THIRD, -1 },
	{ OWN, OWN, -1, OWN },
	{ OWN, OWN, OWN, OWN },
	{ OWN, OWN, 0, -1 },
	{ OWN, 0, -1, OWN },
	{ OWN, 0, OTHER, -1 },
	{ OWN, OTHER, -1, -1 },
	{ OWN, OTHER, OTHER, -1 },
};

START_TEST(only_root_starts_jobs_for_others)
{
	uid_t uid = 4711;
	int r = access_job_user(users[_i].own, users[_i].caller, users[_i].wanted, &uid, &err);

	if (users[_i].expected < 0) {
		ck_assert_int_eq(r, -EPERM);
		ck_assert_uint_eq(uid, 4711);
	} else {
		ck_assert_int_eq(r, 0);
		ck_assert_uint_eq(uid, users[_i].expected);
	}
}
END_TEST

START_TEST(root_may_do_all_without_the_user_database)
{
	struct access *a;

	ck_assert_int_eq(access_new(NULL, NULL, NULL, &a), 0);
	ck_assert_int_eq(access_level(a, 0, 0, 0), ACCESS_ALL);
	ck_assert_int_eq(access_level(a, geteuid(), 0, 0), ACCESS_ALL);
	access_free(a);
}
END_TEST

START_TEST(without_restrictions_any_user_has_its_own_jobs)
{
	struct access *a;

	ck_assert_int_eq(access_new("no-such-group", NULL, NULL, &a), 0);
	ck_assert_int_eq(access_level(a, 3999999, 3999999, 0), ACCESS_OWN);
	access_free(a);
}
END_TEST

START_TEST(a_stranger_has_nothing_where_others_are_named)
{
	char *users_only[] = { (char *)"no-such-user", NULL };
	struct access *a;

	ck_assert_int_eq(access_new(NULL, NULL, users_only, &a), 0);
	ck_assert_int_eq(access_level(a, 3999999, 3999999, 0), ACCESS_NONE);
	access_free(a);
}
END_TEST

START_TEST(the_primary_group_counts_also_for_an_unknown_user)
{
	const struct group *g = getgrnam("daemon");
	char *groups[] = { (char *)"daemon", NULL };
	struct access *a;

	if (!g)
		return;
	ck_assert_int_eq(access_new("daemon", NULL, NULL, &a), 0);
	ck_assert_int_eq(access_level(a, 3999999, g->gr_gid, 0), ACCESS_ALL);
	access_free(a);
	ck_assert_int_eq(access_new(NULL, groups, NULL, &a), 0);
	ck_assert_int_eq(access_level(a, 3999999, g->gr_gid, 0), ACCESS_OWN);
	/* Another group is another answer, also within the time that answers are remembered. */
	ck_assert_int_eq(access_level(a, 3999999, g->gr_gid + 100000, 1), ACCESS_NONE);
	access_free(a);
}
END_TEST

START_TEST(two_users_in_one_slot_do_not_get_each_others_answer)
{
	const struct group *g = getgrnam("daemon");
	struct access *a;

	if (!g)
		return;
	ck_assert_int_eq(access_new("daemon", NULL, NULL, &a), 0);
	ck_assert_int_eq(access_level(a, 3999936, g->gr_gid, 0), ACCESS_ALL);
	ck_assert_int_eq(access_level(a, 3999936 + 64, 3999999, 0), ACCESS_OWN);
	ck_assert_int_eq(access_level(a, 3999936, g->gr_gid, 0), ACCESS_ALL);
	access_free(a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("access");
	TCase *t = tcase_create("access");

	tcase_add_test(t, every_combination_has_the_level_that_the_rules_say);
	tcase_add_test(t, own_jobs_only_unless_one_may_do_all);
	tcase_add_loop_test(
		t, only_root_starts_jobs_for_others, 0, (int)(sizeof(users) / sizeof(*users)));
	tcase_add_test(t, root_may_do_all_without_the_user_database);
	tcase_add_test(t, without_restrictions_any_user_has_its_own_jobs);
	tcase_add_test(t, a_stranger_has_nothing_where_others_are_named);
	tcase_add_test(t, the_primary_group_counts_also_for_an_unknown_user);
	tcase_add_test(t, two_users_in_one_slot_do_not_get_each_others_answer);
	suite_add_tcase(s, t);
	return suite_run(s);
}
