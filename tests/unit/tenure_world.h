/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Four hosts, a store, and the ways between them, for a model of agent/rounds/tenure.h: each host
 * has an agent with the machines of a member and of who leads, a guard, and one worker, and is the
 * head when the store lets it. Ways lose nothing, but each direction can be cut, and then holds
 * what is sent until it is healed or given up. Beats are a fifth of the lease apart. The
 * invariants are checked whenever all has come to rest.
 *
 * This file: the hosts and the messages between them; tenure_head.h: a head; tenure_hosts.h:
 * members and hosts that look for a head, and time.
 */

#include "agent/rounds/lead_machine.h"
#include "agent/rounds/lease.h"
#include "agent/rounds/member_machine.h"
#include "agent/rounds/round_private.h"
#include "agent/rounds/tenure.h"
#include "tests/unit/tenure_store.h"
#include "tests/unit/trail.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The turns of agent/rounds/tenure.h are 200 ms and a rank. */
enum { MIN = 2, MAX = 3, LEASE = 1000, TENTH = LEASE / 10, STEP = LEASE / 5 };
enum { QUEUE = 10, STARTS = 8, BEATS = 8 };

enum agent_life { AGENT_DEAD, AGENT_UP, AGENT_STOPPED };

enum message_kind {
	SAYS_NOTHING,
	SAYS_JOIN,
	SAYS_BEAT,
	SAYS_HOST, /* a host_event */
	SAYS_GUARD,
	SAYS_JOINED,
	SAYS_ANSWER,
	SAYS_UNKNOWN,
	SAYS_ORDER, /* a member_event */
};

struct message {
	enum message_kind kind;
	int what;
	uint32_t session;  /* which JOIN of the host it belongs to */
	uint32_t number;   /* of the round; of a beat: its own */
	uint32_t answered; /* the last beat that was answered */
	uint32_t known_round, last_round, age_ms;
	int rank, agent;
	uint64_t key; /* of an order: which head sent it */
};

struct queue {
	struct message m[QUEUE];
	int n;
};

/* From a member to a head, and back. */
struct link {
	struct queue up, down;
};

/* A host, as a head knows it. */
struct known {
	int number;	  /* -1: nothing */
	uint32_t session; /* that is a member; 0: one before this head */
	struct lease_held held;
	uint64_t answer_ms[BEATS]; /* when its beats were answered */
	uint64_t admitted_ms;	   /* when its JOIN was answered */
	uint64_t acked_ms;	   /* the newest answer that it has acknowledged; 0: none */
	struct message join;	   /* waits until the lead is confirmed */
};

struct head {
	struct round *round; /* NULL: this host does not lead */
	uint64_t key;	     /* another one for each that leads */
	struct lease_head leases;
	struct tenure tenure;
	struct tenure_past past;
	uint64_t lead_rev;
	struct state_key state;	 /* in the store, as far as is known */
	unsigned may, must;	 /* the hosts of any, of all rounds that the store may hold */
	bool unsure;		 /* whether a write has happened */
	bool wrote;		 /* this head has recorded a round */
	struct state_key record; /* the round that is to be recorded; of no round: none */
	uint64_t record_ms;	 /* when that is tried (again) */
	uint64_t keep_ms;	 /* when the lease of the lead is renewed */
	bool regains;		 /* the lead is gone from the store, and it wants it again */
	uint64_t gone_rev;	 /* ... since that revision: what was there before is no more */
	struct known of[HOSTS];
};

struct whost {
	enum agent_life life;
	int agent; /* which one it is on this host */
	/* The member. */
	enum member_state state;
	uint32_t session; /* its last JOIN */
	uint64_t join_ms; /* ... when it was sent */
	struct lease_member lease;
	uint64_t beat, answered; /* numbers of its last beat, and of the last that was answered; the
				    JOIN is number 1 */
	uint64_t sent_ms[BEATS]; /* ... when it sent them */
	int head, head_agent;	 /* whose it is; -1: of none yet */
	uint64_t head_key;
	bool linked;
	uint64_t answer_ms; /* the last answer of a head came then; 0: none yet */
	uint64_t round;	    /* it has ranks of */
	int rank;
	uint64_t ready_ms, started_ms, dead_ms; /* when that will be; 0: nothing is under way */
	uint64_t worker;			/* the round_key() of its worker; 0: none lives */
	uint64_t from;				/* the head that its ranks are from */
	uint64_t known_round, last_round;
	int last_rank;
	/* The lead, as this host knows it. */
	enum lead_state lead;
	uint64_t asked_ms;	  /* when the claim was sent that was granted */
	uint64_t look_ms, due_ms; /* when it asks the store again, or its turn comes; 0: not so */
	struct lead_key leads;	  /* as the store said last */
	struct state_key said;
	int dead[HOSTS]; /* agents whose guards have said their last word here */
	struct head h;
	/* The store. */
	struct request ask, keep;
	struct request late; /* no host waits for it any more, but it may happen yet */
	bool cut_ask, cut_answer;
	/* The last word of its guard where the head was here. */
	int word_to, word_agent; /* -1: none */
};

static struct world {
	uint64_t now;
	struct whost h[HOSTS];
	struct link link[HOSTS][HOSTS]; /* from the member to the head */
	unsigned cut[HOSTS];		/* bits of the hosts that nothing reaches from here */
	unsigned held[HOSTS];		/* bits of those that what is sent reaches later */
	unsigned held_ask, held_answer; /* ... and of those whose way to the store is slow */
	uint64_t heads;			/* so far */
	struct {
		uint64_t key;
		unsigned hosts;
	} started[STARTS]; /* what START was sent for last, and to whom */
	int n_started;
	int first;	     /* whose requests the store gets first */
	uint64_t ttl_ms;     /* of the lead in the store */
	uint64_t loss_ms;    /* how long a head goes on without the store */
	uint64_t prepare_ms; /* how long hosts take to prepare */
	uint64_t stop_ms;    /* how long workers take to stop */
	enum round_on_join on_join;
	bool alone; /* workers start again alone: seats are taken in the round that runs */
} w;

static unsigned long rounds_run, seats_taken, heads_led, heads_alone;

static int host_index(const struct whost *h)
{
	return (int)(h - w.h);
}

static bool is_cut(int from, int to)
{
	return w.cut[from] >> to & 1;
}

static bool arrives(int from, int to)
{
	return !((w.cut[from] | w.held[from]) >> to & 1);
}

static uint64_t round_key(uint64_t head, uint64_t round)
{
	return head << 32 | round;
}

/* --- what is on its way --- */

static void send(struct queue *q, struct message m)
{
	struct message *last = q->n ? &q->m[q->n - 1] : NULL;

	/* A link begins with JOIN and its answer. */
	if (m.kind == SAYS_JOIN || m.kind == SAYS_JOINED)
		q->n = 0;
	/* The later one says all that the earlier one did. */
	else if (last && last->kind == m.kind && last->session == m.session &&
		 (m.kind == SAYS_BEAT || m.kind == SAYS_ANSWER || m.kind == SAYS_UNKNOWN))
		q->n--;
	if (q->n == QUEUE)
		wrong("a link holds too much");
	q->m[q->n++] = m;
}

static struct message take_message(struct queue *q)
{
	struct message m = q->m[0];

	q->n--;
	memmove(q->m, q->m + 1, (size_t)q->n * sizeof(q->m[0]));
	return m;
}

/* --- what must never be --- */

static void check_workers(void)
{
	uint64_t round = 0;
	unsigned ranks = 0;

	for (int i = 0; i < HOSTS; i++) {
		uint64_t its = w.h[i].worker;
		bool started = false;

		if (!its)
			continue;
		if (ranks >> w.h[i].rank & 1)
			wrong("workers of one rank live twice");
		ranks |= 1u << w.h[i].rank;
		if (round && its != round)
			wrong("workers of two rounds live at once");
		round = its;
		for (int k = 0; k < STARTS; k++)
			started |= w.started[k].key == its && w.started[k].hosts >> i & 1;
		if (!started)
			wrong("a worker lives without START");
	}
}

static void check_heads(void)
{
	int n = 0;

	for (int i = 0; i < HOSTS; i++)
		n += w.h[i].h.round && tenure_confirmed(&w.h[i].h.tenure, w.now);
	if (n > 1)
		wrong("two hosts hold the lead");
}

static void check_ranks(const struct round *r)
{
	unsigned ranks = 0;
	int n = 0;

	for (const struct round_host *h = round_next_host(r, NULL); h; h = round_next_host(r, h)) {
		if (h->state != HOST_STARTING || h->round != round_number(r))
			continue;
		if (h->first_rank != h->group_rank || ranks >> h->group_rank & 1)
			wrong("two ranks are alike");
		ranks |= 1u << h->group_rank;
		n++;
	}
	if (ranks != (1u << n) - 1 || n != round_world(r)->workers)
		wrong("ranks have a gap");
	if (n < MIN || n > MAX)
		wrong("the size of the round is wrong");
}
