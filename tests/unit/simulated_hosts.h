/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Many hosts with the machine of a member each, and a head with the machine of rounds, over
 * simulated_links.h. Their messages are written by agent/hosts/messages.h. The invariants are
 * checked whenever workers start, and when all of a round execute.
 */

#include "agent/hosts/messages.h"
#include "agent/hosts/settings.h"
#include "agent/rounds/round.h"
#include "tests/unit/simulated_links.h"

enum { WORKERS = 8 };

static struct {
	struct spec *spec;
	char *digest;
	bool first_only;
	struct round *round;
	struct lease_head leases;
	int *host_of; /* by number */
	struct shost *joining;
	int attempt, restarts, n_members;
	uint64_t due_ms; /* of the next EV_HEAD */
	uint64_t wave;	 /* the last round that was assigned */
	json_t *failure; /* the root cause that the next Assign tells; NULL: none */
	const char *why;
	char cause[256];
	struct shost *deputy;

	/* Workers that live: all of one round. */
	uint64_t live_round;
	int live_hosts;
	/* Hosts of the last round have started with these: */
	uint64_t spawn_round;
	int attempt_there, group_there, world_there, ranks_taken;
	bool *rank_taken;
	uint64_t window; /* counts s.tally's */
} g;

static void round_runs(void);

/* --- what must never be --- */

static void check_spawn(const struct shost *h)
{
	if (g.live_hosts && g.live_round != h->round)
		wrong("workers of rounds %llu and %llu live at once",
			(unsigned long long)g.live_round, (unsigned long long)h->round);
	if (h->round != g.spawn_round) {
		if (h->round < g.spawn_round)
			wrong("an old round starts");
		g.spawn_round = h->round;
		g.attempt_there = h->attempt;
		g.group_there = h->group_size;
		g.world_there = h->world_size;
		g.ranks_taken = 0;
		memset(g.rank_taken, 0, (size_t)s.n_hosts * WORKERS);
	}
	if (h->attempt != g.attempt_there || h->group_size != g.group_there ||
		h->world_size != g.world_there)
		wrong("%s does not agree about round %llu", h->name, (unsigned long long)h->round);
	for (int i = h->first_rank; i < h->first_rank + h->workers; i++) {
		if (i < 0 || i >= g.world_there || g.rank_taken[i])
			wrong("rank %d of %d is taken twice, or is none", i, g.world_there);
		g.rank_taken[i] = true;
		g.ranks_taken++;
	}
}

static void check_round(void)
{
	if (g.spawn_round != round_number(g.round) || g.ranks_taken != g.world_there ||
		g.world_there != round_world(g.round)->workers ||
		g.group_there != round_world(g.round)->hosts)
		wrong("%d of %d ranks of round %llu are taken", g.ranks_taken, g.world_there,
			(unsigned long long)g.spawn_round);
}

static void workers_live(struct shost *h)
{
	check_spawn(h);
	h->worker = g.live_round = h->round;
	g.live_hosts++;
}

static void workers_die(struct shost *h)
{
	g.live_hosts -= h->worker != 0;
	h->worker = 0;
}

/* --- the head --- */

/* To a member, by the link that it has joined by. Takes body. */
static void head_says(struct shost *h, const char *method, json_t *body)
{
	if (h->member_session == h->session && h->head_session == h->session)
		send(h, HEAD, method, body);
	else
		json_decref(body);
}

static void head_says_text(struct shost *h, const char *method, const char *body)
{
	if (h->member_session == h->session && h->head_session == h->session)
		send_text(h, HEAD, method, body);
}

static struct shost *member_of(int number)
{
	return number >= 0 && g.host_of[number] >= 0 ? &s.hosts[g.host_of[number]] : NULL;
}

static void count_there(struct shost *h)
{
	s.tally.hosts += h->counted != g.window;
	h->counted = g.window;
}

static void head_admits(const struct round_order *o)
{
	struct shost *h = g.joining;

	h->number = o->host;
	h->member_session = h->session;
	g.host_of[o->host] = host_index(h);
	g.n_members++;
	count_there(h);
	lease_add(&g.leases, &h->held, s.now_ms);
	head_says(h, "Admitted", message_admitted(o->round));
}

static void head_assigns(struct shost *h, const struct round_order *o)
{
	const struct ranked_roles roles = { 1, &g.first_only };
	const struct message_assign a = { .spec = g.spec,
		.roles = &roles,
		.host = round_host(g.round, o->host),
		.world = round_world(g.round),
		.attempt = g.attempt,
		.restarts = g.restarts,
		.failure = g.failure };

	s.tally.waves += g.wave != o->round;
	g.wave = o->round;
	head_says(h, "Assign", message_assign(&a));
}

static void head_drops(struct shost *h, const struct round_order *o)
{
	if (h->worker)
		wrong("%s is given up although its workers live", h->name);
	snprintf(g.cause, sizeof(g.cause), "host %s has gone", h->name);
	lease_remove(&g.leases, &h->held);
	g.host_of[o->host] = -1;
	g.n_members--;
	h->number = -1;
	if (g.deputy == h)
		g.deputy = NULL;
	if (o->why == ROUND_WHY_REJOINED || o->why == ROUND_WHY_BYE ||
		h->member_session != h->head_session)
		return;
	h->head_session = 0;
	if (h->member_session == h->session)
		ship(h, MEMBER, (struct event){ .kind = EV_CLOSED });
}

static void head_stops(struct shost *h, char **text)
{
	if (!*text) {
		_cleanup_json_ json_t *body =
			message_stop(round_number(g.round), g.why, g.cause, SPEC_UNSET);

		*text = json_dumps(body, JSON_COMPACT);
	}
	head_says_text(h, "Stop", *text);
}

static void head_starts(void)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_json_ json_t *body = NULL;
	const struct round_host *host = NULL;

	while ((host = round_next_host(g.round, host)))
		if (host->state == HOST_STARTING && host->group_rank == 0)
			body = message_start(
				host->round, member_of(host->number)->master_addr, 29500, NULL);
	text = json_dumps(body, JSON_COMPACT);
	g.attempt++;
	g.why = "membership";
	json_decref(g.failure);
	g.failure = NULL;
	while ((host = round_next_host(g.round, host)))
		if (host->state == HOST_STARTING)
			head_says_text(member_of(host->number), "Start", text);
}

static void head_does(const struct round_order *o, bool *start, char **stop)
{
	struct shost *h = o->what == ROUND_ORDER_ADMIT ? NULL : member_of(o->host);

	switch (o->what) {
	case ROUND_ORDER_ADMIT:
		head_admits(o);
		break;
	case ROUND_ORDER_ASSIGN:
		head_assigns(h, o);
		break;
	case ROUND_ORDER_START:
		*start = true;
		break;
	case ROUND_ORDER_STOP:
		head_stops(h, stop);
		break;
	case ROUND_ORDER_DROP:
		head_drops(h, o);
		break;
	case ROUND_ORDER_RECORD:
		post(s.now_ms + between(2, 50),
			(struct event){ .kind = EV_RECORDED, .n = o->round });
		break;
	case ROUND_ORDER_RUNNING:
		check_round();
		round_runs();
		break;
	case ROUND_ORDER_LEAVE_OUT:
	case ROUND_ORDER_REST:
		break;
	default:
		wrong("the head does what it must not: order %d", o->what);
	}
}

static void head_waits(void)
{
	uint64_t due = round_due_ms(g.round), lease = lease_due_ms(&g.leases);

	due = lease < due ? lease : due;
	if (due >= g.due_ms)
		return;
	g.due_ms = due > s.now_ms ? due : s.now_ms + 1;
	post(g.due_ms, (struct event){ .kind = EV_HEAD });
}

static void head_carries_out(void)
{
	_cleanup_free_ char *stop = NULL;
	bool start = false;
	int n;
	const struct round_order *o = round_orders(g.round, &n);

	for (int i = 0; i < n; i++)
		head_does(&o[i], &start, &stop);
	if (start)
		head_starts();
	head_waits();
}

static void head_posts(struct shost *h, enum host_event event, uint64_t round)
{
	int r = round_hear(g.round, h->number, event, round, s.now_ms);

	if (r < 0)
		wrong("%s says %s, which it may not", h->name, host_event_name(event));
	if (!r)
		head_carries_out();
}

static void head_looks(const struct event *e)
{
	struct lease_held *over;

	if (e->at_ms != g.due_ms)
		return;
	g.due_ms = UINT64_MAX;
	while ((over = lease_over(&g.leases, s.now_ms)))
		head_posts((void *)((char *)over - offsetof(struct shost, held)), HOST_EV_LOST, 0);
	round_time(g.round, s.now_ms);
	head_carries_out();
}

static void head_hears_join(struct shost *h, const json_t *p)
{
	const json_t *last = json_get_object(p, "last");
	int replicas =
		(int)json_get_int(json_array_get(json_get_array(p, "roles"), 0), "replicas", 0);
	char agent[32];
	const struct round_join join = { .run = json_get_string(p, "run", ""),
		.agent = agent,
		.boot = "b",
		.name = h->name,
		.digest = g.digest,
		.node_rank = -1,
		.known_round = (uint64_t)json_get_int(p, "known_round", 0),
		.last_round = (uint64_t)json_get_int(last, "round", 0),
		.last_rank = (int)json_get_int(last, "group_rank", -1),
		.replicas = &replicas };

	if (json_object_get(p, "settings"))
		wrong("a Join has settings that the head knows");
	snprintf(agent, sizeof(agent), "%llu", (unsigned long long)h->agent);
	snprintf(g.cause, sizeof(g.cause), "host %s has joined", h->name);
	g.joining = h;
	if (round_join(g.round, &join, s.now_ms) < 0)
		wrong("%s cannot join", h->name);
	head_carries_out();
	g.joining = NULL;
}

/* A worker has failed: another round begins. */
static void head_hears_report(struct shost *h, const json_t *p)
{
	const json_t *failure = json_get_object(p, "failure");

	if (!failure || round_state(g.round) != ROUND_RUNNING ||
		(uint64_t)json_get_int(p, "round", 0) != round_number(g.round))
		return;
	json_decref(g.failure);
	g.failure = json_deep_copy(failure);
	g.restarts++;
	g.why = "failure";
	s.tally.failures++;
	snprintf(g.cause, sizeof(g.cause), "worker:%d on %s: %s; restart %d of 1000000",
		h->first_rank, h->name, json_get_string(failure, "message", ""), g.restarts);
	round_restart(g.round, chance(2) * 1000, s.now_ms);
	head_carries_out();
}

static void head_hears(struct shost *h, const char *method, const json_t *p)
{
	static const struct {
		const char *method;
		enum host_event event;
	} events[] = { { "Prepared", HOST_EV_PREPARED }, { "Unable", HOST_EV_UNABLE },
		{ "Started", HOST_EV_STARTED }, { "Gone", HOST_EV_STOPPED },
		{ "Leave", HOST_EV_LEAVE }, { "Bye", HOST_EV_BYE } };
	uint64_t round = (uint64_t)json_get_int(p, "round", 0);
	size_t i = 0;

	if (!strcmp(method, "Join")) {
		head_hears_join(h, p);
		return;
	}
	if (h->number < 0 || h->member_session != h->session)
		return;
	if (!strcmp(method, "Report")) {
		head_hears_report(h, p);
		return;
	}
	if (!strcmp(method, "Prepared") && json_get_string(p, "master_addr", NULL)) {
		free(h->master_addr);
		h->master_addr = strdup(json_get_string(p, "master_addr", ""));
	}
	while (i < 6 && strcmp(events[i].method, method) != 0)
		i++;
	if (i < 6)
		head_posts(h, events[i].event, round);
	else if (strcmp(method, "Deputy") != 0)
		wrong("the head hears %s", method);
}

/* --- a member --- */

static void member_posts(struct shost *h, enum member_event e);

/* Work under way ends after least_ms to most_ms, unless something else begins. */
static void member_begins(
	struct shost *h, enum event_kind kind, uint32_t least_ms, uint32_t most_ms)
{
	post(s.now_ms + between(least_ms, most_ms),
		(struct event){ .kind = kind, .host = host_index(h), .of = ++h->work });
}

static void member_joins(struct shost *h)
{
	const struct message_join j = { .spec = g.spec,
		.run = h->run,
		.address = h->name,
		.settings = g.digest,
		.known_round = h->known_round,
		.last_round = h->last_round,
		.last_rank = h->last_rank,
		.attempts = h->attempt + 1,
		.answered_ms = h->answered_ms ? (int64_t)(s.now_ms - h->answered_ms) : SPEC_UNSET };

	lease_begin(&h->lease, LEASE, s.now_ms);
	send(h, MEMBER, "Join", message_join(&j));
}

static void member_rejoins(struct shost *h)
{
	if (h->linked)
		post(s.now_ms,
			(struct event){
				.kind = EV_LINKED, .host = host_index(h), .of = h->connection });
	else if (!h->connecting)
		connect_link(h, 1);
}

static void member_prepares(struct shost *h)
{
	if (chance(10000) == 0)
		member_posts(h, MEMBER_EV_FAILED);
	else if (chance(100000) == 0)
		member_begins(h, EV_READY, 50000, 100000); /* too late, perhaps */
	else
		member_begins(h, EV_READY, 5, 500);
}

static void member_goes(struct shost *h)
{
	send(h, MEMBER, "Bye", json_object());
	h->alive = h->linked = false; /* what it has sent arrives */
	post(s.now_ms + between(2000, 30000),
		(struct event){ .kind = EV_BORN, .host = host_index(h) });
}

static void member_acts(struct shost *h, enum member_action a)
{
	static const struct error unable = { .text = "the port 29500 is in use", .field = "" };

	switch (a) {
	case MEMBER_DO_NOTHING:
		break;
	case MEMBER_DO_JOIN:
		member_joins(h);
		break;
	case MEMBER_DO_REJOIN:
		member_rejoins(h);
		break;
	case MEMBER_DO_PREPARE:
		member_prepares(h);
		break;
	case MEMBER_DO_SAY_PREPARED:
		send(h, MEMBER, "Prepared",
			message_prepared(h->round, NULL, h->master ? h->name : NULL, 29500));
		break;
	case MEMBER_DO_SAY_UNABLE:
		send(h, MEMBER, "Unable", message_unable(h->round, &unable));
		break;
	case MEMBER_DO_SPAWN:
		h->last_round = h->round;
		h->last_rank = h->group_rank;
		workers_live(h);
		member_begins(h, EV_STARTED, 5, 500);
		break;
	case MEMBER_DO_SAY_STARTED:
		send(h, MEMBER, "Started",
			message_started(h->round, INT64_C(1764000000000000) + (int64_t)s.now_ms));
		break;
	case MEMBER_DO_STOP:
		member_begins(h, EV_DEAD, 5, 500);
		break;
	case MEMBER_DO_SAY_STOPPED:
		send(h, MEMBER, "Gone", message_gone(h->round, json_array()));
		break;
	case MEMBER_DO_KILL:
		workers_die(h);
		member_begins(h, EV_DEAD, 1, 1);
		break;
	case MEMBER_DO_SAY_LEAVE:
		send(h, MEMBER, "Leave", message_leave("the host is to be repaired"));
		break;
	case MEMBER_DO_SAY_BYE:
		member_goes(h);
		break;
	}
}

static void member_posts(struct shost *h, enum member_event e)
{
	struct member_change c;
	int r = member_change(h->state, e, h->leaving, &c);

	if (r < 0)
		wrong("%s, which is %s: %s", h->name, member_state_name(h->state),
			member_event_name(e));
	h->leaving |= e == MEMBER_EV_LEAVE;
	if (r)
		return;
	h->state = c.next;
	if (h->worker && !member_has_workers(h->state))
		wrong("%s has workers in state %s", h->name, member_state_name(h->state));
	member_acts(h, c.action);
}

/* From the answer to its JOIN until its lease is over. */
static bool member_beats(const struct shost *h)
{
	return h->alive && h->state != MEMBER_AWAY && h->state != MEMBER_JOINING &&
	       h->state != MEMBER_FENCED && h->state != MEMBER_OVER;
}

static bool member_holds(struct shost *h)
{
	if (!member_beats(h) || lease_holds(&h->lease, s.now_ms))
		return true;
	member_posts(h, MEMBER_EV_LOST);
	return false;
}

static void member_arms_lease(struct shost *h)
{
	if (h->lease_due || h->lease.deadline_ms == UINT64_MAX)
		return;
	h->lease_due = true;
	post(h->lease.deadline_ms > s.now_ms ? h->lease.deadline_ms : s.now_ms,
		(struct event){ .kind = EV_LEASE, .host = host_index(h), .of = h->agent });
}

static void member_looks(struct shost *h)
{
	h->lease_due = false;
	if (member_beats(h) && member_holds(h))
		member_arms_lease(h);
}

static void member_hears_admitted(struct shost *h, const json_t *p)
{
	h->answered_ms = s.now_ms;
	h->known_round = (uint64_t)json_get_int(p, "known_round", 0);
	if (!lease_answer(&h->lease, h->lease.sent_ms, s.now_ms)) {
		member_posts(h, MEMBER_EV_LOST);
		return;
	}
	member_arms_lease(h);
	member_posts(h, MEMBER_EV_JOINED);
}

static void member_hears_assign(struct shost *h, const json_t *p)
{
	const json_t *place = json_array_get(json_get_array(p, "places"), 0);

	if (h->state != MEMBER_WAITING && h->state != MEMBER_PREPARING &&
		h->state != MEMBER_PREPARED)
		return;
	h->known_round = h->round = (uint64_t)json_get_int(p, "round", 0);
	h->group_rank = (int)json_get_int(p, "group_rank", 0);
	h->group_size = (int)json_get_int(p, "group_size", 0);
	h->world_size = (int)json_get_int(p, "world_size", 0);
	h->attempt = (int)json_get_int(p, "attempt", 0);
	h->master = json_get_bool(p, "master", false);
	h->first_rank = (int)json_get_int(place, "rank", -1);
	h->workers = (int)json_get_int(place, "replicas", 0);
	member_posts(h, MEMBER_EV_ASSIGN);
}

static void member_hears(struct shost *h, const char *method, const json_t *p)
{
	bool its = (uint64_t)json_get_int(p, "round", 0) == h->round;

	if (!strcmp(method, "Admitted")) {
		member_hears_admitted(h, p);
		return;
	}
	if (!member_holds(h))
		return;
	if (!strcmp(method, "Assign"))
		member_hears_assign(h, p);
	else if (!strcmp(method, "Start") && its && h->state == MEMBER_PREPARED)
		member_posts(h, MEMBER_EV_START);
	else if (!strcmp(method, "Stop") && its)
		member_posts(h, MEMBER_EV_STOP);
	else if (!strcmp(method, "Deputize"))
		send(h, MEMBER, "Deputy", message_deputy("10.20.30.40:41234"));
}

static void agent_is_born(struct shost *h)
{
	if (h->alive)
		return;
	h->agent++;
	h->alive = true;
	h->state = MEMBER_AWAY;
	h->leaving = h->lease_due = false;
	h->lease = (struct lease_member){ .deadline_ms = UINT64_MAX };
	h->known_round = h->last_round = h->answered_ms = h->round = 0;
	h->last_rank = -1;
	h->attempt = -1;
	h->work++;
	new_session(h);
	connect_link(h, between(1, 200));
}

/* word: its guard says so, else only its lease. */
static void agent_dies(struct shost *h, bool word)
{
	workers_die(h);
	if (word)
		ship(h, HEAD, (struct event){ .kind = EV_LAST_WORD, .n = h->session });
	h->alive = h->linked = false;
	h->work++;
	post(s.now_ms + between(2000, 30000),
		(struct event){ .kind = EV_BORN, .host = host_index(h) });
}

static void link_breaks(struct shost *h)
{
	if (h->alive && h->linked)
		connect_link(h, between(1, 1000));
}

/* --- beats, and what else happens by itself --- */

static void acknowledge(struct shost *h, enum side side, const struct event *e)
{
	struct error err = { 0 };

	if (link_window_receive(&h->window[side], 0, (int64_t)e->len, 0, &err) < 0)
		wrong("%s: %s", h->name, err.text);
}

/* A beat that was sent before the present JOIN belongs to no lease. */
static void beat_answered(struct shost *h, const struct event *e)
{
	acknowledge(h, MEMBER, e);
	if (!member_beats(h) || e->n < h->lease.sent_ms)
		return;
	h->answered_ms = s.now_ms;
	if (lease_answer(&h->lease, e->n, s.now_ms))
		member_arms_lease(h);
}

static void beat_came(struct shost *h, const struct event *e)
{
	const struct event answer = {
		.kind = EV_BEAT_ANSWERED, .n = e->n, .len = (size_t)h->window[HEAD].seen
	};

	if (h->head_session != h->session)
		return;
	acknowledge(h, HEAD, e);
	if (h->number >= 0 && h->member_session == h->session)
		lease_came(&g.leases, &h->held, s.now_ms);
	s.tally.beats++;
	if (is_near(h, MEMBER))
		beat_answered(h, &answer);
	else
		ship(h, MEMBER, answer);
}

static void beat_is_due(struct shost *h)
{
	const struct event beat = {
		.kind = EV_BEAT_CAME, .n = s.now_ms, .len = (size_t)h->window[MEMBER].seen
	};

	post(s.now_ms + LEASE / 5,
		(struct event){ .kind = EV_BEAT, .host = host_index(h), .of = h->connection });
	s.tally.beats++;
	if (is_near(h, HEAD))
		beat_came(h, &beat);
	else
		ship(h, HEAD, beat);
}

/* The head does not know the session any more: the member begins another one. */
static void link_is_forgotten(struct shost *h)
{
	new_session(h);
	if (h->state == MEMBER_AWAY)
		connect_link(h, 1);
	else
		member_posts(h, MEMBER_EV_LOST);
}

static void link_connects(struct shost *h)
{
	if (h->way[MEMBER].cut || h->way[HEAD].cut) {
		connect_link(h, 500);
		return;
	}
	if (h->fresh)
		h->head_session = h->session;
	h->fresh = false;
	if (h->head_session != h->session) {
		link_is_forgotten(h);
		return;
	}
	resume(h);
	beat_is_due(h);
	if (h->state == MEMBER_AWAY)
		member_posts(h, MEMBER_EV_LINKED);
}

/* Returns false where it is no event of members and their links. */
static bool member_event_happens(struct shost *h, const struct event *e)
{
	static const int ends[] = { [EV_READY] = MEMBER_EV_READY,
		[EV_STARTED] = MEMBER_EV_STARTED,
		[EV_DEAD] = MEMBER_EV_DEAD };

	switch (e->kind) {
	case EV_BYTES:
		bytes_arrive(h, e);
		return true;
	case EV_BEAT:
		beat_is_due(h);
		return true;
	case EV_BEAT_CAME:
		beat_came(h, e);
		return true;
	case EV_BEAT_ANSWERED:
		beat_answered(h, e);
		return true;
	case EV_CONNECTED:
		link_connects(h);
		return true;
	case EV_CLOSED:
		link_is_forgotten(h);
		return true;
	case EV_LINKED:
		if (h->state == MEMBER_AWAY)
			member_posts(h, MEMBER_EV_LINKED);
		return true;
	case EV_READY:
	case EV_STARTED:
	case EV_DEAD:
		if (e->kind == EV_DEAD)
			workers_die(h);
		member_posts(h, ends[e->kind]);
		return true;
	case EV_LEASE:
		member_looks(h);
		return true;
	default:
		return false;
	}
}

/* Whether e belongs to what is there no more. */
static bool is_void(const struct shost *h, const struct event *e)
{
	switch (e->kind) {
	case EV_BYTES:
	case EV_BEAT_CAME:
	case EV_LAST_WORD:
		return e->of != h->connection || (e->side == MEMBER && !h->alive);
	case EV_BEAT:
		return e->of != h->connection || !h->alive || !h->linked;
	case EV_BEAT_ANSWERED:
	case EV_CONNECTED:
	case EV_CLOSED:
	case EV_LINKED:
		return e->of != h->connection || !h->alive;
	case EV_READY:
	case EV_STARTED:
	case EV_DEAD:
		return e->of != h->work || !h->alive;
	case EV_LEASE:
		return e->of != h->agent;
	default:
		return false;
	}
}

static bool event_travels(enum event_kind kind)
{
	return kind == EV_BYTES || kind == EV_BEAT_CAME || kind == EV_BEAT_ANSWERED ||
	       kind == EV_CLOSED || kind == EV_LAST_WORD;
}

/* Events from outside that hosts meet: EV_BORN, EV_HEALED and EV_TROUBLE. */
static void outside_happens(const struct event *e);

static void simulate_event(void)
{
	struct event e = next_event();
	struct shost *h = &s.hosts[e.host];

	s.now_ms = e.at_ms;
	if (is_void(h, &e)) {
		free(e.bytes);
		return;
	}
	if (event_travels(e.kind) && is_held(h, &e))
		return;
	if (member_event_happens(h, &e)) {
		free(e.bytes);
		return;
	}
	if (e.kind == EV_HEAD)
		head_looks(&e);
	else if (e.kind == EV_RECORDED) {
		round_recorded(g.round, e.n, s.now_ms);
		head_carries_out();
	} else if (e.kind == EV_LAST_WORD) {
		if (h->number >= 0 && h->member_session == e.n)
			head_posts(h, HOST_EV_LOST, 0);
	} else {
		outside_happens(&e);
	}
}
