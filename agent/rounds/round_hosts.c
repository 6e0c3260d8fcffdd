/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of a group: their numbers, how they join, and how they go. */
#include "agent/rounds/round_private.h"
#include "common/base/array.h"
#include "common/text/ranks.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { FIRST_SIZE = 8 };

static int grow_array(void *array, size_t n, size_t more, size_t size)
{
	void *bigger = array_grow(*(void **)array, n, more, size);

	if (!bigger)
		return -ENOMEM;
	*(void **)array = bigger;
	return 0;
}

/* In one call there are at most two orders for or about each host. */
static int orders_for(int hosts)
{
	return 2 * hosts + 8;
}

int round_reserve(struct round *r)
{
	const struct {
		void *array;
		size_t size; /* for each host; 0: the array is not needed */
	} arrays[] = { { &r->hosts, sizeof(*r->hosts) },
		{ &r->free_numbers, sizeof(*r->free_numbers) },
		{ &r->dropped, sizeof(*r->dropped) }, { &r->ranked, sizeof(*r->ranked) },
		{ &r->chosen, sizeof(*r->chosen) }, { &r->vacancies, sizeof(*r->vacancies) },
		{ &r->spares, sizeof(*r->spares) }, { &r->seat_parts, sizeof(*r->seat_parts) },
		{ &r->blocks, r->config.segment > 1 ? 2 * sizeof(*r->blocks) : 0 } };
	int size = r->size ? 2 * r->size : FIRST_SIZE, ret = chain_reserve(&r->by_run);

	if (ret < 0 || r->n_numbers < r->size || r->n_free)
		return ret;
	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]) && !ret; i++)
		if (arrays[i].size)
			ret = grow_array(
				arrays[i].array, (size_t)r->size, (size_t)size, arrays[i].size);
	if (!ret)
		ret = grow_array(&r->space, 0, host_ranks_space_bytes(size), 1);
	if (!ret)
		ret = grow_array(&r->orders, (size_t)orders_for(r->size), (size_t)orders_for(size),
			sizeof(*r->orders));
	if (!ret)
		r->size = size;
	return ret;
}

void round_order(
	struct round *r, enum round_order_what what, enum round_why why, const struct round_host *h)
{
	assert(r->n_orders < orders_for(r->size));
	r->orders[r->n_orders++] = (struct round_order){
		.what = what, .why = why, .host = h ? h->number : -1, .round = r->round
	};
}

struct round_host *round_host_free(struct round_host *h)
{
	if (!h)
		return NULL;
	free(h->run);
	free(h->agent);
	free(h->boot);
	free(h->name);
	free(h->topology);
	free(h->parts);
	free(h->replicas);
	free(h);
	return NULL;
}
DEFINE_CLEANUP(struct round_host *, round_host_free)

/* Copies the topology. With segments, hosts without one share a part. */
static int round_host_stands(const struct round *r, struct round_host *h, const char *topology)
{
	if (topology && !(h->topology = strdup(topology)))
		return -ENOMEM;
	if (!topology && r->config.segment > 1)
		topology = "-";
	if (topology && !(h->parts = topology_parts(topology)))
		return -ENOMEM;
	return 0;
}

static struct round_host *round_host_new(const struct round *r, const struct round_join *join)
{
	_cleanup_(round_host_freep) struct round_host *h = calloc(1, sizeof(*h));
	size_t roles = (size_t)r->config.roles.n;

	if (!h)
		return NULL;
	h->run = strdup(join->run);
	h->agent = strdup(join->agent);
	h->boot = strdup(join->boot);
	h->name = strdup(join->name);
	h->replicas = calloc(2 * roles + 1, sizeof(*h->replicas));
	if (!h->run || !h->agent || !h->boot || !h->name || !h->replicas ||
		round_host_stands(r, h, join->topology) < 0)
		return NULL;
	h->first_index = h->replicas + roles;
	if (join->replicas)
		memcpy(h->replicas, join->replicas, roles * sizeof(*h->replicas));
	h->node_rank = join->node_rank;
	h->last_round = join->last_round;
	h->last_rank = join->last_round ? join->last_rank : -1;
	return TAKE_PTR(h);
}

static int64_t round_host_workers(const struct round *r, const struct round_host *h)
{
	int64_t n = 0;

	for (int role = 0; role < r->config.roles.n; role++)
		n += h->replicas[role];
	return n;
}

static struct round_host *round_find_run(const struct round *r, const char *run)
{
	struct chain_node *node = chain_first(&r->by_run, chain_hash(run, strlen(run)));

	for (; node; node = chain_next(node)) {
		struct round_host *h = (void *)((char *)node - offsetof(struct round_host, by_run));

		if (!strcmp(h->run, run))
			return h;
	}
	return NULL;
}

const struct round_host *round_host_of_run(const struct round *r, const char *run)
{
	return round_find_run(r, run);
}

static struct round_part *round_find_part(const struct round *r, const char *name)
{
	struct chain_node *node = chain_first(&r->parts, chain_hash(name, strlen(name)));

	for (; node; node = chain_next(node)) {
		struct round_part *part = (struct round_part *)node;

		if (!strcmp(part->name, name))
			return part;
	}
	return NULL;
}

static struct round_part *round_part_new(struct round *r, const char *name)
{
	struct round_part *part = calloc(1, sizeof(*part));

	if (!part || chain_reserve(&r->parts) < 0 ||
		!(part->name = calloc(strlen(name) + 2, 1))) { /* with an empty part */
		free(part);
		return NULL;
	}
	strcpy(part->name, name);
	chain_put(&r->parts, &part->node, chain_hash(name, strlen(name)));
	return part;
}

static int round_enter_part(struct round *r, struct round_host *h)
{
	if (r->config.segment == 1)
		return 0;
	h->part = round_find_part(r, h->parts);
	if (!h->part)
		h->part = round_part_new(r, h->parts);
	if (!h->part)
		return -ENOMEM;
	h->part->members++;
	return 0;
}

void round_leave_part(struct round *r, struct round_host *h)
{
	struct round_part *part = h ? h->part : NULL;

	if (!part)
		return;
	h->part = NULL;
	if (--part->members)
		return;
	chain_remove(&r->parts, &part->node);
	free(part->name);
	free(part);
}

static void round_count_blocks(const struct round *r, int *hosts, int by, int *blocks)
{
	*blocks -= *hosts / r->config.segment;
	*hosts += by;
	*blocks += *hosts / r->config.segment;
}

/* Counts h in its state from now on (by 1), or no longer (by -1). */
static void round_tally(struct round *r, const struct round_host *h, int by)
{
	struct round_part *part = h->part ? h->part : &r->whole;
	bool waits = h->state == HOST_WAITING;

	r->offers |= waits && by > 0;
	r->n_in[h->state] += by;
	for (int i = h->kept_until_ms ? ROUND_ALL : ROUND_FIT; i < ROUND_N_POOLS; i++) {
		if (waits)
			round_count_blocks(r, &part->waiting[i], by, &r->blocks_waiting[i]);
		if (waits || h->state == HOST_STARTING || h->state == HOST_RUNNING)
			round_count_blocks(r, &part->here[i], by, &r->blocks_here[i]);
	}
}

/* Whether hosts wait that another round could take if there were no MAX. */
static bool round_more(const struct round *r)
{
	if (r->config.segment == 1)
		return r->blocks_waiting[ROUND_FIT];
	return r->blocks_here[ROUND_FIT] * r->config.segment >
	       r->n_in[HOST_STARTING] + r->n_in[HOST_RUNNING];
}

void round_keep_out(struct round *r, int host, uint64_t until_ms, uint64_t now_ms)
{
	struct round_host *h = host >= 0 && host < r->n_numbers ? r->hosts[host] : NULL;

	if (!h || h->state == HOST_GONE)
		return;
	if (h->state == HOST_WAITING && !round_more(r))
		r->waiting_ms = now_ms;
	round_tally(r, h, -1);
	h->kept_until_ms = until_ms;
	round_tally(r, h, 1);
	if (until_ms && until_ms < r->keep_due_ms)
		r->keep_due_ms = until_ms;
}

void round_let_back_due(struct round *r, uint64_t now_ms)
{
	if (now_ms < r->keep_due_ms)
		return;
	r->keep_due_ms = ROUND_NEVER;
	for (int i = 0; i < r->n_numbers; i++) {
		const struct round_host *h = r->hosts[i];

		if (!h || !h->kept_until_ms)
			continue;
		if (h->kept_until_ms <= now_ms)
			round_keep_out(r, i, 0, now_ms);
		else if (h->kept_until_ms < r->keep_due_ms)
			r->keep_due_ms = h->kept_until_ms;
	}
}

static void round_add(struct round *r, struct round_host *h, enum host_state state)
{
	h->number = r->n_free ? r->free_numbers[--r->n_free] : r->n_numbers++;
	h->state = state;
	h->turn = r->turns++;
	r->hosts[h->number] = h;
	round_tally(r, h, 1);
	r->n_hosts++;
	r->n_workers += round_host_workers(r, h);
	chain_put(&r->by_run, &h->by_run, chain_hash(h->run, strlen(h->run)));
	if (h->node_rank >= 0)
		r->by_node_rank[h->node_rank] = h;
}

static void round_drop(struct round *r, struct round_host *h)
{
	r->dropped[r->n_dropped++] = h;
	r->n_hosts--;
	r->n_workers -= round_host_workers(r, h);
	chain_remove(&r->by_run, &h->by_run);
	if (h->node_rank >= 0)
		r->by_node_rank[h->node_rank] = NULL;
}

void round_begin_call(struct round *r)
{
	r->n_orders = 0;
	while (r->n_dropped) {
		struct round_host *h = r->dropped[--r->n_dropped];

		round_tally(r, h, -1);
		round_leave_part(r, h);
		r->hosts[h->number] = NULL;
		r->free_numbers[r->n_free++] = h->number;
		round_host_free(h);
	}
}

int round_host_step(struct round *r, struct round_host *h, enum host_event event,
	enum round_why why, uint64_t now_ms)
{
	static const enum round_order_what orders[] = {
		[HOST_DO_ASSIGN] = ROUND_ORDER_ASSIGN,
		[HOST_DO_START] = ROUND_ORDER_START,
		[HOST_DO_STOP] = ROUND_ORDER_STOP,
		[HOST_DO_LEAVE_OUT] = ROUND_ORDER_LEAVE_OUT,
		[HOST_DO_END] = ROUND_ORDER_END,
		[HOST_DO_DROP] = ROUND_ORDER_DROP,
	};
	enum host_state before = h->state;
	enum round_order_what what;
	struct host_change change;
	int ret = host_change(h->state, event, h->leaving, &change);

	if (ret)
		return ret;
	what = change.action == HOST_DO_START && h->seat ? ROUND_ORDER_TAKE : orders[change.action];
	h->leaving |= event == HOST_EV_LEAVE;
	if (change.next == HOST_WAITING && !round_more(r))
		r->waiting_ms = now_ms;
	round_tally(r, h, -1);
	h->state = change.next;
	round_tally(r, h, 1);
	round_seats_follow(r, h, before, now_ms);
	if (change.action == HOST_DO_DROP)
		round_drop(r, h);
	if (change.action != HOST_DO_NOTHING)
		round_order(r, what, why, h);
	return 0;
}

void round_host_change(struct round *r, struct round_host *h, enum host_event event,
	enum round_why why, uint64_t now_ms)
{
	int ret = round_host_step(r, h, event, why, now_ms);

	assert(!ret);
	(void)ret;
}

void round_step_all(struct round *r, unsigned states, enum host_event event, enum round_why why,
	uint64_t now_ms)
{
	for (int i = 0; i < r->n_numbers; i++) {
		struct round_host *h = r->hosts[i];

		if (h && states >> h->state & 1) {
			int ret = round_host_step(r, h, event, why, now_ms);

			assert(ret >= 0);
			(void)ret;
		}
	}
}

int round_remember(struct round *r, const struct round_join *host)
{
	struct round_join known = *host;
	struct round_host *h;

	known.replicas = NULL;
	if (known.node_rank >= r->config.max)
		known.node_rank = -1;
	if (round_reserve(r) < 0)
		return -ENOMEM;
	h = round_host_new(r, &known);
	if (!h || round_enter_part(r, h) < 0) {
		round_host_free(h);
		return -ENOMEM;
	}
	round_add(r, h, HOST_MISSING);
	r->remembers = true;
	round_note_seat(r, h->last_rank, h->parts);
	return h->number;
}

static enum round_why round_refusal(
	const struct round *r, const struct round_host *h, const struct round_join *join)
{
	bool ends = r->state == ROUND_ENDING || r->state == ROUND_CLOSING;

	/* A host that took part in a round gets the verdict instead. */
	if (r->state == ROUND_ENDED || (ends && !join->known_round))
		return ROUND_WHY_ENDED;
	if (strcmp(join->digest, r->config.digest) != 0)
		return ROUND_WHY_DIGEST;
	if (h->node_rank >= 0 && r->by_node_rank[h->node_rank])
		return ROUND_WHY_NODE_RANK;
	if (r->n_hosts >= 2 * ROUND_HOSTS_MAX ||
		r->n_workers + round_host_workers(r, h) > RANKS_MAX)
		return ROUND_WHY_FULL;
	return ROUND_WHY_NONE;
}

/* h replaces the earlier agent of its run, and has its rank where h itself knows of none. */
static void round_replace(
	struct round *r, struct round_host *old, struct round_host *h, uint64_t now_ms)
{
	bool same = !strcmp(old->agent, h->agent);

	if (!h->last_round) {
		h->last_round = old->last_round;
		h->last_rank = old->last_rank;
	}
	round_host_step(
		r, old, HOST_EV_REPLACED, same ? ROUND_WHY_REJOINED : ROUND_WHY_REPLACED, now_ms);
}

/* A host tells of rounds that this head does not know: they were another head's, and their workers
 * may live. This head does not use their numbers again. */
static void round_learn(struct round *r, const struct round_join *join, uint64_t now_ms)
{
	uint64_t dead_ms = r->began_ms + r->config.lease_ms;

	if (join->known_round > r->known_round)
		r->known_round = join->known_round;
	if (r->started)
		return;
	if (join->last_round > r->last_round)
		r->last_round = join->last_round;
	if (join->known_round <= r->config.round)
		return;
	if (r->config.records)
		return; /* their hosts are remembered */
	if (r->next_ms < dead_ms)
		r->next_ms = dead_ms;
	if (r->state == ROUND_PREPARING)
		round_post(r, ROUND_EV_RESTART, now_ms);
}

int round_join(struct round *r, const struct round_join *join, uint64_t now_ms)
{
	_cleanup_(round_host_freep) struct round_host *h = NULL;
	struct round_host *old;
	enum round_why why;

	if (join->node_rank >= r->config.max || join->known_round > INT64_MAX ||
		join->last_round > join->known_round)
		return -EINVAL;
	h = round_host_new(r, join);
	round_begin_call(r);
	if (!h || round_reserve(r) < 0 || round_enter_part(r, h) < 0)
		return -ENOMEM;
	old = round_find_run(r, join->run);
	if (old)
		round_replace(r, old, h, now_ms);
	why = round_refusal(r, h, join);
	if (why) {
		round_order(r, ROUND_ORDER_REFUSE, why,
			why == ROUND_WHY_NODE_RANK ? r->by_node_rank[h->node_rank] : NULL);
		round_leave_part(r, h);
	} else {
		if (!round_more(r))
			r->waiting_ms = now_ms;
		round_learn(r, join, now_ms);
		round_seats_claim(r, h);
		round_add(r, h, HOST_WAITING);
		if (join->kept_until_ms > now_ms)
			round_keep_out(r, h->number, join->kept_until_ms, now_ms);
		round_order(r, ROUND_ORDER_ADMIT, ROUND_WHY_NONE, TAKE_PTR(h));
		if (r->known_round > r->round)
			r->orders[r->n_orders - 1].round = r->known_round;
		if (r->state == ROUND_CLOSING)
			round_step_all(r, 1u << HOST_WAITING, HOST_EV_END, ROUND_WHY_NONE, now_ms);
	}
	round_settle(r, now_ms);
	return 0;
}
