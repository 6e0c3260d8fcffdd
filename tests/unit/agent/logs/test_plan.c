/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/plan.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "-" inherited, "0" /dev/null, "f" file, "p" pipe, "=" as stdout; then F file, T tee, C copy. */
static const char *describe(const struct log_plan *p)
{
	static const char sinks[] = { '-', '0', 'f', 'p', '=' };
	static char text[32];
	size_t n = 0;

	for (int i = 0; i < 2; i++) {
		if (i)
			text[n++] = ' ';
		text[n++] = sinks[p->std[i].sink];
		if (p->std[i].file)
			text[n++] = 'F';
		if (p->std[i].tee)
			text[n++] = 'T';
		if (p->std[i].copy)
			text[n++] = 'C';
	}
	text[n] = '\0';
	return text;
}

enum { DAEMON = 1, NO_FILES = 2, HIDDEN = 4, MERGE = 8, STAMPS = 16, ROTATE = 32, COPY = 64 };

static const struct {
	int redirects, tee, flags;
	const char *want;
} cases[] = {
	{ 0, 0, 0, "- -" },
	{ 1, 0, 0, "fF -" },
	{ 2, 0, 0, "- fF" },
	{ 3, 0, 0, "fF fF" },
	{ 0, 1, 0, "fFT -" },
	{ 0, 3, 0, "fFT fFT" },
	{ 3, 2, 0, "fF fFT" },
	/* The console filter hides a worker: its files are whole, the rest vanishes. */
	{ 0, 0, HIDDEN, "0 0" },
	{ 1, 0, HIDDEN, "fF 0" },
	{ 0, 3, HIDDEN, "fF fF" },
	{ 0, 3, HIDDEN | COPY, "fFC fFC" },
	/* A daemon has no console. */
	{ 0, 0, DAEMON, "fF fF" },
	{ 1, 0, DAEMON, "fF fF" },
	{ 0, 3, DAEMON, "fF fF" },
	{ 0, 1, DAEMON | COPY, "fFC fF" },
	{ 0, 0, DAEMON | HIDDEN, "fF fF" },
	{ 0, 0, DAEMON | NO_FILES, "0 0" },
	/* Without files a tee needs a pipe, and a redirect goes nowhere. */
	{ 3, 0, NO_FILES, "0 0" },
	{ 0, 3, NO_FILES, "pT pT" },
	{ 1, 2, NO_FILES | COPY, "0 pT" },
	{ 0, 3, NO_FILES | HIDDEN, "0 0" },
	{ 0, 0, NO_FILES, "- -" },
	{ 3, 0, STAMPS, "pF pF" },
	{ 3, 0, ROTATE, "pF pF" },
	{ 0, 0, STAMPS | ROTATE, "- -" },
	{ 0, 1, STAMPS | COPY, "pFTC -" },
	{ 0, 0, DAEMON | STAMPS, "pF pF" },
	/* With merge, stderr goes where stdout goes. */
	{ 3, 0, MERGE, "fF =" },
	{ 1, 0, MERGE, "fF =" },
	{ 2, 0, MERGE, "fF =" },
	{ 0, 2, MERGE, "fFT =" },
	{ 0, 0, MERGE, "- -" },
	{ 0, 0, MERGE | DAEMON, "fF =" },
	{ 0, 0, MERGE | HIDDEN, "0 0" },
	{ 3, 3, MERGE | STAMPS | COPY, "pFTC =" },
	{ 0, 1, MERGE | NO_FILES, "pT =" },
	{ 3, 0, MERGE | NO_FILES, "0 0" },
};

START_TEST(streams_go_where_the_specification_says)
{
	static char *texts[] = { (char *)"x", NULL };
	int flags = cases[_i].flags;
	struct spec_logs spec = {
		.redirects = { .def = cases[_i].redirects },
		.tee = { .def = cases[_i].tee },
		.merge = flags & MERGE,
		.timestamps = flags & STAMPS,
		.max_size = flags & ROTATE ? 1000 : 0,
		.duplicate_stdout = flags & COPY ? texts : NULL,
		.duplicate_stderr = flags & COPY ? texts : NULL,
	};
	const struct log_plan_options opt = {
		.foreground = !(flags & DAEMON),
		.files = !(flags & NO_FILES),
		.use_console = !(flags & DAEMON),
		.shown = !(flags & HIDDEN),
	};
	struct log_plan plan;

	log_plan(&spec, 0, &opt, &plan);
	ck_assert_str_eq(describe(&plan), cases[_i].want);
}
END_TEST

/* For every specification: a tee or copy has bytes to follow, and there is no console without a
 * tee. */
START_TEST(every_combination_is_consistent)
{
	for (int n = 0; n < 1 << 11; n++) {
		int flags = n >> 4;
		struct spec_logs spec = {
			.redirects = { .def = n & 3 },
			.tee = { .def = n >> 2 & 3 },
			.merge = flags & MERGE,
			.timestamps = flags & STAMPS,
			.max_size = flags & ROTATE ? 1000 : 0,
		};
		const struct log_plan_options opt = { !(flags & DAEMON), !(flags & NO_FILES),
			!(flags & DAEMON), !(flags & HIDDEN) };
		struct log_plan plan;

		log_plan(&spec, 7, &opt, &plan);
		for (int i = 0; i < 2; i++) {
			const struct log_plan_stream *s = &plan.std[i];
			bool moves = s->sink == LOG_SINK_FILE || s->sink == LOG_SINK_PIPE;

			if ((s->tee || s->file) && !moves)
				ck_abort_msg("%d: %s", n, describe(&plan));
			if (s->tee && (!opt.use_console || !opt.shown || !spec.tee.def))
				ck_abort_msg("%d: %s", n, describe(&plan));
			if (s->file && !opt.files)
				ck_abort_msg("%d: %s", n, describe(&plan));
			if (s->sink == LOG_SINK_INHERIT && !opt.foreground)
				ck_abort_msg("%d: %s", n, describe(&plan));
			if (s->sink == LOG_SINK_STDOUT && (i == 0 || !spec.merge))
				ck_abort_msg("%d: %s", n, describe(&plan));
		}
	}
}
END_TEST

START_TEST(ranks_differ_where_the_map_says_so)
{
	struct spec_logs spec = { 0 };
	const struct log_plan_options opt = { true, true, true, true };
	struct log_plan plan;

	ck_assert_int_eq(std_map_parse(&spec.tee, "2:1,20000:2", "tee", NULL), 0);
	log_plan(&spec, 1, &opt, &plan);
	ck_assert_str_eq(describe(&plan), "- -");
	log_plan(&spec, 2, &opt, &plan);
	ck_assert_str_eq(describe(&plan), "fFT -");
	log_plan(&spec, 20000, &opt, &plan);
	ck_assert_str_eq(describe(&plan), "- fFT");
	std_map_fini(&spec.tee);
}
END_TEST

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
	Suite *s = suite_create("log_plan");
	TCase *t = tcase_create("log_plan");

	tcase_add_loop_test(t, streams_go_where_the_specification_says, 0, N(cases));
	tcase_add_test(t, every_combination_is_consistent);
	tcase_add_test(t, ranks_differ_where_the_map_says_so);
	suite_add_tcase(s, t);
	return suite_run(s);
}
