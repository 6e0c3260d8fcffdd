/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Vacant seats: their hosts are gone, and the others go on, since the workers of such a seat may
 * start again alone. agent/rounds/round.h decides when that is so, and which host takes a seat.
 */

static void seats_ranks(int first, int n, char *text, size_t size)
{
	if (n == 1)
		snprintf(text, size, "rank %d", first);
	else
		snprintf(text, size, "ranks %d-%d", first, first + n - 1);
}

/* "host HOST HOW ranks 0-3WHAT". */
static void seats_event(struct head *h, const char *event, const char *host, int first_rank, int n,
	const char *how, const char *what)
{
	char ranks[48];

	seats_ranks(first_rank, n, ranks, sizeof(ranks));
	head_event(h, LOG_NOTICE, event, h->attempt - 1,
		json_pack("{s:s, s:i, s:i}", "host", host, "first_rank", first_rank, "workers", n),
		"host %s %s %s%s", host, how, ranks, what);
}

void head_vacate_seat(struct head *h, struct head_host *x)
{
	const struct round_host *host = round_host(h->round, x->number);

	x->vacated = true;
	seats_event(h, "seat-vacant", host->name, host->first_rank, host->workers, "leaves",
		" to the next host, and the others go on");
}

void head_take_seat(struct head *h, struct head_host *x)
{
	const struct round_host *host = round_host(h->round, x->number);

	seats_event(h, "seat-taken", host->name, host->first_rank, host->workers, "takes",
		" in the attempt that runs");
	if (x->sharing)
		sharing_group_take(h->sharing, x->sharing, host->first_rank, host->workers);
	head_logs_begin(h, x);
	head_say_start(h, x);
	head_choose_deputy(h);
}

void head_hold_seats(struct head *h)
{
	round_hold_seats(h->round, true, hosts_now_ms());
	head_carry_out(h);
}

/* A copy of a seat: an action for one seat may end the round, and with it all seats. */
struct seats_found {
	char name[65];
	int first_rank, workers;
};

static struct seats_found *seats_find_all(
	const struct head *h, bool (*wanted)(const struct round_seat *s), int *ret_n)
{
	const struct round_seat *s = NULL;
	struct seats_found *all;
	int n = 0;

	while ((s = round_next_seat(h->round, s)))
		n += wanted(s);
	*ret_n = 0;
	all = calloc((size_t)n + 1, sizeof(*all));
	if (!all)
		log_error("out of memory: workers wait for those of a host that is gone");
	while (all && (s = round_next_seat(h->round, s))) {
		if (!wanted(s))
			continue;
		snprintf(all[*ret_n].name, sizeof(all->name), "%.64s", s->name);
		all[*ret_n].first_rank = s->first_rank;
		all[(*ret_n)++].workers = s->workers;
	}
	return all;
}

static bool seats_has_no_worker(const struct round_seat *s)
{
	return !s->host || s->host->state != HOST_STOPPING;
}

void head_seats_vacated(struct head *h)
{
	int n;
	_cleanup_free_ struct seats_found *all = seats_find_all(h, seats_has_no_worker, &n);

	for (int i = 0; i < n; i++) {
		char why[96];

		snprintf(why, sizeof(why), "its host %.64s is gone", all[i].name);
		sharing_group_vacate(h->sharing, all[i].first_rank, all[i].workers, why);
	}
}

/* Whether the verdict waits for one of these workers. */
static bool seats_awaited(const struct head *h, int first_rank, int n)
{
	for (int rank = first_rank; rank < first_rank + n; rank++)
		if (head_awaits_worker(h, rank))
			return true;
	return false;
}

static bool seats_is_late(const struct round_seat *s)
{
	return s->late && !s->host;
}

void head_seats_late(struct head *h)
{
	int n;
	_cleanup_free_ struct seats_found *all = seats_find_all(h, seats_is_late, &n);

	for (int i = 0; i < n; i++) {
		/* Some seats may have been late before: only the others get an event. */
		if (!seats_awaited(h, all[i].first_rank, all[i].workers))
			continue;
		seats_event(h, "seat-late", all[i].name, all[i].first_rank, all[i].workers, "left",
			", which no other host has taken for rendezvous.join_timeout: the group "
			"waits no longer");
		sharing_group_give_up(h->sharing, all[i].first_rank, all[i].workers);
	}
	for (int i = 0; i < n; i++)
		head_workers_over(h, all[i].first_rank, all[i].workers);
}
