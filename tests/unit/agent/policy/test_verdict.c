/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/verdict.h"

#include "common/base/cleanup.h"
#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct verdict_facts facts;
static json_t *crash, *report, *old;

static json_t *failure(const char *text, int status, bool reported)
{
	json_t *j = json_pack("{s:s, s:i}", "text", text, "exit_status", status);

	if (reported)
		json_put(j, "reported", json_true());
	return j;
}

static void setup(void)
{
	facts = (struct verdict_facts){ .group = { GROUP_FAILED, GOAL_NONE },
		.reason = "the reason",
		.consequence = "",
		.succeeded = "all workers succeeded",
		.stop_signal = 15,
		.preempted_status = 42 };
	crash = failure("worker:1: exit code 3", 3, false);
	report = failure("worker:0: out of data", 1, true);
	old = failure("worker:2: exit code 9", 9, false);
}

static void teardown(void)
{
	json_decref(crash);
	json_decref(report);
	json_decref(old);
}

/* The verdict of the facts. */
static void is(const char *result, int status, const json_t *cause, const char *message)
{
	struct verdict v = verdict_of(&facts);

	ck_assert_str_eq(v.result, result);
	ck_assert_int_eq(v.exit_status, status);
	ck_assert_ptr_eq(v.cause, cause);
	ck_assert_str_eq(v.message, message);
}

START_TEST(status_message_and_cause_of_a_failure_are_those_of_one_worker)
{
	facts.cause = crash;
	facts.last = old;
	facts.exit_status = 143; /* of the failure that was seen first */
	facts.reason = "worker:2: exit code 143; all 3 restarts are used";
	facts.consequence = "all 3 restarts are used";
	is("failed", 3, crash, "worker:1: exit code 3; all 3 restarts are used");
}
END_TEST

START_TEST(a_failure_without_a_worker_is_the_agents_own)
{
	is("failed", 125, NULL, "the reason");
	facts.exit_status = 7; /* from the events of a lost agent */
	is("failed", 7, NULL, "the reason");
	facts.reason = "";
	is("failed", 7, NULL, "failed");
}
END_TEST

START_TEST(a_status_that_none_can_have_is_1)
{
	json_put_int(crash, "exit_status", 0);
	facts.cause = crash;
	is("failed", 1, crash, "the reason");
	json_put_int(crash, "exit_status", 256);
	is("failed", 1, crash, "the reason");
	json_object_del(crash, "exit_status");
	is("failed", 1, crash, "the reason");
}
END_TEST

START_TEST(a_limit_that_nothing_had_failed_before_is_a_timeout)
{
	facts.group.goal = GOAL_TIMEOUT;
	facts.reason = "timed out after 10 s";
	is("timeout", 124, NULL, "timed out after 10 s");
}
END_TEST

START_TEST(a_limit_after_failures_names_the_last_one_and_exits_with_124)
{
	facts.group.goal = GOAL_TIMEOUT;
	facts.reason = "timed out after 10 s";
	facts.last = old;
	is("timeout", 124, old, "timed out after 10 s; last failure: worker:2: exit code 9");
	/* During a backoff, and before it. */
	facts.cause = facts.last = crash;
	facts.answered = true;
	is("timeout", 124, crash, "timed out after 10 s; last failure: worker:1: exit code 3");
	facts.cause = facts.last = report;
	is("timeout", 124, report, "timed out after 10 s; last failure: worker:0: out of data");
	/* The error that a program reported is named, although another failure came first. */
	facts.cause = crash;
	is("timeout", 124, report, "timed out after 10 s; last failure: worker:0: out of data");
}
END_TEST

START_TEST(an_error_that_no_restart_had_answered_outranks_the_limit)
{
	facts.group.goal = GOAL_TIMEOUT;
	facts.reason = "timed out after 10 s";
	facts.cause = facts.last = report;
	is("failed", 1, report, "worker:0: out of data; timed out after 10 s");
	/* A crash at the same time does not outrank it. */
	facts.cause = facts.last = crash;
	is("timeout", 124, crash, "timed out after 10 s; last failure: worker:1: exit code 3");
}
END_TEST

START_TEST(a_stop_is_the_reason_whatever_failed)
{
	facts.group.state = GROUP_STOPPED;
	facts.cause = crash;
	facts.stop_signal = 2;
	is("stopped", 130, NULL, "the reason");
}
END_TEST

START_TEST(a_success_has_no_cause)
{
	facts.group.state = GROUP_SUCCEEDED;
	facts.cause = crash;
	is("succeeded", 0, NULL, "all workers succeeded");
}
END_TEST

START_TEST(a_preempted_run_names_what_failed_beside_the_notice)
{
	facts.group.state = GROUP_PREEMPTED;
	is("preempted", 42, NULL, "the reason");
	facts.cause = crash;
	is("preempted", 42, crash, "the reason; worker:1: exit code 3");
}
END_TEST

START_TEST(a_lost_agent_is_its_own_result)
{
	facts.lost = true;
	facts.cause = crash;
	is("agent_lost", 125, crash, "the reason");
}
END_TEST

START_TEST(long_texts_are_cut_to_fit_the_message)
{
	char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	json_put_string(crash, "text", text);
	facts.cause = facts.last = crash;
	facts.reason = facts.consequence = text;
	for (int goal = GOAL_NONE; goal <= GOAL_PREEMPT; goal++)
		for (int state = 0; state < GROUP_N_STATES; state++) {
			struct verdict v;

			facts.group = (struct group){ state, goal };
			v = verdict_of(&facts);
			ck_assert_uint_lt(strlen(v.message), VERDICT_TEXT_MAX);
		}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("verdict");
	TCase *t = tcase_create("verdict");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, status_message_and_cause_of_a_failure_are_those_of_one_worker);
	tcase_add_test(t, a_failure_without_a_worker_is_the_agents_own);
	tcase_add_test(t, a_status_that_none_can_have_is_1);
	tcase_add_test(t, a_limit_that_nothing_had_failed_before_is_a_timeout);
	tcase_add_test(t, a_limit_after_failures_names_the_last_one_and_exits_with_124);
	tcase_add_test(t, an_error_that_no_restart_had_answered_outranks_the_limit);
	tcase_add_test(t, a_stop_is_the_reason_whatever_failed);
	tcase_add_test(t, a_success_has_no_cause);
	tcase_add_test(t, a_preempted_run_names_what_failed_beside_the_notice);
	tcase_add_test(t, a_lost_agent_is_its_own_result);
	tcase_add_test(t, long_texts_are_cut_to_fit_the_message);
	suite_add_tcase(s, t);
	return suite_run(s);
}
