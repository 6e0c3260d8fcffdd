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
		"cut", "cut-up", "cut-down", "cut-next", "cut-halves", "heal", "cut-ask", "cut-answer",
		"heal-store", "late", "store-goes", "store-returns", "failure" };
	size_t n = strlen(trail);

	if (n + 32 > sizeof(trail)) {
		memmove(trail, trail + sizeof(trail) / 2, n - sizeof(trail) / 2 + 1);
		n = strlen(trail);
	}
	snprintf(trail + n, sizeof(trail) - n, what ? " %s%d" : " -", names[what], i);
}

static bool trace;
static void dump(const char *what, int i);
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
	memset(w.held, 0, sizeof(w.held));
	w.held_ask = w.held_answer = 0;
	recoveries++;
	agents_look_at_time();
	world_settle();
	for (unsigned long i = 0; i < HEALED_STEPS; i++) {
		if (hosts_run() >= MIN)
			return;
		world_step(STEP);
		dump("healed", (int)i);
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
		if (can_happen(START_AGENT, i))
			happen(START_AGENT, i);
	for (int i = 0; i < 10; i++)
		world_step(STEP);
	if (n == HOSTS)
		n = MAX;
	if (hosts_run() != n)
		wrong("they do not run");
}

static void dump(const char *what, int i)
{

	if (!trace)
		return;
	fprintf(stderr, "%lu %s%d  [lead %d.%d rev %lu until %ld] [state rev %lu round %lu hosts %x head %d]%s\n", (unsigned long)w.now - 1000000, what, i,
		store.lead.rev ? store.lead.host : -1, store.lead.agent, (unsigned long)store.lead.rev, (long)store.lead.until_ms - 1000000,
		(unsigned long)store.state.rev, (unsigned long)store.state.round, store.state.hosts, store.state.head, store.gone ? " GONE" : "");
	for (int k = 0; k < HOSTS; k++) {
		struct whost *a = &w.h[k];
		fprintf(stderr, "   %d.%d life %d %s/%s head %d.%d%s worker %lx ses %u ans %ld dead %ld cut %x%s%s", k, a->agent, a->life, member_state_name(a->state), lead_state_name(a->lead), a->head, a->head_agent, a->linked ? "L" : "", (unsigned long)a->worker, a->session, (long)a->answer_ms - 1000000, (long)(a->lease.deadline_ms - 1000000), w.cut[k], a->cut_ask ? " noask" : "", a->cut_answer ? " noanswer" : "");
		if (a->h.round) {
			fprintf(stderr, "  HEAD key %lu %s round %lu kept %ld until %ld may %x st %x led %ld heard %ld acked", (unsigned long)a->h.key, round_state_name(round_state(a->h.round)), (unsigned long)round_number(a->h.round), (long)a->h.tenure.kept_ms - 1000000, (long)head_until_ms(&a->h) - 1000000, a->h.may, a->h.state.hosts, (long)a->h.past.led_ms - 1000000, (long)a->h.past.heard_ms - 1000000);
			for (int m = 0; m < HOSTS; m++)
				fprintf(stderr, " %ld%s%s", (long)a->h.of[m].acked_ms - 1000000, a->h.of[m].number >= 0 ? host_state_name(round_host(a->h.round, a->h.of[m].number)->state) : "", a->h.of[m].join.kind ? "J" : "");
		}
		fprintf(stderr, "\n");
	}
}

/* Host 0 leads n hosts without the store, while host 3 leads in the store. */
static void two_lead(int n)
{
	some_run(n);
	happen(CUT_ASK, 0);
	happen(CUT_HOST, 3);
	happen(START_AGENT, 3);
	for (int i = 0; i < 7; i++)
		world_step(STEP);
	if (!w.h[3].h.round || hosts_run() != n)
		wrong("they do not lead both");
	heal_host(3);
	happen(CUT_NEXT, 3);
}

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
	w.stop_ms = STEP * (1 + next_random(seed) % 2 * 9);
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
		dump("  did", what * 10 + host);
		if (next_random(seed) % 4)
			world_step(fine ? TENTH * (1 + next_random(seed) % 2) : STEP);
		else
			world_settle();
		dump("stepped", 0);
	}
	all_heals();
	world_end();
}

START_TEST(random_lives)
{
	uint32_t seed = 20250101u;

	steps = recoveries = rounds_run = longest = 0;
	for (int i = walk_length(getenv("LIVES") ? atoi(getenv("LIVES")) : 6000, 1500, 40); i > 0; i--)
{ uint32_t life = next_random(&seed) << 8; static int number; number++;
	  if (getenv("LIFE")) { if (number != atoi(getenv("LIFE"))) continue; trace = true; }
	 current_life = number;	random_life(&life);}
	if (getenv("ROUNDS_FIGURES"))
		fprintf(stderr, "random: %lu steps, %lu recoveries, %lu steps at most, %lu rounds, "
			"%lu heads, %lu rounds started without the store\n", steps, recoveries, longest,
			rounds_run, heads_led, heads_alone);
}
END_TEST

/* ---- what takes too long to come by chance ---- */

static void tells(enum what_happens what, int i)
{
	note(what, i);
	if (!can_happen(what, i))
		wrong("that cannot happen");
	happen(what, i);
	dump(" did", (int)what * 10 + i);
}

static void tenths(int n)
{
	for (; n > 0; n--) {
		world_step(TENTH);
		dump("stepped", n);
	}
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

int main(void)
{
	Suite *s = suite_create("tenure_model");
	TCase *t = tcase_create("tenure");
	SRunner *r = srunner_create(s);
	int failed;

	trace = getenv("STORY");
	tcase_add_test(t, a_host_that_is_let_in_has_acknowledged_nothing);
	tcase_add_test(t, a_record_that_comes_late_changes_nothing);
	tcase_add_test(t, random_lives);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
