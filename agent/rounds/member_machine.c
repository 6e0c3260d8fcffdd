/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/member_machine.h"

#include <errno.h>
#include <stddef.h>

#define S(name) (1u << MEMBER_##name)
#define IDLE (S(WAITING) | S(PREPARING) | S(PREPARED))

typedef bool (*member_guard)(bool leaving);

/* LEAVE has come before. */
static bool wants_to_leave(bool leaving)
{
	return leaving;
}

/* The first row whose states, event and guard match decides. */
static const struct member_row {
	unsigned states; /* bits of the states it applies to */
	enum member_event event;
	member_guard guard;
	enum member_state next;
	enum member_action action;
} member_rows[] = {
#define ROW(s, ev, g, n, a)                                                           \
	{                                                                             \
		.states = s, .event = MEMBER_EV_##ev, .guard = g, .next = MEMBER_##n, \
		.action = MEMBER_DO_##a                                               \
	}
	ROW(S(AWAY), LINKED, NULL, JOINING, JOIN),
	ROW(S(JOINING), JOINED, NULL, WAITING, NOTHING),
	ROW(S(JOINING), REFUSED, NULL, OVER, NOTHING),

	ROW(IDLE, ASSIGN, NULL, PREPARING, PREPARE), /* the latest ranks hold */
	ROW(S(PREPARING), READY, NULL, PREPARED, SAY_PREPARED),
	ROW(S(PREPARING), FAILED, NULL, WAITING, SAY_UNABLE),
	ROW(S(PREPARED), START, NULL, RUNNING, SPAWN),
	ROW(S(RUNNING), STARTED, NULL, RUNNING, SAY_STARTED),
	ROW(S(RUNNING), STOP, NULL, STOPPING, STOP),
	ROW(S(STOPPING), DEAD, wants_to_leave, OVER, SAY_BYE),
	ROW(S(STOPPING), DEAD, NULL, WAITING, SAY_STOPPED),
	ROW(IDLE, END, NULL, OVER, SAY_BYE),

	ROW(S(JOINING) | IDLE, LOST, NULL, AWAY, REJOIN),
	ROW(S(RUNNING) | S(STOPPING), LOST, NULL, FENCED, KILL),
	ROW(S(FENCED), DEAD, wants_to_leave, OVER, SAY_BYE),
	ROW(S(FENCED), DEAD, NULL, AWAY, REJOIN),

	ROW(S(AWAY) | S(JOINING) | IDLE, LEAVE, NULL, OVER, SAY_BYE),
	ROW(S(RUNNING), LEAVE, NULL, RUNNING, SAY_LEAVE),
	ROW(S(STOPPING), LEAVE, NULL, STOPPING, NOTHING),
	ROW(S(FENCED), LEAVE, NULL, FENCED, NOTHING),
#undef ROW
};

/* Pairs that happen and change nothing. */
static const struct {
	unsigned states;
	enum member_event event;
} member_ignored[] = {
	/* The head sent them before it knew of the JOIN, or that this host has left. */
	{ S(AWAY) | S(JOINING) | S(FENCED) | S(OVER), MEMBER_EV_ASSIGN },
	{ S(AWAY) | S(JOINING) | S(FENCED) | S(OVER), MEMBER_EV_START },
	{ S(AWAY) | S(JOINING) | S(FENCED) | S(OVER), MEMBER_EV_STOP },
	{ S(AWAY) | S(JOINING) | S(FENCED) | S(OVER), MEMBER_EV_END },
	{ S(AWAY) | S(OVER), MEMBER_EV_JOINED },
	{ S(AWAY) | S(OVER), MEMBER_EV_REFUSED },
	/* There is no lease any more. */
	{ S(AWAY) | S(FENCED) | S(OVER), MEMBER_EV_LOST },
	/* The agent was still preparing for ranks that it no longer holds. */
	{ S(AWAY) | S(JOINING) | S(WAITING) | S(OVER), MEMBER_EV_READY },
	{ S(AWAY) | S(JOINING) | S(WAITING) | S(OVER), MEMBER_EV_FAILED },
	{ S(STOPPING) | S(FENCED), MEMBER_EV_STARTED },
	{ S(FENCED) | S(OVER), MEMBER_EV_LINKED },
	{ S(OVER), MEMBER_EV_LEAVE },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

int member_change(
	enum member_state state, enum member_event event, bool leaving, struct member_change *ret)
{
	unsigned bit = 1u << state;

	for (size_t i = 0; i < COUNT(member_rows); i++) {
		const struct member_row *row = &member_rows[i];

		if (!(row->states & bit) || row->event != event ||
			(row->guard && !row->guard(leaving)))
			continue;
		*ret = (struct member_change){ .next = row->next, .action = row->action };
		return 0;
	}
	for (size_t i = 0; i < COUNT(member_ignored); i++)
		if ((member_ignored[i].states & bit) && member_ignored[i].event == event)
			return 1;
	return -EINVAL;
}

bool member_has_workers(enum member_state state)
{
	return (S(RUNNING) | S(STOPPING) | S(FENCED)) >> state & 1;
}

const char *member_state_name(enum member_state s)
{
	static const char *const names[] = {
#define X(name, text) [MEMBER_##name] = text,
		MEMBER_STATES(X)
#undef X
	};
	return names[s];
}

const char *member_event_name(enum member_event e)
{
	static const char *const names[] = {
#define X(name, text) [MEMBER_EV_##name] = text,
		MEMBER_EVENTS(X)
#undef X
	};
	return names[e];
}
