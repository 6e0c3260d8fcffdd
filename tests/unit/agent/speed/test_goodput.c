/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/goodput.h"

#include "common/text/json.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define S INT64_C(1000000)

enum { T0 = 1000 };

static const char *const parts[] = { "working_ms", "waiting_ms", "starting_ms", "stopping_ms",
	"saving_ms", "hanging_ms", "repeated_ms", "unknown_ms" };

enum { N_PARTS = sizeof(parts) / sizeof(parts[0]) };

static struct goodput *g;

static void setup(void)
{
	g = goodput_new();
	ck_assert_ptr_nonnull(g);
}

static void teardown(void)
{
	g = goodput_free(g);
}

/* An event second s after T0. */
static void event(double s, const char *name, json_t *data)
{
	_cleanup_json_ json_t *e = json_object();

	json_put_string(e, "event", name);
	json_put_int(e, "time_us", T0 * S + (int64_t)(s * 1e6));
	json_put(e, "data", data);
	goodput_event(g, e);
}

static void state(double s, const char *to)
{
	event(s, "state", json_pack("{s:s}", "to", to));
}

/* The end of a process that made steps first to last, the first of them at second first_s; first
 * -1: it made none. */
static void ended(
	double s, int worker, double started_s, double first_s, int64_t first, int64_t last)
{
	json_t *d = json_object();

	json_put_int(d, "local_rank", worker);
	json_put_int(d, "started_us", T0 * S + (int64_t)(started_s * 1e6));
	json_put_int(d, "ended_us", T0 * S + (int64_t)(s * 1e6));
	if (first >= 0) {
		json_put_int(d, "steps", last - first + 1);
		json_put_int(d, "step", last);
		json_put_int(d, "first_step", first);
		json_put_int(d, "first_step_us", T0 * S + (int64_t)(first_s * 1e6));
	}
	event(s, "worker-ended", d);
}

/* Compares all parts at second now, with those that run, with "working 5, waiting 1.5". */
static void parts_are(double now, const struct goodput_life *lives, size_t n, const char *expected)
{
	_cleanup_json_ json_t *j = goodput_json(g, lives, n, T0 * S + (int64_t)(now * 1e6));
	char text[512] = "";

	for (int i = 0; i < N_PARTS; i++) {
		int64_t ms = json_get_int(j, parts[i], -1);
		size_t at = strlen(text);

		if (ms)
			snprintf(text + at, sizeof(text) - at, "%s%.*s %.4g", at ? ", " : "",
				(int)strlen(parts[i]) - 3, parts[i], (double)ms / 1e3);
	}
	ck_assert_str_eq(text, expected);
}

/* One attempt: it starts at second s, and runs a second later. */
static void attempt(double s)
{
	state(s, "starting");
	event(s, "started", NULL);
	state(s + 1, "running");
}

START_TEST(a_run_without_steps_works_while_all_its_workers_run)
{
	state(0, "rendezvous");
	attempt(2);
	parts_are(10, NULL, 0, "working 7, waiting 2, starting 1");
	ended(11, 0, 2, 0, -1, 0);
	state(11, "stopping");
	state(12, "backoff");
	state(15, "rendezvous");
	attempt(15);
	ended(20, 0, 15, 0, -1, 0);
	state(20, "stopping");
	state(20, "succeeded");
	parts_are(1000, NULL, 0, "working 12, waiting 5, starting 2, stopping 1");
}
END_TEST

START_TEST(work_begins_with_the_first_step)
{
	const struct goodput_life live[] = {
		{ .worker = 0,
			.started_us = T0 * S,
			.ended_us = (T0 + 20) * S,
			.steps = 3,
			.last = 2,
			.first_us = (T0 + 4) * S },
		{ .worker = 1,
			.started_us = T0 * S,
			.ended_us = (T0 + 20) * S,
			.steps = 2,
			.last = 1,
			.first_us = (T0 + 6) * S },
		{ .worker = 2, .started_us = T0 * S, .ended_us = (T0 + 20) * S },
	};

	attempt(0);
	parts_are(20, live, 3, "working 15, starting 5");
	parts_are(20, live + 2, 1, "working 19, starting 1");
	parts_are(20, NULL, 0, "working 19, starting 1");
	ended(20, 0, 0, 4, 0, 2);
	ended(20, 1, 0, 6, 0, 1);
	ended(20, 2, 0, 0, -1, 0);
	state(20, "succeeded");
	parts_are(20, NULL, 0, "working 15, starting 5");
}
END_TEST

START_TEST(an_attempt_that_never_came_to_a_step_is_a_start)
{
	attempt(0);
	ended(5, 0, 0, 0, -1, 0);
	state(5, "rendezvous");
	parts_are(5, NULL, 0, "working 4, starting 1");
	attempt(5);
	ended(10, 0, 5, 7, 0, 9);
	state(10, "succeeded");
	parts_are(10, NULL, 0, "working 3, starting 7");
}
END_TEST

/* The first attempt makes steps 0 to 9 from second 1 to 11; the second begins with `first`. */
static void resume_at(int64_t first)
{
	attempt(0);
	ended(11, 0, 0, 1, 0, 9);
	state(11, "rendezvous");
	attempt(11);
	ended(22, 0, 11, 12, first, first + 9);
	state(22, "succeeded");
}

static const struct {
	int64_t first;
	const char *parts;
} resumes[] = {
	{ 0, "working 10, starting 2, repeated 10" },
	{ 1, "working 11, starting 2, repeated 9" },
	{ 5, "working 15, starting 2, repeated 5" },
	{ 9, "working 19, starting 2, repeated 1" },
	{ 10, "working 20, starting 2" },
	{ 1000, "working 20, starting 2" },
};

START_TEST(steps_that_are_made_again_are_lost)
{
	resume_at(resumes[_i].first);
	parts_are(22, NULL, 0, resumes[_i].parts);
}
END_TEST

START_TEST(a_step_is_lost_once_also_where_it_is_made_three_times)
{
	attempt(0);
	ended(11, 0, 0, 1, 0, 9);
	state(11, "rendezvous");
	attempt(11); /* from 5: 5 to 9 are lost */
	ended(17, 0, 11, 12, 5, 9);
	state(17, "rendezvous");
	attempt(17); /* from 5 again: the 5 of the second attempt are lost */
	ended(23, 0, 17, 18, 5, 9);
	state(23, "rendezvous");
	attempt(23); /* from 2: all after that */
	ended(32, 0, 23, 24, 2, 9);
	state(32, "succeeded");
	parts_are(32, NULL, 0, "working 10, starting 4, repeated 18");
}
END_TEST

START_TEST(numbers_that_do_not_grow_with_the_steps_say_nothing)
{
	attempt(0);
	event(11, "worker-ended",
		json_pack("{s:i, s:I, s:I, s:i, s:i, s:i, s:I}", "local_rank", 0, "started_us",
			T0 * S, "ended_us", (T0 + 11) * S, "steps", 20, "step", 9, "first_step", 0,
			"first_step_us", (T0 + 1) * S));
	state(11, "rendezvous");
	attempt(11);
	ended(22, 0, 11, 12, 0, 9);
	state(22, "succeeded");
	parts_are(22, NULL, 0, "working 20, starting 2");
}
END_TEST

START_TEST(each_worker_has_its_share)
{
	attempt(0); /* worker 1 is restarted alone, and makes 5 of its 10 steps again */
	ended(11, 1, 0, 1, 0, 9);
	parts_are(11, NULL, 0, "working 10, starting 1");
	ended(21, 1, 12, 14, 5, 11);
	for (int i = 2; i < 10; i++)
		ended(21, i, 0, 1, 0, 19);
	ended(21, 0, 0, 1, 0, 19);
	state(21, "succeeded");
	parts_are(21, NULL, 0, "working 19.2, starting 1.3, repeated 0.5");
}
END_TEST

START_TEST(a_worker_without_steps_that_is_started_again_has_its_share_too)
{
	attempt(0);
	ended(5, 1, 0, 0, -1, 0);
	ended(11, 1, 7, 0, -1, 0);
	ended(11, 0, 0, 0, -1, 0);
	state(11, "succeeded");
	parts_are(11, NULL, 0, "working 9, starting 2");
}
END_TEST

START_TEST(a_worker_that_was_added_later_is_no_late_start)
{
	attempt(0);
	ended(21, 1, 10, 12, 0, 9);
	ended(21, 0, 0, 1, 0, 9);
	state(21, "succeeded");
	parts_are(21, NULL, 0, "working 19, starting 2");
}
END_TEST

START_TEST(the_time_of_a_hang_is_lost_from_the_last_sign_on)
{
	attempt(0);
	event(51, "no-progress", json_pack("{s:i}", "silent_ms", 30000));
	event(51, "heartbeat-lost", json_pack("{s:i}", "silent_ms", 40000));
	parts_are(52, NULL, 0, "working 20, starting 1, hanging 31");
	state(53, "stopping");
	ended(54, 0, 0, 1, 0, 9);
	state(54, "rendezvous");
	attempt(54); /* steps 5 to 9 took 10 s */
	ended(65, 0, 54, 55, 5, 14);
	state(65, "succeeded");
	parts_are(65, NULL, 0, "working 20, starting 2, stopping 1, hanging 32, repeated 10");
}
END_TEST

START_TEST(a_hang_that_is_only_reported_ends_with_the_next_beat)
{
	attempt(0);
	event(21, "heartbeat-lost", json_pack("{s:i}", "silent_ms", 10000));
	event(31, "heartbeat-back", NULL);
	ended(41, 0, 0, 1, 0, 9);
	state(41, "succeeded");
	parts_are(41, NULL, 0, "working 20, starting 1, hanging 20");
}
END_TEST

START_TEST(a_hang_of_a_worker_that_restarts_alone_is_not_the_groups)
{
	attempt(0);
	event(21, "heartbeat-lost", NULL);
	parts_are(31, NULL, 0, "working 30, starting 1");
}
END_TEST

START_TEST(saving_is_from_the_agreement_until_the_work_goes_on_or_ends)
{
	attempt(0);
	event(11, "notice", NULL);
	event(12, "agreed", NULL);
	event(14, "countdown", NULL);
	event(24, "agreed", NULL);
	event(26, "all-saved", NULL);
	ended(27, 0, 0, 1, 0, 9);
	state(27, "stopping");
	state(28, "preempted");
	parts_are(28, NULL, 0, "working 21, starting 1, stopping 1, saving 5");
}
END_TEST

START_TEST(a_job_that_stands_still_waits)
{
	attempt(0);
	event(11, "suspended", NULL);
	event(21, "resumed", NULL);
	parts_are(31, NULL, 0, "working 20, waiting 10, starting 1");
}
END_TEST

START_TEST(an_attempt_whose_agent_was_lost_is_unknown)
{
	attempt(0);
	ended(11, 0, 0, 1, 0, 9);
	state(11, "rendezvous");
	attempt(11);
	event(20, "heartbeat-missed", NULL);
	event(60, "agent-lost", NULL);
	state(60, "rendezvous");
	parts_are(60, NULL, 0, "working 10, starting 2, unknown 48");
	attempt(60); /* no event says which steps of the lost attempt were saved */
	ended(71, 0, 60, 61, 5, 14);
	state(71, "succeeded");
	parts_are(71, NULL, 0, "working 15, starting 3, repeated 5, unknown 48");
}
END_TEST

START_TEST(an_agent_that_was_lost_between_attempts_waited)
{
	state(0, "rendezvous");
	event(10, "agent-lost", NULL);
	parts_are(12, NULL, 0, "waiting 12");
}
END_TEST

static void clock_set(double s, double by_s)
{
	event(s, "clock-set", json_pack("{s:I}", "by_us", (json_int_t)(by_s * 1e6)));
}

START_TEST(the_time_by_which_the_clock_is_set_is_none_of_the_run)
{
	const struct goodput_life live[] = {
		{ .worker = 0,
			.started_us = (T0 + 100) * S,
			.ended_us = (T0 + 110) * S,
			.steps = 5,
			.first = 6,
			.last = 10,
			.first_us = (T0 + 102) * S },
	};

	state(0, "rendezvous");
	attempt(2);
	clock_set(3606, 3600); /* at second 6 */
	ended(3611, 0, 2, 4, 1, 5);
	state(3611, "stopping");
	state(3612, "backoff");
	clock_set(94, -3520); /* at second 14 */
	attempt(96);
	parts_are(110, live, 1, "working 18, waiting 6, starting 5, stopping 1");
	for (int i = 0; i < 20; i++)
		clock_set(104 + i, 1);
	state(130, "succeeded");
	parts_are(9999, NULL, 0, "working 7, waiting 6, starting 16, stopping 1");
}
END_TEST

START_TEST(a_worker_cannot_make_time)
{
	const struct goodput_life live[] = {
		{ .started_us = T0 * S, .ended_us = (T0 + 20) * S, .steps = 1, .first_us = 1 },
		{ .worker = 1,
			.started_us = T0 * S,
			.ended_us = (T0 + 20) * S,
			.steps = UINT64_MAX,
			.first = INT64_MIN,
			.last = INT64_MAX,
			.first_us = INT64_MAX },
		{ .worker = -1, .steps = 1, .first_us = 1 },
		{ .worker = INT32_MAX, .steps = 1, .first_us = 1 },
	};

	attempt(0);
	parts_are(20, live, 4, "working 9.5, starting 10.5");
	state(10, "stopping"); /* the clock was set back */
	parts_are(5, NULL, 0, "working 9, starting 1");
}
END_TEST

/* The parts are the whole, for any events in any order. */
START_TEST(the_parts_sum_up_to_the_time_of_the_run)
{
	static const char *const states[] = { "pending", "rendezvous", "backoff", "starting",
		"running", "stopping" };
	static const char *const events[] = { "agreed", "countdown", "heartbeat-lost",
		"heartbeat-back", "suspended", "resumed", "agent-lost", "no-progress" };
	unsigned seed = (unsigned)_i * 7919 + 1;
	double now = 0;

	event(0, "first", NULL);
	for (int i = 0; i < 200; i++) {
		_cleanup_json_ json_t *j = NULL;
		int64_t sum = 0;
		int what = rand_r(&seed) % 3, which = rand_r(&seed) % 4;

		now += rand_r(&seed) % 10;
		if (what == 0)
			state(now, states[rand_r(&seed) % 6]);
		else if (what == 1)
			event(now, events[rand_r(&seed) % 8],
				json_pack("{s:i}", "silent_ms", rand_r(&seed) % 60000));
		else
			ended(now, which, now - rand_r(&seed) % 20, now - rand_r(&seed) % 30,
				rand_r(&seed) % 50 - 1, rand_r(&seed) % 50);
		j = goodput_json(g, NULL, 0, (T0 + (int64_t)now) * S);
		for (int k = 0; k < N_PARTS; k++) {
			ck_assert_int_ge(json_get_int(j, parts[k], -1), 0);
			sum += json_get_int(j, parts[k], 0);
		}
		/* Each part is cut to whole milliseconds. */
		ck_assert_int_le(sum, (int64_t)now * 1000);
		ck_assert_int_gt(sum, (int64_t)now * 1000 - N_PARTS);
	}
}
END_TEST

START_TEST(json_has_one_number_and_its_parts)
{
	_cleanup_json_ json_t *j = NULL, *expected = NULL;

	ck_assert_ptr_null(goodput_json(g, NULL, 0, T0 * S));
	attempt(0);
	j = goodput_json(g, NULL, 0, (T0 + 3) * S);
	expected = json_pack("{s:f, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "percent", 66.6,
		"total_ms", 3000, "working_ms", 2000, "waiting_ms", 0, "starting_ms", 1000,
		"stopping_ms", 0, "saving_ms", 0, "hanging_ms", 0, "repeated_ms", 0, "unknown_ms",
		0);
	ck_assert_msg(json_equal(j, expected), "%s", json_dumps(j, 0));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("goodput");
	TCase *t = tcase_create("goodput");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_run_without_steps_works_while_all_its_workers_run);
	tcase_add_test(t, work_begins_with_the_first_step);
	tcase_add_test(t, an_attempt_that_never_came_to_a_step_is_a_start);
	tcase_add_loop_test(t, steps_that_are_made_again_are_lost, 0,
		(int)(sizeof(resumes) / sizeof(resumes[0])));
	tcase_add_test(t, a_step_is_lost_once_also_where_it_is_made_three_times);
	tcase_add_test(t, numbers_that_do_not_grow_with_the_steps_say_nothing);
	tcase_add_test(t, each_worker_has_its_share);
	tcase_add_test(t, a_worker_without_steps_that_is_started_again_has_its_share_too);
	tcase_add_test(t, a_worker_that_was_added_later_is_no_late_start);
	tcase_add_test(t, the_time_of_a_hang_is_lost_from_the_last_sign_on);
	tcase_add_test(t, a_hang_that_is_only_reported_ends_with_the_next_beat);
	tcase_add_test(t, a_hang_of_a_worker_that_restarts_alone_is_not_the_groups);
	tcase_add_test(t, saving_is_from_the_agreement_until_the_work_goes_on_or_ends);
	tcase_add_test(t, a_job_that_stands_still_waits);
	tcase_add_test(t, an_attempt_whose_agent_was_lost_is_unknown);
	tcase_add_test(t, an_agent_that_was_lost_between_attempts_waited);
	tcase_add_test(t, the_time_by_which_the_clock_is_set_is_none_of_the_run);
	tcase_add_test(t, a_worker_cannot_make_time);
	tcase_add_loop_test(t, the_parts_sum_up_to_the_time_of_the_run, 0, 20);
	tcase_add_test(t, json_has_one_number_and_its_parts);
	suite_add_tcase(s, t);
	return suite_run(s);
}
