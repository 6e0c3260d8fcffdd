/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/frame.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static struct varlink_frame f;

static void setup(void)
{
	varlink_frame_init(&f, 16);
}

static void teardown(void)
{
	varlink_frame_fini(&f);
}

static void feed(const char *data, size_t len)
{
	ck_assert_int_eq(varlink_frame_feed(&f, data, len), 0);
}

static void assert_next(const char *expected)
{
	char *text;
	size_t len;

	ck_assert(varlink_frame_ready(&f));
	ck_assert_int_eq(varlink_frame_next(&f, &text, &len), 1);
	ck_assert_str_eq(text, expected);
	ck_assert_uint_eq(len, strlen(expected));
}

static void assert_none(void)
{
	char *text;
	size_t len;

	ck_assert(!varlink_frame_ready(&f));
	ck_assert_int_eq(varlink_frame_next(&f, &text, &len), 0);
}

static void assert_too_long(void)
{
	char *text;
	size_t len;

	ck_assert(varlink_frame_ready(&f));
	ck_assert_int_eq(varlink_frame_next(&f, &text, &len), -EMSGSIZE);
}

START_TEST(messages_come_out_as_they_went_in_however_they_were_cut)
{
	static const char stream[] = "one\0\0three\0rest";

	for (size_t cut = 1; cut < sizeof(stream); cut++) {
		for (size_t at = 0; at < sizeof(stream); at += cut) {
			size_t left = sizeof(stream) - at;

			feed(stream + at, left < cut ? left : cut);
			if (at == 0 && cut < 4)
				assert_none();
		}
		assert_next("one");
		assert_next("");
		assert_next("three");
		assert_next("rest");
		assert_none();
	}
}
END_TEST

START_TEST(messages_are_handed_out_between_pieces)
{
	feed("a\0b", 3);
	assert_next("a");
	assert_none();
	feed("c", 1);
	assert_none();
	feed("\0d\0", 3);
	assert_next("bc");
	assert_next("d");
	assert_none();
}
END_TEST

START_TEST(an_empty_splitter_holds_no_memory)
{
	feed("x\0", 2);
	assert_next("x");
	assert_none();
	ck_assert_ptr_null(f.data);
	feed("", 0);
	assert_none();
}
END_TEST

START_TEST(the_limit_is_the_longest_message)
{
	feed("0123456789abcdef\0", 17);
	assert_next("0123456789abcdef");
	feed("0123456789abcdefg\0", 18);
	assert_too_long();
	feed("ok\0", 3);
	assert_too_long();
}
END_TEST

START_TEST(a_message_too_long_is_refused_before_its_end)
{
	feed("short\0", 6);
	feed("0123456789abcdef", 16);
	assert_next("short");
	assert_none();
	feed("g", 1);
	assert_too_long();
}
END_TEST

START_TEST(memory_stays_near_what_waits)
{
	char block[512] = "";

	f.max_bytes = 1 << 20;
	memset(block, 'x', sizeof(block) - 1);
	for (int i = 0; i < 10000; i++) {
		char *text;
		size_t len;

		feed(block, sizeof(block));
		feed("y", 1);
		ck_assert_int_eq(varlink_frame_next(&f, &text, &len), 1);
		ck_assert_uint_eq(len, i ? 512 : 511);
	}
	ck_assert_uint_le(f.room, 4096);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_frame");
	TCase *t = tcase_create("varlink_frame");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, messages_come_out_as_they_went_in_however_they_were_cut);
	tcase_add_test(t, messages_are_handed_out_between_pieces);
	tcase_add_test(t, an_empty_splitter_holds_no_memory);
	tcase_add_test(t, the_limit_is_the_longest_message);
	tcase_add_test(t, a_message_too_long_is_refused_before_its_end);
	tcase_add_test(t, memory_stays_near_what_waits);
	suite_add_tcase(s, t);
	return suite_run(s);
}
