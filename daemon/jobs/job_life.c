/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/job_life.h"

#include <errno.h>
#include <stddef.h>

typedef bool (*life_guard)(const struct life_input *in);

static bool not_accepted(const struct life_input *in)
{
	return !in->accepted;
}

static bool guard_gone(const struct life_input *in)
{
	return in->guard_gone;
}

static bool left_clean(const struct life_input *in)
{
	return in->guard_gone && in->left_clean;
}

static bool may_resume(const struct life_input *in)
{
	return in->may_resume;
}

/* The first row whose state, event and guard match decides. */
static const struct life_row {
	enum life state;
	enum life_event event;
	life_guard guard;
	enum life next;
	enum life_action action;
} rows[] = {
#define ROW(s, ev, g, n, a)                                                             \
	{                                                                               \
		.state = LIFE_##s, .event = LIFE_EV_##ev, .guard = g, .next = LIFE_##n, \
		.action = LIFE_DO_##a                                                   \
	}
	ROW(STARTING, ANSWERED, NULL, LINKED, ATTACH),
	ROW(STARTING, VERDICT, left_clean, ENDED, FINISH),
	ROW(STARTING, VERDICT, guard_gone, CLEARING, SETTLE),
	ROW(STARTING, VERDICT, NULL, CLOSING, ANNOUNCE),
	ROW(STARTING, UNLINKED, guard_gone, SWEEPING, SWEEP),
	ROW(STARTING, UNLINKED, NULL, LOST, AWAIT),
	ROW(STARTING, CONDEMNED, guard_gone, SWEEPING, SWEEP),
	ROW(STARTING, CONDEMNED, NULL, LOST, KILL),
	ROW(STARTING, SPAWN_FAILED, not_accepted, ENDED, ABANDON),
	ROW(STARTING, SPAWN_FAILED, NULL, SWEEPING, SWEEP),

	ROW(LINKED, VERDICT, left_clean, ENDED, FINISH),
	ROW(LINKED, VERDICT, guard_gone, CLEARING, SETTLE),
	ROW(LINKED, VERDICT, NULL, CLOSING, ANNOUNCE),
	ROW(LINKED, UNLINKED, guard_gone, SWEEPING, SWEEP),
	ROW(LINKED, UNLINKED, NULL, LOST, AWAIT),
	ROW(LINKED, CONDEMNED, guard_gone, SWEEPING, SWEEP),
	ROW(LINKED, CONDEMNED, NULL, LOST, KILL),

	ROW(LOST, VERDICT, left_clean, ENDED, FINISH),
	ROW(LOST, VERDICT, guard_gone, CLEARING, SETTLE),
	ROW(LOST, VERDICT, NULL, CLOSING, ANNOUNCE),
	ROW(LOST, GUARD_GONE, NULL, SWEEPING, SWEEP),
	ROW(LOST, CONDEMNED, NULL, LOST, KILL),
	ROW(LOST, OVERDUE, NULL, LOST, KILL),
	ROW(LOST, FOUND, NULL, STARTING, RELINK),

	ROW(SWEEPING, VERDICT, NULL, CLEARING, SETTLE),
	ROW(SWEEPING, SWEPT, may_resume, STARTING, RESUME),
	ROW(SWEEPING, SWEPT, NULL, ENDED, GIVE_UP),

	ROW(CLOSING, CONDEMNED, NULL, CLOSING, KILL),
	ROW(CLOSING, OVERDUE, NULL, CLOSING, KILL),
	ROW(CLOSING, GUARD_GONE, left_clean, ENDED, CLEAR),
	ROW(CLOSING, GUARD_GONE, NULL, CLEARING, SEARCH),

	ROW(CLEARING, SWEPT, NULL, ENDED, CLEAR),
#undef ROW
};

/* Pairs that can happen and change nothing. */
static const struct {
	enum life state;
	enum life_event event;
} ignored[] = {
	/* When a guard ends its agent dies too. The connection may still hold the agent's last
	 * messages; its end comes next. */
	{ LIFE_STARTING, LIFE_EV_GUARD_GONE },
	{ LIFE_LINKED, LIFE_EV_GUARD_GONE },
	{ LIFE_LINKED, LIFE_EV_ANSWERED },
	{ LIFE_LOST, LIFE_EV_UNLINKED },
	{ LIFE_SWEEPING, LIFE_EV_UNLINKED },
	{ LIFE_SWEEPING, LIFE_EV_GUARD_GONE },
	{ LIFE_SWEEPING, LIFE_EV_CONDEMNED },
	{ LIFE_CLEARING, LIFE_EV_CONDEMNED },
	/* The processes that elasticd gave up waiting for have died after all. */
	{ LIFE_CLEARING, LIFE_EV_GUARD_GONE },
	{ LIFE_ENDED, LIFE_EV_CONDEMNED },
	{ LIFE_CLOSING, LIFE_EV_UNLINKED },
	{ LIFE_CLOSING, LIFE_EV_VERDICT },
	{ LIFE_ENDED, LIFE_EV_UNLINKED },
	{ LIFE_ENDED, LIFE_EV_GUARD_GONE },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

int life_step(
	enum life state, enum life_event event, const struct life_input *in, struct life_step *ret)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (rows[i].state != state || rows[i].event != event)
			continue;
		if (rows[i].guard && !rows[i].guard(in))
			continue;
		*ret = (struct life_step){ .next = rows[i].next, .action = rows[i].action };
		return 0;
	}
	for (size_t i = 0; i < COUNT(ignored); i++)
		if (ignored[i].state == state && ignored[i].event == event)
			return 1;
	return -EINVAL;
}

const char *life_name(enum life state)
{
#define LIFE_NAME(id, text) [LIFE_##id] = text,
	static const char *const names[] = { LIFE_STATES(LIFE_NAME) };

	return state < LIFE_N ? names[state] : "?";
}

const char *life_event_text(enum life_event event)
{
#define LIFE_EVENT_TEXT(id, text) [LIFE_EV_##id] = text,
	static const char *const texts[] = { LIFE_EVENTS(LIFE_EVENT_TEXT) };

	return event < LIFE_EV_N ? texts[event] : "?";
}
