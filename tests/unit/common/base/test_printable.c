/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/printable.h"

#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "tests/unit/run.h"

#include <check.h>
#include <string.h>
#include <sys/socket.h>

/* text as it leaves when it comes in parts of at most step bytes. */
static char *passed(const char *text, size_t len, size_t step)
{
	struct printable_stream p = { .n_held = 0 };
	char *shown = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&shown, &n);

	ck_assert_ptr_nonnull(f);
	for (size_t at = 0; at < len; at += step)
		printable_pass(&p, f, text + at, len - at < step ? len - at : step);
	fclose(f);
	return shown;
}

/* In whatever parts it comes. */
static void passes_as(const char *text, const char *want)
{
	size_t len = strlen(text);

	for (size_t step = 1; step <= len; step++) {
		_cleanup_free_ char *shown = passed(text, len, step);

		ck_assert_str_eq(shown, want);
	}
}

START_TEST(a_stream_keeps_text_lines_and_colours)
{
	passes_as("two\tlines\nof text\n", "two\tlines\nof text\n");
	passes_as("gr\xc3\xbc\xc3\x9f \xe2\x9c\x93 \xf0\x9f\x99\x82\n",
		"gr\xc3\xbc\xc3\x9f \xe2\x9c\x93 \xf0\x9f\x99\x82\n");
	passes_as("\033[1;31mred\033[0m\n", "\033[1;31mred\033[0m\n");
	passes_as("\r\nafter a program in raw mode\r\n", "\r\nafter a program in raw mode\r\n");
}
END_TEST

START_TEST(a_stream_shows_what_would_steer_a_terminal)
{
	passes_as("\033]0;title\007.", "^[]0;title^G.");
	passes_as("\033[2J\033[H.", "^[[2J^[[H.");
	passes_as("\033[31K.", "^[[31K.");
	passes_as("\033\033[2J.", "^[^[[2J.");
	passes_as("seen\rother\n", "seen^Mother\n");
	passes_as("\b\x7f\x01.", "^H^?^A.");
	/* C1, as UTF-8 and as a bare byte */
	passes_as("\xc2\x9b"
		  "2J.",
		"<9B>2J.");
	passes_as("\x9b"
		  "2J.",
		"\xef\xbf\xbd"
		"2J.");
}
END_TEST

START_TEST(a_cut_message_does_not_delay_the_next)
{
	passes_as("\xe2\x9c\n.", "\xef\xbf\xbd\xef\xbf\xbd\n.");
	passes_as("\xf0\n", "\xef\xbf\xbd\n");
	passes_as("\033\n", "^[\n");
	passes_as("\033[\n", "^[[\n");
	passes_as("\033[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1.",
		"^[[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1.");
}
END_TEST

START_TEST(no_colour_hides_the_lines_that_follow)
{
	passes_as("\033[8mhidden\nshown\n", "\033[8mhidden\033[0m\nshown\n");
	passes_as("\033[30;40mhidden\r\nshown\n", "\033[30;40mhidden\033[0m\r\nshown\n");
	passes_as("\033[31mred\033[m\n", "\033[31mred\033[m\n");
}
END_TEST

START_TEST(bytes_of_any_kind_leave_nothing_that_steers)
{
	for (int a = 0; a < 256; a++) {
		for (int b = 0; b < 256; b++) {
			const char text[] = { (char)a, (char)b, '[', 'A', '\0' };
			_cleanup_free_ char *shown = passed(text, 4, 1);

			ck_assert_ptr_null(strpbrk(shown, "\033\b\a\x7f"));
			ck_assert_ptr_null(strstr(shown, "\xc2\x9b"));
		}
	}
}
END_TEST

START_TEST(nothing_changes_the_order_of_a_line)
{
	static const char *const bidi[][2] = { { "\xe2\x80\x8e", "<200E>" },
		{ "\xe2\x80\x8f", "<200F>" }, { "\xd8\x9c", "<61C>" }, { "\xe2\x80\xaa", "<202A>" },
		{ "\xe2\x80\xae", "<202E>" }, { "\xe2\x81\xa6", "<2066>" },
		{ "\xe2\x81\xa9", "<2069>" } };
	static const char *const others[] = { "\xe2\x80\x8d", "\xe2\x80\xa9", "\xe2\x80\xaf",
		"\xe2\x81\xa5", "\xe2\x81\xaa", "\xd7\x90" };
	char text[16];

	for (size_t i = 0; i < sizeof(bidi) / sizeof(*bidi); i++) {
		_cleanup_free_ char *dup = printable_dup(bidi[i][0]);

		ck_assert_str_eq(dup, bidi[i][1]);
		snprintf(text, sizeof(text), "a%sb", bidi[i][0]);
		for (size_t step = 1; step < 6; step++) {
			_cleanup_free_ char *shown = passed(text, strlen(text), step);

			ck_assert_ptr_nonnull(strstr(shown, bidi[i][1]));
			ck_assert_ptr_null(strstr(shown, bidi[i][0]));
		}
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		_cleanup_free_ char *dup = printable_dup(others[i]);

		ck_assert_str_eq(dup, others[i]);
	}
}
END_TEST

START_TEST(a_copy_has_no_half_characters)
{
	char out[6];

	ck_assert_uint_eq(printable_copy(out, sizeof(out), "abc\033\033"), 5);
	ck_assert_str_eq(out, "abc^[");
	ck_assert_uint_eq(printable_copy(out, sizeof(out), "abcd\xc3\xbc"), 4);
	ck_assert_str_eq(out, "abcd");
	ck_assert_uint_eq(printable_copy(out, sizeof(out), "\033[31ma\nb"), 4);
	ck_assert_str_eq(out, "a^Jb");
}
END_TEST

START_TEST(a_message_of_the_log_is_one_line)
{
	char line[64];

	log_init("elasticd", LOG_INFO);
	log_format(LOG_WARNING, "job a\n\033[2Jelasticd: b", line, sizeof(line));
	ck_assert_str_eq(line, "elasticd: warning: job a^J^[[2Jelasticd: b");
}
END_TEST

/* stderr has no buffer: a reader of it must not wake for each character. */
START_TEST(a_line_leaves_in_one_write)
{
	static const char line[] = "a warning\033[2J of some length, to a stream without a buffer";
	char got[512];
	int pair[2];
	FILE *f;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	f = fdopen(pair[0], "w");
	ck_assert_ptr_nonnull(f);
	setvbuf(f, NULL, _IONBF, 0);
	printable_write(f, line, strlen(line));
	ck_assert_int_eq(recv(pair[1], got, sizeof(got), 0), (ssize_t)strlen(line) + 1);
	fclose(f);
	close_fd(pair[1]);
}
END_TEST

START_TEST(a_long_text_is_written_to_its_end)
{
	char text[2000], want[sizeof(text)];
	char *shown = NULL;
	size_t n = 0;

	for (size_t len = 0; len < sizeof(text); len++) {
		FILE *f = open_memstream(&shown, &n);

		ck_assert_ptr_nonnull(f);
		memset(text, 'a' + (int)(len % 26), len);
		memset(want, 'a' + (int)(len % 26), len);
		printable_write(f, text, len);
		fclose(f);
		ck_assert_uint_eq(n, len);
		ck_assert_mem_eq(shown, want, len);
		free(shown);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("printable");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_stream_keeps_text_lines_and_colours);
	tcase_add_test(t, a_stream_shows_what_would_steer_a_terminal);
	tcase_add_test(t, a_cut_message_does_not_delay_the_next);
	tcase_add_test(t, no_colour_hides_the_lines_that_follow);
	tcase_add_test(t, bytes_of_any_kind_leave_nothing_that_steers);
	tcase_add_test(t, nothing_changes_the_order_of_a_line);
	tcase_add_test(t, a_copy_has_no_half_characters);
	tcase_add_test(t, a_message_of_the_log_is_one_line);
	tcase_add_test(t, a_line_leaves_in_one_write);
	tcase_add_test(t, a_long_text_is_written_to_its_end);
	suite_add_tcase(s, t);
	return suite_run(s);
}
