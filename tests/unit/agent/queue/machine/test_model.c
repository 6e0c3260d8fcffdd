// SPDX-License-Identifier: Apache-2.0
/*
 * All orders of events of a few tasks and workers, and long random lives of more: no task is lost,
 * none runs twice at once or after its cancellation, every wait ends once and correctly, and the
 * records restore the machine.
 */
#include "tests/unit/queue_steps.h"
#include "tests/unit/run.h"

static const struct op ops[] = {
	{ "submit", do_submit },
	{ "work", do_work },
	{ "finish", do_finish },
	{ "submit", do_submit },
	{ "work", do_work },
	{ "finish", do_finish },
	{ "submit", do_submit },
	{ "work", do_work },
	{ "finish", do_finish },
	{ "fail", do_fail },
	{ "join", do_join },
	{ "fetch", do_fetch },
	{ "release", do_release },
	{ "release", do_release },
	{ "cancel", do_cancel },
	{ "put_back", do_put_back },
	{ "burst", do_burst },
	{ "worker", do_worker },
	{ "die", do_die },
	{ "die", do_die },
	{ "lives", do_lives },
	{ "away", do_away },
	{ "time", do_time },
	{ "keep", do_keep },
	{ "call", do_call },
	{ "resource", do_resource },
	{ "crash", do_crash },
	{ "whole", do_whole },
};
enum { OPS = sizeof(ops) / sizeof(ops[0]) };

static const struct op the_end = { "end", do_nothing_more };

static uint64_t seed;

static unsigned dice(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 20) % n;
}

static struct queue_options options(void)
{
	return (struct queue_options){ .first_task = 1,
		.slots = 1,
		.cancel_grace_ms = 100,
		.recovery_timeout_ms = -1,
		.blame_window_ms = -1,
		.blame_limit = 3,
		.stall_ms = -1,
		.journal = true };
}

static void life(int i)
{
	struct queue_options o = options();

	seed = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1);
	o.max = dice(3) ? dice(6) + 1 : 0;
	o.results = dice(3) ? 0 : dice(8) + 1;
	o.bytes = dice(4) ? 0 : 30 + dice(60);
	o.slots = 1 + (int)dice(2);
	o.recovery_timeout_ms = dice(2) ? 500 : -1;
	o.stall_ms = dice(2) ? 300 : -1;
	o.deaths = dice(4);
	o.blame_limit = dice(4);
	o.blame_window_ms = dice(2) ? 300 : -1;
	o.pool = dice(3) == 0;
	o.journal = true;
	world_begin(&o, 1 + (int)dice(3), 1 + (int)dice(4), 6 + (int)dice(10));
	for (int n = 100 + (int)dice(400); n; n--) {
		const struct op *op = &ops[dice(OPS)];

		/* Steps that end everything are rare. */
		if ((op->fn == do_whole || op->fn == do_crash) && dice(4))
			continue;
		step(op, dice(64), dice(4096));
	}
	step(&the_end, 0, 0);
}

START_TEST(random_lives_lose_no_task_and_end_every_wait)
{
	unsigned long leases = 0, restores = 0, errors = 0, steps = 0, deaths = 0;
	int n = walk_length(25, 8, 2);

	for (int i = 0; i < n; i++) {
		life(_i * 1000 + i);
		leases += w.leases;
		restores += w.restores;
		errors += w.errors;
		steps += w.steps;
		deaths += w.late_deaths;
		world_end();
	}
	/* Checks that each of these has happened. */
	ck_assert_uint_gt(leases, (unsigned long)n);
	ck_assert_uint_gt(restores, (unsigned long)n / 2);
	ck_assert_uint_gt(errors, (unsigned long)n / 8);
	ck_assert(deaths || n < 8);
	ck_assert_uint_gt(steps, 100ul * (unsigned long)n);
}
END_TEST

/* --- all orders */

struct small {
	const struct op op;
	unsigned a, b;
};

static const struct small smalls[] = {
	{ { "submit", do_submit }, 0, 2 },
	{ { "submit2", do_submit }, 0, 6 },
	{ { "work0", do_work }, 0, 0 },
	{ { "work1", do_work }, 1, 0 },
	{ { "finish", do_finish }, 0, 0 },
	{ { "finish1", do_finish }, 1, 0 },
	{ { "fail", do_fail }, 0, 0 },
	{ { "retry", do_fail }, 1, 1 },
	{ { "put_back", do_put_back }, 0, 1 },
	{ { "lost", do_put_back }, 1, 0 },
	{ { "worker", do_worker }, 0, 2 },
	{ { "join", do_join }, 0, 2 },
	{ { "fetch", do_fetch }, 0, 2 },
	{ { "fetch2", do_fetch }, 0, 5 },
	{ { "cancel", do_cancel }, 0, 4 },
	{ { "cancel_all", do_cancel }, 0, 5 },
	{ { "release", do_release }, 0, 0 },
	{ { "away", do_away }, 0, 0 },
	{ { "time", do_time }, 0, 2 },
	{ { "crash", do_crash }, 0, 0 },
};
enum { SMALLS = sizeof(smalls) / sizeof(smalls[0]), DEEP = 16, SEEN = 1 << 20 };

/* Connections that end, and deaths that are reported later. */
static const struct small deadly[] = {
	{ { "submit", do_submit }, 0, 8 * 12 * 3 + 2 * 12 },
	{ { "work0", do_work }, 0, 0 },
	{ { "work1", do_work }, 1, 0 },
	{ { "finish", do_finish }, 0, 0 },
	{ { "put_back", do_put_back }, 0, 1 },
	{ { "lost", do_put_back }, 0, 0 },
	{ { "lost1", do_put_back }, 1, 0 },
	{ { "worker0", do_worker }, 0, 2 },
	{ { "worker1", do_worker }, 1, 2 },
	{ { "stopped0", do_worker }, 0, 3 },
	{ { "lives0", do_lives }, 0, 0 },
	{ { "cancel", do_cancel }, 0, 4 },
	{ { "release", do_release }, 0, 0 },
	{ { "crash", do_crash }, 0, 0 },
	{ { "crash_rewritten", do_crash }, 0, 1 },
};
enum { DEADLY = sizeof(deadly) / sizeof(deadly[0]) };

static uint64_t *seen;

static void mix(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	*h ^= *h >> 29;
}

/* Everything that callers can distinguish, with the order of tasks and waits. */
static uint64_t state(void)
{
	uint64_t h = 1;
	struct queue_outcome o;

	for (int64_t id = 1; id <= max_task; id++) {
		const struct whold *x = hold_of(id);
		bool is = queue_outcome(w.q, id, &o);

		mix(&h, is ? (uint64_t)o.state + 1 : 0);
		mix(&h, is ? o.tries : 0);
		mix(&h, wtasks[id].accepted | wtasks[id].released << 1 | wtasks[id].done_for << 2);
		mix(&h, wtasks[id].deaths * 2 + wtasks[id].excused);
		mix(&h, x ? (uint64_t)x->worker * 4 + x->cancelled + 1 : 0);
		mix(&h, x ? (uint64_t)(x - w.holds) : 99);
	}
	for (int i = 0; i < w.n_waits; i++) {
		mix(&h, w.waits[i].used ? (uint64_t)w.waits[i].w.kind + 1 : 0);
		mix(&h, w.waits[i].used ? w.waits[i].w.left * 8 + w.waits[i].n : 0);
		mix(&h, w.waits[i].used ? (uint64_t)w.waits[i].worker : 0);
	}
	for (int i = 0; i < w.n_workers; i++) {
		const struct wworker *k = &w.workers[i];

		mix(&h, k->alive);
		for (int j = 0; j < k->n_dropped; j++)
			mix(&h, (uint64_t)k->dropped[j]);
		for (int j = 0; k->n_dropped && j < HOLDS; j++)
			mix(&h, w.holds[j].used && w.holds[j].worker == i &&
					w.holds[j].asked > k->drop);
	}
	mix(&h, queue_due_ms(w.q) == UINT64_MAX ? 0 : queue_due_ms(w.q) - w.now);
	return h | 1;
}

static bool was_seen(uint64_t h)
{
	size_t i = h % SEEN;

	while (seen[i] && seen[i] != h)
		i = (i + 1) % SEEN;
	if (seen[i])
		return true;
	seen[i] = h;
	return false;
}

struct path {
	uint8_t n, at[DEEP];
};

static void walk(const struct queue_options *o, const struct small *all, const struct path *p)
{
	world_begin(o, 1, 2, 6);
	for (int i = 0; i < p->n; i++)
		step(&all[p->at[i]].op, all[p->at[i]].a, all[p->at[i]].b);
}

static void all_orders(
	const struct queue_options *o, const struct small *all, uint8_t n_all, size_t max)
{
	struct path *paths = calloc(max, sizeof(*paths));
	size_t n = 1, at = 0;

	seen = calloc(SEEN, sizeof(*seen));
	for (; at < n; at++)
		for (uint8_t i = 0; i < n_all; i++) {
			struct path p = paths[at];

			if (p.n == DEEP)
				continue;
			p.at[p.n++] = i;
			walk(o, all, &p);
			if (max_task <= 3 && n < max && !was_seen(state()))
				paths[n++] = p;
			step(&the_end, 0, 0);
			world_end();
		}
	ck_assert_uint_eq(n, max);
	free(paths);
	free(seen);
}

START_TEST(all_orders_of_two_workers_and_few_tasks_match_the_model)
{
	struct queue_options o = options();

	o.max = 2;
	all_orders(&o, smalls, SMALLS, (size_t)walk_length(1500, 400, 40));
}
END_TEST

START_TEST(a_late_death_counts_once_for_each_task)
{
	struct queue_options o = options();

	o.max = 2;
	o.slots = 2;
	o.deaths = 1 + (unsigned)_i;
	all_orders(&o, deadly, DEADLY, (size_t)walk_length(1500, 400, 40));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("queue_model");
	TCase *t = tcase_create("queue_model");

	tcase_set_timeout(t, 240);
	tcase_add_test(t, all_orders_of_two_workers_and_few_tasks_match_the_model);
	tcase_add_loop_test(t, a_late_death_counts_once_for_each_task, 0, 2);
	tcase_add_loop_test(t, random_lives_lose_no_task_and_end_every_wait, 0, 4);
	suite_add_tcase(s, t);
	return suite_run(s);
}
