/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Workers that do not wait for each other, each at its own pace, under a notice with a deadline:
 * each saves twice, or the machine says why not. The test counts time in milliseconds, and never
 * waits.
 */

#include "agent/preempt/machine.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <stdio.h>

enum { WORKERS = 4, BEGIN_MS = 1000000, STOP_MS = 30000, LEFT = -1 };

struct runner {
	int64_t step;
	uint64_t pace_ms, save_ms;
	uint64_t steps, until_ms; /* when its present step or save ends */
	bool runs, has_question, saving, leaving;
	int saves;
	uint64_t last_ms; /* when it had saved for the last time */
};

static struct spec_preemption spec;
static struct preempt *p;
static struct runner r[WORKERS];
static int n;
static uint64_t now, limit;
static int64_t save_at;
static uint64_t seed;
static char once[256], why[512];

static unsigned dice(unsigned most)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % most;
}

static void look(void)
{
	struct preempt_sample s[WORKERS];
	size_t k = 0;

	for (int i = 0; i < n; i++)
		if (r[i].runs)
			s[k++] = (struct preempt_sample){ i, true, true, r[i].step, r[i].steps };
	preempt_read(p, s, k, now);
}

/* Its next step takes its pace, a tenth more or less. */
static void train(struct runner *t)
{
	t->until_ms = now + t->pace_ms * (90 + dice(21)) / 100;
}

static void answer(struct runner *t, enum preempt_order order)
{
	t->has_question = false;
	t->saving = order == PREEMPT_SAVE || order == PREEMPT_SAVE_EXIT;
	t->leaving = order == PREEMPT_EXIT || order == PREEMPT_SAVE_EXIT;
	if (t->saving)
		t->until_ms = now + t->save_ms;
	else if (t->leaving)
		t->until_ms = now;
	else
		train(t);
}

static void do_all(void)
{
	struct preempt_do d;

	while (preempt_next(p, &d) != PREEMPT_NOTHING) {
		if (d.what == PREEMPT_ANNOUNCE)
			save_at = INT64_MIN;
		else if (d.what == PREEMPT_READ)
			look();
		else if (d.what == PREEMPT_PUBLISH)
			save_at = d.step;
		else if (d.what == PREEMPT_ANSWER)
			answer(&r[d.worker], d.order);
		else if (d.what == PREEMPT_STOP)
			snprintf(why, sizeof(why), "%s", d.text);
	}
}

static void end(int i)
{
	struct preempt_sample s = { i, true, true, r[i].step, r[i].steps };

	r[i].runs = false;
	preempt_add_sample(p, &s, now);
	ck_assert_int_eq(preempt_ended(p, i, PREEMPT_END_LEFT, now), PREEMPT_LEFT);
	do_all();
}

static void next_step(int i)
{
	struct runner *t = &r[i];

	t->step++;
	t->steps++;
	if (save_at == INT64_MAX || t->step < save_at) {
		train(t);
		return;
	}
	t->has_question = true;
	preempt_add_question(p, i, t->step, now);
	do_all();
}

static void goes_on(int i)
{
	struct runner *t = &r[i];

	if (!t->runs || t->has_question || now < t->until_ms)
		return;
	if (t->saving) {
		t->saving = false;
		t->saves++;
		t->last_ms = now;
		ck_assert_int_eq(preempt_saved(p, i, t->step, now), 0);
		train(t);
		do_all();
	} else if (t->leaving) {
		end(i);
	} else {
		next_step(i);
	}
}

static bool any_runs(void)
{
	for (int i = 0; i < n; i++)
		if (r[i].runs)
			return true;
	return false;
}

/* All train for a time, and then get a notice. */
static void live(uint64_t trained_ms, uint64_t grace_ms)
{
	struct preempt_notice notice = { 0, 0, "operator", "" };

	p = preempt_new(&spec, STOP_MS);
	ck_assert_ptr_nonnull(p);
	now = BEGIN_MS;
	save_at = INT64_MAX;
	why[0] = '\0';
	for (int i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "worker:%d", i);
		ck_assert_int_eq(preempt_started(p, i, name), 0);
		r[i] = (struct runner){
			.runs = true, .pace_ms = r[i].pace_ms, .save_ms = r[i].save_ms
		};
		train(&r[i]);
	}
	limit = UINT64_MAX;
	for (; any_runs() && now < limit; now++) {
		if (now == BEGIN_MS + trained_ms) {
			limit = now + grace_ms;
			notice.now_ms = now;
			notice.deadline_ms = (int64_t)limit;
			preempt_notice(p, &notice, true);
			do_all();
		}
		if (preempt_due_ms(p) <= now) {
			look();
			do_all();
		}
		for (int i = 0; i < n; i++)
			goes_on(i);
	}
	snprintf(once, sizeof(once), "%s", preempt_no_second_text(p));
}

static bool all_saved(int times)
{
	for (int i = 0; i < n; i++)
		if (r[i].saves != times)
			return false;
	return true;
}

static void runners(int k, const uint64_t *paces, uint64_t save_ms)
{
	n = k;
	for (int i = 0; i < n; i++)
		r[i] = (struct runner){ .pace_ms = paces[i], .save_ms = save_ms };
}

static void setup(void)
{
	spec = (struct spec_preemption){ .grace_ms = SPEC_UNSET, .timeout_ms = 600000 };
	seed = 1;
}

static void teardown(void)
{
	p = preempt_free(p);
}

static void expect_two(const char *what)
{
	char text[512] = "";

	for (int i = 0; i < n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			" %d saved %d times, the last %lld ms before the end;", i, r[i].saves,
			(long long)(limit - r[i].last_ms));
	ck_assert_msg(all_saved(2) && !*once, "%s:%s %s", what, text, once);
	ck_assert_int_eq(r[0].step, r[n - 1].step);
}

START_TEST(workers_of_20_and_40_ms_save_twice_in_six_seconds)
{
	const uint64_t paces[] = { 20, 40 };

	for (unsigned trained = 100; trained < 1500; trained += 100) {
		runners(2, paces, 10);
		live(trained, 6000);
		expect_two("six seconds");
		/* The time is used: the slower one takes most of it. */
		ck_assert_uint_lt(limit - r[1].last_ms, 2500);
		p = preempt_free(p);
	}
}
END_TEST

START_TEST(the_slowest_of_many_paces_reaches_the_last_step)
{
	static const uint64_t all[][WORKERS] = { { 20, 20, 20, 20 }, { 20, 21, 22, 100 },
		{ 1, 2, 4, 8 }, { 300, 100, 200, 150 }, { 1000, 1000, 1500, 900 },
		{ 10, 90, 50, 10 } };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (uint64_t save = 1; save <= 1000; save *= 10) {
			runners(WORKERS, all[i], save);
			live(dice(1000), 120000);
			expect_two("two minutes");
			p = preempt_free(p);
		}
}
END_TEST

START_TEST(a_missing_second_save_has_a_reason)
{
	const uint64_t paces[] = { 20, 40 };
	int twice = 0, single = 0, none = 0;

	for (unsigned life = 0; life < 300; life++) {
		char missing[256];

		runners(2, paces, 1 + dice(300));
		live(dice(20000), 2000 + dice(20000));
		preempt_missing(p, missing, sizeof(missing));
		if (all_saved(2) && !*once)
			twice++;
		else if (all_saved(1) && *once)
			single++;
		else if (r[0].saves == 1 && r[1].saves == 0 && now >= limit && *missing)
			none++; /* it was too far behind for the first one */
		else
			ck_abort_msg("life %u: %d and %d saves, \"%s\", \"%s\"", life, r[0].saves,
				r[1].saves, once, missing);
		p = preempt_free(p);
	}
	ck_assert_int_gt(twice, 20);
	ck_assert_int_gt(single, 20);
	ck_assert_int_gt(none, 20);
}
END_TEST

START_TEST(a_worker_too_far_behind_for_a_second_save_is_named)
{
	const uint64_t paces[] = { 20, 40 };

	runners(2, paces, 10);
	live(4000, 6000);
	ck_assert(all_saved(1));
	ck_assert_msg(
		!strncmp(once, "worker:1 is ", 12) && strstr(once, " steps behind"), "%s", once);
	p = preempt_free(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("preempt_pace");
	TCase *t = tcase_create("pace");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 240);
	tcase_add_test(t, workers_of_20_and_40_ms_save_twice_in_six_seconds);
	tcase_add_test(t, the_slowest_of_many_paces_reaches_the_last_step);
	tcase_add_test(t, a_missing_second_save_has_a_reason);
	tcase_add_test(t, a_worker_too_far_behind_for_a_second_save_is_named);
	suite_add_tcase(s, t);
	return suite_run(s);
}
