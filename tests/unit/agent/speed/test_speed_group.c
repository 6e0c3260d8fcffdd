/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/batch.h"
#include "agent/speed/speed_group.h"

#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <string.h>

/* Hosts with the same number of workers each, which make steps of `took` seconds, one host later
 * than the others. They send their looks in batches to the head, which names stragglers. */

enum { HOSTS = 16, WINDOW_MS = 60000, FIRST = 1000000 };

static struct {
	struct speed_group *g;
	struct batch batches[HOSTS];
	json_t *waits[HOSTS]; /* messages that a cut link holds */
	int each;
	uint64_t now; /* the newest look */
	bool cut[HOSTS];
	uint64_t counts[HOSTS][8];
	int64_t last[HOSTS][8];
	int messages;
	size_t bytes;
	char news[256];
	int percent; /* of the last news */
} s;

static void on_news(void *arg, int rank, bool over, int percent, const char *text)
{
	size_t len = strlen(s.news);

	snprintf(s.news + len, sizeof(s.news) - len, "%s%d ", over ? "-" : "+", rank);
	s.percent = percent;
	if (!over)
		ck_assert_msg(strstr(text, "others"), "%s", text);
}

static void begin_with(int each, double limit)
{
	const struct speed_group_options opt = {
		.window_ms = WINDOW_MS, .limit = limit, .n_roles = 1, .news = on_news
	};

	memset(&s, 0, sizeof(s));
	s.each = each;
	s.g = speed_group_new(&opt);
	ck_assert_ptr_nonnull(s.g);
	ck_assert_int_eq(speed_group_begin(s.g, HOSTS * each), 0);
	for (int i = 0; i < HOSTS * each; i++)
		speed_group_started(s.g, i, 0);
}

static void begin(int each)
{
	begin_with(each, 20);
}

static void end(void)
{
	for (int i = 0; i < HOSTS; i++) {
		batch_fini(&s.batches[i]);
		json_decref(s.waits[i]);
	}
	speed_group_free(s.g);
}

static void receive(int host, json_t *steps)
{
	uint64_t now_us = pace_moment_us(FIRST + s.now, WINDOW_MS);
	struct error err = { 0 };

	ck_assert_msg(
		speed_group_receive(s.g, host * s.each, s.each, steps, now_us, false, &err) == 0,
		"%s", err.text);
	json_decref(steps);
}

static void send_steps(int host, json_t *steps)
{
	size_t i;
	json_t *one;

	s.messages++;
	s.bytes += json_dumpb(steps, NULL, 0, JSON_COMPACT);
	if (!s.waits[host])
		s.waits[host] = json_array();
	json_array_append_new(s.waits[host], steps);
	if (s.cut[host])
		return;
	json_array_foreach (s.waits[host], i, one)
		receive(host, json_incref(one));
	json_array_clear(s.waits[host]);
}

/* One look at host, whose workers have begun that step. */
static void look(int host, uint64_t number, int64_t step)
{
	json_t *steps;

	s.now = number;
	for (int i = 0; i < s.each; i++) {
		s.counts[host][i] = step < 0 ? 0 : (uint64_t)step + 1;
		s.last[host][i] = step;
	}
	steps = batch_add(
		&s.batches[host], FIRST + number, s.counts[host], s.last[host], (size_t)s.each);
	if (steps)
		send_steps(host, steps);
}

/* The step at that look of a host that begins its steps later by a part of one. */
static int64_t step_at(uint64_t number, double took, double late)
{
	double now = (double)(pace_moment_us(FIRST + number, WINDOW_MS) -
			      pace_moment_us(FIRST, WINDOW_MS)) /
		     1e6;

	return (int64_t)(now / took + 10 - late);
}

/* Looks from..to; host 5 is late by that part of a step. */
static void run(unsigned from, unsigned to, double took, double late)
{
	for (unsigned n = from; n < to; n++)
		for (int host = 0; host < HOSTS; host++)
			look(host, n, step_at(n, took, host == 5 ? late : 0));
}

/* The clock of that host is set ahead by so many looks; its worker makes a step. */
static void ahead(int host, unsigned by)
{
	uint64_t count = s.counts[host][0] + 1;
	int64_t last = s.last[host][0] + 1;
	json_t *steps = NULL;

	for (unsigned i = 1; !steps; i++)
		steps = batch_add(&s.batches[host], FIRST + s.now + by + i, &count, &last, 1);
	receive(host, steps);
	s.cut[host] = true;
}

START_TEST(the_late_one_of_hosts_that_wait_for_each_other_is_named)
{
	static const double took[] = { 0.25, 1, 1.618, 7 };

	begin(1);
	run(0, 60, took[_i], 0.5);
	ck_assert_str_eq(s.news, "");
	run(60, 90, took[_i], 0.5);
	ck_assert_str_eq(s.news, "+5 ");
	/* Of looks spread by the golden ratio, 62 of 100 are in the first half of steps of 1.618
	 * gaps. */
	ck_assert_msg(s.percent > 38 && s.percent < 65, "%d", s.percent);
	run(90, 180, took[_i], 0);
	ck_assert_str_eq(s.news, "+5 -5 ");
	end();
}
END_TEST

/* All rest before each step, for many looks. */
START_TEST(the_late_one_of_hosts_with_long_steps_is_named)
{
	static const double took[] = { 6, 8, 10, 20 }, late[] = { 0.1, 0.2 };
	double percent = late[_i % 2] * 100;

	begin_with(1, percent / 2);
	run(0, 120, took[_i / 2], late[_i % 2]);
	ck_assert_str_eq(s.news, "+5 ");
	/* The late ones of a window's 60 looks are few, and come together: 3 more or fewer is
	 * usual. */
	ck_assert_msg(s.percent > percent - 6 && s.percent < percent + 6, "%d", s.percent);
	end();
}
END_TEST

/* A window that has no more than a step holds all late looks of it or none: it says nothing. */
START_TEST(steps_longer_than_the_window_name_no_worker)
{
	begin_with(1, 5);
	run(0, 600, 70, 0.1);
	ck_assert_str_eq(s.news, "");
	end();
}
END_TEST

START_TEST(equal_hosts_are_not_named_and_send_little)
{
	begin(8);
	run(0, 300, 0.7, 0);
	ck_assert_str_eq(s.news, "");
	ck_assert_int_le(s.messages, HOSTS * (300 / BATCH_LOOKS + 1));
	ck_assert_uint_le(s.bytes / (size_t)s.messages, 1024);
	end();
}
END_TEST

START_TEST(a_host_that_makes_fewer_steps_is_named)
{
	begin(1);
	for (unsigned n = 0; n < 90; n++)
		for (int host = 0; host < HOSTS; host++)
			look(host, n, step_at(n, host == 5 ? 0.5 : 0.3, 0));
	ck_assert_str_eq(s.news, "+5 ");
	speed_group_ended(s.g, 5);
	ck_assert_str_eq(s.news, "+5 -5 ");
	speed_group_over(s.g);
	ck_assert_str_eq(s.news, "+5 -5 ");
	end();
}
END_TEST

/* A host sends nothing while its worker makes no step. */
START_TEST(a_host_that_stands_still_is_named)
{
	begin(1);
	for (unsigned n = 0; n < 150; n++)
		for (int host = 0; host < HOSTS; host++)
			look(host, n, step_at(host == 5 && n > 20 ? 20 : n, 0.3, 0));
	ck_assert_str_eq(s.news, "+5 ");
	ck_assert_int_eq(s.messages, (HOSTS - 1) * (1 + 149 / BATCH_LOOKS) + 6);
	end();
}
END_TEST

/* All pause and go on, in any order of their messages. */
START_TEST(hosts_at_rest_send_nothing_and_none_is_slow_when_they_go_on)
{
	unsigned now = 0;
	int sent;

	begin(1);
	for (int pause = 0; pause < 6; pause++) {
		run(now, now + 37 + pause, 0.1, 0);
		now += 37 + pause;
		for (int i = 0; i < 3 * BATCH_LOOKS; i++)
			for (int host = 0; host < HOSTS; host++)
				look(host, now + i, step_at(now, 0.1, 0));
		sent = s.messages;
		for (int i = 0; i < 100; i++)
			for (int host = 0; host < HOSTS; host++)
				look(host, now + 3 * BATCH_LOOKS + i, step_at(now, 0.1, 0));
		ck_assert_int_eq(s.messages, sent);
		now += 3 * BATCH_LOOKS + 100;
	}
	run(now, now + 90, 0.1, 0.5);
	ck_assert_str_eq(s.news, "+5 ");
	end();
}
END_TEST

/* The head waits for a host whose link is cut, for as long as it keeps the looks of the others. */
START_TEST(looks_that_come_late_over_a_link_name_no_worker)
{
	begin(1);
	run(0, 80, 0.2, 0);
	s.cut[3] = true;
	run(80, 92, 0.2, 0);
	s.cut[3] = false;
	run(92, 150, 0.2, 0);
	ck_assert_str_eq(s.news, "");
	run(150, 240, 0.2, 0.5);
	ck_assert_str_eq(s.news, "+5 ");
	end();
}
END_TEST

/* A host under load reads the steps late: its workers seem to be ahead. */
START_TEST(late_looks_of_a_host_name_no_worker)
{
	begin(1);
	for (unsigned n = 0; n < 180; n++)
		for (int host = 0; host < HOSTS; host++)
			look(host, n,
				step_at(n, 0.2,
					host == 5		  ? 0.5
					: host == 3 && n % 7 == 0 ? -4
								  : 0));
	ck_assert_str_eq(s.news, "+5 ");
	end();
}
END_TEST

START_TEST(a_restarted_worker_is_compared_from_its_start)
{
	begin(1);
	run(0, 90, 0.3, 0.5);
	ck_assert_str_eq(s.news, "+5 ");
	batch_forget(&s.batches[5], 0);
	speed_group_ended(s.g, 5);
	speed_group_started(s.g, 5, 0);
	ck_assert_str_eq(s.news, "+5 -5 ");
	for (unsigned n = 90; n < 240; n++)
		for (int host = 0; host < HOSTS; host++)
			look(host, n, host == 5 && n < 100 ? -1 : step_at(n, 0.3, 0));
	ck_assert_str_eq(s.news, "+5 -5 ");
	run(240, 330, 0.3, 0.5);
	ck_assert_str_eq(s.news, "+5 -5 +5 ");
	end();
}
END_TEST

START_TEST(a_clock_that_is_set_back_costs_no_more_than_a_window)
{
	begin(1);
	run(5000, 5100, 0.3, 0);
	run(1003, 1100, 0.3, 0.5);
	ck_assert_str_eq(s.news, "+5 ");
	end();
}
END_TEST

/* The head does not wait for a host whose clock is far ahead. */
START_TEST(a_clock_that_is_set_ahead_keeps_none_from_being_named)
{
	begin(1);
	run(0, 11, 0.3, 0);
	ahead(7, 5000);
	run(11, 100, 0.3, 0.5);
	ck_assert_str_eq(s.news, "+5 ");
	end();
}
END_TEST

START_TEST(a_worker_without_looks_is_not_waited_for)
{
	struct error err = { 0 };
	json_t *none = json_pack("{s:[], s:b}", "looks", "rests", 0);

	begin(1);
	s.cut[7] = true;
	ck_assert_int_eq(speed_group_receive(s.g, 7, 1, none, 0, false, &err), 0);
	json_decref(none);
	run(0, 90, 0.3, 0.5);
	ck_assert_str_eq(s.news, "+5 ");
	end();
}
END_TEST

/* The head receives looks at the two workers from rank 3 on, with these steps and counts. */
static int receive_looks(int looks, const char *steps, const char *counts)
{
	struct error err = { 0 };
	json_t *list = json_array(), *p;
	int r;

	for (int i = 0; i < looks; i++)
		json_array_append_new(list,
			json_pack("{s:i, s:o, s:o}", "number", 7 + i, "steps",
				json_loads(steps, 0, NULL), "counts", json_loads(counts, 0, NULL)));
	p = json_pack("{s:o, s:b}", "looks", list, "rests", 0);
	ck_assert_ptr_nonnull(p);
	r = speed_group_receive(s.g, 3, 2, p, 0, false, &err);
	json_decref(p);
	return r;
}

START_TEST(messages_about_other_workers_or_of_more_looks_break_the_protocol)
{
	begin(1);
	ck_assert_int_eq(receive_looks(BATCH_LOOKS, "[1, -1]", "[2, 0]"), 0);
	ck_assert_int_eq(receive_looks(BATCH_LOOKS + 1, "[1, -1]", "[2, 0]"), -EPROTO);
	ck_assert_int_eq(receive_looks(1, "[1, 1, 1]", "[2, 2]"), -EPROTO);
	ck_assert_int_eq(receive_looks(1, "[1]", "[2, 2]"), -EPROTO);
	ck_assert_int_eq(receive_looks(1, "[1, 1]", "[2]"), -EPROTO);
	ck_assert_int_eq(receive_looks(1, "[1, 1]", "[2, -2]"), -EPROTO);
	ck_assert_int_eq(receive_looks(1, "[1, \"1\"]", "[2, 2]"), -EPROTO);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("speed_group");
	TCase *t = tcase_create("speed_group");

	tcase_add_loop_test(t, the_late_one_of_hosts_that_wait_for_each_other_is_named, 0, 4);
	tcase_add_loop_test(t, the_late_one_of_hosts_with_long_steps_is_named, 0, 8);
	tcase_add_test(t, steps_longer_than_the_window_name_no_worker);
	tcase_add_test(t, equal_hosts_are_not_named_and_send_little);
	tcase_add_test(t, a_host_that_makes_fewer_steps_is_named);
	tcase_add_test(t, a_host_that_stands_still_is_named);
	tcase_add_test(t, hosts_at_rest_send_nothing_and_none_is_slow_when_they_go_on);
	tcase_add_test(t, looks_that_come_late_over_a_link_name_no_worker);
	tcase_add_test(t, late_looks_of_a_host_name_no_worker);
	tcase_add_test(t, a_restarted_worker_is_compared_from_its_start);
	tcase_add_test(t, a_clock_that_is_set_back_costs_no_more_than_a_window);
	tcase_add_test(t, a_clock_that_is_set_ahead_keeps_none_from_being_named);
	tcase_add_test(t, a_worker_without_looks_is_not_waited_for);
	tcase_add_test(t, messages_about_other_workers_or_of_more_looks_break_the_protocol);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
