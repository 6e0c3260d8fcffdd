/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the head in which hosts come, go, and are refused. */
#include "agent/rounds/round.h"

#include "common/text/ranks.h"
#include "tests/unit/rounds_test.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

/* --- hosts that go and come --- */

START_TEST(the_next_round_waits_until_all_workers_are_dead)
{
	three_run();
	ck_assert_str_eq(hear("c", HOST_EV_LOST), "drop c (lost), stop a b");
	ck_assert_str_eq(join("d"), "admit d");
	ck_assert_str_eq(hear("a", HOST_EV_STOPPED), "");
	ck_assert_str_eq(hear("b", HOST_EV_LOST), "drop b (lost), rest, assign a d");
}
END_TEST

START_TEST(a_spare_takes_the_seat_and_the_rank_of_a_lost_host_at_once)
{
	three_run();
	ck_assert_str_eq(join("s"), "admit s");
	ck_assert_str_eq(join("t"), "admit t");
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX);
	ck_assert_str_eq(hear("b", HOST_EV_LOST), "drop b (lost), stop a c");
	hear("a", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("c", HOST_EV_STOPPED), "rest, assign a c s");
	ck_assert_int_eq(host("a")->group_rank, 0);
	ck_assert_int_eq(host("s")->group_rank, 1);
	ck_assert_int_eq(host("c")->group_rank, 2);
	ck_assert_int_eq(host("t")->state, HOST_WAITING);
}
END_TEST

START_TEST(ranks_and_sizes_are_those_of_the_round)
{
	three_run();
	ck_assert_int_eq(round_world(r)->hosts, 3);
	ck_assert_int_eq(round_world(r)->workers, 7);
	ck_assert_int_eq(round_world(r)->roles[0], 6);
	ck_assert_int_eq(round_world(r)->roles[1], 1);
	ck_assert_int_eq(host("a")->workers, 3);
	ck_assert_int_eq(host("c")->first_rank, 5);
	ck_assert_int_eq(host("c")->first_index[0], 4);
}
END_TEST

START_TEST(hosts_that_come_within_join_delay_get_in_together)
{
	config.max = 5;
	begin();
	join("a");
	join("b");
	due();
	hear_all("ab", HOST_EV_PREPARED);
	hear_all("ab", HOST_EV_STARTED);
	now += 10000;
	join("c");
	ck_assert_uint_eq(round_due_ms(r), now + JOIN_DELAY);
	now += 1000;
	join("d");
	ck_assert_str_eq(due(), "stop a b");
	hear("a", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("b", HOST_EV_STOPPED), "rest, assign a b c d");
}
END_TEST

START_TEST(join_delay_counts_from_the_first_host_that_still_waits)
{
	config.max = 6;
	begin();
	join("a");
	join("b");
	due();
	hear_all("ab", HOST_EV_PREPARED);
	hear_all("ab", HOST_EV_STARTED);
	join("c");
	now += 2000;
	hear("c", HOST_EV_BYE);
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX);
	now += 2000;
	ck_assert_str_eq(join("d"), "admit d");
	ck_assert_uint_eq(round_due_ms(r), now + JOIN_DELAY);
}
END_TEST

START_TEST(the_last_host_that_fits_is_not_delayed)
{
	three_run();
	hear("c", HOST_EV_LOST);
	stop_and_run("ab", "ab");
	ck_assert_str_eq(join("d"), "admit d, stop a b");
}
END_TEST

START_TEST(hosts_that_wait_get_in_after_a_save)
{
	config.on_join = ROUND_JOIN_SAVES;
	three_run();
	hear("c", HOST_EV_LOST);
	stop_and_run("ab", "ab");
	ck_assert_str_eq(join("d"), "admit d, save");
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX);
	ck_assert_str_eq(join("e"), "admit e");
	round_restart(r, 0, now);
	ck_assert_str_eq(orders(), "stop a b");
	hear("a", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("b", HOST_EV_STOPPED), "rest, assign a b d");
}
END_TEST

START_TEST(hosts_that_wait_get_in_with_the_next_round)
{
	config.on_join = ROUND_JOIN_WAITS;
	three_run();
	hear("c", HOST_EV_LOST);
	stop_and_run("ab", "ab");
	ck_assert_str_eq(join("d"), "admit d");
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX);
	round_restart(r, 0, now);
	hear("a", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("b", HOST_EV_STOPPED), "rest, assign a b d");
}
END_TEST

START_TEST(a_later_agent_of_a_run_replaces_the_earlier_and_keeps_its_rank)
{
	struct round_join again = join_as("b"), same = join_as("a");

	three_run();
	again.agent = "2";
	ck_assert_str_eq(join_with(again), "drop b (replaced), admit b, stop a c");
	ck_assert_str_eq(join_with(same), "drop a (rejoined), admit a");
	ck_assert_str_eq(hear("c", HOST_EV_STOPPED), "rest, assign a c b");
	ck_assert_int_eq(host("a")->group_rank, 0);
	ck_assert_int_eq(host("b")->group_rank, 1);
	ck_assert_int_eq(host("c")->group_rank, 2);
}
END_TEST

START_TEST(a_host_that_leaves_is_stopped_with_the_others_and_not_waited_for)
{
	three_run();
	ck_assert_str_eq(hear("b", HOST_EV_LEAVE), "stop b a c");
	hear_all("ac", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("b", HOST_EV_STOPPED), "rest, assign a c");
	ck_assert_int_eq(host("b")->state, HOST_LEAVING);
	ck_assert_str_eq(hear("b", HOST_EV_BYE), "drop b (bye)");
	ck_assert_str_eq(hear_all("ac", HOST_EV_PREPARED), "start a c");
}
END_TEST

/* --- hosts that do not get in --- */

START_TEST(a_host_that_differs_is_refused)
{
	struct round_join other = join_as("b");

	begin();
	join("a");
	other.digest = "another";
	ck_assert_str_eq(join_with(other), "refuse (digest)");
	ck_assert_int_eq(number("b"), -1);
}
END_TEST

START_TEST(a_node_rank_belongs_to_one_host)
{
	struct round_join x = join_as("x"), y = join_as("y");

	begin();
	x.node_rank = y.node_rank = 1;
	join_with(x);
	ck_assert_str_eq(join_with(y), "refuse x (node rank)");
	ck_assert_str_eq(join_with(x), "drop x (rejoined), admit x");
	hear("x", HOST_EV_LOST);
	ck_assert_str_eq(join_with(y), "admit y");
	y.node_rank = 3;
	ck_assert_int_eq(round_join(r, &y, now), -EINVAL);
}
END_TEST

START_TEST(more_workers_than_ranks_are_refused)
{
	static const int many[2] = { RANKS_MAX - 3, 0 };
	struct round_join big = join_as("b");

	begin();
	join("a");
	join("c");
	big.replicas = many;
	ck_assert_str_eq(join_with(big), "refuse (full)");
	hear("c", HOST_EV_BYE);
	ck_assert_str_eq(join_with(big), "admit b");
}
END_TEST

START_TEST(an_impossible_message_is_an_error)
{
	struct round_join odd = join_as("d");

	three_run();
	ck_assert_int_eq(round_hear(r, 99, HOST_EV_BYE, 0, now), -EINVAL);
	ck_assert_int_eq(round_hear(r, -1, HOST_EV_BYE, 0, now), -EINVAL);
	ck_assert_int_eq(round_hear(r, number("a"), HOST_EV_PREPARED, 1, now), -EINVAL);
	ck_assert_int_eq(round_hear(r, number("a"), HOST_EV_STOPPED, 1, now), -EINVAL);
	ck_assert_int_eq(round_hear(r, number("a"), HOST_EV_STOPPED, 2, now), -EINVAL);
	ck_assert_int_eq(round_hear(r, number("a"), HOST_EV_START, 1, now), -EINVAL);
	ck_assert_int_eq(round_hear(r, number("a"), HOST_EV_END, 1, now), -EINVAL);
	ck_assert_int_eq(round_state(r), ROUND_RUNNING);
	odd.last_round = 3;
	ck_assert_int_eq(round_join(r, &odd, now), -EINVAL);
	odd.known_round = UINT64_MAX;
	ck_assert_int_eq(round_join(r, &odd, now), -EINVAL);
}
END_TEST

START_TEST(a_number_is_free_for_another_host_after_the_next_call)
{
	int b;

	three_run();
	b = number("b");
	hear("b", HOST_EV_LOST);
	ck_assert_str_eq(round_host(r, b)->name, "b");
	ck_assert_int_eq(round_host(r, b)->state, HOST_GONE);
	ck_assert_int_eq(round_hear(r, b, HOST_EV_STOPPED, 1, now), -EINVAL);
	ck_assert_ptr_null(round_host(r, b));
	join("d");
	ck_assert_int_eq(number("d"), b);
}
END_TEST

/* --- a head that follows another one --- */

static void remember(const char *name, int rank)
{
	struct round_join past = join_as(name);

	past.known_round = past.last_round = config.round;
	past.last_rank = rank;
	ck_assert_int_ge(round_remember(r, &past), 0);
}

START_TEST(a_head_that_follows_waits_for_each_host_of_the_last_round)
{
	struct round_join a = join_as("a");

	config.round = 7;
	begin();
	remember("a", 1);
	remember("b", 0);
	remember("c", 2);
	a.agent = "2";
	ck_assert_str_eq(join_with(a), "drop a (replaced), admit a");
	ck_assert_str_eq(join("b"), "drop b (rejoined), admit b");
	ck_assert_str_eq(join("d"), "admit d");
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX);
	ck_assert_str_eq(hear("c", HOST_EV_LOST), "drop c (lost), assign b d a");
	ck_assert_uint_eq(round_number(r), 8);
	ck_assert_int_eq(host("a")->group_rank, 1);
	ck_assert_int_eq(host("b")->group_rank, 0);
	ck_assert_int_eq(host("d")->group_rank, 2);
}
END_TEST

START_TEST(a_head_that_follows_begins_at_once_with_the_hosts_that_are_left)
{
	config.round = 7;
	begin();
	remember("a", 0);
	remember("b", 1);
	remember("c", 2);
	join("a");
	join("b");
	ck_assert_str_eq(hear("c", HOST_EV_LOST), "drop c (lost), assign b a");
}
END_TEST

START_TEST(a_head_that_follows_waits_for_others_where_too_few_are_left)
{
	config.round = 7;
	begin();
	remember("a", 0);
	remember("b", 1);
	join("a");
	ck_assert_str_eq(hear("b", HOST_EV_LOST), "drop b (lost)");
	ck_assert_str_eq(join("d"), "admit d");
	ck_assert_uint_eq(round_due_ms(r), now + JOIN_DELAY);
}
END_TEST

START_TEST(a_round_that_the_head_does_not_know_costs_a_lease)
{
	struct round_join old = join_as("c");

	begin();
	join("a");
	join("b");
	now += 100;
	old.known_round = 5;
	old.last_round = 4;
	old.last_rank = 0;
	ck_assert_str_eq(join_with(old), "admit c");
	ck_assert_uint_eq(round_due_ms(r), 1000000 + LEASE);
	ck_assert_str_eq(due(), "assign a b c");
	ck_assert_uint_eq(round_number(r), 6);
	ck_assert_int_eq(host("c")->group_rank, 0);
}
END_TEST

START_TEST(a_round_that_becomes_known_while_hosts_prepare_costs_a_lease_too)
{
	struct round_join old = join_as("d");
	int n;

	begin();
	join("a");
	join("b");
	join("c");
	hear_all("ab", HOST_EV_PREPARED);
	old.known_round = 5;
	ck_assert_str_eq(join_with(old), "admit d");
	ck_assert_uint_eq(round_orders(r, &n)[0].round, 5);
	ck_assert_int_eq(round_state(r), ROUND_BACKOFF);
	ck_assert_uint_eq(round_due_ms(r), 1000000 + LEASE);
	ck_assert_str_eq(due(), "assign a b c");
	ck_assert_uint_eq(round_number(r), 6);
}
END_TEST

START_TEST(a_head_that_has_started_only_avoids_the_numbers_of_others)
{
	struct round_join old = join_as("d");

	three_run();
	old.known_round = old.last_round = 5;
	ck_assert_str_eq(join_with(old), "admit d");
	ck_assert_str_eq(hear("c", HOST_EV_LOST), "drop c (lost), stop a b");
	ck_assert_int_eq(round_hear(r, number("a"), HOST_EV_STOPPED, 1, now), 0);
	ck_assert_int_eq(round_hear(r, number("b"), HOST_EV_STOPPED, 1, now), 0);
	ck_assert_uint_eq(round_number(r), 6);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("round_hosts");
	TCase *t = tcase_create("round");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_next_round_waits_until_all_workers_are_dead);
	tcase_add_test(t, a_spare_takes_the_seat_and_the_rank_of_a_lost_host_at_once);
	tcase_add_test(t, ranks_and_sizes_are_those_of_the_round);
	tcase_add_test(t, hosts_that_come_within_join_delay_get_in_together);
	tcase_add_test(t, join_delay_counts_from_the_first_host_that_still_waits);
	tcase_add_test(t, the_last_host_that_fits_is_not_delayed);
	tcase_add_test(t, hosts_that_wait_get_in_after_a_save);
	tcase_add_test(t, hosts_that_wait_get_in_with_the_next_round);
	tcase_add_test(t, a_later_agent_of_a_run_replaces_the_earlier_and_keeps_its_rank);
	tcase_add_test(t, a_host_that_leaves_is_stopped_with_the_others_and_not_waited_for);
	tcase_add_test(t, a_host_that_differs_is_refused);
	tcase_add_test(t, a_node_rank_belongs_to_one_host);
	tcase_add_test(t, more_workers_than_ranks_are_refused);
	tcase_add_test(t, an_impossible_message_is_an_error);
	tcase_add_test(t, a_number_is_free_for_another_host_after_the_next_call);
	tcase_add_test(t, a_head_that_follows_waits_for_each_host_of_the_last_round);
	tcase_add_test(t, a_head_that_follows_begins_at_once_with_the_hosts_that_are_left);
	tcase_add_test(t, a_head_that_follows_waits_for_others_where_too_few_are_left);
	tcase_add_test(t, a_round_that_the_head_does_not_know_costs_a_lease);
	tcase_add_test(t, a_round_that_becomes_known_while_hosts_prepare_costs_a_lease_too);
	tcase_add_test(t, a_head_that_has_started_only_avoids_the_numbers_of_others);
	suite_add_tcase(s, t);
	return suite_run(s);
}
