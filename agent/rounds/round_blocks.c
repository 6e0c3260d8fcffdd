/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/natural.h"
#include "agent/rounds/numbers.h"
#include "agent/rounds/round_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/*
 * Chooses the hosts of a round by topologies and segments. Spares get the seats that they stand
 * near. With segments, blocks are chosen first: blocks of the last round that are still whole, or
 * that other hosts of their part make whole, then new ones in the order in which they became whole.
 */

void round_note_seat(struct round *r, int rank, const char *parts)
{
	size_t bytes = topology_bytes(parts ? parts : "");

	if (rank < 0 || rank >= r->size)
		return;
	free(r->seat_parts[rank]);
	r->seat_parts[rank] = NULL;
	if (rank >= r->last_seats)
		r->last_seats = rank + 1;
	if (bytes == 1)
		return;
	/* Without memory any spare may get the seat. */
	r->seat_parts[rank] = malloc(bytes);
	if (r->seat_parts[rank])
		memcpy(r->seat_parts[rank], parts, bytes);
}

/* Gives the first k vacancies to spares among the n hosts in r->chosen. */
static void blocks_match(struct round *r, int n, int k)
{
	int m = 0;

	for (int i = 0; i < n; i++) {
		struct round_host *h = r->chosen[i];

		if (h->wish < 0 && h->parts)
			r->spares[m++] = (struct topology_spare){
				.parts = h->parts, .turn = h->claim, .owner = h, .rank = -1
			};
	}
	(void)topology_match(r->vacancies, k, r->spares, m);
	for (int i = 0; i < m; i++)
		((struct round_host *)r->spares[i].owner)->wish = r->spares[i].rank;
}

void round_fill_seats(struct round *r, int n)
{
	unsigned char *taken = r->space;
	int k = 0;

	memset(taken, 0, (size_t)r->last_seats);
	for (int i = 0; i < n; i++)
		if (r->chosen[i]->wish >= 0 && r->chosen[i]->wish < r->last_seats)
			taken[r->chosen[i]->wish] = 1;
	for (int rank = 0; rank < r->last_seats; rank++)
		if (!taken[rank] && r->seat_parts[rank])
			r->vacancies[k++] = (struct topology_vacancy){ .rank = rank,
				.parts = r->seat_parts[rank] };
	if (k)
		blocks_match(r, n, k);
}

/* --- segments --- */

/* By parts; in each part hosts that have a place come first, then those that joined first. */
static int blocks_compare_hosts(const void *x, const void *y)
{
	const struct round_host *a = *(struct round_host *const *)x,
				*b = *(struct round_host *const *)y;
	int r = a->part == b->part ? 0 : natural_compare(a->part->name, b->part->name);

	if (!r)
		r = (a->wish < 0) - (b->wish < 0);
	if (!r && a->wish >= 0)
		r = compare_numbers(a->wish, b->wish);
	return r ? r : compare_numbers((int64_t)a->claim, (int64_t)b->claim);
}

static int blocks_compare_stands(const void *x, const void *y)
{
	const struct round_host *a = *(struct round_host *const *)x,
				*b = *(struct round_host *const *)y;
	int r = topology_compare(a->parts, b->parts, TOPOLOGY_PARTS_MAX);

	if (!r)
		r = natural_compare(a->name, b->name);
	return r ? r : natural_compare(a->boot, b->boot);
}

/* Blocks of the last round that have lost the fewest hosts come first. */
static int blocks_compare_losses(const void *x, const void *y)
{
	const struct round_block *a = x, *b = y;

	return a->n != b->n ? (a->n > b->n ? -1 : 1) : compare_numbers(a->last, b->last);
}

/* Blocks of the last round come first, then those that were whole first. */
static int blocks_compare_claims(const void *x, const void *y)
{
	const struct round_block *a = x, *b = y;
	int r = (a->last < 0) - (b->last < 0);

	if (!r && a->last >= 0)
		r = compare_numbers(a->last, b->last);
	return r ? r : compare_numbers((int64_t)a->whole_at, (int64_t)b->whole_at);
}

/* By parts; in each part blocks of the last round come first. `first` is their new place. */
static int blocks_compare_places(const void *x, const void *y)
{
	const struct round_block *a = x, *b = y;
	int r = a->part == b->part ? 0 : natural_compare(a->part->name, b->part->name);

	if (!r)
		r = (a->last < 0) - (b->last < 0);
	if (!r && a->last >= 0)
		r = compare_numbers(a->last, b->last);
	return r ? r : compare_numbers(a->first, b->first);
}

static void blocks_dissolve(struct round *r, const struct round_block *b)
{
	for (int i = b->first; b->last >= 0 && i < b->first + b->n; i++)
		r->chosen[i]->wish = -1;
}

/* Finds the blocks of the last round of the hosts chosen[begin] to chosen[end - 1], which share a
 * part. Returns their number. */
static int blocks_of_last_round(struct round *r, struct round_block *blocks, int begin, int end)
{
	int n = 0;

	for (int i = begin; i < end && r->chosen[i]->wish >= 0; i++) {
		int last = r->chosen[i]->wish / r->config.segment;

		if (!n || blocks[n - 1].last != last)
			blocks[n++] = (struct round_block){
				.part = r->chosen[i]->part, .last = last, .first = i
			};
		blocks[n - 1].n++;
	}
	return n;
}

/* Finds the blocks that these hosts can fill. Returns their number. */
static int blocks_of_part(struct round *r, struct round_block *blocks, int begin, int end)
{
	int whole = (end - begin) / r->config.segment;
	int n = blocks_of_last_round(r, blocks, begin, end);

	if (n > whole) {
		qsort(blocks, (size_t)n, sizeof(*blocks), blocks_compare_losses);
		for (int i = whole; i < n; i++)
			blocks_dissolve(r, &blocks[i]);
		return whole;
	}
	for (; n < whole; n++)
		blocks[n] = (struct round_block){ .part = r->chosen[begin]->part,
			.last = -1,
			.whole_at = r->chosen[begin + (n + 1) * r->config.segment - 1]->claim };
	return n;
}

/* Two hosts that claim one rank cannot both have had it: the later one loses its claim. */
static void blocks_one_each(struct round *r, int n)
{
	for (int i = n - 1; i > 0; i--)
		if (r->chosen[i]->wish >= 0 && r->chosen[i]->wish == r->chosen[i - 1]->wish &&
			r->chosen[i]->part == r->chosen[i - 1]->part)
			r->chosen[i]->wish = -1;
}

/* Chooses the blocks of the round; returns their number. */
static int blocks_choose(struct round *r, int n)
{
	int blocks = 0, max = r->config.max / r->config.segment, end;

	for (int begin = 0; begin < n; begin = end) {
		for (end = begin + 1; end < n; end++)
			if (r->chosen[end]->part != r->chosen[begin]->part)
				break;
		blocks += blocks_of_part(r, r->blocks + blocks, begin, end);
	}
	qsort(r->blocks, (size_t)blocks, sizeof(*r->blocks), blocks_compare_claims);
	for (int i = max; i < blocks; i++)
		blocks_dissolve(r, &r->blocks[i]);
	return blocks < max ? blocks : max;
}

/* Finds the places in blocks of the last round that hosts have left. Returns their number. */
static int blocks_vacancies(struct round *r, int blocks)
{
	int segment = r->config.segment, k = 0;

	for (int i = 0; i < blocks && r->blocks[i].last >= 0; i++) {
		const struct round_block *b = &r->blocks[i];
		int next = b->first, rank = b->last * segment;

		for (int end = rank + segment; rank < end; rank++) {
			const char *parts = rank < r->last_seats ? r->seat_parts[rank] : NULL;

			if (next < b->first + b->n && r->chosen[next]->wish == rank)
				next++;
			else
				r->vacancies[k++] = (struct topology_vacancy){ .rank = rank,
					.parts = parts && !strcmp(parts, b->part->name)
							 ? parts
							 : b->part->name };
		}
	}
	return k;
}

/* Gives each block its place in the round, in `first`. */
static void blocks_place(struct round *r, int blocks)
{
	static const struct ranked_roles none = { .n = 0 };
	struct ranked_world world = { .roles = NULL };
	int ret;

	for (int i = 0; i < blocks; i++)
		r->ranked[i] = (struct ranked_host){ .name = r->blocks[i].part->name,
			.boot = "",
			.node_rank = -1,
			.last_rank = r->blocks[i].last };
	ret = host_ranks_assign(r->ranked, blocks, &none, r->space, &world, NULL);
	assert(!ret);
	(void)ret;
	for (int i = 0; i < blocks; i++)
		r->blocks[i].first = r->ranked[i].group_rank;
	qsort(r->blocks, (size_t)blocks, sizeof(*r->blocks), blocks_compare_places);
}

/* Gives the hosts of one part, from chosen[at] on, ranks in its blocks, from blocks[b] on. */
static void blocks_seat_part(struct round *r, int at, int b, int blocks)
{
	const struct round_part *part = r->blocks[b].part;
	int segment = r->config.segment, fresh = 0;

	for (; b < blocks && r->blocks[b].part == part && r->blocks[b].last >= 0; b++)
		for (int end = at + segment; at < end; at++) {
			assert(r->chosen[at]->wish / segment == r->blocks[b].last);
			r->chosen[at]->wish =
				r->blocks[b].first * segment + r->chosen[at]->wish % segment;
		}
	while (b + fresh < blocks && r->blocks[b + fresh].part == part)
		fresh++;
	qsort(r->chosen + at, (size_t)(fresh * segment), sizeof(struct round_host *),
		blocks_compare_stands);
	for (int i = 0; i < fresh * segment; i++)
		r->chosen[at + i]->wish = r->blocks[b + i / segment].first * segment + i % segment;
}

int round_choose_blocks(struct round *r, int n)
{
	int segment = r->config.segment, blocks, b = 0, chosen = 0, end;

	qsort(r->chosen, (size_t)n, sizeof(struct round_host *), blocks_compare_hosts);
	blocks_one_each(r, n);
	qsort(r->chosen, (size_t)n, sizeof(struct round_host *), blocks_compare_hosts);
	blocks = blocks_choose(r, n);
	blocks_match(r, n, blocks_vacancies(r, blocks));
	blocks_place(r, blocks);
	qsort(r->chosen, (size_t)n, sizeof(struct round_host *), blocks_compare_hosts);
	for (int at = 0; at < n && b < blocks; at = end) {
		int of_part = 0;

		for (end = at + 1; end < n && r->chosen[end]->part == r->chosen[at]->part;)
			end++;
		if (r->blocks[b].part != r->chosen[at]->part)
			continue;
		blocks_seat_part(r, at, b, blocks);
		for (; b < blocks && r->blocks[b].part == r->chosen[at]->part; b++)
			of_part += segment;
		memmove(r->chosen + chosen, r->chosen + at,
			(size_t)of_part * sizeof(struct round_host *));
		chosen += of_part;
	}
	return chosen;
}
