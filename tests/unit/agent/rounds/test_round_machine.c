/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of agent/rounds/round_machine.h: every state with every event and every condition. */
#include "agent/rounds/round_machine.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What one letter of the table below means. */
static const struct outcome {
	char letter;
	enum round_state next;
	enum round_action action;
} outcomes[] = {
	{ 'A', ROUND_PREPARING, ROUND_DO_ASSIGN },
	{ 'G', ROUND_CLOSING, ROUND_DO_GIVE_UP },
	{ 'C', ROUND_CLOSING, ROUND_DO_CLOSE },
	{ 'B', ROUND_BACKOFF, ROUND_DO_NOTHING },
	{ 'S', ROUND_STARTING, ROUND_DO_START },
	{ 'R', ROUND_GATHERING, ROUND_DO_RECALL },
	{ 'b', ROUND_BACKOFF, ROUND_DO_RECALL },
	{ 'T', ROUND_RUNNING, ROUND_DO_TELL },
	{ 'P', ROUND_STOPPING, ROUND_DO_STOP },
	{ 'p', ROUND_STOPPING, ROUND_DO_NOTHING },
	{ 'E', ROUND_ENDING, ROUND_DO_STOP },
	{ 'e', ROUND_ENDING, ROUND_DO_NOTHING },
	{ 'V', ROUND_RUNNING, ROUND_DO_SAVE },
	{ 'Q', ROUND_BACKOFF, ROUND_DO_REST },
	{ 'q', ROUND_GATHERING, ROUND_DO_REST },
	{ 'g', ROUND_GATHERING, ROUND_DO_NOTHING },
	{ 'F', ROUND_ENDED, ROUND_DO_FINISH },
};

/*
 * One letter for each event, in the order of ROUND_EVENTS. '-' is refused, '.' is ignored; digits
 * depend on the condition.
 */
static const char *const expected[] = {
	[ROUND_GATHERING] = "A G - - - - 1 - - C -",
	[ROUND_PREPARING] = "- - S - R - 2 - - C -",
	[ROUND_STARTING] = "- - - T P - P - - E -",
	[ROUND_RUNNING] = "- - - - P 3 P - - E -",
	[ROUND_STOPPING] = "- - - - - - p 4 - e -",
	[ROUND_BACKOFF] = "- - - - - - B - g C -",
	[ROUND_ENDING] = "- - - - - - . C - . -",
	[ROUND_CLOSING] = "- - - - - - . - - . F",
	[ROUND_ENDED] = "- - - - - - . - - . -",
};

enum { CONDITIONS = 4 };

static struct round_condition condition(int i)
{
	return (struct round_condition){ .delayed = i & 1, .saves = i & 2 };
}

static char letter_of(char letter, int i)
{
	switch (letter) {
	case '1':
		return condition(i).delayed ? 'B' : '.';
	case '2':
		return condition(i).delayed ? 'b' : '.';
	case '3':
		return condition(i).saves ? 'V' : 'P';
	case '4':
		return condition(i).delayed ? 'Q' : 'q';
	default:
		return letter;
	}
}

static int step(enum round_state s, enum round_event e, int i, struct round_change *ret)
{
	struct round_condition c = condition(i);

	return round_change(s, e, &c, ret);
}

static const struct outcome *outcome(char letter)
{
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
		if (outcomes[i].letter == letter)
			return &outcomes[i];
	ck_abort_msg("the table has a letter '%c' without a meaning", letter);
	return NULL;
}

static void check_cell(enum round_state s, enum round_event e, int i)
{
	struct round_change change;
	char letter = letter_of(expected[s][2 * e], i);
	int r;

	memset(&change, 0xee, sizeof(change));
	r = step(s, e, i, &change);
	if (letter == '-' || letter == '.') {
		struct round_change untouched;

		memset(&untouched, 0xee, sizeof(untouched));
		ck_assert_msg(r == (letter == '-' ? -EINVAL : 1), "%s, %s: result %d",
			round_state_name(s), round_event_name(e), r);
		ck_assert_msg(!memcmp(&change, &untouched, sizeof(change)), "%s, %s: a change",
			round_state_name(s), round_event_name(e));
		return;
	}
	ck_assert_msg(r == 0 && change.next == outcome(letter)->next &&
			      change.action == outcome(letter)->action,
		"%s, %s: result %d, to %s with action %d", round_state_name(s), round_event_name(e),
		r, r ? "" : round_state_name(change.next), (int)change.action);
}

START_TEST(every_event_has_its_answer_in_every_state)
{
	for (int s = 0; s < ROUND_N_STATES; s++) {
		ck_assert_uint_eq(strlen(expected[s]), 2 * ROUND_EV_N - 1);
		for (int e = 0; e < ROUND_EV_N; e++)
			for (int i = 0; i < CONDITIONS; i++)
				check_cell(s, e, i);
	}
}
END_TEST

START_TEST(states_and_events_have_names_of_their_own)
{
	for (int i = 0; i < ROUND_N_STATES; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(round_state_name(i), round_state_name(k));
	for (int i = 0; i < ROUND_EV_N; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(round_event_name(i), round_event_name(k));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("round_machine");
	TCase *t = tcase_create("round");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, every_event_has_its_answer_in_every_state);
	tcase_add_test(t, states_and_events_have_names_of_their_own);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
