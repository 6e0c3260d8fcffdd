/* SPDX-License-Identifier: Apache-2.0 */

/*
 * All orders of what can happen to three hosts and a spare, in fifths of a lease, and long random
 * lives. From each state that is reached: when all faults have healed, MIN hosts run their workers
 * within three leases.
 */

#include "tests/unit/child.h"
#include "tests/unit/random.h"
#include "tests/unit/round_copy.h"
#include "tests/unit/rounds_happenings.h"
#include "tests/unit/run.h"

enum { HEALED_STEPS = 15 };

static unsigned long steps, recoveries;

/* --- copies of the world --- */

/* The leases of the head point into the world itself, which stays where it is. */
struct snapshot {
	struct world w;
	size_t trail;
};

static void save(struct snapshot *s)
{
	s->w = w;
	s->w.head = w.head ? copied_head(w.head) : NULL;
	s->trail = strlen(trail);
}

static void restore(const struct snapshot *s)
{
	round_free(w.head);
	w = s->w;
	w.head = s->w.head ? copied_head(s->w.head) : NULL;
	trail[s->trail] = '\0';
}

static void forget(struct snapshot *s)
{
	round_free(s->w.head);
}

/* --- which states are alike --- */

static void mix_time(uint64_t *h, uint64_t ms)
{
	mix_ms(h, ms, w.now, 2 * LEASE);
}

static uint64_t base_round(void)
{
	return w.head ? round_number(w.head) : w.recorded_round;
}

static void mix_round(uint64_t *h, uint64_t round)
{
	mix(h, round ? base_round() - round + 10 : 1);
}

static void mix_queue(uint64_t *h, const struct queue *q, const struct whost *host)
{
	mix(h, (uint64_t)q->n << 1 | q->cut);
	for (int i = 0; i < q->n; i++) {
		const struct message *m = &q->m[i];

		mix(h, m->kind | (uint64_t)m->what << 8 | (uint64_t)(m->last_rank + 1) << 16);
		mix(h, host->session - m->session);
		mix(h, m->kind == SAYS_ORDER ? w.heads - m->head : 0);
		if (m->kind == SAYS_BEAT || m->kind == SAYS_ANSWER)
			mix_time(h, m->round);
		else
			mix_round(h, m->round);
		if (m->kind != SAYS_JOIN)
			continue;
		mix(h, (uint64_t)(host->agent - m->agent));
		mix_round(h, m->last_round);
	}
}

static void mix_host(uint64_t *h, const struct whost *host)
{
	mix(h, host->life | (uint64_t)host->state << 2 | (uint64_t)host->leaving << 8);
	mix_queue(h, &host->up, host);
	mix_queue(h, &host->down, host);
	mix(h, !!host->worker);
	mix_round(h, host->last_round);
	mix_round(h, host->known_round);
	mix(h, (uint64_t)(host->last_rank + 1));
	mix(h, host->number < 0 ? 0 : host->session - host->member + 2);
	if (host->number >= 0)
		mix_time(h, host->held.came_ms);
	if (host->life == AGENT_DEAD)
		return;
	mix_round(h, host->round);
	mix(h, (uint64_t)host->rank);
	mix_time(h, host->ready_ms);
	mix_time(h, host->started_ms);
	mix_time(h, host->dead_ms);
	mix(h, host->lease.over);
	mix_time(h, host->lease.deadline_ms);
	mix_time(h, host->beat_ms);
}

static void mix_seats(uint64_t *h, const struct round *r)
{
	const struct round_seat *s;

	LIST_FOREACH (s, &r->vacant, entry)
		mix(h, (uint64_t)s->group_rank | (uint64_t)(s->host ? s->host->number + 1 : 0)
							 << 8);
	LIST_FOREACH (s, &r->vacant, entry)
		mix_time(h, s->host ? s->prepared_by_ms : 0);
}

static void mix_head(uint64_t *h)
{
	const struct round *r = w.head;

	mix(h, r->state | (uint64_t)r->started << 8 | (uint64_t)r->saving << 9 |
			(uint64_t)r->patient << 10 | (uint64_t)r->remembers << 11 |
			(uint64_t)r->taken << 12 | (uint64_t)r->offers << 13 |
			(uint64_t)r->seats << 16);
	mix_seats(h, r);
	mix_round(h, r->last_round);
	mix(h, r->known_round > r->round);
	mix_time(h, r->enough_ms);
	mix_time(h, r->prepared_by_ms);
	mix_time(h, r->next_ms);
	mix_time(h, r->waiting_ms);
	mix_time(h, r->began_ms);
	mix_time(h, w.saved_ms);
	for (int i = 0; i < HOSTS; i++) {
		const struct round_host *host = round_host(r, w.h[i].number);
		uint64_t before = 0;

		if (!host)
			continue;
		for (int k = 0; k < r->n_numbers; k++)
			before += r->hosts[k] && r->hosts[k]->turn < host->turn;
		mix(h, host->state | (uint64_t)host->leaving << 8 | before << 16);
		mix_round(h, host->round);
		mix(h, (uint64_t)host->group_rank);
		mix_round(h, host->last_round);
		mix(h, (uint64_t)(host->last_rank + 1));
	}
}

static uint64_t hash_all(int depth)
{
	uint64_t h = 7;

	mix(&h, (uint64_t)depth);
	mix_round(&h, (uint32_t)w.started);
	mix(&h, w.starters | (uint64_t) !!w.head << 8);
	if (w.head)
		mix_head(&h);
	else if (w.record)
		for (int i = 0; i < HOSTS; i++)
			mix(&h, w.recorded >> i & 1 ? (uint64_t)w.recorded_rank[i] + 1 : 0);
	for (int i = 0; i < HOSTS; i++)
		mix_host(&h, &w.h[i]);
	return h;
}

/* --- walks --- */

static void note(enum what_happens what, int i)
{
	static const char *const names[N_HAPPENINGS] = { "-", "start", "crash", "stop", "continue",
		"cut", "cut-up", "cut-down", "heal", "heal-up", "heal-down", "leave", "failure" };

	if (what)
		trail_add(" %s%d", names[what], i);
	else
		trail_add(" -");
}

/* The world is another one afterwards. */
static void all_heals(void)
{
	note(HEAL, 9);
	for (int i = 0; i < HOSTS; i++) {
		if (can_happen(CONTINUE_AGENT, i))
			happen(CONTINUE_AGENT, i);
		if (can_happen(START_AGENT, i))
			happen(START_AGENT, i);
		if (can_happen(HEAL, i))
			happen(HEAL, i);
	}
	recoveries++;
	world_settle();
	for (int i = 0; i < HEALED_STEPS; i++) {
		if (hosts_run() >= MIN)
			return;
		world_step();
	}
	if (hosts_run() < MIN)
		wrong("no round runs three leases after all has healed");
}

static void walk(int depth)
{
	struct snapshot before;

	if (was_seen(hash_all(depth)))
		return;
	save(&before);
	if (!depth) {
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
			world_step();
			steps++;
			walk(depth - 1);
			restore(&before);
		}
	forget(&before);
}

/* Hosts 0 to 2 run, and host 3 is a spare. */
static void three_run(void)
{
	for (int i = 0; i < HOSTS; i++)
		happen(START_AGENT, i);
	for (int i = 0; i < 8; i++)
		world_step();
	ck_assert_int_eq(hosts_run(), MAX);
	ck_assert_int_eq(w.h[3].state, MEMBER_WAITING);
}

static void begin_walks(void)
{
	steps = recoveries = rounds_run = seats_taken = 0;
	seen_begin();
}

static void end_walks(const char *name)
{
	seen_end();
	world_end();
	if (getenv("ROUNDS_FIGURES"))
		fprintf(stderr,
			"%s: %lu states, %lu steps, %lu recoveries, %lu rounds, %lu seats\n", name,
			states, steps, recoveries, rounds_run, seats_taken);
}

START_TEST(all_histories_from_the_first_join)
{
	begin_walks();
	world_new(true, ROUND_JOIN_RESTARTS);
	walk(walk_length(5, 4, 3));
	end_walks("from the first join");
}
END_TEST

START_TEST(all_histories_from_a_round_that_runs)
{
	begin_walks();
	world_new(true, ROUND_JOIN_RESTARTS);
	three_run();
	walk(walk_length(4, 3, 2));
	end_walks("from a round that runs");
}
END_TEST

START_TEST(all_histories_where_seats_are_taken_in_the_round_that_runs)
{
	begin_walks();
	world_new(true, ROUND_JOIN_RESTARTS);
	w.alone = true;
	three_run();
	walk(walk_length(4, 3, 2));
	ck_assert_uint_gt(seats_taken, 0);
	end_walks("from a round whose seats are kept");
}
END_TEST

static void random_life(uint32_t *seed, bool record)
{
	static const enum what_happens repairs[] = { START_AGENT, CONTINUE_AGENT, HEAL, HEAL_UP,
		HEAL_DOWN };
	uint32_t quiet = next_random(seed) % 12, luck = next_random(seed) % 4 + 1;

	world_new(record, next_random(seed) % 3);
	w.alone = next_random(seed) % 2;
	if (!record || next_random(seed) % 2)
		three_run();
	w.others_stay = !record;
	for (int i = 0; i < 300; i++) {
		enum what_happens what = next_random(seed) % N_HAPPENINGS;
		int host = (int)(next_random(seed) % HOSTS);

		if (next_random(seed) % 4 < luck)
			what = repairs[next_random(seed) % 5];
		steps++;
		if (next_random(seed) % 12 >= quiet && can_happen(what, host)) {
			note(what, host);
			happen(what, host);
		} else {
			note(NOTHING, 0);
		}
		/* Some of what is on its way arrives before the others. */
		if (next_random(seed) % 2) {
			struct whost *h = &w.h[next_random(seed) % HOSTS];

			deliver_up(h, (int)(next_random(seed) % 4));
			deliver_down(h, (int)(next_random(seed) % 4));
		}
		if (next_random(seed) % 4)
			world_step();
		else
			world_settle();
	}
	all_heals();
	world_end();
}

static void random_lives(bool record)
{
	uint32_t seed = record ? 20250101u : 977u;

	steps = recoveries = rounds_run = seats_taken = 0;
	for (int i = walk_length(6000, 1500, 40); i > 0; i--)
		random_life(&seed, record);
	if (getenv("ROUNDS_FIGURES"))
		fprintf(stderr,
			"random, record %d: %lu steps, %lu recoveries, %lu rounds, %lu seats\n",
			record, steps, recoveries, rounds_run, seats_taken);
}

START_TEST(random_lives_where_the_next_head_knows_of_the_last)
{
	random_lives(true);
}
END_TEST

START_TEST(random_lives_where_the_next_head_knows_nothing)
{
	random_lives(false);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("model");
	TCase *t = tcase_create("rounds");

	tcase_add_test(t, all_histories_from_the_first_join);
	tcase_add_test(t, all_histories_from_a_round_that_runs);
	tcase_add_test(t, all_histories_where_seats_are_taken_in_the_round_that_runs);
	tcase_add_test(t, random_lives_where_the_next_head_knows_of_the_last);
	tcase_add_test(t, random_lives_where_the_next_head_knows_nothing);
	suite_add_tcase(s, t);
	return suite_run(s);
}
