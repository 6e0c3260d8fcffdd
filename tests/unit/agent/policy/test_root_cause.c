/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/root_cause.h"
#include "tests/unit/child.h"
#include "tests/unit/quiet.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Times are in microseconds. A worker of these tests begins at START; its end is seen at END. */
enum { S = 1000000, START = 100 * S + 700000, END = 105 * S };

/* A worker that ended by itself and wrote nothing. */
static struct root_cause ended(int64_t at)
{
	return (struct root_cause){ .start_us = START,
		.observed_us = at,
		.claimed_us = -1,
		.written_us = -1,
		.stop_us = -1 };
}

static struct root_cause claimed(int64_t at, int64_t claim)
{
	struct root_cause r = ended(at);

	r.claimed_us = claim;
	return r;
}

static struct root_cause claimed_whole(int64_t at, int64_t claim, int64_t written)
{
	struct root_cause r = claimed(at, claim);

	r.claimed_whole = true;
	r.written_us = written;
	return r;
}

static struct root_cause stopped(struct root_cause r, int64_t at)
{
	r.stop_us = at;
	return r;
}

static bool is_collateral(const struct root_cause *r)
{
	return root_cause_place(r).group == ROOT_CAUSE_COLLATERAL;
}

/* The index of the root cause among n failures, or -1 when all are collateral. */
static int first_of(const struct root_cause *r, size_t n)
{
	struct root_cause_place best = { .group = ROOT_CAUSE_COLLATERAL, .time_us = INT64_MIN };
	int index = -1;

	for (size_t i = 0; i < n; i++) {
		struct root_cause_place p = root_cause_place(&r[i]);

		if (root_cause_compare(&p, &best) >= 0)
			continue;
		best = p;
		index = (int)i;
	}
	return index;
}

static void assert_time(struct root_cause r, int64_t expected, bool plausible)
{
	bool was = !plausible;

	ck_assert_int_eq(root_cause_time(&r, &was), expected);
	ck_assert_int_eq(was, plausible);
	ck_assert_int_eq(root_cause_time(&r, NULL), expected);
}

START_TEST(without_a_timestamp_the_observed_end_counts)
{
	assert_time(ended(END), END, false);
}
END_TEST

START_TEST(a_timestamp_counts_between_start_and_observed_end_inclusive)
{
	assert_time(claimed(END, START), START, true);
	assert_time(claimed(END, START + 1), START + 1, true);
	assert_time(claimed(END, END), END, true);
}
END_TEST

START_TEST(a_timestamp_outside_of_the_worker_s_life_does_not_count)
{
	assert_time(claimed(END, START - 1), END, false);
	assert_time(claimed(END, END + 1), END, false);
	assert_time(claimed(END, 0), END, false);
	assert_time(claimed(END, INT64_MAX), END, false);
	assert_time(claimed(END, -1), END, false);
	assert_time(claimed(END, INT64_MIN), END, false);
}
END_TEST

START_TEST(whole_seconds_take_their_fraction_from_the_file_s_time)
{
	assert_time(claimed_whole(END, 102 * S, 102 * S + 345678), 102 * S + 345678, true);
	/* The file was written one second after the worker took the time. */
	assert_time(claimed_whole(END, 102 * S, 103 * S + 5), 103 * S + 5, true);
	assert_time(claimed_whole(END, 102 * S, 102 * S), 102 * S, true);
}
END_TEST

START_TEST(a_file_s_time_that_has_nothing_to_do_with_the_stamp_is_not_used)
{
	assert_time(claimed_whole(END, 102 * S, 104 * S), 102 * S, true);
	assert_time(claimed_whole(END, 102 * S, 102 * S - 1), 102 * S, true);
	assert_time(claimed_whole(END, 102 * S, -1), 102 * S, true);
	/* The file was touched after the worker's end. */
	assert_time(claimed_whole(END, 104 * S, END + 1), 104 * S, true);
	/* The file was written before the worker began. */
	assert_time(claimed_whole(END, 100 * S, START - 1), START, true);
}
END_TEST

START_TEST(whole_seconds_of_a_worker_that_failed_in_its_first_second_are_plausible)
{
	assert_time(claimed_whole(START + 1000, 100 * S, START + 500), START + 500, true);
	assert_time(claimed_whole(START + 1000, 100 * S, -1), START, true);
	assert_time(claimed_whole(END, 99 * S, -1), END, false);
	/* A timestamp with a fraction is taken literally. */
	assert_time(claimed(END, 100 * S), END, false);
}
END_TEST

START_TEST(a_fraction_is_never_replaced_by_the_file_s_time)
{
	struct root_cause r = claimed(END, 102 * S + 1);

	r.written_us = 102 * S + 500000;
	assert_time(r, 102 * S + 1, true);
}
END_TEST

START_TEST(a_worker_that_was_not_stopped_is_not_collateral)
{
	struct root_cause r = ended(END);

	ck_assert(!is_collateral(&r));
	r = claimed(END, 7);
	ck_assert(!is_collateral(&r));
}
END_TEST

START_TEST(a_worker_that_ended_after_its_stop_is_collateral)
{
	struct root_cause silent = stopped(ended(END), 104 * S);
	struct root_cause wrote_later = stopped(claimed(END, 104 * S), 104 * S);
	struct root_cause implausible = stopped(claimed(END, START - 1), 104 * S);

	ck_assert(is_collateral(&silent));
	ck_assert(is_collateral(&wrote_later));
	ck_assert(is_collateral(&implausible));
}
END_TEST

START_TEST(a_worker_that_had_failed_by_itself_before_it_was_stopped_is_the_cause)
{
	/* The worker raised at 102, wrote its file, and hung in its exit handlers until it was
	 * stopped. */
	struct root_cause r[] = { ended(103 * S), stopped(claimed(END, 102 * S), 104 * S) };

	ck_assert(!is_collateral(&r[1]));
	ck_assert_int_eq(first_of(r, 2), 1);
}
END_TEST

START_TEST(a_file_that_the_stop_signal_made_it_write_leaves_it_collateral)
{
	/* The worker was stopped at 103.5; in whole seconds its failure looks earlier. */
	struct root_cause r[] = { ended(103 * S + 400000),
		stopped(claimed_whole(END, 103 * S, 103 * S + 600000), 103 * S + 500000) };

	ck_assert(is_collateral(&r[1]));
	ck_assert_int_eq(first_of(r, 2), 0);
}
END_TEST

START_TEST(the_earliest_failure_is_the_cause_at_sub_second_resolution)
{
	struct root_cause r[] = { ended(103 * S), claimed(END, 102 * S + 2),
		claimed(END, 102 * S + 1), claimed_whole(END, 102 * S, 102 * S + 3) };

	ck_assert_int_eq(first_of(r, 4), 2);
}
END_TEST

START_TEST(an_old_timestamp_does_not_win_over_a_real_failure)
{
	struct root_cause r[] = { claimed(END, 5), ended(103 * S) };

	ck_assert_int_eq(first_of(r, 2), 1);
}
END_TEST

START_TEST(collateral_is_never_the_cause)
{
	struct root_cause r[] = { stopped(ended(101 * S), START), stopped(ended(102 * S), START),
		ended(END) };

	ck_assert_int_eq(first_of(r, 3), 2);
	ck_assert_int_eq(first_of(r, 2), -1);
	ck_assert_int_eq(first_of(r, 0), -1);
}
END_TEST

START_TEST(a_tie_goes_to_a_death_by_signal_and_then_to_the_lower_index)
{
	struct root_cause r[] = { ended(END), ended(END), ended(END) };

	ck_assert_int_eq(first_of(r, 3), 0);
	r[1].by_signal = r[2].by_signal = true;
	ck_assert_int_eq(first_of(r, 3), 1);
	r[0].observed_us--;
	ck_assert_int_eq(first_of(r, 3), 0);
}
END_TEST

START_TEST(a_kill_for_want_of_memory_is_the_cause_of_what_was_seen_just_before)
{
	struct root_cause r[] = { claimed(END, END - 2 * S), ended(END) };

	ck_assert_int_eq(first_of(r, 2), 0);
	r[1].by_signal = r[1].out_of_memory = true;
	ck_assert_int_eq(first_of(r, 2), 1);
	ck_assert_int_eq(root_cause_place(&r[1]).time_us, END);
	r[0].claimed_us = r[0].start_us = END - ROOT_CAUSE_OOM_US - 1;
	ck_assert_int_eq(first_of(r, 2), 0);
	r[1].stop_us = START;
	r[0].claimed_us = END;
	ck_assert_int_eq(first_of(r, 2), 0);
}
END_TEST

/* A random failure, on a coarse grid of times so that ties and limits are frequent. */
static struct root_cause any(uint32_t *seed)
{
	int64_t half = S / 2;
	struct root_cause r = { .start_us = START,
		.observed_us = START + next_random(seed) % 9 * half };

	r.claimed_us = (int64_t)(next_random(seed) % 16) * half + 99 * S;
	r.claimed_whole = r.claimed_us % S == 0 && next_random(seed) & 1;
	if (next_random(seed) % 3 == 0)
		r.claimed_us = -1;
	r.written_us = r.claimed_us < 0 ? -1 : r.claimed_us + next_random(seed) % 5 * half;
	r.stop_us = next_random(seed) & 1 ? START + next_random(seed) % 9 * half : -1;
	r.by_signal = r.stop_us < 0 && next_random(seed) & 1;
	return r;
}

static void check_pick(const struct root_cause *r, size_t n)
{
	int pick = first_of(r, n);

	for (size_t i = 0; i < n; i++) {
		int64_t mine = root_cause_time(&r[i], NULL);

		if (is_collateral(&r[i])) {
			ck_assert_int_ne(pick, (int)i);
			continue;
		}
		ck_assert_int_ge(pick, 0);
		ck_assert_int_le(root_cause_time(&r[pick], NULL), mine);
		if (mine == root_cause_time(&r[pick], NULL) && r[i].by_signal)
			ck_assert(r[pick].by_signal);
		ck_assert(mine >= r[i].start_us && mine <= r[i].observed_us);
	}
}

START_TEST(the_order_of_the_failures_does_not_change_the_cause)
{
	uint32_t seed = 362436069u;

	for (int round = 0; round < (under_valgrind() ? 1000 : 20000); round++) {
		size_t n = next_random(&seed) % 6 + 1;
		struct root_cause r[6], shuffled[6];
		int pick, again;

		for (size_t i = 0; i < n; i++)
			r[i] = any(&seed);
		memcpy(shuffled, r, sizeof(r));
		for (size_t i = n; i > 1; i--) {
			size_t k = next_random(&seed) % i;
			struct root_cause swap = shuffled[k];

			shuffled[k] = shuffled[i - 1];
			shuffled[i - 1] = swap;
		}
		check_pick(r, n);
		pick = first_of(r, n);
		again = first_of(shuffled, n);
		ck_assert_int_eq(pick < 0, again < 0);
		if (pick < 0)
			continue;
		ck_assert_int_eq(
			root_cause_time(&r[pick], NULL), root_cause_time(&shuffled[again], NULL));
		ck_assert_int_eq(r[pick].by_signal, shuffled[again].by_signal);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("root_cause");
	TCase *t = tcase_create("root_cause");

	tcase_add_test(t, without_a_timestamp_the_observed_end_counts);
	tcase_add_test(t, a_timestamp_counts_between_start_and_observed_end_inclusive);
	tcase_add_test(t, a_timestamp_outside_of_the_worker_s_life_does_not_count);
	tcase_add_test(t, whole_seconds_take_their_fraction_from_the_file_s_time);
	tcase_add_test(t, a_file_s_time_that_has_nothing_to_do_with_the_stamp_is_not_used);
	tcase_add_test(t, whole_seconds_of_a_worker_that_failed_in_its_first_second_are_plausible);
	tcase_add_test(t, a_fraction_is_never_replaced_by_the_file_s_time);
	tcase_add_test(t, a_worker_that_was_not_stopped_is_not_collateral);
	tcase_add_test(t, a_worker_that_ended_after_its_stop_is_collateral);
	tcase_add_test(t, a_worker_that_had_failed_by_itself_before_it_was_stopped_is_the_cause);
	tcase_add_test(t, a_file_that_the_stop_signal_made_it_write_leaves_it_collateral);
	tcase_add_test(t, the_earliest_failure_is_the_cause_at_sub_second_resolution);
	tcase_add_test(t, an_old_timestamp_does_not_win_over_a_real_failure);
	tcase_add_test(t, collateral_is_never_the_cause);
	tcase_add_test(t, a_tie_goes_to_a_death_by_signal_and_then_to_the_lower_index);
	tcase_add_test(t, a_kill_for_want_of_memory_is_the_cause_of_what_was_seen_just_before);
	tcase_add_test(t, the_order_of_the_failures_does_not_change_the_cause);
	suite_add_tcase(s, t);
	return suite_run(s);
}
