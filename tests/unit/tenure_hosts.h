/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The hosts of tests/unit/tenure_world.h that do not lead, and the steps of time. */

#include "tests/unit/tenure_head.h"

/* --- a member --- */

static void member_says(struct whost *a, enum host_event e)
{
	send(&w.link[host_index(a)][a->head].up, (struct message){ .kind = SAYS_HOST,
							 .what = (int)e,
							 .session = a->session,
							 .number = (uint32_t)a->round });
}

static void member_joins(struct whost *a)
{
	a->session++;
	a->join_ms = w.now;
	lease_begin(&a->lease, LEASE, w.now);
	a->beat = 1;
	a->answered = 0;
	a->sent_ms[1] = w.now;
	send(&w.link[host_index(a)][a->head].up,
		(struct message){ .kind = SAYS_JOIN,
			.session = a->session,
			.known_round = (uint32_t)a->known_round,
			.last_round = (uint32_t)a->last_round,
			.age_ms = a->answer_ms ? (uint32_t)(w.now - a->answer_ms) : 0,
			.rank = a->last_rank,
			.agent = a->agent });
}

static void member_spawns(struct whost *a)
{
	a->worker = round_key(a->from, a->round);
	a->last_round = a->round;
	a->last_rank = a->rank;
	a->started_ms = w.now + STEP;
	check_workers();
}

static void worker_dies(struct whost *a)
{
	a->worker = 0;
	a->started_ms = 0;
}

static void member_acts(struct whost *a, enum member_action action)
{
	switch (action) {
	case MEMBER_DO_JOIN:
		member_joins(a);
		break;
	case MEMBER_DO_PREPARE:
		a->ready_ms = w.now + w.prepare_ms;
		break;
	case MEMBER_DO_SAY_PREPARED:
		member_says(a, HOST_EV_PREPARED);
		break;
	case MEMBER_DO_SPAWN:
		member_spawns(a);
		break;
	case MEMBER_DO_SAY_STARTED:
		member_says(a, HOST_EV_STARTED);
		break;
	case MEMBER_DO_STOP:
		a->dead_ms = w.now + w.stop_ms;
		break;
	case MEMBER_DO_SAY_STOPPED:
		member_says(a, HOST_EV_STOPPED);
		break;
	case MEMBER_DO_KILL:
		worker_dies(a);
		a->dead_ms = w.now;
		break;
	case MEMBER_DO_NOTHING:
	case MEMBER_DO_REJOIN:
	case MEMBER_DO_SAY_UNABLE:
	case MEMBER_DO_SAY_LEAVE:
	case MEMBER_DO_SAY_BYE:
		break;
	}
}

static void member_posts(struct whost *a, enum member_event e)
{
	struct member_change c;
	int r = member_change(a->state, e, false, &c);

	if (r < 0) {
		char text[128];

		snprintf(text, sizeof(text), "host %d, %s: %s", host_index(a),
			member_state_name(a->state), member_event_name(e));
		wrong(text);
	}
	if (r)
		return;
	a->state = c.next;
	if (a->worker && !member_has_workers(a->state))
		wrong("a worker lives in a state without workers");
	member_acts(a, c.action);
}

/* It is no member any more: who leads is looked for again. */
static void member_is_lost(struct whost *a)
{
	member_posts(a, MEMBER_EV_LOST);
	a->linked = false;
	if (a->lead == LEAD_FOLLOWING)
		lead_posts(a, LEAD_EV_LOST);
}

/* It is a member of that one from now on, once none of its workers lives. */
static void member_follows(struct whost *a, int head, int agent)
{
	if (a->head == head && a->head_agent == agent)
		return;
	member_posts(a, MEMBER_EV_LOST);
	a->head = head;
	a->head_agent = agent;
	a->linked = false;
}

/* From the answer to its JOIN until its lease is over. */
static bool member_beats(const struct whost *a)
{
	return a->state != MEMBER_AWAY && a->state != MEMBER_JOINING && a->state != MEMBER_FENCED;
}

static void member_looks_at_lease(struct whost *a)
{
	if (member_beats(a) && !lease_holds(&a->lease, w.now))
		member_is_lost(a);
	if (a->state == MEMBER_JOINING && a->join_ms + LEASE <= w.now)
		member_is_lost(a);
}

static void member_hears(struct whost *a, const struct message *m)
{
	bool order = m->kind == SAYS_ORDER;
	uint64_t beat;

	if ((order || m->kind == SAYS_JOINED) && m->number > a->known_round)
		a->known_round = m->number;
	if (order) {
		if (m->what == MEMBER_EV_ASSIGN &&
			(a->state == MEMBER_WAITING || a->state == MEMBER_PREPARING ||
				a->state == MEMBER_PREPARED)) {
			a->round = m->number;
			a->from = m->key;
			a->rank = m->rank;
		}
		member_posts(a, m->what);
		return;
	}
	if (m->session != a->session || (a->state != MEMBER_JOINING && !member_beats(a)))
		return;
	if (m->kind == SAYS_UNKNOWN) {
		member_is_lost(a);
		return;
	}
	a->answer_ms = w.now;
	beat = m->kind == SAYS_JOINED ? 1 : m->number;
	if (beat > a->answered)
		a->answered = beat;
	if (!lease_answer(&a->lease, a->sent_ms[beat % BEATS], w.now))
		member_is_lost(a);
	else if (m->kind == SAYS_JOINED)
		member_posts(a, MEMBER_EV_JOINED);
}

/* A link that has broken is made again while the lease holds, or when the store says who leads. */
static bool member_wants_link(const struct whost *a)
{
	return a->lead == LEAD_FOLLOWING || a->lead == LEAD_LEADING ||
	       (a->lead != LEAD_CLAIMING && member_beats(a));
}

static void member_links(struct whost *a)
{
	struct whost *b = &w.h[a->head];

	a->linked = true;
	a->head_key = b->h.key;
	a->leads = (struct lead_key){ .host = a->head, .agent = a->head_agent };
	if (a == b)
		return;
	request_ends(a, &a->ask); /* it looks no more */
	lead_posts(a, LEAD_EV_OTHER);
}

/* Where only one direction is cut, the other end seems to be slow. */
static void member_looks_at_link(struct whost *a)
{
	int i = host_index(a);
	struct whost *b = a->head < 0 ? NULL : &w.h[a->head];
	bool there = b && b->life != AGENT_DEAD && b->h.round, up, down;

	if (!b)
		return;
	up = !is_cut(i, a->head);
	down = !is_cut(a->head, i);
	if (a->linked && up == down && !(up && there && b->h.key == a->head_key)) {
		a->linked = false;
		if (a->lead == LEAD_FOLLOWING)
			lead_posts(a, LEAD_EV_LOST);
	}
	if (!a->linked && there && b->agent == a->head_agent && up && down && member_wants_link(a))
		member_links(a);
	if (a->linked && a->state == MEMBER_AWAY)
		member_posts(a, MEMBER_EV_LINKED);
}

/* Steps of its agent by itself, when it is at work. */
static void member_works(struct whost *a)
{
	member_looks_at_lease(a);
	if (a->ready_ms && a->ready_ms <= w.now) {
		a->ready_ms = 0;
		member_posts(a, MEMBER_EV_READY);
	}
	if (a->started_ms && a->started_ms <= w.now) {
		a->started_ms = 0;
		member_posts(a, MEMBER_EV_STARTED);
	}
	if (a->dead_ms && a->dead_ms <= w.now) {
		worker_dies(a);
		a->dead_ms = 0;
		member_posts(a, MEMBER_EV_DEAD);
	}
	member_looks_at_link(a);
	if (member_beats(a) && a->sent_ms[a->beat % BEATS] + LEASE / 5 <= w.now) {
		a->sent_ms[++a->beat % BEATS] = w.now;
		send(&w.link[host_index(a)][a->head].up, (struct message){ .kind = SAYS_BEAT,
								 .session = a->session,
								 .answered = (uint32_t)a->answered,
								 .number = (uint32_t)a->beat });
	}
}

/* --- who leads --- */

static uint64_t host_turn_ms(int i, const struct state_key *s)
{
	int head = s->hosts >> s->head & 1 ? s->rank[s->head] : -1;

	return tenure_turn_ms(
		s->hosts >> i & 1 ? s->rank[i] : -1, head, __builtin_popcount(s->hosts));
}

static bool is_dead(const struct whost *a, const struct lead_key *lead)
{
	return lead->rev && a->dead[lead->host] >= lead->agent;
}

/* Its workers live, and are of a head that may answer yet. */
static bool may_be_led(const struct whost *a)
{
	return a->worker && a->dead[a->head] < a->head_agent;
}

static void lead_acts(struct whost *a, enum lead_action action)
{
	switch (action) {
	case LEAD_DO_NOTHING:
		break;
	case LEAD_DO_LOOK:
		a->look_ms = w.now;
		break;
	case LEAD_DO_FOLLOW:
		member_follows(a, a->leads.host, a->leads.agent);
		break;
	case LEAD_DO_WAIT:
		a->due_ms = w.now + host_turn_ms(host_index(a), &a->said);
		break;
	case LEAD_DO_CLAIM:
		if (may_be_led(a))
			wrong("a host tries to lead while its head may answer");
		request_ends(a, &a->ask);
		request_sends(a, &a->ask, (struct request){ .kind = REQUEST_READ });
		break;
	case LEAD_DO_LEAD:
		request_ends(a, &a->ask);
		request_ends(a, &a->keep);
		member_posts(a, MEMBER_EV_LOST);
		a->head = host_index(a);
		a->head_agent = a->agent;
		a->linked = false;
		head_begins(a, a->asked_ms);
		break;
	case LEAD_DO_STEP_DOWN:
		head_ends(a);
		if (a->head == host_index(a))
			member_posts(a, MEMBER_EV_LOST);
		a->linked = false;
		a->look_ms = w.now;
		break;
	}
}

static void lead_posts(struct whost *a, enum lead_event e)
{
	struct lead_change c;
	int r = lead_change(a->lead, e, &c);

	if (r < 0) {
		char text[128];

		snprintf(text, sizeof(text), "host %d, %s: %s", host_index(a),
			lead_state_name(a->lead), lead_event_name(e));
		wrong(text);
	}
	if (r)
		return;
	a->lead = c.next;
	a->due_ms = 0;
	lead_acts(a, c.action);
}

static void seeker_hears_who_leads(struct whost *a, const struct request *q)
{
	a->leads = q->lead;
	a->said = q->found;
	if (!q->lead.rev) {
		if (!a->worker)
			lead_posts(a, LEAD_EV_NOBODY);
	} else if (is_dead(a, &q->lead)) {
		if (!may_be_led(a))
			lead_posts(a, LEAD_EV_DEAD);
	} else if (q->lead.host != host_index(a) || q->lead.agent != a->agent) {
		lead_posts(a, LEAD_EV_OTHER);
	} else if (!a->keep.kind) {
		request_sends(a, &a->keep, (struct request){ .kind = REQUEST_KEEP });
	}
}

static void seeker_hears(struct whost *a)
{
	struct request q = a->ask;

	a->ask.kind = REQUEST_NONE;
	if (a->lead != LEAD_CLAIMING) {
		if (q.kind == REQUEST_READ)
			seeker_hears_who_leads(a, &q);
	} else if (q.kind == REQUEST_CLAIM && q.done) {
		a->leads = q.lead;
		a->said = q.found;
		a->asked_ms = q.sent_ms;
		lead_posts(a, LEAD_EV_WON);
	} else if (q.kind == REQUEST_READ && (!q.lead.rev || is_dead(a, &q.lead))) {
		request_sends(a, &a->ask,
			(struct request){ .kind = REQUEST_CLAIM,
				.lead_rev = q.lead.rev,
				.state_rev = q.found.rev });
	} else {
		lead_posts(a, LEAD_EV_BEATEN);
	}
}

/* Its own lead is in the store, since a claim that was not answered, and its lease lives. */
static void seeker_hears_kept(struct whost *a)
{
	struct request q = a->keep;

	a->keep.kind = REQUEST_NONE;
	if (!q.done || a->lead == LEAD_CLAIMING)
		return;
	a->leads = q.lead;
	a->said = q.found;
	a->asked_ms = q.sent_ms;
	lead_posts(a, LEAD_EV_OWN);
}

/* A host that does not lead asks while it has no link to who does. */
static void seeker_works(struct whost *a)
{
	if (a->keep.kind && a->keep.sent_ms + STEP <= w.now)
		request_ends(a, &a->keep);
	if (a->ask.kind && a->ask.sent_ms + STEP <= w.now) {
		request_ends(a, &a->ask);
		if (a->lead == LEAD_CLAIMING)
			lead_posts(a, LEAD_EV_UNSURE);
	}
	if (a->due_ms && a->due_ms <= w.now)
		lead_posts(a, LEAD_EV_DUE);
	if (a->linked || a->ask.kind || a->lead == LEAD_CLAIMING || a->look_ms > w.now)
		return;
	a->look_ms = w.now + STEP;
	request_sends(a, &a->ask, (struct request){ .kind = REQUEST_READ });
}

/* --- time --- */

/* Where the agent cannot, the guard kills, within a tenth of the lease. */
static void guards_work(void)
{
	for (int i = 0; i < HOSTS; i++) {
		struct whost *a = &w.h[i];
		uint64_t deadline_ms = a->lease.deadline_ms;

		if (a->h.round && head_until_ms(&a->h) < deadline_ms)
			deadline_ms = head_until_ms(&a->h);
		if (a->worker && deadline_ms <= w.now - TENTH)
			worker_dies(a);
	}
}

/* Deadlines come before all that was late. */
static void agents_look_at_time(void)
{
	for (int i = 0; i < HOSTS; i++) {
		if (w.h[i].life != AGENT_UP)
			continue;
		head_works(&w.h[i]);
		member_looks_at_lease(&w.h[i]);
	}
}

/* Delivers up to k messages of a member to a head; returns how many. */
static int deliver_up(int i, int j, int k)
{
	struct queue *q = &w.link[i][j].up;
	int n = 0;

	while (n < k && q->n && arrives(i, j) && w.h[j].life != AGENT_STOPPED) {
		struct message m = take_message(q);

		n++;
		if (head_works(&w.h[j]))
			head_hears(&w.h[j], i, &m);
	}
	return n;
}

static int deliver_down(int i, int j, int k)
{
	struct queue *q = &w.link[i][j].down;
	struct whost *a = &w.h[i];
	int n = 0;

	while (n < k && q->n && arrives(j, i) && a->life == AGENT_UP && a->linked && a->head == j) {
		struct message m = take_message(q);

		n++;
		member_looks_at_lease(a);
		member_hears(a, &m);
	}
	return n;
}

static bool request_is_due(const struct request *q, int i)
{
	return q->kind && !q->happened && !store.gone && !w.h[i].cut_ask && !(w.held_ask >> i & 1);
}

static int request_happens(struct request *q, int i)
{
	if (!request_is_due(q, i))
		return 0;
	store_does(q, i, w.now, w.ttl_ms);
	return 1;
}

/* Requests of host i to the store happen, and their answers come. */
static int deliver_store(int i)
{
	struct whost *a = &w.h[i];
	int n = request_happens(&a->keep, i) + request_happens(&a->ask, i);
	bool leads;

	if (store.gone || a->cut_answer || w.held_answer >> i & 1 || a->life != AGENT_UP)
		return n;
	leads = head_works(a);
	if (a->keep.kind && a->keep.happened) {
		n++;
		leads ? head_hears_kept(a) : seeker_hears_kept(a);
	}
	leads = head_works(a);
	if (a->ask.kind && a->ask.happened) {
		n++;
		leads ? head_hears_asked(a) : seeker_hears(a);
	}
	return n;
}

/* The last word of a head's guard. */
static int deliver_word(int i)
{
	int to = w.h[i].word_to, agent = w.h[i].word_agent;
	struct whost *a = &w.h[to < 0 ? 0 : to];

	if (to < 0 || !arrives(i, to) || a->life != AGENT_UP)
		return 0;
	w.h[i].word_to = -1;
	if (agent > a->dead[i])
		a->dead[i] = agent;
	if (a->linked ? a->head == i && a->head_agent <= agent : !may_be_led(a))
		lead_posts(a, LEAD_EV_DEAD);
	return 1;
}

static void world_works(void)
{
	for (int i = 0; i < HOSTS; i++) {
		struct whost *a = &w.h[i];

		if (a->life != AGENT_UP)
			continue;
		if (head_works(a)) {
			head_looks(a);
			head_asks(a);
		} else {
			seeker_works(a);
		}
		member_works(a);
	}
}

/* All that can arrive does. */
static void world_settle(void)
{
	int n = 1;

	for (int pass = 0; n; pass++) {
		if (pass > 60)
			wrong("hosts never come to rest");
		n = 0;
		for (int i = 0; i < HOSTS; i++)
			n += deliver_store((i + w.first) % HOSTS) + deliver_word(i);
		world_works();
		for (int i = 0; i < HOSTS; i++)
			for (int j = 0; j < HOSTS; j++)
				n += deliver_up(i, j, QUEUE);
		for (int i = 0; i < HOSTS; i++)
			for (int j = 0; j < HOSTS; j++)
				n += deliver_down(i, j, QUEUE);
		for (int i = 0; i < HOSTS; i++)
			n += request_is_due(&w.h[i].ask, i) || request_is_due(&w.h[i].keep, i);
	}
	check_workers();
	check_heads();
}

static void world_step(uint64_t ms)
{
	w.now += ms;
	guards_work();
	agents_look_at_time();
	store_time(w.now);
	world_settle();
}
