/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any host may lead: all orders of what can happen to hosts that run or form their first round, in
 * fifths of a lease, and long random lives. From each state that is reached: when all faults have
 * healed, MIN hosts run their workers within six leases.
 */

#include "tests/unit/child.h"
#include "tests/unit/random.h"
#include "tests/unit/round_copy.h"
#include "tests/unit/tenure_happenings.h"

enum { HEALED_STEPS = 30 };

static unsigned long steps, recoveries, longest;

/* ---- copies of the world ---- */

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

/* ---- walks ---- */

static void note(enum what_happens what, int i)
{
	static const char *const names[N_HAPPENINGS] = { "-", "start", "crash", "stop", "continue",
		"cut", "cut-up", "cut-down", "cut-halves", "heal", "cut-ask", "cut-answer",
		"heal-store", "store-goes", "store-returns", "failure" };
	size_t n = strlen(trail);

	if (n + 32 > sizeof(trail)) {
		memmove(trail, trail + sizeof(trail) / 2, n - sizeof(trail) / 2 + 1);
		n = strlen(trail);
	}
	snprintf(trail + n, sizeof(trail) - n, what ? " %s%d" : " -", names[what], i);
}

/* The world is another one afterwards. */
static void all_heals(void)
{
	static const enum what_happens repairs[] = { CONTINUE_AGENT, START_AGENT, HEAL_HOST,
		HEAL_STORE };

	note(HEAL_HOST, 9);
	for (int i = 0; i < HOSTS; i++)
		for (int k = 0; k < 4; k++)
			if (can_happen(repairs[k], i))
				happen(repairs[k], i);
	if (store.gone)
		happen(STORE_RETURNS, 1);
	recoveries++;
	agents_look_at_time();
	world_settle();
	for (unsigned long i = 0; i < HEALED_STEPS; i++) {
		if (hosts_run() >= MIN)
			return;
		world_step(STEP);
		if (i > longest)
			longest = i;
	}
	if (hosts_run() < MIN)
		wrong("no round runs six leases after all has healed");
}

/* Hosts 0 to 2 run, and host 3 is a spare; or hosts 0 and 1, and two are yet to come. */
static void some_run(int n)
{
	for (int i = 0; i < n; i++)
		happen(START_AGENT, i);
	for (int i = 0; i < 10; i++)
		world_step(STEP);
	if (n == HOSTS)
		n = MAX;
	if (hosts_run() != n)
		wrong("they do not run");
}

static void random_life(uint32_t *seed)
{
	static const enum what_happens repairs[] = { START_AGENT, CONTINUE_AGENT, HEAL_HOST,
		HEAL_STORE, STORE_RETURNS };
	uint32_t quiet = next_random(seed) % 12, luck = next_random(seed) % 4 + 1;
	uint32_t fine = next_random(seed) % 2;

	world_new();
	w.on_join = next_random(seed) % 3;
	w.stop_ms = STEP * (1 + next_random(seed) % 2 * 9);
	if (next_random(seed) % 4)
		some_run(next_random(seed) % 2 ? HOSTS : MIN);
	for (int i = 0; i < 150; i++) {
		enum what_happens what = next_random(seed) % N_HAPPENINGS;
		int host = (int)(next_random(seed) % HOSTS);

		if (next_random(seed) % 8 < luck)
			what = repairs[next_random(seed) % 5];
		w.first = (int)(next_random(seed) % HOSTS);
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
	for (int i = walk_length(getenv("LIVES") ? atoi(getenv("LIVES")) : 6000, 1500, 40); i > 0; i--)
		random_life(&seed);
	if (getenv("ROUNDS_FIGURES"))
		fprintf(stderr, "random: %lu steps, %lu recoveries, %lu steps at most, %lu rounds, "
			"%lu heads, %lu rounds started without the store\n", steps, recoveries, longest,
			rounds_run, heads_led, heads_alone);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tenure_model");
	TCase *t = tcase_create("tenure");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, random_lives);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
