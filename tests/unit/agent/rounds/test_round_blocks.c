/* SPDX-License-Identifier: Apache-2.0 */
/* The head where hosts say where they stand: ranks by topology, seats of lost hosts, blocks. */
#include "agent/rounds/round.h"

#include "tests/unit/child.h"
#include "tests/unit/nomem.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds_test.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static const char *join_at(const char *name, const char *topology)
{
	struct round_join j = join_as(name);

	j.topology = topology;
	return join_with(j);
}

/* The names of the present round's hosts by rank, and of those that wait: "a b | c". */
static const char *seats(void)
{
	static char line[4096];
	const struct round_host *h;
	size_t len = 0;

	line[0] = '\0';
	for (int rank = 0; rank < round_world(r)->hosts; rank++)
		for (h = round_next_host(r, NULL); h; h = round_next_host(r, h))
			if (h->round == round_number(r) && h->state == HOST_ASSIGNED &&
				h->group_rank == rank)
				len += (size_t)snprintf(line + len, sizeof(line) - len, "%s%s",
					len ? " " : "", h->name);
	for (h = round_next_host(r, NULL); h; h = round_next_host(r, h))
		if (h->state == HOST_WAITING)
			len += (size_t)snprintf(line + len, sizeof(line) - len, "%s%s",
				strchr(line, '|') ? " " : " | ", h->name);
	return line;
}

static void every(enum host_state state, enum host_event e)
{
	for (int i = 0; i < 64; i++) {
		const struct round_host *h = round_host(r, i);

		if (h && h->state == state)
			ck_assert_int_ge(round_hear(r, i, e, h->round, now), 0);
	}
}

static void all_start(void)
{
	every(HOST_ASSIGNED, HOST_EV_PREPARED);
	every(HOST_STARTING, HOST_EV_STARTED);
	ck_assert_int_eq(round_state(r), ROUND_RUNNING);
}

/* Hosts named by letters are lost; returns the seats of the next round. */
static const char *after_loss_of(const char *names)
{
	char name[2] = "";

	for (; *names; names++) {
		name[0] = *names;
		hear(name, HOST_EV_LOST);
	}
	every(HOST_STOPPING, HOST_EV_STOPPED);
	if (round_state(r) == ROUND_GATHERING)
		due();
	return seats();
}

START_TEST(first_ranks_follow_topologies)
{
	config.min = config.max = 6;
	begin();
	join_at("a", "pod10/r1");
	join_at("b", "pod2/r2");
	join_at("c", "pod10/r1");
	join_at("d", "pod2/r10");
	join("e");
	join_at("f", "pod2");
	ck_assert_str_eq(seats(), "e f b d a c");
}
END_TEST

START_TEST(ranks_stay_when_a_host_comes_that_would_stand_before)
{
	begin();
	join_at("a", "p2/x");
	join_at("b", "p3/x");
	due();
	all_start();
	join_at("c", "p1/x");
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a b c");
}
END_TEST

START_TEST(the_seat_of_a_lost_host_goes_to_the_spare_that_is_nearest)
{
	begin();
	join_at("a", "p1/r1/n1");
	join_at("b", "p1/r2/n1");
	join_at("c", "p2/r1/n1");
	all_start();
	join_at("s", "p1/r1/n9"); /* came first */
	join_at("t", "p2/r9/n9");
	join_at("u", "p1/r2/n9");
	ck_assert_str_eq(after_loss_of("b"), "a u c | s t");
	all_start();
	ck_assert_str_eq(after_loss_of("c"), "a u t | s");
	all_start();
	ck_assert_str_eq(after_loss_of("u"), "a s t");
}
END_TEST

START_TEST(seats_that_no_spare_is_near_go_to_the_first_to_join)
{
	begin();
	join_at("a", "p1");
	join_at("b", "p2");
	join_at("c", "p3");
	all_start();
	join("t");
	join_at("s", "p9");
	ck_assert_str_eq(after_loss_of("b"), "a t c | s");
}
END_TEST

START_TEST(a_host_that_comes_back_has_its_seat_before_spares)
{
	struct round_join j = join_as("b");

	begin();
	join_at("a", "p1/x");
	join_at("b", "p1/y");
	join_at("c", "p1/z");
	all_start();
	join_at("s", "p1/y");
	j.agent = "2";
	j.topology = "p1/y";
	join_with(j); /* the agent was started again: it knows nothing */
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a b c | s");
}
END_TEST

START_TEST(a_later_head_knows_where_the_hosts_of_the_last_round_stood)
{
	struct round_join a = join_as("a"), b = join_as("b"), c = join_as("c");

	config.round = 4;
	config.records = true;
	begin();
	a.known_round = a.last_round = b.known_round = b.last_round = c.known_round = c.last_round =
		4;
	a.last_rank = 1;
	b.last_rank = 0;
	c.last_rank = 2;
	b.topology = "p1/x";
	c.topology = "p2/x";
	ck_assert_int_ge(round_remember(r, &a), 0);
	ck_assert_int_ge(round_remember(r, &b), 0);
	ck_assert_int_ge(round_remember(r, &c), 0);
	join_at("s", "p2/y");
	join_at("t", "p1/y");
	hear("b", HOST_EV_LOST);
	join_with(c);
	join_with(a);
	ck_assert_str_eq(seats(), "t a c | s");
}
END_TEST

/* --- blocks --- */

static void blocks(int segment, int min, int max)
{
	config.segment = segment;
	config.min = min;
	config.max = max;
	begin();
}

START_TEST(a_round_takes_whole_blocks_only)
{
	blocks(2, 2, 6);
	join_at("a", "p2/x");
	ck_assert_str_eq(join_at("b", "p1/x"), "admit b");
	ck_assert_uint_eq(round_due_ms(r), 1000000 + JOIN_TIMEOUT); /* no block yet */
	join_at("c", "p2/y");
	ck_assert_uint_eq(round_due_ms(r), now + LAST_CALL);
	join_at("d", "p3/x");
	due();
	ck_assert_str_eq(seats(), "a c | b d");
	all_start();
	ck_assert_uint_eq(round_due_ms(r), UINT64_MAX); /* b and d are no block */
	now += 60000;
	ck_assert_str_eq(join_at("e", "p1/y"), "admit e");
	ck_assert_uint_eq(round_due_ms(r), now + JOIN_DELAY);
	now += 1000;
	join_at("g", "p9/x"); /* delays no other host */
	ck_assert_uint_eq(round_due_ms(r), now - 1000 + JOIN_DELAY);
	ck_assert_str_eq(join_at("f", "p3/y"), "admit f, stop a c");
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a c b e d f | g");
}
END_TEST

START_TEST(too_few_blocks_give_up)
{
	blocks(2, 4, 4);
	join_at("a", "p1/x");
	join_at("b", "p1/y");
	join_at("c", "p2/x");
	join_at("d", "p3/x");
	ck_assert_str_eq(due(), "give up, end a b c d");
}
END_TEST

START_TEST(max_counts_whole_blocks)
{
	blocks(2, 2, 4);
	join_at("a", "p1/x");
	join_at("b", "p2/x");
	join_at("c", "p3/x");
	ck_assert_str_eq(join_at("d", "p4/x"), "admit d");
	join_at("e", "p2/y");
	ck_assert_str_eq(join_at("f", "p4/y"), "admit f, assign b e d f");
	ck_assert_str_eq(seats(), "b e d f | a c");
}
END_TEST

START_TEST(a_spare_of_the_part_makes_a_block_whole_again)
{
	blocks(2, 2, 4);
	join_at("a", "p1/r1/x");
	join_at("b", "p1/r2/x");
	join_at("c", "p2/r1/x");
	join_at("d", "p2/r2/x");
	ck_assert_str_eq(seats(), "a b c d");
	all_start();
	join_at("s", "p3/r1/x");
	join_at("t", "p2/r1/y");
	join_at("u", "p1/r1/y");
	join_at("v", "p1/r2/y");
	ck_assert_str_eq(after_loss_of("b"), "a v c d | s t u");
	all_start();
	ck_assert_str_eq(after_loss_of("v"), "a u c d | s t");
	all_start();
	ck_assert_str_eq(after_loss_of("d"), "a u c t | s");
}
END_TEST

START_TEST(a_block_that_cannot_be_whole_makes_room_for_another)
{
	blocks(2, 2, 6);
	join_at("a", "p1/x");
	join_at("b", "p1/y");
	join_at("c", "p2/x");
	join_at("d", "p2/y");
	join_at("e", "p4/x");
	join_at("f", "p4/y");
	all_start();
	join_at("s", "p3/x");
	ck_assert_str_eq(after_loss_of("c"), "a b e f | d s"); /* the gap is closed */
	all_start();
	join_at("t", "p3/y");
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a b e f s t | d");
	all_start();
	join_at("u", "p2/z");
	ck_assert_str_eq(after_loss_of("f"), "a b d u s t | e");
}
END_TEST

START_TEST(hosts_of_two_broken_blocks_of_a_part_are_one)
{
	blocks(3, 3, 6);
	join_at("a", "p1/a");
	join_at("b", "p1/b");
	join_at("c", "p1/c");
	join_at("d", "p1/d");
	join_at("e", "p1/e");
	join_at("f", "p1/f");
	all_start();
	/* The second one has lost less, and stays. */
	ck_assert_str_eq(after_loss_of("abf"), "d e c");
}
END_TEST

START_TEST(new_blocks_have_the_order_of_topologies)
{
	blocks(2, 6, 6);
	join_at("f", "p2/r1");
	join_at("e", "p2/r2");
	join_at("d", "p1/r3");
	join_at("c", "p1/r1");
	join_at("b", "p1/r2");
	join_at("a", "p1/r3");
	ck_assert_str_eq(seats(), "c b a d f e");
}
END_TEST

START_TEST(hosts_without_a_topology_share_a_part)
{
	blocks(2, 2, 4);
	join("a");
	join_at("b", "p1/x");
	join("c");
	due();
	ck_assert_str_eq(seats(), "a c | b");
}
END_TEST

START_TEST(a_host_that_leaves_while_it_waits_is_in_no_block)
{
	blocks(2, 2, 4);
	join_at("a", "p1/x");
	join_at("b", "p1/y");
	hear("a", HOST_EV_BYE);
	ck_assert_uint_eq(round_due_ms(r), now + JOIN_TIMEOUT);
	join_at("c", "p1/z");
	due();
	ck_assert_str_eq(seats(), "b c");
	hear("b", HOST_EV_PREPARED);
	ck_assert_str_eq(hear("c", HOST_EV_UNABLE), "leave out c (unable)");
	ck_assert_int_eq(round_state(r), ROUND_GATHERING);
}
END_TEST

/* --- hosts that are kept out --- */

static void keep_out(const char *name, uint64_t until)
{
	round_keep_out(r, number(name), until, now);
}

START_TEST(a_host_that_is_kept_out_waits_while_min_others_are_there)
{
	three_run();
	keep_out("b", now + 3600000);
	ck_assert_uint_eq(round_due_ms(r), now + 3600000); /* it is not ended for that */
	round_restart(r, 0, now);
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a c | b");
	all_start();
	ck_assert_str_eq(join("d"), "admit d, stop a c"); /* another one takes its seat */
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a c d | b");
}
END_TEST

START_TEST(a_host_that_is_kept_out_is_taken_where_too_few_others_are)
{
	config.min = 3;
	three_run();
	keep_out("b", now + 3600000);
	round_restart(r, 0, now);
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a b c"); /* its rank stays */
	all_start();
	/* No host is stopped for one that comes, but that has the seat next time. */
	ck_assert_str_eq(join("d"), "admit d");
	round_restart(r, 0, now);
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a d c | b");
	all_start();
	ck_assert_str_eq(after_loss_of("a"), "b d c");
}
END_TEST

START_TEST(a_host_that_is_kept_out_comes_back_when_its_time_is_over)
{
	uint64_t until;

	config.min = 1;
	three_run();
	until = now + 3600000;
	keep_out("b", until);
	keep_out("c", until + 5000);
	round_restart(r, 0, now);
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a | b c");
	all_start();
	ck_assert_str_eq(due(), "");
	ck_assert_uint_eq(now, until);
	ck_assert_uint_eq(round_due_ms(r), until + JOIN_DELAY);
	ck_assert_str_eq(due(), "stop a");
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a b | c");
	all_start();
	ck_assert_uint_eq(round_due_ms(r), until + 5000);
	ck_assert_str_eq(due(), "stop a b");
}
END_TEST

START_TEST(a_host_that_is_let_back_joins_as_one_that_has_come)
{
	three_run();
	keep_out("b", now + 3600000);
	round_restart(r, 0, now);
	every(HOST_STOPPING, HOST_EV_STOPPED);
	all_start();
	now += 60000;
	keep_out("b", 0);
	ck_assert_str_eq(at(now), "stop a c"); /* with it there are MAX */
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "a c b");
}
END_TEST

START_TEST(a_host_that_joins_may_be_kept_out)
{
	struct round_join j = join_as("a");

	begin();
	j.kept_until_ms = now + 3600000;
	join_with(j);
	join("b");
	ck_assert_uint_eq(round_due_ms(r), now + LAST_CALL); /* two of MIN 2 are there */
	ck_assert_str_eq(join("c"), "admit c"); /* three of MAX 3, but one is kept out */
	ck_assert_str_eq(join("d"), "admit d, assign b c d");
	ck_assert_str_eq(seats(), "b c d | a");
}
END_TEST

START_TEST(a_host_that_is_kept_out_makes_no_block_whole)
{
	blocks(2, 2, 4);
	join_at("a", "p1/a");
	join_at("b", "p1/b");
	join_at("c", "p2/a");
	join_at("d", "p2/b");
	all_start();
	keep_out("b", now + 3600000);
	round_restart(r, 0, now);
	every(HOST_STOPPING, HOST_EV_STOPPED);
	ck_assert_str_eq(seats(), "c d | a b");
	all_start();
	ck_assert_str_eq(after_loss_of("c"), "a b | d"); /* the only block that can be */
}
END_TEST

/* --- by chance --- */

enum { NAMES = 24 };

/* Holds for each round: whole blocks of one part, at most MAX; a block of the last round whose
 * hosts all wait is in this one, in their order. */
static void check_round(int segment, const int *last)
{
	const struct round_host *by_rank[NAMES] = { NULL };
	const struct round_host *h;
	int n = round_world(r)->hosts;

	ck_assert_int_le(n, config.max);
	ck_assert_int_ge(n, config.min);
	ck_assert_int_eq(n % segment, 0);
	for (h = round_next_host(r, NULL); h; h = round_next_host(r, h))
		if (h->state == HOST_ASSIGNED) {
			ck_assert_int_lt(h->group_rank, n);
			ck_assert_ptr_null(by_rank[h->group_rank]);
			by_rank[h->group_rank] = h;
		}
	for (int i = 0; i < n; i++) {
		size_t first = strcspn(by_rank[i]->topology, "/") + 1;

		ck_assert_ptr_nonnull(by_rank[i]);
		ck_assert(!strncmp(
			by_rank[i]->topology, by_rank[i / segment * segment]->topology, first));
	}
	for (int b = 0; b < NAMES / segment; b++) {
		int alive = 0, in = 0;

		for (int i = b * segment; i < (b + 1) * segment; i++) {
			h = last[i] >= 0 ? round_host(r, last[i]) : NULL;
			alive += h && h->last_rank == i && h->last_round && h->state != HOST_GONE;
			in += h && h->last_rank == i && h->state == HOST_ASSIGNED &&
			      h->group_rank % segment == i % segment;
		}
		if (alive == segment)
			ck_assert_int_eq(in, segment);
	}
}

/* A round that was assigned just now has all the blocks that there are hosts for. */
static void check_size(int segment)
{
	int of_part[3] = { 0 }, fit_part[3] = { 0 }, able = 0, fit = 0;
	const struct round_host *h;

	if (!strstr(orders(), "assign"))
		return;
	for (h = round_next_host(r, NULL); h; h = round_next_host(r, h))
		if (h->state == HOST_ASSIGNED || h->state == HOST_WAITING) {
			of_part[h->topology[1] - '0']++;
			fit_part[h->topology[1] - '0'] += !h->kept_until_ms;
		}
	for (int i = 0; i < 3; i++) {
		able += of_part[i] / segment * segment;
		fit += fit_part[i] / segment * segment;
	}
	able = fit >= config.min ? fit : able;
	for (h = round_next_host(r, NULL); h && fit >= config.min; h = round_next_host(r, h))
		ck_assert(h->state != HOST_ASSIGNED || !h->kept_until_ms);
	ck_assert_int_eq(round_world(r)->hosts, able < config.max ? able : config.max);
}

static void note_last(int *last)
{
	const struct round_host *h;

	for (int i = 0; i < NAMES; i++)
		last[i] = -1;
	for (h = round_next_host(r, NULL); h; h = round_next_host(r, h))
		if (h->last_round == round_number(r) && h->state != HOST_GONE)
			last[h->group_rank] = h->number;
}

static void chance_life(uint32_t *seed, bool keeps)
{
	static char names[NAMES][8], stands[NAMES][16];
	int segment = 1 + (int)(next_random(seed) % 4), last[NAMES];

	config.segment = segment;
	config.min = segment;
	config.max = segment * (1 + (int)(next_random(seed) % 4));
	config.last_call_ms = config.join_delay_ms = 10;
	begin();
	for (int i = 0; i < NAMES; i++) {
		snprintf(names[i], sizeof(names[i]), "n%d", i);
		snprintf(stands[i], sizeof(stands[i]), "p%d/r%d", (int)(next_random(seed) % 3),
			(int)(next_random(seed) % 3));
	}
	note_last(last);
	for (int step = 0; step < 200; step++) {
		int i = (int)(next_random(seed) % NAMES);

		if (number(names[i]) < 0)
			join_at(names[i], stands[i]);
		else if (next_random(seed) % 3 == 0)
			hear(names[i], HOST_EV_LOST);
		else if (keeps && next_random(seed) % 3 == 0) {
			keep_out(names[i], next_random(seed) % 3 ? now + 100 : 0);
			at(now);
		}
		check_size(segment);
		every(HOST_STOPPING, HOST_EV_STOPPED);
		check_size(segment);
		if (next_random(seed) % 2)
			at(now + 10);
		check_size(segment);
		if (round_state(r) == ROUND_PREPARING) {
			if (!keeps && round_count(r, HOST_ASSIGNED) == round_world(r)->hosts)
				check_round(segment, last);
			if (next_random(seed) % 4) {
				every(HOST_ASSIGNED, HOST_EV_PREPARED);
				every(HOST_STARTING, HOST_EV_STARTED);
				if (round_state(r) == ROUND_RUNNING)
					note_last(last);
			}
		}
	}
	r = round_free(r);
}

START_TEST(random_rounds_are_whole_blocks)
{
	uint32_t seed = 20250301;

	for (int i = under_valgrind() ? 5 : 300; i > 0; i--)
		chance_life(&seed, false);
}
END_TEST

START_TEST(random_rounds_have_hosts_that_are_kept_out_only_where_needed)
{
	uint32_t seed = 20250302;

	for (int i = under_valgrind() ? 5 : 300; i > 0; i--)
		chance_life(&seed, true);
}
END_TEST

/* --- many --- */

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void say(int host, enum host_event e)
{
	ck_assert_int_ge(round_hear(r, host, e, 1, now), 0);
}

START_TEST(thousands_of_hosts_in_blocks_cost_little)
{
	int n = under_valgrind() ? 128 : ROUND_HOSTS_MAX;
	static const int eight[2] = { 8, 1 };
	char name[32], stands[64];
	double before, assigned;

	blocks(32, n / 2, n);
	/* The first n stand in whole blocks; half as many spares are of the same parts. */
	for (int i = 0; i < n + n / 2; i++) {
		struct round_join j = join_as(name);
		int k = (int)((unsigned)i * 7919u % (unsigned)n);

		snprintf(name, sizeof(name), "node%d.%d", k, i / n);
		snprintf(stands, sizeof(stands), "pod%d/rack%d/node%d", k / 128, k / 16, k);
		j.topology = stands;
		j.replicas = eight;
		ck_assert_int_eq(round_join(r, &j, now), 0);
	}
	for (int x = 0; x < n; x++)
		say(x, HOST_EV_PREPARED);
	for (int x = 0; x < n; x++)
		say(x, HOST_EV_STARTED);
	ck_assert_int_eq(round_state(r), ROUND_RUNNING);
	ck_assert_int_eq(round_world(r)->hosts, n);
	/* Every eighth host is lost at once. */
	for (int x = 0; x < n; x += 8)
		ck_assert_int_ge(round_hear(r, x, HOST_EV_LOST, 0, now), 0);
	before = cpu_s();
	for (int x = 0; x < n; x++)
		if (round_host(r, x) && round_host(r, x)->state == HOST_STOPPING)
			say(x, HOST_EV_STOPPED);
	assigned = cpu_s() - before;
	ck_assert_int_eq(round_state(r), ROUND_PREPARING);
	ck_assert_int_eq(round_world(r)->hosts, n);
	if (getenv("ROUNDS_FIGURES"))
		fprintf(stderr, "%d hosts stop and get ranks in blocks: %.1f ms\n", n,
			assigned * 1e3);
	if (!under_valgrind())
		ck_assert_double_lt(assigned, 2);
}
END_TEST

/* --- without memory --- */

START_TEST(a_join_that_fails_leaves_no_part_behind)
{
	blocks(2, 2, 4);
	for (long at = 1, ret = -ENOMEM; ret; at++) {
		struct round_join j = join_as("a");

		j.topology = "p1/x";
		allocations = 0;
		fail_at = at;
		ret = round_join(r, &j, now);
		fail_at = 0;
		ck_assert(!ret || ret == -ENOMEM);
	}
	join_at("b", "p1/y");
	due();
	fail_at = 1; /* seats are forgotten, all else needs none */
	allocations = 0;
	all_start();
	fail_at = 0;
	join_at("s", "p1/z");
	ck_assert_str_eq(after_loss_of("a"), "s b");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("round_blocks");
	TCase *t = tcase_create("round_blocks");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, first_ranks_follow_topologies);
	tcase_add_test(t, ranks_stay_when_a_host_comes_that_would_stand_before);
	tcase_add_test(t, the_seat_of_a_lost_host_goes_to_the_spare_that_is_nearest);
	tcase_add_test(t, seats_that_no_spare_is_near_go_to_the_first_to_join);
	tcase_add_test(t, a_host_that_comes_back_has_its_seat_before_spares);
	tcase_add_test(t, a_later_head_knows_where_the_hosts_of_the_last_round_stood);
	tcase_add_test(t, a_round_takes_whole_blocks_only);
	tcase_add_test(t, too_few_blocks_give_up);
	tcase_add_test(t, max_counts_whole_blocks);
	tcase_add_test(t, a_spare_of_the_part_makes_a_block_whole_again);
	tcase_add_test(t, a_block_that_cannot_be_whole_makes_room_for_another);
	tcase_add_test(t, hosts_of_two_broken_blocks_of_a_part_are_one);
	tcase_add_test(t, new_blocks_have_the_order_of_topologies);
	tcase_add_test(t, hosts_without_a_topology_share_a_part);
	tcase_add_test(t, a_host_that_leaves_while_it_waits_is_in_no_block);
	tcase_add_test(t, a_host_that_is_kept_out_waits_while_min_others_are_there);
	tcase_add_test(t, a_host_that_is_kept_out_is_taken_where_too_few_others_are);
	tcase_add_test(t, a_host_that_is_kept_out_comes_back_when_its_time_is_over);
	tcase_add_test(t, a_host_that_is_let_back_joins_as_one_that_has_come);
	tcase_add_test(t, a_host_that_joins_may_be_kept_out);
	tcase_add_test(t, a_host_that_is_kept_out_makes_no_block_whole);
	tcase_add_test(t, random_rounds_have_hosts_that_are_kept_out_only_where_needed);
	tcase_add_test(t, random_rounds_are_whole_blocks);
	tcase_add_test(t, thousands_of_hosts_in_blocks_cost_little);
	tcase_add_test(t, a_join_that_fails_leaves_no_part_behind);
	suite_add_tcase(s, t);
	return suite_run(s);
}
