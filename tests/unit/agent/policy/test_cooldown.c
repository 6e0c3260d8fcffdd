/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/cooldown.h"
#include "tests/unit/run.h"

#include <check.h>

static struct cooldown c;
static struct spec_health health;
static bool over;

static void setup(void)
{
	c = (struct cooldown){ 0 };
	health = (struct spec_health){ .failures = 3, .window_ms = 60000, .cooldown_ms = 600000 };
}

static uint64_t fails_at(uint64_t now_ms)
{
	return cooldown_failed(&c, &health, now_ms, &over);
}

START_TEST(the_wait_doubles_until_the_host_cools_down)
{
	ck_assert_uint_eq(fails_at(1000), 1000);
	ck_assert(!over);
	ck_assert_uint_eq(fails_at(2000), 2000);
	ck_assert(!over);
	ck_assert_uint_eq(fails_at(4000), 600000);
	ck_assert(over);
	/* Then it has as many tries again. */
	ck_assert_uint_eq(fails_at(604000), 1000);
	ck_assert(!over);
}
END_TEST

START_TEST(failures_before_the_window_do_not_count)
{
	fails_at(1000);
	fails_at(2000);
	ck_assert_uint_eq(fails_at(61000), 2000);
	ck_assert(!over);
	ck_assert_uint_eq(fails_at(61999), 600000);
	ck_assert(over);
}
END_TEST

START_TEST(the_wait_has_a_limit)
{
	health.failures = SPEC_HEALTH_FAILURES_MAX;
	for (int i = 1; i < SPEC_HEALTH_FAILURES_MAX; i++)
		ck_assert_uint_eq(fails_at((uint64_t)i), i < 7 ? 1000u << (i - 1) : 60000u);
	ck_assert_uint_eq(fails_at(99), 600000);
	health.failures = 1;
	ck_assert_uint_eq(fails_at(100), 600000);
	ck_assert(over);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cooldown");
	TCase *t = tcase_create("cooldown");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, the_wait_doubles_until_the_host_cools_down);
	tcase_add_test(t, failures_before_the_window_do_not_count);
	tcase_add_test(t, the_wait_has_a_limit);
	suite_add_tcase(s, t);
	return suite_run(s);
}
