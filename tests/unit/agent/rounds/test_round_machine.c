/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of agent/rounds/round_machine.h: every state with every event and every condition. */
#include "agent/rounds/round_machine.h"

#include "tests/unit/agent/rounds/machine_table.h"

static const struct outcome outcomes[] = {
	{ 'A', ROUND_PREPARING, ROUND_DO_ASSIGN },
	{ 'G', ROUND_CLOSING, ROUND_DO_GIVE_UP },
	{ 'C', ROUND_CLOSING, ROUND_DO_CLOSE },
	{ 'B', ROUND_BACKOFF, ROUND_DO_NOTHING },
	{ 'W', ROUND_RECORDING, ROUND_DO_RECORD },
	{ 'S', ROUND_STARTING, ROUND_DO_START },
	{ 'R', ROUND_GATHERING, ROUND_DO_RECALL },
	{ 'b', ROUND_BACKOFF, ROUND_DO_RECALL },
	{ 'T', ROUND_RUNNING, ROUND_DO_TELL },
	{ 'P', ROUND_STOPPING, ROUND_DO_STOP },
	{ 'p', ROUND_STOPPING, ROUND_DO_NOTHING },
	{ 'E', ROUND_ENDING, ROUND_DO_STOP },
	{ 'e', ROUND_ENDING, ROUND_DO_NOTHING },
	{ 'a', ROUND_ENDING, ROUND_DO_ABANDON },
	{ 'V', ROUND_RUNNING, ROUND_DO_SAVE },
	{ 'Q', ROUND_BACKOFF, ROUND_DO_REST },
	{ 'q', ROUND_GATHERING, ROUND_DO_REST },
	{ 'g', ROUND_GATHERING, ROUND_DO_NOTHING },
	{ 'F', ROUND_ENDED, ROUND_DO_FINISH },
	{ 0 },
};

/* One letter for each event, in the order of ROUND_EVENTS. */
static const char *const expected[] = {
	[ROUND_GATHERING] = "A G - - - - - 1 - - C -",
	[ROUND_PREPARING] = "- - 5 - - R - 2 - - C -",
	[ROUND_RECORDING] = "- - - S - R - 2 - - C -",
	[ROUND_STARTING] = "- - - - T P - P - - E -",
	[ROUND_RUNNING] = "- a - - - P 3 P - - E -",
	[ROUND_STOPPING] = "- - - - - - - p 4 - e -",
	[ROUND_BACKOFF] = "- - - - - - - B - g C -",
	[ROUND_ENDING] = "- - - - - - - . C - . -",
	[ROUND_CLOSING] = "- - - - - - - . - - . F",
	[ROUND_ENDED] = "- - - - - - - . - - . -",
};

static const struct round_condition conditions[] = {
	{ .delayed = false },
	{ .delayed = true },
	{ .saves = true },
	{ .delayed = true, .saves = true },
	{ .records = true },
	{ .delayed = true, .records = true },
	{ .saves = true, .records = true },
	{ .delayed = true, .saves = true, .records = true },
};

static char letter_of(char letter, int i)
{
	switch (letter) {
	case '1':
		return conditions[i].delayed ? 'B' : '.';
	case '2':
		return conditions[i].delayed ? 'b' : '.';
	case '3':
		return conditions[i].saves ? 'V' : 'P';
	case '4':
		return conditions[i].delayed ? 'Q' : 'q';
	case '5':
		return conditions[i].records ? 'W' : 'S';
	default:
		return letter;
	}
}

MACHINE_FUNCTIONS(round, &conditions[i])

static const struct machine_table machine = {
	.n_states = ROUND_N_STATES,
	.n_events = ROUND_EV_N,
	.n_conditions = 8,
	.outcomes = outcomes,
	.expected = expected,
	.letter_of = letter_of,
};

int main(void)
{
	return machine_run("round_machine", machine_case());
}
