/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/stdmap.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const good[] = { "0", "1", "2", "3", "0:1", "0:1,1:1", "0:1,12:3", "0:0",
	"1048576:2", "0:3,1:2,2:1,3:0" };

static const struct {
	const char *text;
	const char *why;
} bad[] = {
	{ "", "expected 0, 1 (stdout)" },
	{ "4", "expected 0, 1 (stdout)" },
	{ "11", "expected 0, 1 (stdout)" },
	{ "00", "expected 0, 1 (stdout)" },
	{ "-1", "expected 0, 1 (stdout)" },
	{ "0:1,", "expected 0, 1 (stdout)" },
	{ ",0:1", "expected 0, 1 (stdout)" },
	{ "0:1,1", "expected 0, 1 (stdout)" },
	{ "1,0:1", "expected 0, 1 (stdout)" },
	{ "0:4", "expected 0, 1 (stdout)" },
	{ "0:11", "expected 0, 1 (stdout)" },
	{ "0:", "expected 0, 1 (stdout)" },
	{ ":1", "expected 0, 1 (stdout)" },
	{ "0=1", "expected 0, 1 (stdout)" },
	{ "0:1 ", "expected 0, 1 (stdout)" },
	{ "3 ", "expected 0, 1 (stdout)" },
	{ "0:1,0:2", "rank 0 is named twice" },
	{ "7:1,3:1,7:1", "rank 7 is named twice" },
	{ "1048577:1", "ranks from 0 to 1048576" },
	{ "99999999999999999999:1", "ranks from 0 to 1048576" },
};

START_TEST(a_map_reads_back_as_it_was_written)
{
	struct std_map map = { 0 };
	char *text;

	ck_assert_int_eq(std_map_parse(&map, good[_i], "logs.tee", NULL), 0);
	text = std_map_to_string(&map);
	ck_assert_str_eq(text, good[_i]);
	free(text);
	std_map_fini(&map);
}
END_TEST

START_TEST(a_broken_map_is_refused_and_leaves_the_old_one)
{
	struct std_map map = { .def = 2 };
	struct error err = { 0 };

	ck_assert_int_eq(std_map_parse(&map, bad[_i].text, "logs.tee", &err), -EINVAL);
	ck_assert_str_eq(err.field, "logs.tee");
	ck_assert_ptr_nonnull(strstr(err.text, bad[_i].why));
	ck_assert_int_eq(map.def, 2);
	ck_assert_ptr_null(map.items);
}
END_TEST

START_TEST(a_number_holds_for_all_ranks_and_a_map_for_those_it_names)
{
	struct std_map map = { 0 };

	ck_assert_int_eq(std_map_parse(&map, "3", "r", NULL), 0);
	ck_assert_int_eq(std_map_get(&map, 0), STD_BOTH);
	ck_assert_int_eq(std_map_get(&map, 1000000), STD_BOTH);
	ck_assert(!std_map_empty(&map));

	ck_assert_int_eq(std_map_parse(&map, "12:3,0:1,100:2,5:0", "r", NULL), 0);
	ck_assert_int_eq(std_map_get(&map, 0), STD_OUT);
	ck_assert_int_eq(std_map_get(&map, 12), STD_BOTH);
	ck_assert_int_eq(std_map_get(&map, 100), STD_ERR);
	ck_assert_int_eq(std_map_get(&map, 5), STD_NONE);
	ck_assert_int_eq(std_map_get(&map, 1), STD_NONE);
	ck_assert_int_eq(std_map_get(&map, 101), STD_NONE);
	ck_assert(!std_map_empty(&map));

	ck_assert_int_eq(std_map_parse(&map, "1:0,7:0", "r", NULL), 0);
	ck_assert(std_map_empty(&map));
	ck_assert_int_eq(std_map_parse(&map, "0", "r", NULL), 0);
	ck_assert(std_map_empty(&map));
	std_map_fini(&map);
}
END_TEST

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
	Suite *s = suite_create("stdmap");
	TCase *t = tcase_create("stdmap");

	tcase_add_loop_test(t, a_map_reads_back_as_it_was_written, 0, N(good));
	tcase_add_loop_test(t, a_broken_map_is_refused_and_leaves_the_old_one, 0, N(bad));
	tcase_add_test(t, a_number_holds_for_all_ranks_and_a_map_for_those_it_names);
	suite_add_tcase(s, t);
	return suite_run(s);
}
