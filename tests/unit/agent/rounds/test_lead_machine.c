/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of agent/rounds/lead_machine.h: every state with every event. */
#include "agent/rounds/lead_machine.h"

#include "tests/unit/agent/rounds/machine_table.h"

static const struct outcome outcomes[] = {
	{ 'F', LEAD_FOLLOWING, LEAD_DO_FOLLOW },
	{ 'L', LEAD_LEADING, LEAD_DO_LEAD },
	{ 'C', LEAD_CLAIMING, LEAD_DO_CLAIM },
	{ 'V', LEAD_VACANT, LEAD_DO_WAIT },
	{ 'l', LEAD_LOOKING, LEAD_DO_LOOK },
	{ 'D', LEAD_LOOKING, LEAD_DO_STEP_DOWN },
	{ 0 },
};

/* One letter for each event, in the order of LEAD_EVENTS. */
static const char *const expected[] = {
	[LEAD_LOOKING] = "F L V - C - - - .",
	[LEAD_FOLLOWING] = "F L V - C - - - l",
	[LEAD_VACANT] = "F L . C C - - - .",
	[LEAD_CLAIMING] = ". . . - . L l l .",
	[LEAD_LEADING] = ". . . - . - - - D",
};

static char letter_of(char letter, int i)
{
	return letter;
}

static int step(int state, int event, int i, struct outcome *ret)
{
	struct lead_change c = { ret->next, ret->action };
	int r = lead_change(state, event, &c);

	ret->next = (int)c.next;
	ret->action = (int)c.action;
	return r;
}

static const char *state_name(int state)
{
	return lead_state_name(state);
}

static const char *event_name(int event)
{
	return lead_event_name(event);
}

static const struct machine_table machine = {
	.n_states = LEAD_N_STATES,
	.n_events = LEAD_EV_N,
	.n_conditions = 1,
	.outcomes = outcomes,
	.expected = expected,
	.letter_of = letter_of,
};

int main(void)
{
	return machine_run("lead_machine", machine_case());
}
