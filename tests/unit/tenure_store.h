/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The store of tests/unit/tenure_world.h: who leads, on a lease, and the last round. Each request
 * is one step of it, which may happen although no answer comes, or long after it was given up.
 */

#include <stdbool.h>
#include <stdint.h>

enum { HOSTS = 4 };

struct lead_key {
	uint64_t rev; /* 0: no host leads */
	int host, agent;
	uint64_t until_ms;
};

struct state_key {
	uint64_t rev; /* 0: there was no round yet */
	uint64_t round;
	unsigned hosts; /* bits of those that may have workers */
	int rank[HOSTS], agent[HOSTS];
	int head;
};

static struct store {
	bool gone;
	uint64_t rev;
	struct lead_key lead;
	struct lead_key removed; /* a lead that is gone, although its lease lives */
	struct state_key state;
} store;

enum request_kind {
	REQUEST_NONE,
	REQUEST_READ,
	REQUEST_CLAIM, /* the lead, where its revision and that of the state are these; also a state
			  that is gone */
	REQUEST_KEEP,  /* its lease */
	REQUEST_RECORD, /* a round, where the revisions are these */
};

struct request {
	enum request_kind kind;
	int agent;
	uint64_t sent_ms;
	uint64_t lead_rev, state_rev;
	struct state_key state;
	/* The answer. */
	bool happened, done;
	struct lead_key lead; /* as they are after it */
	struct state_key found;
};

static struct lead_key *store_lease(int host, int agent)
{
	struct lead_key *all[] = { &store.lead, &store.removed };

	for (int i = 0; i < 2; i++)
		if (all[i]->rev && all[i]->host == host && all[i]->agent == agent)
			return all[i];
	return NULL;
}

static bool store_lets(const struct request *q, int host)
{
	switch (q->kind) {
	case REQUEST_CLAIM:
	case REQUEST_RECORD:
		return store.lead.rev == q->lead_rev && store.state.rev == q->state_rev;
	case REQUEST_KEEP:
		return store_lease(host, q->agent);
	case REQUEST_READ:
	case REQUEST_NONE:
		break;
	}
	return true;
}

static void store_does(struct request *q, int host, uint64_t now_ms, uint64_t ttl_ms)
{
	q->happened = true;
	q->done = store_lets(q, host);
	if (q->done && q->kind == REQUEST_CLAIM)
		store.lead = (struct lead_key){ ++store.rev, host, q->agent, 0 };
	if (q->done && (q->kind == REQUEST_CLAIM || q->kind == REQUEST_KEEP))
		store_lease(host, q->agent)->until_ms = now_ms + ttl_ms;
	if (q->done && q->kind == REQUEST_RECORD)
		store.rev++;
	if (q->done && q->state.round) {
		store.state = q->state;
		store.state.rev = store.rev;
	}
	/* A lease that lives says nothing of its key. */
	q->lead = q->done && q->kind == REQUEST_KEEP ? *store_lease(host, q->agent) : store.lead;
	q->found = store.state;
}

static void store_time(uint64_t now_ms)
{
	if (!store.gone && store.lead.until_ms <= now_ms)
		store.lead = (struct lead_key){ 0 };
	if (!store.gone && store.removed.until_ms <= now_ms)
		store.removed = (struct lead_key){ 0 };
}

static void store_loses_lead(bool all)
{
	store.rev++;
	store.removed = store.lead;
	store.lead = (struct lead_key){ 0 };
	if (all)
		store.state = (struct state_key){ 0 };
}

/* The store is there again; leases go on, or count from their start. */
static void store_returns(bool renewed, uint64_t now_ms, uint64_t ttl_ms)
{
	store.gone = false;
	if (renewed && store.lead.rev)
		store.lead.until_ms = now_ms + ttl_ms;
	if (renewed && store.removed.rev)
		store.removed.until_ms = now_ms + ttl_ms;
	store_time(now_ms);
}
