/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/stop_machine.h"

#include <errno.h>
#include <stddef.h>

/* doc/state-machines.md shows guards by their names, which so have no prefix. */
typedef bool (*stop_guard)(const struct stop_machine *m, const struct stop_input *in);

/* No time is left for the stop signal. */
static bool overdue(const struct stop_machine *m, const struct stop_input *in)
{
	return m->deadline_ms <= in->now_ms;
}

static bool without_grace(const struct stop_machine *m, const struct stop_input *in)
{
	return in->main_only || overdue(m, in);
}

static bool dead(const struct stop_machine *m, const struct stop_input *in)
{
	return !in->alive;
}

static bool dead_without_grace(const struct stop_machine *m, const struct stop_input *in)
{
	return dead(m, in) && without_grace(m, in);
}

static bool dump_first(const struct stop_machine *m, const struct stop_input *in)
{
	return in->dump;
}

/* The first row whose state, event and guard match decides. */
static const struct stop_row {
	enum stop_state state;
	enum stop_event event;
	stop_guard guard;
	enum stop_state next;
	unsigned actions;
} stop_rows[] = {
#define ROW(s, ev, g, n, a)                                                             \
	{                                                                               \
		.state = STOP_##s, .event = STOP_EV_##ev, .guard = g, .next = STOP_##n, \
		.actions = a                                                            \
	}
	ROW(IDLE, END, dead_without_grace, SWEEPING, STOP_DO_SWEEP),
	ROW(IDLE, END, dead, CLEANING, STOP_DO_CLEAN),
	ROW(IDLE, END, dump_first, DUMPING, STOP_DO_DUMP),
	ROW(IDLE, END, overdue, KILLING, STOP_DO_SEND | STOP_DO_KILL),
	ROW(IDLE, END, NULL, STOPPING, STOP_DO_SEND),

	ROW(DUMPING, END, NULL, DUMPING, 0),
	ROW(DUMPING, LIMIT, NULL, DUMPING, 0),
	ROW(DUMPING, KILL, NULL, KILLING, STOP_DO_KILL),
	ROW(DUMPING, ENDED, without_grace, SWEEPING, STOP_DO_SWEEP),
	ROW(DUMPING, ENDED, NULL, CLEANING, STOP_DO_CLEAN),
	ROW(DUMPING, DUE, overdue, KILLING, STOP_DO_SEND | STOP_DO_KILL),
	ROW(DUMPING, DUE, NULL, STOPPING, STOP_DO_SEND),
	ROW(DUMPING, LEAVE, NULL, IDLE, 0),

	ROW(STOPPING, END, NULL, STOPPING, 0),
	ROW(STOPPING, LIMIT, NULL, STOPPING, 0),
	ROW(STOPPING, KILL, NULL, KILLING, STOP_DO_KILL),
	ROW(STOPPING, ENDED, without_grace, SWEEPING, STOP_DO_SWEEP),
	ROW(STOPPING, ENDED, NULL, CLEANING, STOP_DO_CLEAN),
	ROW(STOPPING, DUE, NULL, KILLING, STOP_DO_KILL),
	ROW(STOPPING, LEAVE, NULL, IDLE, 0),

	ROW(KILLING, KILL, NULL, KILLING, STOP_DO_KILL_MORE),
	ROW(KILLING, ENDED, NULL, SWEEPING, STOP_DO_SWEEP),
	ROW(KILLING, DUE, NULL, IDLE, STOP_DO_GIVE_UP),
	ROW(KILLING, LEAVE, NULL, IDLE, 0),

	ROW(CLEANING, END, NULL, CLEANING, 0),
	ROW(CLEANING, LIMIT, NULL, CLEANING, 0),
	ROW(CLEANING, KILL, NULL, SWEEPING, STOP_DO_SWEEP),
	ROW(CLEANING, ENDED, NULL, CLEANING, STOP_DO_CHECK),
	ROW(CLEANING, DUE, NULL, SWEEPING, STOP_DO_SWEEP),
	ROW(CLEANING, GONE, NULL, IDLE, STOP_DO_FINISH),
	ROW(CLEANING, LEAVE, NULL, IDLE, 0),

	ROW(SWEEPING, KILL, NULL, SWEEPING, STOP_DO_SWEEP),
	ROW(SWEEPING, ENDED, NULL, SWEEPING, STOP_DO_SWEEP), /* and what was forked meanwhile */
	ROW(SWEEPING, DUE, NULL, IDLE, STOP_DO_ABANDON),
	ROW(SWEEPING, GONE, NULL, IDLE, STOP_DO_FINISH),
	ROW(SWEEPING, LEAVE, NULL, IDLE, 0),
#undef ROW
};

/* Pairs that happen and change nothing. */
static const struct {
	enum stop_state state;
	enum stop_event event;
} stop_ignored[] = {
	{ STOP_IDLE, STOP_EV_LIMIT },
	{ STOP_IDLE, STOP_EV_KILL },
	{ STOP_IDLE, STOP_EV_ENDED },
	{ STOP_IDLE, STOP_EV_LEAVE },
	/* After SIGKILL a stop can be neither faster nor slower. */
	{ STOP_KILLING, STOP_EV_END },
	{ STOP_KILLING, STOP_EV_LIMIT },
	{ STOP_SWEEPING, STOP_EV_END },
	{ STOP_SWEEPING, STOP_EV_LIMIT },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* How long state s may last, apart from the deadline. Dump signal and stop signal share a short
 * timeout. */
static uint64_t stop_limit(enum stop_state s, const struct stop_input *in)
{
	switch (s) {
	case STOP_DUMPING:
		return in->timeout_ms / 2 < STOP_DUMP_MS ? in->timeout_ms / 2 : STOP_DUMP_MS;
	case STOP_CLEANING:
		return STOP_LEFTOVER_MS;
	case STOP_KILLING:
	case STOP_SWEEPING:
		return STOP_GIVE_UP_MS;
	case STOP_IDLE:
	case STOP_STOPPING:
	case STOP_N_STATES:
		break;
	}
	return UINT64_MAX;
}

static void stop_set_deadline(
	struct stop_machine *m, enum stop_event event, const struct stop_input *in)
{
	uint64_t deadline = in->now_ms + in->timeout_ms;

	if (event == STOP_EV_LIMIT || (event == STOP_EV_END && m->state == STOP_IDLE))
		m->deadline_ms = deadline;
	else if (event == STOP_EV_END && deadline < m->deadline_ms)
		m->deadline_ms = deadline;
}

/* The limit of a state begins when the state is entered, and again at each request for SIGKILL. */
static void stop_enter(struct stop_machine *m, enum stop_state next, enum stop_event event,
	const struct stop_input *in)
{
	uint64_t limit = stop_limit(next, in);
	bool killed = next == STOP_KILLING || next == STOP_SWEEPING;

	if (next != m->state || event == STOP_EV_KILL)
		m->limit_ms = limit == UINT64_MAX ? limit : in->now_ms + limit;
	m->state = next;
	m->due_ms = m->limit_ms;
	if (next != STOP_IDLE && !killed && m->deadline_ms < m->due_ms)
		m->due_ms = m->deadline_ms;
}

static const struct stop_row *stop_find(
	const struct stop_machine *m, enum stop_event event, const struct stop_input *in)
{
	for (size_t i = 0; i < COUNT(stop_rows); i++) {
		const struct stop_row *r = &stop_rows[i];

		if (r->state == m->state && r->event == event && (!r->guard || r->guard(m, in)))
			return r;
	}
	return NULL;
}

int stop_step(struct stop_machine *m, enum stop_event event, const struct stop_input *in,
	unsigned *ret_actions)
{
	struct stop_machine next = *m;
	const struct stop_row *row;

	stop_set_deadline(&next, event, in);
	row = stop_find(&next, event, in);
	if (row) {
		stop_enter(&next, row->next, event, in);
		*m = next;
		*ret_actions = row->actions;
		return 0;
	}
	for (size_t i = 0; i < COUNT(stop_ignored); i++)
		if (stop_ignored[i].state == m->state && stop_ignored[i].event == event)
			return 1;
	return -EINVAL;
}

const char *stop_state_name(enum stop_state s)
{
	static const char *const names[] = {
#define X(name, text) [STOP_##name] = text,
		STOP_STATES(X)
#undef X
	};
	return names[s];
}

const char *stop_event_name(enum stop_event e)
{
	static const char *const names[] = {
#define X(name, text) [STOP_EV_##name] = text,
		STOP_EVENTS(X)
#undef X
	};
	return names[e];
}
