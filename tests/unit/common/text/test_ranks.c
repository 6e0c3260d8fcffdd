/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/ranks.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *text;
	const char *shortest;
	int count;
} good[] = {
	{ "0", "0", 1 },
	{ "0,3-7", "0,3-7", 6 },
	{ "7,6,5", "5-7", 3 },
	{ "1,2", "1,2", 2 },
	{ "0-0", "0", 1 },
	{ "3-7,0,1-4", "0-7", 8 },
	{ "0,2,4,1-3", "0-4", 5 },
	{ "5,5,5", "5", 1 },
	{ " 0 , 2 - 4 ", "0,2-4", 4 },
	{ "10-20,1-2,15-30,40", "1,2,10-30,40", 24 },
	{ "1048576", "1048576", 1 },
	{ "0-1048576", "0-1048576", 1048577 },
};

static const struct {
	const char *text;
	const char *why;
} bad[] = {
	{ "", "expected a set of ranks" },
	{ " ", "expected a set of ranks" },
	{ ",", "expected a set of ranks" },
	{ "0,", "expected a set of ranks" },
	{ ",0", "expected a set of ranks" },
	{ "0,,1", "expected a set of ranks" },
	{ "-1", "expected a set of ranks" },
	{ "1-", "expected a set of ranks" },
	{ "1-2-3", "expected a set of ranks" },
	{ "a", "expected a set of ranks" },
	{ "0 1", "expected a set of ranks" },
	{ "0;1", "expected a set of ranks" },
	{ "all", "expected a set of ranks" },
	{ "7-3", "from low to high" },
	{ "1048577", "from 0 to 1048576" },
	{ "0-99999999999999999999", "from 0 to 1048576" },
};

START_TEST(a_set_is_kept_sorted_and_joined)
{
	struct ranks r = { 0 };
	char *text;

	ck_assert_int_eq(ranks_parse(&r, good[_i].text, NULL, NULL), 0);
	text = ranks_to_string(&r);
	ck_assert_str_eq(text, good[_i].shortest);
	ck_assert_int_eq(ranks_count(&r), good[_i].count);
	free(text);
	ranks_fini(&r);
}
END_TEST

START_TEST(an_invalid_set_is_refused_with_the_reason)
{
	struct error err = { 0 };
	struct ranks r = { 0 };

	ck_assert_int_eq(ranks_parse(&r, bad[_i].text, "ranks", &err), -EINVAL);
	ck_assert_uint_eq(r.n_ranges, 0);
	ck_assert_ptr_nonnull(strstr(err.text, bad[_i].why));
	ck_assert_str_eq(err.field, "ranks");
}
END_TEST

/* Each of many sets of 16 ranks, built in a scrambled order, against a bit mask. */
START_TEST(a_set_contains_what_was_added_and_nothing_else)
{
	for (uint32_t mask = 1; mask < 65536; mask += (uint32_t)walk_length(37, 37, 1117)) {
		struct ranks r = { 0 }, again = { 0 };
		int seen = -1;
		uint32_t walked = 0;
		char *text;

		for (int i = 0; i < 16; i++)
			if (mask & (1u << (i * 7 % 16)))
				ck_assert_int_eq(ranks_add(&r, i * 7 % 16, i * 7 % 16), 0);
		text = ranks_to_string(&r);
		ck_assert_int_eq(ranks_parse(&again, text, NULL, NULL), 0);
		for (int i = 0; i < 18; i++) {
			bool member = i < 16 && (mask & (1u << i));

			ck_assert_int_eq(ranks_contains(&r, i), member);
			ck_assert_int_eq(ranks_contains(&again, i), member);
		}
		ck_assert_int_eq(ranks_count(&r), __builtin_popcount(mask));
		for (int i = ranks_next(&r, -1); i >= 0; i = ranks_next(&r, i)) {
			walked |= 1u << i;
			ck_assert_int_gt(i, seen);
			seen = i;
		}
		ck_assert_uint_eq(walked, mask);
		free(text);
		ranks_fini(&r);
		ranks_fini(&again);
	}
}
END_TEST

START_TEST(an_empty_set_has_no_members)
{
	struct ranks r = { 0 };

	ck_assert(!ranks_contains(&r, 0));
	ck_assert_int_eq(ranks_next(&r, -1), -1);
	ck_assert_int_eq(ranks_count(&r), 0);
}
END_TEST

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
	Suite *s = suite_create("ranks");
	TCase *t = tcase_create("ranks");

	tcase_add_loop_test(t, a_set_is_kept_sorted_and_joined, 0, N(good));
	tcase_add_loop_test(t, an_invalid_set_is_refused_with_the_reason, 0, N(bad));
	tcase_add_test(t, a_set_contains_what_was_added_and_nothing_else);
	tcase_add_test(t, an_empty_set_has_no_members);
	suite_add_tcase(s, t);
	return suite_run(s);
}
