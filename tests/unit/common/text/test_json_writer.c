/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/json_writer.h"

#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static struct json_writer w;

static void setup(void)
{
	w = (struct json_writer){ .data = NULL };
}

static void teardown(void)
{
	json_writer_fini(&w);
}

/* The text so far, with a NUL. */
static const char *written(void)
{
	json_write(&w, "", 1);
	return w.data;
}

/* The string that was written, read by a parser. */
static json_t *parsed(void)
{
	json_t *j = json_loadb(w.data, w.len, JSON_DECODE_ANY, NULL);

	ck_assert_msg(j != NULL, "%.*s", (int)w.len, w.data);
	return j;
}

START_TEST(each_text_comes_back_from_a_parser)
{
	static const char *const texts[] = { "", "plain", "\"\\/", "\x01\x1f\t\n", "\x7f",
		"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "ends in \"" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		for (int lossy = 0; lossy < 2; lossy++) {
			_cleanup_json_ json_t *j = NULL;

			w.len = 0;
			if (lossy)
				json_write_text(&w, texts[i]);
			else
				ck_assert_int_eq(
					json_write_string(&w, texts[i], strlen(texts[i])), 0);
			j = parsed();
			ck_assert_str_eq(json_string_value(j), texts[i]);
		}
	}
}
END_TEST

START_TEST(invalid_utf8_is_refused_or_replaced)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *lossy;
	} rows[] = {
		{ "a\xff"
		  "b",
			3,
			"a\xef\xbf\xbd"
			"b" },
		{ "a\0b", 3,
			"a\xef\xbf\xbd"
			"b" },
		{ "\xc3", 1, "\xef\xbf\xbd" },
		{ "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		_cleanup_json_ json_t *j = NULL, *same = NULL;

		w.len = 0;
		ck_assert_int_eq(json_write_string(&w, rows[i].bytes, rows[i].len), -EILSEQ);
		ck_assert_uint_eq(w.len, 0);
		json_write_lossy(&w, rows[i].bytes, rows[i].len);
		j = parsed();
		ck_assert_str_eq(json_string_value(j), rows[i].lossy);
		same = json_string_lossy(rows[i].bytes, rows[i].len);
		ck_assert(json_equal(j, same));
	}
}
END_TEST

START_TEST(numbers_and_bytes_are_written_whole)
{
	json_write(&w, "[", 1);
	json_write_int(&w, INT64_MIN);
	json_write(&w, ",", 1);
	json_write_base64(&w, "\xff\x00", 2);
	json_write(&w, ",", 1);
	json_write_base64(&w, NULL, 0);
	json_write_format(&w, ",%d]", 7);
	ck_assert_str_eq(written(), "[-9223372036854775808,\"/wA=\",\"\",7]");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("json_writer");
	TCase *t = tcase_create("json_writer");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, each_text_comes_back_from_a_parser);
	tcase_add_test(t, invalid_utf8_is_refused_or_replaced);
	tcase_add_test(t, numbers_and_bytes_are_written_whole);
	suite_add_tcase(s, t);
	return suite_run(s);
}
