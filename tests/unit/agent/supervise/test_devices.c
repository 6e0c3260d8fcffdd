/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/devices.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

static char d0[] = "0", d1[] = "1", d2[] = "2", d3[] = "3", d4[] = "GPU-4";
static char *all[] = { d0, d1, d2, d3, d4, NULL };

static const struct {
	enum spec_devices_assign assign;
	int count, n;
	const char *shares[4]; /* by place; the last one is an added worker's */
} rows[] = {
	{ SPEC_DEVICES_STRIDE, 4, 2, { "0,2", "1,3", "" } },
	{ SPEC_DEVICES_STRIDE, 5, 2, { "0,2,GPU-4", "1,3", "" } },
	{ SPEC_DEVICES_STRIDE, 3, 3, { "0", "1", "2", "" } },
	{ SPEC_DEVICES_STRIDE, 3, 1, { "0,1,2", "" } },
	{ SPEC_DEVICES_BLOCK, 4, 2, { "0,1", "2,3", "" } },
	{ SPEC_DEVICES_BLOCK, 5, 2, { "0,1,2", "3,GPU-4", "" } },
	{ SPEC_DEVICES_BLOCK, 5, 3, { "0,1", "2,3", "GPU-4", "" } },
	{ SPEC_DEVICES_BLOCK, 3, 1, { "0,1,2", "" } },
	{ SPEC_DEVICES_ONE, 4, 2, { "0", "1", "2" } },
	{ SPEC_DEVICES_ONE, 2, 2, { "0", "1", "" } },
	{ SPEC_DEVICES_ALL, 3, 2, { "0,1,2", "0,1,2", "0,1,2" } },
	{ SPEC_DEVICES_ALL, 1, 3, { "0", "0", "0", "0" } },
};

START_TEST(a_share_is_as_the_rule_says)
{
	char *ids[6] = { 0 };
	struct spec_devices devices = { .ids = ids, .assign = rows[_i].assign };

	memcpy(ids, all, sizeof(*ids) * (size_t)rows[_i].count);
	for (int place = 0; place <= rows[_i].n; place++) {
		_cleanup_free_ char *share = NULL;

		ck_assert_int_eq(
			devices_share(&devices, place, rows[_i].n, place == rows[_i].n, &share), 0);
		ck_assert_str_eq(share, rows[_i].shares[place]);
	}
}
END_TEST

/* For any numbers, every device goes to one worker, and shares differ by at most one device. */
START_TEST(every_device_goes_to_one_worker)
{
	enum { MOST = 24 };
	static char names[MOST][4];
	char *ids[MOST + 1] = { 0 };
	struct spec_devices devices = { .ids = ids,
		.assign = _i ? SPEC_DEVICES_BLOCK : SPEC_DEVICES_STRIDE };

	for (int count = 1; count <= MOST; count++) {
		snprintf(names[count - 1], sizeof(names[0]), "%d", count - 1);
		ids[count - 1] = names[count - 1];
		for (int n = 1; n <= count; n++) {
			int owners[MOST] = { 0 }, least = count / n;

			for (int place = 0; place < n; place++) {
				_cleanup_free_ char *share = NULL;
				char *save = NULL;
				int mine = 0;

				ck_assert_int_eq(
					devices_share(&devices, place, n, false, &share), 0);
				for (char *w = strtok_r(share, ",", &save); w;
					w = strtok_r(NULL, ",", &save), mine++)
					owners[atoi(w)]++;
				ck_assert_int_ge(mine, least);
				ck_assert_int_le(mine, least + 1);
			}
			for (int i = 0; i < count; i++)
				ck_assert_int_eq(owners[i], 1);
		}
	}
}
END_TEST

START_TEST(fewer_devices_than_workers_are_an_error_unless_all_see_all)
{
	char *ids[] = { d0, d1, NULL };

	for (int assign = SPEC_DEVICES_STRIDE; assign <= SPEC_DEVICES_ALL; assign++) {
		struct spec_devices devices = { .ids = ids, .assign = assign };
		_cleanup_free_ char *share = NULL;

		ck_assert_int_eq(devices_share(&devices, 0, 3, false, &share),
			assign == SPEC_DEVICES_ALL ? 0 : -ERANGE);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("devices");
	TCase *t = tcase_create("devices");

	tcase_add_loop_test(t, a_share_is_as_the_rule_says, 0, N(rows));
	tcase_add_loop_test(t, every_device_goes_to_one_worker, 0, 2);
	tcase_add_test(t, fewer_devices_than_workers_are_an_error_unless_all_see_all);
	suite_add_tcase(s, t);
	return suite_run(s);
}
