/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/base64.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

static void expect(const void *data, size_t len, const char *text)
{
	_cleanup_free_ char *out = calloc(1, base64_length(len) + 1);
	_cleanup_free_ void *back = NULL;
	size_t n = 99;

	ck_assert_uint_eq(base64_length(len), strlen(text));
	base64_encode(data, len, out);
	ck_assert_str_eq(out, text);
	ck_assert_int_eq(base64_decode(text, strlen(text), &back, &n), 0);
	ck_assert_uint_eq(n, len);
	ck_assert_int_eq(memcmp(back, data, len), 0);
}

START_TEST(the_examples_of_the_rfc)
{
	expect("", 0, "");
	expect("f", 1, "Zg==");
	expect("fo", 2, "Zm8=");
	expect("foo", 3, "Zm9v");
	expect("foob", 4, "Zm9vYg==");
	expect("fooba", 5, "Zm9vYmE=");
	expect("foobar", 6, "Zm9vYmFy");
	expect("\xfb\xff\xbf", 3, "+/+/");
	expect("\0\0\0\0", 4, "AAAAAA==");
}
END_TEST

START_TEST(all_bytes_come_back)
{
	uint8_t data[257], *back;
	char text[400];
	size_t n;

	for (size_t len = 0; len <= sizeof(data); len++) {
		for (size_t i = 0; i < len; i++)
			data[i] = (uint8_t)(i * 7 + len);
		base64_encode(data, len, text);
		ck_assert_int_eq(base64_decode(text, base64_length(len), (void **)&back, &n), 0);
		ck_assert_uint_eq(n, len);
		ck_assert_int_eq(memcmp(back, data, len), 0);
		ck_assert_int_eq(back[n], 0);
		free(back);
	}
}
END_TEST

START_TEST(invalid_base64_is_refused)
{
	static const char *const bad[] = { "A", "AA", "AAA", "AAAAA", "====", "A===", "AA=A",
		"=AAA", "AA==AAAA", "AB==", "AAB=", "AA\n=", "AA-_", "AA A",
		"A\xc3\xa4"
		"A",
		NULL };

	for (int i = 0; bad[i]; i++) {
		void *back = NULL;
		size_t n;

		ck_assert_msg(
			base64_decode(bad[i], strlen(bad[i]), &back, &n) == -EINVAL, "%s", bad[i]);
		ck_assert_ptr_null(back);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("base64");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_examples_of_the_rfc);
	tcase_add_test(t, all_bytes_come_back);
	tcase_add_test(t, invalid_base64_is_refused);
	suite_add_tcase(s, t);
	return suite_run(s);
}
