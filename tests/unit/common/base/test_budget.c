/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/budget.h"
#include "tests/unit/quiet.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <time.h>

enum { USERS = 6, HOLDERS = 40 };

static struct budget *b;
static struct budget_holder h[HOLDERS];
static int n_cut;
static const struct budget_limits limits = { .total = 64, .share = 16, .reserve = 16 };

static void on_cut(void *arg)
{
	n_cut++;
}

static void join(int i, uint64_t key, bool trusted)
{
	ck_assert_int_eq(budget_join(b, &h[i], key, trusted, on_cut, &h[i]), 0);
}

static void setup(void)
{
	n_cut = 0;
	memset(h, 0, sizeof(h));
	ck_assert_int_eq(budget_new(&limits, &b), 0);
}

static void teardown(void)
{
	for (int i = 0; i < HOLDERS; i++)
		budget_leave(&h[i]);
	ck_assert_uint_eq(budget_of_all(b), 0);
	b = budget_free(b);
}

START_TEST(an_account_holds_its_share_and_no_more)
{
	join(0, 1, false);
	join(1, 1, false);
	join(2, 2, false);
	ck_assert_int_eq(budget_hold(&h[0], 10), 0);
	ck_assert_int_eq(budget_hold(&h[1], 7), -EDQUOT);
	ck_assert_uint_eq(budget_limit(b, -EDQUOT), 16);
	ck_assert_int_eq(budget_hold(&h[1], 6), 0);
	ck_assert_uint_eq(budget_of_account(&h[0]), 16);
	ck_assert_int_eq(budget_hold(&h[2], 16), 0);
	ck_assert_int_eq(budget_hold(&h[0], 3), 0);
	ck_assert_int_eq(budget_hold(&h[1], 13), 0);
	ck_assert_int_eq(n_cut, 0);
}
END_TEST

START_TEST(the_largest_holder_gives_way_to_a_smaller_one)
{
	for (int i = 0; i < 3; i++) {
		join(2 * i, i, false);
		join(2 * i + 1, i, false);
		ck_assert_int_eq(budget_hold(&h[2 * i], 5), 0);
		ck_assert_int_eq(budget_hold(&h[2 * i + 1], 9 + i % 2), 0);
	}
	join(6, 3, false);
	ck_assert_int_eq(budget_hold(&h[6], 5), 0);
	ck_assert_int_eq(n_cut, 0);
	/* 1 has 15, more than the two others of 14. */
	ck_assert_int_eq(budget_hold(&h[6], 6), 0);
	ck_assert_int_eq(n_cut, 1);
	ck_assert_ptr_null(h[3].account);
	ck_assert_uint_eq(budget_of_account(&h[2]), 5);
	/* It takes no part any more, and holds what it has until it is gone. */
	ck_assert_int_eq(budget_hold(&h[3], 1000), 0);
	ck_assert_uint_eq(budget_of_all(b), 14 + 5 + 14 + 6);
}
END_TEST

START_TEST(the_greediest_newcomer_is_refused)
{
	for (int i = 0; i < 4; i++) {
		join(i, i, false);
		ck_assert_int_eq(budget_hold(&h[i], 12), 0);
	}
	join(4, 4, false);
	ck_assert_int_eq(budget_hold(&h[4], 12), -ENOBUFS);
	ck_assert_uint_eq(budget_limit(b, -ENOBUFS), 64);
	ck_assert_int_eq(budget_hold(&h[0], 13), -ENOBUFS);
	ck_assert_int_eq(n_cut, 0);
	ck_assert_int_eq(budget_hold(&h[4], 11), 0);
	ck_assert_int_eq(n_cut, 1);
}
END_TEST

START_TEST(the_reserve_is_for_the_trusted_alone)
{
	for (int i = 0; i < 3; i++) {
		join(i, i, false);
		ck_assert_int_eq(budget_hold(&h[i], 16), 0);
	}
	join(3, 0, true);
	ck_assert_int_eq(budget_hold(&h[3], 16), 0);
	ck_assert_int_eq(n_cut, 0);
	/* It has no share, but holds as much as the others now. */
	ck_assert_int_eq(budget_hold(&h[3], 17), -ENOBUFS);
	budget_leave(&h[0]);
	ck_assert_int_eq(budget_hold(&h[3], 30), 0);
	/* Others have none of it give way. */
	join(0, 0, false);
	ck_assert_int_eq(budget_hold(&h[0], 5), 0);
	ck_assert_int_eq(n_cut, 1);
	ck_assert_uint_eq(h[3].amount, 30);
}
END_TEST

START_TEST(among_many_small_ones_the_newest_gives_way)
{
	for (int i = 0; i < 32; i++) {
		join(i, i / 16, false);
		ck_assert_int_eq(budget_hold(&h[i], 1), 0);
	}
	for (int i = 32; i < 40; i++) {
		join(i, 2 + i % 2, true);
		ck_assert_int_eq(budget_hold(&h[i], 4), 0);
	}
	/* 32 by two users, 32 by two administrators: all is taken. */
	budget_leave(&h[0]);
	budget_leave(&h[1]);
	join(0, 7, false);
	ck_assert_int_eq(budget_hold(&h[0], 2), 0);
	join(1, 8, false);
	ck_assert_int_eq(budget_hold(&h[1], 1), 0);
	ck_assert_int_eq(n_cut, 1);
	ck_assert_ptr_null(h[31].account);
}
END_TEST

START_TEST(crowded_is_more_than_half_of_the_share_or_of_all)
{
	join(0, 1, false);
	join(1, 2, false);
	join(2, 3, true);
	ck_assert_int_eq(budget_hold(&h[0], 8), 0);
	ck_assert(!budget_crowded(&h[0]));
	ck_assert_int_eq(budget_hold(&h[0], 9), 0);
	ck_assert(budget_crowded(&h[0]));
	ck_assert(!budget_crowded(&h[1]));
	ck_assert_int_eq(budget_hold(&h[2], 23), 0);
	ck_assert(!budget_crowded(&h[2]));
	ck_assert_int_eq(budget_hold(&h[2], 24), 0);
	ck_assert(budget_crowded(&h[2]));
	ck_assert(budget_crowded(&h[1]));
}
END_TEST

START_TEST(other_limits_leave_what_is_held)
{
	join(0, 1, false);
	ck_assert_int_eq(budget_hold(&h[0], 16), 0);
	budget_set_limits(b, &(struct budget_limits){ .total = 8, .share = 4 });
	ck_assert_uint_eq(h[0].amount, 16);
	ck_assert_int_eq(budget_hold(&h[0], 17), -EDQUOT);
	ck_assert_int_eq(budget_hold(&h[0], 12), 0);
	ck_assert_uint_eq(budget_of_all(b), 12);
}
END_TEST

START_TEST(joining_costs_the_same_however_many_accounts_there_are)
{
	enum { MANY = 200000 };
	static struct budget_holder holders[MANY];
	clock_t begun = clock();

	for (int twice = 0; twice < 2; twice++) {
		for (int i = 0; i < MANY; i++)
			ck_assert_int_eq(
				budget_join(b, &holders[i], (uint64_t)i, false, on_cut, NULL), 0);
		for (int i = 0; i < MANY; i++)
			budget_leave(&holders[i]);
	}
	/* A walk over all accounts takes minutes. */
	ck_assert_int_lt((clock() - begun) / CLOCKS_PER_SEC, 10);
}
END_TEST

static uint64_t key_of(int i)
{
	return (uint64_t)i % USERS;
}

static void assert_within_limits(void)
{
	size_t of[USERS] = { 0 }, all = 0, trusted = 0;

	for (int i = 0; i < HOLDERS; i++) {
		if (!h[i].account)
			continue;
		all += h[i].amount;
		if (key_of(i) == 0)
			trusted += h[i].amount;
		of[key_of(i)] += h[i].amount;
	}
	ck_assert_uint_eq(all, budget_of_all(b));
	ck_assert_uint_le(all, limits.total);
	ck_assert_uint_le(all - trusted, limits.total - limits.reserve);
	for (int u = 1; u < USERS; u++)
		ck_assert_uint_le(of[u], limits.share);
}

START_TEST(random_requests_pass_no_limit)
{
	uint32_t seed = 12;

	for (int step = 0; step < 100000; step++) {
		int i = (int)(next_random(&seed) % HOLDERS);
		size_t before = h[i].amount, amount = next_random(&seed) % 20;

		if (!h[i].account) {
			join(i, key_of(i), key_of(i) == 0);
		} else if (next_random(&seed) % 8 == 0) {
			budget_leave(&h[i]);
		} else {
			int rc = budget_hold(&h[i], amount);

			ck_assert_uint_eq(h[i].amount, rc == 0 ? amount : before);
			if (amount <= before)
				ck_assert_int_eq(rc, 0);
		}
		assert_within_limits();
	}
	ck_assert_int_gt(n_cut, 100);
}
END_TEST

START_TEST(an_account_has_its_time_in_each_turn)
{
	join(0, 1, false);
	join(1, 1, false);
	join(2, 2, false);
	join(3, 3, true);
	ck_assert(budget_may_work(&h[0], 7, 5));
	budget_worked(&h[0], 7, 4);
	ck_assert(budget_may_work(&h[1], 7, 5));
	budget_worked(&h[1], 7, 1);
	ck_assert(!budget_may_work(&h[0], 7, 5));
	ck_assert(!budget_may_work(&h[1], 7, 5));
	ck_assert(budget_may_work(&h[2], 7, 5));
	ck_assert(budget_may_work(&h[0], 8, 5));
	budget_worked(&h[0], 8, 1);
	ck_assert(budget_may_work(&h[0], 8, 5));
	budget_worked(&h[3], 8, 100);
	ck_assert(budget_may_work(&h[3], 8, 5));
}
END_TEST

START_TEST(a_holder_that_has_left_may_work)
{
	join(0, 1, false);
	budget_worked(&h[0], 7, 9);
	budget_leave(&h[0]);
	ck_assert(budget_may_work(&h[0], 7, 5));
	budget_worked(&h[0], 7, 9);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("budget");
	TCase *t = tcase_create("budget");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, an_account_holds_its_share_and_no_more);
	tcase_add_test(t, the_largest_holder_gives_way_to_a_smaller_one);
	tcase_add_test(t, the_greediest_newcomer_is_refused);
	tcase_add_test(t, the_reserve_is_for_the_trusted_alone);
	tcase_add_test(t, among_many_small_ones_the_newest_gives_way);
	tcase_add_test(t, crowded_is_more_than_half_of_the_share_or_of_all);
	tcase_add_test(t, other_limits_leave_what_is_held);
	tcase_add_test(t, joining_costs_the_same_however_many_accounts_there_are);
	tcase_add_test(t, random_requests_pass_no_limit);
	tcase_add_test(t, an_account_has_its_time_in_each_turn);
	tcase_add_test(t, a_holder_that_has_left_may_work);
	suite_add_tcase(s, t);
	return suite_run(s);
}
