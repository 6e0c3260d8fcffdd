/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/natural.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Ascending, no two alike. */
static const char *const ascending[] = { "", "0", "00", "01", "1", "9", "10", "a", "a-1", "a-1-b",
	"a-1-c", "a-2-b", "a-10-a", "host", "host2", "host10", "node1", "node02", "node2",
	"node2.cluster", "node9", "node10", "node10.cluster", "node010x", "node010x1", "node99",
	"node100", "nodes", "rack2-node10", "rack10-node2", "x18446744073709551616",
	"x18446744073709551617", "x100000000000000000000", "\xc3\xa4" };

static int sign(int r)
{
	return r < 0 ? -1 : r > 0;
}

START_TEST(numbers_in_names_count_as_numbers)
{
	enum { N = sizeof(ascending) / sizeof(ascending[0]) };

	for (int i = 0; i < N; i++)
		for (int k = 0; k < N; k++) {
			int r = natural_compare(ascending[i], ascending[k]);

			ck_assert_msg(sign(r) == sign(i - k), "'%s' and '%s': %d", ascending[i],
				ascending[k], r);
		}
}
END_TEST

/* All texts of up to four characters of an alphabet that has what matters. */
static const char *text(int number, char *s)
{
	static const char alphabet[] = "01a";
	int n = 0;

	for (; number; number /= 4)
		if (number % 4)
			s[n++] = alphabet[number % 4 - 1];
	s[n] = '\0';
	return s;
}

START_TEST(the_order_is_total)
{
	enum { N = 256 };
	static int order[N][N];
	char a[8], b[8];

	for (int i = 0; i < N; i++)
		for (int k = 0; k < N; k++) {
			order[i][k] = sign(natural_compare(text(i, a), text(k, b)));
			if (!order[i][k] != !strcmp(a, b))
				ck_abort_msg("'%s' and '%s' are equal", a, b);
		}
	for (int i = 0; i < N; i++)
		for (int k = 0; k < N; k++) {
			if (order[i][k] != -order[k][i])
				ck_abort_msg("'%s' and '%s'", text(i, a), text(k, b));
			for (int j = 0; j < N; j++)
				if (order[i][k] < 0 && order[k][j] < 0 && order[i][j] >= 0)
					ck_abort_msg("a circle with '%s' and '%s'", text(i, a),
						text(k, b));
		}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("natural");
	TCase *t = tcase_create("natural");

	tcase_add_test(t, numbers_in_names_count_as_numbers);
	tcase_add_test(t, the_order_is_total);
	suite_add_tcase(s, t);
	return suite_run(s);
}
