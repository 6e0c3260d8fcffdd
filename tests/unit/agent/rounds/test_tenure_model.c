/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any host may lead: all orders of what can happen to hosts that run or form their first round, in
 * fifths of a lease, long random lives, and what takes too long to come by either. From each state
 * that is reached: when all faults have healed, MIN hosts run their workers within four leases and
 * a turn, where the lease of the lead is no longer than theirs. One is for that, one for those of
 * its members, and one for last_call; a fifth each for looking, joining, preparing, recording, and
 * starting.
 */

#include "tests/unit/child.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"
#include "tests/unit/tenure_alike.h"
#include "tests/unit/tenure_happenings.h"

enum { HEALED_STEPS = 22 };

static unsigned long steps, recoveries, longest;

/* --- copies of the world --- */

struct snapshot {
	struct world w;
	struct store store;
	size_t trail;
};

static void copy_heads(struct world *of)
{
	for (int i = 0; i < HOSTS; i++)
		if (of->h[i].h.round)
			of->h[i].h.round = copied_head(of->h[i].h.round);
}

/* The leases of heads point into the world itself, which stays where it is. */
static void save(struct snapshot *s)
{
	s->w = w;
	copy_heads(&s->w);
	s->store = store;
	s->trail = strlen(trail);
}

static void restore(const struct snapshot *s)
{
	world_end();
	w = s->w;
	copy_heads(&w);
	store = s->store;
	trail[s->trail] = '\0';
}

static void forget(struct snapshot *s)
{
	for (int i = 0; i < HOSTS; i++)
		round_free(s->w.h[i].h.round);
}

/* --- walks --- */

static void note(enum what_happens what, int i)
{
	static const char *const names[N_HAPPENINGS] = { "-", "start", "crash", "stop", "continue",
		"cut", "cut-up", "cut-down", "cut-next", "cut-halves", "heal", "cut-ask",
		"cut-answer", "heal-store", "late", "store-goes", "store-returns", "failure",
		"removed" };

	if (what)
		trail_add(" %s%d", names[what], i);
	else
		trail_add(" -");
}

/* The world is another one afterwards. */
static void all_heals(void)
{
	static const enum what_happens repairs[] = { CONTINUE_AGENT, START_AGENT, HEAL_HOST,
		HEAL_STORE };
	unsigned long limit = HEALED_STEPS;

	if (w.ttl_ms > LEASE)
		limit += (w.ttl_ms - LEASE) / STEP;
	note(HEAL_HOST, 9);
	for (int i = 0; i < HOSTS; i++)
		for (int k = 0; k < 4; k++)
			if (can_happen(repairs[k], i))
				happen(repairs[k], i);
	if (store.gone)
		happen(STORE_RETURNS, 1);
	memset(w.held, 0, sizeof(w.held));
	w.held_ask = w.held_answer = 0;
	recoveries++;
	agents_look_at_time();
	world_settle();
	for (unsigned long i = 0; i < limit; i++) {
		if (hosts_run() >= MIN)
			return;
		world_step(STEP);
		if (i > longest)
			longest = i;
	}
	if (hosts_run() < MIN)
		wrong("no round runs long after all has healed");
}

/* Hosts 0 to 2 run, and host 3 is a spare; or hosts 0 and 1, and two are yet to come. */
static void some_run(int n)
{
	for (int i = 0; i < n; i++)
		if (can_happen(START_AGENT, i))
			happen(START_AGENT, i);
	for (int i = 0; i < 10; i++)
		world_step(STEP);
	if (n == HOSTS)
		n = MAX;
	if (hosts_run() != n)
		wrong("they do not run");
}

/* Host 0 leads n hosts without the store, while host 3 leads in the store. */
static void two_lead(int n)
{
	some_run(n);
	happen(CUT_ASK, 0);
	happen(CUT_HOST, 3);
	happen(START_AGENT, 3);
	for (int i = 0; i < 15 && !w.h[3].h.round; i++)
		world_step(STEP);
	if (!w.h[3].h.round || hosts_run() != n)
		wrong("they do not lead both");
	heal_host(3);
	happen(CUT_NEXT, 3);
}

/* Nothing happens takes three steps; all that follows from what has happened is seen before it
 * heals. */
static void walk(int depth)
{
	struct snapshot before;

	if (was_seen(hash_all(depth)))
		return;
	save(&before);
	if (!depth) {
		for (int i = 0; i < 12; i++)
			world_step(STEP);
		all_heals();
		restore(&before);
		forget(&before);
		return;
	}
	for (enum what_happens what = NOTHING; what < N_HAPPENINGS; what++)
		for (int i = 0; i < HOSTS; i++) {
			if (!can_happen(what, i))
				continue;
			note(what, i);
			happen(what, i);
			for (int k = what ? 1 : 3; k > 0; k--)
				world_step(STEP);
			steps++;
			walk(depth - 1);
			restore(&before);
		}
	forget(&before);
}

static void walks_end(const char *name)
{
	seen_end();
	world_end();
	if (getenv("ROUNDS_FIGURES"))
		fprintf(stderr,
			"%s: %lu states, %lu steps, %lu recoveries, %lu steps at most, "
			"%lu rounds, %lu seats, %lu heads, %lu rounds started without the store\n",
			name, states, steps, recoveries, longest, rounds_run, seats_taken,
			heads_led, heads_alone);
}

START_TEST(all_histories_from_the_first_head)
{
	seen_begin();
	world_new();
	happen(START_AGENT, 0);
	world_step(STEP);
	walk(walk_length(3, 2, 1));
	walks_end("from the first head");
}
END_TEST

START_TEST(all_histories_from_a_round_that_runs)
{
	seen_begin();
	world_new();
	some_run(HOSTS);
	walk(walk_length(3, 2, 1));
	walks_end("from a round that runs");
}
END_TEST

START_TEST(all_histories_where_seats_are_taken_in_the_round_that_runs)
{
	seen_begin();
	world_new();
	w.alone = true;
	some_run(HOSTS);
	walk(walk_length(3, 2, 1));
	walks_end("from a round whose seats are kept");
}
END_TEST

START_TEST(all_histories_from_two_heads)
{
	seen_begin();
	world_new();
	w.loss_ms = 6 * LEASE;
	two_lead(MAX);
	walk(walk_length(3, 2, 1));
	walks_end("from two heads");
}
END_TEST

/* Some of what is on its way arrives later than the rest. */
static void some_is_slow(uint32_t *seed, uint32_t slow)
{
	w.first = (int)(next_random(seed) % HOSTS);
	for (int i = 0; i < HOSTS; i++)
		w.held[i] = next_random(seed) % 8 < slow ? next_random(seed) & ~(1u << i) : 0;
	w.held_ask = next_random(seed) % 8 < slow ? next_random(seed) : 0;
	w.held_answer = next_random(seed) % 8 < slow ? next_random(seed) : 0;
}

/* Each life has few kinds of happenings, so that some of them come often. */
static void random_life(uint32_t *seed)
{
	static const enum what_happens repairs[] = { START_AGENT, CONTINUE_AGENT, HEAL_HOST,
		HEAL_STORE, STORE_RETURNS };
	uint32_t quiet = next_random(seed) % 12, luck = next_random(seed) % 4 + 1;
	uint32_t slow = next_random(seed) % 2 ? next_random(seed) % 5 : 0;
	uint32_t fine = next_random(seed) % 2, kinds = next_random(seed) % 6 + 2;
	enum what_happens some[7];

	world_new();
	w.on_join = next_random(seed) % 3;
	w.alone = next_random(seed) % 2;
	w.prepare_ms = fine ? TENTH : STEP;
	w.stop_ms = STEP * (1 + next_random(seed) % 2 * 9);
	w.ttl_ms = LEASE / 2 * (1 + next_random(seed) % 4);
	w.loss_ms = LEASE * (2 + next_random(seed) % 8);
	for (uint32_t i = 0; i < kinds; i++)
		some[i] = next_random(seed) % N_HAPPENINGS;
	if (next_random(seed) % 3 == 0)
		two_lead((int)(next_random(seed) % 2) + MIN);
	else if (next_random(seed) % 4)
		some_run((int)(next_random(seed) % 3) + MIN);
	for (int i = 0; i < 150; i++) {
		enum what_happens what = some[next_random(seed) % kinds];
		int host = (int)(next_random(seed) % HOSTS);

		if (next_random(seed) % 8 < luck)
			what = repairs[next_random(seed) % 5];
		some_is_slow(seed, slow);
		steps++;
		if (next_random(seed) % 12 >= quiet && can_happen(what, host)) {
			note(what, host);
			happen(what, host);
		} else {
			note(NOTHING, 0);
		}
		if (next_random(seed) % 4)
			world_step(fine ? TENTH * (1 + next_random(seed) % 2) : STEP);
		else
			world_settle();
	}
	all_heals();
	world_end();
}

START_TEST(random_lives)
{
	uint32_t seed = 20250101u;

	steps = recoveries = rounds_run = longest = 0;
	for (int i = getenv("ELASTIC_ALL") ? 40000 : walk_length(10000, 4000, 20); i > 0; i--)
		random_life(&seed);
	if (getenv("ROUNDS_FIGURES"))
		fprintf(stderr,
			"random: %lu steps, %lu recoveries, %lu steps at most, %lu rounds, "
			"%lu seats, %lu heads, %lu rounds started without the store\n",
			steps, recoveries, longest, rounds_run, seats_taken, heads_led,
			heads_alone);
	ck_assert_uint_gt(seats_taken, 0);
}
END_TEST

/* --- what takes too long to come by chance --- */

static void tells(enum what_happens what, int i)
{
	note(what, i);
	if (!can_happen(what, i))
		wrong("that cannot happen");
	happen(what, i);
}

static void tenths(int n)
{
	for (; n > 0; n--)
		world_step(TENTH);
}

/* The answer that lets host 2 in is lost on its way, and it leads itself at once. */
START_TEST(a_host_that_is_let_in_has_acknowledged_nothing)
{
	world_new();
	w.on_join = ROUND_JOIN_WAITS;
	w.stop_ms = 2 * LEASE;
	w.loss_ms = 8 * LEASE;
	happen(START_AGENT, 1);
	world_step(STEP);
	some_run(HOSTS);
	ck_assert_ptr_nonnull(w.h[1].h.round);
	tells(CUT_HOST, 2);
	tenths(3);
	tells(CUT_ASK, 1);
	tenths(6);
	ck_assert_int_eq(w.h[2].state, MEMBER_AWAY);
	tells(HEAL_HOST, 2);
	w.held[1] = 1u << 2;
	world_settle();
	ck_assert_int_eq(w.h[2].state, MEMBER_JOINING);
	ck_assert_int_eq(w.h[1].h.of[2].session, w.h[2].session);
	tells(CUT_HOST, 2);
	w.held[1] = 0;
	tenths(4);
	tells(HEAL_HOST, 2);
	tenths(20);
	all_heals();
	world_end();
}
END_TEST

/* A record of hosts 0 to 2 was given up, and happens when 0, 1 and 3 run. */
START_TEST(a_record_that_comes_late_changes_nothing)
{
	world_new();
	w.loss_ms = 8 * LEASE;
	some_run(MAX);
	tells(FAILURE, 0);
	tells(CUT_ASK, 0);
	tenths(7);
	ck_assert_int_eq(w.h[0].late.kind, REQUEST_RECORD);
	tells(HEAL_STORE, 0);
	tells(CRASH_AGENT, 2);
	tells(START_AGENT, 3);
	tenths(25);
	ck_assert_int_eq(store.state.hosts, 1 | 2 | 8);
	ck_assert_int_eq(hosts_run(), MAX);
	tells(COMES_LATE, 0);
	tells(START_AGENT, 2);
	tenths(2);
	tells(CUT_ASK, 0);
	tenths(12);
	ck_assert_int_eq(hosts_run(), MAX);
	tells(CUT_ASK, 3);
	tells(CUT_HALVES, 3);
	tenths(30);
	all_heals();
	world_end();
}
END_TEST

static void cut_pair(int i, int j)
{
	w.cut[i] |= 1u << j;
	w.cut[j] |= 1u << i;
}

static void story_ends(void)
{
	tenths(25);
	all_heals();
	world_end();
}

/* Host 1 leaves the head, which has answered host 2 last just before it leads no more; and then
 * only the guards of both can kill. */
START_TEST(hosts_that_stay_with_the_old_head_live_as_long_as_they_may)
{
	world_new();
	w.loss_ms = 8 * LEASE;
	two_lead(MAX);
	tells(STOP_AGENT, 2);
	tenths(3);
	tells(CONTINUE_AGENT, 2); /* its beats come between those of the others */
	world_settle();
	tenths(2);
	w.held[0] = 1u << 1;
	tenths(1);
	cut_pair(0, 1);
	tenths(1);
	ck_assert_int_eq(w.h[1].head, 3);
	ck_assert_uint_eq(w.h[3].h.past.heard_ms, w.now - 3 * TENTH);
	tenths(2);
	tells(STOP_AGENT, 0);
	tells(STOP_AGENT, 2);
	ck_assert(w.h[0].worker && w.h[2].worker);
	story_ends();
}
END_TEST

/* Host 1 takes over at once, which has heard nothing for long; host 2 has just been answered. */
START_TEST(a_member_lives_a_lease_after_its_head)
{
	world_new();
	some_run(MAX);
	w.cut[0] |= 1u << 1;
	tenths(8);
	tells(CRASH_AGENT, 0);
	tells(STOP_AGENT, 2);
	ck_assert_uint_eq(w.h[2].lease.deadline_ms, w.now + 9 * TENTH);
	w.cut[0] = 0;
	world_settle();
	ck_assert_ptr_nonnull(w.h[1].h.round);
	ck_assert_uint_eq(w.h[1].h.past.heard_ms, w.now - 8 * TENTH);
	tells(START_AGENT, 3);
	story_ends();
}
END_TEST

/* Host 2 is in the round, and leaves before it has acknowledged anything; it leads next. */
START_TEST(a_host_that_never_acknowledged_ends_the_lead)
{
	world_new();
	w.loss_ms = 8 * LEASE;
	w.prepare_ms = TENTH;
	happen(START_AGENT, 0);
	happen(START_AGENT, 1);
	tenths(4);
	tells(START_AGENT, 2);
	world_settle();
	tenths(1);
	ck_assert_int_eq(store.state.hosts, 7);
	ck_assert(w.h[2].worker);
	tells(CUT_ASK, 0);
	tells(CUT_ASK, 1);
	cut_pair(2, 0);
	cut_pair(2, 1);
	cut_pair(3, 0);
	cut_pair(3, 1);
	tells(START_AGENT, 3);
	story_ends();
}
END_TEST

/* Hosts 0 and 1 run and are about to run with host 2, when the store goes. */
static void store_goes_before_record(bool happens)
{
	world_new();
	w.loss_ms = 8 * LEASE;
	w.prepare_ms = TENTH;
	some_run(MIN);
	tells(CUT_ASK, 1);
	tells(CUT_ASK, 2);
	tells(START_AGENT, 2);
	w.h[2].cut_ask = false;
	world_settle();
	for (int i = 0; w.h[0].ask.kind != REQUEST_RECORD; i++) {
		ck_assert_int_lt(i, 10);
		if (!happens && w.h[0].h.round->state == ROUND_PREPARING)
			w.h[0].cut_ask = true;
		w.held_answer = 1;
		tenths(1);
	}
	tells(CUT_ANSWER, 0);
	w.held_answer = 0;
	w.h[0].cut_ask = true;
	ck_assert_int_eq(store.state.hosts, happens ? 7 : 3);
}

/* All of the round are cut off with their head, and go on until the next head may begin. */
START_TEST(hosts_that_are_cut_off_with_their_head_live_as_long_as_they_may)
{
	world_new();
	some_run(MIN);
	tells(CUT_ASK, 0);
	tells(CUT_HOST, 3);
	tells(START_AGENT, 3);
	world_settle();
	tenths(13);
	ck_assert_ptr_nonnull(w.h[3].h.round);
	tenths(25);
	tells(STOP_AGENT, 0);
	tells(STOP_AGENT, 1);
	ck_assert_int_eq(hosts_run(), MIN);
	story_ends();
}
END_TEST

/* A round that had to be recorded could not start. */
START_TEST(without_the_store_no_new_host_ends_the_round)
{
	world_new();
	w.loss_ms = 8 * LEASE;
	some_run(MIN);
	cut_pair(0, 2);
	tells(START_AGENT, 2);
	world_settle();
	ck_assert_int_eq(w.h[2].lead, LEAD_FOLLOWING);
	tells(STORE_GOES, 0);
	tenths(12);
	tells(HEAL_HOST, 2);
	tenths(8);
	ck_assert_int_eq(w.h[2].state, MEMBER_JOINING);
	ck_assert_int_eq(hosts_run(), MIN);
	story_ends();
}
END_TEST

/* The record has happened, but hosts 0 and 1 go on alone: host 2 leads next. */
START_TEST(a_record_without_an_answer_counts)
{
	store_goes_before_record(true);
	cut_pair(2, 0);
	cut_pair(2, 1);
	cut_pair(3, 0);
	cut_pair(3, 1);
	tells(START_AGENT, 3);
	story_ends();
}
END_TEST

/* The record has not happened: host 2 does not start, since host 1 may leave, and waits for host 0
 * only. */
START_TEST(hosts_without_a_record_are_not_started)
{
	store_goes_before_record(false);
	tells(CUT_ASK, 2);
	cut_pair(3, 0);
	cut_pair(3, 2);
	tells(START_AGENT, 3);
	tenths(14);
	ck_assert_int_eq(w.h[2].worker, 0);
	cut_pair(1, 0);
	cut_pair(1, 2);
	tells(HEAL_STORE, 1);
	story_ends();
}
END_TEST

/* The store may know of a round without host 2 by now, although that host was in the one before. */
START_TEST(hosts_that_a_record_leaves_out_are_not_started)
{
	world_new();
	w.loss_ms = 8 * LEASE;
	some_run(MAX);
	tells(FAILURE, 0);
	tenths(2);
	w.held[2] = 1;
	tenths(6);
	ck_assert_int_eq(w.h[0].ask.kind, REQUEST_NONE);
	w.held_answer = 1;
	for (int i = 0; w.h[0].ask.kind != REQUEST_RECORD; i++) {
		ck_assert_int_lt(i, 10);
		tenths(1);
	}
	ck_assert_int_eq(store.state.hosts, 3);
	tells(CUT_ASK, 0);
	w.held[2] = 0;
	tenths(1);
	tells(FAILURE, 0);
	for (int i = 0; round_state(w.h[0].h.round) != ROUND_RECORDING; i++) {
		ck_assert_int_lt(i, 10);
		tenths(1);
	}
	ck_assert_int_eq(w.h[0].h.record.hosts, 7);
	tenths(1);
	ck_assert_int_eq(w.h[2].worker, 0);
	w.held_answer = 0;
	story_ends();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tenure_model");
	TCase *t = tcase_create("tenure");

	tcase_add_test(t, a_host_that_is_let_in_has_acknowledged_nothing);
	tcase_add_test(t, a_record_that_comes_late_changes_nothing);
	tcase_add_test(t, all_histories_from_the_first_head);
	tcase_add_test(t, all_histories_from_a_round_that_runs);
	tcase_add_test(t, all_histories_where_seats_are_taken_in_the_round_that_runs);
	tcase_add_test(t, all_histories_from_two_heads);
	tcase_add_test(t, hosts_that_stay_with_the_old_head_live_as_long_as_they_may);
	tcase_add_test(t, a_member_lives_a_lease_after_its_head);
	tcase_add_test(t, a_host_that_never_acknowledged_ends_the_lead);
	tcase_add_test(t, hosts_that_are_cut_off_with_their_head_live_as_long_as_they_may);
	tcase_add_test(t, without_the_store_no_new_host_ends_the_round);
	tcase_add_test(t, a_record_without_an_answer_counts);
	tcase_add_test(t, hosts_without_a_record_are_not_started);
	tcase_add_test(t, hosts_that_a_record_leaves_out_are_not_started);
	tcase_add_test(t, random_lives);
	suite_add_tcase(s, t);
	return suite_run(s);
}
