/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/group_decision.h"

/* Whether the worker has a process or will get one. */
static bool group_decision_is_active(const struct group_decision_worker *w)
{
	switch (w->state) {
	case WORKER_WAITING:
	case WORKER_STARTING:
	case WORKER_RUNNING:
	case WORKER_STOPPING:
		return true;
	case WORKER_SUCCEEDED:
	case WORKER_FAILED:
	case WORKER_STOPPED:
		break;
	}
	return false;
}

struct group_decision group_decide(
	const struct group_decision_worker *workers, int n, bool leader_over)
{
	int group = -1, alone = -1, no_restart = -1, leader = -1, active = 0, succeeded = 0,
	    stopped = 0;

	for (int i = n - 1; i >= 0; i--) {
		const struct group_decision_worker *w = &workers[i];

		active += group_decision_is_active(w);
		succeeded += w->state == WORKER_SUCCEEDED;
		stopped += w->state == WORKER_STOPPED && !w->on_purpose;
		if (w->leader && w->state == WORKER_SUCCEEDED)
			leader = i;
		if (w->state != WORKER_FAILED || w->on_purpose)
			continue;
		if (!w->alone)
			group = i;
		else if (w->no_restart)
			no_restart = i;
		else
			alone = i;
	}
	if (leader_over)
		return (struct group_decision){
			active ? GROUP_DECISION_WAIT : GROUP_DECISION_LEADER_OVER, -1
		};
	/* First, since a restart of the group restarts all: no worker's own budget is asked then.
	 */
	if (group >= 0)
		return (struct group_decision){ GROUP_DECISION_GROUP, group };
	if (no_restart >= 0)
		return (struct group_decision){ GROUP_DECISION_NO_RESTART, no_restart };
	if (alone >= 0)
		return (struct group_decision){ GROUP_DECISION_WORKER, alone };
	if (leader >= 0)
		return (struct group_decision){ GROUP_DECISION_LEADER, leader };
	/* If an operator has stopped all workers, the job waits for the operator. */
	if (!active && succeeded && !stopped)
		return (struct group_decision){ GROUP_DECISION_DONE, -1 };
	return (struct group_decision){ GROUP_DECISION_WAIT, -1 };
}

struct group_decision group_decide_on_notice(
	const struct group_decision_worker *workers, int n, bool leader_over)
{
	int leader = -1, active = 0, succeeded = 0, waited = 0;

	for (int i = n - 1; i >= 0; i--) {
		const struct group_decision_worker *w = &workers[i];

		active += group_decision_is_active(w);
		if (w->leader && w->state == WORKER_SUCCEEDED)
			leader = i;
		if (w->on_purpose && w->state != WORKER_SUCCEEDED)
			continue;
		waited++;
		succeeded += w->state == WORKER_SUCCEEDED;
	}
	if (leader_over)
		return (struct group_decision){
			active ? GROUP_DECISION_WAIT : GROUP_DECISION_LEADER_OVER, -1
		};
	if (leader >= 0)
		return (struct group_decision){ GROUP_DECISION_LEADER, leader };
	if (active)
		return (struct group_decision){ GROUP_DECISION_WAIT, -1 };
	return (struct group_decision){
		waited && succeeded == waited ? GROUP_DECISION_DONE : GROUP_DECISION_PREEMPTED, -1
	};
}
