/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which states of tests/unit/tenure_world.h are alike. */

#include "tests/unit/round_copy.h"
#include "tests/unit/tenure_world.h"

static uint64_t base_round;

static void find_base_round(void)
{
	base_round = store.state.round;
	for (int i = 0; i < HOSTS; i++) {
		const struct round *r = w.h[i].h.round;

		if (r && round_number(r) > base_round)
			base_round = round_number(r);
		if (w.h[i].known_round > base_round)
			base_round = w.h[i].known_round;
	}
}

static void mix_time(uint64_t *h, uint64_t ms)
{
	mix_ms(h, ms, w.now, w.loss_ms + 2 * LEASE);
}

static void mix_round(uint64_t *h, uint64_t round)
{
	mix(h, round ? base_round - round + 10 : 1);
}

static void mix_rev(uint64_t *h, uint64_t rev)
{
	mix(h, rev ? store.rev - rev + 1 : 0);
}

static void mix_agent(uint64_t *h, int host, int agent)
{
	mix(h, host < 0 ? 99 : (uint64_t)(w.h[host].agent - agent) << 4 | (uint64_t)host);
}

static void mix_state(uint64_t *h, const struct state_key *s)
{
	mix_rev(h, s->rev);
	mix_round(h, s->round);
	mix(h, s->hosts | (uint64_t)s->head << 8);
	for (int i = 0; i < HOSTS; i++) {
		if (!(s->hosts >> i & 1))
			continue;
		mix(h, (uint64_t)s->rank[i]);
		mix_agent(h, i, s->agent[i]);
	}
}

static void mix_lead(uint64_t *h, const struct lead_key *lead)
{
	mix_rev(h, lead->rev);
	if (!lead->rev)
		return;
	mix_agent(h, lead->host, lead->agent);
	mix_time(h, lead->until_ms);
}

static void mix_request(uint64_t *h, const struct request *q, int i)
{
	mix(h, q->kind | (uint64_t)q->happened << 8 | (uint64_t)q->done << 9);
	if (!q->kind)
		return;
	mix_agent(h, i, q->agent);
	mix_time(h, q->sent_ms);
	mix_rev(h, q->lead_rev);
	mix_rev(h, q->state_rev);
	if (q->kind == REQUEST_RECORD || q->state.round)
		mix_state(h, &q->state);
	if (!q->happened)
		return;
	mix_lead(h, &q->lead);
	mix_state(h, &q->found);
}

static void mix_queue(uint64_t *h, const struct queue *q, const struct whost *a)
{
	mix(h, (uint64_t)q->n);
	for (int k = 0; k < q->n; k++) {
		const struct message *m = &q->m[k];
		bool beat = m->kind == SAYS_BEAT || m->kind == SAYS_ANSWER;

		mix(h, m->kind | (uint64_t)m->what << 8 | (uint64_t)(m->rank + 1) << 16);
		mix(h, a->session - m->session);
		mix(h, m->kind == SAYS_ORDER ? w.heads - m->key : 0);
		if (beat)
			mix(h, a->beat - m->number);
		else
			mix_round(h, m->number);
		if (m->kind == SAYS_BEAT)
			mix(h, a->beat - m->answered);
		if (m->kind != SAYS_JOIN)
			continue;
		mix_agent(h, host_index(a), m->agent);
		mix(h, m->age_ms);
		mix_round(h, m->known_round);
		mix_round(h, m->last_round);
	}
}

static void mix_lease(uint64_t *h, const struct whost *a)
{
	mix(h, a->lease.over | (a->beat - a->answered) << 1);
	mix_time(h, a->lease.deadline_ms);
	for (uint64_t k = a->answered + 1; k <= a->beat; k++)
		mix_time(h, a->sent_ms[k % BEATS]);
}

static void mix_host(uint64_t *h, const struct whost *a)
{
	int i = host_index(a);

	mix(h, a->life | (uint64_t)a->state << 2 | (uint64_t)a->linked << 8 |
			(uint64_t)a->lead << 9 | (uint64_t)a->cut_ask << 13 |
			(uint64_t)a->cut_answer << 14 | (uint64_t)w.cut[i] << 16);
	mix_request(h, &a->late, i);
	mix(h, (uint64_t)a->word_to);
	if (a->word_to >= 0)
		mix_agent(h, i, a->word_agent);
	mix(h, a->worker ? w.heads - (a->worker >> 32) + 1 : 0);
	mix_round(h, (uint32_t)a->worker);
	if (a->life == AGENT_DEAD)
		return;
	mix_agent(h, a->head, a->head_agent);
	mix(h, w.heads - a->head_key);
	mix_time(h, a->state == MEMBER_JOINING ? a->join_ms : 0);
	mix_time(h, a->answer_ms);
	mix_round(h, a->round);
	mix(h, (uint64_t)(a->rank + 1) << 8 | (uint64_t)(a->last_rank + 1));
	mix(h, w.heads - a->from);
	mix_round(h, a->known_round);
	mix_round(h, a->last_round);
	mix_time(h, a->ready_ms);
	mix_time(h, a->started_ms);
	mix_time(h, a->dead_ms);
	mix_lease(h, a);
	mix_time(h, a->look_ms);
	mix_time(h, a->due_ms);
	for (int j = 0; j < HOSTS; j++)
		mix(h, a->dead[j] ? (uint64_t)(w.h[j].agent - a->dead[j]) + 1 : 0);
	mix_request(h, &a->ask, i);
	mix_request(h, &a->keep, i);
}

static void mix_known(
	uint64_t *h, const struct known *k, const struct whost *a, const struct round *r)
{
	const struct round_host *host = round_host(r, k->number);
	uint64_t before = 0;

	mix_time(h, k->acked_ms);
	mix_time(h, k->admitted_ms);
	mix(h, k->join.kind ? a->session - k->join.session + 1 : 0);
	if (k->join.kind) {
		mix(h, k->join.age_ms);
		mix_agent(h, host_index(a), k->join.agent);
	}
	mix(h, (uint64_t) !!host);
	if (!host)
		return;
	mix(h, a->session - k->session);
	mix_time(h, k->held.came_ms);
	for (uint64_t n = a->answered; n <= a->beat; n++)
		mix_time(h, k->answer_ms[n % BEATS]);
	for (int i = 0; i < r->n_numbers; i++)
		before += r->hosts[i] && r->hosts[i]->turn < host->turn;
	mix(h, host->state | before << 16);
	mix_round(h, host->round);
	mix(h, (uint64_t)host->group_rank);
	mix_round(h, host->last_round);
	mix(h, (uint64_t)(host->last_rank + 1));
}

static void mix_seats(uint64_t *h, const struct round *r)
{
	const struct round_seat *s;

	LIST_FOREACH (s, &r->vacant, entry) {
		mix(h, (uint64_t)s->group_rank | (uint64_t)s->recording << 6 |
				(uint64_t)s->recorded << 7 |
				(uint64_t)(s->host ? s->host->number + 1 : 0) << 8);
		mix_time(h, s->host ? s->prepared_by_ms : 0);
	}
}

static void mix_head(uint64_t *h, const struct head *head)
{
	const struct round *r = head->round;

	mix(h, w.heads - head->key);
	mix(h, r->state | (uint64_t)r->started << 8 | (uint64_t)r->saving << 9 |
			(uint64_t)r->patient << 10 | (uint64_t)r->remembers << 11 |
			(uint64_t)r->taken << 12 | (uint64_t)r->offers << 13 |
			(uint64_t)r->recording << 14 | (uint64_t)r->record_due << 15 |
			(uint64_t)r->seats << 16 | (uint64_t)head->unsure << 20 |
			(uint64_t)head->wrote << 21 | (uint64_t)head->tenure.lost << 22 |
			(uint64_t)head->may << 24 | (uint64_t)head->must << 28 |
			(uint64_t)head->regains << 32);
	mix_seats(h, r);
	mix_round(h, round_number(r));
	mix_round(h, r->last_round);
	mix(h, r->known_round > r->round);
	mix_time(h, r->enough_ms);
	mix_time(h, r->prepared_by_ms);
	mix_time(h, r->next_ms);
	mix_time(h, r->waiting_ms);
	mix_time(h, head->tenure.kept_ms);
	mix_time(h, head->past.led_ms);
	mix_time(h, head->past.heard_ms);
	mix_time(h, head->keep_ms);
	mix_time(h, head->record.round ? head->record_ms : 0);
	if (head->record.round)
		mix_state(h, &head->record);
	mix_rev(h, head->lead_rev);
	mix_rev(h, head->gone_rev);
	mix_state(h, &head->state);
	for (int i = 0; i < HOSTS; i++)
		mix_known(h, &head->of[i], &w.h[i], r);
}

static uint64_t hash_all(int depth)
{
	uint64_t h = 7;

	find_base_round();
	mix(&h, (uint64_t)depth << 1 | store.gone);
	mix_lead(&h, &store.lead);
	mix_lead(&h, &store.removed);
	mix_state(&h, &store.state);
	for (int i = 0; i < HOSTS; i++) {
		mix_host(&h, &w.h[i]);
		mix(&h, !!w.h[i].h.round);
		if (w.h[i].h.round)
			mix_head(&h, &w.h[i].h);
		for (int j = 0; j < HOSTS; j++) {
			mix_queue(&h, &w.link[i][j].up, &w.h[i]);
			mix_queue(&h, &w.link[i][j].down, &w.h[i]);
		}
	}
	return h;
}
