/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The host of tests/unit/tenure_world.h that leads. */

#include "tests/unit/tenure_world.h"

static void lead_posts(struct whost *a, enum lead_event e);
static void member_posts(struct whost *a, enum member_event e);

/* --- how long it leads --- */

static uint64_t head_acked_ms(const struct head *h)
{
	uint64_t acked_ms = TENURE_NEVER;

	for (int i = 0; i < HOSTS; i++)
		if (h->may >> i & 1 && h->of[i].acked_ms < acked_ms)
			acked_ms = h->of[i].acked_ms;
	return acked_ms;
}

static uint64_t head_until_ms(const struct head *h)
{
	return tenure_until_ms(&h->tenure, head_acked_ms(h));
}

/* Whether its agent is at work, and leads. It looks at the time before all else. */
static bool head_works(struct whost *a)
{
	if (a->life != AGENT_UP || !a->h.round)
		return false;
	if (w.now >= head_until_ms(&a->h))
		lead_posts(a, LEAD_EV_LOST);
	return a->h.round;
}

/* --- orders --- */

static int host_of(const struct head *h, int number)
{
	for (int i = 0; i < HOSTS; i++)
		if (h->of[i].number == number)
			return i;
	wrong("an order for an unknown host");
	return 0;
}

static void head_starts(const struct head *h, int i, uint64_t round)
{
	uint64_t key = round_key(h->key, round);

	if (w.now >= head_until_ms(h))
		wrong("a round is started by a head that leads no more");
	if (w.started[w.n_started].key != key) {
		check_ranks(h->round);
		w.n_started = (w.n_started + 1) % STARTS;
		w.started[w.n_started].key = key;
		w.started[w.n_started].hosts = 0;
		heads_alone += !tenure_confirmed(&h->tenure, w.now);
	}
	w.started[w.n_started].hosts |= 1u << i;
	if (w.h[i].state == MEMBER_PREPARING && w.h[i].round == round && w.h[i].from == h->key)
		wrong("START although a host is not prepared");
}

static void head_drops(struct head *h, int i)
{
	uint64_t key = w.h[i].worker >> 32;

	/* A head that leads no more may not know what its members do now. */
	if (key && (key == h->key || tenure_confirmed(&h->tenure, w.now)))
		wrong("a host is given up although its worker lives");
	lease_remove(&h->leases, &h->of[i].held);
	h->of[i].number = -1;
}

static int head_admits(struct head *h, const struct round_order *o, const struct message *join)
{
	int i = round_host(h->round, o->host)->name[1] - '0';
	struct known *k = &h->of[i];

	k->number = o->host;
	k->session = join->session;
	lease_add(&h->leases, &k->held, w.now);
	memset(k->answer_ms, 0, sizeof(k->answer_ms));
	k->answer_ms[1] = k->admitted_ms = w.now;
	return i;
}

/* The hosts that are about to start, with those that run. */
static struct state_key head_next_state(const struct whost *a, uint64_t round)
{
	const struct head *h = &a->h;
	struct state_key s = { .round = round, .head = host_index(a) };
	unsigned may_run = 1u << HOST_PREPARED | 1u << HOST_STARTING | 1u << HOST_RUNNING |
			   1u << HOST_STOPPING;

	for (int i = 0; i < HOSTS; i++) {
		const struct round_host *rh = round_host(h->round, h->of[i].number);

		if (!rh || rh->round != round || !(may_run >> rh->state & 1))
			continue;
		s.hosts |= 1u << i;
		s.rank[i] = rh->group_rank;
		s.agent[i] = atoi(rh->agent + 1);
	}
	return s;
}

static void head_will_record(struct whost *a, uint64_t round)
{
	struct head *h = &a->h;

	h->record = head_next_state(a, round);
	h->record_ms = w.now;
	h->may |= h->record.hosts;
	h->must &= h->record.hosts;
}

static void head_order(struct whost *a, const struct round_order *o, const struct message *join)
{
	static const int orders[] = { [ROUND_ORDER_ASSIGN] = MEMBER_EV_ASSIGN,
		[ROUND_ORDER_START] = MEMBER_EV_START,
		[ROUND_ORDER_TAKE] = MEMBER_EV_START,
		[ROUND_ORDER_STOP] = MEMBER_EV_STOP };
	struct message m = { .kind = SAYS_ORDER, .number = (uint32_t)o->round, .key = a->h.key };
	struct head *h = &a->h;
	int i;

	switch (o->what) {
	case ROUND_ORDER_ADMIT:
		i = head_admits(h, o, join);
		m.kind = SAYS_JOINED;
		break;
	case ROUND_ORDER_ASSIGN:
	case ROUND_ORDER_START:
	case ROUND_ORDER_TAKE:
	case ROUND_ORDER_STOP:
		i = host_of(h, o->host);
		m.what = orders[o->what];
		m.rank = round_host(h->round, o->host)->group_rank;
		if (o->what == ROUND_ORDER_START || o->what == ROUND_ORDER_TAKE)
			head_starts(h, i, o->round);
		seats_taken += o->what == ROUND_ORDER_TAKE;
		break;
	case ROUND_ORDER_DROP:
		head_drops(h, host_of(h, o->host));
		return;
	case ROUND_ORDER_RECORD:
		head_will_record(a, o->round);
		return;
	case ROUND_ORDER_RUNNING:
		rounds_run++;
		return;
	case ROUND_ORDER_REFUSE:
		wrong("a host is refused");
		return;
	default:
		return;
	}
	m.session = h->of[i].session;
	send(&w.link[i][host_index(a)].down, m);
}

/* Carries out what the last call wants; join: that it was about. */
static void head_orders(struct whost *a, const struct message *join)
{
	int n;
	const struct round_order *o = round_orders(a->h.round, &n);

	for (int i = 0; i < n; i++)
		head_order(a, &o[i], join);
}

/* --- its begin and end --- */

static struct round_join join_of(int i, int agent)
{
	static const int one = 1;
	static char names[HOSTS][3][16];

	snprintf(names[i][0], sizeof(names[i][0]), "run%d", i);
	snprintf(names[i][1], sizeof(names[i][1]), "n%d", i);
	snprintf(names[i][2], sizeof(names[i][2]), "a%d", agent);
	return (struct round_join){ .run = names[i][0],
		.agent = names[i][2],
		.boot = "b",
		.name = names[i][1],
		.digest = "d",
		.node_rank = -1,
		.replicas = &one };
}

static void head_lost(struct whost *a, int i)
{
	if (round_hear(a->h.round, a->h.of[i].number, HOST_EV_LOST, 0, w.now))
		wrong("a host cannot be lost");
	head_orders(a, NULL);
}

/* The store has said so to a request that was sent then. */
static void head_begins(struct whost *a, uint64_t sent_ms)
{
	struct tenure_times times = { .lease_ms = LEASE, .store_loss_ms = w.loss_ms };
	static const bool everywhere = false, alone = true;
	struct head *h = &a->h;
	struct round_config config = { .min = MIN,
		.max = MAX,
		.last_call_ms = LEASE,
		.join_timeout_ms = UINT64_MAX,
		.prepare_timeout_ms = 2 * STEP,
		.join_delay_ms = STEP,
		.lease_ms = LEASE,
		.on_join = w.on_join,
		.roles = { 1, &everywhere },
		.digest = "d",
		.alone = w.alone ? &alone : NULL,
		.round = a->said.round,
		.records = true };

	*h = (struct head){ .key = ++w.heads,
		.lead_rev = a->leads.rev,
		.state = a->said,
		.may = a->said.hosts,
		.must = a->said.hosts,
		.keep_ms = w.now,
		.leases = { .lease_ms = LEASE } };
	h->round = round_new(&config, w.now);
	if (!h->round)
		wrong("no memory");
	heads_led++;
	tenure_begin(&h->tenure, &times);
	tenure_kept(&h->tenure, sent_ms, w.ttl_ms);
	tenure_past_begin(&h->past, &times, w.now);
	for (int i = 0; i < HOSTS; i++) {
		struct round_join past = join_of(i, a->said.agent[i]);

		h->of[i].number = -1;
		w.link[i][host_index(a)] = (struct link){ 0 };
		if (!(a->said.hosts >> i & 1))
			continue;
		past.known_round = past.last_round = a->said.round;
		past.last_rank = a->said.rank[i];
		h->of[i].number = round_remember(h->round, &past);
	}
	for (int i = 0; i < HOSTS; i++)
		if (h->of[i].number >= 0 && a->dead[i] >= a->said.agent[i])
			head_lost(a, i);
}

/* A request that is given up may have happened, or happen yet. */
static void request_ends(struct whost *a, struct request *q)
{
	if ((q->kind == REQUEST_CLAIM || q->kind == REQUEST_RECORD) && !q->happened)
		a->late = *q;
	q->kind = REQUEST_NONE;
}

/* Its messages may arrive yet; those to it do not. */
static void head_ends(struct whost *a)
{
	a->h.round = round_free(a->h.round);
	for (int i = 0; i < HOSTS; i++)
		w.link[i][host_index(a)].up.n = 0;
	request_ends(a, &a->keep);
	request_ends(a, &a->ask);
}

/* --- members --- */

static void head_takes_join(struct whost *a, int i, const struct message *m)
{
	struct round_join join = join_of(i, m->agent);

	join.known_round = m->known_round;
	join.last_round = m->last_round;
	join.last_rank = m->rank;
	if (a->h.state.hosts >> i & 1)
		tenure_past_heard(&a->h.past, w.now - m->age_ms);
	if (round_join(a->h.round, &join, w.now) < 0)
		wrong("a JOIN fails");
	head_orders(a, m);
}

/* No host gets in while the store may have let another head lead. */
static void head_takes_joins(struct whost *a)
{
	for (int i = 0; i < HOSTS; i++) {
		struct message m = a->h.of[i].join;

		if (m.kind == SAYS_NOTHING || !tenure_confirmed(&a->h.tenure, w.now))
			continue;
		a->h.of[i].join.kind = SAYS_NOTHING;
		head_takes_join(a, i, &m);
	}
}

static void head_hears_beat(struct whost *a, int i, const struct message *m)
{
	struct known *k = &a->h.of[i];
	uint64_t acked_ms = m->answered ? k->answer_ms[m->answered % BEATS] : 0;

	if (acked_ms > k->acked_ms)
		k->acked_ms = acked_ms;
	k->answer_ms[m->number % BEATS] = w.now;
	lease_came(&a->h.leases, &k->held, w.now);
	send(&w.link[i][host_index(a)].down,
		(struct message){
			.kind = SAYS_ANSWER, .session = m->session, .number = m->number });
}

static void head_hears(struct whost *a, int i, const struct message *m)
{
	struct known *k = &a->h.of[i];

	if (m->kind == SAYS_JOIN) {
		k->join = *m;
		head_takes_joins(a);
	} else if (k->join.kind == SAYS_JOIN && m->session == k->join.session) {
		if (m->kind == SAYS_GUARD)
			k->join.kind = SAYS_NOTHING;
	} else if (k->number < 0 || k->session != m->session) {
		if (m->kind != SAYS_GUARD)
			send(&w.link[i][host_index(a)].down,
				(struct message){ .kind = SAYS_UNKNOWN, .session = m->session });
	} else if (m->kind == SAYS_BEAT) {
		head_hears_beat(a, i, m);
	} else {
		int what = m->kind == SAYS_GUARD ? HOST_EV_LOST : m->what;

		if (what == HOST_EV_PREPARED && k->acked_ms < k->admitted_ms)
			k->acked_ms = k->admitted_ms;
		if (round_hear(a->h.round, k->number, what, m->number, w.now) < 0)
			wrong("a host says what none may say");
		head_orders(a, NULL);
	}
}

/* Hosts of the last round that have not come, then leases, then what is due. */
static void head_looks(struct whost *a)
{
	struct head *h = &a->h;
	struct lease_held *over;

	head_takes_joins(a);
	for (int i = 0; i < HOSTS; i++)
		if (h->of[i].number >= 0 &&
			round_host(h->round, h->of[i].number)->state == HOST_MISSING &&
			tenure_past_gone_ms(&h->past, i == h->state.head) <= w.now)
			head_lost(a, i);
	while ((over = lease_over(&h->leases, w.now))) {
		struct known *k = (void *)((char *)over - offsetof(struct known, held));

		head_lost(a, (int)(k - h->of));
	}
	round_time(h->round, w.now);
	head_orders(a, NULL);
	if (round_due_ms(h->round) <= w.now)
		wrong("what was due is due still");
}

/* --- the store --- */

static void request_sends(struct whost *a, struct request *q, struct request what)
{
	*q = what;
	q->agent = a->agent;
	q->sent_ms = w.now;
}

/* The store's state is this for certain. */
static void head_knows(struct head *h, const struct state_key *state)
{
	h->state = *state;
	h->may = h->must = state->hosts;
	h->unsure = false;
	if (!h->record.round)
		return;
	h->may |= h->record.hosts;
	h->must &= h->record.hosts;
}

/* Hosts of each round that the store may hold need not wait for it. */
static void head_records(struct whost *a)
{
	struct head *h = &a->h;

	if (round_state(h->round) == ROUND_RECORDING && h->wrote && !(h->record.hosts & ~h->must)) {
		round_recorded(h->round, h->record.round, w.now);
		head_orders(a, NULL);
	}
	if (!h->record.round || a->ask.kind || h->record_ms > w.now)
		return;
	h->record_ms = w.now + STEP;
	request_sends(a, &a->ask,
		(struct request){ .kind = REQUEST_RECORD,
			.lead_rev = h->lead_rev,
			.state_rev = h->state.rev,
			.state = h->record });
}

static enum tenure_right head_checks_keys(
	const struct whost *a, const struct lead_key *lead, const struct state_key *found)
{
	const struct head *h = &a->h;
	bool own = lead->host == host_index(a) && lead->agent == a->agent;
	/* A state that this head wrote, or that it began with. */
	bool known = found->rev == h->state.rev ||
		     (found->rev && h->unsure && found->head == host_index(a));
	struct tenure_keys keys = {
		.lead = lead->rev <= h->gone_rev ? TENURE_NONE
			: own			 ? TENURE_KNOWN
						 : TENURE_OTHER,
		.state = known	      ? TENURE_KNOWN
			 : found->rev ? TENURE_OTHER
				      : TENURE_NONE,
	};

	return tenure_check(&keys);
}

/* The last round of each host that may be there yet. */
static struct state_key head_state_now(const struct whost *a)
{
	const struct head *h = &a->h;
	struct state_key s = { .round = round_number(h->round), .head = host_index(a) };

	for (int i = 0; i < HOSTS; i++) {
		const struct round_host *rh = round_host(h->round, h->of[i].number);

		if (!rh || rh->state == HOST_GONE || !rh->last_round)
			continue;
		s.hosts |= 1u << i;
		s.rank[i] = rh->last_rank;
		s.agent[i] = atoi(rh->agent + 1);
	}
	return s;
}

/* No host leads in the store: this head does so again, while the others follow it. */
static void head_reclaims(struct whost *a, const struct state_key *found, bool renewed)
{
	struct state_key state = { 0 };

	if (!a->h.regains) {
		tenure_gone(&a->h.tenure, w.now);
		request_ends(a, &a->keep);
	}
	a->h.regains = true;
	if (a->ask.kind)
		return;
	if (renewed) /* hosts of the round before may have to be waited for yet */
		state = a->h.wrote ? head_state_now(a) : a->h.state;
	request_sends(a, &a->ask,
		(struct request){ .kind = REQUEST_CLAIM, .state_rev = found->rev, .state = state });
}

/* Whether the lead that was found is its own. */
static bool head_is_lead(
	struct whost *a, const struct lead_key *lead, const struct state_key *found)
{
	enum tenure_right verdict = head_checks_keys(a, lead, found);

	if (verdict == TENURE_OVER)
		tenure_lost(&a->h.tenure);
	else if (verdict == TENURE_LEADS)
		a->h.lead_rev = lead->rev;
	else
		head_reclaims(a, found, verdict == TENURE_RECLAIM_ALL);
	return verdict == TENURE_LEADS;
}

/* A watch says so. */
static void head_hears_of_removal(struct whost *a)
{
	a->h.gone_rev = store.rev;
	head_is_lead(a, &store.lead, &store.state);
}

static void head_hears_kept(struct whost *a)
{
	struct request q = a->keep;

	a->keep.kind = REQUEST_NONE;
	if (q.done)
		tenure_kept(&a->h.tenure, q.sent_ms, w.ttl_ms);
	else
		head_is_lead(a, &q.lead, &q.found);
}

static bool head_same_record(const struct state_key *a, const struct state_key *b)
{
	return a->round == b->round && a->hosts == b->hosts &&
	       !memcmp(a->rank, b->rank, sizeof(a->rank)) &&
	       !memcmp(a->agent, b->agent, sizeof(a->agent));
}

static void head_hears_asked(struct whost *a)
{
	struct head *h = &a->h;
	struct request q = a->ask;

	a->ask.kind = REQUEST_NONE;
	if (!head_is_lead(a, &q.lead, &q.found))
		return;
	if (q.done && q.kind == REQUEST_RECORD && head_same_record(&q.state, &h->record))
		h->record.round = 0;
	head_knows(h, &q.found);
	h->regains = false;
	if (q.kind == REQUEST_CLAIM && q.done)
		tenure_kept(&h->tenure, q.sent_ms, w.ttl_ms);
	if (q.kind == REQUEST_RECORD && q.done) {
		h->wrote = true;
		/* In a round that runs, only the newest record counts. */
		if (h->record.round && round_state(h->round) != ROUND_RECORDING)
			return;
		round_recorded(h->round, q.state.round, w.now);
		head_orders(a, NULL);
	}
}

/* The requests of a head to the store, and its steps without an answer. */
static void head_asks(struct whost *a)
{
	struct head *h = &a->h;

	if (a->keep.kind && a->keep.sent_ms + STEP <= w.now)
		request_ends(a, &a->keep);
	if (a->ask.kind && a->ask.sent_ms + STEP <= w.now) {
		h->unsure |= a->ask.kind == REQUEST_RECORD;
		request_ends(a, &a->ask);
	}
	if (h->regains && !a->ask.kind)
		request_sends(a, &a->ask, (struct request){ .kind = REQUEST_READ });
	if (!h->regains && !a->keep.kind && h->keep_ms <= w.now) {
		h->keep_ms = w.now + STEP;
		request_sends(a, &a->keep, (struct request){ .kind = REQUEST_KEEP });
	}
	head_records(a);
}
