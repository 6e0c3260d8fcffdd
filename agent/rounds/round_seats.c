/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/numbers.h"
#include "agent/rounds/round_private.h"

#include <stdlib.h>
#include <string.h>

/*
 * Seats of the round that runs whose hosts are gone, where all their workers start again alone: the
 * other hosts go on, and hosts that wait take the seats, in the same round and with the same ranks.
 */

static bool seats_in(enum host_state state, unsigned states)
{
	return states >> state & 1;
}

enum {
	SEATS_WORK = 1 << HOST_STARTING | 1 << HOST_RUNNING,
	SEATS_ALIVE = SEATS_WORK | 1 << HOST_STOPPING,
	SEATS_PREPARE = 1 << HOST_ASSIGNED | 1 << HOST_PREPARED,
};

static bool seats_run(const struct round *r)
{
	return r->state == ROUND_STARTING || r->state == ROUND_RUNNING;
}

/* Whether the others go on without h. */
static bool seats_keep(const struct round *r, const struct round_host *h)
{
	const struct ranked_host ranked = { .replicas = h->replicas };

	if (!r->config.alone || !seats_run(r))
		return false;
	for (int role = 0; role < r->config.roles.n; role++)
		if (!r->config.alone[role] &&
			host_ranks_replicas(&ranked, &r->config.roles, role, h->group_rank))
			return false;
	return true;
}

static void seats_free(struct round_seat *s)
{
	free(s->name);
	free(s->replicas);
	free(s);
}

/* Makes the seat of h, which has left it or is about to. NULL without memory: no seat is kept. */
static struct round_seat *seats_new(struct round *r, const struct round_host *h)
{
	struct round_seat *s = calloc(1, sizeof(*s));
	size_t roles = (size_t)r->config.roles.n;

	if (!s)
		return NULL;
	s->name = strdup(h->name);
	s->replicas = calloc(2 * roles + 1, sizeof(*s->replicas));
	if (!s->name || !s->replicas) {
		seats_free(s);
		return NULL;
	}
	s->first_index = s->replicas + roles;
	memcpy(s->replicas, h->replicas, roles * sizeof(*s->replicas));
	memcpy(s->first_index, h->first_index, roles * sizeof(*s->first_index));
	s->node_rank = h->node_rank;
	s->group_rank = h->group_rank;
	s->first_rank = h->first_rank;
	s->workers = h->workers;
	s->host = h;
	LIST_INSERT_HEAD(&r->vacant, s, entry);
	r->n_vacant++;
	return s;
}

static void seats_remove(struct round *r, struct round_seat *s)
{
	LIST_REMOVE(s, entry);
	r->n_vacant--;
	seats_free(s);
}

void round_seats_drop(struct round *r)
{
	struct round_seat *s;

	while ((s = LIST_FIRST(&r->vacant))) {
		if (s->host)
			((struct round_host *)s->host)->seat = NULL;
		seats_remove(r, s);
	}
}

const struct round_seat *round_next_seat(const struct round *r, const struct round_seat *seat)
{
	return seat ? LIST_NEXT(seat, entry) : LIST_FIRST(&r->vacant);
}

static bool seats_same_claim(const struct round_host *a, const struct round_host *b)
{
	return a != b && a->last_round == b->last_round && a->last_rank == b->last_rank;
}

static void seats_forget_claim(struct round_host *h)
{
	h->last_round = 0;
	h->last_rank = -1;
}

void round_seats_claim(struct round *r, struct round_host *h)
{
	for (int i = 0; i < r->n_numbers && r->taken && h->last_round == r->round; i++)
		if (r->hosts[i] && r->hosts[i]->state != HOST_GONE &&
			seats_same_claim(r->hosts[i], h))
			seats_forget_claim(h);
}

/* h starts its workers in its seat. */
static void seats_taken(struct round *r, struct round_host *h)
{
	h->last_round = r->round;
	h->last_rank = h->group_rank;
	for (int i = 0; i < r->n_numbers; i++)
		if (r->hosts[i] && seats_same_claim(r->hosts[i], h))
			seats_forget_claim(r->hosts[i]);
	round_note_seat(r, h->group_rank, h->parts);
	r->taken = true;
	seats_remove(r, h->seat);
	h->seat = NULL;
}

void round_seats_follow(
	struct round *r, struct round_host *h, enum host_state before, uint64_t now_ms)
{
	struct round_seat *s;

	if (seats_in(before, SEATS_WORK) && !seats_in(h->state, SEATS_WORK) && seats_keep(r, h))
		h->seat = seats_new(r, h);
	s = h->seat;
	if (!s || h->state == HOST_STOPPING || seats_in(h->state, SEATS_PREPARE))
		return;
	if (h->state == HOST_STARTING) {
		seats_taken(r, h);
		return;
	}
	h->seat = NULL;
	s->host = NULL;
	s->recording = s->recorded = false;
	r->offers = true;
	if (!seats_in(before, SEATS_ALIVE)) {
		h->group_rank = -1;
		h->workers = 0;
		return;
	}
	s->since_ms = now_ms;
	r->record_due = true;
	round_order(r, ROUND_ORDER_VACATE, ROUND_WHY_NONE, h);
}

/* --- who takes which --- */

static bool seats_fit(const struct round *r, const struct round_seat *s, const struct round_host *h)
{
	const char *parts = r->seat_parts[s->group_rank];

	if (h->node_rank != s->node_rank ||
		memcmp(h->replicas, s->replicas, (size_t)r->config.roles.n * sizeof(int)) != 0)
		return false;
	return r->config.segment == 1 || (parts && !topology_compare(h->parts, parts, 1));
}

/* Whether h and the host that left the seat share the first depth parts of their topologies. Above
 * TOPOLOGY_PARTS_MAX: whether h had the seat before. */
static bool seats_near(
	const struct round *r, const struct round_seat *s, const struct round_host *h, int depth)
{
	const char *parts = r->seat_parts[s->group_rank];

	if (depth > TOPOLOGY_PARTS_MAX)
		return h->last_round == r->round && h->last_rank == s->group_rank;
	return !depth || (parts && h->parts && !topology_compare(h->parts, parts, depth));
}

static void seats_give(struct round *r, struct round_seat *s, struct round_host *h, uint64_t now_ms)
{
	h->seat = s;
	s->host = h;
	s->prepared_by_ms = now_ms + r->config.prepare_timeout_ms;
	h->round = r->round;
	h->group_rank = s->group_rank;
	h->first_rank = s->first_rank;
	h->workers = s->workers;
	memcpy(h->first_index, s->first_index, (size_t)r->config.roles.n * sizeof(int));
	round_host_change(r, h, HOST_EV_ASSIGN, ROUND_WHY_NONE, now_ms);
}

/* Of the n hosts in r->chosen the first to come that still waits and may have the seat. */
static struct round_host *seats_find(
	const struct round *r, const struct round_seat *s, int n, int depth)
{
	struct round_host *best = NULL;

	for (int i = 0; i < n; i++) {
		struct round_host *h = r->chosen[i];

		if (h->state == HOST_WAITING && (!best || h->turn < best->turn) &&
			seats_fit(r, s, h) && seats_near(r, s, h, depth))
			best = h;
	}
	return best;
}

static int seats_there(const struct round *r)
{
	return r->n_in[HOST_STARTING] + r->n_in[HOST_RUNNING] + r->n_in[HOST_ASSIGNED] +
	       r->n_in[HOST_PREPARED];
}

/* Gives vacant seats to hosts that wait; kept_out: also to those that are kept out. */
static void seats_offer(struct round *r, bool kept_out, uint64_t now_ms)
{
	int n = 0;

	for (int i = 0; i < r->n_numbers; i++) {
		struct round_host *h = r->hosts[i];

		if (h && h->state == HOST_WAITING && (kept_out || !h->kept_until_ms))
			r->chosen[n++] = h;
	}
	for (int depth = TOPOLOGY_PARTS_MAX + 1; depth >= 0 && n; depth--) {
		struct round_seat *s;

		LIST_FOREACH (s, &r->vacant, entry) {
			struct round_host *h = s->host ? NULL : seats_find(r, s, n, depth);

			if (h)
				seats_give(r, s, h, now_ms);
		}
	}
}

/* --- time --- */

static uint64_t seats_late_ms(const struct round *r, const struct round_seat *s)
{
	return s->late || s->host ? ROUND_NEVER : later_ms(s->since_ms, r->config.join_timeout_ms);
}

uint64_t round_seats_due_ms(const struct round *r)
{
	const struct round_seat *s;
	uint64_t due = ROUND_NEVER;

	LIST_FOREACH (s, &r->vacant, entry) {
		bool prepares = s->host && s->host->state == HOST_ASSIGNED;

		due = min_ms(due, prepares ? s->prepared_by_ms : seats_late_ms(r, s));
	}
	return due;
}

int round_seats_late(const struct round *r)
{
	const struct round_seat *s;
	int n = 0;

	LIST_FOREACH (s, &r->vacant, entry)
		n += s->late && !s->host;
	return n;
}

static void seats_check_times(struct round *r, uint64_t now_ms)
{
	struct round_seat *s;
	bool late = false;

	LIST_FOREACH (s, &r->vacant, entry) {
		if (s->host && s->host->state == HOST_ASSIGNED && s->prepared_by_ms <= now_ms)
			round_host_change(
				r, r->hosts[s->host->number], HOST_EV_LATE, ROUND_WHY_LATE, now_ms);
		if (seats_late_ms(r, s) <= now_ms)
			s->late = late = true;
	}
	if (late)
		round_order(r, ROUND_ORDER_LATE, ROUND_WHY_NONE, NULL);
}

static void seats_record(struct round *r)
{
	struct round_seat *s;

	if (!r->config.records || r->recording || !r->record_due)
		return;
	r->recording = true;
	r->record_due = false;
	LIST_FOREACH (s, &r->vacant, entry)
		s->recording = s->host && s->host->state == HOST_PREPARED;
	round_order(r, ROUND_ORDER_RECORD, ROUND_WHY_NONE, NULL);
}

void round_seats_recorded(struct round *r)
{
	struct round_seat *s;

	r->recording = false;
	LIST_FOREACH (s, &r->vacant, entry) {
		s->recorded |= s->recording;
		s->recording = false;
	}
}

/* Starts hosts that are prepared, once the store knows of them. */
static void seats_start(struct round *r, uint64_t now_ms)
{
	for (struct round_seat *s = LIST_FIRST(&r->vacant), *next; s; s = next) {
		next = LIST_NEXT(s, entry);
		if (!s->host || s->host->state != HOST_PREPARED)
			continue;
		r->record_due |= !s->recorded && !s->recording;
		if (r->config.records && !s->recorded)
			continue;
		round_host_change(
			r, r->hosts[s->host->number], HOST_EV_START, ROUND_WHY_NONE, now_ms);
	}
}

void round_seats_settle(struct round *r, uint64_t now_ms)
{
	if (!r->n_vacant) {
		r->short_ms = ROUND_NEVER;
		return;
	}
	seats_check_times(r, now_ms);
	if (r->offers && !r->held) {
		r->offers = false;
		seats_offer(r, false, now_ms);
		if (seats_there(r) < r->config.min)
			seats_offer(r, true, now_ms);
	}
	if (!r->held)
		seats_start(r, now_ms);
	seats_record(r);
	if (seats_there(r) >= r->config.min)
		r->short_ms = ROUND_NEVER;
	else if (r->short_ms == ROUND_NEVER)
		r->short_ms = now_ms;
}
