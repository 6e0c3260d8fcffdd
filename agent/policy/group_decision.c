/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/group_decision.h"

/* A process that runs or is to run. */
static bool judgement_is_active(const struct judgement_task *t)
{
	switch (t->state) {
	case TASK_WAITING:
	case TASK_STARTING:
	case TASK_RUNNING:
	case TASK_STOPPING:
		return true;
	case TASK_SUCCEEDED:
	case TASK_FAILED:
	case TASK_STOPPED:
		break;
	}
	return false;
}

struct judgement judgement_of(const struct judgement_task *tasks, int n, bool leader_over)
{
	int group = -1, alone = -1, spent = -1, leader = -1, active = 0, succeeded = 0, stopped = 0;

	for (int i = n - 1; i >= 0; i--) {
		const struct judgement_task *t = &tasks[i];

		active += judgement_is_active(t);
		succeeded += t->state == TASK_SUCCEEDED;
		stopped += t->state == TASK_STOPPED && !t->on_purpose;
		if (t->leader && t->state == TASK_SUCCEEDED)
			leader = i;
		if (t->state != TASK_FAILED || t->on_purpose)
			continue;
		if (!t->alone)
			group = i;
		else if (t->spent)
			spent = i;
		else
			alone = i;
	}
	if (leader_over)
		return (struct judgement){ active ? JUDGEMENT_WAIT : JUDGEMENT_LEADER_OVER, -1 };
	/* A restart of the group is one of all: no budget of a single task pays for it. */
	if (group >= 0)
		return (struct judgement){ JUDGEMENT_GROUP, group };
	if (spent >= 0)
		return (struct judgement){ JUDGEMENT_SPENT, spent };
	if (alone >= 0)
		return (struct judgement){ JUDGEMENT_TASK, alone };
	if (leader >= 0)
		return (struct judgement){ JUDGEMENT_LEADER, leader };
	/* Where a person has stopped all, it is for a person to go on. */
	if (!active && succeeded && !stopped)
		return (struct judgement){ JUDGEMENT_DONE, -1 };
	return (struct judgement){ JUDGEMENT_WAIT, -1 };
}

struct judgement judgement_on_notice(const struct judgement_task *tasks, int n, bool leader_over)
{
	int leader = -1, active = 0, succeeded = 0, waited = 0;

	for (int i = n - 1; i >= 0; i--) {
		const struct judgement_task *t = &tasks[i];

		active += judgement_is_active(t);
		if (t->leader && t->state == TASK_SUCCEEDED)
			leader = i;
		if (t->on_purpose && t->state != TASK_SUCCEEDED)
			continue;
		waited++;
		succeeded += t->state == TASK_SUCCEEDED;
	}
	if (leader_over)
		return (struct judgement){ active ? JUDGEMENT_WAIT : JUDGEMENT_LEADER_OVER, -1 };
	if (leader >= 0)
		return (struct judgement){ JUDGEMENT_LEADER, leader };
	if (active)
		return (struct judgement){ JUDGEMENT_WAIT, -1 };
	return (struct judgement){
		waited && succeeded == waited ? JUDGEMENT_DONE : JUDGEMENT_PREEMPTED, -1
	};
}
