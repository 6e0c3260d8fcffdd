/* SPDX-License-Identifier: Apache-2.0 */
#include "client/plot/plot.h"

#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdarg.h>
#include <string.h>

#define T INT64_C(1700000000000000)
#define SECOND INT64_C(1000000)

static struct plot plot;

static void teardown(void)
{
	plot_fini(&plot);
}

/* An event at that many seconds; the rest of the object is text. */
static void event(double seconds, const char *name, const char *fmt, ...)
{
	char rest[1024], line[1400];
	struct error err = { 0 };
	json_t *j = NULL;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(rest, sizeof(rest), fmt, ap);
	va_end(ap);
	snprintf(line, sizeof(line),
		"{\"time_us\":%lld,\"event\":\"%s\",\"job\":\"j\",\"run\":\"j_1\",\"text\":\"%s\"%s%s}",
		(long long)(T + (int64_t)(seconds * 1e6)), name, name, *rest ? "," : "", rest);
	ck_assert_msg(json_parse_object(line, strlen(line), &j, &err) == 0, "%s", err.text);
	plot_add(&plot, j);
	json_decref(j);
}

static void state(double seconds, const char *to, int attempt)
{
	event(seconds, "state", "\"attempt\":%d,\"data\":{\"to\":\"%s\"}", attempt, to);
}

static void ended(double seconds, int rank, int attempt, double from, const char *how, int code)
{
	event(seconds, "worker-ended",
		"\"attempt\":%d,\"rank\":%d,\"data\":{\"role\":\"w\",\"index\":%d,\"rank\":%d,"
		"\"state\":\"%s\",\"exit\":{\"code\":%d},\"started_us\":%lld,\"ended_us\":%lld}",
		attempt, rank, rank, rank, how, code, (long long)(T + (int64_t)(from * 1e6)),
		(long long)(T + (int64_t)(seconds * 1e6)));
}

static void failed(double seconds, int rank, int attempt, bool collateral)
{
	event(seconds, "worker-failed",
		"\"attempt\":%d,\"rank\":%d,\"data\":{\"role\":\"w\",\"index\":%d,\"rank\":%d,"
		"\"attempt\":%d,\"time_us\":%lld,\"collateral\":%s}",
		attempt, rank, rank, rank, attempt, (long long)(T + (int64_t)(seconds * 1e6)),
		collateral ? "true" : "false");
}

/* Attempt 0 of two workers, the second of which fails after 10 s. */
static void one_attempt(void)
{
	state(0, "rendezvous", -1);
	state(1, "starting", 0);
	event(2, "started", "\"attempt\":0,\"data\":{\"ranks\":\"0-1\"}");
	state(3, "running", 0);
	ended(10, 1, 0, 1.5, "failed", 3);
	failed(10, 1, 0, false);
	event(10, "restart", "\"attempt\":0");
	state(10, "stopping", 0);
	ended(12, 0, 0, 1.25, "stopped", 0);
	failed(12, 0, 0, true);
}

static double at(int64_t us)
{
	return (double)(us - T) / 1e6;
}

START_TEST(a_start_is_starting_then_running_then_stopping)
{
	const struct plot_start *s;

	one_attempt();
	state(12, "backoff", 0);
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_uint_eq(plot.n_workers, 2);
	ck_assert_str_eq(plot.workers[0].name, "w:0");
	ck_assert_uint_eq(plot.workers[0].n, 1);
	s = plot.workers[0].starts;
	ck_assert_double_eq(at(s->from), 1.25);
	ck_assert_double_eq(at(s->running), 3);
	ck_assert_double_eq(at(s->stopping), 10);
	ck_assert_double_eq(at(s->to), 12);
	ck_assert_int_eq(s->end, PLOT_STOPPED);
	/* The one that failed was not stopped. */
	s = plot.workers[1].starts;
	ck_assert_double_eq(at(s->stopping), 10);
	ck_assert_double_eq(at(s->to), 10);
	ck_assert_int_eq(s->end, PLOT_FAILED);
}
END_TEST

START_TEST(only_failures_that_are_not_collateral_are_marked)
{
	one_attempt();
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_uint_eq(plot.workers[0].marks.n, 0);
	ck_assert_uint_eq(plot.workers[1].marks.n, 1);
	ck_assert_int_eq(plot.workers[1].marks.items[0].kind, PLOT_FAILURE);
	ck_assert_int_eq(plot.restarts, 1);
	ck_assert_int_eq(plot.attempts, 1);
}
END_TEST

START_TEST(the_verdict_names_the_root_cause)
{
	one_attempt();
	state(12, "failed", 0);
	event(12, "ended",
		"\"attempt\":0,\"data\":{\"result\":\"failed\",\"exit_status\":3,\"message\":\"m\","
		"\"root_cause\":{\"role\":\"w\",\"index\":1,\"rank\":1,\"attempt\":0,\"message\":\"x\"}}");
	ck_assert_int_eq(plot_finish(&plot, T + 1000 * SECOND), 0);
	ck_assert_int_eq(plot.workers[1].marks.items[0].kind, PLOT_ROOT);
	ck_assert_str_eq(plot.root.worker, "w:1");
	ck_assert_double_eq(at(plot.root.at), 10);
	ck_assert_str_eq(plot.result, "failed");
	ck_assert_msg(at(plot.to) == 12, "a run that has ended does not go on until now");
}
END_TEST

START_TEST(phases_follow_each_other_to_the_end)
{
	static const char *const states[] = { "rendezvous", "starting", "running", "stopping" };

	one_attempt();
	state(12, "failed", 0);
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_uint_eq(plot.n_phases, 4);
	for (size_t i = 0; i < 4; i++) {
		ck_assert_str_eq(plot.phases[i].state, states[i]);
		ck_assert(i == 0 || plot.phases[i].from == plot.phases[i - 1].to);
	}
	ck_assert_double_eq(at(plot.phases[3].to), 12);
}
END_TEST

START_TEST(workers_that_run_are_drawn_until_now)
{
	state(1, "starting", 0);
	event(2, "started", "\"attempt\":0,\"data\":{\"ranks\":\"0,4\"}");
	state(3, "running", 0);
	plot_name(&plot, 4, "eval", 0);
	ck_assert_int_eq(plot_finish(&plot, T + 60 * SECOND), 0);
	ck_assert_uint_eq(plot.n_workers, 2);
	ck_assert_ptr_null(plot.workers[0].name);
	ck_assert_str_eq(plot.workers[1].name, "eval:0");
	ck_assert_int_eq(plot.workers[1].starts[0].end, PLOT_RUNS);
	ck_assert_double_eq(at(plot.workers[1].starts[0].running), 3);
	ck_assert_double_eq(at(plot.workers[1].starts[0].to), 60);
	ck_assert_double_eq(at(plot.to), 60);
}
END_TEST

START_TEST(a_worker_that_restarts_alone_has_several_starts)
{
	state(1, "starting", 0);
	event(1, "started", "\"attempt\":0,\"data\":{\"ranks\":\"0\"}");
	state(1, "running", 0);
	ended(5, 0, 0, 1, "failed", 1);
	event(5, "worker-restart", "\"attempt\":0,\"rank\":0");
	event(7, "worker-restarted",
		"\"attempt\":0,\"rank\":0,\"data\":{\"role\":\"w\",\"index\":0,\"rank\":0,"
		"\"started_us\":%lld}",
		(long long)(T + 7 * SECOND));
	event(8, "worker-stopping", "\"attempt\":0,\"rank\":0");
	ended(9, 0, 0, 7, "stopped", 0);
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_uint_eq(plot.workers[0].n, 2);
	ck_assert_double_eq(at(plot.workers[0].starts[1].from), 7);
	ck_assert_double_eq(at(plot.workers[0].starts[1].running), 7);
	ck_assert_double_eq(at(plot.workers[0].starts[1].stopping), 8);
	ck_assert_int_eq(plot.restarts, 1);
}
END_TEST

START_TEST(workers_end_with_their_agent)
{
	state(1, "starting", 0);
	event(1, "started", "\"attempt\":0,\"data\":{\"ranks\":\"0\"}");
	state(2, "running", 0);
	event(4, "agent-lost", "\"attempt\":0");
	ck_assert_int_eq(plot_finish(&plot, T + 60 * SECOND), 0);
	ck_assert_int_eq(plot.workers[0].starts[0].end, PLOT_LOST);
	ck_assert_double_eq(at(plot.workers[0].starts[0].to), 4);
	ck_assert_uint_eq(plot.marks.n, 1);
}
END_TEST

START_TEST(hosts_join_and_leave_and_may_come_back)
{
	event(1, "host-joined", "\"data\":{\"host\":\"b\"}");
	event(5, "host-left", "\"data\":{\"host\":\"b\"}");
	event(7, "host-joined", "\"data\":{\"host\":\"b\"}");
	state(9, "running", 0);
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_uint_eq(plot.n_hosts, 1);
	ck_assert_uint_eq(plot.hosts[0].n, 2);
	ck_assert_double_eq(at(plot.hosts[0].stays[0].to), 5);
	ck_assert_double_eq(at(plot.hosts[0].stays[1].to), 9);
	ck_assert_uint_eq(plot.hosts[0].marks.n, 3);
}
END_TEST

START_TEST(each_host_of_a_group_has_its_own_workers)
{
	plot_source(&plot, "a");
	one_attempt();
	plot_source(&plot, "b");
	state(1, "starting", 0);
	event(2, "started", "\"attempt\":0,\"data\":{\"ranks\":\"2-3\"}");
	state(4, "running", 0);
	ended(11, 3, 0, 1.5, "stopped", 0);
	event(12, "host-left", "\"attempt\":1,\"data\":{\"host\":\"c\"}");
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_uint_eq(plot.n_workers, 4);
	ck_assert_int_eq(plot.workers[2].source, 1);
	ck_assert_double_eq(at(plot.workers[3].starts[0].running), 4);
	ck_assert_int_eq(plot.restarts, 1);
	ck_assert_int_eq(plot.attempts, 1);
	ck_assert_uint_eq(plot.n_phases, 4);
}
END_TEST

START_TEST(workers_end_with_their_host)
{
	plot_source(&plot, "a");
	event(0, "host-joined", "\"data\":{\"host\":\"b\"}");
	event(30, "host-left", "\"data\":{\"host\":\"b\"}");
	state(60, "failed", 0);
	plot_source(&plot, "b");
	state(1, "starting", 0);
	event(2, "started", "\"attempt\":0,\"data\":{\"ranks\":\"2\"}");
	state(3, "running", 0);
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_int_eq(plot.workers[0].starts[0].end, PLOT_LOST);
	ck_assert_double_eq(at(plot.workers[0].starts[0].to), 30);
}
END_TEST

static void barrier(double seconds, double from, const char *ranks)
{
	event(seconds, "barrier",
		"\"rank\":3,\"data\":{\"waits\":[{\"ranks\":\"%s\",\"since_us\":%lld}]}", ranks,
		(long long)(T + (int64_t)(from * 1e6)));
}

START_TEST(waits_at_barriers_are_those_of_the_workers_that_ran)
{
	plot_source(&plot, "a");
	one_attempt();
	barrier(8, 4, "1,3");
	barrier(9, 8.5, "0-999999");
	barrier(9, 9.5, "0"); /* begins after its end */
	barrier(9, 8.5, "?");
	plot_source(&plot, "b"); /* has rank 1 in the next attempt */
	state(20, "starting", 1);
	event(21, "started", "\"attempt\":1,\"data\":{\"ranks\":\"1,3\"}");
	state(22, "running", 1);
	barrier(30, 25, "1,3"); /* of a host that leads now */
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_uint_eq(plot.n_workers, 4);
	ck_assert_uint_eq(plot.workers[0].n_waits, 1);
	ck_assert_uint_eq(plot.workers[1].n_waits, 2);
	ck_assert_double_eq(at(plot.workers[1].waits[0].from), 4);
	ck_assert_double_eq(at(plot.workers[1].waits[0].to), 8);
	ck_assert_double_eq(at(plot.workers[1].waits[1].to), 9);
	ck_assert_str_eq(plot.barriers[plot.workers[1].waits[0].barrier].text, "barrier");
	ck_assert_uint_eq(plot.workers[2].n_waits, 1);
	ck_assert_uint_eq(plot.workers[3].n_waits, 1);
	ck_assert_double_eq(at(plot.workers[3].waits[0].from), 25);
	/* The worker that came last has no mark. */
	ck_assert_uint_eq(plot.workers[3].marks.n, 0);
}
END_TEST

START_TEST(waits_are_in_the_order_of_time_whichever_host_led)
{
	plot_source(&plot, "b"); /* leads later */
	barrier(9, 8.5, "0");
	plot_source(&plot, "a");
	one_attempt();
	barrier(8, 4, "0-1");
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_uint_eq(plot.workers[0].n_waits, 2);
	ck_assert_double_eq(at(plot.workers[0].waits[0].from), 4);
	ck_assert_double_eq(at(plot.workers[0].waits[1].from), 8.5);
	ck_assert_uint_eq(plot.workers[1].n_waits, 1);
}
END_TEST

static json_t *clock_event(double seconds)
{
	return json_pack("{s:s, s:{s:I}}", "event", "clock", "data", "offset_us",
		(json_int_t)(seconds * 1e6));
}

START_TEST(hosts_are_drawn_by_the_clock_of_the_one_that_leads)
{
	json_t *first = clock_event(-3600);

	plot.several = true;
	plot_source(&plot, "a");
	plot_clock(&plot, NULL);
	one_attempt();
	plot_source(&plot, "b");
	plot_clock(&plot, first);
	event(3600, "host-noted", "\"data\":{\"host\":\"b\"}");
	state(3601, "starting", 0);
	event(3602, "started", "\"attempt\":0,\"data\":{\"ranks\":\"2-3\"}");
	state(3604, "running", 0);
	ended(3608, 2, 0, 3601.5, "stopped", 0);
	event(3609, "clock", "\"data\":{\"offset_us\":-3600500000}");
	ended(3611.5, 3, 0, 3602, "stopped", 0);
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_double_eq(at(plot.from), 0);
	ck_assert_double_eq(at(plot.to), 12);
	ck_assert_double_eq(at(plot.workers[2].starts[0].from), 1.5);
	ck_assert_double_eq(at(plot.workers[2].starts[0].running), 4);
	ck_assert_double_eq(at(plot.workers[2].starts[0].to), 8);
	ck_assert_double_eq(at(plot.workers[3].starts[0].to), 11);
	json_decref(first);
}
END_TEST

START_TEST(one_host_alone_keeps_its_own_clock)
{
	json_t *first = clock_event(-3600);

	plot_source(&plot, "b");
	plot_clock(&plot, first);
	json_decref(first);
	state(1, "starting", 0);
	event(2, "clock", "\"data\":{\"offset_us\":-3600500000}");
	state(3, "running", 0);
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_double_eq(at(plot.from), 1);
	ck_assert_double_eq(at(plot.to), 3);
}
END_TEST

START_TEST(a_million_ranks_take_no_time)
{
	plot_source(&plot, "a");
	for (int i = 0; i < 4; i++)
		event(i, "started", "\"attempt\":0,\"data\":{\"ranks\":\"0-999999\"}");
	event(9, "worker-ended", "\"data\":{\"rank\":2000000000}");
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_uint_eq(plot.n_workers, 1000000);
}
END_TEST

START_TEST(times_that_no_picture_has_room_for_are_left_out)
{
	one_attempt();
	event(11, "worker-ended",
		"\"rank\":0,\"data\":{\"rank\":0,\"started_us\":%lld,\"ended_us\":%lld}",
		(long long)INT64_MIN, (long long)INT64_MAX);
	event(1e12, "notice", "\"attempt\":0"); /* in year 33,700 */
	event(9e12, "notice", "\"attempt\":0");
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_int_eq(plot.from, T);
	ck_assert_int_eq(plot.to, T + INT64_C(1000000000000) * SECOND);
	ck_assert_int_eq(plot.workers[0].starts[1].to, T + 11 * SECOND);
}
END_TEST

START_TEST(events_of_newer_versions_are_marks_and_nonsense_is_left_out)
{
	json_t *odd = json_pack("[i]", 1);

	event(1, "something-new", "\"rank\":0");
	plot_add(&plot, odd);
	plot_add(&plot, NULL);
	event(2, "worker-ended", "\"data\":{\"rank\":-7}");
	event(2, "started", "\"data\":{\"ranks\":\"x\"}");
	event(2, "state", "\"data\":3");
	json_decref(odd);
	ck_assert_int_eq(plot_finish(&plot, 0), 0);
	ck_assert_uint_eq(plot.n_workers, 1);
	ck_assert_int_eq(plot.workers[0].marks.items[0].kind, PLOT_NOTE);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plot model");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_add_test(tc, a_start_is_starting_then_running_then_stopping);
	tcase_add_test(tc, only_failures_that_are_not_collateral_are_marked);
	tcase_add_test(tc, the_verdict_names_the_root_cause);
	tcase_add_test(tc, phases_follow_each_other_to_the_end);
	tcase_add_test(tc, workers_that_run_are_drawn_until_now);
	tcase_add_test(tc, a_worker_that_restarts_alone_has_several_starts);
	tcase_add_test(tc, workers_end_with_their_agent);
	tcase_add_test(tc, hosts_join_and_leave_and_may_come_back);
	tcase_add_test(tc, each_host_of_a_group_has_its_own_workers);
	tcase_add_test(tc, workers_end_with_their_host);
	tcase_add_test(tc, waits_at_barriers_are_those_of_the_workers_that_ran);
	tcase_add_test(tc, waits_are_in_the_order_of_time_whichever_host_led);
	tcase_add_test(tc, hosts_are_drawn_by_the_clock_of_the_one_that_leads);
	tcase_add_test(tc, one_host_alone_keeps_its_own_clock);
	tcase_add_test(tc, a_million_ranks_take_no_time);
	tcase_add_test(tc, times_that_no_picture_has_room_for_are_left_out);
	tcase_add_test(tc, events_of_newer_versions_are_marks_and_nonsense_is_left_out);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
