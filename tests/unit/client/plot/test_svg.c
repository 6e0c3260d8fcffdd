/* SPDX-License-Identifier: Apache-2.0 */
#include "client/plot/svg.h"

#include "client/plot/axis.h"
#include "client/plot/xml.h"
#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <ctype.h>
#include <string.h>

#define T INT64_C(1700000000000000)
#define SECOND INT64_C(1000000)

enum { DEPTH_MAX = 32, SVG_BYTES_MAX = 2000000 };

/* Fails unless text is well-formed XML of what the writer uses: elements, attributes, text,
 * entities of XML itself. Returns how many elements there are. */
static size_t check_xml(const char *text)
{
	const char *open[DEPTH_MAX];
	size_t lengths[DEPTH_MAX], depth = 0, elements = 0;
	const char *p = text;

	while (*p) {
		size_t n;

		if (*p == '&') {
			ck_assert_msg(!strncmp(p, "&lt;", 4) || !strncmp(p, "&gt;", 4) ||
					      !strncmp(p, "&amp;", 5) || !strncmp(p, "&quot;", 6),
				"%.40s", p);
			p++;
			continue;
		}
		ck_assert_msg((unsigned char)*p >= ' ' || *p == '\n' || *p == '\t', "%d", *p);
		if (*p++ != '<')
			continue;
		if (*p == '?') {
			p = strstr(p, "?>") + 2;
			continue;
		}
		n = strcspn(p + (*p == '/'), " />\n");
		if (*p == '/') {
			ck_assert_uint_gt(depth, 0);
			depth--;
			ck_assert_msg(lengths[depth] == n && !memcmp(open[depth], p + 1, n),
				"%.40s does not end %.10s", p, open[depth]);
			p += n + 1;
			ck_assert_msg(*p++ == '>', "%.40s", p);
			continue;
		}
		ck_assert_uint_lt(depth, DEPTH_MAX);
		open[depth] = p;
		lengths[depth] = n;
		elements++;
		p += n;
		while (*p == ' ') {
			p += strspn(p, " ");
			ck_assert_msg(islower((unsigned char)*p), "%.40s", p);
			p += strcspn(p, "=");
			ck_assert_msg(!strncmp(p, "=\"", 2), "%.40s", p);
			n = strcspn(p + 2, "\"<");
			ck_assert_msg(p[2 + n] == '"', "%.40s", p);
			p += n + 3;
		}
		if (!strncmp(p, "/>", 2))
			p += 2;
		else
			ck_assert_msg(*p++ == '>' && ++depth, "%.40s", p);
	}
	ck_assert_uint_eq(depth, 0);
	return elements;
}

static char *render(const struct plot *p, bool page)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(page ? svg_write_page(p, f) : svg_write(p, f), 0);
	ck_assert_int_eq(fclose(f), 0);
	return text;
}

/* Takes data. */
static void add(struct plot *p, int64_t at, const char *name, int attempt, int rank,
	const char *text, json_t *data)
{
	json_t *j = json_pack("{s:I, s:s, s:s, s:s, s:s, s:i}", "time_us", (json_int_t)at, "event",
		name, "job", "train", "run", "train_abcdefgh", "text", text, "attempt", attempt);

	ck_assert_ptr_nonnull(j);
	if (rank >= 0)
		json_put(j, "rank", json_integer(rank));
	if (data)
		json_put(j, "data", data);
	plot_add(p, j);
	json_decref(j);
}

static void worker_ended(struct plot *p, int64_t from, int64_t to, int attempt, int rank,
	bool failed, const char *text)
{
	add(p, to, "worker-ended", attempt, rank, text,
		json_pack("{s:s, s:i, s:i, s:s, s:{s:i}, s:I, s:I}", "role", "worker", "index",
			rank, "rank", rank, "state", failed ? "failed" : "stopped", "exit", "code",
			failed, "started_us", (json_int_t)from, "ended_us", (json_int_t)to));
	if (failed)
		add(p, to, "worker-failed", attempt, rank, text,
			json_pack("{s:I}", "time_us", (json_int_t)to));
}

/* A run of attempts that last a minute each; every worker saves so often in each. */
static void make_run(struct plot *p, int workers, int attempts, int saves, const char *text)
{
	*p = (struct plot){ 0 };
	for (int a = 0; a < attempts; a++) {
		int64_t t = T + a * 60 * SECOND;

		add(p, t, "state", a, -1, "rendezvous", json_pack("{s:s}", "to", "rendezvous"));
		add(p, t + 4 * SECOND, "state", a, -1, "starting",
			json_pack("{s:s}", "to", "starting"));
		add(p, t + 9 * SECOND, "state", a, -1, "running",
			json_pack("{s:s}", "to", "running"));
		for (int i = 0; i < saves; i++)
			for (int r = 0; r < workers; r++)
				add(p, t + 10 * SECOND + 40 * SECOND * i / saves + r, "saved", a, r,
					"worker has saved at step 1", NULL);
		add(p, t + 52 * SECOND, "state", a, -1, "stopping",
			json_pack("{s:s}", "to", "stopping"));
		for (int r = 0; r < workers; r++)
			worker_ended(p, t + 5 * SECOND, t + 55 * SECOND + r, a, r, r == a % workers,
				text);
	}
	add(p, T + attempts * 60 * SECOND, "ended", attempts - 1, -1, text,
		json_pack("{s:s, s:i, s:s, s:{s:s, s:i, s:i, s:i, s:s}}", "result", "failed",
			"exit_status", 1, "message", text, "root_cause", "role", "worker", "index",
			(attempts - 1) % workers, "rank", (attempts - 1) % workers, "attempt",
			attempts - 1, "message", text));
	ck_assert_int_eq(plot_finish(p, 0), 0);
}

static size_t count(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, part)); p++)
		n++;
	return n;
}

START_TEST(a_small_run_shows_every_start_and_its_root_cause)
{
	struct plot p;
	_cleanup_free_ char *s = NULL;

	make_run(&p, 3, 4, 1, "worker:0 (pid 7): exit code 1");
	s = render(&p, false);
	ck_assert_uint_gt(check_xml(s), 50);
	ck_assert_uint_eq(count(s, "(pid 7): exit code 1, attempt "), 3 * 4);
	ck_assert_uint_eq(count(s, ">worker:2</text>"), 1);
	ck_assert_uint_eq(count(s, ">attempt 3</text>"), 1);
	ck_assert_uint_eq(count(s, "href=\"#r\""), 1 + 1); /* the mark, and the legend's */
	ck_assert_uint_eq(count(s, "href=\"#f\""), 3 + 1);
	ck_assert_ptr_nonnull(strstr(s, "Root cause: worker:0, rank 0, attempt 3, after 3m 55s"));
	ck_assert_ptr_nonnull(strstr(s, ">failed, exit status 1<"));
	plot_fini(&p);
}
END_TEST

START_TEST(texts_of_workers_stay_texts)
{
	struct plot p;
	_cleanup_free_ char *s = NULL, *page = NULL;

	make_run(&p, 1, 1, 0, "</title></script><script>\"&'\x01\x1b[2J \xe2\x82\xac");
	s = render(&p, false);
	(void)check_xml(s);
	ck_assert_ptr_null(strstr(s, "<script"));
	ck_assert_ptr_nonnull(strstr(s, "\xe2\x82\xac"));
	ck_assert_ptr_nonnull(strstr(s, "\xef\xbf\xbd[2J"));
	page = render(&p, true);
	ck_assert_uint_eq(count(page, "<script"), 1);
	ck_assert_uint_eq(count(page, "</script>"), 1);
	/* The page asks for nothing but itself: that is the name of SVG, here and in the script. */
	ck_assert_ptr_null(strstr(page, "src="));
	ck_assert_ptr_null(strstr(page, "url("));
	ck_assert_uint_eq(count(page, "://"), 2);
	ck_assert_uint_eq(count(page, "http://www.w3.org/2000/svg"), 2);
	plot_fini(&p);
}
END_TEST

/* 64 workers, 100 attempts, more than 100,000 events. */
START_TEST(a_large_run_is_below_two_megabytes)
{
	struct plot p;
	_cleanup_free_ char *s = NULL;

	make_run(&p, 64, 100, 15, "worker:63 (pid 123456): exit code 1 after 50.123 s");
	ck_assert_uint_gt(p.events, 100000);
	s = render(&p, false);
	(void)check_xml(s);
	ck_assert_uint_lt(strlen(s), SVG_BYTES_MAX);
	ck_assert_msg(count(s, "<g><title>worker:63 (pid") == 6400, "each start is there");
	plot_fini(&p);
}
END_TEST

/* No number of starts makes it grow. */
START_TEST(thousands_of_workers_and_starts_are_drawn_together)
{
	struct plot p;
	_cleanup_free_ char *s = NULL;

	make_run(&p, 1000, 60, 0, "x");
	s = render(&p, false);
	(void)check_xml(s);
	ck_assert_uint_lt(strlen(s), SVG_BYTES_MAX);
	ck_assert_ptr_nonnull(strstr(s, " starts in "));
	plot_fini(&p);
}
END_TEST

static void waited(struct plot *p, double from, double to, const char *ranks)
{
	add(p, T + (int64_t)(to * 1e6), "barrier", 0, 1, "workers waited for worker:1",
		json_pack("{s:[{s:s, s:I}]}", "waits", "ranks", ranks, "since_us",
			(json_int_t)(T + (int64_t)(from * 1e6))));
}

START_TEST(waits_at_barriers_are_bars_of_their_workers)
{
	struct plot p;
	_cleanup_free_ char *s = NULL;

	make_run(&p, 3, 1, 0, "x");
	s = render(&p, false);
	ck_assert_uint_eq(count(s, "class=\"i\""), 0);
	plot_fini(&p);
	free(s);
	p = (struct plot){ 0 };
	waited(&p, 20, 27, "0,2");
	for (int r = 0; r < 3; r++)
		worker_ended(&p, T, T + 60 * SECOND, 0, r, false, "y");
	ck_assert_int_eq(plot_finish(&p, 0), 0);
	s = render(&p, false);
	(void)check_xml(s);
	ck_assert_uint_eq(count(s, "class=\"i\""), 2 + 1); /* and the legend's */
	ck_assert_uint_eq(count(s, "worker:2 waited 7s: workers waited for worker:1</title>"), 1);
	ck_assert_uint_eq(count(s, "worker:1 waited"), 0);
	plot_fini(&p);
}
END_TEST

START_TEST(very_many_waits_are_drawn_together)
{
	struct plot p = { 0 };
	_cleanup_free_ char *s = NULL;

	for (int i = 0; i < 10000; i++)
		waited(&p, i * 4, i * 4 + 3, "0-62");
	for (int r = 0; r < 64; r++)
		worker_ended(&p, T, T + 40000 * SECOND, 0, r, false, "y");
	ck_assert_int_eq(plot_finish(&p, 0), 0);
	ck_assert_uint_eq(p.workers[62].n_waits, 10000);
	s = render(&p, false);
	(void)check_xml(s);
	ck_assert_uint_lt(strlen(s), SVG_BYTES_MAX);
	/* Three of each four seconds; so many bars would be too many. */
	ck_assert_ptr_nonnull(strstr(s, "<g opacity=\"0.78\"><title>worker:5 waited "));
	ck_assert_uint_lt(count(s, "class=\"i\""), 2000 + 64);
	ck_assert_uint_gt(count(s, "class=\"i\""), 900);
	plot_fini(&p);
}
END_TEST

START_TEST(workers_beyond_thousands_are_counted)
{
	enum { WORKERS = 20000 };
	struct plot p = { 0 };
	_cleanup_free_ char *s = NULL;

	for (int r = 0; r < WORKERS; r++)
		worker_ended(&p, T, T + 60 * SECOND, 0, r, r == WORKERS - 1, "y");
	add(&p, T + 61 * SECOND, "ended", 0, -1, "x",
		json_pack("{s:s, s:{s:s, s:i, s:i, s:i, s:s}}", "result", "failed", "root_cause",
			"role", "worker", "index", WORKERS - 1, "rank", WORKERS - 1, "attempt", 0,
			"message", "x"));
	ck_assert_int_eq(plot_finish(&p, 0), 0);
	s = render(&p, false);
	(void)check_xml(s);
	ck_assert_uint_lt(strlen(s), SVG_BYTES_MAX);
	ck_assert_uint_eq(count(s, ">and 11807 more</text>"), 1);
	/* The root cause is drawn: its mark, and the legend's. */
	ck_assert_uint_eq(count(s, "href=\"#r\""), 1 + 1);
	plot_fini(&p);
}
END_TEST

START_TEST(a_run_without_a_worker_is_a_picture_too)
{
	struct plot p = { 0 };
	_cleanup_free_ char *s = NULL;

	ck_assert_int_eq(plot_finish(&p, 0), 0);
	s = render(&p, false);
	(void)check_xml(s);
	plot_fini(&p);
}
END_TEST

START_TEST(ticks_are_round_and_as_many_as_have_room)
{
	static const struct {
		int64_t length, step;
	} rows[] = { { 1900, 200 }, { 2 * SECOND, SECOND / 5 }, { 60 * SECOND, 10 * SECOND },
		{ 600 * SECOND, 60 * SECOND }, { 86400 * SECOND, 3 * 3600 * SECOND },
		{ 9 * 86400 * SECOND, 86400 * SECOND },
		{ 1000 * 86400 * SECOND, 100 * 86400 * SECOND } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_int_eq(axis_step(rows[i].length, 10), rows[i].step);
}
END_TEST

START_TEST(ticks_say_no_more_than_they_have_to)
{
	char buf[TIME_TEXT_MAX];

	ck_assert_str_eq(axis_elapsed(0, buf), "0");
	ck_assert_str_eq(axis_elapsed(250, buf), "0.25ms");
	ck_assert_str_eq(axis_elapsed(1400000, buf), "1.4s");
	ck_assert_str_eq(axis_elapsed(1050000, buf), "1.05s");
	ck_assert_str_eq(axis_elapsed(60 * SECOND, buf), "1m");
	ck_assert_str_eq(axis_elapsed(90 * SECOND, buf), "1m 30s");
	ck_assert_str_eq(axis_elapsed(86400 * SECOND, buf), "1d");
	/* 2023-11-14 22:13:20 UTC */
	ck_assert_str_eq(axis_clock(T, 0, SECOND, buf), "22:13:20");
	ck_assert_str_eq(axis_clock(T, 3600 * SECOND, 60 * SECOND, buf), "23:13");
	ck_assert_str_eq(axis_clock(T + 250000, 0, 50000, buf), "22:13:20.25");
	ck_assert_str_eq(axis_clock(T, 0, 86400 * SECOND, buf), "14 Nov");
	ck_assert_str_eq(axis_clock(T + 6400 * SECOND, 0, 3600 * SECOND, buf), "15 Nov");
}
END_TEST

static void check_text(const char *text, size_t max, const char *expected)
{
	_cleanup_free_ char *s = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&s, &len);

	xml_text(f, text, max);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_str_eq(s, expected);
}

START_TEST(text_is_escaped_and_cut_between_characters)
{
	check_text("a<b>&\"c\"", 0, "a&lt;b&gt;&amp;&quot;c&quot;");
	check_text("\x7f\xc2\x9b\xed\xa0\x80\xff", 0,
		"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	check_text("\xe2\x82\xac\xe2\x82\xac", 4, "\xe2\x82\xac\xe2\x80\xa6");
	check_text("abc", 3, "abc");
	ck_assert_uint_eq(xml_fits("abc", 10, 100), 3);
	ck_assert_uint_eq(xml_fits("one two three four", 10, 60), 7);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plot svg");
	TCase *tc = tcase_create("all");

	tcase_add_test(tc, a_small_run_shows_every_start_and_its_root_cause);
	tcase_add_test(tc, texts_of_workers_stay_texts);
	tcase_add_test(tc, a_large_run_is_below_two_megabytes);
	tcase_add_test(tc, thousands_of_workers_and_starts_are_drawn_together);
	tcase_add_test(tc, waits_at_barriers_are_bars_of_their_workers);
	tcase_add_test(tc, very_many_waits_are_drawn_together);
	tcase_add_test(tc, workers_beyond_thousands_are_counted);
	tcase_add_test(tc, a_run_without_a_worker_is_a_picture_too);
	tcase_add_test(tc, ticks_are_round_and_as_many_as_have_room);
	tcase_add_test(tc, ticks_say_no_more_than_they_have_to);
	tcase_add_test(tc, text_is_escaped_and_cut_between_characters);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
