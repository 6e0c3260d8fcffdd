/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of agent/rounds/member_machine.h: every state with every event and every condition.
 */
#include "agent/rounds/member_machine.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What one letter of the table below means. */
static const struct outcome {
	char letter;
	enum member_state next;
	enum member_action action;
} outcomes[] = {
	{ 'J', MEMBER_JOINING, MEMBER_DO_JOIN },
	{ 'w', MEMBER_WAITING, MEMBER_DO_NOTHING },
	{ 'o', MEMBER_OVER, MEMBER_DO_NOTHING },
	{ 'P', MEMBER_PREPARING, MEMBER_DO_PREPARE },
	{ 'p', MEMBER_PREPARED, MEMBER_DO_SAY_PREPARED },
	{ 'u', MEMBER_WAITING, MEMBER_DO_SAY_UNABLE },
	{ 'S', MEMBER_RUNNING, MEMBER_DO_SPAWN },
	{ 's', MEMBER_RUNNING, MEMBER_DO_SAY_STARTED },
	{ 'X', MEMBER_STOPPING, MEMBER_DO_STOP },
	{ 'g', MEMBER_WAITING, MEMBER_DO_SAY_STOPPED },
	{ 'O', MEMBER_OVER, MEMBER_DO_SAY_BYE },
	{ 'R', MEMBER_AWAY, MEMBER_DO_REJOIN },
	{ 'K', MEMBER_FENCED, MEMBER_DO_KILL },
	{ 'L', MEMBER_RUNNING, MEMBER_DO_SAY_LEAVE },
	{ 'x', MEMBER_STOPPING, MEMBER_DO_NOTHING },
	{ 'f', MEMBER_FENCED, MEMBER_DO_NOTHING },
};

/*
 * One letter for each event, in the order of MEMBER_EVENTS. '-' is refused, '.' is ignored; digits
 * depend on the condition.
 */
static const char *const expected[] = {
	[MEMBER_AWAY] = "J . . . . . . - . - . . O",
	[MEMBER_JOINING] = "- w o . . . . - . - . R O",
	[MEMBER_WAITING] = "- - - P . . - - - - O R O",
	[MEMBER_PREPARING] = "- - - P p u - - - - O R O",
	[MEMBER_PREPARED] = "- - - P - - S - - - O R O",
	[MEMBER_RUNNING] = "- - - - - - - s X - - K L",
	[MEMBER_STOPPING] = "- - - - - - - . - 1 - K x",
	[MEMBER_FENCED] = ". - - . - - . . . 2 . . f",
	[MEMBER_OVER] = ". . . . . . . - . - . . .",
};

enum { CONDITIONS = 2 };

static char letter_of(char letter, int leaving)
{
	switch (letter) {
	case '1':
		return leaving ? 'O' : 'g';
	case '2':
		return leaving ? 'O' : 'R';
	default:
		return letter;
	}
}

static int step(enum member_state s, enum member_event e, int leaving, struct member_change *ret)
{
	return member_change(s, e, leaving, ret);
}

static const struct outcome *outcome(char letter)
{
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
		if (outcomes[i].letter == letter)
			return &outcomes[i];
	ck_abort_msg("the table has a letter '%c' without a meaning", letter);
	return NULL;
}

static void check_cell(enum member_state s, enum member_event e, int i)
{
	struct member_change change;
	char letter = letter_of(expected[s][2 * e], i);
	int r;

	memset(&change, 0xee, sizeof(change));
	r = step(s, e, i, &change);
	if (letter == '-' || letter == '.') {
		struct member_change untouched;

		memset(&untouched, 0xee, sizeof(untouched));
		ck_assert_msg(r == (letter == '-' ? -EINVAL : 1), "%s, %s: result %d",
			member_state_name(s), member_event_name(e), r);
		ck_assert_msg(!memcmp(&change, &untouched, sizeof(change)), "%s, %s: a change",
			member_state_name(s), member_event_name(e));
		return;
	}
	ck_assert_msg(r == 0 && change.next == outcome(letter)->next &&
			      change.action == outcome(letter)->action,
		"%s, %s: result %d, to %s with action %d", member_state_name(s),
		member_event_name(e), r, r ? "" : member_state_name(change.next),
		(int)change.action);
}

START_TEST(every_event_has_its_answer_in_every_state)
{
	for (int s = 0; s < MEMBER_N_STATES; s++) {
		ck_assert_uint_eq(strlen(expected[s]), 2 * MEMBER_EV_N - 1);
		for (int e = 0; e < MEMBER_EV_N; e++)
			for (int i = 0; i < CONDITIONS; i++)
				check_cell(s, e, i);
	}
}
END_TEST

START_TEST(workers_live_only_between_start_and_their_death)
{
	for (int s = 0; s < MEMBER_N_STATES; s++)
		for (int e = 0; e < MEMBER_EV_N; e++) {
			struct member_change c;

			if (member_change(s, e, false, &c))
				continue;
			if (!member_has_workers(s) && member_has_workers(c.next))
				ck_assert_int_eq(c.action, MEMBER_DO_SPAWN);
			if (member_has_workers(s) && !member_has_workers(c.next))
				ck_assert_int_eq(e, MEMBER_EV_DEAD);
		}
}
END_TEST

START_TEST(states_and_events_have_names_of_their_own)
{
	for (int i = 0; i < MEMBER_N_STATES; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(member_state_name(i), member_state_name(k));
	for (int i = 0; i < MEMBER_EV_N; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(member_event_name(i), member_event_name(k));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("member_machine");
	TCase *t = tcase_create("member");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, every_event_has_its_answer_in_every_state);
	tcase_add_test(t, workers_live_only_between_start_and_their_death);
	tcase_add_test(t, states_and_events_have_names_of_their_own);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
