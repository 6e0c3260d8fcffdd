/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of agent/rounds/host_machine.h: every state with every event and every condition. */
#include "agent/rounds/host_machine.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What one letter of the table below means. */
static const struct outcome {
	char letter;
	enum host_state next;
	enum host_action action;
} outcomes[] = {
	{ 'A', HOST_ASSIGNED, HOST_DO_ASSIGN },
	{ 'p', HOST_PREPARED, HOST_DO_NOTHING },
	{ 'O', HOST_OUT, HOST_DO_LEAVE_OUT },
	{ 'w', HOST_WAITING, HOST_DO_NOTHING },
	{ 'S', HOST_STARTING, HOST_DO_START },
	{ 'r', HOST_RUNNING, HOST_DO_NOTHING },
	{ 'X', HOST_STOPPING, HOST_DO_STOP },
	{ 'x', HOST_STOPPING, HOST_DO_NOTHING },
	{ 'l', HOST_LEAVING, HOST_DO_NOTHING },
	{ 'E', HOST_CLOSING, HOST_DO_END },
	{ 'D', HOST_GONE, HOST_DO_DROP },
};

/*
 * One letter for each event, in the order of HOST_EVENTS. '-' is refused, '.' is ignored; digits
 * depend on the condition.
 */
static const char *const expected[] = {
	[HOST_MISSING] = "- - - - - D - - - - - . D D",
	[HOST_WAITING] = ". . - - l D A - - - - E D D",
	[HOST_ASSIGNED] = "p O - - l D - w O - - E D D",
	[HOST_PREPARED] = "- - - - l D - w - S - E D D",
	[HOST_STARTING] = "- - r - X D - - - - X - D D",
	[HOST_RUNNING] = "- - - - X D - - - - X - D D",
	[HOST_STOPPING] = "- - . 1 x D - - - - - - D D",
	[HOST_OUT] = "w . - - l D - - - - - E D D",
	[HOST_LEAVING] = "- - - - . D - - - - - . D D",
	[HOST_CLOSING] = ". . - - . D - - - - - - D D",
	[HOST_GONE] = "- - - - - - - - - - - - - -",
};

enum { CONDITIONS = 2 };

static char letter_of(char letter, int leaving)
{
	switch (letter) {
	case '1':
		return leaving ? 'l' : 'w';
	default:
		return letter;
	}
}

static int step(enum host_state s, enum host_event e, int leaving, struct host_change *ret)
{
	return host_change(s, e, leaving, ret);
}

static const struct outcome *outcome(char letter)
{
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
		if (outcomes[i].letter == letter)
			return &outcomes[i];
	ck_abort_msg("the table has a letter '%c' without a meaning", letter);
	return NULL;
}

static void check_cell(enum host_state s, enum host_event e, int i)
{
	struct host_change change;
	char letter = letter_of(expected[s][2 * e], i);
	int r;

	memset(&change, 0xee, sizeof(change));
	r = step(s, e, i, &change);
	if (letter == '-' || letter == '.') {
		struct host_change untouched;

		memset(&untouched, 0xee, sizeof(untouched));
		ck_assert_msg(r == (letter == '-' ? -EINVAL : 1), "%s, %s: result %d",
			host_state_name(s), host_event_name(e), r);
		ck_assert_msg(!memcmp(&change, &untouched, sizeof(change)), "%s, %s: a change",
			host_state_name(s), host_event_name(e));
		return;
	}
	ck_assert_msg(r == 0 && change.next == outcome(letter)->next &&
			      change.action == outcome(letter)->action,
		"%s, %s: result %d, to %s with action %d", host_state_name(s), host_event_name(e),
		r, r ? "" : host_state_name(change.next), (int)change.action);
}

START_TEST(every_event_has_its_answer_in_every_state)
{
	for (int s = 0; s < HOST_N_STATES; s++) {
		ck_assert_uint_eq(strlen(expected[s]), 2 * HOST_EV_N - 1);
		for (int e = 0; e < HOST_EV_N; e++)
			for (int i = 0; i < CONDITIONS; i++)
				check_cell(s, e, i);
	}
}
END_TEST

START_TEST(states_and_events_have_names_of_their_own)
{
	for (int i = 0; i < HOST_N_STATES; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(host_state_name(i), host_state_name(k));
	for (int i = 0; i < HOST_EV_N; i++)
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(host_event_name(i), host_event_name(k));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("host_machine");
	TCase *t = tcase_create("host");
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
