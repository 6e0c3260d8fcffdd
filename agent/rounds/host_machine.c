/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/host_machine.h"

#include <errno.h>
#include <stddef.h>

#define S(name) (1u << HOST_##name)
#define IDLE (S(WAITING) | S(ASSIGNED) | S(PREPARED) | S(OUT))
#define BUSY (S(STARTING) | S(RUNNING) | S(STOPPING))
#define THERE (IDLE | BUSY | S(MISSING) | S(LEAVING) | S(CLOSING))

typedef bool (*host_guard)(bool leaving);

/* It has said LEAVE. */
static bool wants_to_leave(bool leaving)
{
	return leaving;
}

/* The first row whose states, event and guard match decides. */
static const struct host_row {
	unsigned states; /* bits of the states it applies to */
	enum host_event event;
	host_guard guard;
	enum host_state next;
	enum host_action action;
} host_rows[] = {
#define ROW(s, ev, g, n, a)                                                       \
	{                                                                         \
		.states = s, .event = HOST_EV_##ev, .guard = g, .next = HOST_##n, \
		.action = HOST_DO_##a                                             \
	}
	ROW(S(WAITING), ASSIGN, NULL, ASSIGNED, ASSIGN),
	ROW(S(ASSIGNED), PREPARED, NULL, PREPARED, NOTHING),
	ROW(S(ASSIGNED), UNABLE, NULL, OUT, LEAVE_OUT),
	ROW(S(ASSIGNED), LATE, NULL, OUT, LEAVE_OUT),
	ROW(S(ASSIGNED) | S(PREPARED) | S(OUT), RECALL, NULL, WAITING, NOTHING),
	ROW(S(OUT), PREPARED, NULL, WAITING, NOTHING), /* late, but able */

	ROW(S(PREPARED), START, NULL, STARTING, START),
	ROW(S(STARTING), STARTED, NULL, RUNNING, NOTHING),
	ROW(S(STARTING) | S(RUNNING), STOP, NULL, STOPPING, STOP),
	ROW(S(STOPPING), STOPPED, wants_to_leave, LEAVING, NOTHING),
	ROW(S(STOPPING), STOPPED, NULL, WAITING, NOTHING),

	ROW(IDLE, LEAVE, NULL, LEAVING, NOTHING),
	ROW(S(STARTING) | S(RUNNING), LEAVE, NULL, STOPPING, STOP),
	ROW(S(STOPPING), LEAVE, NULL, STOPPING, NOTHING),

	ROW(IDLE, END, NULL, CLOSING, END),

	ROW(THERE, BYE, NULL, GONE, DROP),
	ROW(THERE, LOST, NULL, GONE, DROP),
	ROW(THERE, REPLACED, NULL, GONE, DROP),
#undef ROW
};

/* Pairs that happen and change nothing. */
static const struct {
	unsigned states;
	enum host_event event;
} host_ignored[] = {
	/* Answers to ranks that were recalled meanwhile, or crossed the verdict. */
	{ S(WAITING) | S(CLOSING), HOST_EV_PREPARED },
	{ S(WAITING) | S(CLOSING) | S(OUT), HOST_EV_UNABLE },
	{ S(STOPPING), HOST_EV_STARTED }, /* it crossed STOP */
	{ S(LEAVING) | S(CLOSING), HOST_EV_LEAVE },
	{ S(MISSING) | S(LEAVING), HOST_EV_END },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

int host_change(enum host_state state, enum host_event event, bool leaving, struct host_change *ret)
{
	unsigned bit = 1u << state;

	for (size_t i = 0; i < COUNT(host_rows); i++) {
		const struct host_row *row = &host_rows[i];

		if (!(row->states & bit) || row->event != event ||
			(row->guard && !row->guard(leaving)))
			continue;
		*ret = (struct host_change){ .next = row->next, .action = row->action };
		return 0;
	}
	for (size_t i = 0; i < COUNT(host_ignored); i++)
		if ((host_ignored[i].states & bit) && host_ignored[i].event == event)
			return 1;
	return -EINVAL;
}

const char *host_state_name(enum host_state s)
{
	static const char *const names[] = {
#define X(name, text) [HOST_##name] = text,
		HOST_STATES(X)
#undef X
	};
	return names[s];
}

const char *host_event_name(enum host_event e)
{
	static const char *const names[] = {
#define X(name, text) [HOST_EV_##name] = text,
		HOST_EVENTS(X)
#undef X
	};
	return names[e];
}
