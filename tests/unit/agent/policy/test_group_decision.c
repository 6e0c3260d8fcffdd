/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/group_decision.h"

#include <check.h>
#include <stdlib.h>

enum { STATES = TASK_STOPPED + 1, TASKS = 3 };

/* Whether a task still has something to do. */
static bool busy(const struct judgement_task *t)
{
	return t->state != TASK_SUCCEEDED && t->state != TASK_FAILED && t->state != TASK_STOPPED;
}

static bool fails(const struct judgement_task *t)
{
	return t->state == TASK_FAILED && !t->on_purpose;
}

static int count(const struct judgement_task *t, bool (*is)(const struct judgement_task *))
{
	int n = 0;

	for (int i = 0; i < TASKS; i++)
		n += is(&t[i]);
	return n;
}

static bool fails_for_all(const struct judgement_task *t)
{
	return fails(t) && !t->alone;
}

static bool fails_for_good(const struct judgement_task *t)
{
	return fails(t) && t->alone && t->spent;
}

static bool fails_alone(const struct judgement_task *t)
{
	return fails(t) && t->alone && !t->spent;
}

static bool leads_and_succeeded(const struct judgement_task *t)
{
	return t->leader && t->state == TASK_SUCCEEDED;
}

static bool succeeded(const struct judgement_task *t)
{
	return t->state == TASK_SUCCEEDED;
}

static bool was_ended(const struct judgement_task *t)
{
	return t->state == TASK_STOPPED && !t->on_purpose;
}

/* The same rules, said one at a time. */
static enum judgement_step expected(const struct judgement_task *t, bool leader_over)
{
	if (leader_over)
		return count(t, busy) ? JUDGEMENT_WAIT : JUDGEMENT_LEADER_OVER;
	if (count(t, fails_for_all))
		return JUDGEMENT_GROUP;
	if (count(t, fails_for_good))
		return JUDGEMENT_SPENT;
	if (count(t, fails_alone))
		return JUDGEMENT_TASK;
	if (count(t, leads_and_succeeded))
		return JUDGEMENT_LEADER;
	if (count(t, busy) || count(t, was_ended) || !count(t, succeeded))
		return JUDGEMENT_WAIT;
	return JUDGEMENT_DONE;
}

static bool names_the_right_one(const struct judgement_task *t, const struct judgement *j)
{
	switch (j->step) {
	case JUDGEMENT_TASK:
		return fails_alone(&t[j->task]);
	case JUDGEMENT_SPENT:
		return fails_for_good(&t[j->task]);
	case JUDGEMENT_LEADER:
		return leads_and_succeeded(&t[j->task]);
	case JUDGEMENT_GROUP:
		return fails_for_all(&t[j->task]);
	case JUDGEMENT_WAIT:
	case JUDGEMENT_DONE:
	case JUDGEMENT_PREEMPTED:
	case JUDGEMENT_LEADER_OVER:
		break;
	}
	return j->task == -1;
}

static void check_one(const struct judgement_task *t, bool leader_over)
{
	struct judgement j = judgement_of(t, TASKS, leader_over);

	/* Millions of these: an assertion for each would take all the time. */
	if (j.step != expected(t, leader_over) || !names_the_right_one(t, &j))
		ck_abort_msg("states %d %d %d, leader over %d: step %d, task %d, expected step %d",
			t[0].state, t[1].state, t[2].state, leader_over, j.step, j.task,
			expected(t, leader_over));
}

static bool is_waited_for(const struct judgement_task *t)
{
	return t->state == TASK_SUCCEEDED || !t->on_purpose;
}

/* The rules while a notice is up. */
static enum judgement_step expected_on_notice(const struct judgement_task *t, bool leader_over)
{
	if (leader_over)
		return count(t, busy) ? JUDGEMENT_WAIT : JUDGEMENT_LEADER_OVER;
	if (count(t, leads_and_succeeded))
		return JUDGEMENT_LEADER;
	if (count(t, busy))
		return JUDGEMENT_WAIT;
	if (count(t, succeeded) && count(t, succeeded) == count(t, is_waited_for))
		return JUDGEMENT_DONE;
	return JUDGEMENT_PREEMPTED;
}

static void check_on_notice(const struct judgement_task *t, bool leader_over)
{
	struct judgement j = judgement_on_notice(t, TASKS, leader_over);

	if (j.step != expected_on_notice(t, leader_over) || !names_the_right_one(t, &j))
		ck_abort_msg("states %d %d %d, leader over %d: step %d, task %d, expected step %d",
			t[0].state, t[1].state, t[2].state, leader_over, j.step, j.task,
			expected_on_notice(t, leader_over));
}

/* All that one task can be: 7 states, alone or not, spent, on purpose. */
static struct judgement_task variant(int n)
{
	return (struct judgement_task){ .state = (enum task_state)(n % STATES),
		.alone = n / STATES % 2,
		.spent = n / STATES / 2 % 2,
		.on_purpose = n / STATES / 4 % 2 };
}

enum { VARIANTS = STATES * 8 };

START_TEST(every_three_tasks_in_every_state_are_judged_by_the_rules)
{
	for (int n = 0; n < VARIANTS * VARIANTS * VARIANTS; n++) {
		struct judgement_task t[TASKS] = { variant(n % VARIANTS),
			variant(n / VARIANTS % VARIANTS), variant(n / VARIANTS / VARIANTS) };

		for (int leader = -1; leader < TASKS; leader++) {
			for (int i = 0; i < TASKS; i++)
				t[i].leader = i == leader;
			check_one(t, false);
			check_one(t, true);
			check_on_notice(t, false);
			check_on_notice(t, true);
		}
	}
}
END_TEST

START_TEST(a_task_that_waits_for_its_restart_keeps_the_group_from_its_end)
{
	struct judgement_task t[] = { { .state = TASK_SUCCEEDED },
		{ .state = TASK_WAITING, .alone = true } };

	ck_assert_int_eq(judgement_of(t, 2, false).step, JUDGEMENT_WAIT);
	t[1].state = TASK_SUCCEEDED;
	ck_assert_int_eq(judgement_of(t, 2, false).step, JUDGEMENT_DONE);
}
END_TEST

START_TEST(a_group_of_which_a_person_stopped_all_waits_for_a_person)
{
	struct judgement_task t[] = { { .state = TASK_STOPPED, .on_purpose = true },
		{ .state = TASK_STOPPED, .on_purpose = true } };

	ck_assert_int_eq(judgement_of(t, 2, false).step, JUDGEMENT_WAIT);
	t[0] = (struct judgement_task){ .state = TASK_SUCCEEDED };
	ck_assert_int_eq(judgement_of(t, 2, false).step, JUDGEMENT_DONE);
}
END_TEST

START_TEST(the_first_of_several_is_named)
{
	struct judgement_task t[] = { { .state = TASK_RUNNING },
		{ .state = TASK_FAILED, .alone = true }, { .state = TASK_FAILED, .alone = true } };
	struct judgement j = judgement_of(t, 3, false);

	ck_assert_int_eq(j.step, JUDGEMENT_TASK);
	ck_assert_int_eq(j.task, 1);
}
END_TEST

START_TEST(on_a_notice_a_failure_leaves_the_others_to_their_saving)
{
	struct judgement_task t[] = { { .state = TASK_FAILED },
		{ .state = TASK_FAILED, .alone = true }, { .state = TASK_RUNNING } };

	ck_assert_int_eq(judgement_on_notice(t, 3, false).step, JUDGEMENT_WAIT);
	t[2].state = TASK_STOPPED;
	ck_assert_int_eq(judgement_on_notice(t, 3, false).step, JUDGEMENT_PREEMPTED);
}
END_TEST

START_TEST(on_a_notice_a_group_that_had_done_its_work_is_done)
{
	struct judgement_task t[] = { { .state = TASK_SUCCEEDED }, { .state = TASK_SUCCEEDED },
		{ .state = TASK_STOPPED, .on_purpose = true } };

	ck_assert_int_eq(judgement_on_notice(t, 3, false).step, JUDGEMENT_DONE);
	t[1].state = TASK_STOPPED;
	ck_assert_int_eq(judgement_on_notice(t, 3, false).step, JUDGEMENT_PREEMPTED);
	ck_assert_int_eq(judgement_on_notice(t + 2, 1, false).step, JUDGEMENT_PREEMPTED);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("judgement");
	TCase *t = tcase_create("judgement");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 600);
	tcase_add_test(t, every_three_tasks_in_every_state_are_judged_by_the_rules);
	tcase_add_test(t, a_task_that_waits_for_its_restart_keeps_the_group_from_its_end);
	tcase_add_test(t, a_group_of_which_a_person_stopped_all_waits_for_a_person);
	tcase_add_test(t, the_first_of_several_is_named);
	tcase_add_test(t, on_a_notice_a_failure_leaves_the_others_to_their_saving);
	tcase_add_test(t, on_a_notice_a_group_that_had_done_its_work_is_done);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
