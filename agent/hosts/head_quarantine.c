/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "common/base/log.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

/*
 * Hosts that were at fault too often: a round takes such a host only if too few others are there.
 * In a round in which a host was lost, workers fail for that: no other host is at fault.
 */

/* until_ms 0: the hosts of that name are let back. */
static void quarantine_tell_rounds(struct head *h, const char *name, uint64_t until_ms)
{
	const struct round_host *host = NULL;

	while ((host = round_next_host(h->round, host)))
		if (!strcmp(host->name, name))
			round_keep_out(h->round, host->number, until_ms, hosts_now_ms());
}

static void quarantine_note_fault(struct head *h, const char *name, const char *what)
{
	uint64_t now = hosts_now_ms(), until = quarantine_fault(&h->quarantine, name, now);
	int64_t time_ms = h->spec->rendezvous.quarantine_ms;
	char text[DURATION_TEXT_MAX];

	if (!until)
		return;
	duration_format(time_ms, text);
	head_event(h, LOG_WARNING, "host-quarantined", h->attempt,
		json_pack("{s:s, s:I}", "host", name, "until_us",
			(json_int_t)(loop_real_us() + (until - now) * 1000)),
		"host %s is in quarantine for %s: %s, the last of %d times within %s", name, text,
		what, h->spec->rendezvous.quarantine_max, text);
	quarantine_tell_rounds(h, name, until);
}

void head_host_lost(struct head *h, const char *name, bool kept)
{
	if (h->dropping)
		return;
	h->lost_one |= !kept;
	quarantine_note_fault(h, name, "it was lost");
}

/* The host of the present round whose worker has that rank, or NULL. */
static const struct round_host *quarantine_host_of(const struct head *h, int64_t rank)
{
	const struct round_host *host = NULL;

	while ((host = round_next_host(h->round, host)))
		if (host->round == round_number(h->round) && rank >= host->first_rank &&
			rank < (int64_t)host->first_rank + host->workers)
			return host;
	return NULL;
}

void head_blame_host(struct head *h)
{
	int alive = round_count(h->round, HOST_STARTING) + round_count(h->round, HOST_RUNNING) +
		    round_count(h->round, HOST_STOPPING);
	const struct round_host *host;

	if (alive > 1 || h->lost_one || !h->why || strcmp(h->why, "failure") != 0)
		return;
	host = quarantine_host_of(h, json_get_int(head_root_cause(h), "rank", -1));
	if (host)
		quarantine_note_fault(h, host->name, "its worker failed");
}

int head_let_back(struct head *h, const char *name, const char *why, struct error *err)
{
	if (!quarantine_forget(&h->quarantine, name, hosts_now_ms()))
		return error_set(err, -EINVAL, "host %.64s is not in quarantine", name);
	head_event(h, LOG_NOTICE, "host-let-back", h->attempt, json_pack("{s:s}", "host", name),
		"host %.64s is %.200s", name, why);
	quarantine_tell_rounds(h, name, 0);
	round_time(h->round, hosts_now_ms());
	head_carry_out(h);
	return 0;
}
