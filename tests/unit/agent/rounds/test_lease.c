/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/lease.h"

#include "tests/unit/child.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE = 10000, FIFTH = LEASE / 5, DEADLINE = LEASE - LEASE / 10 };

START_TEST(workers_may_live_for_nine_tenths_after_the_answered_beat_was_sent)
{
	struct lease_member m;

	lease_begin(&m, LEASE, 100);
	ck_assert(!lease_holds(&m, 100));
	ck_assert_uint_eq(m.deadline_ms, UINT64_MAX);
	ck_assert(lease_answer(&m, 100, 300));
	ck_assert_uint_eq(m.deadline_ms, 100 + DEADLINE);
	ck_assert(lease_holds(&m, 100 + DEADLINE - 1));
	ck_assert(!lease_holds(&m, 100 + DEADLINE));
}
END_TEST

START_TEST(a_late_answer_does_not_revive_a_lease)
{
	struct lease_member m;

	lease_begin(&m, LEASE, 0);
	ck_assert(lease_answer(&m, 0, 1));
	ck_assert(!lease_answer(&m, FIFTH, DEADLINE));
	ck_assert(m.over);
	ck_assert(!lease_answer(&m, FIFTH, FIFTH + 1));
	ck_assert_uint_eq(m.deadline_ms, DEADLINE);
	lease_begin(&m, LEASE, DEADLINE);
	ck_assert(lease_answer(&m, DEADLINE, DEADLINE + 1));
}
END_TEST

START_TEST(the_answer_to_a_join_comes_too_late_for_a_lease)
{
	struct lease_member m;

	lease_begin(&m, LEASE, 0);
	ck_assert(!lease_answer(&m, 0, DEADLINE));
	ck_assert(m.over);
}
END_TEST

START_TEST(answers_to_earlier_beats_change_nothing)
{
	struct lease_member m;

	lease_begin(&m, LEASE, 100);
	ck_assert(!lease_answer(&m, 99, 100)); /* of the lease before */
	ck_assert(lease_answer(&m, 100 + 2 * FIFTH, 3 * FIFTH));
	ck_assert(lease_answer(&m, 100 + FIFTH, 3 * FIFTH));
	ck_assert_uint_eq(m.deadline_ms, 100 + 2 * FIFTH + DEADLINE);
}
END_TEST

START_TEST(the_head_finds_the_members_whose_lease_is_over_in_their_order)
{
	struct lease_head h = { .lease_ms = LEASE };
	struct lease_held x[4];

	ck_assert_uint_eq(lease_due_ms(&h), UINT64_MAX);
	ck_assert_ptr_null(lease_over(&h, UINT64_MAX - 1));
	for (int i = 0; i < 4; i++)
		lease_add(&h, &x[i], (uint64_t)i);
	lease_came(&h, &x[1], 10);
	lease_came(&h, &x[0], 11);
	lease_came(&h, &x[0], 12);
	ck_assert_uint_eq(lease_due_ms(&h), 2 + LEASE);
	ck_assert_ptr_null(lease_over(&h, 1 + LEASE));
	ck_assert_ptr_eq(lease_over(&h, 2 + LEASE), &x[2]);
	lease_remove(&h, &x[3]);
	lease_remove(&h, &x[2]);
	ck_assert_ptr_eq(lease_over(&h, 12 + LEASE), &x[1]);
	lease_remove(&h, &x[1]);
	ck_assert_ptr_eq(lease_over(&h, 12 + LEASE), &x[0]);
	lease_remove(&h, &x[0]);
	ck_assert_uint_eq(lease_due_ms(&h), UINT64_MAX);
	ck_assert_ptr_null(h.newest);
}
END_TEST

/*
 * One member and the head, in fifths of a lease of ten milliseconds: in each fifth each of both may
 * be at work or stopped, and of what is on its way any number of messages arrives, in order.
 */
enum { SHORT = LEASE_MIN_MS, STEP = SHORT / 5, DEPTH = 10, SEEN = 1 << 22, QUEUE = DEPTH + 2 };

static struct pair {
	struct lease_member m;
	struct lease_head h;
	struct lease_held held;
	uint64_t now, answers[QUEUE], beats[QUEUE]; /* on their way; when the beats were sent */
	uint64_t beat_ms;			    /* of the last beat, or of the JOIN */
	int n_answers, n_beats;
} w;
static uint64_t *seen;
static unsigned long states, lost;

static void mix(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	*h ^= *h >> 29;
}

static bool was_answered(const struct lease_member *m)
{
	return m->deadline_ms != UINT64_MAX;
}

static bool was_seen(int depth)
{
	uint64_t h = (uint64_t)depth;
	size_t i;

	mix(&h, w.m.over | (uint64_t)was_answered(&w.m) << 1);
	mix(&h, w.m.deadline_ms - w.now);
	mix(&h, w.now - w.held.came_ms);
	mix(&h, w.now - w.beat_ms);
	mix(&h, (uint64_t)w.n_beats);
	for (int k = 0; k < w.n_beats; k++)
		mix(&h, w.now - w.beats[k]);
	mix(&h, (uint64_t)w.n_answers);
	for (int k = 0; k < w.n_answers; k++)
		mix(&h, w.now - w.answers[k]);
	h |= 1;
	for (i = h % SEEN; seen[i] && seen[i] != h;)
		i = (i + 1) % SEEN;
	if (seen[i])
		return true;
	seen[i] = h;
	if (++states > SEEN / 4 * 3)
		ck_abort_msg("too many states");
	return false;
}

static void member_works(void)
{
	lease_holds(&w.m, w.now);
	if (!w.m.over && w.now >= w.beat_ms + STEP)
		w.beats[w.n_beats++] = w.beat_ms = w.now;
}

static void take(uint64_t *queue, int *n, int k)
{
	*n -= k;
	memmove(queue, queue + k, (size_t)*n * sizeof(*queue));
}

static void walk(int depth);

/* The head looks at its leases, then takes those beats; or it is stopped. */
static void head_then(int depth, int beats, bool looks)
{
	struct pair before = w;

	if (looks && lease_over(&w.h, w.now)) {
		lost++;
		if (was_answered(&w.m) && !w.m.over && w.now < w.m.deadline_ms + SHORT / 10)
			ck_abort_msg("declared lost at %d, its workers may live until %d",
				(int)w.now, (int)w.m.deadline_ms);
		return;
	}
	for (int i = 0; i < beats; i++) {
		lease_came(&w.h, &w.held, w.now);
		w.answers[w.n_answers++] = w.beats[i];
	}
	take(w.beats, &w.n_beats, beats);
	w.now += STEP;
	walk(depth - 1);
	w = before;
}

static void walk(int depth)
{
	struct pair before = w;

	if (!depth || was_seen(depth))
		return;
	for (int stopped = 0; stopped < 2; stopped++)
		for (int answers = 0; answers <= (stopped ? 0 : before.n_answers); answers++) {
			for (int i = 0; i < answers; i++)
				lease_answer(&w.m, w.answers[i], w.now);
			take(w.answers, &w.n_answers, answers);
			if (!stopped)
				member_works();
			if (lease_over(&w.h, w.now))
				head_then(depth, 0, false);
			for (int beats = 0, all = w.n_beats; beats <= all; beats++)
				head_then(depth, beats, true);
			w = before;
		}
}

START_TEST(no_worker_may_live_when_the_head_declares_its_host_lost)
{
	seen = calloc(SEEN, sizeof(*seen));
	ck_assert_ptr_nonnull(seen);
	for (int late = 0; late < 3; late++) {
		memset(&w, 0, sizeof(w));
		w.now = 1000;
		w.h.lease_ms = SHORT;
		w.beat_ms = w.now - (uint64_t)late * STEP;
		lease_begin(&w.m, SHORT, w.beat_ms);
		lease_add(&w.h, &w.held, w.now);
		w.answers[w.n_answers++] = w.beat_ms;
		walk(walk_length(DEPTH, DEPTH, DEPTH - 4));
	}
	free(seen);
	ck_assert_uint_gt(lost, 10);
	ck_assert_uint_gt(states, 100);
}
END_TEST

enum { MOST = 32 }; /* messages on their way */

/* Much longer, with beats and messages at any time. */
START_TEST(random_delays_keep_the_order_of_deadline_and_loss)
{
	uint32_t seed = 99;
	int losses = 0;

	for (int life = 0; life < 3000; life++) {
		uint64_t on_way[MOST], back[MOST], now = 5, beat_ms = now;
		int n = 0, k = 0;
		struct lease_head h = { .lease_ms = 1000 };
		struct lease_held x;
		struct lease_member m;
		bool over = false;

		lease_begin(&m, 1000, now);
		lease_add(&h, &x, now + next_random(&seed) % 300);
		back[k++] = now;
		for (int i = 0; i < 2000 && !over; i++) {
			unsigned chance = next_random(&seed) % 64;

			now += next_random(&seed) % 20;
			if (now < x.came_ms)
				continue;
			over = lease_over(&h, now);
			lease_holds(&m, now);
			if (!m.over && now >= beat_ms + 200 && n < MOST)
				on_way[n++] = beat_ms = now;
			if (n && chance < 7) {
				lease_came(&h, &x, now);
				if (k < MOST)
					back[k++] = on_way[0];
				take(on_way, &n, 1);
			} else if (k && chance < 14) {
				lease_answer(&m, back[0], now);
				take(back, &k, 1);
			}
		}
		losses += over;
		if (over && was_answered(&m) && !m.over && now < m.deadline_ms + 100)
			ck_abort_msg("life %d: lost at %d, deadline %d", life, (int)now,
				(int)m.deadline_ms);
	}
	ck_assert_int_gt(losses, 100);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lease");
	TCase *t = tcase_create("lease");

	tcase_add_test(t, workers_may_live_for_nine_tenths_after_the_answered_beat_was_sent);
	tcase_add_test(t, a_late_answer_does_not_revive_a_lease);
	tcase_add_test(t, the_answer_to_a_join_comes_too_late_for_a_lease);
	tcase_add_test(t, answers_to_earlier_beats_change_nothing);
	tcase_add_test(t, the_head_finds_the_members_whose_lease_is_over_in_their_order);
	tcase_add_test(t, no_worker_may_live_when_the_head_declares_its_host_lost);
	tcase_add_test(t, random_delays_keep_the_order_of_deadline_and_loss);
	suite_add_tcase(s, t);
	return suite_run(s);
}
