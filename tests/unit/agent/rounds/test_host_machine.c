/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of agent/rounds/host_machine.h: every state with every event and every condition. */
#include "agent/rounds/host_machine.h"

#include "tests/unit/agent/rounds/machine_table.h"

static const struct outcome outcomes[] = {
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
	{ 0 },
};

/* One letter for each event, in the order of HOST_EVENTS. */
static const char *const expected[] = {
	[HOST_MISSING] = "- - - - - D - - - - - . D D",
	[HOST_WAITING] = ". . - - l D A - - - - E D D",
	[HOST_ASSIGNED] = "p O - - l D - w O - - E D D",
	[HOST_PREPARED] = "- - - - l D - w - S - E D D",
	[HOST_STARTING] = "- - r - X D - - - - X - D D",
	[HOST_RUNNING] = "- - - - X D - - - - X - D D",
	[HOST_STOPPING] = "- - . 1 x D - - - - - - D D",
	[HOST_OUT] = "w . - - l D - w - - - E D D",
	[HOST_LEAVING] = "- - - - . D - - - - - . D D",
	[HOST_CLOSING] = ". . - - . D - - - - - - D D",
	[HOST_GONE] = "- - - - - - - - - - - - - -",
};

static char letter_of(char letter, int leaving)
{
	switch (letter) {
	case '1':
		return leaving ? 'l' : 'w';
	default:
		return letter;
	}
}

MACHINE_FUNCTIONS(host, i)

static const struct machine_table machine = {
	.n_states = HOST_N_STATES,
	.n_events = HOST_EV_N,
	.n_conditions = 2,
	.outcomes = outcomes,
	.expected = expected,
	.letter_of = letter_of,
};

int main(void)
{
	return machine_run("host_machine", machine_case());
}
