/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/round_machine.h"

#include <errno.h>
#include <stddef.h>

typedef bool (*round_guard)(const struct round_condition *c);

static bool delayed(const struct round_condition *c)
{
	return c->delayed;
}

static bool records(const struct round_condition *c)
{
	return c->records;
}

static bool saves(const struct round_condition *c)
{
	return c->saves;
}

/* The first row whose state, event and guard match decides. */
static const struct round_row {
	enum round_state state;
	enum round_event event;
	round_guard guard;
	enum round_state next;
	enum round_action action;
} round_rows[] = {
#define ROW(s, ev, g, n, a)                                                                \
	{                                                                                  \
		.state = ROUND_##s, .event = ROUND_EV_##ev, .guard = g, .next = ROUND_##n, \
		.action = ROUND_DO_##a                                                     \
	}
	ROW(GATHERING, BEGIN, NULL, PREPARING, ASSIGN),
	ROW(GATHERING, TIMEOUT, NULL, CLOSING, GIVE_UP),
	ROW(GATHERING, RESTART, delayed, BACKOFF, NOTHING),
	ROW(GATHERING, END, NULL, CLOSING, CLOSE),

	/* No worker lives yet: the next round needs no STOP before it. */
	ROW(PREPARING, READY, records, RECORDING, RECORD),
	ROW(PREPARING, READY, NULL, STARTING, START),
	ROW(PREPARING, SHORT, NULL, GATHERING, RECALL),
	ROW(PREPARING, RESTART, delayed, BACKOFF, RECALL),
	ROW(PREPARING, END, NULL, CLOSING, CLOSE),

	ROW(RECORDING, RECORDED, NULL, STARTING, START),
	ROW(RECORDING, SHORT, NULL, GATHERING, RECALL),
	ROW(RECORDING, RESTART, delayed, BACKOFF, RECALL),
	ROW(RECORDING, END, NULL, CLOSING, CLOSE),

	ROW(STARTING, STARTED, NULL, RUNNING, TELL),
	ROW(STARTING, SHORT, NULL, STOPPING, STOP),
	ROW(STARTING, RESTART, NULL, STOPPING, STOP),
	ROW(STARTING, END, NULL, ENDING, STOP),

	ROW(RUNNING, SHORT, NULL, STOPPING, STOP),
	ROW(RUNNING, TIMEOUT, NULL, ENDING, ABANDON), /* seats were vacant */
	ROW(RUNNING, GROW, saves, RUNNING, SAVE),
	ROW(RUNNING, GROW, NULL, STOPPING, STOP),
	ROW(RUNNING, RESTART, NULL, STOPPING, STOP),
	ROW(RUNNING, END, NULL, ENDING, STOP),

	ROW(STOPPING, RESTART, NULL, STOPPING, NOTHING),
	ROW(STOPPING, STOPPED, delayed, BACKOFF, REST),
	ROW(STOPPING, STOPPED, NULL, GATHERING, REST),
	ROW(STOPPING, END, NULL, ENDING, NOTHING),

	ROW(BACKOFF, RESTART, NULL, BACKOFF, NOTHING),
	ROW(BACKOFF, DUE, NULL, GATHERING, NOTHING),
	ROW(BACKOFF, END, NULL, CLOSING, CLOSE),

	ROW(ENDING, STOPPED, NULL, CLOSING, CLOSE),
	ROW(CLOSING, EMPTY, NULL, ENDED, FINISH),
#undef ROW
};

/* Pairs that happen and change nothing. */
static const struct {
	enum round_state state;
	enum round_event event;
} round_ignored[] = {
	{ ROUND_GATHERING, ROUND_EV_RESTART }, /* the next round is about to begin */
	{ ROUND_PREPARING, ROUND_EV_RESTART },
	{ ROUND_RECORDING, ROUND_EV_RESTART },
	{ ROUND_ENDING, ROUND_EV_RESTART }, /* the first verdict holds */
	{ ROUND_ENDING, ROUND_EV_END },
	{ ROUND_CLOSING, ROUND_EV_RESTART },
	{ ROUND_CLOSING, ROUND_EV_END },
	{ ROUND_ENDED, ROUND_EV_RESTART },
	{ ROUND_ENDED, ROUND_EV_END },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

int round_change(enum round_state state, enum round_event event, const struct round_condition *c,
	struct round_change *ret)
{
	for (size_t i = 0; i < COUNT(round_rows); i++) {
		const struct round_row *row = &round_rows[i];

		if (row->state != state || row->event != event || (row->guard && !row->guard(c)))
			continue;
		*ret = (struct round_change){ .next = row->next, .action = row->action };
		return 0;
	}
	for (size_t i = 0; i < COUNT(round_ignored); i++)
		if (round_ignored[i].state == state && round_ignored[i].event == event)
			return 1;
	return -EINVAL;
}

const char *round_state_name(enum round_state s)
{
	static const char *const names[] = {
#define X(name, text) [ROUND_##name] = text,
		ROUND_STATES(X)
#undef X
	};
	return names[s];
}

const char *round_event_name(enum round_event e)
{
	static const char *const names[] = {
#define X(name, text) [ROUND_EV_##name] = text,
		ROUND_EVENTS(X)
#undef X
	};
	return names[e];
}
