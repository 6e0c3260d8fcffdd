/* SPDX-License-Identifier: Apache-2.0 */
/* The head without memory: a JOIN fails as a whole, and all else needs none. */
#include "agent/rounds/round.h"

#include "tests/unit/nomem.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 40 };

static const bool everywhere = false;
static const int one = 1;

static struct round_config config = { .min = N,
	.max = N,
	.last_call_ms = 1,
	.prepare_timeout_ms = 1000,
	.join_timeout_ms = 1000,
	.roles = { 1, &everywhere },
	.digest = "d" };

static struct round_join join_of(int i)
{
	static char names[N][16];

	snprintf(names[i], sizeof(names[i]), "n%d", i);
	return (struct round_join){ .run = names[i],
		.agent = "1",
		.boot = "b",
		.name = names[i],
		.digest = "d",
		.node_rank = i,
		.replicas = &one };
}

START_TEST(a_head_is_made_whole_or_not_at_all)
{
	struct round *r = NULL;
	int failed = 0;

	for (long at = 1; !r; at++) {
		allocations = 0;
		fail_at = at;
		r = round_new(&config, 0);
		fail_at = 0;
		failed += !r;
	}
	round_free(r);
	if (allocations) /* else an allocator that does not fail */
		ck_assert_int_gt(failed, 5);
}
END_TEST

/* A JOIN that fails at each of its allocations in turn, and then succeeds. */
static void joins(struct round *r, int i)
{
	struct round_join j = join_of(i);
	int ret = -ENOMEM, n;

	for (long at = 1; ret; at++) {
		allocations = 0;
		fail_at = at;
		ret = round_join(r, &j, 0);
		fail_at = 0;
		round_orders(r, &n);
		if (ret && (ret != -ENOMEM || n || round_count(r, HOST_WAITING) != i))
			ck_abort_msg("a JOIN that fails changes something");
	}
}

static void all_say(struct round *r, enum host_event e)
{
	uint64_t round = round_number(r);

	allocations = 0;
	fail_at = 1;
	which = ALL;
	for (int i = 0; i < N; i++)
		if (round_hear(r, i, e, round, 0) < 0)
			ck_abort_msg("%s fails", host_event_name(e));
	fail_at = 0;
	which = ALONE;
	ck_assert_int_eq(allocations, 0);
}

START_TEST(only_a_join_needs_memory)
{
	struct round *r = round_new(&config, 0);

	ck_assert_ptr_nonnull(r);
	for (int i = 0; i < N; i++)
		joins(r, i);
	ck_assert_int_eq(round_state(r), ROUND_PREPARING);
	all_say(r, HOST_EV_PREPARED);
	all_say(r, HOST_EV_STARTED);
	round_restart(r, 0, 0);
	all_say(r, HOST_EV_STOPPED);
	ck_assert_uint_eq(round_number(r), 2);
	all_say(r, HOST_EV_BYE);
	round_free(r);
}
END_TEST

/* ... and a seat, without which the others do not go on. */
START_TEST(a_seat_that_cannot_be_kept_ends_the_round)
{
	static const bool alone = true;
	struct round_config c = config;
	int n;

	c.alone = &alone;
	for (long at = 1; at <= 3; at++) {
		struct round *r = round_new(&c, 0);

		ck_assert_ptr_nonnull(r);
		for (int i = 0; i < N; i++)
			joins(r, i);
		all_say(r, HOST_EV_PREPARED);
		all_say(r, HOST_EV_STARTED);
		allocations = 0;
		fail_at = at;
		ck_assert_int_eq(round_hear(r, 0, HOST_EV_LOST, 0, 0), 0);
		fail_at = 0;
		round_orders(r, &n);
		ck_assert_int_gt(n, 1);
		if (allocations) /* else an allocator that does not fail */
			ck_assert_int_eq(round_state(r), ROUND_STOPPING);
		round_free(r);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("round_nomem");
	TCase *t = tcase_create("round");

	tcase_add_test(t, a_head_is_made_whole_or_not_at_all);
	tcase_add_test(t, only_a_join_needs_memory);
	tcase_add_test(t, a_seat_that_cannot_be_kept_ends_the_round);
	suite_add_tcase(s, t);
	return suite_run(s);
}
