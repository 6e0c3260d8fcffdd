/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/match.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finds exactly the texts of a line, for every way to cut it into two or three pieces. */
START_TEST(a_text_is_found_in_any_pieces)
{
	static const char *const texts[] = { "a", "ab", "aab", "abab", "bbbb", "aabab", "x", "" };
	static const char *const lines[] = { "", "a", "ab", "aabab", "abaab", "babababb",
		"bbabbb" };

	for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
		struct log_match m;

		ck_assert_int_eq(log_match_init(&m, texts[t]), 0);
		for (size_t l = 0; l < sizeof(lines) / sizeof(lines[0]); l++) {
			size_t len = strlen(lines[l]);
			bool is_there = strstr(lines[l], texts[t]) != NULL;

			for (size_t i = 0; i <= len; i++)
				for (size_t j = i; j <= len; j++) {
					log_match_piece(&m, lines[l], i, true);
					log_match_piece(&m, lines[l] + i, j - i, false);
					ck_assert_msg(log_match_piece(&m, lines[l] + j, len - j,
							      false) == is_there,
						"%s in %s at %zu, %zu", texts[t], lines[l], i, j);
				}
		}
		log_match_fini(&m);
	}
}
END_TEST

START_TEST(a_match_does_not_reach_into_the_next_line)
{
	struct log_match m;

	ck_assert_int_eq(log_match_init(&m, "ab"), 0);
	ck_assert(!log_match_piece(&m, "xa", 2, true));
	ck_assert(!log_match_piece(&m, "b", 1, true));
	ck_assert(log_match_piece(&m, "ab", 2, true));
	ck_assert(log_match_piece(&m, "more of it", 10, false));
	ck_assert(!log_match_piece(&m, "", 0, true));
	log_match_fini(&m);
}
END_TEST

START_TEST(without_a_text_all_lines_match)
{
	struct log_match m;

	ck_assert_int_eq(log_match_init(&m, NULL), 0);
	ck_assert(log_match_piece(&m, "", 0, true));
	ck_assert(log_match_piece(&m, "a", 1, true));
	log_match_fini(&m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log_match");
	TCase *c = tcase_create("log_match");

	tcase_add_test(c, a_text_is_found_in_any_pieces);
	tcase_add_test(c, a_match_does_not_reach_into_the_next_line);
	tcase_add_test(c, without_a_text_all_lines_match);
	suite_add_tcase(s, c);
	return suite_run(s);
}
