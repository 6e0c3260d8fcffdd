/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/reader.h"

#include "agent/logs/dirs.h"
#include "agent/logs/log_file.h"
#include "agent/logs/time_index.h"
#include "agent/logs/zstd.h"
#include "tests/unit/child.h"
#include "tests/unit/logtest.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <sys/stat.h>

static struct logtest t;
static struct log_reader *reader;
static json_t *got; /* lines */
static char *text;  /* "rank:stream:text|" for each line, "+" behind partial ones */
static int64_t missed;
static bool ended, lazy;
static size_t largest;

static int on_lines(void *arg, json_t *lines, int64_t n, bool more)
{
	size_t i;
	json_t *line;
	char *dump = json_dumps(lines, 0);

	if (strlen(dump) > largest)
		largest = strlen(dump);
	free(dump);
	json_array_foreach (lines, i, line) {
		const char *s = json_string_value(json_object_get(line, "text"));
		char *next;

		ck_assert_int_ge(
			asprintf(&next, "%s%d:%c:%s%s|", text ? text : "",
				(int)json_integer_value(json_object_get(line, "local_rank")),
				json_string_value(json_object_get(line, "stream"))[3],
				s ? s : json_string_value(json_object_get(line, "base64")),
				json_object_get(line, "partial") ? "+" : ""),
			0);
		if (json_array_size(got) < 300) {
			free(text);
			text = next;
		} else {
			free(next);
		}
	}
	json_array_extend(got, lines);
	json_decref(lines);
	missed += n;
	if (!more) {
		ck_assert(!ended);
		ended = true;
		reader = log_reader_free(reader);
		return 0;
	}
	return lazy ? -EAGAIN : 0;
}

static void setup(void)
{
	logtest_init(&t);
	got = json_array();
	text = NULL;
	missed = 0;
	ended = lazy = false;
	reader = NULL;
	largest = 0;
}

static void teardown(void)
{
	ck_assert_uint_lt(largest, 256 * 1024);
	log_reader_free(reader);
	json_decref(got);
	free(text);
	logtest_fini(&t);
}

static int start(const char *params, struct error *err)
{
	json_t *j = json_loads(params, 0, NULL);
	int r;

	ck_assert_ptr_nonnull(j);
	r = log_reader_new(t.loop, t.dir, j, 12, on_lines, NULL, &reader, err);
	json_decref(j);
	return r;
}

/* All lines of a reader that does not follow. */
static const char *read_all(const char *params)
{
	struct error err = { 0 };

	free(text);
	text = NULL;
	ended = false;
	json_array_clear(got);
	ck_assert_msg(start(params, &err) == 0, "%s", err.text);
	LOGTEST_UNTIL(&t, ended);
	return text ? text : "";
}

static void rank_dir(int attempt, int rank, bool stamped)
{
	struct log_worker_info info = { .role = "trainer",
		.index = rank,
		.rank = 10 + rank,
		.local_rank = rank,
		.stamped = stamped };
	char name[64];

	snprintf(name, sizeof(name), "attempt_%d", attempt);
	mkdir(logtest_path(&t, name), 0700);
	snprintf(name, sizeof(name), "attempt_%d/%d", attempt, rank);
	mkdir(logtest_path(&t, name), 0700);
	ck_assert_int_eq(log_dirs_write_worker(logtest_path(&t, name), &info), 0);
}

static void append(const char *name, const char *data, size_t len)
{
	FILE *f = fopen(logtest_path(&t, name), "a");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(data, 1, len, f), len);
	fclose(f);
}

static void say(const char *name, const char *data)
{
	append(name, data, strlen(data));
}

static void two_ranks(void)
{
	rank_dir(0, 0, false);
	rank_dir(0, 1, false);
	say("attempt_0/0/stdout.log", "a1\na2\na3\n");
	say("attempt_0/0/stderr.log", "e1\n");
	say("attempt_0/1/stdout.log", "b1\r\nb2\nb3");
}

START_TEST(history_without_times_comes_rank_by_rank_and_stream_by_stream)
{
	two_ranks();
	ck_assert_str_eq(read_all("{}"), "0:o:a1|0:o:a2|0:o:a3|0:e:e1|1:o:b1|1:o:b2|1:o:b3+|");
	ck_assert_str_eq(
		json_string_value(json_object_get(json_array_get(got, 0), "role")), "trainer");
	ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(got, 0), "rank")), 10);
}
END_TEST

START_TEST(ranks_streams_and_texts_choose_lines)
{
	struct error err = { 0 };

	two_ranks();
	ck_assert_str_eq(read_all("{\"ranks\":\"11\"}"), "1:o:b1|1:o:b2|1:o:b3+|");
	ck_assert_str_eq(read_all("{\"stream\":\"stderr\"}"), "0:e:e1|");
	ck_assert_str_eq(read_all("{\"contains\":\"2\"}"), "0:o:a2|1:o:b2|");
	ck_assert_str_eq(read_all("{\"ranks\":\"5\"}"), "");
	ck_assert_int_eq(start("{\"ranks\":\"x\"}", &err), -EINVAL);
	ck_assert_str_eq(err.field, "ranks");
}
END_TEST

START_TEST(the_last_lines_of_each_file_are_found)
{
	two_ranks();
	ck_assert_str_eq(read_all("{\"lines\":1}"), "0:o:a3|0:e:e1|1:o:b3+|");
	ck_assert_str_eq(read_all("{\"lines\":2}"), "0:o:a2|0:o:a3|0:e:e1|1:o:b2|1:o:b3+|");
	ck_assert_str_eq(
		read_all("{\"lines\":9}"), "0:o:a1|0:o:a2|0:o:a3|0:e:e1|1:o:b1|1:o:b2|1:o:b3+|");
	ck_assert_str_eq(read_all("{\"lines\":0}"), "");
	ck_assert_str_eq(read_all("{\"lines\":1,\"contains\":\"1\"}"), "0:o:a1|0:e:e1|1:o:b1|");
}
END_TEST

START_TEST(an_unknown_attempt_is_an_error)
{
	struct error err = { 0 };

	ck_assert_int_eq(start("{}", &err), -ENOENT);
	two_ranks();
	ck_assert_int_eq(start("{\"attempt\":3}", &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "attempt 3"));
	rank_dir(3, 0, false);
	say("attempt_3/0/stdout.log", "new\n");
	ck_assert_str_eq(read_all("{}"), "0:o:new|");
	ck_assert_str_eq(read_all("{\"attempt\":0,\"stream\":\"stderr\"}"), "0:e:e1|");
}
END_TEST

static bool has(const char *what)
{
	return text && strstr(text, what);
}

START_TEST(a_follower_sees_growth_new_logs_and_new_attempts_in_order)
{
	struct error err = { 0 };

	two_ranks();
	ck_assert_int_eq(start("{\"follow\":true,\"lines\":1}", &err), 0);
	LOGTEST_UNTIL(&t, has("b3"));
	ck_assert_str_eq(text, "0:o:a3|0:e:e1|1:o:b3+|");
	say("attempt_0/1/stdout.log", "...\nb4\n");
	LOGTEST_UNTIL(&t, has("b4"));
	ck_assert_str_eq(text, "0:o:a3|0:e:e1|1:o:b3+|1:o:...|1:o:b4|");
	say("attempt_0/1/stderr.log", "late\n");
	LOGTEST_UNTIL(&t, has("late"));
	/* An attempt's last lines come before the first lines of the next. */
	say("attempt_0/0/stdout.log", "last words");
	rank_dir(1, 0, false);
	say("attempt_1/0/stdout.log", "again\n");
	LOGTEST_UNTIL(&t, has("again"));
	ck_assert_ptr_nonnull(strstr(text, "1:e:late|0:o:last words|0:o:again|"));
	say("attempt_1/0/stdout.log", "end");
	log_reader_run_ended(reader);
	LOGTEST_UNTIL(&t, ended);
	ck_assert_ptr_nonnull(strstr(text, "0:o:again|0:o:end|"));
}
END_TEST

START_TEST(a_follower_may_come_before_the_first_attempt)
{
	struct error err = { 0 };

	ck_assert_int_eq(start("{\"follow\":true}", &err), 0);
	loop_run_once(t.loop, true);
	rank_dir(0, 0, false);
	say("attempt_0/0/stdout.log", "hello\n");
	LOGTEST_UNTIL(&t, has("hello"));
	log_reader_run_ended(reader);
	LOGTEST_UNTIL(&t, ended);
}
END_TEST

START_TEST(bytes_that_are_not_text_come_as_base64)
{
	rank_dir(0, 0, false);
	append("attempt_0/0/stdout.log", "a\0b\n\xff\xfe\n\xc3\xa4\n", 10);
	ck_assert_str_eq(read_all("{}"), "0:o:YQBi|0:o://4=|0:o:\xc3\xa4|");
}
END_TEST

START_TEST(stamps_become_times_and_choose_lines)
{
	rank_dir(0, 0, true);
	say("attempt_0/0/stdout.log",
		"2026-01-01T00:00:00.000001Z one\n2026-01-01T00:00:01.500000Z two\n"
		"2026-01-01T00:00:02.000000Z three\n");
	ck_assert_str_eq(read_all("{}"), "0:o:one|0:o:two|0:o:three|");
	ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(got, 0), "time_us")),
		1767225600000001);
	ck_assert_str_eq(read_all("{\"since_us\":1767225601500000}"), "0:o:two|0:o:three|");
	ck_assert_str_eq(read_all("{\"until_us\":1767225601500000}"), "0:o:one|0:o:two|");
	ck_assert_str_eq(read_all("{\"until_us\":1767225601500000,\"lines\":1}"), "0:o:two|");
}
END_TEST

/* A stamped line of 2026-01-01 at so many tenths of a second. */
static void say_at(const char *name, int tenths, const char *what)
{
	char line[64];

	snprintf(line, sizeof(line), "2026-01-01T00:00:%02d.%d00000Z %s\n", tenths / 10,
		tenths % 10, what);
	say(name, line);
}

START_TEST(lines_of_several_ranks_come_in_order_of_time)
{
	for (int i = 0; i < 3; i++)
		rank_dir(0, i, true);
	say_at("attempt_0/0/stdout.log", 1, "a");
	say_at("attempt_0/2/stdout.log", 2, "b");
	say_at("attempt_0/0/stderr.log", 3, "c");
	say_at("attempt_0/1/stdout.log", 4, "d");
	say_at("attempt_0/1/stdout.log", 5, "e");
	say_at("attempt_0/2/stdout.log", 5, "f");
	say_at("attempt_0/0/stdout.log", 5, "g");
	say_at("attempt_0/1/stderr.log", 6, "h");
	/* The clock went back: the later line still comes later. */
	say_at("attempt_0/1/stderr.log", 2, "i");
	say_at("attempt_0/0/stdout.log", 7, "j");
	say("attempt_0/2/stdout.log", "2026-01-01T00:00:00.800000Z the end");
	say_at("attempt_0/1/stdout.log", 9, "k");
	ck_assert_str_eq(read_all("{}"),
		"0:o:a|2:o:b|0:e:c|1:o:d|0:o:g|1:o:e|2:o:f|1:e:h|1:e:i|0:o:j|2:o:the end+|1:o:k|");
	ck_assert_str_eq(read_all("{\"lines\":1}"), "1:e:i|0:e:c|0:o:j|2:o:the end+|1:o:k|");
	ck_assert_str_eq(read_all("{\"lines\":1,\"contains\":\"e\"}"), "1:o:e|2:o:the end+|");
	ck_assert_str_eq(read_all("{\"since_us\":1767225600600000,\"until_us\":1767225600700000}"),
		"1:e:h|0:o:j|");
}
END_TEST

START_TEST(a_line_with_an_uncertain_time_has_a_range)
{
	const char *path;

	rank_dir(0, 0, false);
	rank_dir(0, 1, false);
	say("attempt_0/0/stdout.log", "a\nb\nc\n");
	say("attempt_0/1/stdout.log", "d\ne\n");
	path = logtest_path(&t, "attempt_0/0/stdout.log");
	log_index_append(path, 0, 100000000);
	log_index_append(path, 2, 100400000);
	log_index_append(path, 4, 101400000);
	log_index_append(path, 4, 300000000);
	path = logtest_path(&t, "attempt_0/1/stdout.log");
	log_index_append(path, 2, 200000000);
	/* The time of d is not known. */
	ck_assert_str_eq(read_all("{}"), "1:o:d|0:o:a|0:o:b|1:o:e|0:o:c|");
	for (size_t i = 0; i < 5; i++) {
		static const int64_t times[] = { -1, 100000000, 100400000, 200000000, 300000000 };
		static const int64_t ranges[] = { -1, 400000, 1000000, 1000000, 1000000 };
		const json_t *line = json_array_get(got, i), *time, *range;

		time = json_object_get(line, "time_us");
		range = json_object_get(line, "range_us");
		ck_assert_int_eq(time ? json_integer_value(time) : -1, times[i]);
		ck_assert_int_eq(range ? json_integer_value(range) : -1, ranges[i]);
	}
}
END_TEST

/* Long logs of several ranks with lines at random times: each log keeps its order, and all lines
 * are in the order of time. */
START_TEST(long_logs_are_put_into_one_order)
{
	enum { RANKS = 5 };
	int lines = walk_length(2000, 2000, 200), ms[RANKS] = { 0 }, next[RANKS] = { 0 };
	int64_t before = 0;
	json_t *line;
	size_t i;

	srand(7);
	for (int rank = 0; rank < RANKS; rank++) {
		char name[64], *bytes = NULL;
		size_t size;
		FILE *f = open_memstream(&bytes, &size);

		rank_dir(0, rank, true);
		for (int n = 0; n < lines; n++) {
			ms[rank] += rand() % (rank == 3 ? 2 : 20);
			fprintf(f, "2026-01-01T00:%02d:%02d.%03d000Z %d %*s\n", ms[rank] / 60000,
				ms[rank] / 1000 % 60, ms[rank] % 1000, n, rand() % 300, "");
		}
		fclose(f);
		snprintf(name, sizeof(name), "attempt_0/%d/stdout.log", rank);
		append(name, bytes, size);
		free(bytes);
	}
	read_all("{}");
	ck_assert_uint_eq(json_array_size(got), (size_t)lines * RANKS);
	json_array_foreach (got, i, line) {
		int64_t us = json_integer_value(json_object_get(line, "time_us"));
		int rank = (int)json_integer_value(json_object_get(line, "local_rank"));

		if (us < before)
			ck_abort_msg("line %zu is older than the one in front of it", i);
		before = us;
		if (atoi(json_string_value(json_object_get(line, "text"))) != next[rank]++)
			ck_abort_msg("line %zu is out of its log's order", i);
	}
}
END_TEST

START_TEST(lines_of_one_second_alternate_between_ranks)
{
	for (int rank = 0; rank < 2; rank++) {
		char log[64];
		int64_t begin = 100000000 + rank * 20000;

		rank_dir(0, rank, false);
		snprintf(log, sizeof(log), "attempt_0/%d/stdout.log", rank);
		say(log, "step 1\nstep 2\nstep 3\nstep 4\n");
		log_index_append(logtest_path(&t, log), 0, begin);
		log_index_append(logtest_path(&t, log), 28, begin + 900000);
	}
	/* Lines that one rank wrote at once stay together. */
	say("attempt_0/0/stderr.log", "Traceback\n  a\nError\n");
	log_index_append(logtest_path(&t, "attempt_0/0/stderr.log"), 0, 100300000);
	log_index_append(logtest_path(&t, "attempt_0/0/stderr.log"), 20, 100310000);
	ck_assert_str_eq(read_all("{}"),
		"0:o:step 1|1:o:step 1|0:o:step 2|1:o:step 2|0:e:Traceback|0:e:  a|0:e:Error|"
		"0:o:step 3|1:o:step 3|0:o:step 4|1:o:step 4|");
}
END_TEST

START_TEST(an_unknown_worker_is_an_error)
{
	struct error err = { 0 };

	two_ranks();
	ck_assert_str_eq(read_all("{\"ranks\":\"5\"}"), "");
	ck_assert_int_eq(start("{\"ranks\":\"10,12-13\"}", &err), -ESRCH);
	ck_assert_str_eq(err.text, "there is no worker 12");
	ck_assert_str_eq(err.field, "12");
	rank_dir(0, 2, false);
	say("attempt_0/2/stdout.log", "of a worker that was\n");
	ck_assert_str_eq(read_all("{\"ranks\":\"12\"}"), "2:o:of a worker that was|");
}
END_TEST

START_TEST(the_index_chooses_lines_within_a_second)
{
	const char *path;

	rank_dir(0, 0, false);
	say("attempt_0/0/stdout.log", "one\ntwo\nthree\n");
	path = logtest_path(&t, "attempt_0/0/stdout.log");
	log_index_append(path, 0, 100000000);
	log_index_append(path, 4, 100000000);
	log_index_append(path, 4, 200000000);
	log_index_append(path, 8, 200900000);
	log_index_append(path, 8, 300000000);
	ck_assert_str_eq(read_all("{\"since_us\":200000000}"), "0:o:two|0:o:three|");
	ck_assert_str_eq(read_all("{\"since_us\":250000000}"), "0:o:three|");
	ck_assert_str_eq(read_all("{\"until_us\":250000000}"), "0:o:one|0:o:two|");
	ck_assert_str_eq(read_all("{\"since_us\":900000000}"), "");
	ck_assert_int_eq(json_array_size(got), 0);
}
END_TEST

static void rotated_log(bool compress)
{
	rank_dir(0, 0, false);
	say("attempt_0/0/stdout.log.1", "p1\np2\n");
	say("attempt_0/0/stdout.log.2", "p3\np4\n");
	say("attempt_0/0/stdout.log", "p5\n");
	if (!compress)
		return;
	for (int i = 1; i <= 2; i++) {
		char from[64], to[64];

		snprintf(from, sizeof(from), "attempt_0/0/stdout.log.%d", i);
		snprintf(to, sizeof(to), "attempt_0/0/stdout.log.%d.zst", i);
		ck_assert_int_eq(
			log_zstd_compress(logtest_path(&t, from), logtest_path(&t, to)), 0);
		unlink(logtest_path(&t, from));
	}
}

START_TEST(rotated_parts_belong_to_the_log)
{
	if (_i && !HAVE_ZSTD)
		return;
	rotated_log(_i);
	ck_assert_str_eq(read_all("{}"), "0:o:p1|0:o:p2|0:o:p3|0:o:p4|0:o:p5|");
	ck_assert_str_eq(read_all("{\"lines\":1}"), "0:o:p5|");
	ck_assert_str_eq(read_all("{\"lines\":2}"), "0:o:p4|0:o:p5|");
	ck_assert_str_eq(read_all("{\"lines\":4}"), "0:o:p2|0:o:p3|0:o:p4|0:o:p5|");
	ck_assert_str_eq(read_all("{\"lines\":2,\"contains\":\"p\"}"), "0:o:p4|0:o:p5|");
}
END_TEST

START_TEST(a_follower_goes_over_rotation)
{
	const struct log_file_options opt = {
		.path = logtest_path(&t, "attempt_0/0/stdout.log"), .max_size = 64, .keep = 100
	};
	struct log_file *f;
	struct error err = { 0 };
	char line[32], expected[32];
	int lines = walk_length(200, 200, 60);

	rank_dir(0, 0, false);
	ck_assert_int_eq(log_file_new(&opt, &f), 0);
	ck_assert_int_eq(start("{\"follow\":true}", &err), 0);
	for (int i = 0; i < lines; i++) {
		int n = snprintf(line, sizeof(line), "line %d\n", i);

		ck_assert_int_eq(log_file_write(f, line, n, 1000000 + i), 0);
		if (i % 7 == 0) {
			snprintf(expected, sizeof(expected), "o:line %d|", i);
			LOGTEST_UNTIL(&t, has(expected));
		}
	}
	snprintf(expected, sizeof(expected), "o:line %d|", lines - 1);
	LOGTEST_UNTIL(&t, has(expected));
	ck_assert_uint_eq(json_array_size(got), (size_t)lines);
	for (int i = 0; i < lines; i++) {
		snprintf(line, sizeof(line), "line %d", i);
		ck_assert_str_eq(
			json_string_value(json_object_get(json_array_get(got, i), "text")), line);
	}
	log_file_free(f);
	log_reader_run_ended(reader);
	LOGTEST_UNTIL(&t, ended);
}
END_TEST

START_TEST(a_gap_left_by_rotation_is_one_line_that_counts)
{
	const struct log_file_options opt = {
		.path = logtest_path(&t, "attempt_0/0/stdout.log"), .max_size = 640, .keep = 2
	};
	struct log_file *f;
	int gaps = 0, seen = 0, before = -1;
	int64_t bytes = 0;
	json_t *line;
	size_t i;

	rank_dir(0, 0, false);
	ck_assert_int_eq(log_file_new(&opt, &f), 0);
	for (int n = 0; n < 2000; n++) {
		char out[32];
		int len = snprintf(out, sizeof(out), "line %d\n", n);

		bytes += len;
		ck_assert_int_eq(log_file_write(f, out, len, 1000000 + n), 0);
	}
	log_file_free(f);
	read_all("{}");
	json_array_foreach (got, i, line) {
		const char *s = json_string_value(json_object_get(line, "text"));
		int n, missing;
		char part[128];

		if (!json_object_get(line, "missing_lines")) {
			ck_assert_int_eq(sscanf(s, "line %d", &n), 1);
			bytes -= strlen(s) + 1;
			seen++;
			before = n;
			continue;
		}
		gaps++;
		missing = (int)json_integer_value(json_object_get(line, "missing_lines"));
		ck_assert_int_eq(missing, 2000 - (int)json_array_size(got) + 1);
		snprintf(part, sizeof(part),
			"elasticd: %d lines (%d bytes) are missing here: ", missing,
			(int)json_integer_value(json_object_get(line, "missing_bytes")));
		ck_assert_msg(!strncmp(s, part, strlen(part)), "%s", s);
		bytes -= json_integer_value(json_object_get(line, "missing_bytes"));
		line = json_array_get(got, i + 1);
		ck_assert_int_eq(
			sscanf(json_string_value(json_object_get(line, "text")), "line %d", &n), 1);
		ck_assert_int_eq(n, before + missing + 1);
	}
	ck_assert_int_eq(gaps, 1);
	ck_assert_int_eq(bytes, 0);
	/* A part that was removed by hand has no record. */
	unlink(logtest_path(&t, "attempt_0/0/stdout.parts"));
	read_all("{}");
	json_array_foreach (got, i, line)
		if (json_object_get(line, "missing_lines"))
			ck_assert_ptr_nonnull(strstr(
				json_string_value(json_object_get(line, "text")), "at least 0"));
	/* The newer lines have no gap. */
	ck_assert_ptr_null(strstr(read_all("{\"lines\":5}"), "missing"));
}
END_TEST

START_TEST(a_text_is_found_wherever_it_lies_in_a_long_line)
{
	const size_t size = 100000, text_len = 6;
	char *big = malloc(size + 1);
	size_t places[] = { 0, 16384 - 3, 2 * 16384 - 1, size - text_len };
	size_t i;
	json_t *line;

	rank_dir(0, 0, false);
	for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++) {
		memset(big, 'a' + (int)k, size);
		memcpy(big + places[k], "needle", text_len);
		big[size] = '\n';
		append("attempt_0/0/stdout.log", big, size + 1);
		say("attempt_0/0/stdout.log", "hay\n");
	}
	free(big);
	read_all("{\"contains\":\"needle\"}");
	/* From the match on, the whole line is shown. */
	for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++) {
		bool partial = false;
		size_t n = 0;

		json_array_foreach (got, i, line) {
			const char *s = json_string_value(json_object_get(line, "text"));

			if (s[strlen(s) - 1] != 'a' + (int)k && !strstr(s, "needle"))
				continue;
			if (strchr(s, 'a' + (int)k)) {
				n += strlen(s);
				partial = json_object_get(line, "partial") != NULL;
			}
		}
		ck_assert_uint_ge(n + 16384, size - places[k]);
		ck_assert(!partial);
	}
	ck_assert_ptr_null(strstr(text, "hay"));
	read_all("{\"contains\":\"needle\",\"lines\":1}");
	ck_assert_uint_ge(json_array_size(got), 1);
	ck_assert_uint_le(json_array_size(got), 2);
}
END_TEST

START_TEST(a_long_line_comes_in_pieces_of_bounded_size)
{
	size_t size = (size_t)walk_length(1 << 20, 1 << 20, 1 << 18), total = 0, i;
	char *big = malloc(size);
	json_t *line;

	rank_dir(0, 0, false);
	memset(big, 1, size); /* six bytes each in JSON */
	append("attempt_0/0/stdout.log", big, size);
	say("attempt_0/0/stdout.log", "\n");
	read_all("{}");
	json_array_foreach (got, i, line) {
		total += json_string_length(json_object_get(line, "text"));
		ck_assert_int_eq(
			json_object_get(line, "partial") != NULL, i + 1 < json_array_size(got));
	}
	ck_assert_uint_eq(total, size);
	free(big);
}
END_TEST

START_TEST(a_slow_viewer_skips_lines_and_gets_their_number)
{
	struct error err = { 0 };
	char *block = malloc(1 << 20);
	int blocks = walk_length(20, 20, 10), width = walk_length(64, 64, 512);
	int64_t lines = 1;

	rank_dir(0, 0, false);
	say("attempt_0/0/stdout.log", "first\n");
	ck_assert_int_eq(start("{\"follow\":true}", &err), 0);
	LOGTEST_UNTIL(&t, has("first"));
	lazy = true;
	/* The viewer stopped in the middle of a line. */
	say("attempt_0/0/stdout.log", "second\nhalf a ");
	lines++;
	LOGTEST_UNTIL(&t, has("second"));
	/* The viewer has not taken this line: nothing is read for it now. */
	for (int i = 0; i < (1 << 20); i++)
		block[i] = i % width == width - 1 ? '\n' : 'x';
	for (int i = 0; i < blocks; i++) {
		append("attempt_0/0/stdout.log", block, 1 << 20);
		lines += (1 << 20) / width;
	}
	free(block);
	loop_run_once(t.loop, false);
	ck_assert_uint_eq(json_array_size(got), 2);
	ck_assert_str_eq(text, "0:o:first|0:o:second|");
	lazy = false;
	log_reader_resume(reader);
	say("attempt_0/0/stdout.log", "third\n");
	lines++;
	log_reader_run_ended(reader);
	LOGTEST_UNTIL(&t, ended);
	ck_assert_int_gt(missed, (blocks - 2) * (1 << 20) / width);
	ck_assert_int_eq(missed + (int64_t)json_array_size(got), lines);
	for (size_t i = 2; i + 1 < json_array_size(got); i++)
		if (json_string_length(json_object_get(json_array_get(got, i), "text")) !=
			(size_t)width - 1)
			ck_abort_msg("line %zu is not whole", i);
	ck_assert_str_eq(json_string_value(json_object_get(
				 json_array_get(got, json_array_size(got) - 1), "text")),
		"third");
}
END_TEST

START_TEST(a_viewer_that_comes_back_late_gets_whole_lines)
{
	struct error err = { 0 };
	uint64_t late;

	rank_dir(0, 0, false);
	say("attempt_0/0/stdout.log", "first\n");
	ck_assert_int_eq(start("{\"follow\":true}", &err), 0);
	LOGTEST_UNTIL(&t, has("first"));
	lazy = true;
	say("attempt_0/0/stdout.log", "second\nhal");
	LOGTEST_UNTIL(&t, has("second"));
	late = loop_now_ms() + 300;
	say("attempt_0/0/stdout.log", "f\n");
	while (loop_now_ms() < late)
		loop_run_once(t.loop, false);
	lazy = false;
	log_reader_resume(reader);
	LOGTEST_UNTIL(&t, has("half"));
	ck_assert_str_eq(text, "0:o:first|0:o:second|0:o:half|");
}
END_TEST

START_TEST(history_has_the_last_state_of_a_progress_bar)
{
	rank_dir(0, 0, false);
	say("attempt_0/0/stderr.log", "begin\n\r 1%\r 2%\r 3%\n 50%\r100%\r\nend\n");
	ck_assert_str_eq(read_all("{}"), "0:e:begin|0:e: 3%|0:e:100%|0:e:end|");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log_reader");
	TCase *c = tcase_create("log_reader");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, history_without_times_comes_rank_by_rank_and_stream_by_stream);
	tcase_add_test(c, ranks_streams_and_texts_choose_lines);
	tcase_add_test(c, the_last_lines_of_each_file_are_found);
	tcase_add_test(c, an_unknown_attempt_is_an_error);
	tcase_add_test(c, a_follower_sees_growth_new_logs_and_new_attempts_in_order);
	tcase_add_test(c, a_follower_may_come_before_the_first_attempt);
	tcase_add_test(c, bytes_that_are_not_text_come_as_base64);
	tcase_add_test(c, stamps_become_times_and_choose_lines);
	tcase_add_test(c, lines_of_several_ranks_come_in_order_of_time);
	tcase_add_test(c, a_line_with_an_uncertain_time_has_a_range);
	tcase_add_test(c, long_logs_are_put_into_one_order);
	tcase_add_test(c, lines_of_one_second_alternate_between_ranks);
	tcase_add_test(c, an_unknown_worker_is_an_error);
	tcase_add_test(c, the_index_chooses_lines_within_a_second);
	tcase_add_loop_test(c, rotated_parts_belong_to_the_log, 0, 2);
	tcase_add_test(c, a_follower_goes_over_rotation);
	tcase_add_test(c, a_gap_left_by_rotation_is_one_line_that_counts);
	tcase_add_test(c, a_text_is_found_wherever_it_lies_in_a_long_line);
	tcase_add_test(c, a_long_line_comes_in_pieces_of_bounded_size);
	tcase_add_test(c, a_slow_viewer_skips_lines_and_gets_their_number);
	tcase_add_test(c, a_viewer_that_comes_back_late_gets_whole_lines);
	tcase_add_test(c, history_has_the_last_state_of_a_progress_bar);
	suite_add_tcase(s, c);
	return suite_run(s);
}
