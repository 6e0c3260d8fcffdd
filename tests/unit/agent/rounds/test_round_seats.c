/* SPDX-License-Identifier: Apache-2.0 */
/* Seats of agent/rounds/round.h whose hosts are gone while the others go on. */
#include "tests/unit/rounds_test.h"
#include "tests/unit/run.h"

/* ab waits, alone: of the first role; the second one runs on the first host. */
static const bool both_alone[2] = { true, true }, one_alone[2] = { true, false };

/* a, b and c run, and go on without each other. */
static void three_alone(void)
{
	config.alone = both_alone;
	three_run();
}

static int vacant(void)
{
	int n = 0;

	for (const struct round_seat *s = NULL; (s = round_next_seat(r, s));)
		n++;
	return n;
}

static const char *lose(const char *name)
{
	return hear(name, HOST_EV_LOST);
}

static const char *join_rack(const char *name, const char *topology)
{
	struct round_join j = join_as(name);

	j.topology = topology;
	return join_with(j);
}

START_TEST(a_lost_host_leaves_a_seat_and_the_next_one_takes_it)
{
	three_alone();
	ck_assert_str_eq(lose("b"), "vacate b, drop b (lost)");
	ck_assert_int_eq(round_state(r), ROUND_RUNNING);
	ck_assert_str_eq(round_next_seat(r, NULL)->name, "b");
	ck_assert_int_eq(round_next_seat(r, NULL)->first_rank, 3);
	ck_assert_str_eq(join("d"), "admit d, assign d");
	ck_assert_int_eq(host("d")->group_rank, 1);
	ck_assert_int_eq(host("d")->first_rank, 3);
	ck_assert_int_eq(host("d")->workers, 2);
	ck_assert_int_eq(host("d")->first_index[0], 2);
	ck_assert_uint_eq(host("d")->round, host("a")->round);
	ck_assert_str_eq(hear("d", HOST_EV_PREPARED), "take d");
	ck_assert_str_eq(hear("d", HOST_EV_STARTED), "");
	ck_assert_int_eq(round_count(r, HOST_RUNNING), 3);
	ck_assert_int_eq(vacant(), 0);
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX);
}
END_TEST

START_TEST(a_spare_takes_the_seat_at_once)
{
	three_alone();
	join("d");
	ck_assert_str_eq(lose("c"), "vacate c, drop c (lost), assign d");
	ck_assert_int_eq(host("d")->group_rank, 2);
}
END_TEST

START_TEST(one_worker_that_does_not_start_alone_stops_all)
{
	config.alone = one_alone;
	three_run();
	/* The second role runs on the first host alone. */
	ck_assert_str_eq(lose("b"), "vacate b, drop b (lost)");
	ck_assert_str_eq(lose("a"), "drop a (lost), stop c");
	ck_assert_int_eq(vacant(), 0);
}
END_TEST

START_TEST(a_host_that_leaves_keeps_its_seat_until_its_workers_are_dead)
{
	three_alone();
	join("d");
	ck_assert_str_eq(hear("b", HOST_EV_LEAVE), "stop b");
	ck_assert_int_eq(round_state(r), ROUND_RUNNING);
	ck_assert_str_eq(hear("b", HOST_EV_STOPPED), "vacate b, assign d");
	ck_assert_str_eq(hear("b", HOST_EV_BYE), "drop b (bye)");
	ck_assert_str_eq(hear("d", HOST_EV_PREPARED), "take d");
}
END_TEST

START_TEST(a_host_that_leaves_may_say_bye_alone)
{
	three_alone();
	hear("b", HOST_EV_LEAVE);
	ck_assert_str_eq(hear("b", HOST_EV_BYE), "vacate b, drop b (bye)");
	ck_assert_int_eq(vacant(), 1);
}
END_TEST

START_TEST(a_host_that_joins_again_gets_its_own_seat)
{
	struct round_join j = join_as("c");

	three_alone();
	lose("b");
	lose("c");
	j.known_round = j.last_round = round_number(r);
	j.last_rank = 2;
	ck_assert_str_eq(join_with(j), "admit c, assign c");
	ck_assert_int_eq(host("c")->group_rank, 2);
	/* The same where its agent is another one, or its lease was over at its end. */
	hear("c", HOST_EV_PREPARED);
	ck_assert_str_eq(join_with(j), "vacate c, drop c (rejoined), admit c, assign c");
	ck_assert_int_eq(host("c")->group_rank, 2);
}
END_TEST

START_TEST(the_seat_goes_to_the_spare_that_stands_nearest)
{
	config.alone = both_alone;
	begin();
	join_rack("a", "x");
	join_rack("b", "y/1");
	join_rack("c", "z");
	hear_all("abc", HOST_EV_PREPARED);
	hear_all("abc", HOST_EV_STARTED);
	join_rack("d", "x/2");
	join_rack("e", "y/2");
	join_rack("f", "y/1");
	ck_assert_str_eq(lose("b"), "vacate b, drop b (lost), assign f");
	ck_assert_str_eq(hear("f", HOST_EV_UNABLE), "leave out f (unable), assign e");
	ck_assert_str_eq(hear("e", HOST_EV_UNABLE), "leave out e (unable), assign d");
}
END_TEST

START_TEST(only_a_host_with_as_many_workers_fits)
{
	static const int other[2] = { 1, 1 };
	struct round_join j = join_as("d");

	three_alone();
	lose("b");
	j.replicas = other;
	ck_assert_str_eq(join_with(j), "admit d");
	ck_assert_str_eq(join("e"), "admit e, assign e");
}
END_TEST

START_TEST(a_given_node_rank_is_part_of_the_seat)
{
	struct round_join j = join_as("d");

	three_alone();
	lose("b");
	j.node_rank = 1;
	ck_assert_str_eq(join_with(j), "admit d");
}
END_TEST

START_TEST(with_segments_only_a_host_of_the_same_part_fits)
{
	config.alone = both_alone;
	config.segment = 2;
	config.min = config.max = 2;
	begin();
	join_rack("a", "x/1");
	join_rack("b", "x/2");
	hear_all("ab", HOST_EV_PREPARED);
	hear_all("ab", HOST_EV_STARTED);
	join_rack("c", "y/1");
	ck_assert_str_eq(lose("b"), "vacate b, drop b (lost)");
	ck_assert_str_eq(join_rack("d", "x/3"), "admit d, assign d");
}
END_TEST

START_TEST(a_host_that_is_kept_out_takes_a_seat_only_below_min)
{
	three_alone();
	join("d");
	round_keep_out(r, number("d"), now + 3600000, now);
	ck_assert_str_eq(lose("b"), "vacate b, drop b (lost)");
	ck_assert_str_eq(lose("c"), "vacate c, drop c (lost), assign d");
}
END_TEST

START_TEST(a_host_that_is_not_prepared_in_time_makes_room_for_the_next)
{
	three_alone();
	lose("b");
	join("d");
	now += 1000;
	join("e");
	ck_assert_str_eq(due(), "leave out d (late), assign e");
	ck_assert_str_eq(lose("e"), "drop e (lost)");
	ck_assert_int_eq(vacant(), 1);
	/* It is able, but late. */
	ck_assert_str_eq(hear("d", HOST_EV_PREPARED), "assign d");
	ck_assert_str_eq(hear("d", HOST_EV_PREPARED), "take d");
}
END_TEST

START_TEST(a_failure_meanwhile_begins_a_round_with_all)
{
	three_alone();
	lose("b");
	join("d");
	hear("d", HOST_EV_PREPARED); /* and takes the seat */
	lose("c");
	join("e");
	round_restart(r, 0, now);
	ck_assert_str_eq(orders(), "stop a d");
	ck_assert_int_eq(host("e")->state, HOST_WAITING);
	ck_assert_int_eq(vacant(), 0);
	hear("a", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("d", HOST_EV_STOPPED), "rest, assign a d e");
	ck_assert_int_eq(host("d")->group_rank, 1);
	ck_assert_int_eq(host("e")->group_rank, 2);
}
END_TEST

START_TEST(an_end_meanwhile_tells_the_host_that_prepares)
{
	three_alone();
	lose("b");
	join("d");
	ck_assert(round_end(r, now));
	ck_assert_str_eq(orders(), "stop a c");
	hear("a", HOST_EV_STOPPED);
	ck_assert_str_eq(hear("c", HOST_EV_STOPPED), "end a d c");
}
END_TEST

START_TEST(a_rank_belongs_to_the_host_that_took_its_seat)
{
	struct round_join j = join_as("b");

	three_alone();
	lose("b");
	join("d");
	hear("d", HOST_EV_PREPARED);
	hear("d", HOST_EV_STARTED);
	j.known_round = j.last_round = round_number(r);
	j.last_rank = 1;
	join_with(j);
	ck_assert_int_eq(host("b")->last_rank, -1);
	lose("a");
	ck_assert_int_eq(host("b")->group_rank, 0);
	round_restart(r, 0, now);
	hear("d", HOST_EV_STOPPED);
	hear("c", HOST_EV_STOPPED);
	ck_assert_int_eq(host("d")->group_rank, 1);
	ck_assert_int_eq(host("c")->group_rank, 2);
}
END_TEST

START_TEST(a_host_that_waits_loses_its_claim_when_its_seat_is_taken)
{
	struct round_join j = join_as("b");

	three_alone();
	lose("b");
	j.known_round = j.last_round = round_number(r);
	j.last_rank = 1;
	j.kept_until_ms = now + 3600000;
	ck_assert_str_eq(join_with(j), "admit b");
	ck_assert_str_eq(join("d"), "admit d, assign d");
	ck_assert_int_eq(host("b")->last_rank, 1);
	hear("d", HOST_EV_PREPARED);
	ck_assert_int_eq(host("b")->last_rank, -1);
}
END_TEST

START_TEST(a_round_without_hosts_is_over)
{
	three_alone();
	lose("a");
	lose("b");
	ck_assert_str_eq(lose("c"), "vacate c, drop c (lost), rest");
	ck_assert_int_eq(round_state(r), ROUND_GATHERING);
}
END_TEST

START_TEST(a_seat_is_late_after_join_timeout_and_stays_free)
{
	three_alone();
	now += 5000;
	lose("b");
	ck_assert_uint_eq(round_due_ms(r), now + JOIN_TIMEOUT);
	ck_assert_str_eq(due(), "late");
	ck_assert(round_next_seat(r, NULL)->late);
	ck_assert_int_eq(round_state(r), ROUND_RUNNING);
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX);
	ck_assert_str_eq(join("d"), "admit d, assign d");
}
END_TEST

START_TEST(a_host_that_does_not_fit_gets_in_as_others_once_the_seat_is_late)
{
	static const int other[2] = { 1, 1 };
	struct round_join j = join_as("d");

	three_alone();
	lose("b");
	j.replicas = other;
	join_with(j);
	ck_assert_str_eq(due(), "late, stop a c");
}
END_TEST

START_TEST(fewer_than_min_for_join_timeout_is_the_end)
{
	three_alone();
	lose("b");
	now += 1000;
	lose("c");
	ck_assert_int_eq(round_state(r), ROUND_RUNNING);
	ck_assert_str_eq(due(), "late");
	ck_assert_str_eq(due(), "late, give up, stop a");
	ck_assert_int_eq(round_state(r), ROUND_ENDING);
	ck_assert_str_eq(hear("a", HOST_EV_STOPPED), "end a");
}
END_TEST

START_TEST(min_hosts_again_end_the_wait)
{
	three_alone();
	lose("b");
	lose("c");
	join("d");
	hear("d", HOST_EV_PREPARED);
	ck_assert_str_eq(due(), "late");
	ck_assert_int_eq(round_state(r), ROUND_RUNNING);
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX);
}
END_TEST

START_TEST(held_seats_are_not_taken)
{
	three_alone();
	lose("b");
	join("d");
	round_hold_seats(r, true, now);
	ck_assert_str_eq(hear("d", HOST_EV_PREPARED), "");
	lose("c");
	ck_assert_str_eq(join("e"), "admit e");
	round_hold_seats(r, false, now);
	ck_assert_str_eq(orders(), "assign e, take d");
}
END_TEST

/* a, b and c run, and a store knows of each round. */
static uint64_t three_recorded(void)
{
	config.alone = both_alone;
	config.records = true;
	begin();
	join("a");
	join("b");
	join("c");
	ck_assert_str_eq(hear_all("abc", HOST_EV_PREPARED), "record");
	round_recorded(r, round_number(r), now);
	hear_all("abc", HOST_EV_STARTED);
	return round_number(r);
}

static const char *recorded(uint64_t round)
{
	round_recorded(r, round, now);
	return orders();
}

START_TEST(a_store_knows_of_a_host_before_it_starts)
{
	uint64_t round = three_recorded();

	/* It is to forget the host that is gone, too. */
	ck_assert_str_eq(lose("b"), "vacate b, drop b (lost), record");
	join("d");
	ck_assert_str_eq(hear("d", HOST_EV_PREPARED), "");
	ck_assert_str_eq(recorded(round), "record");
	ck_assert_str_eq(recorded(round - 1), "");
	ck_assert_str_eq(recorded(round), "take d");
}
END_TEST

START_TEST(a_record_is_not_about_the_host_that_prepares_next)
{
	uint64_t round = three_recorded();

	lose("b");
	recorded(round);
	join("d");
	ck_assert_str_eq(hear("d", HOST_EV_PREPARED), "record");
	lose("d");
	join("e");
	ck_assert_str_eq(hear("e", HOST_EV_PREPARED), "");
	ck_assert_str_eq(recorded(round), "record");
	ck_assert_str_eq(recorded(round), "take e");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("round_seats");
	TCase *t = tcase_create("seats");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_lost_host_leaves_a_seat_and_the_next_one_takes_it);
	tcase_add_test(t, a_spare_takes_the_seat_at_once);
	tcase_add_test(t, one_worker_that_does_not_start_alone_stops_all);
	tcase_add_test(t, a_host_that_leaves_keeps_its_seat_until_its_workers_are_dead);
	tcase_add_test(t, a_host_that_leaves_may_say_bye_alone);
	tcase_add_test(t, a_host_that_joins_again_gets_its_own_seat);
	tcase_add_test(t, the_seat_goes_to_the_spare_that_stands_nearest);
	tcase_add_test(t, only_a_host_with_as_many_workers_fits);
	tcase_add_test(t, a_given_node_rank_is_part_of_the_seat);
	tcase_add_test(t, with_segments_only_a_host_of_the_same_part_fits);
	tcase_add_test(t, a_host_that_is_kept_out_takes_a_seat_only_below_min);
	tcase_add_test(t, a_host_that_is_not_prepared_in_time_makes_room_for_the_next);
	tcase_add_test(t, a_failure_meanwhile_begins_a_round_with_all);
	tcase_add_test(t, an_end_meanwhile_tells_the_host_that_prepares);
	tcase_add_test(t, a_rank_belongs_to_the_host_that_took_its_seat);
	tcase_add_test(t, a_host_that_waits_loses_its_claim_when_its_seat_is_taken);
	tcase_add_test(t, a_round_without_hosts_is_over);
	tcase_add_test(t, a_seat_is_late_after_join_timeout_and_stays_free);
	tcase_add_test(t, a_host_that_does_not_fit_gets_in_as_others_once_the_seat_is_late);
	tcase_add_test(t, fewer_than_min_for_join_timeout_is_the_end);
	tcase_add_test(t, min_hosts_again_end_the_wait);
	tcase_add_test(t, held_seats_are_not_taken);
	tcase_add_test(t, a_store_knows_of_a_host_before_it_starts);
	tcase_add_test(t, a_record_is_not_about_the_host_that_prepares_next);
	suite_add_tcase(s, t);
	return suite_run(s);
}
