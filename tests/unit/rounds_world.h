/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Four hosts and the links between them, for models of agent/rounds/: each host has an agent with
 * the machine of a member, a guard, and one worker; the agent of host 0 is the head, too. Links
 * lose nothing, but each direction can be cut, and then holds what is sent until it is healed. A
 * step of time is a fifth of the lease. Each step checks the invariants.
 */

#include "agent/rounds/lease.h"
#include "agent/rounds/member_machine.h"
#include "agent/rounds/round_private.h"
#include "tests/unit/trail.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS = 4, MIN = 2, MAX = 3, LEASE = LEASE_MIN_MS, STEP = LEASE / 5, QUEUE = 48 };

enum agent_life { AGENT_DEAD, AGENT_UP, AGENT_STOPPED };

enum message_kind {
	SAYS_JOIN,
	SAYS_BEAT,
	SAYS_HOST, /* a host_event */
	SAYS_GUARD,
	SAYS_JOINED,
	SAYS_REFUSED,
	SAYS_ANSWER,
	SAYS_UNKNOWN,
	SAYS_ORDER, /* a member_event */
};

struct message {
	enum message_kind kind;
	int what;
	uint64_t session;    /* which JOIN of the host it belongs to */
	uint64_t round;	     /* of a beat: when it was sent */
	uint64_t last_round; /* of a JOIN, whose round is the last that it knows */
	int last_rank, agent;
	uint64_t head; /* of an order: which head sent it */
};

struct queue {
	struct message m[QUEUE];
	int n;
	bool cut;
};

struct whost {
	enum agent_life life;
	int agent; /* which one it is on this host */
	enum member_state state;
	bool leaving;
	uint64_t session; /* its last JOIN */
	struct lease_member lease;
	uint64_t beat_ms; /* when it sent its last beat, or its JOIN */
	uint64_t round;	  /* it has ranks of */
	int rank;
	uint64_t ready_ms, started_ms, dead_ms; /* when that will be; 0: nothing is under way */
	uint64_t worker;			/* the round_key() of its worker; 0: none lives */
	uint64_t from;				/* the head that its ranks are from */
	uint64_t known_round, last_round;
	int last_rank;
	struct queue up, down;
	/* As the head knows: */
	int number;	 /* -1: nothing */
	uint64_t member; /* the session that is a member; 0: one before this head */
	struct lease_held held;
};

static struct world {
	uint64_t now;
	struct whost h[HOSTS];
	struct round *head; /* NULL: there is none */
	struct lease_head leases;
	uint64_t heads;	   /* so far */
	uint64_t started;  /* the round_key() that START was sent for last */
	unsigned starters; /* bits of its hosts */
	uint64_t saved_ms; /* when all have saved, 0: no save is under way */
	bool record;	   /* the next head knows of the last one */
	uint64_t recorded_round;
	unsigned recorded; /* bits of the hosts where workers may live */
	int recorded_rank[HOSTS];
	enum round_on_join on_join;
	bool others_stay; /* only the head's agent dies */
	bool alone;	  /* workers start again alone: seats are taken in the round that runs */
} w;

static unsigned long rounds_run, seats_taken;

static void send(struct queue *q, struct message m)
{
	struct message *last = q->n ? &q->m[q->n - 1] : NULL;

	/* The later answer says all that the earlier one did. */
	if (last && last->kind == m.kind && last->session == m.session &&
		(m.kind == SAYS_ANSWER || m.kind == SAYS_UNKNOWN)) {
		*last = m;
		return;
	}
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

/* A head that does not know of an earlier one may use its numbers once more. */
static uint64_t round_key(uint64_t head, uint64_t round)
{
	return head << 32 | round;
}

static int host_index(const struct whost *h)
{
	return (int)(h - w.h);
}

/* --- what must never be --- */

static void check_workers(void)
{
	uint64_t round = 0;
	unsigned ranks = 0;

	for (int i = 0; i < HOSTS; i++) {
		uint64_t its = w.h[i].worker;

		if (!its)
			continue;
		if (ranks >> w.h[i].rank & 1)
			wrong("workers of one rank live twice");
		ranks |= 1u << w.h[i].rank;
		if (round && its != round)
			wrong("workers of two rounds live at once");
		if (its != w.started || !(w.starters >> i & 1))
			wrong("a worker lives without START");
		round = its;
	}
}

static void check_ranks(void)
{
	unsigned ranks = 0;
	int n = 0;

	for (const struct round_host *h = round_next_host(w.head, NULL); h;
		h = round_next_host(w.head, h)) {
		if (h->state != HOST_STARTING || h->round != round_number(w.head))
			continue;
		if (h->first_rank != h->group_rank || ranks >> h->group_rank & 1)
			wrong("two ranks are alike");
		ranks |= 1u << h->group_rank;
		n++;
	}
	if (ranks != (1u << n) - 1 || n != round_world(w.head)->workers)
		wrong("ranks have a gap");
	if (n < MIN || n > MAX)
		wrong("the size of the round is wrong");
}

/* --- the head --- */

static struct whost *host_of(int number)
{
	for (int i = 0; i < HOSTS; i++)
		if (w.h[i].number == number)
			return &w.h[i];
	wrong("an order for an unknown host");
	return NULL;
}

static void head_forget(struct whost *h)
{
	lease_remove(&w.leases, &h->held);
	h->number = -1;
}

static void head_starts(struct whost *h, uint64_t round)
{
	uint64_t key = round_key(w.heads, round);

	if (key != w.started) {
		if (round <= (uint32_t)w.started && (w.record || key < w.started))
			wrong("a number of a round is used twice");
		w.started = key;
		w.starters = 0;
		check_ranks();
	}
	w.starters |= 1u << host_index(h);
	if (h->state == MEMBER_PREPARING && h->round == round)
		wrong("START although a host is not prepared");
}

static void head_order(const struct round_order *o, uint64_t session)
{
	static const int orders[] = { [ROUND_ORDER_ASSIGN] = MEMBER_EV_ASSIGN,
		[ROUND_ORDER_START] = MEMBER_EV_START,
		[ROUND_ORDER_TAKE] = MEMBER_EV_START,
		[ROUND_ORDER_STOP] = MEMBER_EV_STOP,
		[ROUND_ORDER_END] = MEMBER_EV_END };
	const struct round_host *rh = round_host(w.head, o->host);
	struct message m = { .kind = SAYS_ORDER, .round = o->round, .head = w.heads };
	struct whost *h;

	switch (o->what) {
	case ROUND_ORDER_ADMIT:
		h = &w.h[rh->name[1] - '0'];
		h->number = o->host;
		h->member = session;
		lease_add(&w.leases, &h->held, w.now);
		m.kind = SAYS_JOINED;
		break;
	case ROUND_ORDER_ASSIGN:
	case ROUND_ORDER_START:
	case ROUND_ORDER_TAKE:
	case ROUND_ORDER_STOP:
	case ROUND_ORDER_END:
		h = host_of(o->host);
		m.what = orders[o->what];
		m.last_rank = rh->group_rank;
		if (o->what == ROUND_ORDER_START || o->what == ROUND_ORDER_TAKE)
			head_starts(h, o->round);
		seats_taken += o->what == ROUND_ORDER_TAKE;
		break;
	case ROUND_ORDER_DROP:
		h = host_of(o->host);
		if (h->worker)
			wrong("a host is given up although its worker lives");
		head_forget(h);
		return;
	case ROUND_ORDER_RUNNING:
		rounds_run++;
		return;
	case ROUND_ORDER_SAVE:
		w.saved_ms = w.now + STEP;
		return;
	case ROUND_ORDER_REFUSE:
		wrong("a host is refused");
		return;
	default:
		return;
	}
	m.session = h->member;
	send(&h->down, m);
}

/* Carries out what the last call wants; session: of the JOIN that it was about. */
static void head_orders(uint64_t session)
{
	int n;
	const struct round_order *o = round_orders(w.head, &n);

	for (int i = 0; i < n; i++)
		head_order(&o[i], session);
}

static struct round_join join_of(int i, int agent)
{
	static const int one = 1;
	static char names[HOSTS][2][16];
	static const char *const agents[] = { "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7" };

	snprintf(names[i][0], sizeof(names[i][0]), "run%d", i);
	snprintf(names[i][1], sizeof(names[i][1]), "n%d", i);
	return (struct round_join){ .run = names[i][0],
		.agent = agents[agent % 8],
		.boot = "b",
		.name = names[i][1],
		.digest = "d",
		.node_rank = -1,
		.replicas = &one };
}

static void head_begin(bool record)
{
	static const bool everywhere = false, alone = true;
	struct round_config config = { .min = MIN,
		.max = MAX,
		.last_call_ms = LEASE,
		.join_timeout_ms = UINT64_MAX,
		.prepare_timeout_ms = 3 * STEP,
		.join_delay_ms = STEP,
		.lease_ms = LEASE,
		.on_join = w.on_join,
		.roles = { 1, &everywhere },
		.alone = w.alone ? &alone : NULL,
		.digest = "d",
		.round = record ? w.recorded_round : 0 };

	w.heads++;
	w.head = round_new(&config, w.now);
	if (!w.head)
		wrong("no memory");
	w.leases = (struct lease_head){ .lease_ms = LEASE };
	for (int i = 0; i < HOSTS; i++) {
		struct round_join past = join_of(i, 0);

		w.h[i].number = -1;
		if (!record || !(w.recorded >> i & 1))
			continue;
		past.known_round = past.last_round = w.recorded_round;
		past.last_rank = w.recorded_rank[i];
		w.h[i].number = round_remember(w.head, &past);
		w.h[i].member = 0;
		lease_add(&w.leases, &w.h[i].held, w.now);
	}
}

/* The head is gone. Messages that it had sent may arrive yet. */
static void head_end(void)
{
	w.recorded = 0;
	w.recorded_round = round_number(w.head);
	for (int i = 0; i < HOSTS; i++) {
		const struct round_host *h = round_host(w.head, w.h[i].number);
		unsigned alive = 1u << HOST_MISSING | 1u << HOST_STARTING | 1u << HOST_RUNNING |
				 1u << HOST_STOPPING;

		if (h && alive >> h->state & 1) {
			w.recorded |= 1u << i;
			w.recorded_rank[i] = h->last_rank;
		}
		w.h[i].number = -1;
	}
	w.head = round_free(w.head);
	w.saved_ms = 0;
}

static void head_join(struct whost *h, const struct message *m)
{
	struct round_join join = join_of(host_index(h), m->agent);

	join.known_round = m->round;
	join.last_round = m->last_round;
	join.last_rank = m->last_rank;
	if (round_join(w.head, &join, w.now) < 0)
		wrong("a JOIN fails");
	head_orders(m->session);
}

static void head_hears(struct whost *h, const struct message *m)
{
	int r;

	if (m->kind == SAYS_JOIN) {
		head_join(h, m);
		return;
	}
	if (h->number < 0 || h->member != m->session) {
		if (m->kind != SAYS_GUARD)
			send(&h->down,
				(struct message){ .kind = SAYS_UNKNOWN, .session = m->session });
		return;
	}
	if (m->kind == SAYS_BEAT) {
		lease_came(&w.leases, &h->held, w.now);
		send(&h->down,
			(struct message){
				.kind = SAYS_ANSWER, .session = m->session, .round = m->round });
		return;
	}
	r = round_hear(
		w.head, h->number, m->kind == SAYS_GUARD ? HOST_EV_LOST : m->what, m->round, w.now);
	if (r < 0)
		wrong("a host says what none may say");
	head_orders(0);
}

static bool head_works(void)
{
	return w.head && w.h[0].life == AGENT_UP;
}

/* The lease of its own host first, then those of others, then what has come. */
static void head_looks(void)
{
	struct lease_held *over;

	if (w.h[0].lease.deadline_ms != UINT64_MAX && !lease_holds(&w.h[0].lease, w.now) &&
		w.h[0].member == w.h[0].session && w.h[0].number >= 0) {
		head_end();
		head_begin(true);
	}
	while ((over = lease_over(&w.leases, w.now))) {
		struct whost *h = (void *)((char *)over - offsetof(struct whost, held));

		if (round_hear(w.head, h->number, HOST_EV_LOST, 0, w.now))
			wrong("a host cannot be lost");
		head_orders(0);
	}
	if (w.saved_ms && w.saved_ms <= w.now) {
		w.saved_ms = 0;
		round_restart(w.head, 0, w.now);
		head_orders(0);
	}
	round_time(w.head, w.now);
	head_orders(0);
	if (round_due_ms(w.head) <= w.now)
		wrong("what was due is due still");
}

/* --- a member --- */

static void member_says(struct whost *h, enum host_event e)
{
	send(&h->up, (struct message){ .kind = SAYS_HOST,
			     .what = (int)e,
			     .session = h->session,
			     .round = h->round });
}

static void member_joins(struct whost *h)
{
	h->session++;
	lease_begin(&h->lease, LEASE, w.now);
	h->beat_ms = w.now;
	send(&h->up, (struct message){ .kind = SAYS_JOIN,
			     .session = h->session,
			     .round = h->known_round,
			     .last_round = h->last_round,
			     .last_rank = h->last_rank,
			     .agent = h->agent });
}

static void member_posts(struct whost *h, enum member_event e);

static void member_spawns(struct whost *h)
{
	h->worker = round_key(h->from, h->round);
	h->last_round = h->round;
	h->last_rank = h->rank;
	h->started_ms = w.now + STEP;
	check_workers();
}

static void worker_dies(struct whost *h)
{
	h->worker = 0;
	h->started_ms = 0;
}

static void member_acts(struct whost *h, enum member_action a)
{
	switch (a) {
	case MEMBER_DO_NOTHING:
	case MEMBER_DO_REJOIN:
		break;
	case MEMBER_DO_JOIN:
		member_joins(h);
		break;
	case MEMBER_DO_PREPARE:
		h->ready_ms = w.now + STEP;
		break;
	case MEMBER_DO_SAY_PREPARED:
		member_says(h, HOST_EV_PREPARED);
		break;
	case MEMBER_DO_SAY_UNABLE:
		member_says(h, HOST_EV_UNABLE);
		break;
	case MEMBER_DO_SPAWN:
		member_spawns(h);
		break;
	case MEMBER_DO_SAY_STARTED:
		member_says(h, HOST_EV_STARTED);
		break;
	case MEMBER_DO_STOP:
		h->dead_ms = w.now + STEP;
		break;
	case MEMBER_DO_SAY_STOPPED:
		member_says(h, HOST_EV_STOPPED);
		break;
	case MEMBER_DO_KILL:
		worker_dies(h);
		h->dead_ms = w.now;
		break;
	case MEMBER_DO_SAY_LEAVE:
		member_says(h, HOST_EV_LEAVE);
		break;
	case MEMBER_DO_SAY_BYE:
		member_says(h, HOST_EV_BYE);
		h->life = AGENT_DEAD;
		break;
	}
}

static void member_posts(struct whost *h, enum member_event e)
{
	struct member_change c;
	int r = member_change(h->state, e, h->leaving, &c);

	if (r < 0) {
		char text[128];

		snprintf(text, sizeof(text), "host %d, %s: %s", host_index(h),
			member_state_name(h->state), member_event_name(e));
		wrong(text);
	}
	if (r)
		return;
	h->leaving |= e == MEMBER_EV_LEAVE;
	h->state = c.next;
	if (h->worker && !member_has_workers(h->state))
		wrong("a worker lives in a state without workers");
	member_acts(h, c.action);
}

/* From the answer to its JOIN until its lease is over. */
static bool member_beats(const struct whost *h)
{
	return h->state != MEMBER_AWAY && h->state != MEMBER_JOINING && h->state != MEMBER_FENCED &&
	       h->state != MEMBER_OVER;
}

static bool member_lease_broken(struct whost *h)
{
	return member_beats(h) && !lease_holds(&h->lease, w.now);
}

static void member_hears(struct whost *h, const struct message *m)
{
	if ((m->kind == SAYS_ORDER || m->kind == SAYS_JOINED) && m->round > h->known_round)
		h->known_round = m->round;
	if (m->kind == SAYS_ORDER) {
		if (m->what == MEMBER_EV_ASSIGN &&
			(h->state == MEMBER_WAITING || h->state == MEMBER_PREPARING ||
				h->state == MEMBER_PREPARED)) {
			h->round = m->round;
			h->from = m->head;
			h->rank = m->last_rank;
		}
		member_posts(h, m->what);
		return;
	}
	if (m->session != h->session || (h->state != MEMBER_JOINING && !member_beats(h)))
		return;
	if (m->kind == SAYS_UNKNOWN)
		member_posts(h, MEMBER_EV_LOST);
	else if (!lease_answer(
			 &h->lease, m->kind == SAYS_JOINED ? h->lease.sent_ms : m->round, w.now))
		member_posts(h, MEMBER_EV_LOST);
	else if (m->kind == SAYS_JOINED)
		member_posts(h, MEMBER_EV_JOINED);
}

/* Steps of its agent by itself, when it is at work. */
static void member_works(struct whost *h)
{
	if (member_lease_broken(h))
		member_posts(h, MEMBER_EV_LOST);
	if (h->ready_ms && h->ready_ms <= w.now) {
		h->ready_ms = 0;
		member_posts(h, MEMBER_EV_READY);
	}
	if (h->started_ms && h->started_ms <= w.now) {
		h->started_ms = 0;
		member_posts(h, MEMBER_EV_STARTED);
	}
	if (h->dead_ms && h->dead_ms <= w.now) {
		worker_dies(h);
		h->dead_ms = 0;
		member_posts(h, MEMBER_EV_DEAD);
	}
	if (h->life != AGENT_UP)
		return;
	if (h->state == MEMBER_AWAY && w.head && !h->up.cut)
		member_posts(h, MEMBER_EV_LINKED);
	if (member_beats(h) && h->beat_ms + LEASE / 5 <= w.now) {
		h->beat_ms = w.now;
		send(&h->up, (struct message){
				     .kind = SAYS_BEAT, .session = h->session, .round = w.now });
	}
}

/* --- time --- */

/* Where the agent cannot, the guard kills. */
static void guards_work(void)
{
	for (int i = 0; i < HOSTS; i++)
		if (w.h[i].worker && w.h[i].lease.deadline_ms <= w.now)
			worker_dies(&w.h[i]);
}

/* Delivers up to k messages of a queue that is not cut; returns how many. */
static int deliver_up(struct whost *h, int k)
{
	int n = 0;

	while (n < k && head_works() && !h->up.cut && h->up.n) {
		struct message m = take_message(&h->up);

		head_hears(h, &m);
		n++;
	}
	return n;
}

static int deliver_down(struct whost *h, int k)
{
	int n = 0;

	while (n < k && h->life == AGENT_UP && !h->down.cut && h->down.n) {
		struct message m = take_message(&h->down);

		if (member_lease_broken(h))
			member_posts(h, MEMBER_EV_LOST);
		member_hears(h, &m);
		n++;
	}
	return n;
}

static void world_works(void)
{
	if (head_works())
		head_looks();
	for (int i = 0; i < HOSTS; i++)
		if (w.h[i].life == AGENT_UP)
			member_works(&w.h[i]);
}

/* All that can arrive does. */
static void world_settle(void)
{
	int n = 1;

	for (int pass = 0; n; pass++) {
		if (pass > 50)
			wrong("hosts never come to rest");
		n = 0;
		world_works();
		for (int i = 0; i < HOSTS; i++)
			n += deliver_up(&w.h[i], QUEUE);
		for (int i = 0; i < HOSTS; i++)
			n += deliver_down(&w.h[i], QUEUE);
	}
	check_workers();
}

static void world_step(void)
{
	w.now += STEP;
	guards_work();
	world_settle();
}
