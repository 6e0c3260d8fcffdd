/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/line_printer.h"

#include "common/base/cleanup.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *out_text, *err_text;
static size_t out_len, err_len;

static struct line_printer printer(void)
{
	struct line_printer p = { .prefix = true };

	p.out = open_memstream(&out_text, &out_len);
	p.err = open_memstream(&err_text, &err_len);
	ck_assert(p.out && p.err);
	return p;
}

static void print(struct line_printer *p, const char *lines)
{
	_cleanup_json_ json_t *j = json_loads(lines, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

	ck_assert_ptr_nonnull(j);
	line_printer_print(p, j);
}

/* Ends the printer and compares what it wrote. */
static void wrote(struct line_printer *p, const char *out, const char *err)
{
	line_printer_end(p);
	fclose(p->out);
	fclose(p->err);
	ck_assert_str_eq(out_text, out);
	ck_assert_str_eq(err_text, err);
	free(out_text);
	free(err_text);
}

#define LINE(rank, stream, text, more)                                                \
	"{\"rank\":" #rank ",\"role\":\"w\",\"local_rank\":0,\"stream\":\"std" stream \
	"\",\"text\":\"" text "\"" more "}"

START_TEST(each_line_has_its_prefix_and_goes_to_its_stream)
{
	struct line_printer p = printer();

	print(&p, "[" LINE(0, "out", "a", "") "," LINE(12, "err", "b", "") "," LINE(
			  0, "out", "", "") "]");
	wrote(&p, "[w:0] a\n[w:0] \n", "[w:12 err] b\n");
}
END_TEST

START_TEST(a_line_in_parts_is_put_together)
{
	struct line_printer p = printer();

	print(&p, "[" LINE(0, "out", "par", ",\"partial\":true") "]");
	print(&p, "[" LINE(0, "out", "ti", ",\"partial\":true") "," LINE(0, "out", "al", "") "]");
	wrote(&p, "[w:0] partial\n", "");
}
END_TEST

START_TEST(another_workers_line_comes_after_or_before_but_never_within)
{
	struct line_printer p = printer();

	print(&p, "[" LINE(0, "out", "par", ",\"partial\":true") "," LINE(1, "out", "x",
			  "") "," LINE(0, "err", "e", "") "," LINE(0, "out", "tial", "") "]");
	wrote(&p, "[w:1] x\n[w:0] partial\n", "[w:0 err] e\n");
}
END_TEST

START_TEST(a_terminal_sees_parts_at_once_and_another_worker_ends_them)
{
	struct line_printer p = printer();

	p.eager = true;
	print(&p, "[" LINE(0, "out", "par", ",\"partial\":true") "]");
	ck_assert_str_eq(out_text, "[w:0] par");
	print(&p, "[" LINE(0, "out", "t", ",\"partial\":true") "," LINE(1, "out", "x", "") "," LINE(
			  0, "out", "ial", "") "]");
	wrote(&p, "[w:0] part\n[w:1] x\n[w:0] ial\n", "");
}
END_TEST

START_TEST(an_empty_end_of_an_interrupted_line_is_no_line)
{
	struct line_printer p = printer();

	p.eager = true;
	print(&p, "[" LINE(0, "out", "a", ",\"partial\":true") "," LINE(1, "out", "x", "") "," LINE(
			  0, "out", "", "") "," LINE(0, "out", "", "") "]");
	wrote(&p, "[w:0] a\n[w:1] x\n[w:0] \n", "");
}
END_TEST

START_TEST(a_gigantic_line_is_not_kept_in_memory)
{
	struct line_printer p = printer();
	_cleanup_json_ json_t *lines = json_array();
	char big[LINE_HELD_MAX / 2 + 1];

	memset(big, 'x', sizeof(big));
	for (int i = 0; i < 3; i++)
		json_array_append_new(
			lines, json_pack("{s:i, s:s, s:s%, s:b}", "rank", 0, "stream", "stdout",
				       "text", big, sizeof(big), "partial", i < 2));
	line_printer_print(&p, lines);
	line_printer_end(&p);
	fclose(p.out);
	fclose(p.err);
	ck_assert_uint_eq(out_len, strlen("[worker:0] ") + 3 * sizeof(big) + 1);
	free(out_text);
	free(err_text);
}
END_TEST

START_TEST(an_unfinished_line_is_ended_with_the_view)
{
	struct line_printer p = printer();

	print(&p, "[" LINE(3, "err", "dying", ",\"partial\":true") "]");
	wrote(&p, "", "[w:3 err] dying\n");
}
END_TEST

START_TEST(bytes_that_are_no_text_come_out_as_they_were)
{
	struct line_printer p = printer();
	static const char expected[] = "\xff\x00\x01 pad\n\xfe\n\x80\x81\n";

	p.prefix = false;
	print(&p, "[{\"rank\":0,\"stream\":\"stdout\",\"base64\":\"/wABIHBhZA==\"},"
		  "{\"rank\":0,\"stream\":\"stdout\",\"base64\":\"/g==\"},"
		  "{\"rank\":0,\"stream\":\"stdout\",\"base64\":\"gIE=\"}]");
	line_printer_end(&p);
	fclose(p.out);
	fclose(p.err);
	ck_assert_uint_eq(out_len, sizeof(expected) - 1);
	ck_assert_int_eq(memcmp(out_text, expected, out_len), 0);
	free(out_text);
	free(err_text);
}
END_TEST

START_TEST(invalid_base64_is_left_out)
{
	struct line_printer p = printer();

	p.prefix = false;
	print(&p, "[{\"rank\":0,\"stream\":\"stdout\",\"base64\":\"YWE!\"},"
		  "{\"rank\":0,\"stream\":\"stdout\",\"base64\":\"YW\"},"
		  "{\"rank\":0,\"stream\":\"stdout\",\"text\":\"next\"}]");
	wrote(&p, "next\n", "");
}
END_TEST

START_TEST(lines_have_their_times_where_these_are_known)
{
	struct line_printer p = printer();

	p.time = LINE_TIME_ISO;
	print(&p, "[" LINE(0, "out", "a", ",\"time_us\":1700000000000005") "," LINE(
			  0, "out", "b", "") "]");
	p.time = LINE_TIME_RELATIVE;
	p.start_us = 1700000000000000;
	print(&p, "[" LINE(0, "out", "c", ",\"time_us\":1700000001500000") "]");
	wrote(&p, "2023-11-14T22:13:20.000005+00:00 [w:0] a\n? [w:0] b\n   +1.500000 [w:0] c\n",
		"");
}
END_TEST

START_TEST(times_show_as_many_digits_as_are_known)
{
	struct line_printer p = printer();

	p.time = LINE_TIME_ISO;
	print(&p, "[" LINE(0, "out", "a",
			  ",\"time_us\":1700000000987654,\"range_us\":1000000") "," LINE(0, "out",
			  "b", ",\"time_us\":1700000000987654,\"range_us\":20000") "]");
	p.time = LINE_TIME_RELATIVE;
	p.start_us = 1700000000000000;
	print(&p, "[" LINE(0, "out", "c",
			  ",\"time_us\":1700000001987654,\"range_us\":1000000") "," LINE(0, "out",
			  "d", ",\"time_us\":1700000001987654,\"range_us\":99") "]");
	wrote(&p,
		"~2023-11-14T22:13:21+00:00 [w:0] a\n"
		"~2023-11-14T22:13:21.0+00:00 [w:0] b\n"
		"         ~+2 [w:0] c\n"
		"    ~+1.9877 [w:0] d\n",
		"");
}
END_TEST

START_TEST(missing_lines_count_as_no_bytes_of_a_worker)
{
	struct line_printer p = printer();

	print(&p, "[" LINE(0, "out", "2 lines are missing", ",\"missing_lines\":2") "]");
	p.raw = true;
	p.prefix = false;
	print(&p, "[" LINE(0, "out", "not shown", ",\"missing_lines\":2") "," LINE(
			  0, "out", "a", "") "]");
	wrote(&p, "[w:0] 2 lines are missing\na\n", "");
}
END_TEST

START_TEST(only_the_prefix_is_coloured)
{
	struct line_printer p = printer();

	p.color_out = true;
	print(&p, "[" LINE(0, "out", "a", "") "," LINE(0, "err", "b", "") "]");
	wrote(&p, "\033[36m[w:0]\033[0m a\n", "[w:0 err] b\n");
}
END_TEST

START_TEST(lines_of_wrong_types_are_printed_or_left_out)
{
	struct line_printer p = printer();

	print(&p, "{}");
	print(&p, "[null,3,{},{\"rank\":\"x\",\"text\":7}]");
	wrote(&p, "", "");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("line_printer");
	TCase *tc = tcase_create("line_printer");

	setenv("TZ", "UTC", 1);
	tzset();
	tcase_add_test(tc, each_line_has_its_prefix_and_goes_to_its_stream);
	tcase_add_test(tc, a_line_in_parts_is_put_together);
	tcase_add_test(tc, another_workers_line_comes_after_or_before_but_never_within);
	tcase_add_test(tc, a_terminal_sees_parts_at_once_and_another_worker_ends_them);
	tcase_add_test(tc, an_empty_end_of_an_interrupted_line_is_no_line);
	tcase_add_test(tc, a_gigantic_line_is_not_kept_in_memory);
	tcase_add_test(tc, an_unfinished_line_is_ended_with_the_view);
	tcase_add_test(tc, bytes_that_are_no_text_come_out_as_they_were);
	tcase_add_test(tc, invalid_base64_is_left_out);
	tcase_add_test(tc, lines_have_their_times_where_these_are_known);
	tcase_add_test(tc, times_show_as_many_digits_as_are_known);
	tcase_add_test(tc, missing_lines_count_as_no_bytes_of_a_worker);
	tcase_add_test(tc, only_the_prefix_is_coloured);
	tcase_add_test(tc, lines_of_wrong_types_are_printed_or_left_out);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
