/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/topology.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_topology_has_parts_and_no_empty_one)
{
	static const char *const good[] = { "a", "pod3/rack7/node12", "-", "s[0,2]/s5/n.x",
		"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16" };
	static const char *const bad[] = { "", "/", "a/", "/a", "a//b", "a b", "a\tb", "a\"b",
		"a'b", "a\\b", "\xc3\xa4", "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17" };
	char longest[TOPOLOGY_TEXT_MAX + 1];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(topology_is(good[i]), "%s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!topology_is(bad[i]), "%s", bad[i]);
	memset(longest, 'x', sizeof(longest));
	longest[TOPOLOGY_TEXT_MAX] = '\0';
	ck_assert(!topology_is(longest));
	longest[TOPOLOGY_TEXT_MAX - 1] = '\0';
	ck_assert(topology_is(longest));
}
END_TEST

static int compared(const char *a, const char *b, int depth)
{
	_cleanup_free_ char *x = topology_parts(a), *y = topology_parts(b);

	ck_assert(x && y);
	ck_assert_uint_eq(topology_bytes(x), strlen(a) + 2);
	ck_assert_int_eq(topology_compare(x, y, depth) > 0, topology_compare(y, x, depth) < 0);
	return topology_compare(x, y, depth);
}

START_TEST(the_order_is_that_of_parts)
{
	ck_assert_int_lt(compared("pod2/b", "pod10/a", 16), 0);
	ck_assert_int_lt(compared("pod/z", "pod-1/a", 16), 0); /* '-' stands before '/' */
	ck_assert_int_lt(compared("p/r2", "p/r10", 16), 0);
	ck_assert_int_eq(compared("p/r2", "p/r10", 1), 0);
	ck_assert_int_lt(compared("p", "p/r", 2), 0);
	ck_assert_int_eq(compared("p", "p/r", 1), 0);
	ck_assert_int_eq(compared("p/r", "p/r", 16), 0);
	/* Equal numbers that are written unlike are two parts. */
	ck_assert_int_ne(compared("pod1/x", "pod01/x", 1), 0);
}
END_TEST

enum { MOST = 8 };
static struct topology_vacancy vacancies[MOST];
static struct topology_spare spares[MOST];
static char *parts[2 * MOST];
static int n, m;

static void begin(void)
{
	n = m = 0;
}

static void vacancy(const char *text)
{
	parts[n] = topology_parts(text);
	vacancies[n] = (struct topology_vacancy){ .rank = n, .parts = parts[n] };
	n++;
}

static void spare(const char *text)
{
	parts[MOST + m] = topology_parts(text);
	spares[m] = (struct topology_spare){
		.parts = parts[MOST + m], .turn = (uint64_t)m, .rank = -1
	};
	m++;
}

/* "0>1 2>0": spare 0 gets the place of rank 1. */
static const char *match(int ret_left)
{
	static char text[256];
	size_t len = 0;
	int all = n;

	ck_assert_int_eq(topology_match(vacancies, n, spares, m), ret_left);
	*text = '\0';
	for (int turn = 0; turn < m; turn++)
		for (int i = 0; i < m; i++)
			if (spares[i].turn == (uint64_t)turn && spares[i].rank >= 0)
				len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d>%d",
					len ? " " : "", turn, spares[i].rank);
	for (int i = 0; i < all; i++)
		free(parts[i]);
	for (int i = 0; i < m; i++)
		free(parts[MOST + i]);
	return text;
}

START_TEST(the_nearest_spare_gets_the_place)
{
	begin();
	vacancy("p1/r1/a");
	spare("p2/r1/x");
	spare("p1/r2/y");
	spare("p1/r1/z");
	ck_assert_str_eq(match(0), "2>0");
	begin();
	vacancy("p1/r1/a");
	vacancy("p1/r2/b");
	spare("p1/r2/y");
	spare("p1/r3/x");
	ck_assert_str_eq(match(0), "0>1 1>0");
}
END_TEST

START_TEST(of_equal_spares_the_first_gets_the_place)
{
	begin();
	vacancy("p/r");
	spare("p/r");
	spare("p/r");
	ck_assert_str_eq(match(0), "0>0");
}
END_TEST

START_TEST(spares_that_share_nothing_get_no_place)
{
	begin();
	vacancy("p1/r1");
	vacancy("p3/r1");
	spare("p2/r1");
	spare("");
	spare("p3");
	ck_assert_str_eq(match(1), "2>1");
	ck_assert_int_eq(vacancies[0].rank, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("topology");
	TCase *t = tcase_create("topology");

	tcase_add_test(t, a_topology_has_parts_and_no_empty_one);
	tcase_add_test(t, the_order_is_that_of_parts);
	tcase_add_test(t, the_nearest_spare_gets_the_place);
	tcase_add_test(t, of_equal_spares_the_first_gets_the_place);
	tcase_add_test(t, spares_that_share_nothing_get_no_place);
	suite_add_tcase(s, t);
	return suite_run(s);
}
