/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/group_machine.h"
#include "tests/unit/child.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_GOALS = GOAL_PREEMPT + 1 };

/* The meaning of one letter of the table below. */
struct outcome {
	char letter;
	enum group_state next;
	enum group_goal goal;
	unsigned actions;
};

static const struct outcome outcomes[] = {
	{ 'R', GROUP_RENDEZVOUS, GOAL_NONE, GROUP_DO_RENDEZVOUS },
	{ 'r', GROUP_RENDEZVOUS, GOAL_NONE, GROUP_DO_DISARM_BACKOFF | GROUP_DO_RENDEZVOUS },
	{ 'P', GROUP_STARTING, GOAL_NONE, GROUP_DO_SPAWN },
	{ 'U', GROUP_RUNNING, GOAL_NONE, 0 },
	{ 'B', GROUP_BACKOFF, GOAL_NONE, GROUP_DO_ARM_BACKOFF },
	/* into STOPPING */
	{ '1', GROUP_STOPPING, GOAL_RETRY, GROUP_DO_STOP_WORKERS },
	{ '2', GROUP_STOPPING, GOAL_SUCCEED, GROUP_DO_STOP_WORKERS },
	{ '3', GROUP_STOPPING, GOAL_FAIL, GROUP_DO_STOP_WORKERS },
	{ '4', GROUP_STOPPING, GOAL_STOP, GROUP_DO_STOP_WORKERS },
	{ '5', GROUP_STOPPING, GOAL_TIMEOUT, GROUP_DO_STOP_WORKERS },
	{ '6', GROUP_STOPPING, GOAL_PREEMPT, GROUP_DO_STOP_WORKERS },
	/* another goal while stopping */
	{ 'f', GROUP_STOPPING, GOAL_FAIL, 0 },
	{ 's', GROUP_STOPPING, GOAL_STOP, 0 },
	{ 't', GROUP_STOPPING, GOAL_TIMEOUT, 0 },
	{ 'p', GROUP_STOPPING, GOAL_PREEMPT, 0 },
	/* ends */
	{ 'W', GROUP_SUCCEEDED, GOAL_NONE, GROUP_DO_END },
	{ 'F', GROUP_FAILED, GOAL_NONE, GROUP_DO_END },
	{ 'T', GROUP_FAILED, GOAL_TIMEOUT, GROUP_DO_END },
	{ 'S', GROUP_STOPPED, GOAL_NONE, GROUP_DO_END },
	{ 'E', GROUP_PREEMPTED, GOAL_NONE, GROUP_DO_END },
	{ 'x', GROUP_FAILED, GOAL_TIMEOUT, GROUP_DO_DISARM_BACKOFF | GROUP_DO_END },
	{ 'y', GROUP_STOPPED, GOAL_NONE, GROUP_DO_DISARM_BACKOFF | GROUP_DO_END },
	{ 'z', GROUP_PREEMPTED, GOAL_NONE, GROUP_DO_DISARM_BACKOFF | GROUP_DO_END },
};

static const enum group_event columns[] = { GROUP_EV_START, GROUP_EV_READY, GROUP_EV_STARTED,
	GROUP_EV_RETRY, GROUP_EV_FAIL, GROUP_EV_DONE, GROUP_EV_RESTART, GROUP_EV_STOP,
	GROUP_EV_TIMEOUT, GROUP_EV_PREEMPT, GROUP_EV_STUCK, GROUP_EV_GONE, GROUP_EV_BACKOFF_OVER };

/*
 * One cell for each of columns[]: '-' refused, '.' ignored, '?' R without a delay and B with one;
 * any other letter is of the table above. The goal matters in STOPPING only; in other states
 * ANY_GOAL stands for all goals.
 */
enum { ANY_GOAL = -1 };

static const struct {
	enum group_state state;
	int goal;
	const char *cells;
} expected[] = {
	{ GROUP_PENDING, ANY_GOAL, "R - - B F W . y x z - - -" },
	{ GROUP_RENDEZVOUS, ANY_GOAL, "- P - - F W . y x z - - -" },
	{ GROUP_STARTING, ANY_GOAL, "- - U 1 3 2 1 4 5 6 - - -" },
	{ GROUP_RUNNING, ANY_GOAL, "- - - 1 3 2 1 4 5 6 - - -" },
	{ GROUP_STOPPING, GOAL_NONE, "- - - . . . . . . . . - -" },
	{ GROUP_STOPPING, GOAL_RETRY, "- - - . . . . s t p f ? -" },
	{ GROUP_STOPPING, GOAL_SUCCEED, "- - - . . . . . . . . W -" },
	{ GROUP_STOPPING, GOAL_FAIL, "- - - . . . . . . . . F -" },
	{ GROUP_STOPPING, GOAL_STOP, "- - - . . . . . . . . S -" },
	{ GROUP_STOPPING, GOAL_TIMEOUT, "- - - . . . . . . . . T -" },
	{ GROUP_STOPPING, GOAL_PREEMPT, "- - - . . . . . . . . E -" },
	{ GROUP_BACKOFF, ANY_GOAL, "- - - - - - r y x z - - R" },
	{ GROUP_SUCCEEDED, ANY_GOAL, "- - - - - - . . . . - - -" },
	{ GROUP_FAILED, ANY_GOAL, "- - - - - - . . . . - - -" },
	{ GROUP_STOPPED, ANY_GOAL, "- - - - - - . . . . - - -" },
	{ GROUP_PREEMPTED, ANY_GOAL, "- - - - - - . . . . - - -" },
};

static char expected_letter(struct group g, enum group_event event, bool delayed)
{
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		if (expected[i].state != g.state ||
			(expected[i].goal != ANY_GOAL && expected[i].goal != (int)g.goal))
			continue;
		for (size_t k = 0; k < sizeof(columns) / sizeof(columns[0]); k++)
			if (columns[k] == event) {
				char letter = expected[i].cells[2 * k];

				return letter == '?' ? (delayed ? 'B' : 'R') : letter;
			}
	}
	ck_abort_msg("the table has no row for %s", group_state_name(g.state));
	return 0;
}

static const struct outcome *outcome(char letter)
{
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
		if (outcomes[i].letter == letter)
			return &outcomes[i];
	ck_abort_msg("the table has a letter '%c' without a meaning", letter);
	return NULL;
}

static void check_cell(struct group before, enum group_event event, bool delayed)
{
	char letter = expected_letter(before, event, delayed);
	struct group g = before;
	unsigned actions = 0xdead;
	enum group_result r = group_step(&g, event, delayed, &actions);
	const struct outcome *o;
	char where[96];

	snprintf(where, sizeof(where), "%s, goal %d, event %s, %s", group_state_name(before.state),
		before.goal, group_event_name(event), delayed ? "delayed" : "at once");
	if (letter == '-' || letter == '.') {
		ck_assert_msg(r == (letter == '-' ? GROUP_REFUSED : GROUP_IGNORED), "%s: result %d",
			where, r);
		ck_assert_msg(g.state == before.state && g.goal == before.goal && actions == 0xdead,
			"%s: changed by an event that means nothing", where);
		return;
	}
	o = outcome(letter);
	ck_assert_msg(r == GROUP_STEPPED, "%s: result %d", where, r);
	ck_assert_msg(g.state == o->next, "%s: is %s", where, group_state_name(g.state));
	ck_assert_msg(g.goal == o->goal, "%s: goal %d", where, g.goal);
	ck_assert_msg(actions == o->actions, "%s: actions %#x", where, actions);
}

START_TEST(every_event_has_its_answer_in_every_state)
{
	int n = 0;

	for (int s = 0; s < GROUP_N_STATES; s++)
		for (int e = 0; e < GROUP_N_EVENTS; e++)
			for (int goal = 0; goal < N_GOALS; goal++)
				for (int delayed = 0; delayed < 2; delayed++, n++)
					check_cell((struct group){ s, goal }, e, delayed);
	ck_assert_int_eq(n, 10 * 13 * 7 * 2);
}
END_TEST

START_TEST(no_event_leads_out_of_a_final_state)
{
	for (int s = 0; s < GROUP_N_STATES; s++)
		for (int e = 0; e < GROUP_N_EVENTS; e++)
			for (int goal = 0; goal < N_GOALS; goal++) {
				struct group g = { s, goal };
				unsigned actions;

				if (group_state_is_final(s))
					ck_assert_int_ne(
						group_step(&g, e, false, &actions), GROUP_STEPPED);
			}
}
END_TEST

START_TEST(exactly_four_states_are_final)
{
	for (int s = 0; s < GROUP_N_STATES; s++)
		ck_assert_int_eq(group_state_is_final(s),
			s == GROUP_SUCCEEDED || s == GROUP_FAILED || s == GROUP_STOPPED ||
				s == GROUP_PREEMPTED);
}
END_TEST

/* A group has a goal in STOPPING only; after a time limit it keeps the goal, which tells why it
 * failed. */
static bool consistent(const struct group *g)
{
	if (g->state == GROUP_STOPPING)
		return g->goal != GOAL_NONE;
	return g->goal == GOAL_NONE || (g->state == GROUP_FAILED && g->goal == GOAL_TIMEOUT);
}

static void check_stop_ends(struct group g)
{
	unsigned actions = 0, all = 0;

	if (group_step(&g, GROUP_EV_STOP, false, &actions) == GROUP_STEPPED)
		all |= actions;
	if (g.state == GROUP_STOPPING &&
		group_step(&g, GROUP_EV_GONE, true, &actions) == GROUP_STEPPED)
		all |= actions;
	ck_assert_msg(group_state_is_final(g.state), "ends as %s", group_state_name(g.state));
	ck_assert(all & GROUP_DO_END);
}

START_TEST(a_stop_leads_to_the_end_from_every_state)
{
	for (int s = 0; s < GROUP_N_STATES; s++)
		for (int goal = 0; goal < N_GOALS; goal++) {
			struct group g = { s, goal };

			if (!group_state_is_final(s) && consistent(&g))
				check_stop_ends(g);
		}
}
END_TEST

START_TEST(a_verdict_that_is_reached_is_not_overtaken_by_a_stop)
{
	struct group g = { GROUP_STOPPING, GOAL_FAIL };
	unsigned actions;

	ck_assert_int_eq(group_step(&g, GROUP_EV_STOP, false, &actions), GROUP_IGNORED);
	ck_assert_int_eq(group_step(&g, GROUP_EV_TIMEOUT, false, &actions), GROUP_IGNORED);
	ck_assert_int_eq(group_step(&g, GROUP_EV_GONE, false, &actions), GROUP_STEPPED);
	ck_assert_int_eq(g.state, GROUP_FAILED);
}
END_TEST

START_TEST(a_preemption_overtakes_a_restart_and_no_other_end)
{
	for (int goal = GOAL_RETRY; goal < N_GOALS; goal++) {
		struct group g = { GROUP_STOPPING, goal };
		unsigned actions;

		ck_assert_int_eq(group_step(&g, GROUP_EV_PREEMPT, false, &actions),
			goal == GOAL_RETRY ? GROUP_STEPPED : GROUP_IGNORED);
		ck_assert_int_eq(g.goal, goal == GOAL_RETRY ? GOAL_PREEMPT : goal);
	}
}
END_TEST

START_TEST(a_group_can_restart_and_then_succeed)
{
	static const struct {
		enum group_event event;
		bool delayed;
		enum group_state state;
	} steps[] = {
		{ GROUP_EV_START, false, GROUP_RENDEZVOUS },
		{ GROUP_EV_READY, false, GROUP_STARTING },
		{ GROUP_EV_STARTED, false, GROUP_RUNNING },
		{ GROUP_EV_RETRY, false, GROUP_STOPPING },
		{ GROUP_EV_GONE, true, GROUP_BACKOFF },
		{ GROUP_EV_BACKOFF_OVER, false, GROUP_RENDEZVOUS },
		{ GROUP_EV_READY, false, GROUP_STARTING },
		{ GROUP_EV_STARTED, false, GROUP_RUNNING },
		{ GROUP_EV_DONE, false, GROUP_STOPPING },
		{ GROUP_EV_GONE, true, GROUP_SUCCEEDED },
	};
	struct group g = { 0 };
	unsigned actions;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		ck_assert_int_eq(
			group_step(&g, steps[i].event, steps[i].delayed, &actions), GROUP_STEPPED);
		ck_assert_int_eq(g.state, steps[i].state);
	}
	ck_assert_uint_eq(actions, GROUP_DO_END);
}
END_TEST

/* Each action belongs to the state that it leads to: no step repeats one or leaves one out. */
static void check_actions(const struct group *before, const struct group *g, unsigned actions)
{
	bool stops = g->state == GROUP_STOPPING && before->state != GROUP_STOPPING;

	/* No assertion each: Check writes a line for every one. */
	if (!(!!(actions & GROUP_DO_END) == group_state_is_final(g->state) &&
		    !!(actions & GROUP_DO_RENDEZVOUS) == (g->state == GROUP_RENDEZVOUS) &&
		    !!(actions & GROUP_DO_SPAWN) == (g->state == GROUP_STARTING) &&
		    !!(actions & GROUP_DO_ARM_BACKOFF) == (g->state == GROUP_BACKOFF) &&
		    !!(actions & GROUP_DO_STOP_WORKERS) == stops))
		ck_abort_msg("actions %#x on the way from %s to %s", actions,
			group_state_name(before->state), group_state_name(g->state));
}

static bool walk(uint32_t *seed, unsigned *visited)
{
	struct group g = { 0 };

	for (int i = 0; i < 200; i++) {
		struct group before = g;
		unsigned actions = 0;
		bool delayed = next_random(seed) & 1;

		if (group_step(&g, next_random(seed) % GROUP_N_EVENTS, delayed, &actions) ==
			GROUP_STEPPED)
			check_actions(&before, &g, actions);
		*visited |= 1u << g.state;
		if (!consistent(&g))
			ck_abort_msg("%s with goal %d", group_state_name(g.state), g.goal);
	}
	return group_state_is_final(g.state);
}

START_TEST(random_walks_stay_consistent_and_reach_every_state)
{
	uint32_t seed = 2463534242u;
	unsigned visited = 0;
	int ended = 0, walks = under_valgrind() ? 1000 : 5000;

	for (int i = 0; i < walks; i++)
		ended += walk(&seed, &visited);
	ck_assert_uint_eq(visited, (1u << GROUP_N_STATES) - 1);
	ck_assert_int_gt(ended, walks / 5 * 4);
}
END_TEST

START_TEST(states_and_events_have_names_of_their_own)
{
	for (int i = 0; i < GROUP_N_STATES; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(group_state_name(i), group_state_name(k));
	for (int i = 0; i < GROUP_N_EVENTS; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(group_event_name(i), group_event_name(k));
	ck_assert_str_eq(group_state_name(GROUP_BACKOFF), "backoff");
	ck_assert_str_eq(group_event_name(GROUP_EV_BACKOFF_OVER), "backoff-over");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("group");
	TCase *t = tcase_create("group");

	tcase_add_test(t, every_event_has_its_answer_in_every_state);
	tcase_add_test(t, no_event_leads_out_of_a_final_state);
	tcase_add_test(t, exactly_four_states_are_final);
	tcase_add_test(t, a_stop_leads_to_the_end_from_every_state);
	tcase_add_test(t, a_verdict_that_is_reached_is_not_overtaken_by_a_stop);
	tcase_add_test(t, a_preemption_overtakes_a_restart_and_no_other_end);
	tcase_add_test(t, a_group_can_restart_and_then_succeed);
	tcase_add_test(t, random_walks_stay_consistent_and_reach_every_state);
	tcase_add_test(t, states_and_events_have_names_of_their_own);
	suite_add_tcase(s, t);
	return suite_run(s);
}
