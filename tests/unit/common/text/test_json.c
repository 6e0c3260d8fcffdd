/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static struct error err;

static int parse(const char *text)
{
	_cleanup_json_ json_t *j = NULL;

	err = (struct error){ 0 };
	return json_parse(text, strlen(text), &j, &err);
}

static void assert_dump(const json_t *j, const char *expected)
{
	_cleanup_free_ char *text = json_dump_text(j, NULL);

	ck_assert_str_eq(text, expected);
}

START_TEST(setters_put_what_is_given_and_skip_null_strings)
{
	_cleanup_json_ json_t *j = json_object();

	ck_assert_int_eq(json_put_string(j, "s", "text"), 0);
	ck_assert_int_eq(json_put_string(j, "none", NULL), 0);
	ck_assert_int_eq(json_put_int(j, "i", INT64_MIN), 0);
	ck_assert_int_eq(json_put(j, "b", json_true()), 0);
	ck_assert_int_eq(json_put(j, "a", json_array()), 0);
	ck_assert_int_eq(json_add(json_object_get(j, "a"), json_integer(1)), 0);
	assert_dump(j, "{\"s\":\"text\",\"i\":-9223372036854775808,\"b\":true,\"a\":[1]}");
}
END_TEST

START_TEST(notes_stand_one_behind_the_other)
{
	_cleanup_json_ json_t *j = json_object();

	ck_assert_int_eq(json_put_note(j, "a"), 0);
	ck_assert_int_eq(json_put_note(j, "b"), 0);
	assert_dump(j, "{\"note\":\"a; b\"}");
}
END_TEST

START_TEST(setters_own_the_value_also_when_they_fail)
{
	_cleanup_json_ json_t *j = json_object();
	_cleanup_json_ json_t *kept = json_object();

	json_incref(kept);
	ck_assert_int_eq(json_put(NULL, "k", kept), -ENOMEM);
	ck_assert_uint_eq(kept->refcount, 1);
	json_incref(kept);
	ck_assert_int_eq(json_add(j, kept), -ENOMEM);
	ck_assert_uint_eq(kept->refcount, 1);
	ck_assert_int_eq(json_put(j, "k", NULL), -ENOMEM);
	ck_assert_int_eq(json_put_string(NULL, "k", "x"), -ENOMEM);
}
END_TEST

START_TEST(bytes_that_are_not_text_become_replacement_characters)
{
	_cleanup_json_ json_t *j = json_object();
	_cleanup_json_ json_t *nul = json_string_lossy("a\0b", 3);

	ck_assert_int_eq(json_put_string(j, "s", "a\xff\xc3\xa4\xe2\x82"), 0);
	ck_assert_str_eq(
		json_get_string(j, "s", ""), "a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd");
	ck_assert_str_eq(json_string_value(nul), "a\xef\xbf\xbd"
						 "b");
}
END_TEST

START_TEST(getters_give_the_default_for_a_missing_member_or_another_type)
{
	_cleanup_json_ json_t *j = json_pack("{s:s,s:i,s:b,s:{},s:[],s:f,s:n}", "s", "x", "i", 5,
		"b", 1, "o", "a", "f", 1.5, "n");

	ck_assert_str_eq(json_get_string(j, "s", "d"), "x");
	ck_assert_str_eq(json_get_string(j, "i", "d"), "d");
	ck_assert_ptr_null(json_get_string(j, "none", NULL));
	ck_assert_ptr_null(json_get_string(NULL, "s", NULL));
	ck_assert_int_eq(json_get_int(j, "i", -1), 5);
	ck_assert_int_eq(json_get_int(j, "f", -1), -1);
	ck_assert(json_get_bool(j, "b", false));
	ck_assert(json_get_bool(j, "i", true));
	ck_assert(json_is_object(json_get_object(j, "o")));
	ck_assert_ptr_null(json_get_object(j, "a"));
	ck_assert(json_is_array(json_get_array(j, "a")));
	ck_assert_ptr_null(json_get_array(j, "n"));
	ck_assert_str_eq(json_type_name(json_object_get(j, "f")), "a number");
	ck_assert_str_eq(json_type_name(json_object_get(j, "n")), "null");
	ck_assert_str_eq(json_type_name(NULL), "nothing");
}
END_TEST

START_TEST(errors_name_line_and_column)
{
	ck_assert_int_eq(parse("{\n  \"a\": 1,\n  \"b\" 2\n}"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "line 3, column "));
	ck_assert_ptr_nonnull(strstr(err.text, "':' expected"));
}
END_TEST

START_TEST(invalid_json_is_refused)
{
	static const char *const bad[] = { "", "1", "\"x\"", "{\"a\":1,\"a\":2}", "{} {}", "[1,]",
		"{'a':1}", "[\"\\u0000\"]", "[\"\xff\"]", "[99999999999999999999]", "[NaN]", "[01]",
		"{\"a\":1", "[\"\\", "]]", "}{" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ck_assert_msg(parse(bad[i]) == -EINVAL, "accepted: %s", bad[i]);
		ck_assert_int_eq(strncmp(err.text, "line ", 5), 0);
	}
	ck_assert_int_eq(parse("[{\"a\":[]}] "), 0);
}
END_TEST

START_TEST(nesting_is_limited_and_brackets_in_strings_do_not_count)
{
	char text[1024] = "";

	for (int i = 0; i < JSON_DEPTH_MAX; i++)
		strcat(text, "[");
	for (int i = 0; i < JSON_DEPTH_MAX; i++)
		strcat(text, "]");
	ck_assert_int_eq(parse(text), 0);
	strcpy(text, "[\"\\\"");
	for (int i = 0; i < 2 * JSON_DEPTH_MAX; i++)
		strcat(text, "[");
	strcat(text, "\\\\\"]");
	ck_assert_int_eq(parse(text), 0);
	strcpy(text, "\n");
	for (int i = 0; i < JSON_DEPTH_MAX + 1; i++)
		strcat(text, "[");
	ck_assert_int_eq(parse(text), -EINVAL);
	ck_assert_str_eq(err.text, "line 2, column 65: nested deeper than 64 levels");
}
END_TEST

/* [n,n,...,n] with so many commas; owned. */
static char *numbers(size_t commas)
{
	char *text = malloc(2 * commas + 4);
	size_t at = 0;

	text[at++] = '[';
	for (size_t i = 0; i < commas; i++, at += 2)
		memcpy(text + at, "0,", 2);
	strcpy(text + at, "0]");
	return text;
}

START_TEST(values_are_limited)
{
	_cleanup_free_ char *fits = numbers(JSON_UNITS_MAX / 2 - 8),
			    *over = numbers(JSON_UNITS_MAX);

	ck_assert_int_eq(parse(fits), 0);
	ck_assert_int_eq(parse(over), -EINVAL);
	ck_assert_str_eq(err.text, "line 1, column 1: too many values");
}
END_TEST

START_TEST(objects_cost_most_and_strings_nothing)
{
	ck_assert_uint_gt(json_units("[{},{},{}]", 10), 30);
	ck_assert_uint_lt(json_units("[\"{},{}\\\",[:\"]", 14), 10);
	ck_assert_uint_gt(json_units("{\"a\":[]}", 8), json_units("{}", 2));
}
END_TEST

START_TEST(an_array_is_no_object)
{
	_cleanup_json_ json_t *j = NULL;

	ck_assert_int_eq(json_parse_object("[]", 2, &j, &err), -EINVAL);
	ck_assert_str_eq(err.text, "expected an object, got an array");
	ck_assert_ptr_null(j);
	ck_assert_int_eq(json_parse_object("{}", 2, &j, &err), 0);
}
END_TEST

START_TEST(errors_of_a_file_begin_with_its_path)
{
	char path[] = "/tmp/test_json.XXXXXX";
	int fd = mkstemp(path);
	_cleanup_json_ json_t *j = NULL;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "{\"a\":}", 6), 6);
	close(fd);
	ck_assert_int_eq(json_read_file(path, 0, &j, &err), -EINVAL);
	ck_assert_int_eq(strncmp(err.text, path, strlen(path)), 0);
	ck_assert_ptr_nonnull(strstr(err.text, ": line 1, column "));
	unlink(path);
	ck_assert_int_eq(json_read_file(path, 0, &j, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "No such file"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("json");
	TCase *t = tcase_create("json");

	tcase_add_test(t, setters_put_what_is_given_and_skip_null_strings);
	tcase_add_test(t, notes_stand_one_behind_the_other);
	tcase_add_test(t, setters_own_the_value_also_when_they_fail);
	tcase_add_test(t, bytes_that_are_not_text_become_replacement_characters);
	tcase_add_test(t, getters_give_the_default_for_a_missing_member_or_another_type);
	tcase_add_test(t, errors_name_line_and_column);
	tcase_add_test(t, invalid_json_is_refused);
	tcase_add_test(t, nesting_is_limited_and_brackets_in_strings_do_not_count);
	tcase_add_test(t, values_are_limited);
	tcase_add_test(t, objects_cost_most_and_strings_nothing);
	tcase_add_test(t, an_array_is_no_object);
	tcase_add_test(t, errors_of_a_file_begin_with_its_path);
	suite_add_tcase(s, t);
	return suite_run(s);
}
