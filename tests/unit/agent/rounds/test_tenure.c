/* SPDX-License-Identifier: Apache-2.0 */
/* How long a head leads, and when the next one begins: agent/rounds/tenure.h by numbers. */
#include "agent/rounds/tenure.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>

enum { LEASE = 10000, LOSS = 600000, TTL = 10000 };

static const struct tenure_times times = { .lease_ms = LEASE, .store_loss_ms = LOSS };

START_TEST(a_lead_is_confirmed_until_a_tenth_before_its_lease_ends)
{
	struct tenure t;

	tenure_begin(&t, &times);
	ck_assert(!tenure_confirmed(&t, 0));
	tenure_kept(&t, 50000, TTL);
	ck_assert(tenure_confirmed(&t, 58999));
	ck_assert(!tenure_confirmed(&t, 59000));
	tenure_kept(&t, 49000, TTL); /* an answer to an earlier request says less */
	ck_assert(tenure_confirmed(&t, 58999));
	tenure_kept(&t, 60000, 0); /* the lease has ended */
	ck_assert(!tenure_confirmed(&t, 60000));
}
END_TEST

START_TEST(a_head_without_the_store_leads_while_all_acknowledge)
{
	struct tenure t;

	tenure_begin(&t, &times);
	tenure_kept(&t, 50000, TTL);
	ck_assert_uint_eq(tenure_until_ms(&t, 0), 59000);
	ck_assert_uint_eq(tenure_until_ms(&t, 70000), 76000);
	ck_assert_uint_eq(tenure_until_ms(&t, 900000), 59000 + LOSS);
	ck_assert_uint_eq(tenure_until_ms(&t, TENURE_NEVER), 59000 + LOSS);
	tenure_lost(&t);
	ck_assert(!tenure_confirmed(&t, 50000));
	ck_assert_uint_eq(tenure_until_ms(&t, 70000), 0);
}
END_TEST

START_TEST(a_lead_that_is_gone_from_the_store_is_confirmed_no_longer)
{
	struct tenure t;

	tenure_begin(&t, &times);
	tenure_kept(&t, 50000, TTL);
	tenure_gone(&t, 52000);
	ck_assert(!tenure_confirmed(&t, 52000));
	ck_assert_uint_eq(tenure_until_ms(&t, 51000), 57000);
	tenure_kept(&t, 52001, TTL);
	tenure_gone(&t, 90000);
	ck_assert_uint_eq(tenure_until_ms(&t, 0), 61001);
}
END_TEST

START_TEST(a_head_leads_on_where_no_other_has_led)
{
	static const struct {
		struct tenure_keys keys;
		enum tenure_right verdict;
	} rows[] = {
		{ { TENURE_KNOWN, TENURE_OTHER, TENURE_OTHER, true }, TENURE_LEADS },
		{ { TENURE_OTHER, TENURE_KNOWN, TENURE_KNOWN, false }, TENURE_OVER },
		{ { TENURE_NONE, TENURE_KNOWN, TENURE_KNOWN, true }, TENURE_RECLAIM },
		{ { TENURE_NONE, TENURE_NONE, TENURE_KNOWN, false }, TENURE_RECLAIM_ALL },
		{ { TENURE_NONE, TENURE_KNOWN, TENURE_NONE, false }, TENURE_RECLAIM_ALL },
		{ { TENURE_NONE, TENURE_NONE, TENURE_NONE, true }, TENURE_OVER },
		{ { TENURE_NONE, TENURE_OTHER, TENURE_KNOWN, false }, TENURE_OVER },
		{ { TENURE_NONE, TENURE_NONE, TENURE_OTHER, false }, TENURE_OVER },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_int_eq(tenure_check(&rows[i].keys), rows[i].verdict);
}
END_TEST

START_TEST(hosts_that_join_tell_the_next_head_when_the_others_are_gone)
{
	struct tenure_past p;

	tenure_past_begin(&p, &times, 100000);
	ck_assert_uint_eq(tenure_past_gone_ms(&p, true), 100000 + LOSS + LEASE);
	ck_assert_uint_eq(tenure_past_gone_ms(&p, false), 100000 + LOSS + LEASE);
	tenure_past_heard(&p, 99000);
	ck_assert_uint_eq(tenure_past_gone_ms(&p, true), 106000);
	ck_assert_uint_eq(tenure_past_gone_ms(&p, false), 115000);
	tenure_past_heard(&p, 90000);
	tenure_past_heard(&p, 98000);
	ck_assert_uint_eq(tenure_past_gone_ms(&p, true), 100000);  /* 97000 is before that */
	ck_assert_uint_eq(tenure_past_gone_ms(&p, false), 110000); /* and so is 106000 */
}
END_TEST

START_TEST(the_deputy_goes_first)
{
	ck_assert_uint_eq(tenure_turn_ms(-1, 0, 0), 0);
	ck_assert_uint_eq(tenure_turn_ms(1, 0, 4), 0);
	ck_assert_uint_eq(tenure_turn_ms(0, 3, 4), 0);
	ck_assert_uint_eq(tenure_turn_ms(0, 0, 4), 200);
	ck_assert_uint_eq(tenure_turn_ms(3, 0, 4), 203);
	ck_assert_uint_eq(tenure_turn_ms(-1, 0, 4), 204);
	ck_assert_uint_eq(tenure_turn_ms(0, 0, 1), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tenure");
	TCase *t = tcase_create("tenure");

	tcase_add_test(t, a_lead_is_confirmed_until_a_tenth_before_its_lease_ends);
	tcase_add_test(t, a_head_without_the_store_leads_while_all_acknowledge);
	tcase_add_test(t, a_lead_that_is_gone_from_the_store_is_confirmed_no_longer);
	tcase_add_test(t, a_head_leads_on_where_no_other_has_led);
	tcase_add_test(t, hosts_that_join_tell_the_next_head_when_the_others_are_gone);
	tcase_add_test(t, the_deputy_goes_first);
	suite_add_tcase(s, t);
	return suite_run(s);
}
