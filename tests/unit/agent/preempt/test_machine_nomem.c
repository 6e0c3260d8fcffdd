/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each allocation fails once: the start of a worker is refused then, and nothing else is. Address
 * sanitizer and valgrind have an allocator of their own, which this test cannot stand before.
 */

#include "agent/preempt/machine.h"
#include "tests/unit/child.h"
#include "tests/unit/nomem.h"
#include "tests/unit/run.h"

#include <errno.h>

/* Check's assertions allocate, so the test counts errors instead. */
static int refused, wrong;

static int answers(struct preempt *p, enum preempt_order want)
{
	struct preempt_do d;
	int n = 0;

	while (preempt_next(p, &d) != PREEMPT_NOTHING) {
		struct preempt_sample s[2] = { { 0, true, true, 5, 6 }, { 40, true, true, 6, 7 } };

		if (d.what == PREEMPT_READ)
			preempt_read(p, s, 2, 10);
		if (d.what == PREEMPT_ANSWER && d.order == want)
			n++;
	}
	return n;
}

static void a_job(const struct spec_preemption *spec)
{
	struct preempt_notice notice = { 10, SPEC_UNSET, "operator", "no reason" };
	struct preempt *p = preempt_new(spec, 30000);
	int slots[2] = { 0, 40 };

	if (!p) {
		refused++;
		return;
	}
	for (int i = 0; i < 2; i++) {
		int r = preempt_started(p, slots[i], "worker");

		wrong += r != 0 && r != -ENOMEM;
		refused += r != 0;
		/* A second time there is memory. */
		if (r != 0)
			wrong += preempt_started(p, slots[i], "worker") != 0;
	}
	preempt_notice(p, &notice, false);
	wrong += answers(p, PREEMPT_EXIT) != 0;
	preempt_add_question(p, 0, 7, 11);
	preempt_add_question(p, 40, 7, 11);
	wrong += answers(p, PREEMPT_SAVE_EXIT) != 2;
	wrong += preempt_saved(p, 0, 7, 12) != 0;
	wrong += preempt_ended(p, 0, PREEMPT_END_LEFT, 13) != PREEMPT_LEFT;
	wrong += preempt_ended(p, 40, PREEMPT_END_LEFT, 13) != PREEMPT_LEFT;
	wrong += preempt_view(p).state != PREEMPT_OVER;
	preempt_free(p);
}

START_TEST(without_memory_one_start_is_refused_and_nothing_else)
{
	static const struct spec_preemption spec = { .grace_ms = SPEC_UNSET, .timeout_ms = 1000 };
	long all;

	which = ALONE;
	fail_at = -1;
	a_job(&spec);
	fail_at = 0;
	all = allocations;
	ck_assert_int_eq(wrong, 0);
	ck_assert_int_eq(refused, 0);
	for (long i = 1; i <= all; i++) {
		allocations = 0;
		fail_at = i;
		a_job(&spec);
		fail_at = 0;
		ck_assert_int_eq(wrong, 0);
		ck_assert_int_eq(refused, i);
	}
#ifndef __SANITIZE_ADDRESS__
	if (!under_valgrind())
		ck_assert_int_ge(
			all, 7); /* the machine; a name and the worker, twice; the table twice */
#endif
}
END_TEST

int main(void)
{
	Suite *s = suite_create("preempt_nomem");
	TCase *t = tcase_create("nomem");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, without_memory_one_start_is_refused_and_nothing_else);
	suite_add_tcase(s, t);
	return suite_run(s);
}
