/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/error_file.h"

#include "common/base/file.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char dir[64];
static char name[PATH_MAX];

static const char *in_dir(const char *rest)
{
	snprintf(name, sizeof(name), "%s/%s", dir, rest);
	return name;
}

static void setup(void)
{
	strcpy(dir, "/tmp/test_errorfile.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	umask(022);
}

static void teardown(void)
{
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void put(const char *rest, const char *text)
{
	ck_assert_int_eq(file_write_atomic(in_dir(rest), text, strlen(text), 0644, false), 0);
}

static struct error_file parse(const char *text)
{
	struct error_file e;
	const char *problem = "not touched";

	memset(&e, 0xee, sizeof(e));
	ck_assert_int_eq(error_file_parse(text, strlen(text), &e, &problem), 0);
	ck_assert_ptr_null(problem);
	return e;
}

/* error_file_parse() refuses text with this problem, and leaves the result untouched. */
static void refuse(const char *text, size_t len, const char *expected)
{
	struct error_file e, before;
	const char *problem = NULL;

	memset(&e, 0xee, sizeof(e));
	before = e;
	ck_assert_int_eq(error_file_parse(text, len, &e, &problem), -EBADMSG);
	ck_assert_str_eq(problem, expected);
	ck_assert_mem_eq(&e, &before, sizeof(e));
}

START_TEST(the_record_decorator_s_shape_is_read)
{
	struct error_file e =
		parse("{\"message\": {\"message\": \"ValueError: no\", \"extraInfo\": "
		      "{\"py_callstack\": \"Traceback:\\n  x\\n\", "
		      "\"timestamp\": \"1700000000\"}}}");

	ck_assert_str_eq(e.message, "ValueError: no");
	ck_assert_str_eq(e.traceback, "Traceback:\n  x\n");
	ck_assert_int_eq(e.timestamp_us, 1700000000000000);
	ck_assert(e.whole_seconds);
	error_file_fini(&e);
	ck_assert_ptr_null(e.message);
	ck_assert_int_eq(e.timestamp_us, -1);
	error_file_fini(&e);
}
END_TEST

START_TEST(the_short_shape_is_read)
{
	struct error_file e = parse("{\"message\": \"boom\", \"timestamp\": 1700000000}");

	ck_assert_str_eq(e.message, "boom");
	ck_assert_ptr_null(e.traceback);
	ck_assert_int_eq(e.timestamp_us, 1700000000000000);
	ck_assert(e.whole_seconds);
	error_file_fini(&e);
}
END_TEST

/* A JSON string of n characters of two bytes each. */
static char *of_two_bytes(size_t n)
{
	char *text = malloc(2 * n + 1);

	for (size_t i = 0; i < n; i++)
		memcpy(text + 2 * i, "\xc3\xa9", 2);
	text[2 * n] = '\0';
	return text;
}

START_TEST(texts_without_end_are_cut_between_characters_and_stay_whole_in_the_copy)
{
	size_t size = (size_t)walk_length(1 << 20, 1 << 20, 1 << 16);
	_cleanup_free_ char *big = of_two_bytes(size), *text = NULL;
	_cleanup_json_ json_t *message = NULL, *traceback = NULL, *copy = NULL;
	struct error_file e;

	ck_assert_int_gt(asprintf(&text,
				 "{\"message\": {\"message\": \"x%s\", \"extraInfo\": "
				 "{\"py_callstack\": \"%sy\"}}}",
				 big, big),
		0);
	e = parse(text);
	ck_assert_uint_le(strlen(e.message), ERROR_FILE_MESSAGE_MAX + 8);
	ck_assert_uint_gt(strlen(e.message), ERROR_FILE_MESSAGE_MAX - 8);
	ck_assert_uint_le(strlen(e.traceback), ERROR_FILE_TRACEBACK_MAX + 8);
	ck_assert_int_eq(e.message[0], 'x');
	ck_assert_int_eq(e.traceback[strlen(e.traceback) - 1], 'y');
	message = json_string(e.message); /* NULL if it is not UTF-8 */
	traceback = json_string(e.traceback);
	ck_assert(message && traceback);
	ck_assert_int_eq(error_file_copy(&e, in_dir("copy"), 3), 0);
	copy = json_load_file(in_dir("copy"), 0, NULL);
	ck_assert_uint_eq(
		json_string_length(json_object_get(json_object_get(copy, "message"), "message")),
		2 * size + 1);
	error_file_fini(&e);
}
END_TEST

START_TEST(each_shape_has_its_timestamp_in_its_own_place)
{
	struct error_file e =
		parse("{\"message\": {\"message\": \"a\"}, \"timestamp\": 1700000000}");

	ck_assert_int_eq(e.timestamp_us, -1);
	error_file_fini(&e);
	e = parse("{\"message\": \"a\", \"extraInfo\": {\"timestamp\": 1700000000}}");
	ck_assert_int_eq(e.timestamp_us, -1);
	error_file_fini(&e);
}
END_TEST

static const struct {
	const char *json;
	int64_t us;
	bool whole;
} stamps[] = {
	{ "1700000000", 1700000000000000, true },
	{ "1700000000.25", 1700000000250000, false },
	{ "1700000000.0", 1700000000000000, false },
	{ "1.7e9", 1700000000000000, false },
	{ "\"1700000000\"", 1700000000000000, true },
	{ "\"1700000000.5\"", 1700000000500000, false },
	{ "\"1.7e9\"", 1700000000000000, false },
	{ "\"1700000000 \"", -1, false },
	{ "\"1700000000s\"", -1, false },
	{ "\"\"", -1, false },
	{ "\"now\"", -1, false },
	{ "\"nan\"", -1, false },
	{ "\"-inf\"", -1, false },
	{ "\"1e999\"", -1, false },
	{ "\"17000\\u0030\"", 170000000000, true },
	{ "0", -1, false },
	{ "-5", -1, false },
	{ "9223372036854775807", -1, false },
	{ "1e300", -1, false },
	{ "100000000001", -1, false },
	{ "null", -1, false },
	{ "true", -1, false },
	{ "[1700000000]", -1, false },
	{ "{}", -1, false },
};

START_TEST(a_timestamp_is_a_number_or_a_string_with_one)
{
	static const char *const shapes[] = { "{\"message\": \"x\", \"timestamp\": %s}",
		"{\"message\": {\"message\": \"x\", \"extraInfo\": {\"timestamp\": %s}}}" };

	for (int i = 0; i < 2; i++) {
		char text[160];
		struct error_file e;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(text, sizeof(text), shapes[i], stamps[_i].json);
#pragma GCC diagnostic pop
		e = parse(text);
		ck_assert_msg(e.timestamp_us == stamps[_i].us, "%s: %lld", stamps[_i].json,
			(long long)e.timestamp_us);
		if (stamps[_i].us >= 0)
			ck_assert_int_eq(e.whole_seconds, stamps[_i].whole);
		error_file_fini(&e);
	}
}
END_TEST

START_TEST(members_of_wrong_types_are_passed_over)
{
	static const char *const texts[] = {
		"{\"message\": {\"message\": \"x\", \"extraInfo\": \"none\"}}",
		"{\"message\": {\"message\": \"x\", \"extraInfo\": []}}",
		"{\"message\": {\"message\": \"x\", \"extraInfo\": {\"py_callstack\": 5}}}",
		"{\"message\": {\"message\": \"x\", \"extraInfo\": {\"py_callstack\": null}}}",
		"{\"message\": \"x\", \"timestamp\": {}, \"more\": [1, 2, {}]}",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct error_file e = parse(texts[i]);

		ck_assert_str_eq(e.message, "x");
		ck_assert_ptr_null(e.traceback);
		ck_assert_int_eq(e.timestamp_us, -1);
		error_file_fini(&e);
	}
}
END_TEST

static const struct {
	const char *text, *problem;
} bad[] = {
	{ "", "the file is empty" },
	{ " ", "not valid JSON" },
	{ "{", "not valid JSON" },
	{ "{\"message\": \"x\"", "not valid JSON" },
	{ "{\"message\": \"x\"} trailing", "not valid JSON" },
	{ "{'message': 'x'}", "not valid JSON" },
	{ "{\"message\": NaN}", "not valid JSON" },
	{ "Traceback (most recent call last):", "not valid JSON" },
	{ "{\"message\": \"\xff\xfe\"}", "not valid JSON" },
	{ "{\"message\": \"\xed\xa0\x80\"}", "not valid JSON" },
	{ "{\"message\": \"a\\u0000b\"}", "not valid JSON" },
	{ "[]", "not a JSON object" },
	{ "[{\"message\": \"x\"}]", "not a JSON object" },
	{ "\"message\"", "not valid JSON" },
	{ "{}", "message is missing, expected a string or an object" },
	{ "{\"message\": null}", "message is missing, expected a string or an object" },
	{ "{\"message\": 5}", "message is missing, expected a string or an object" },
	{ "{\"message\": [\"x\"]}", "message is missing, expected a string or an object" },
	{ "{\"message\": {}}", "message.message is missing or not a string" },
	{ "{\"message\": {\"message\": 5}}", "message.message is missing or not a string" },
	{ "{\"message\": {\"message\": {}}}", "message.message is missing or not a string" },
};

START_TEST(an_unusable_file_is_named)
{
	refuse(bad[_i].text, strlen(bad[_i].text), bad[_i].problem);
}
END_TEST

START_TEST(bytes_after_a_nul_are_not_overlooked)
{
	static const char text[] = "{\"message\": \"x\"}\0garbage";

	refuse(text, sizeof(text) - 1, "not valid JSON");
}
END_TEST

START_TEST(deep_nesting_is_refused_without_harm)
{
	size_t depth = 1 << 20;
	_cleanup_free_ char *text = malloc(depth);

	memset(text, '[', depth);
	refuse(text, depth, "not valid JSON");
	for (size_t i = 0; i + 6 < depth; i += 6)
		memcpy(text + i, "{\"a\":{", 6);
	refuse(text, depth, "not valid JSON");
}
END_TEST

START_TEST(a_file_is_read_with_the_time_it_was_written)
{
	struct timespec when[2] = { { 1700000000, 0 }, { 1700000000, 123456789 } };
	struct error_file e;
	const char *problem;
	int64_t mtime = 0;

	put("error.json", "{\"message\": \"x\"}\n");
	ck_assert_int_eq(utimensat(AT_FDCWD, in_dir("error.json"), when, 0), 0);
	ck_assert_int_eq(error_file_read(name, &e, &mtime, &problem), 0);
	ck_assert_str_eq(e.message, "x");
	ck_assert_int_eq(mtime, 1700000000123456);
	error_file_fini(&e);
}
END_TEST

/* The problem that is reported for the file in dir, which must be unusable. */
static int read_bad(const char *rest, const char **ret_problem)
{
	struct error_file e, before;
	int64_t mtime;
	int r;

	memset(&e, 0xee, sizeof(e));
	before = e;
	r = error_file_read(in_dir(rest), &e, &mtime, ret_problem);
	ck_assert_int_lt(r, 0);
	ck_assert_mem_eq(&e, &before, sizeof(e));
	return r;
}

START_TEST(a_missing_file_is_no_problem)
{
	const char *problem = "not touched";

	ck_assert_int_eq(read_bad("error.json", &problem), -ENOENT);
	ck_assert_ptr_null(problem);
}
END_TEST

START_TEST(a_special_file_is_named_and_does_not_block)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const char *problem;

	ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
	ck_assert_int_eq(read_bad("fifo", &problem), -EBADMSG);
	ck_assert_str_eq(problem, "not a regular file");
	ck_assert_int_eq(mkdir(in_dir("dir"), 0700), 0);
	ck_assert_int_eq(read_bad("dir", &problem), -EBADMSG);
	ck_assert_str_eq(problem, "not a regular file");
	put("real", "{\"message\": \"x\"}");
	ck_assert_int_eq(symlink("real", in_dir("link")), 0);
	ck_assert_int_eq(read_bad("link", &problem), -ELOOP);
	ck_assert_str_eq(problem, "it is a symbolic link");
	snprintf(a.sun_path, sizeof(a.sun_path), "%.60s/sock", dir);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(read_bad("sock", &problem), -EBADMSG);
	ck_assert_str_eq(problem, "not a regular file");
}
END_TEST

START_TEST(an_empty_or_broken_file_is_named)
{
	const char *problem;

	put("empty", "");
	ck_assert_int_eq(read_bad("empty", &problem), -EBADMSG);
	ck_assert_str_eq(problem, "the file is empty");
	put("broken", "{\"message\": \"x");
	ck_assert_int_eq(read_bad("broken", &problem), -EBADMSG);
	ck_assert_str_eq(problem, "not valid JSON");
}
END_TEST

START_TEST(a_huge_file_is_not_read)
{
	const char *problem;

	put("huge", "{");
	ck_assert_int_eq(truncate(in_dir("huge"), (16 << 20) + 1), 0);
	ck_assert_int_eq(read_bad("huge", &problem), -EFBIG);
	ck_assert_str_eq(problem, "larger than 16 MiB");
	ck_assert_int_eq(truncate(in_dir("huge"), 16 << 20), 0);
	ck_assert_int_eq(read_bad("huge", &problem), -EBADMSG);
}
END_TEST

static void assert_copy(const char *source, int exit_code, const char *expected)
{
	struct error_file e = parse(source);
	_cleanup_free_ char *text = NULL;

	ck_assert_int_eq(error_file_copy(&e, in_dir("copy"), exit_code), 0);
	ck_assert_int_eq(file_read(name, 0, &text, NULL), 0);
	ck_assert_str_eq(text, expected);
	/* The document itself is unchanged. */
	ck_assert_ptr_null(json_object_get(json_object_get(e.doc, "message"), "errorCode"));
	error_file_fini(&e);
}

START_TEST(a_copy_gets_the_exit_code_where_message_is_an_object)
{
	assert_copy("{\"message\": {\"message\": \"x\", \"extraInfo\": {\"a\": [1.5, null]}}, "
		    "\"z\": \"\xc3\xa4\"}",
		-9,
		"{\"message\":{\"message\":\"x\",\"extraInfo\":{\"a\":[1.5,null]},\"errorCode\":-9},"
		"\"z\":\"\xc3\xa4\"}");
	assert_copy(
		"{\"message\": \"x\", \"timestamp\": 5}", 3, "{\"message\":\"x\",\"timestamp\":5}");
}
END_TEST

START_TEST(a_copy_replaces_what_is_there_and_says_where_it_cannot)
{
	struct error_file e = parse("{\"message\": {\"message\": \"x\", \"errorCode\": 1}}");
	_cleanup_free_ char *text = NULL;
	struct stat st;

	put("copy", "old and longer than what comes, by far, so that nothing of it may stay");
	ck_assert_int_eq(error_file_copy(&e, in_dir("copy"), 7), 0);
	ck_assert_int_eq(file_read(name, 0, &text, NULL), 0);
	ck_assert_str_eq(text, "{\"message\":{\"message\":\"x\",\"errorCode\":7}}");
	ck_assert_int_eq(stat(name, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0644);
	ck_assert_int_eq(error_file_copy(&e, in_dir("missing/copy"), 7), -ENOENT);
	error_file_fini(&e);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("error_file");
	TCase *t = tcase_create("error_file");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_record_decorator_s_shape_is_read);
	tcase_add_test(t, the_short_shape_is_read);
	tcase_add_test(t, texts_without_end_are_cut_between_characters_and_stay_whole_in_the_copy);
	tcase_add_test(t, each_shape_has_its_timestamp_in_its_own_place);
	tcase_add_loop_test(t, a_timestamp_is_a_number_or_a_string_with_one, 0,
		sizeof(stamps) / sizeof(stamps[0]));
	tcase_add_test(t, members_of_wrong_types_are_passed_over);
	tcase_add_loop_test(t, an_unusable_file_is_named, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, bytes_after_a_nul_are_not_overlooked);
	tcase_add_test(t, deep_nesting_is_refused_without_harm);
	tcase_add_test(t, a_file_is_read_with_the_time_it_was_written);
	tcase_add_test(t, a_missing_file_is_no_problem);
	tcase_add_test(t, a_special_file_is_named_and_does_not_block);
	tcase_add_test(t, an_empty_or_broken_file_is_named);
	tcase_add_test(t, a_huge_file_is_not_read);
	tcase_add_test(t, a_copy_gets_the_exit_code_where_message_is_an_object);
	tcase_add_test(t, a_copy_replaces_what_is_there_and_says_where_it_cannot);
	suite_add_tcase(s, t);
	return suite_run(s);
}
