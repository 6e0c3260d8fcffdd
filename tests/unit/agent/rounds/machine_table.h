/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares a machine of agent/rounds with a table that has a letter for each state and event. A
 * test defines the machine (MACHINE_FUNCTIONS, then struct machine_table machine), and adds the
 * tests of this header by machine_case(). Included once by each test program of a machine.
 */

#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The meaning of one letter of a table. */
struct outcome {
	char letter;
	int next, action;
};

struct machine_table {
	int n_states, n_events, n_conditions;
	const struct outcome *outcomes; /* the last has no letter */
	/* For each state one letter for each event, with spaces between. '-' is refused, '.' is
	 * ignored; digits depend on the condition. */
	const char *const *expected;
	/* The letter that a digit stands for under condition i; other letters stay as they are. */
	char (*letter_of)(char letter, int i);
};

static const struct machine_table machine;

/* As the functions of the machine; step() returns what its change() does. */
static int step(int state, int event, int i, struct outcome *ret);
static const char *state_name(int state);
static const char *event_name(int event);

/* Defines these for the machine of that prefix; after it comes condition i, as the last parameter
 * but one of PREFIX_change(). */
#define MACHINE_FUNCTIONS(prefix, ...)                                    \
	static int step(int state, int event, int i, struct outcome *ret) \
	{                                                                 \
		struct prefix##_change c = { ret->next, ret->action };    \
		int r = prefix##_change(state, event, __VA_ARGS__, &c);   \
                                                                          \
		ret->next = (int)c.next;                                  \
		ret->action = (int)c.action;                              \
		return r;                                                 \
	}                                                                 \
	static const char *state_name(int state)                          \
	{                                                                 \
		return prefix##_state_name(state);                        \
	}                                                                 \
	static const char *event_name(int event)                          \
	{                                                                 \
		return prefix##_event_name(event);                        \
	}

static inline const struct outcome *machine_outcome(char letter)
{
	for (const struct outcome *o = machine.outcomes; o->letter; o++)
		if (o->letter == letter)
			return o;
	ck_abort_msg("the table has a letter '%c' without a meaning", letter);
	return NULL;
}

static inline void machine_check_cell(int s, int e, int i)
{
	const struct outcome untouched = { .next = 0x5a5a, .action = 0x5a5a };
	const struct outcome *expected;
	struct outcome got = untouched;
	char letter = machine.letter_of(machine.expected[s][2 * e], i);
	int r = step(s, e, i, &got);

	if (letter == '-' || letter == '.') {
		ck_assert_msg(r == (letter == '-' ? -EINVAL : 1), "%s, %s: result %d",
			state_name(s), event_name(e), r);
		ck_assert_msg(got.next == untouched.next && got.action == untouched.action,
			"%s, %s: a change", state_name(s), event_name(e));
		return;
	}
	expected = machine_outcome(letter);
	ck_assert_msg(r == 0 && got.next == expected->next && got.action == expected->action,
		"%s, %s: result %d, to %s with action %d", state_name(s), event_name(e), r,
		r ? "" : state_name(got.next), got.action);
}

START_TEST(every_event_has_its_answer_in_every_state)
{
	for (int s = 0; s < machine.n_states; s++) {
		ck_assert_uint_eq(strlen(machine.expected[s]), 2 * (size_t)machine.n_events - 1);
		for (int e = 0; e < machine.n_events; e++)
			for (int i = 0; i < machine.n_conditions; i++)
				machine_check_cell(s, e, i);
	}
}
END_TEST

START_TEST(states_and_events_have_names_of_their_own)
{
	for (int i = 0; i < machine.n_states; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(state_name(i), state_name(k));
	for (int i = 0; i < machine.n_events; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(event_name(i), event_name(k));
}
END_TEST

static inline TCase *machine_case(void)
{
	TCase *t = tcase_create("machine");

	tcase_add_test(t, every_event_has_its_answer_in_every_state);
	tcase_add_test(t, states_and_events_have_names_of_their_own);
	return t;
}

/* Runs the tests of t; returns main()'s status. */
static inline int machine_run(const char *name, TCase *t)
{
	Suite *s = suite_create(name);

	suite_add_tcase(s, t);
	return suite_run(s);
}
