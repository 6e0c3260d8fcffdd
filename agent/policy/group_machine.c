/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/group_machine.h"

#include <stddef.h>
#include <stdint.h>

#define S(name) (1u << GROUP_##name)
#define ACTIVE (S(STARTING) | S(RUNNING))
#define FINAL (S(SUCCEEDED) | S(FAILED) | S(STOPPED) | S(PREEMPTED))

enum delay_guard { DELAY_ANY, DELAY_NO, DELAY_YES };

struct group_row {
	unsigned states; /* bits of the states it applies to */
	enum group_event event;
	enum group_goal when; /* in STOPPING: only on the way to this; NONE: always */
	enum delay_guard delay;
	enum group_state next;
	enum group_goal goal;
	unsigned actions;
};

/* The first row that fits is taken. */
static const struct group_row group_rows[] = {
	{ .states = S(PENDING),
		.event = GROUP_EV_START,
		.next = GROUP_RENDEZVOUS,
		.actions = GROUP_DO_RENDEZVOUS },
	{ .states = S(RENDEZVOUS),
		.event = GROUP_EV_READY,
		.next = GROUP_STARTING,
		.actions = GROUP_DO_SPAWN },
	{ .states = S(STARTING), .event = GROUP_EV_STARTED, .next = GROUP_RUNNING },

	{ .states = ACTIVE,
		.event = GROUP_EV_RETRY,
		.next = GROUP_STOPPING,
		.goal = GOAL_RETRY,
		.actions = GROUP_DO_STOP_WORKERS },
	{ .states = ACTIVE,
		.event = GROUP_EV_RESTART,
		.next = GROUP_STOPPING,
		.goal = GOAL_RETRY,
		.actions = GROUP_DO_STOP_WORKERS },
	{ .states = ACTIVE,
		.event = GROUP_EV_FAIL,
		.next = GROUP_STOPPING,
		.goal = GOAL_FAIL,
		.actions = GROUP_DO_STOP_WORKERS },
	{ .states = ACTIVE,
		.event = GROUP_EV_DONE,
		.next = GROUP_STOPPING,
		.goal = GOAL_SUCCEED,
		.actions = GROUP_DO_STOP_WORKERS },
	{ .states = ACTIVE,
		.event = GROUP_EV_STOP,
		.next = GROUP_STOPPING,
		.goal = GOAL_STOP,
		.actions = GROUP_DO_STOP_WORKERS },
	{ .states = ACTIVE,
		.event = GROUP_EV_TIMEOUT,
		.next = GROUP_STOPPING,
		.goal = GOAL_TIMEOUT,
		.actions = GROUP_DO_STOP_WORKERS },
	{ .states = ACTIVE,
		.event = GROUP_EV_PREEMPT,
		.next = GROUP_STOPPING,
		.goal = GOAL_PREEMPT,
		.actions = GROUP_DO_STOP_WORKERS },

	/* A request to end the job replaces a restart, but no verdict. */
	{ .states = S(STOPPING),
		.event = GROUP_EV_STOP,
		.when = GOAL_RETRY,
		.next = GROUP_STOPPING,
		.goal = GOAL_STOP },
	{ .states = S(STOPPING),
		.event = GROUP_EV_TIMEOUT,
		.when = GOAL_RETRY,
		.next = GROUP_STOPPING,
		.goal = GOAL_TIMEOUT },
	{ .states = S(STOPPING),
		.event = GROUP_EV_PREEMPT,
		.when = GOAL_RETRY,
		.next = GROUP_STOPPING,
		.goal = GOAL_PREEMPT },

	/* A process that cannot be killed still holds its devices: a new attempt would fail. */
	{ .states = S(STOPPING),
		.event = GROUP_EV_STUCK,
		.when = GOAL_RETRY,
		.next = GROUP_STOPPING,
		.goal = GOAL_FAIL },

	{ .states = S(STOPPING),
		.event = GROUP_EV_GONE,
		.when = GOAL_RETRY,
		.delay = DELAY_NO,
		.next = GROUP_RENDEZVOUS,
		.actions = GROUP_DO_RENDEZVOUS },
	{ .states = S(STOPPING),
		.event = GROUP_EV_GONE,
		.when = GOAL_RETRY,
		.delay = DELAY_YES,
		.next = GROUP_BACKOFF,
		.actions = GROUP_DO_ARM_BACKOFF },
	{ .states = S(STOPPING),
		.event = GROUP_EV_GONE,
		.when = GOAL_SUCCEED,
		.next = GROUP_SUCCEEDED,
		.actions = GROUP_DO_END },
	{ .states = S(STOPPING),
		.event = GROUP_EV_GONE,
		.when = GOAL_FAIL,
		.next = GROUP_FAILED,
		.actions = GROUP_DO_END },
	{ .states = S(STOPPING),
		.event = GROUP_EV_GONE,
		.when = GOAL_TIMEOUT,
		.next = GROUP_FAILED,
		.goal = GOAL_TIMEOUT,
		.actions = GROUP_DO_END },
	{ .states = S(STOPPING),
		.event = GROUP_EV_GONE,
		.when = GOAL_STOP,
		.next = GROUP_STOPPED,
		.actions = GROUP_DO_END },
	{ .states = S(STOPPING),
		.event = GROUP_EV_GONE,
		.when = GOAL_PREEMPT,
		.next = GROUP_PREEMPTED,
		.actions = GROUP_DO_END },

	{ .states = S(BACKOFF),
		.event = GROUP_EV_BACKOFF_OVER,
		.next = GROUP_RENDEZVOUS,
		.actions = GROUP_DO_RENDEZVOUS },
	{ .states = S(BACKOFF),
		.event = GROUP_EV_RESTART,
		.next = GROUP_RENDEZVOUS,
		.actions = GROUP_DO_DISARM_BACKOFF | GROUP_DO_RENDEZVOUS },

	{ .states = S(PENDING) | S(RENDEZVOUS) | S(BACKOFF),
		.event = GROUP_EV_STOP,
		.next = GROUP_STOPPED,
		.actions = GROUP_DO_DISARM_BACKOFF | GROUP_DO_END },
	{ .states = S(PENDING) | S(RENDEZVOUS) | S(BACKOFF),
		.event = GROUP_EV_TIMEOUT,
		.next = GROUP_FAILED,
		.goal = GOAL_TIMEOUT,
		.actions = GROUP_DO_DISARM_BACKOFF | GROUP_DO_END },
	{ .states = S(PENDING) | S(RENDEZVOUS) | S(BACKOFF),
		.event = GROUP_EV_PREEMPT,
		.next = GROUP_PREEMPTED,
		.actions = GROUP_DO_DISARM_BACKOFF | GROUP_DO_END },
	/* An agent that follows a lost one begins in this state: it continues what that one had
	 * decided, or finds that the budget allows no restart. */
	{ .states = S(PENDING),
		.event = GROUP_EV_FAIL,
		.next = GROUP_FAILED,
		.actions = GROUP_DO_END },
	{ .states = S(PENDING),
		.event = GROUP_EV_DONE,
		.next = GROUP_SUCCEEDED,
		.actions = GROUP_DO_END },
	{ .states = S(PENDING),
		.event = GROUP_EV_RETRY,
		.next = GROUP_BACKOFF,
		.actions = GROUP_DO_ARM_BACKOFF },
	{ .states = S(RENDEZVOUS),
		.event = GROUP_EV_FAIL,
		.next = GROUP_FAILED,
		.actions = GROUP_DO_END },
	/* Several hosts: the head's verdict comes when no worker lives any more. */
	{ .states = S(RENDEZVOUS),
		.event = GROUP_EV_DONE,
		.next = GROUP_SUCCEEDED,
		.actions = GROUP_DO_END },
};

/* Pairs that happen and change nothing. */
static const struct {
	unsigned states;
	enum group_event event;
} group_ignored[] = {
	{ S(STOPPING), GROUP_EV_RETRY }, /* other workers end while all are being stopped */
	{ S(STOPPING), GROUP_EV_FAIL },
	{ S(STOPPING), GROUP_EV_DONE },
	{ S(STOPPING), GROUP_EV_RESTART },
	{ S(STOPPING), GROUP_EV_STOP },
	{ S(STOPPING), GROUP_EV_TIMEOUT },
	{ S(STOPPING), GROUP_EV_PREEMPT },
	{ S(STOPPING), GROUP_EV_STUCK },
	{ S(PENDING) | S(RENDEZVOUS), GROUP_EV_RESTART }, /* an attempt is about to start anyway */
	{ FINAL, GROUP_EV_RESTART },
	{ FINAL, GROUP_EV_STOP },
	{ FINAL, GROUP_EV_TIMEOUT },
	{ FINAL, GROUP_EV_PREEMPT },
};

enum group_result group_step(
	struct group *g, enum group_event event, bool delayed, unsigned *ret_actions)
{
	unsigned bit = 1u << g->state;

	for (size_t i = 0; i < sizeof(group_rows) / sizeof(group_rows[0]); i++) {
		const struct group_row *r = &group_rows[i];

		if (!(r->states & bit) || r->event != event)
			continue;
		if (r->when != GOAL_NONE && r->when != g->goal)
			continue;
		if (r->delay != DELAY_ANY && (r->delay == DELAY_YES) != delayed)
			continue;
		g->state = r->next;
		g->goal = r->goal;
		*ret_actions = r->actions;
		return GROUP_STEPPED;
	}
	for (size_t i = 0; i < sizeof(group_ignored) / sizeof(group_ignored[0]); i++)
		if ((group_ignored[i].states & bit) && group_ignored[i].event == event)
			return GROUP_IGNORED;
	return GROUP_REFUSED;
}

const char *group_state_name(enum group_state s)
{
	static const char *const names[] = {
#define X(name, text) [GROUP_##name] = text,
		GROUP_STATES(X)
#undef X
	};
	return names[s];
}

const char *group_event_name(enum group_event e)
{
	static const char *const names[] = {
#define X(name, text) [GROUP_EV_##name] = text,
		GROUP_EVENTS(X)
#undef X
	};
	return names[e];
}

bool group_state_is_final(enum group_state s)
{
	return FINAL >> s & 1;
}
