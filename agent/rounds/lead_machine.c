/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/lead_machine.h"

#include <errno.h>
#include <stddef.h>

#define S(name) (1u << LEAD_##name)
#define SEEKING (S(LOOKING) | S(FOLLOWING) | S(VACANT))

/* The first row whose states and event match decides. */
static const struct lead_row {
	unsigned states; /* bits of the states it applies to */
	enum lead_event event;
	enum lead_state next;
	enum lead_action action;
} lead_rows[] = {
#define ROW(s, ev, n, a)                                                                    \
	{                                                                                   \
		.states = s, .event = LEAD_EV_##ev, .next = LEAD_##n, .action = LEAD_DO_##a \
	}
	ROW(SEEKING, OTHER, FOLLOWING, FOLLOW),
	ROW(SEEKING, OWN, LEADING, LEAD),
	ROW(SEEKING, DEAD, CLAIMING, CLAIM), /* its lead is still in the store */
	ROW(S(LOOKING) | S(FOLLOWING), NOBODY, VACANT, WAIT),
	ROW(S(FOLLOWING), LOST, LOOKING, LOOK),
	ROW(S(VACANT), DUE, CLAIMING, CLAIM),
	ROW(S(CLAIMING), WON, LEADING, LEAD),
	ROW(S(CLAIMING), BEATEN, LOOKING, LOOK),
	ROW(S(CLAIMING), UNSURE, LOOKING, LOOK),
	ROW(S(LEADING), LOST, LOOKING, STEP_DOWN),
#undef ROW
};

/* Pairs that happen and change nothing. */
static const struct {
	unsigned states;
	enum lead_event event;
} lead_ignored[] = {
	/* While claiming the answer to the claim decides, while leading this host knows. */
	{ S(CLAIMING) | S(LEADING), LEAD_EV_OTHER },
	{ S(CLAIMING) | S(LEADING), LEAD_EV_OWN },
	{ S(VACANT) | S(CLAIMING) | S(LEADING), LEAD_EV_NOBODY },
	{ S(CLAIMING) | S(LEADING), LEAD_EV_DEAD },
	{ S(LOOKING) | S(VACANT) | S(CLAIMING), LEAD_EV_LOST },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

int lead_change(enum lead_state state, enum lead_event event, struct lead_change *ret)
{
	unsigned bit = 1u << state;

	for (size_t i = 0; i < COUNT(lead_rows); i++) {
		const struct lead_row *row = &lead_rows[i];

		if (!(row->states & bit) || row->event != event)
			continue;
		*ret = (struct lead_change){ .next = row->next, .action = row->action };
		return 0;
	}
	for (size_t i = 0; i < COUNT(lead_ignored); i++)
		if ((lead_ignored[i].states & bit) && lead_ignored[i].event == event)
			return 1;
	return -EINVAL;
}

const char *lead_state_name(enum lead_state s)
{
	static const char *const names[] = {
#define X(name, text) [LEAD_##name] = text,
		LEAD_STATES(X)
#undef X
	};
	return names[s];
}

const char *lead_event_name(enum lead_event e)
{
	static const char *const names[] = {
#define X(name, text) [LEAD_EV_##name] = text,
		LEAD_EVENTS(X)
#undef X
	};
	return names[e];
}
