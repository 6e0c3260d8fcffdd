/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/size.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *text;
	int64_t bytes;
} good[] = {
	{ "0", 0 },
	{ "512", 512 },
	{ "512B", 512 },
	{ "10K", 10240 },
	{ "10KiB", 10240 },
	{ "10M", 10485760 },
	{ "1GiB", 1073741824 },
	{ "2T", INT64_C(2) << 40 },
	{ "3P", INT64_C(3) << 50 },
	{ "7E", INT64_C(7) << 60 },
	{ "9223372036854775807", INT64_MAX },
};

static const char *const bad[] = { "", "M", "-1", "-1M", "+1", "1.5G", "10m", "10k", "10Mi",
	"10MiBs", "1 G", " 1", "1 ", "10X", "0x10", "10MM", "10iB" };
static const char *const huge[] = { "8E", "9223372036854775808", "99999999999999999999",
	"9007199254740992K", "18446744073709551615T" };

START_TEST(suffixes_are_powers_of_1024)
{
	int64_t bytes = -7;

	ck_assert_int_eq(size_parse(good[_i].text, NULL, &bytes, NULL), 0);
	ck_assert_int_eq(bytes, good[_i].bytes);
}
END_TEST

START_TEST(an_invalid_size_is_refused_by_name)
{
	struct error err = { 0 };
	int64_t bytes = -7;

	ck_assert_int_eq(size_parse(bad[_i], "logs.max_size", &bytes, &err), -EINVAL);
	ck_assert_int_eq(bytes, -7);
	ck_assert_ptr_nonnull(strstr(err.text, "logs.max_size: expected a size such as"));
}
END_TEST

START_TEST(a_size_that_overflows_is_refused)
{
	struct error err = { 0 };
	int64_t bytes = -7;

	ck_assert_int_eq(size_parse(huge[_i], NULL, &bytes, &err), -EINVAL);
	ck_assert_int_eq(bytes, -7);
	ck_assert_ptr_nonnull(strstr(err.text, "below 8E"));
}
END_TEST

START_TEST(an_ambiguous_suffix_says_what_to_write_instead)
{
	struct error err = { 0 };
	int64_t bytes;

	ck_assert_int_eq(size_parse("10MB", NULL, &bytes, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "\"10MB\" is ambiguous, write MiB"));
}
END_TEST

START_TEST(formatting_reads_back_the_same)
{
	static const int64_t values[] = { 0, 1, 1023, 1024, 1025, 1536, 1048576, 3145728,
		INT64_C(1) << 62, INT64_MAX };
	char buf[SIZE_TEXT_MAX];
	int64_t back;

	ck_assert_str_eq(size_format(10485760, buf), "10M");
	ck_assert_str_eq(size_format(1536, buf), "1536");
	ck_assert_str_eq(size_format(INT64_C(1) << 62, buf), "4E");
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		ck_assert_int_eq(size_parse(size_format(values[i], buf), NULL, &back, NULL), 0);
		ck_assert_int_eq(back, values[i]);
	}
}
END_TEST

START_TEST(people_read_three_digits)
{
	char buf[SIZE_TEXT_MAX];

	ck_assert_str_eq(size_text(0, buf), "0 B");
	ck_assert_str_eq(size_text(812, buf), "812 B");
	ck_assert_str_eq(size_text(1023, buf), "1023 B");
	ck_assert_str_eq(size_text(1024, buf), "1.0 KiB");
	ck_assert_str_eq(size_text(99635, buf), "97.3 KiB");
	ck_assert_str_eq(size_text(1048575, buf), "1.0 MiB");
	ck_assert_str_eq(size_text(1610612736, buf), "1.5 GiB");
	ck_assert_str_eq(size_text(INT64_MAX, buf), "8.0 EiB");
}
END_TEST

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
	Suite *s = suite_create("size");
	TCase *t = tcase_create("size");

	tcase_add_loop_test(t, suffixes_are_powers_of_1024, 0, N(good));
	tcase_add_loop_test(t, an_invalid_size_is_refused_by_name, 0, N(bad));
	tcase_add_loop_test(t, a_size_that_overflows_is_refused, 0, N(huge));
	tcase_add_test(t, an_ambiguous_suffix_says_what_to_write_instead);
	tcase_add_test(t, formatting_reads_back_the_same);
	tcase_add_test(t, people_read_three_digits);
	suite_add_tcase(s, t);
	return suite_run(s);
}
