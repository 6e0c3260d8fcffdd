/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/numbers.h"
#include "agent/rounds/round_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define H(name) (1u << HOST_##name)

struct round *round_new(const struct round_config *config, uint64_t now_ms)
{
	_cleanup_(round_freep) struct round *r = calloc(1, sizeof(*r));
	size_t roles = (size_t)config->roles.n;
	bool *first_only, *alone;

	if (!r)
		return NULL;
	r->config = *config;
	if (r->config.segment < 1)
		r->config.segment = 1;
	r->config.digest = strdup(config->digest);
	r->config.roles.first_only = first_only = calloc(roles + 1, sizeof(bool));
	r->config.alone = alone = config->alone ? calloc(roles + 1, sizeof(bool)) : NULL;
	r->world.roles = calloc(roles + 1, sizeof(int));
	LIST_INIT(&r->vacant);
	r->by_node_rank = calloc((size_t)config->max, sizeof(struct round_host *));
	if (!r->config.digest || !first_only || (config->alone && !alone) || !r->world.roles ||
		!r->by_node_rank || round_reserve(r) < 0)
		return NULL;
	memcpy(first_only, config->roles.first_only, roles * sizeof(bool));
	if (alone)
		memcpy(alone, config->alone, roles * sizeof(bool));
	r->began_ms = now_ms;
	r->round = r->last_round = r->known_round = config->round;
	r->patient = true;
	r->enough_ms = r->keep_due_ms = ROUND_NEVER;
	r->short_ms = now_ms;
	return TAKE_PTR(r);
}

struct round *round_free(struct round *r)
{
	if (!r)
		return NULL;
	round_seats_drop(r);
	for (int i = 0; i < r->n_numbers; i++) {
		round_leave_part(r, r->hosts[i]);
		round_host_free(r->hosts[i]);
	}
	for (int i = 0; i < r->size && r->seat_parts; i++)
		free(r->seat_parts[i]);
	chain_fini(&r->by_run);
	chain_fini(&r->parts);
	free((char *)r->config.digest);
	free((bool *)r->config.roles.first_only);
	free((bool *)r->config.alone);
	free(r->world.roles);
	free(r->by_node_rank);
	free(r->hosts);
	free(r->free_numbers);
	free(r->dropped);
	free(r->ranked);
	free(r->chosen);
	free(r->space);
	free(r->vacancies);
	free(r->spares);
	free(r->blocks);
	free(r->seat_parts);
	free(r->orders);
	free(r);
	return NULL;
}

/* How many hosts may have workers. */
static int round_alive(const struct round *r)
{
	return r->n_in[HOST_STARTING] + r->n_in[HOST_RUNNING] + r->n_in[HOST_STOPPING];
}

static int round_at_most_max(const struct round *r, int blocks)
{
	int hosts = blocks * r->config.segment;

	return hosts < r->config.max ? hosts : r->config.max;
}

static int round_able_of(const struct round *r, const int *blocks)
{
	int fit = round_at_most_max(r, blocks[ROUND_FIT]);

	return fit < r->config.min ? round_at_most_max(r, blocks[ROUND_ALL]) : fit;
}

/* How many of the hosts that wait may be in a round. */
static int round_able(const struct round *r)
{
	return round_able_of(r, r->blocks_waiting);
}

/* How many of those that wait or have workers. */
static int round_able_with_seated(const struct round *r)
{
	return round_able_of(r, r->blocks_here);
}

bool round_needs_all(const struct round *r)
{
	return round_at_most_max(r, r->blocks_waiting[ROUND_FIT]) < r->config.min;
}

/* When a round begins, where MIN hosts or more wait. */
static uint64_t round_begin_ms(const struct round *r)
{
	uint64_t wait =
		r->started || r->config.round ? r->config.join_delay_ms : r->config.last_call_ms;

	if (r->n_in[HOST_MISSING])
		return ROUND_NEVER;
	if (round_able(r) >= r->config.max || !r->patient || r->remembers)
		wait = 0;
	return max_ms(later_ms(r->enough_ms, wait), r->next_ms);
}

static uint64_t round_grow_ms(const struct round *r)
{
	int able = round_able_with_seated(r);

	if (able <= r->seats - round_seats_late(r) || r->saving ||
		r->config.on_join == ROUND_JOIN_WAITS)
		return ROUND_NEVER;
	if (able >= r->config.max)
		return r->waiting_ms;
	return later_ms(r->waiting_ms, r->config.join_delay_ms);
}

static uint64_t round_state_due_ms(const struct round *r)
{
	switch (r->state) {
	case ROUND_GATHERING:
		return round_able(r) < r->config.min
			       ? later_ms(r->short_ms, r->config.join_timeout_ms)
			       : round_begin_ms(r);
	case ROUND_PREPARING:
		return min_ms(r->recall_ms, r->prepared_by_ms);
	case ROUND_STARTING:
		return round_seats_due_ms(r);
	case ROUND_RUNNING:
		return min_ms(min_ms(round_grow_ms(r), round_seats_due_ms(r)),
			later_ms(r->short_ms, r->config.join_timeout_ms));
	case ROUND_BACKOFF:
		return r->next_ms;
	case ROUND_RECORDING:
	case ROUND_STOPPING:
	case ROUND_ENDING:
	case ROUND_CLOSING:
	case ROUND_ENDED:
	case ROUND_N_STATES:
		break;
	}
	return ROUND_NEVER;
}

uint64_t round_due_ms(const struct round *r)
{
	return min_ms(round_state_due_ms(r), r->keep_due_ms);
}

/* Notes since when there are enough hosts, or too few. */
static void round_count_waiting(struct round *r, uint64_t now_ms)
{
	if (round_able(r) < r->config.min) {
		r->remembers = r->remembers && r->n_in[HOST_MISSING];
		r->enough_ms = ROUND_NEVER;
		r->patient = true;
		if (r->short_ms == ROUND_NEVER)
			r->short_ms = now_ms;
	} else if (r->enough_ms == ROUND_NEVER) {
		r->enough_ms = now_ms;
		r->short_ms = ROUND_NEVER;
	}
}

static enum round_event round_preparing_event(struct round *r, uint64_t now_ms)
{
	if (now_ms >= r->prepared_by_ms)
		round_step_all(r, H(ASSIGNED), HOST_EV_LATE, ROUND_WHY_LATE, now_ms);
	if (r->n_in[HOST_ASSIGNED] + r->n_in[HOST_PREPARED] == r->seats)
		return r->n_in[HOST_ASSIGNED] ? ROUND_EV_N : ROUND_EV_READY;
	if (r->recall_ms == ROUND_NEVER)
		r->recall_ms = later_ms(now_ms, r->config.lease_ms / 5);
	return r->n_in[HOST_ASSIGNED] && now_ms < r->recall_ms ? ROUND_EV_N : ROUND_EV_SHORT;
}

/* Whether a host is gone whose seat is not kept, or no host is left. */
static bool round_is_short(const struct round *r)
{
	int alive = r->n_in[HOST_STARTING] + r->n_in[HOST_RUNNING];

	return !alive || alive + r->n_vacant < r->seats;
}

static enum round_event round_running_event(struct round *r, uint64_t now_ms)
{
	round_seats_settle(r, now_ms);
	if (round_is_short(r))
		return ROUND_EV_SHORT;
	if (r->state == ROUND_STARTING)
		return r->n_in[HOST_STARTING] ? ROUND_EV_N : ROUND_EV_STARTED;
	if (later_ms(r->short_ms, r->config.join_timeout_ms) <= now_ms)
		return ROUND_EV_TIMEOUT;
	return round_grow_ms(r) <= now_ms ? ROUND_EV_GROW : ROUND_EV_N;
}

/* The event that follows from the present state; ROUND_EV_N: none does. */
static enum round_event round_next_event(struct round *r, uint64_t now_ms)
{
	switch (r->state) {
	case ROUND_GATHERING:
		round_count_waiting(r, now_ms);
		if (round_state_due_ms(r) > now_ms)
			return ROUND_EV_N;
		return round_able(r) < r->config.min ? ROUND_EV_TIMEOUT : ROUND_EV_BEGIN;
	case ROUND_PREPARING:
		return round_preparing_event(r, now_ms);
	case ROUND_RECORDING:
		return r->n_in[HOST_PREPARED] < r->seats ? ROUND_EV_SHORT : ROUND_EV_N;
	case ROUND_STARTING:
	case ROUND_RUNNING:
		return round_running_event(r, now_ms);
	case ROUND_STOPPING:
	case ROUND_ENDING:
		return round_alive(r) ? ROUND_EV_N : ROUND_EV_STOPPED;
	case ROUND_BACKOFF:
		return r->next_ms <= now_ms ? ROUND_EV_DUE : ROUND_EV_N;
	case ROUND_CLOSING:
		return r->n_hosts ? ROUND_EV_N : ROUND_EV_EMPTY;
	case ROUND_ENDED:
	case ROUND_N_STATES:
		break;
	}
	return ROUND_EV_N;
}

static void round_start(struct round *r, uint64_t now_ms)
{
	r->last_seats = 0;
	for (int i = 0; i < r->n_numbers; i++) {
		struct round_host *h = r->hosts[i];

		if (h && h->state == HOST_PREPARED) {
			h->last_round = r->round;
			h->last_rank = h->group_rank;
			round_note_seat(r, h->group_rank, h->parts);
		}
	}
	r->started = true;
	r->remembers = false;
	r->last_round = r->round;
	round_step_all(r, H(PREPARED), HOST_EV_START, ROUND_WHY_NONE, now_ms);
}

static void round_stop(struct round *r, uint64_t now_ms)
{
	round_seats_drop(r);
	round_step_all(r, H(ASSIGNED) | H(PREPARED), HOST_EV_RECALL, ROUND_WHY_NONE, now_ms);
	round_step_all(r, H(STARTING) | H(RUNNING), HOST_EV_STOP, ROUND_WHY_NONE, now_ms);
}

static void round_act(struct round *r, enum round_action action, uint64_t now_ms)
{
	unsigned all = ((1u << HOST_N_STATES) - 1) & ~H(GONE);

	switch (action) {
	case ROUND_DO_NOTHING:
		break;
	case ROUND_DO_ASSIGN:
		round_assign(r, now_ms);
		break;
	case ROUND_DO_RECALL:
		round_step_all(
			r, H(ASSIGNED) | H(PREPARED), HOST_EV_RECALL, ROUND_WHY_NONE, now_ms);
		break;
	case ROUND_DO_RECORD:
		round_order(r, ROUND_ORDER_RECORD, ROUND_WHY_NONE, NULL);
		break;
	case ROUND_DO_START:
		round_start(r, now_ms);
		break;
	case ROUND_DO_TELL:
		round_order(r, ROUND_ORDER_RUNNING, ROUND_WHY_NONE, NULL);
		break;
	case ROUND_DO_SAVE:
		r->saving = true;
		round_order(r, ROUND_ORDER_SAVE, ROUND_WHY_NONE, NULL);
		break;
	case ROUND_DO_STOP:
		round_stop(r, now_ms);
		break;
	case ROUND_DO_ABANDON:
		round_order(r, ROUND_ORDER_GIVE_UP, ROUND_WHY_NONE, NULL);
		round_stop(r, now_ms);
		break;
	case ROUND_DO_REST:
		round_order(r, ROUND_ORDER_REST, ROUND_WHY_NONE, NULL);
		/* Hosts that were left out of this round may be in the next one. */
		round_step_all(r, H(OUT), HOST_EV_RECALL, ROUND_WHY_NONE, now_ms);
		break;
	case ROUND_DO_GIVE_UP:
		round_order(r, ROUND_ORDER_GIVE_UP, ROUND_WHY_NONE, NULL);
		round_step_all(r, all, HOST_EV_END, ROUND_WHY_NONE, now_ms);
		break;
	case ROUND_DO_CLOSE:
		round_step_all(r, all, HOST_EV_END, ROUND_WHY_NONE, now_ms);
		break;
	case ROUND_DO_FINISH:
		round_order(r, ROUND_ORDER_FINISH, ROUND_WHY_NONE, NULL);
		break;
	}
}

bool round_post(struct round *r, enum round_event event, uint64_t now_ms)
{
	struct round_condition condition = { .delayed = r->next_ms > now_ms,
		.records = r->config.records,
		.saves = r->config.on_join == ROUND_JOIN_SAVES };
	struct round_change change;
	int ret = round_change(r->state, event, &condition, &change);

	assert(ret >= 0);
	if (ret)
		return false;
	if (change.next == ROUND_GATHERING) {
		r->patient = false;
		r->enough_ms = r->short_ms = ROUND_NEVER;
	}
	r->state = change.next;
	round_act(r, change.action, now_ms);
	return true;
}

void round_settle(struct round *r, uint64_t now_ms)
{
	enum round_event event;

	round_let_back_due(r, now_ms);
	while ((event = round_next_event(r, now_ms)) != ROUND_EV_N)
		round_post(r, event, now_ms);
}

static bool names_a_round(enum host_event event)
{
	return event == HOST_EV_PREPARED || event == HOST_EV_UNABLE || event == HOST_EV_STARTED ||
	       event == HOST_EV_STOPPED;
}

static bool comes_from_a_host(enum host_event event)
{
	return names_a_round(event) || event == HOST_EV_LEAVE || event == HOST_EV_BYE ||
	       event == HOST_EV_LOST;
}

int round_hear(struct round *r, int host, enum host_event event, uint64_t round, uint64_t now_ms)
{
	static const enum round_why whys[HOST_EV_N] = { [HOST_EV_UNABLE] = ROUND_WHY_UNABLE,
		[HOST_EV_BYE] = ROUND_WHY_BYE,
		[HOST_EV_LOST] = ROUND_WHY_LOST };
	struct round_host *h;
	int ret;

	round_begin_call(r);
	h = host >= 0 && host < r->n_numbers ? r->hosts[host] : NULL;
	if (!h || !comes_from_a_host(event))
		return -EINVAL;
	if (names_a_round(event) && round != h->round)
		return round < h->round ? 1 : -EINVAL;
	ret = round_host_step(r, h, event, whys[event], now_ms);
	round_settle(r, now_ms);
	return ret;
}

void round_time(struct round *r, uint64_t now_ms)
{
	round_begin_call(r);
	round_settle(r, now_ms);
}

void round_recorded(struct round *r, uint64_t round, uint64_t now_ms)
{
	round_begin_call(r);
	if (r->state == ROUND_RECORDING && round == r->round)
		round_post(r, ROUND_EV_RECORDED, now_ms);
	else if (round == r->round)
		round_seats_recorded(r);
	round_settle(r, now_ms);
}

void round_hold_seats(struct round *r, bool held, uint64_t now_ms)
{
	round_begin_call(r);
	r->held = held;
	r->offers = true;
	round_settle(r, now_ms);
}

void round_restart(struct round *r, uint64_t delay_ms, uint64_t now_ms)
{
	uint64_t next_ms = later_ms(now_ms, delay_ms);

	round_begin_call(r);
	if (next_ms > r->next_ms || r->state == ROUND_BACKOFF)
		r->next_ms = next_ms;
	round_post(r, ROUND_EV_RESTART, now_ms);
	round_settle(r, now_ms);
}

bool round_end(struct round *r, uint64_t now_ms)
{
	bool first;

	round_begin_call(r);
	first = round_post(r, ROUND_EV_END, now_ms);
	round_settle(r, now_ms);
	return first;
}

const struct round_order *round_orders(const struct round *r, int *ret_n)
{
	*ret_n = r->n_orders;
	return r->orders;
}

enum round_state round_state(const struct round *r)
{
	return r->state;
}

uint64_t round_number(const struct round *r)
{
	return r->round;
}

const struct ranked_world *round_world(const struct round *r)
{
	return &r->world;
}

int round_count(const struct round *r, enum host_state state)
{
	return r->n_in[state];
}

const struct round_host *round_host(const struct round *r, int host)
{
	return host >= 0 && host < r->n_numbers ? r->hosts[host] : NULL;
}

const struct round_host *round_next_host(const struct round *r, const struct round_host *host)
{
	for (int i = host ? host->number + 1 : 0; i < r->n_numbers; i++)
		if (r->hosts[i])
			return r->hosts[i];
	return NULL;
}
