/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue/payload.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The line of a result with this value. */
static char *result(const char *value, size_t len, const char *format)
{
	json_t *outcome = json_pack("{si ss ss% ss sn s{ss}}", "task", 7, "state", "succeeded",
		"value", value, len, "format", format, "error", "worker", "code", "x\ny");
	size_t n = 0;
	char *line;

	ck_assert_ptr_nonnull(outcome);
	line = payload_result(outcome, &n);
	json_decref(outcome);
	ck_assert_ptr_nonnull(line);
	ck_assert_uint_eq(n, strlen(line));
	ck_assert_ptr_null(strchr(line, '\n'));
	return line;
}

static void expect_bytes(const char *value, size_t len, const char *format, const char *shown)
{
	_cleanup_free_ char *line = result(value, len, format), *expected = NULL;

	ck_assert_int_gt(
		asprintf(&expected,
			"{\"task\":7,\"state\":\"succeeded\",\"value\":%s,\"format\":\"%s\","
			"\"worker\":{\"code\":\"x\\ny\"}}",
			shown, format),
		0);
	ck_assert_str_eq(line, expected);
}

static void expect(const char *value, const char *format, const char *shown)
{
	expect_bytes(value, strlen(value), format, shown);
}

START_TEST(numbers_are_shown_as_they_are_written)
{
	static const char *const numbers[] = { "0", "-0", "-0.0", "0.1", "0.10", "1e2", "1E+2",
		"12345678901234567890", "-123456789012345678901234567890", "9223372036854775807",
		"9223372036854775808", "3.14159265358979323846264338327950288" };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		expect(numbers[i], "json", numbers[i]);
	expect("[0.1, 12345678901234567890]", "json", "[0.1,12345678901234567890]");
}
END_TEST

START_TEST(white_space_outside_strings_is_removed)
{
	expect(" \t{ \"a b\" :\r\n [ 1 ,\n\t2 ] }\n", "json", "{\"a b\":[1,2]}");
	expect("\" a \\\" b \\\\\"", "json", "\" a \\\" b \\\\\"");
	expect("[ \"\\\\\" , \"\\\"\" ]", "json", "[\"\\\\\",\"\\\"\"]");
	expect("\"\\u0000 \\n\"", "json", "\"\\u0000 \\n\"");
	expect("true\n", "json", "true");
}
END_TEST

START_TEST(text_that_is_no_single_json_value_is_a_string)
{
	expect("1 2", "json", "\"1 2\"");
	expect("{", "json", "\"{\"");
	expect("", "json", "\"\"");
	expect("nan", "json", "\"nan\"");
	expect("\"a\nb\"", "json", "\"\\\"a\\nb\\\"\"");
	expect("1} , {", "json", "\"1} , {\"");
	expect_bytes("1\0", 2, "json", "\"1\\u0000\"");
	expect_bytes("1\0]", 3, "json", "\"1\\u0000]\"");
	expect("1", "text", "\"1\"");
	expect(" 1 ", "", "\" 1 \"");
}
END_TEST

START_TEST(an_outcome_without_members_is_an_empty_object)
{
	_cleanup_json_ json_t *outcome = json_pack("{sn}", "value");
	_cleanup_free_ char *line = payload_result(outcome, NULL);

	ck_assert_str_eq(line, "{}");
}
END_TEST

static int check(const char *text, const char *left)
{
	struct error err = { 0 };
	size_t len = strlen(text);
	int r = payload_check_json(&text, &len, &err);

	ck_assert_int_eq(r != 0, err.text[0] != '\0');
	if (r == 0) {
		ck_assert_uint_eq(len, strlen(left));
		ck_assert_int_eq(memcmp(text, left, len), 0);
	}
	return r;
}

START_TEST(a_value_is_checked_without_the_space_around_it)
{
	ck_assert_int_eq(check(" [1]\r", "[1]"), 0);
	ck_assert_int_eq(check("12345678901234567890", "12345678901234567890"), 0);
	ck_assert_int_eq(check("\xef\xbb\xbf{\"a\": 1}", "{\"a\": 1}"), 0);
	ck_assert_int_eq(check("\xef\xbb\xbf", ""), -ENODATA);
	ck_assert_int_eq(check(" \t\r", ""), -ENODATA);
	ck_assert_int_eq(check("", ""), -ENODATA);
	ck_assert_int_eq(check("1 2", ""), -EINVAL);
	ck_assert_int_eq(check("\xef\xbb\xbf\xef\xbb\xbf"
			       "1",
				 ""),
		-EINVAL);
	ck_assert_int_eq(check("{\"a\":1,\"a\":2}", ""), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("payload");
	TCase *t = tcase_create("payload");

	tcase_add_test(t, numbers_are_shown_as_they_are_written);
	tcase_add_test(t, white_space_outside_strings_is_removed);
	tcase_add_test(t, text_that_is_no_single_json_value_is_a_string);
	tcase_add_test(t, an_outcome_without_members_is_an_empty_object);
	tcase_add_test(t, a_value_is_checked_without_the_space_around_it);
	suite_add_tcase(s, t);
	return suite_run(s);
}
