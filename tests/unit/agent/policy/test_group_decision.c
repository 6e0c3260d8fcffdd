/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/group_decision.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdlib.h>

enum { STATES = WORKER_STOPPED + 1, WORKERS = 3 };

/* The worker runs, or will be started. */
static bool busy(const struct group_decision_worker *t)
{
	return t->state != WORKER_SUCCEEDED && t->state != WORKER_FAILED &&
	       t->state != WORKER_STOPPED;
}

static bool fails(const struct group_decision_worker *t)
{
	return t->state == WORKER_FAILED && !t->on_purpose;
}

static int count(
	const struct group_decision_worker *t, bool (*is)(const struct group_decision_worker *))
{
	int n = 0;

	for (int i = 0; i < WORKERS; i++)
		n += is(&t[i]);
	return n;
}

static bool fails_for_all(const struct group_decision_worker *t)
{
	return fails(t) && !t->alone;
}

static bool fails_for_good(const struct group_decision_worker *t)
{
	return fails(t) && t->alone && t->no_restart;
}

static bool fails_alone(const struct group_decision_worker *t)
{
	return fails(t) && t->alone && !t->no_restart;
}

static bool leads_and_succeeded(const struct group_decision_worker *t)
{
	return t->leader && t->state == WORKER_SUCCEEDED;
}

static bool succeeded(const struct group_decision_worker *t)
{
	return t->state == WORKER_SUCCEEDED;
}

static bool was_ended(const struct group_decision_worker *t)
{
	return t->state == WORKER_STOPPED && !t->on_purpose;
}

/* The rules of group_decide(), one after the other. */
static enum group_decision_step expected(const struct group_decision_worker *t, bool leader_over)
{
	if (leader_over)
		return count(t, busy) ? GROUP_DECISION_WAIT : GROUP_DECISION_LEADER_OVER;
	if (count(t, fails_for_all))
		return GROUP_DECISION_GROUP;
	if (count(t, fails_for_good))
		return GROUP_DECISION_NO_RESTART;
	if (count(t, fails_alone))
		return GROUP_DECISION_WORKER;
	if (count(t, leads_and_succeeded))
		return GROUP_DECISION_LEADER;
	if (count(t, busy) || count(t, was_ended) || !count(t, succeeded))
		return GROUP_DECISION_WAIT;
	return GROUP_DECISION_DONE;
}

static bool names_the_right_one(
	const struct group_decision_worker *t, const struct group_decision *j)
{
	switch (j->step) {
	case GROUP_DECISION_WORKER:
		return fails_alone(&t[j->worker]);
	case GROUP_DECISION_NO_RESTART:
		return fails_for_good(&t[j->worker]);
	case GROUP_DECISION_LEADER:
		return leads_and_succeeded(&t[j->worker]);
	case GROUP_DECISION_GROUP:
		return fails_for_all(&t[j->worker]);
	case GROUP_DECISION_WAIT:
	case GROUP_DECISION_DONE:
	case GROUP_DECISION_PREEMPTED:
	case GROUP_DECISION_LEADER_OVER:
		break;
	}
	return j->worker == -1;
}

static void check_one(const struct group_decision_worker *t, bool leader_over)
{
	struct group_decision j = group_decide(t, WORKERS, leader_over);

	/* No assertion each: there are millions, and Check writes a line for every one. */
	if (j.step != expected(t, leader_over) || !names_the_right_one(t, &j))
		ck_abort_msg(
			"states %d %d %d, leader over %d: step %d, worker %d, expected step %d",
			t[0].state, t[1].state, t[2].state, leader_over, j.step, j.worker,
			expected(t, leader_over));
}

static bool is_waited_for(const struct group_decision_worker *t)
{
	return t->state == WORKER_SUCCEEDED || !t->on_purpose;
}

/* The rules of group_decide_on_notice(). */
static enum group_decision_step expected_on_notice(
	const struct group_decision_worker *t, bool leader_over)
{
	if (leader_over)
		return count(t, busy) ? GROUP_DECISION_WAIT : GROUP_DECISION_LEADER_OVER;
	if (count(t, leads_and_succeeded))
		return GROUP_DECISION_LEADER;
	if (count(t, busy))
		return GROUP_DECISION_WAIT;
	if (count(t, succeeded) && count(t, succeeded) == count(t, is_waited_for))
		return GROUP_DECISION_DONE;
	return GROUP_DECISION_PREEMPTED;
}

static void check_on_notice(const struct group_decision_worker *t, bool leader_over)
{
	struct group_decision j = group_decide_on_notice(t, WORKERS, leader_over);

	if (j.step != expected_on_notice(t, leader_over) || !names_the_right_one(t, &j))
		ck_abort_msg(
			"states %d %d %d, leader over %d: step %d, worker %d, expected step %d",
			t[0].state, t[1].state, t[2].state, leader_over, j.step, j.worker,
			expected_on_notice(t, leader_over));
}

/* All that one worker can be: 7 states, alone or not, spent, on purpose. */
static struct group_decision_worker variant(int n)
{
	return (struct group_decision_worker){ .state = (enum worker_state)(n % STATES),
		.alone = n / STATES % 2,
		.no_restart = n / STATES / 2 % 2,
		.on_purpose = n / STATES / 4 % 2 };
}

enum { VARIANTS = STATES * 8 };

START_TEST(decisions_follow_the_rules_for_any_three_workers)
{
	for (int n = 0; n < VARIANTS * VARIANTS * VARIANTS; n++) {
		struct group_decision_worker t[WORKERS] = { variant(n % VARIANTS),
			variant(n / VARIANTS % VARIANTS), variant(n / VARIANTS / VARIANTS) };

		for (int leader = -1; leader < WORKERS; leader++) {
			for (int i = 0; i < WORKERS; i++)
				t[i].leader = i == leader;
			check_one(t, false);
			check_one(t, true);
			check_on_notice(t, false);
			check_on_notice(t, true);
		}
	}
}
END_TEST

START_TEST(a_worker_that_waits_for_its_restart_keeps_the_group_from_its_end)
{
	struct group_decision_worker t[] = { { .state = WORKER_SUCCEEDED },
		{ .state = WORKER_WAITING, .alone = true } };

	ck_assert_int_eq(group_decide(t, 2, false).step, GROUP_DECISION_WAIT);
	t[1].state = WORKER_SUCCEEDED;
	ck_assert_int_eq(group_decide(t, 2, false).step, GROUP_DECISION_DONE);
}
END_TEST

START_TEST(a_group_that_an_operator_stopped_waits_for_the_operator)
{
	struct group_decision_worker t[] = { { .state = WORKER_STOPPED, .on_purpose = true },
		{ .state = WORKER_STOPPED, .on_purpose = true } };

	ck_assert_int_eq(group_decide(t, 2, false).step, GROUP_DECISION_WAIT);
	t[0] = (struct group_decision_worker){ .state = WORKER_SUCCEEDED };
	ck_assert_int_eq(group_decide(t, 2, false).step, GROUP_DECISION_DONE);
}
END_TEST

START_TEST(the_first_of_several_is_named)
{
	struct group_decision_worker t[] = { { .state = WORKER_RUNNING },
		{ .state = WORKER_FAILED, .alone = true },
		{ .state = WORKER_FAILED, .alone = true } };
	struct group_decision j = group_decide(t, 3, false);

	ck_assert_int_eq(j.step, GROUP_DECISION_WORKER);
	ck_assert_int_eq(j.worker, 1);
}
END_TEST

START_TEST(on_a_notice_a_failure_leaves_the_others_to_their_saving)
{
	struct group_decision_worker t[] = { { .state = WORKER_FAILED },
		{ .state = WORKER_FAILED, .alone = true }, { .state = WORKER_RUNNING } };

	ck_assert_int_eq(group_decide_on_notice(t, 3, false).step, GROUP_DECISION_WAIT);
	t[2].state = WORKER_STOPPED;
	ck_assert_int_eq(group_decide_on_notice(t, 3, false).step, GROUP_DECISION_PREEMPTED);
}
END_TEST

START_TEST(on_a_notice_a_group_that_had_done_its_work_is_done)
{
	struct group_decision_worker t[] = { { .state = WORKER_SUCCEEDED },
		{ .state = WORKER_SUCCEEDED }, { .state = WORKER_STOPPED, .on_purpose = true } };

	ck_assert_int_eq(group_decide_on_notice(t, 3, false).step, GROUP_DECISION_DONE);
	t[1].state = WORKER_STOPPED;
	ck_assert_int_eq(group_decide_on_notice(t, 3, false).step, GROUP_DECISION_PREEMPTED);
	ck_assert_int_eq(group_decide_on_notice(t + 2, 1, false).step, GROUP_DECISION_PREEMPTED);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("group_decision");
	TCase *t = tcase_create("group_decision");

	tcase_set_timeout(t, 600);
	tcase_add_test(t, decisions_follow_the_rules_for_any_three_workers);
	tcase_add_test(t, a_worker_that_waits_for_its_restart_keeps_the_group_from_its_end);
	tcase_add_test(t, a_group_that_an_operator_stopped_waits_for_the_operator);
	tcase_add_test(t, the_first_of_several_is_named);
	tcase_add_test(t, on_a_notice_a_failure_leaves_the_others_to_their_saving);
	tcase_add_test(t, on_a_notice_a_group_that_had_done_its_work_is_done);
	suite_add_tcase(s, t);
	return suite_run(s);
}
