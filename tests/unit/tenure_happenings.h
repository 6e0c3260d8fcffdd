/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Events that may happen to the hosts of tests/unit/tenure_world.h, to the ways between them, and
 * to the store. */

#include "tests/unit/tenure_hosts.h"

enum what_happens {
	NOTHING,
	START_AGENT,
	CRASH_AGENT,
	STOP_AGENT,
	CONTINUE_AGENT,
	CUT_HOST,   /* from all others, both ways */
	CUT_UP,	    /* nothing from it reaches the others */
	CUT_DOWN,   /* nothing reaches it */
	CUT_NEXT,   /* it and the next one, both ways */
	CUT_HALVES, /* it and the next one from the two others */
	HEAL_HOST,
	CUT_ASK, /* its requests to the store */
	CUT_ANSWER,
	HEAL_STORE,
	COMES_LATE,    /* a request that was given up */
	STORE_GOES,    /* i: nothing else, CUT_HALVES with it */
	STORE_RETURNS, /* i: leases go on, or count from their start */
	FAILURE,       /* of a worker: the head begins another round */
	LEAD_REMOVED, /* by a person, and its head hears so; i: the state, too. Then its head is the
			 first to write: who begins without a state waits for nobody */
	N_HAPPENINGS
};

static void agent_starts(struct whost *a)
{
	a->life = AGENT_UP;
	a->agent++;
	a->state = MEMBER_AWAY;
	a->head = -1;
	a->linked = false;
	a->round = a->known_round = a->last_round = a->answer_ms = 0;
	a->rank = a->last_rank = -1;
	a->ready_ms = a->dead_ms = 0;
	a->lease = (struct lease_member){ .deadline_ms = UINT64_MAX };
	a->lead = LEAD_LOOKING;
	a->look_ms = w.now;
	a->due_ms = 0;
	memset(a->dead, 0, sizeof(a->dead));
	for (int j = 0; j < HOSTS; j++)
		w.link[host_index(a)][j].down.n = 0;
}

/* The host that is to lead next. */
static int deputy_of(const struct state_key *s)
{
	for (int i = 0; i < HOSTS; i++)
		if (s->hosts >> i & 1 && !host_turn_ms(i, s))
			return i;
	return -1;
}

/* Its guard kills what is left, and says so. Messages that it had sent may arrive yet. */
static void agent_crashes(struct whost *a)
{
	int i = host_index(a);

	worker_dies(a);
	a->life = AGENT_DEAD;
	if (a->h.round) {
		a->word_to = deputy_of(&a->h.state);
		a->word_agent = a->agent;
		head_ends(a);
	} else if (a->head >= 0 && a->head != i) {
		send(&w.link[i][a->head].up,
			(struct message){ .kind = SAYS_GUARD, .session = a->session });
	}
	request_ends(a, &a->keep);
	request_ends(a, &a->ask);
}

static unsigned others_of(int i)
{
	return ((1u << HOSTS) - 1) & ~(1u << i);
}

static unsigned halves(int i)
{
	unsigned half = 1u << i | 1u << (i + 1) % HOSTS;

	return i < 2 ? half : ~half;
}

static bool is_whole(void)
{
	for (int i = 0; i < HOSTS; i++)
		if (w.cut[i])
			return false;
	return true;
}

static void cut_halves(unsigned half)
{
	for (int i = 0; i < HOSTS; i++)
		w.cut[i] |= (half >> i & 1 ? ~half : half) & ((1u << HOSTS) - 1);
}

static void heal_host(int i)
{
	w.cut[i] = 0;
	for (int j = 0; j < HOSTS; j++)
		w.cut[j] &= ~(1u << i);
}

static bool host_is_cut(int i)
{
	bool cut = w.cut[i];

	for (int j = 0; j < HOSTS; j++)
		cut |= is_cut(j, i);
	return cut;
}

/* The one of those who lead, or think so. */
static struct whost *leader(int n)
{
	for (int i = 0; i < HOSTS; i++)
		if (w.h[i].life == AGENT_UP && w.h[i].h.round && !n--)
			return &w.h[i];
	return NULL;
}

static void deliver_at_once(const struct whost *a)
{
	int i = host_index(a);

	w.held_ask &= ~(1u << i);
	w.held_answer &= ~(1u << i);
	while (w.h[i].h.regains && deliver_store(i))
		continue;
}

/* The head that the store has, where it hears of each change there. */
static struct whost *store_hears(void)
{
	struct whost *a = store.lead.rev ? &w.h[store.lead.host] : NULL;
	bool cut = a && (a->cut_ask || a->cut_answer);

	return a && !cut && a->agent == store.lead.agent && head_works(a) ? a : NULL;
}

static bool can_happen(enum what_happens what, int i)
{
	const struct whost *a = &w.h[i];

	switch (what) {
	case START_AGENT:
		return a->life == AGENT_DEAD;
	case CRASH_AGENT:
		return a->life != AGENT_DEAD;
	case STOP_AGENT:
		return a->life == AGENT_UP;
	case CONTINUE_AGENT:
		return a->life == AGENT_STOPPED;
	case CUT_HOST:
	case CUT_UP:
	case CUT_DOWN:
		return !host_is_cut(i);
	case CUT_NEXT:
		return !is_cut(i, (i + 1) % HOSTS) || !is_cut((i + 1) % HOSTS, i);
	case CUT_HALVES:
		return i != 2 && is_whole();
	case HEAL_HOST:
		return host_is_cut(i);
	case CUT_ASK:
		return !a->cut_ask;
	case CUT_ANSWER:
		return !a->cut_answer;
	case HEAL_STORE:
		return a->cut_ask || a->cut_answer;
	case COMES_LATE:
		return a->late.kind && !store.gone;
	case STORE_GOES:
		return !store.gone && i < 1;
	case STORE_RETURNS:
		return store.gone && i < 2;
	case FAILURE:
		return leader(i);
	case LEAD_REMOVED:
		return i < 2 && !store.gone && store_hears();
	case NOTHING:
		return !i;
	case N_HAPPENINGS:
		break;
	}
	return false;
}

static void happen(enum what_happens what, int i)
{
	struct whost *a = &w.h[i];

	switch (what) {
	case START_AGENT:
		agent_starts(a);
		break;
	case CRASH_AGENT:
		agent_crashes(a);
		break;
	case STOP_AGENT:
		a->life = AGENT_STOPPED;
		break;
	case CONTINUE_AGENT:
		a->life = AGENT_UP;
		break;
	case CUT_HOST:
	case CUT_UP:
	case CUT_DOWN:
		if (what != CUT_DOWN)
			w.cut[i] = others_of(i);
		for (int j = 0; j < HOSTS; j++)
			if (what != CUT_UP && j != i)
				w.cut[j] |= 1u << i;
		break;
	case CUT_NEXT:
		w.cut[i] |= 1u << (i + 1) % HOSTS;
		w.cut[(i + 1) % HOSTS] |= 1u << i;
		break;
	case CUT_HALVES:
		cut_halves(halves(i));
		break;
	case HEAL_HOST:
		heal_host(i);
		break;
	case CUT_ASK:
		a->cut_ask = true;
		break;
	case CUT_ANSWER:
		a->cut_answer = true;
		break;
	case HEAL_STORE:
		a->cut_ask = a->cut_answer = false;
		break;
	case COMES_LATE:
		store_does(&a->late, i, w.now, w.ttl_ms);
		a->late.kind = REQUEST_NONE;
		break;
	case STORE_GOES:
		store.gone = true;
		break;
	case STORE_RETURNS:
		store_returns(i, w.now, w.ttl_ms);
		break;
	case FAILURE:
		a = leader(i);
		if (head_works(a)) {
			round_restart(a->h.round, 0, w.now);
			head_orders(a, NULL);
		}
		break;
	case LEAD_REMOVED:
		a = store_hears();
		store_loses_lead(i);
		head_hears_of_removal(a);
		if (i)
			deliver_at_once(a);
		break;
	case NOTHING:
	case N_HAPPENINGS:
		break;
	}
}

/* How many hosts run their workers, all in one round, whose head leads. */
static int hosts_run(void)
{
	int n = 0;

	for (int i = 0; i < HOSTS; i++) {
		const struct whost *a = &w.h[i];
		const struct head *h = a->head < 0 ? NULL : &w.h[a->head].h;

		n += a->worker && a->state == MEMBER_RUNNING && !a->started_ms && h && h->round &&
		     round_state(h->round) == ROUND_RUNNING &&
		     a->worker == round_key(h->key, round_number(h->round));
	}
	return n;
}

static void world_new(void)
{
	memset(&w, 0, sizeof(w));
	memset(&store, 0, sizeof(store));
	w.now = 1000000;
	w.prepare_ms = w.stop_ms = STEP;
	w.loss_ms = 3 * LEASE;
	w.ttl_ms = LEASE;
	for (int i = 0; i < HOSTS; i++) {
		w.h[i].head = w.h[i].word_to = -1;
		for (int j = 0; j < HOSTS; j++)
			w.h[i].h.of[j].number = -1;
	}
	trail[0] = '\0';
}

static void world_end(void)
{
	for (int i = 0; i < HOSTS; i++)
		w.h[i].h.round = round_free(w.h[i].h.round);
}
