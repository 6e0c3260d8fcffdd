/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/round.h"

#include "tests/unit/child.h"
#include "tests/unit/rounds_test.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* --- gathering --- */

START_TEST(the_first_round_begins_at_once_with_max_hosts)
{
	begin();
	ck_assert_str_eq(join("a"), "admit a");
	ck_assert_str_eq(join("b"), "admit b");
	ck_assert_str_eq(join("c"), "admit c, assign a b c");
	ck_assert_uint_eq(round_number(r), 1);
}
END_TEST

START_TEST(with_min_hosts_the_last_call_is_waited_for_once)
{
	begin();
	join("a");
	now += 5000;
	join("b");
	ck_assert_uint_eq(round_due_ms(r), now + LAST_CALL);
	ck_assert_str_eq(at(now + LAST_CALL - 1), "");
	ck_assert_str_eq(due(), "assign a b");
}
END_TEST

START_TEST(the_last_call_begins_again_when_hosts_became_too_few)
{
	begin();
	join("a");
	join("b");
	now += 29000;
	ck_assert_str_eq(hear("a", HOST_EV_BYE), "drop a (bye)");
	ck_assert_uint_eq(round_due_ms(r), now + JOIN_TIMEOUT);
	now += 1000;
	join("a");
	ck_assert_uint_eq(round_due_ms(r), now + LAST_CALL);
}
END_TEST

START_TEST(too_few_hosts_give_up_after_join_timeout)
{
	begin();
	join("b");
	ck_assert_uint_eq(round_due_ms(r), 1000000 + JOIN_TIMEOUT);
	ck_assert_str_eq(due(), "give up, end b");
	ck_assert_str_eq(join("a"), "refuse (ended)");
	ck_assert_str_eq(hear("b", HOST_EV_BYE), "drop b (bye), finish");
	ck_assert_int_eq(round_state(r), ROUND_ENDED);
}
END_TEST

START_TEST(a_later_round_waits_join_delay_when_hosts_are_enough_again)
{
	three_run();
	hear("b", HOST_EV_LOST);
	hear("c", HOST_EV_LOST);
	ck_assert_str_eq(hear("a", HOST_EV_STOPPED), "rest");
	ck_assert_uint_eq(round_due_ms(r), now + JOIN_TIMEOUT);
	now += 100;
	ck_assert_str_eq(join("b"), "admit b");
	ck_assert_uint_eq(round_due_ms(r), now + JOIN_DELAY);
	ck_assert_str_eq(join("c"), "admit c, assign a c b");
}
END_TEST

/* --- preparing and starting --- */

START_TEST(no_host_starts_before_all_are_prepared)
{
	begin();
	join("a");
	join("b");
	join("c");
	ck_assert_str_eq(hear("c", HOST_EV_PREPARED), "");
	ck_assert_str_eq(hear("a", HOST_EV_PREPARED), "");
	ck_assert_str_eq(hear("b", HOST_EV_PREPARED), "start a b c");
	ck_assert_str_eq(hear_all("ab", HOST_EV_STARTED), "");
	ck_assert_str_eq(hear("c", HOST_EV_STARTED), "running");
}
END_TEST

START_TEST(a_host_that_is_late_is_left_out_and_named)
{
	begin();
	join("a");
	join("b");
	join("c");
	hear_all("ac", HOST_EV_PREPARED);
	ck_assert_uint_eq(round_due_ms(r), now + PREPARE);
	ck_assert_str_eq(due(), "leave out b (late), assign a c");
	ck_assert_uint_eq(round_number(r), 2);
	ck_assert_int_eq(host("c")->group_rank, 1);
	ck_assert_str_eq(hear_all("ac", HOST_EV_PREPARED), "start a c");
	hear_all("ac", HOST_EV_STARTED);
	/* it is able after all */
	ck_assert_int_eq(round_hear(r, number("b"), HOST_EV_PREPARED, 1, now), 0);
	ck_assert_str_eq(orders(), "stop a c");
}
END_TEST

START_TEST(a_host_that_is_unable_is_left_out_until_it_joins_again)
{
	begin();
	join("a");
	join("b");
	join("c");
	hear("a", HOST_EV_PREPARED);
	ck_assert_str_eq(hear("b", HOST_EV_UNABLE), "leave out b (unable)");
	ck_assert_str_eq(hear("c", HOST_EV_UNABLE), "leave out c (unable)");
	ck_assert_int_eq(round_state(r), ROUND_GATHERING);
	ck_assert_int_eq(round_count(r, HOST_OUT), 2);
	ck_assert_str_eq(join("c"), "drop c (rejoined), admit c");
	ck_assert_uint_eq(round_due_ms(r), now + LAST_CALL);
}
END_TEST

START_TEST(a_host_that_was_left_out_is_asked_again_in_the_next_round)
{
	begin();
	join("a");
	join("b");
	join("c");
	hear_all("ac", HOST_EV_PREPARED);
	ck_assert_str_eq(hear("b", HOST_EV_UNABLE), "leave out b (unable), assign a c");
	hear_all("ac", HOST_EV_PREPARED);
	hear_all("ac", HOST_EV_STARTED);
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX); /* b alone begins no round */
	round_restart(r, 0, now);
	ck_assert_str_eq(orders(), "stop a c");
	hear("a", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("c", HOST_EV_STOPPED), "rest, assign a b c");
	/* Once in each round: these two do not wait for each other for ever. */
	ck_assert_str_eq(hear("b", HOST_EV_UNABLE), "leave out b (unable)");
	ck_assert_str_eq(hear_all("ac", HOST_EV_PREPARED), "assign a c");
	ck_assert_str_eq(hear_all("ac", HOST_EV_PREPARED), "start a c");
}
END_TEST

START_TEST(a_host_lost_before_the_start_costs_only_new_ranks)
{
	begin();
	join("a");
	join("b");
	join("c");
	hear_all("bc", HOST_EV_PREPARED);
	ck_assert_str_eq(hear("a", HOST_EV_LOST), "drop a (lost), assign b c");
	/* what they said of the round before does not count */
	ck_assert_int_eq(round_hear(r, number("b"), HOST_EV_PREPARED, 1, now), 1);
	ck_assert_str_eq(hear("c", HOST_EV_PREPARED), "");
	ck_assert_str_eq(hear("b", HOST_EV_PREPARED), "start b c");
}
END_TEST

START_TEST(hosts_that_are_lost_together_cost_new_ranks_once)
{
	config.max = 5;
	begin();
	join("a");
	join("b");
	join("c");
	join("d");
	join("e");
	hear("a", HOST_EV_PREPARED);
	ck_assert_str_eq(hear("c", HOST_EV_LOST), "drop c (lost)");
	ck_assert_uint_eq(round_due_ms(r), now + LEASE / 5);
	now += LEASE / 10;
	ck_assert_str_eq(hear("d", HOST_EV_LOST), "drop d (lost)");
	ck_assert_uint_eq(round_due_ms(r), now + LEASE / 10);
	ck_assert_str_eq(due(), "assign a b e");
	ck_assert_str_eq(hear_all("abe", HOST_EV_PREPARED), "start a b e");
}
END_TEST

START_TEST(a_host_lost_while_others_start_stops_them_at_once)
{
	begin();
	join("a");
	join("b");
	join("c");
	hear_all("abc", HOST_EV_PREPARED);
	hear("a", HOST_EV_STARTED);
	ck_assert_str_eq(hear("b", HOST_EV_LOST), "drop b (lost), stop a c");
	ck_assert_int_eq(round_hear(r, number("c"), HOST_EV_STARTED, 1, now), 1);
	ck_assert_str_eq(hear("c", HOST_EV_STOPPED), "");
	ck_assert_str_eq(hear("a", HOST_EV_STOPPED), "rest, assign a c");
}
END_TEST

/* --- restarts and the end --- */

START_TEST(a_restart_waits_for_its_backoff)
{
	three_run();
	round_restart(r, 500, now);
	ck_assert_str_eq(orders(), "stop a b c");
	round_restart(r, 200, now); /* the longer one holds */
	ck_assert_str_eq(hear_all("abc", HOST_EV_STOPPED), "rest");
	ck_assert_int_eq(round_state(r), ROUND_BACKOFF);
	ck_assert_uint_eq(round_due_ms(r), now + 500);
	round_restart(r, UINT64_MAX, now);
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX);
	now += 9;
	round_restart(r, 0, now);
	ck_assert_str_eq(orders(), "assign a b c");
}
END_TEST

START_TEST(a_restart_before_the_start_only_delays)
{
	begin();
	join("a");
	join("b");
	join("c");
	hear_all("ab", HOST_EV_PREPARED);
	round_restart(r, 0, now);
	ck_assert_str_eq(orders(), "");
	round_restart(r, 700, now);
	ck_assert_int_eq(round_state(r), ROUND_BACKOFF);
	ck_assert_str_eq(at(now + 699), "");
	ck_assert_str_eq(due(), "assign a b c");
}
END_TEST

START_TEST(the_first_verdict_ends_the_group_when_all_workers_are_dead)
{
	three_run();
	join("spare");
	ck_assert(round_end(r, now));
	ck_assert_str_eq(orders(), "stop a b c");
	ck_assert(!round_end(r, now));
	round_restart(r, 0, now);
	ck_assert_str_eq(orders(), "");
	hear_all("ab", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("c", HOST_EV_STOPPED), "end a b c spare");
	ck_assert_str_eq(join("d"), "refuse (ended)");
	ck_assert(!round_end(r, now));
	hear_all("ab", HOST_EV_BYE);
	ck_assert_str_eq(hear("spare", HOST_EV_BYE), "drop spare (bye)");
	ck_assert_str_eq(hear("c", HOST_EV_LOST), "drop c (lost), finish");
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX);
}
END_TEST

/* JOIN of a host that a head has told of a round. */
static const char *join_back(const char *name)
{
	struct round_join j = join_as(name);

	j.known_round = 1;
	ck_assert_int_eq(round_join(r, &j, now), 0);
	return orders();
}

START_TEST(a_host_that_comes_back_while_the_group_ends_gets_the_verdict)
{
	three_run();
	hear("c", HOST_EV_LOST);
	round_end(r, now);
	ck_assert_str_eq(join_back("c"), "admit c");
	ck_assert_str_eq(join("new"), "refuse (ended)");
	hear("a", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("b", HOST_EV_STOPPED), "end a b c");
	hear("a", HOST_EV_LOST);
	ck_assert_str_eq(join_back("a"), "admit a, end a");
	ck_assert_str_eq(hear("a", HOST_EV_BYE), "drop a (bye)");
	hear("b", HOST_EV_BYE);
	ck_assert_str_eq(hear("c", HOST_EV_BYE), "drop c (bye), finish");
	ck_assert_str_eq(join_back("c"), "refuse (ended)");
}
END_TEST

START_TEST(a_verdict_overtakes_another_round)
{
	three_run();
	hear("a", HOST_EV_LOST);
	ck_assert(round_end(r, now));
	ck_assert_str_eq(orders(), "");
	hear("b", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("c", HOST_EV_STOPPED), "end b c");
}
END_TEST

/* --- many --- */

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void many_join(int n)
{
	static const int eight[2] = { 8, 1 };
	char name[32];

	for (int i = 0; i < n; i++) {
		struct round_join j = join_as(name);

		snprintf(name, sizeof(name), "node%d", (int)((unsigned)i * 7919u % (unsigned)n));
		j.replicas = eight;
		if (round_join(r, &j, now) < 0)
			ck_abort_msg("a JOIN fails");
	}
}

static void many_say(int n, enum host_event e)
{
	for (int i = 0; i < n; i++)
		if (round_hear(r, i, e, round_number(r), now) < 0)
			ck_abort_msg("%s fails", host_event_name(e));
}

START_TEST(thousands_of_hosts_cost_little)
{
	int n = under_valgrind() ? 200 : ROUND_HOSTS_MAX, count;
	double before;

	config.min = config.max = n;
	begin();
	before = cpu_s();
	many_join(n);
	many_say(n, HOST_EV_PREPARED);
	round_orders(r, &count);
	ck_assert_int_eq(count, n);
	many_say(n, HOST_EV_STARTED);
	ck_assert_int_eq(round_state(r), ROUND_RUNNING);
	ck_assert_int_eq(round_world(r)->workers, 8 * n + 1);
	round_restart(r, 0, now);
	many_say(n, HOST_EV_STOPPED);
	ck_assert_int_eq(round_state(r), ROUND_PREPARING);
	if (getenv("ROUNDS_FIGURES"))
		fprintf(stderr, "%d hosts join, start and stop: %.1f ms\n", n,
			(cpu_s() - before) * 1e3);
}
END_TEST

/* --- a store that knows of each round --- */

static void record_three(void)
{
	config.records = true;
	begin();
	join("a");
	join("b");
	join("c");
	ck_assert_str_eq(hear_all("abc", HOST_EV_PREPARED), "record");
}

START_TEST(a_round_starts_when_the_store_knows_of_it)
{
	record_three();
	round_recorded(r, 2, now);
	ck_assert_str_eq(orders(), "");
	round_recorded(r, 1, now);
	ck_assert_str_eq(orders(), "start a b c");
	round_recorded(r, 1, now);
	ck_assert_str_eq(orders(), "");
}
END_TEST

START_TEST(a_host_lost_while_a_round_is_recorded_ends_that)
{
	record_three();
	ck_assert_str_eq(hear("c", HOST_EV_LOST), "drop c (lost), assign a b");
	round_recorded(r, 1, now);
	ck_assert_str_eq(orders(), "");
	ck_assert_str_eq(hear_all("ab", HOST_EV_PREPARED), "record");
	round_recorded(r, 2, now);
	ck_assert_str_eq(orders(), "start a b");
}
END_TEST

START_TEST(rounds_that_the_store_does_not_know_delay_nothing)
{
	struct round_join b = join_as("b");

	config.records = true;
	config.round = 4;
	config.max = 2;
	begin();
	join("a");
	b.known_round = 7;
	ck_assert_str_eq(join_with(b), "admit b, assign a b");
	ck_assert_uint_eq(round_number(r), 8);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("round");
	TCase *t = tcase_create("round");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_first_round_begins_at_once_with_max_hosts);
	tcase_add_test(t, with_min_hosts_the_last_call_is_waited_for_once);
	tcase_add_test(t, the_last_call_begins_again_when_hosts_became_too_few);
	tcase_add_test(t, too_few_hosts_give_up_after_join_timeout);
	tcase_add_test(t, a_later_round_waits_join_delay_when_hosts_are_enough_again);
	tcase_add_test(t, no_host_starts_before_all_are_prepared);
	tcase_add_test(t, a_host_that_is_late_is_left_out_and_named);
	tcase_add_test(t, a_host_that_is_unable_is_left_out_until_it_joins_again);
	tcase_add_test(t, a_host_that_was_left_out_is_asked_again_in_the_next_round);
	tcase_add_test(t, a_host_lost_before_the_start_costs_only_new_ranks);
	tcase_add_test(t, hosts_that_are_lost_together_cost_new_ranks_once);
	tcase_add_test(t, a_host_lost_while_others_start_stops_them_at_once);
	tcase_add_test(t, a_restart_waits_for_its_backoff);
	tcase_add_test(t, a_restart_before_the_start_only_delays);
	tcase_add_test(t, the_first_verdict_ends_the_group_when_all_workers_are_dead);
	tcase_add_test(t, a_host_that_comes_back_while_the_group_ends_gets_the_verdict);
	tcase_add_test(t, a_verdict_overtakes_another_round);
	tcase_add_test(t, a_round_starts_when_the_store_knows_of_it);
	tcase_add_test(t, a_host_lost_while_a_round_is_recorded_ends_that);
	tcase_add_test(t, rounds_that_the_store_does_not_know_delay_nothing);
	tcase_add_test(t, thousands_of_hosts_cost_little);
	suite_add_tcase(s, t);
	return suite_run(s);
}
