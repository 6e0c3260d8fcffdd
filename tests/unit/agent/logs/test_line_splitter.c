/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/line_splitter.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The output: <text> for a whole line, "text>" for a first piece, ">text>" for a middle one...
 */
static char out[65536];
static size_t out_len;

static void on_line(void *arg, const char *data, size_t len, unsigned flags)
{
	const char *stamp = lines_stamp(arg);

	/* An assertion costs a system call, and this function runs millions of times. */
	if (!data || out_len + len + 64 > sizeof(out))
		ck_abort();
	if (stamp)
		out_len += sprintf(out + out_len, "%.3s", stamp);
	out[out_len++] = flags & LINE_START ? '<' : '>';
	memcpy(out + out_len, data, len);
	out_len += len;
	if (flags & LINE_UPDATE)
		out[out_len++] = '~';
	out[out_len++] = flags & LINE_END ? '|' : '>';
}

static struct lines l;

static void begin(const struct lines_config *config)
{
	lines_init(&l, config, on_line, &l);
	out_len = 0;
}

static const char *result(void)
{
	out[out_len] = '\0';
	return out;
}

static void feed(const char *text, uint64_t now)
{
	lines_feed(&l, text, strlen(text), now);
}

static const struct lines_config plain = { .max_piece = 65536, .quiet_ms = 100, .update_ms = 1000 };
static const struct lines_config small = { .max_piece = 8, .quiet_ms = 100, .update_ms = 0 };
static const struct lines_config stamped = {
	.max_piece = 8, .quiet_ms = 100, .update_ms = 0, .strip = 3
};

static const struct {
	const char *in, *want;
} cases[] = {
	{ "", "" },
	{ "a", "<a|" },
	{ "\n", "<|" },
	{ "a\n", "<a|" },
	{ "a\r\n", "<a|" },
	{ "\r\n", "<|" },
	{ "\n\n", "<|<|" },
	{ "a\nb", "<a|<b|" },
	{ "a\r\nb\r\n", "<a|<b|" },
	{ "a\rb\n", "<a~|<b|" },
	{ "a\r\rb\n", "<a~|<b|" },
	{ "\ra\n", "<a|" },
	{ "\r\r\n", "<|" },
	/* The update is the line's text, shown already. */
	{ "a\r\r\n", "<a~|" },
	{ "a\r  \n", "<a~|" },
	{ "a\r", "<a|" },
	{ "a\rb", "<a~|<b|" },
	{ "1%\r2%\r3%\n", "<1%~|<2%~|<3%|" },
	{ "12345678\n", "<12345678|" },
	{ "123456789\n", "<12345678>>9|" },
	{ "12345678123456789\n", "<12345678>>12345678>>9|" },
	{ "123456789\rx\n", "<12345678>>9~|<x|" },
	/* A UTF-8 sequence stays in one piece. */
	{ "1234567\xc3\xa4z\n", "<1234567>>\xc3\xa4z|" },
	{ "123456\xe2\x82\xacz\n", "<123456>>\xe2\x82\xacz|" },
};

START_TEST(input_becomes_lines)
{
	begin(&small);
	feed(cases[_i].in, 0);
	lines_finish(&l);
	ck_assert_str_eq(result(), cases[_i].want);
	lines_fini(&l);
}
END_TEST

static char whole[65536];

/* The same input, cut in two or byte by byte, comes out the same. */
static void check_cuts(const struct lines_config *config, const char *in, size_t len)
{
	begin(config);
	lines_feed(&l, in, len, 5000);
	lines_finish(&l);
	strcpy(whole, result());
	lines_fini(&l);
	for (size_t cut = 0; cut <= len; cut++) {
		begin(config);
		lines_feed(&l, in, cut, 5000);
		lines_feed(&l, in + cut, len - cut, 5000);
		lines_finish(&l);
		if (strcmp(result(), whole) != 0)
			ck_abort_msg(
				"'%.*s' cut at %zu: %s, not %s", (int)len, in, cut, out, whole);
		lines_fini(&l);
	}
	begin(config);
	for (size_t i = 0; i < len; i++)
		lines_feed(&l, in + i, 1, 5000);
	lines_finish(&l);
	if (strcmp(result(), whole) != 0)
		ck_abort_msg("'%.*s' byte by byte: %s, not %s", (int)len, in, out, whole);
	lines_fini(&l);
}

/* All inputs of up to 8 bytes over an alphabet where each byte means something. */
START_TEST(lines_do_not_depend_on_block_sizes)
{
	static const struct lines_config waiting = {
		.max_piece = 8, .quiet_ms = 100, .update_ms = 1000
	};
	static const char alphabet[] = { 'a', ' ', '\r', '\n' };
	const struct lines_config *configs[] = { &small, &waiting, &stamped };
	char in[9];

	for (size_t len = 0; len <= (under_valgrind() ? 5 : 8); len++) {
		for (int n = 0; n < 1 << (2 * len); n++) {
			for (size_t i = 0; i < len; i++)
				in[i] = alphabet[n >> (2 * i) & 3];
			check_cuts(configs[_i], in, len);
		}
	}
}
END_TEST

START_TEST(long_input_is_cut_at_the_same_places)
{
	char in[64];

	for (int seed = 1; seed < (under_valgrind() ? 50 : 2000); seed++) {
		unsigned x = seed;

		for (size_t i = 0; i < sizeof(in); i++) {
			x = x * 1103515245 + 12345;
			in[i] = "abcdefghij\xc3\xa4\xe2\x82\xac\n\r"[x >> 16 & 15];
		}
		check_cuts(&small, in, sizeof(in));
		check_cuts(&stamped, in, sizeof(in));
	}
}
END_TEST

/* Nothing but line ends and superseded updates is lost, in any input. */
START_TEST(every_byte_comes_out_once)
{
	static const char alphabet[] = { 'a', '\0', '\xff', '\n' };
	char in[8];

	for (int n = 0; n < 1 << 16; n++) {
		size_t bytes = 0, got = 0;

		for (size_t i = 0; i < sizeof(in); i++) {
			in[i] = alphabet[n >> (2 * i) & 3];
			bytes += in[i] != '\n';
		}
		begin(&small);
		lines_feed(&l, in, sizeof(in), 0);
		lines_finish(&l);
		for (size_t i = 0; i < out_len; i++)
			got += out[i] == 'a' || out[i] == '\0' || out[i] == '\xff';
		if (got != bytes)
			ck_abort_msg("%zu of %zu bytes of input %d", got, bytes, n);
		lines_fini(&l);
	}
}
END_TEST

START_TEST(a_partial_line_is_released_after_a_quiet_time)
{
	begin(&plain);
	ck_assert(lines_deadline(&l) == UINT64_MAX);
	feed("par", 1000);
	ck_assert_uint_eq(lines_deadline(&l), 1100);
	lines_tick(&l, 1099);
	ck_assert_str_eq(result(), "");
	feed("t", 1050);
	ck_assert_uint_eq(lines_deadline(&l), 1150);
	lines_tick(&l, 1150);
	ck_assert_str_eq(result(), "<part>");
	ck_assert(lines_deadline(&l) == UINT64_MAX);
	feed("ial\nx\n", 2000);
	ck_assert_str_eq(result(), "<part>>ial|<x|");
	lines_fini(&l);
}
END_TEST

START_TEST(a_partial_line_is_ended_when_its_newline_comes)
{
	begin(&plain);
	feed("part", 0);
	lines_tick(&l, 100);
	feed("\n", 200);
	ck_assert_str_eq(result(), "<part>>|");
	lines_fini(&l);
}
END_TEST

START_TEST(the_newest_of_many_updates_comes_at_intervals)
{
	char text[32];

	begin(&plain);
	for (int i = 0; i <= 95; i++) {
		snprintf(text, sizeof(text), "\r%d%%", i);
		feed(text, 10000 + i * 50);
		if (lines_deadline(&l) <= (uint64_t)10000 + i * 50 + 49)
			lines_tick(&l, lines_deadline(&l));
	}
	/* Not 96 lines: the first, then one a second, the newest at that time. */
	ck_assert_str_eq(result(), "<0%~|<20%~|<40%~|<60%~|<80%~|");
	feed("\r100%\n", 15000);
	ck_assert_str_eq(result(), "<0%~|<20%~|<40%~|<60%~|<80%~|<100%|");
	ck_assert(lines_deadline(&l) == UINT64_MAX);
	lines_fini(&l);
}
END_TEST

START_TEST(the_last_update_before_the_lines_end_is_always_shown)
{
	begin(&plain);
	feed("1%\r2%\r3%\r\n", 1000);
	ck_assert_str_eq(result(), "<1%~|<3%|");
	feed("4%\r5%\r    \r\nnext\n", 1000);
	ck_assert_str_eq(result(), "<1%~|<3%|<5%|<next|");
	lines_fini(&l);
}
END_TEST

START_TEST(an_update_that_waits_is_shown_when_its_time_comes)
{
	begin(&plain);
	feed("1%\r2%\r", 1000);
	ck_assert_str_eq(result(), "<1%~|");
	/* The second line has no newline yet. */
	ck_assert_uint_eq(lines_deadline(&l), 2000);
	lines_tick(&l, 2000);
	ck_assert_str_eq(result(), "<1%~|<2%~|");
	feed("\n", 2500);
	ck_assert_str_eq(result(), "<1%~|<2%~|");
	feed("x\n", 2500);
	ck_assert_str_eq(result(), "<1%~|<2%~|<x|");
	lines_fini(&l);
}
END_TEST

START_TEST(a_bar_that_begins_with_its_return_is_limited_too)
{
	begin(&plain);
	for (int i = 0; i < 10; i++) {
		char text[32];

		snprintf(text, sizeof(text), "\r%d", i);
		feed(text, 1000 + 150 * i);
		while (lines_deadline(&l) < (uint64_t)1000 + 150 * (i + 1))
			lines_tick(&l, lines_deadline(&l));
	}
	/* Each update was quiet long enough for a partial line, yet not each is shown. */
	ck_assert_str_eq(result(), "<0>>~|<7>>~|");
	lines_fini(&l);
}
END_TEST

START_TEST(a_stamp_is_taken_off_each_line_and_given_with_it)
{
	begin(&stamped);
	feed("001one\n002two two two\n003\n00\n004x", 0);
	lines_finish(&l);
	ck_assert_str_eq(result(), "001<one|002<two two >002>two|003<|<00|004<x|");
	lines_fini(&l);
}
END_TEST

static void count_line(void *arg, const char *data, size_t len, unsigned flags)
{
	*(size_t *)arg += len;
}

START_TEST(pieces_of_a_long_line_are_as_long_as_allowed)
{
	static char block[1 << 20];
	size_t total = 0, blocks = under_valgrind() ? 4 : 64;

	memset(block, 'x', sizeof(block));
	lines_init(&l, &plain, count_line, &total);
	for (size_t i = 0; i < blocks; i++) {
		lines_feed(&l, block, sizeof(block), 0);
		ck_assert_uint_le(l.pend.room, 131072);
	}
	lines_finish(&l);
	ck_assert_uint_eq(total, blocks << 20);
	lines_fini(&l);
}
END_TEST

START_TEST(release_hands_out_what_waits_at_once)
{
	begin(&plain);
	feed("a\nb", 0);
	lines_release(&l, 0);
	ck_assert_str_eq(result(), "<a|<b>");
	lines_release(&l, 0);
	feed("c\n", 0);
	ck_assert_str_eq(result(), "<a|<b>>c|");
	lines_fini(&l);
}
END_TEST

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
	Suite *s = suite_create("lines");
	TCase *t = tcase_create("lines");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, input_becomes_lines, 0, N(cases));
	tcase_add_loop_test(t, lines_do_not_depend_on_block_sizes, 0, 3);
	tcase_add_test(t, long_input_is_cut_at_the_same_places);
	tcase_add_test(t, every_byte_comes_out_once);
	tcase_add_test(t, a_partial_line_is_released_after_a_quiet_time);
	tcase_add_test(t, a_partial_line_is_ended_when_its_newline_comes);
	tcase_add_test(t, the_newest_of_many_updates_comes_at_intervals);
	tcase_add_test(t, the_last_update_before_the_lines_end_is_always_shown);
	tcase_add_test(t, an_update_that_waits_is_shown_when_its_time_comes);
	tcase_add_test(t, a_bar_that_begins_with_its_return_is_limited_too);
	tcase_add_test(t, a_stamp_is_taken_off_each_line_and_given_with_it);
	tcase_add_test(t, pieces_of_a_long_line_are_as_long_as_allowed);
	tcase_add_test(t, release_hands_out_what_waits_at_once);
	suite_add_tcase(s, t);
	return suite_run(s);
}
