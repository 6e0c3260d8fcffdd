/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Events that may happen to the hosts of tests/unit/rounds_world.h and to their links. */

#include "tests/unit/rounds_world.h"

enum what_happens {
	NOTHING,
	START_AGENT,
	CRASH_AGENT,
	STOP_AGENT,
	CONTINUE_AGENT,
	CUT_BOTH,
	CUT_UP,
	CUT_DOWN,
	HEAL,
	HEAL_UP,
	HEAL_DOWN,
	LEAVE_GROUP,
	FAILURE, /* of a worker: the head begins another round */
	N_HAPPENINGS
};

static void agent_starts(struct whost *h)
{
	h->life = AGENT_UP;
	h->agent++;
	h->state = MEMBER_AWAY;
	h->leaving = false;
	h->round = h->known_round = h->last_round = 0;
	h->rank = h->last_rank = -1;
	h->ready_ms = h->dead_ms = 0;
	h->down.n = 0;
	h->lease = (struct lease_member){ .deadline_ms = UINT64_MAX };
	if (h == &w.h[0])
		head_begin(w.record);
}

/* Its guard kills what is left, and says so. Messages that it had sent may arrive yet. */
static void agent_crashes(struct whost *h)
{
	worker_dies(h);
	h->life = AGENT_DEAD;
	h->down.n = 0;
	if (h == &w.h[0])
		head_end();
	else
		send(&h->up, (struct message){ .kind = SAYS_GUARD, .session = h->session });
}

static bool can_happen(enum what_happens what, int i)
{
	const struct whost *h = &w.h[i];

	if (w.others_stay && i && (what == CRASH_AGENT || what == LEAVE_GROUP))
		return false;
	switch (what) {
	case START_AGENT:
		return h->life == AGENT_DEAD;
	case CRASH_AGENT:
		return h->life != AGENT_DEAD;
	case STOP_AGENT:
		return h->life == AGENT_UP;
	case CONTINUE_AGENT:
		return h->life == AGENT_STOPPED;
	case CUT_BOTH:
		return i && (!h->up.cut || !h->down.cut);
	case CUT_UP:
		return i && !h->up.cut && !h->down.cut;
	case CUT_DOWN:
		return i && !h->up.cut && !h->down.cut;
	case HEAL:
		return h->up.cut || h->down.cut;
	case HEAL_UP:
	case HEAL_DOWN:
		return h->up.cut && h->down.cut;
	case LEAVE_GROUP:
		return i && h->life == AGENT_UP && !h->leaving;
	case FAILURE:
		return i < 2 && head_works(); /* at once, or after a backoff */
	case NOTHING:
		return !i;
	case N_HAPPENINGS:
		break;
	}
	return false;
}

static void happen(enum what_happens what, int i)
{
	struct whost *h = &w.h[i];

	switch (what) {
	case START_AGENT:
		agent_starts(h);
		break;
	case CRASH_AGENT:
		agent_crashes(h);
		break;
	case STOP_AGENT:
		h->life = AGENT_STOPPED;
		break;
	case CONTINUE_AGENT:
		h->life = AGENT_UP;
		break;
	case CUT_BOTH:
		h->up.cut = h->down.cut = true;
		break;
	case CUT_UP:
		h->up.cut = true;
		break;
	case CUT_DOWN:
		h->down.cut = true;
		break;
	case HEAL:
		h->up.cut = h->down.cut = false;
		break;
	case HEAL_UP:
		h->up.cut = false;
		break;
	case HEAL_DOWN:
		h->down.cut = false;
		break;
	case LEAVE_GROUP:
		member_posts(h, MEMBER_EV_LEAVE);
		break;
	case FAILURE:
		round_restart(w.head, (uint64_t)i * STEP, w.now);
		head_orders(0);
		break;
	case NOTHING:
	case N_HAPPENINGS:
		break;
	}
}

/* How many hosts run their workers, all in one round. */
static int hosts_run(void)
{
	int n = 0;

	for (int i = 0; i < HOSTS; i++)
		n += w.h[i].worker && w.h[i].state == MEMBER_RUNNING && !w.h[i].started_ms;
	return w.head && round_state(w.head) == ROUND_RUNNING ? n : 0;
}

static void world_new(bool record, enum round_on_join on_join)
{
	memset(&w, 0, sizeof(w));
	w.now = 1000;
	w.record = record;
	w.on_join = on_join;
	for (int i = 0; i < HOSTS; i++)
		w.h[i].number = -1;
	trail[0] = '\0';
}

static void world_end(void)
{
	w.head = round_free(w.head);
}
