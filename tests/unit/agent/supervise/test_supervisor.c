/* SPDX-License-Identifier: Apache-2.0 */
/* The core of the agent, with features that record its calls. */
#include "agent/supervise/why.h"
#include "common/text/json.h"
#include "tests/unit/child.h"
#include "tests/unit/recording_feature.h"
#include "tests/unit/run.h"
#include "tests/unit/supervisor_world.h"

static void setup(void)
{
	memset(&says, 0, sizeof(says));
	says.exit_status = -1;
	world_make();
}

/* The kernel has killed so many processes of the job, and reached its limit of 4 GiB so often. */
static void kernel_has_killed(int kills, int reached)
{
	static const char *const files[] = { "memory.events", "memory.max" };
	char path[128], texts[2][64];

	snprintf(texts[0], sizeof(texts[0]), "oom %d\noom_kill %d\n", reached, kills);
	snprintf(texts[1], sizeof(texts[1]), "%lld\n", 4LL << 30);
	for (size_t i = 0; i < 2; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		f = fopen(path, "we");
		ck_assert_ptr_nonnull(f);
		fputs(texts[i], f);
		fclose(f);
	}
}

/* As begins(), in a control group whose kills are counted. */
static void begins_counted(const char *doc)
{
	kernel_has_killed(7, 7);
	ck_assert_int_eq(world_agent(doc, features, false), 0);
	oom_free(supervisor->oom);
	supervisor->oom = oom_new(dir);
	supervisor_start(supervisor);
	turns();
}

#define ONE "{'roles':[{'command':['/bin/sh']}]"
#define TWO "{'roles':[{'command':['/bin/sh'],'replicas':2}]"

START_TEST(a_worker_that_exits_with_0_ends_the_job_as_succeeded)
{
	begins(ONE "}", features);
	expect(BEGINS STARTS(0, 0) RUNS);
	exits(0, 0);
	expect(ENDS_ALONE(0, succeeded) " [stopping] group_stopping [succeeded]" OVER);
	ck_assert_int_eq(loop_run(loop), 0);
	supervisor = supervisor_free(supervisor);
	expect("hang_up fini");
}
END_TEST

START_TEST(a_worker_killed_for_want_of_memory_is_the_cause_and_says_so)
{
	const char *message;

	begins_counted(TWO ",'resources':{'memory_max':'4G'}}");
	kernel_has_killed(8, 8);
	ends_by(1, CLD_KILLED, SIGKILL);
	exits(0, 1); /* reaped first */
	ck_assert_str_eq(supervisor->workers[1].reason,
		"signal 9 (SIGKILL), killed by the kernel: out of memory (limit memory_max 4G)");
	ck_assert_str_eq(supervisor->workers[0].reason, "exit code 1");
	message = json_get_string(supervisor->end.root_cause, "message", "");
	ck_assert_int_eq(json_get_int(supervisor->end.root_cause, "rank", -1), 1);
	ck_assert_ptr_nonnull(strstr(message,
		"Signal 9 (SIGKILL) received by PID 5000001, killed by the kernel: out of memory"));
	ck_assert(json_get_bool(
		json_object_get(supervisor->end.root_cause, "exit"), "out_of_memory", false));
	ck_assert_ptr_nonnull(strstr(supervisor->reason, "killed by the kernel: out of memory"));
	ck_assert_int_eq(loop_run(loop), 128 + SIGKILL);
}
END_TEST

START_TEST(a_sigkill_that_the_kernel_did_not_count_was_somebody_else_s)
{
	begins_counted(ONE ",'restart':{'max':1}}");
	dies(0, SIGKILL);
	ck_assert_str_eq(
		json_get_string(json_array_get(json_object_get(supervisor->failures, "0"), 0),
			"message", ""),
		"Signal 9 (SIGKILL) received by PID 5000000");
	kernel_has_killed(8, 7);
	dies(1, SIGKILL);
	ck_assert_str_eq(supervisor->workers[0].reason,
		"signal 9 (SIGKILL), killed by the kernel: out of memory on this host");
}
END_TEST

START_TEST(a_worker_that_fails_after_its_child_was_killed_names_that)
{
	begins_counted(ONE "}");
	kernel_has_killed(9, 8);
	exits(0, 1);
	ck_assert_ptr_nonnull(strstr(supervisor->workers[0].reason,
		"exit code 1, after the kernel killed 2 processes of the job: out of memory "
		"(limit 4G of control group test_supervisor."));
}
END_TEST

START_TEST(a_worker_s_life_begins_before_it_can_fail)
{
	begins(ONE "}", features);
	ck_assert_int_le(supervisor->workers[0].started_us, processes[0].made_us);
}
END_TEST

START_TEST(a_failure_leads_to_a_restart_of_the_group)
{
	begins(TWO ",'restart':{'max':1}}", features);
	record[0] = '\0';
	exits(1, 3);
	expect(ENDS_ALONE(1, failed) " [stopping] group_stopping TERM:0 CONT:0");
	dies(0, SIGTERM);
	expect(ENDS_ALONE(0, stopped) " [rendezvous] [starting] attempt_begins " STARTS(
		0, 2) " " STARTS(1, 3) RUNS);
	exits(3, 4);
	record[0] = '\0';
	dies(2, SIGTERM);
	expect(ENDS_ALONE(0, stopped) " [failed]" OVER);
	ck_assert_int_eq(loop_run(loop), 4);
}
END_TEST

START_TEST(a_failure_of_scope_worker_restarts_it_after_its_delay)
{
	begins(TWO ",'restart':{'max':1,'scope':'worker','backoff':'1h'}}", features);
	record[0] = '\0';
	exits(1, 3);
	expect(ENDS_ALONE(1, failed));
	passes(3000000);
	expect("");
	passes(600000);
	expect(STARTS(1, 2) " flush");
	ck_assert_str_eq(variable(2, "ELASTICD_ATTEMPT"), "0");
}
END_TEST

START_TEST(ends_of_one_turn_are_reported_before_any_decision)
{
	begins(TWO "}", features);
	record[0] = '\0';
	ends_by(0, CLD_EXITED, 5);
	ends_by(1, CLD_KILLED, SIGSEGV);
	reap_children(supervisor);
	expect("before_reap " ENDS(0, failed) " " ENDS(1, failed) " flush");
	turns();
	expect("[stopping] group_stopping [failed]" OVER);
}
END_TEST

START_TEST(an_ignored_stop_signal_is_followed_by_sigkill)
{
	begins(ONE ",'stop':{'timeout':'1h'}}", features);
	record[0] = '\0';
	end_run_stop_asked(supervisor, 0, SPEC_UNSET, "stopped by a person");
	turns();
	expect("[stopping] group_stopping TERM:0 CONT:0");
	passes(3000000);
	expect("");
	passes(600000);
	expect("kill_workers KILL:0");
	dies(0, SIGKILL);
	expect(ENDS_ALONE(0, stopped) " [stopped]" OVER);
	ck_assert_int_eq(loop_run(loop), 143);
}
END_TEST

START_TEST(a_worker_that_survives_sigkill_is_given_up)
{
	begins(ONE ",'stop':{'timeout':0}}", features);
	record[0] = '\0';
	end_run_stop_asked(supervisor, 0, SPEC_UNSET, "stopped by a person");
	turns();
	expect("[stopping] group_stopping TERM:0 CONT:0 kill_workers KILL:0");
	passes(STOP_GIVE_UP_MS);
	expect("[stopped]" OVER);
}
END_TEST

START_TEST(a_time_limit_sends_the_dump_signal_first)
{
	begins(ONE ",'max_run_time':'1h','stop':{'timeout':'2h','dump_signal':'USR1'}}", features);
	record[0] = '\0';
	passes(3600000);
	expect("[stopping] group_stopping USR1:0");
	passes(STOP_DUMP_MS);
	expect("TERM:0 CONT:0");
	dies(0, SIGTERM);
	expect(ENDS_ALONE(0, stopped) " [failed]" OVER);
	ck_assert_int_eq(loop_run(loop), 124);
}
END_TEST

static void count_done(void *arg)
{
	note("done");
}

START_TEST(a_person_stops_a_worker_and_starts_it_again)
{
	struct request_start_args what = { .role = "worker", .index = 1 };
	struct error err = { 0 };
	struct worker *w;
	int rank = 1, n;

	begins(TWO "}", features);
	record[0] = '\0';
	ck_assert_int_eq(
		request_stop(supervisor, &rank, 1, -1, false, count_done, NULL, &n, &err), 0);
	turns();
	expect("worker_stopping:1 TERM:1 CONT:1 worker_stopped:1");
	dies(1, SIGTERM);
	expect(ENDS_ALONE(1, stopped) " done");
	ck_assert_int_eq(request_start(supervisor, &what, &w, &err), 0);
	turns();
	expect(STARTS(1, 2));
	ck_assert_int_eq(w->restarts, 1);
}
END_TEST

START_TEST(a_worker_has_the_environment_that_features_give_it)
{
	begins(TWO "}", features);
	for (int i = 0; i < 2; i++) {
		ck_assert_str_eq(variable(i, "OF_THE_FEATURE"), "1");
		ck_assert_str_eq(variable(i, "RANK"), i ? "1" : "0");
		ck_assert_str_eq(variable(i, "WORLD_SIZE"), "2");
	}
}
END_TEST

START_TEST(a_worker_without_an_environment_is_not_started)
{
	says.environment = -ENOSPC;
	begins(ONE "}", features);
	expect(BEGINS
		"worker_starting:0 "
		"worker_environment:0 worker_not_started:0 [stopping] group_stopping [failed]" OVER);
	ck_assert_int_eq(loop_run(loop), 125);
}
END_TEST

START_TEST(a_decision_waits_while_a_feature_delays_it)
{
	begins(ONE "}", features);
	says.holds = true;
	record[0] = '\0';
	exits(0, 0);
	expect(ENDS_ALONE(0, succeeded) " delays_decision");
	says.holds = false;
	apply_decisions(supervisor);
	turns();
	expect("[stopping] group_stopping [succeeded]" OVER);
}
END_TEST

START_TEST(a_feature_may_say_that_a_worker_left_as_it_was_asked_to)
{
	begins(ONE "}", features);
	record[0] = '\0';
	supervisor->on_notice = true;
	says.left = "on a notice of preemption";
	exits(0, 42);
	expect(ENDS_ALONE(0, stopped) " all_left "
				      "[stopping] group_stopping [preempted]" OVER);
	ck_assert_int_eq(loop_run(loop), 42);
}
END_TEST

START_TEST(a_feature_may_name_the_exit_status_of_a_failure)
{
	begins(ONE "}", features);
	says.exit_status = 77;
	exits(0, 3);
	ck_assert_int_eq(loop_run(loop), 77);
}
END_TEST

/* raise() returns after the signal was delivered. */
static void gets(int signo)
{
	ck_assert_int_eq(raise(signo), 0);
	turns();
}

START_TEST(a_signal_goes_to_features_first_then_to_workers)
{
	begins(ONE ",'stop':{'forward':['TERM','USR2']}}", features);
	record[0] = '\0';
	says.takes_signal = true;
	gets(SIGUSR2);
	expect("takes_signal(USR2)");
	says.takes_signal = false;
	gets(SIGUSR2);
	expect("takes_signal(USR2) USR2:0");
	gets(SIGUSR1);
	expect("takes_signal(USR1)");
	gets(SIGINT);
	expect("takes_signal(INT) [stopping] group_stopping TERM:0 CONT:0");
	gets(SIGINT);
	expect("takes_signal(INT) kill_workers KILL:0");
}
END_TEST

START_TEST(a_feature_signals_workers_that_the_agent_may_not)
{
	begins(ONE "}", features);
	record[0] = '\0';
	kill_errno = EPERM;
	ck_assert_int_eq(signal_workers(supervisor, NULL, SIGUSR1, SPEC_WHOM_MAIN, NULL), 0);
	says.signals_worker = true;
	ck_assert_int_eq(signal_workers(supervisor, NULL, SIGUSR1, SPEC_WHOM_MAIN, NULL), 1);
	expect("USR1:0 signals_worker:0 USR1:0 signals_worker:0");
}
END_TEST

START_TEST(a_child_that_is_no_worker_is_the_features)
{
	begins(ONE "}", features);
	record[0] = '\0';
	processes[n_processes++] = (struct process){ .code = CLD_EXITED };
	reap_children(supervisor);
	turns();
	expect("child_exited");
}
END_TEST

#define PAST "past_event[rendezvous] past_event[starting] past_event[running] "

START_TEST(an_agent_after_a_lost_one_reads_its_events_and_restarts)
{
	begins(ONE ",'restart':{'max':1}}", features);
	is_lost_and_followed(features);
	expect(PAST
		"init ready past_ends_job [backoff] [rendezvous] [starting] attempt_begins " STARTS(
			0, 1) RUNS);
	ck_assert_str_eq(variable(1, "ELASTICD_ATTEMPT"), "1");
	is_lost_and_followed(features);
	expect(PAST "past_event[backoff] " PAST "init ready past_ends_job [failed]" OVER);
	ck_assert_int_eq(loop_run(loop), 125);
}
END_TEST

START_TEST(a_feature_may_say_that_a_lost_agent_was_on_its_way_to_the_end)
{
	begins(ONE "}", features);
	says.past_ends_job = true;
	is_lost_and_followed(features);
	expect(PAST "init ready past_ends_job [preempted]" OVER);
	ck_assert_int_eq(loop_run(loop), 42);
}
END_TEST

START_TEST(a_decision_of_a_lost_agent_holds)
{
	begins(ONE ",'stop':{'timeout':'1h'}}", features);
	end_run_stop_asked(supervisor, SIGTERM, SPEC_UNSET, "got SIGTERM");
	turns();
	is_lost_and_followed(features);
	expect(PAST "past_event[stopping] init ready [stopped]" OVER);
	ck_assert_int_eq(loop_run(loop), 143);
}
END_TEST

/* --- what people see --- */

static void describe_job(const struct supervisor *sv, json_t *job, bool live)
{
	json_put(job, "of_feature", json_string("job"));
}

static void describe_worker(
	const struct supervisor *sv, const struct worker *w, json_t *worker, bool live)
{
	json_put(worker, "of_feature", json_integer(w->rank));
}

static void describe_verdict(const struct supervisor *sv, json_t *verdict)
{
	json_put(verdict, "of_feature", json_string("verdict"));
}

static void explain(const struct supervisor *sv, FILE *f)
{
	fputs("first of the feature\n", f);
}

static void explain_last(const struct supervisor *sv, FILE *f)
{
	fputs("last of the feature\n", f);
}

static void changed(struct supervisor *sv)
{
	note("changed");
}

static size_t helper_pids(struct supervisor *sv, pid_t *pids, size_t max)
{
	pids[0] = 4711;
	return 1;
}

static const struct feature describing = {
	.name = "describing",
	.changed = changed,
	.helper_pids = helper_pids,
	.describe_job = describe_job,
	.describe_worker = describe_worker,
	.describe_verdict = describe_verdict,
	.explain = explain,
	.explain_last = explain_last,
};

START_TEST(features_describe_the_job_its_workers_and_its_verdict)
{
	static const struct feature *const list[] = { &describing, NULL };
	_cleanup_json_ json_t *job = NULL, *verdict = NULL;
	_cleanup_free_ char *why = NULL;
	const json_t *worker;

	begins(TWO "}", list);
	job = job_json(supervisor, true);
	ck_assert_str_eq(json_get_string(job, "of_feature", ""), "job");
	worker = json_array_get(json_object_get(job, "workers"), 1);
	ck_assert_int_eq(json_get_int(worker, "of_feature", -1), 1);
	why = why_text(supervisor);
	ck_assert_ptr_nonnull(strstr(why, "first of the feature\n"));
	ck_assert_str_eq(strstr(why, "last of the feature\n"), "last of the feature\n");
	exits(0, 1);
	exits(1, 0);
	verdict = job_json_verdict(supervisor);
	ck_assert_str_eq(json_get_string(verdict, "of_feature", ""), "verdict");
}
END_TEST

START_TEST(features_get_every_change_that_people_can_see)
{
	static const struct feature *const list[] = { &describing, NULL };

	begins(ONE "}", list);
	ck_assert_ptr_nonnull(strstr(record, "changed"));
	record[0] = '\0';
	supervisor_changed(supervisor);
	expect("changed");
}
END_TEST

START_TEST(helpers_of_features_are_no_workers_leftovers)
{
	static const struct feature *const list[] = { &describing, NULL };
	pid_t pids[4];

	begins(ONE "}", list);
	ck_assert_uint_eq(reap_helpers(supervisor, pids, 4), 1);
	ck_assert_int_eq(pids[0], 4711);
}
END_TEST

/* --- the order of the table --- */

static int second_init(struct supervisor *sv, struct error *err)
{
	note("second.init");
	return 0;
}

static void second_fini(struct supervisor *sv)
{
	note("second.fini");
}

static void second_worker_started(struct supervisor *sv, struct worker *w)
{
	note("second.worker_started");
}

static const struct feature second = {
	.name = "second",
	.init = second_init,
	.fini = second_fini,
	.worker_started = second_worker_started,
};

START_TEST(features_are_called_in_the_order_of_the_table_and_freed_in_the_other)
{
	static const struct feature *const both[] = { &recording, &second, NULL };

	begins(ONE "}", both);
	expect("init second.init ready [rendezvous] [starting] attempt_begins " STARTS(
		0, 0) " second.worker_started" RUNS);
	supervisor = supervisor_free(supervisor);
	expect("hang_up second.fini fini");
}
END_TEST

START_TEST(a_failing_init_frees_the_features_before_it)
{
	static const struct feature *const both[] = { &second, &recording, NULL };

	says.init = -EADDRINUSE;
	ck_assert_int_eq(world_agent(ONE "}", both, false), -EADDRINUSE);
	expect("second.init init hang_up fini second.fini");
}
END_TEST

static int run(void)
{
	Suite *s = suite_create("supervisor");
	TCase *t = tcase_create("hooks");

	tcase_add_checked_fixture(t, setup, world_free);
	tcase_add_test(t, a_worker_that_exits_with_0_ends_the_job_as_succeeded);
	tcase_add_test(t, a_worker_killed_for_want_of_memory_is_the_cause_and_says_so);
	tcase_add_test(t, a_sigkill_that_the_kernel_did_not_count_was_somebody_else_s);
	tcase_add_test(t, a_worker_that_fails_after_its_child_was_killed_names_that);
	tcase_add_test(t, a_worker_s_life_begins_before_it_can_fail);
	tcase_add_test(t, a_failure_leads_to_a_restart_of_the_group);
	tcase_add_test(t, a_failure_of_scope_worker_restarts_it_after_its_delay);
	tcase_add_test(t, ends_of_one_turn_are_reported_before_any_decision);
	tcase_add_test(t, an_ignored_stop_signal_is_followed_by_sigkill);
	tcase_add_test(t, a_worker_that_survives_sigkill_is_given_up);
	tcase_add_test(t, a_time_limit_sends_the_dump_signal_first);
	tcase_add_test(t, a_person_stops_a_worker_and_starts_it_again);
	tcase_add_test(t, a_worker_has_the_environment_that_features_give_it);
	tcase_add_test(t, a_worker_without_an_environment_is_not_started);
	tcase_add_test(t, a_decision_waits_while_a_feature_delays_it);
	tcase_add_test(t, a_feature_may_say_that_a_worker_left_as_it_was_asked_to);
	tcase_add_test(t, a_feature_may_name_the_exit_status_of_a_failure);
	tcase_add_test(t, a_signal_goes_to_features_first_then_to_workers);
	tcase_add_test(t, a_feature_signals_workers_that_the_agent_may_not);
	tcase_add_test(t, a_child_that_is_no_worker_is_the_features);
	tcase_add_test(t, an_agent_after_a_lost_one_reads_its_events_and_restarts);
	tcase_add_test(t, a_feature_may_say_that_a_lost_agent_was_on_its_way_to_the_end);
	tcase_add_test(t, a_decision_of_a_lost_agent_holds);
	tcase_add_test(t, features_describe_the_job_its_workers_and_its_verdict);
	tcase_add_test(t, features_get_every_change_that_people_can_see);
	tcase_add_test(t, helpers_of_features_are_no_workers_leftovers);
	tcase_add_test(t, features_are_called_in_the_order_of_the_table_and_freed_in_the_other);
	tcase_add_test(t, a_failing_init_frees_the_features_before_it);
	suite_add_tcase(s, t);
	return suite_run(s);
}

int main(void)
{
	if (!under_valgrind())
		return run();
	puts("valgrind keeps SIGRTMAX to itself, by which the agent hears of its guard");
	return 77;
}
