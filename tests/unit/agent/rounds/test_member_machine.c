/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of agent/rounds/member_machine.h: every state with every event and every condition.
 */
#include "agent/rounds/member_machine.h"

#include "tests/unit/agent/rounds/machine_table.h"

static const struct outcome outcomes[] = {
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
	{ 0 },
};

/* One letter for each event, in the order of MEMBER_EVENTS. */
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

MACHINE_FUNCTIONS(member, i)

static const struct machine_table machine = {
	.n_states = MEMBER_N_STATES,
	.n_events = MEMBER_EV_N,
	.n_conditions = 2,
	.outcomes = outcomes,
	.expected = expected,
	.letter_of = letter_of,
};

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

int main(void)
{
	TCase *t = machine_case();

	tcase_add_test(t, workers_live_only_between_start_and_their_death);
	return machine_run("member_machine", t);
}
