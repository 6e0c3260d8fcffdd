/* SPDX-License-Identifier: Apache-2.0 */
#include "client/top/view.h"

#include "client/base/ctl.h"
#include "tests/unit/run.h"

#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct top t;
static struct top_frame frame;

static void setup(void)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	top_init(&t);
	t.utf8 = true;
	top_time(&t, 1000, 1700000000000000);
}

static void teardown(void)
{
	top_frame_fini(&frame);
	top_fini(&t);
}

static json_t *job(const char *name, const char *state, int workers)
{
	return json_pack("{s:s, s:s+, s:s, s:i, s:i, s:i, s:i, s:I, s:i, s:s}", "name", name, "run",
		name, "_run", "state", state, "attempt", 1, "restarts", 2, "max_restarts", 5,
		"worker_count", workers, "created_us", (json_int_t)1700000000000000 - 10000000,
		"agent_pid", 77, "command", "python train.py");
}

/* A list of jobs of that many. */
static void take_jobs(int n)
{
	json_t *jobs = json_array();
	char name[16];

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "job%d", i);
		json_array_append_new(jobs, job(name, i % 3 ? "running" : "backoff", 4 + i));
	}
	top_list_take(&t.jobs, jobs, t.now_ms, t.now_us);
	json_decref(jobs);
}

/* A live answer about a job. */
static void take_live(const char *name, int64_t cpu_ms, const char *line)
{
	json_t *live = job(name, "running", 4);

	json_object_set_new(live, "cpu_ms", json_integer(cpu_ms));
	json_object_set_new(live, "memory_bytes", json_integer(3 << 20));
	json_object_set_new(live, "workers",
		json_pack("[{s:s, s:i, s:i, s:s, s:f}]", "role", "worker", "index", 0, "rank", 8,
			"last_line", line, "steps_per_s", 1.5));
	top_list_take_live(&t.jobs, live, t.now_ms, t.now_us);
	json_decref(live);
}

static void take_workers(int n, int64_t cpu_ms)
{
	json_t *open = job("job1", "running", n), *workers = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(workers,
			json_pack("{s:s, s:i, s:i, s:s, s:i, s:I, s:I, s:I, s:s}", "role", "worker",
				"index", i, "rank", i, "state", "running", "pid", 100 + i,
				"started_us", (json_int_t)t.now_us - 1000000, "cpu_ms",
				(json_int_t)cpu_ms * i, "rss_bytes", (json_int_t)1 << (20 + i % 8),
				"last_line",
				i == 2 ? "loss 0.5"
				       : "\303\274ber \346\227\245\346\234\254 \033[31mred"));
	json_object_set_new(open, "workers", workers);
	top_take_open(&t, open);
	json_decref(open);
}

static enum top_do press(const char *keys)
{
	enum top_do what = TOP_DO_NOTHING;

	for (; *keys; keys++)
		what = top_key(&t, *keys == '\n' ? TOP_KEY_ENTER : *keys);
	return what;
}

static const struct top_line *see(int rows, int columns)
{
	top_frame_fini(&frame);
	t.rows = rows;
	t.columns = columns;
	ck_assert_int_eq(top_view(&t, &frame), 0);
	ck_assert_int_eq(frame.n, rows);
	return frame.lines;
}

static bool sees(const char *text)
{
	for (int i = 0; i < frame.n; i++)
		if (frame.lines[i].text && strstr(frame.lines[i].text, text))
			return true;
	return false;
}

static const char *selected(void)
{
	const struct top_item *item =
		top_list_selected(t.screen == TOP_WORKERS ? &t.workers : &t.jobs);

	return item ? item->id : "";
}

START_TEST(a_list_is_sorted_by_any_column_both_ways)
{
	take_jobs(12);
	/* By names, whose numbers count as numbers. */
	ck_assert_str_eq(t.jobs.shown[2]->id, "job2_run");
	ck_assert_str_eq(t.jobs.shown[11]->id, "job11_run");
	press(">");
	ck_assert_str_eq(get_text(t.jobs.shown[0]->object, "state"), "backoff");
	ck_assert_str_eq(t.jobs.shown[1]->id, "job3_run"); /* equal ones stay in order */
	press("<<");					   /* round: the last column */
	ck_assert_str_eq(t.jobs.columns[t.jobs.sort].title, "LAST LINE");
	press(">>>>>");
	ck_assert_str_eq(t.jobs.columns[t.jobs.sort].title, "RANKS");
	ck_assert_str_eq(t.jobs.shown[0]->id, "job11_run");
	press("R");
	ck_assert_str_eq(t.jobs.shown[0]->id, "job0_run");
	/* No job has figures of a cgroup: there is nothing to sort by. */
	press("P");
	ck_assert_str_eq(t.jobs.columns[t.jobs.sort].title, "RANKS");
	take_live("job7", 100, "x");
	press("P");
	ck_assert_str_eq(t.jobs.columns[t.jobs.sort].title, "CPU%");
	ck_assert_str_eq(t.jobs.shown[0]->id, "job7_run");
	press("R"); /* unknown ones are last both ways */
	ck_assert_str_eq(t.jobs.shown[0]->id, "job7_run");
}
END_TEST

START_TEST(the_selection_stays_with_its_job)
{
	take_jobs(5);
	(void)!top_key(&t, TOP_KEY_DOWN);
	(void)!top_key(&t, TOP_KEY_DOWN);
	ck_assert_str_eq(selected(), "job2_run");
	press("R");
	ck_assert_str_eq(selected(), "job2_run");
	ck_assert_uint_eq(t.jobs.at, 2);
	take_jobs(9);
	ck_assert_str_eq(selected(), "job2_run");
	ck_assert_uint_eq(t.jobs.at, 6);
	take_jobs(2); /* it has gone: the nearest that is left */
	ck_assert_str_eq(selected(), "job0_run");
	(void)!top_key(&t, TOP_KEY_END);
	(void)!top_key(&t, TOP_KEY_PAGE_DOWN);
	ck_assert_uint_eq(t.jobs.at, 1);
	(void)!top_key(&t, TOP_KEY_HOME);
	ck_assert_uint_eq(t.jobs.at, 0);
	take_jobs(0);
	ck_assert_str_eq(selected(), "");
	ck_assert_int_eq(press("k"), TOP_DO_NOTHING);
	ck_assert_int_eq(t.prompt, TOP_NO_PROMPT);
	ck_assert_int_eq(press("\n"), TOP_DO_NOTHING);
	see(10, 80);
	ck_assert(sees("No jobs are active."));
}
END_TEST

START_TEST(processors_are_counted_since_the_last_look)
{
	take_jobs(2);
	take_live("job1", 5000, "x"); /* in 10 s of its life */
	ck_assert_double_eq_tol(t.jobs.items[1]->cpu, 50, 0.01);
	ck_assert_int_eq(t.jobs.items[1]->rank, 8);
	top_time(&t, 3000, t.now_us + 2000000);
	take_live("job1", 8000, "x"); /* 3 s in 2 s */
	ck_assert_double_eq_tol(t.jobs.items[1]->cpu, 150, 0.01);
	take_jobs(2);
	ck_assert_double_eq_tol(t.jobs.items[1]->cpu, 150, 0.01);
	take_live("job5", 1, "x"); /* of another list */
	top_open(&t, "job1_run", false);
	take_workers(3, 100);
	ck_assert_double_eq_tol(t.workers.items[2]->cpu, 20, 0.01);
	top_time(&t, 4000, t.now_us);
	take_workers(3, 300);
	ck_assert_double_eq_tol(t.workers.items[2]->cpu, 40, 0.01);
	ck_assert_double_eq(t.workers.items[0]->cpu, 0);
	ck_assert_double_eq(t.jobs.items[1]->cpu, -1); /* this answer did not have it */
}
END_TEST

START_TEST(only_jobs_to_be_seen_are_asked_and_the_oldest_answer_first)
{
	struct top_item *item;

	take_jobs(30);
	see(10, 80); /* six lines of the list */
	ck_assert_uint_eq(top_list_rows(&t), 6);
	for (int i = 0; i < 6; i++) {
		item = top_next_asked(&t, t.now_ms - 500);
		ck_assert_ptr_eq(item, t.jobs.shown[i]);
		item->asked_ms = t.now_ms + i;
	}
	ck_assert_ptr_null(top_next_asked(&t, t.now_ms - 500));
	ck_assert_ptr_eq(top_next_asked(&t, t.now_ms + 500), t.jobs.shown[0]);
	take_live("job3", 1, "x");
	ck_assert_ptr_null(top_next_asked(&t, t.now_ms - 500));
	press("P"); /* now those that are not seen matter as well */
	item = top_next_asked(&t, t.now_ms - 500);
	ck_assert_ptr_nonnull(item);
	ck_assert_int_eq(item->asked_ms, 0);
}
END_TEST

START_TEST(a_filter_hides_the_others_until_it_is_taken_off)
{
	take_jobs(30);
	press("/OB2");
	ck_assert_uint_eq(t.jobs.n_shown, 11);
	see(24, 80);
	ck_assert(sees("/OB2"));
	ck_assert_int_eq(frame.cursor, 4);
	(void)!top_key(&t, TOP_KEY_BACKSPACE);
	ck_assert_uint_eq(t.jobs.n_shown, 30);
	press("24\n");
	see(24, 80);
	ck_assert_int_eq(frame.cursor, -1);
	ck_assert(sees("with \"OB24\": 1 of 30"));
	ck_assert_str_eq(selected(), "job24_run");
	press("/");
	ck_assert_str_eq(t.input, "OB24");
	ck_assert_int_eq(press("q"), TOP_DO_NOTHING); /* a letter like others */
	ck_assert_uint_eq(t.jobs.n_shown, 0);
	(void)!top_key(&t, TOP_KEY_ESCAPE);
	ck_assert_uint_eq(t.jobs.n_shown, 30);
	press("/running\n");
	ck_assert_uint_eq(t.jobs.n_shown, 20);
	press("/x\n");
	ck_assert_uint_eq(t.jobs.n_shown, 0);
	see(24, 80);
	ck_assert(sees("Nothing matches; Esc takes the filter off."));
	(void)!top_key(&t, TOP_KEY_ESCAPE);
	ck_assert_uint_eq(t.jobs.n_shown, 30);
	ck_assert_int_eq(press("q"), TOP_DO_QUIT);
}
END_TEST

START_TEST(a_signal_is_sent_after_a_question)
{
	take_jobs(3);
	press("k");
	see(24, 80);
	ck_assert(sees("Signal for job0 (Up, Down: others): TERM"));
	(void)!top_key(&t, TOP_KEY_UP);
	ck_assert_str_eq(t.input, "ABRT");
	(void)!top_key(&t, TOP_KEY_DOWN);
	(void)!top_key(&t, TOP_KEY_DOWN);
	ck_assert_str_eq(t.input, "INT");
	ck_assert_int_eq(press("\n"), TOP_DO_NOTHING);
	see(24, 80);
	ck_assert(sees("Send SIGINT to all workers of job0? (y/n)"));
	ck_assert_int_eq(press("n"), TOP_DO_NOTHING);
	see(24, 80);
	ck_assert(sees("Nothing was sent."));
	top_time(&t, t.now_ms + 6000, t.now_us);
	see(24, 80);
	ck_assert(!sees("Nothing was sent."));
	ck_assert_int_eq(press("\n"), TOP_DO_OPEN);
	take_workers(3, 1);
	(void)!top_key(&t, TOP_KEY_DOWN);
	press("k");
	for (int i = 0; i < 4; i++)
		(void)!top_key(&t, TOP_KEY_BACKSPACE);
	press("usr1\n");
	see(24, 80);
	ck_assert(sees("Send SIGUSR1 to job1/worker:1, pid 101? (y/n)"));
	ck_assert_int_eq(press("y"), TOP_DO_KILL);
	ck_assert_int_eq(t.target.rank, 1);
	ck_assert_str_eq(t.signal, "SIGUSR1");
	press("kx\n");
	see(24, 80);
	ck_assert(sees("There is no signal \"TERMX\"."));
	ck_assert_int_eq(t.prompt, TOP_NO_PROMPT);
}
END_TEST

START_TEST(keys_lead_from_jobs_to_workers_to_logs_and_back)
{
	take_jobs(3);
	ck_assert_int_eq(press("\n"), TOP_DO_OPEN);
	ck_assert_str_eq(t.open_run, "job0_run");
	see(24, 80);
	ck_assert(sees("Waiting for the job's agent"));
	take_workers(3, 1);
	ck_assert_int_eq(press("\n"), TOP_DO_LOGS);
	ck_assert_str_eq(t.target.name, "job1/worker:0");
	ck_assert_int_eq(t.screen, TOP_LOGS);
	ck_assert_int_eq(top_key(&t, TOP_KEY_ESCAPE), TOP_DO_UNLOGS);
	press("h");
	see(24, 80);
	ck_assert(sees("follow the logs"));
	press("q"); /* any key */
	ck_assert_int_eq(t.screen, TOP_WORKERS);
	(void)!top_key(&t, TOP_KEY_ESCAPE);
	ck_assert_int_eq(t.screen, TOP_JOBS);
	ck_assert_int_eq(press("l"), TOP_DO_LOGS);
	ck_assert_int_eq(t.target.rank, -1);
	ck_assert_int_eq(press("q"), TOP_DO_UNLOGS);
	top_open(&t, "job0_run", true); /* the user named it: there is nothing behind it */
	(void)!top_key(&t, TOP_KEY_ESCAPE);
	ck_assert_int_eq(t.screen, TOP_WORKERS);
	ck_assert_int_eq(top_key(&t, TOP_KEY_REDRAW), TOP_DO_REDRAW);
}
END_TEST

START_TEST(a_log_follows_until_it_is_scrolled_up)
{
	char line[32];

	take_jobs(1);
	press("l");
	for (int i = 0; i < TOP_LINES_MAX + 10; i++) {
		snprintf(line, sizeof(line), "line %d", i);
		top_add_line(&t, line);
	}
	see(10, 80);
	ck_assert_str_eq(frame.lines[8].text, "line 5009");
	ck_assert_str_eq(frame.lines[2].text, "line 5003");
	(void)!top_key(&t, TOP_KEY_UP);
	(void)!top_key(&t, TOP_KEY_PAGE_UP);
	top_add_line(&t, "another");
	see(10, 80);
	ck_assert_str_eq(frame.lines[8].text, "line 5001");
	ck_assert(sees("9 lines further down"));
	(void)!top_key(&t, TOP_KEY_HOME);
	see(10, 80);
	ck_assert_str_eq(frame.lines[2].text, "line 11"); /* the oldest are dropped */
	(void)!top_key(&t, TOP_KEY_END);
	top_add_line(&t, "0123456789012345678901234567890123456789");
	see(5, 16); /* longer lines go on in the next row: the end is seen */
	ck_assert_str_eq(frame.lines[2].text, "6789012345678901");
	ck_assert_str_eq(frame.lines[3].text, "23456789");
}
END_TEST

static const int sizes[][2] = { { 24, 80 }, { 24, 50 }, { 12, 50 }, { 5, 30 }, { 3, 10 }, { 1, 1 },
	{ 60, 250 } };

static void check_width(void)
{
	for (int i = 0; i < frame.n; i++) {
		const char *text = frame.lines[i].text ? frame.lines[i].text : "";

		/* Not one that is smaller than a table can be. */
		ck_assert_msg(t.columns < 30 || table_width(text) <= t.columns, "%dx%d: %s",
			t.columns, t.rows, text);
		for (; *text; text++)
			ck_assert(t.utf8 || !(*text & 0x80));
		ck_assert(!frame.lines[i].text || !strchr(frame.lines[i].text, '\033'));
	}
}

START_TEST(all_screens_fit_into_any_terminal)
{
	for (int utf8 = 0; utf8 < 2; utf8++) {
		t.utf8 = utf8;
		t.screen = TOP_JOBS;
		snprintf(
			t.lost, sizeof(t.lost), "%s", utf8 ? "" : "No elasticd for 10s (\303\274)");
		take_jobs(40);
		take_live(
			"job1", 1000000, "a long last line of a worker that goes on and on and on");
		see(sizes[_i][0], sizes[_i][1]);
		check_width();
		press("kTERM");
		see(sizes[_i][0], sizes[_i][1]);
		check_width();
		ck_assert_int_lt(frame.cursor, sizes[_i][1]);
		(void)!top_key(&t, TOP_KEY_ESCAPE);
		top_open(&t, "job1_run", false);
		take_workers(300, 1000);
		(void)!top_key(&t, TOP_KEY_END);
		see(sizes[_i][0], sizes[_i][1]);
		check_width();
		ck_assert(sizes[_i][1] < 50 || sees("worker:299"));
		press("h");
		see(sizes[_i][0], sizes[_i][1]);
		check_width();
		press("hl");
		top_add_line(&t,
			"\346\227\245\346\234\254\346\227\245\346\234\254\346\227\245\346\234\254");
		see(sizes[_i][0], sizes[_i][1]);
		check_width();
		press("q");
	}
}
END_TEST

START_TEST(help_that_does_not_fit_is_scrolled)
{
	see(15, 80);
	press("h");
	see(15, 80);
	ck_assert(sees("Enter      show") && sees("Up Down Scroll") && !sees("BEATS"));
	for (int i = 0; i < 3; i++) {
		(void)!top_key(&t, TOP_KEY_PAGE_DOWN);
		see(15, 80);
	}
	ck_assert(!sees("Enter      show") && sees("BEATS"));
	for (int i = 0; i < 12; i++) {
		(void)!top_key(&t, TOP_KEY_UP);
		see(15, 80);
	}
	ck_assert(sees("Enter      show") && !sees("BEATS"));
	/* Where all of it fits, any key leaves; the next time it begins at its top. */
	see(24, 80);
	ck_assert(sees("Enter      show") && sees("BEATS") && sees("Any key"));
	(void)!top_key(&t, TOP_KEY_DOWN);
	ck_assert_int_eq(t.screen, TOP_JOBS);
}
END_TEST

START_TEST(unknown_gpu_memory_is_shown_as_unknown)
{
	json_t *answer = json_pack("{s:[{s:i, s:i, s:[{s:[i, i]}, {s:[i, i], s:I}]}]}", "gpus",
		"gpu", 0, "percent", 30, "processes", "pids", 101, 77, "pids", 102, 77, "bytes",
		(json_int_t)1 << 30);

	ck_assert_ptr_nonnull(answer);
	take_jobs(3);
	top_open(&t, "job1_run", false);
	take_workers(4, 1000);
	top_take_gpus(&t, answer);
	ck_assert_int_eq(top_list_find(&t.workers, "worker:1")->gpu_bytes, -1);
	ck_assert_double_eq(top_list_find(&t.workers, "worker:1")->gpu_percent, 30);
	ck_assert_int_eq(top_list_find(&t.jobs, "job1_run")->gpu_bytes, INT64_C(1) << 30);
	json_decref(answer);
}
END_TEST

START_TEST(columns_without_figures_are_left_out)
{
	static const char *const rare[] = { "CPU%", "MEM", "STEPS/S", "BEATS" };
	json_t *beating = job("beating", "running", 4), *jobs;

	take_jobs(3);
	see(24, 100);
	for (size_t i = 0; i < 4; i++)
		ck_assert(!sees(rare[i]));
	ck_assert(!sees("not ready"));
	json_object_set_new(beating, "silent_workers", json_integer(2));
	json_object_set_new(beating, "ready", json_false());
	jobs = json_pack("[o, o]", job("job0", "running", 4), beating);
	top_list_take(&t.jobs, jobs, t.now_ms, t.now_us);
	json_decref(jobs);
	take_live("job0", 1000, "loss 1");
	(void)!top_key(&t, TOP_KEY_HOME);
	see(24, 100);
	for (size_t i = 0; i < 4; i++)
		ck_assert(sees(rare[i]));
	ck_assert(sees("not ready") && sees("2 late") && sees("3.0M") && sees("1.50") &&
		  sees("loss 1"));
	ck_assert_int_eq(frame.lines[2].look, TOP_TITLES);
	ck_assert_int_eq(frame.lines[3].look, TOP_SELECTED);
	t.color = true;
	see(24, 100);
	ck_assert_ptr_null(
		strchr(frame.lines[3].text, '\033')); /* the selected one has no colours */
	(void)!top_key(&t, TOP_KEY_DOWN);
	see(24, 100);
	ck_assert_ptr_nonnull(strchr(frame.lines[3].text, '\033'));
}
END_TEST

/* GPU 0 is used by a child of worker:1 and by worker:2, GPU 1 by worker:2 and a stranger. */
static void take_gpus(void)
{
	json_t *answer = json_pack("{s:[{s:i, s:i, s:[{s:[i, i, i], s:I}, {s:[i, i], s:I}]},"
				   "{s:i, s:i, s:[{s:[i, i], s:I}, {s:[i], s:I}]}]}",
		"gpus", "gpu", 0, "percent", 30, "processes", "pids", 5000, 101, 77, "bytes",
		(json_int_t)3 << 30, "pids", 102, 77, "bytes", (json_int_t)1 << 30, "gpu", 1,
		"percent", 80, "processes", "pids", 102, 77, "bytes", (json_int_t)2 << 30, "pids",
		6000, "bytes", (json_int_t)9 << 30);

	ck_assert_ptr_nonnull(answer);
	top_take_gpus(&t, answer);
	json_decref(answer);
}

START_TEST(workers_and_jobs_have_the_gpus_of_their_processes)
{
	const struct top_item *item;

	take_jobs(3);
	top_open(&t, "job1_run", false);
	take_workers(4, 1000);
	see(24, 100);
	ck_assert(!sees("GPU"));
	take_gpus();
	see(24, 100);
	ck_assert(sees("GPU%") && sees("GPUMEM") && sees(" 3.0G") && !sees("9.0G"));
	item = top_list_find(&t.workers, "worker:1");
	ck_assert_int_eq(item->gpu_bytes, INT64_C(3) << 30);
	ck_assert_double_eq(item->gpu_percent, 30);
	item = top_list_find(&t.workers, "worker:2");
	ck_assert_int_eq(item->gpu_bytes, INT64_C(3) << 30);
	ck_assert_double_eq(item->gpu_percent, 55); /* of both */
	item = top_list_find(&t.workers, "worker:0");
	ck_assert_int_eq(item->gpu_bytes, -1);
	ck_assert_double_eq(item->gpu_percent, -1);
	item = top_list_find(&t.jobs, "job1_run"); /* whose agent is process 77 */
	ck_assert_int_eq(item->gpu_bytes, INT64_C(6) << 30);
	ck_assert_double_eq(item->gpu_percent, 55);
	/* The workers with the most memory come first. */
	press("G");
	ck_assert_str_eq(t.workers.shown[0]->id, "worker:1");
	ck_assert_str_eq(t.workers.shown[2]->id, "worker:0");
	/* They are found again among others, until no answer comes. */
	take_workers(8, 1000);
	top_find_gpus(&t);
	ck_assert_int_eq(top_list_find(&t.workers, "worker:2")->gpu_bytes, INT64_C(3) << 30);
	top_take_gpus(&t, NULL);
	see(24, 100);
	ck_assert(!sees("GPU%"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("top");
	TCase *c = tcase_create("top");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_list_is_sorted_by_any_column_both_ways);
	tcase_add_test(c, the_selection_stays_with_its_job);
	tcase_add_test(c, processors_are_counted_since_the_last_look);
	tcase_add_test(c, only_jobs_to_be_seen_are_asked_and_the_oldest_answer_first);
	tcase_add_test(c, a_filter_hides_the_others_until_it_is_taken_off);
	tcase_add_test(c, a_signal_is_sent_after_a_question);
	tcase_add_test(c, keys_lead_from_jobs_to_workers_to_logs_and_back);
	tcase_add_test(c, a_log_follows_until_it_is_scrolled_up);
	tcase_add_loop_test(
		c, all_screens_fit_into_any_terminal, 0, sizeof(sizes) / sizeof(sizes[0]));
	tcase_add_test(c, workers_and_jobs_have_the_gpus_of_their_processes);
	tcase_add_test(c, help_that_does_not_fit_is_scrolled);
	tcase_add_test(c, unknown_gpu_memory_is_shown_as_unknown);
	tcase_add_test(c, columns_without_figures_are_left_out);
	suite_add_tcase(s, c);
	return suite_run(s);
}
