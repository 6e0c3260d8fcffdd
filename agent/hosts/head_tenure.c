/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "common/base/log.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * The hosts of a head that etcd elects: which ones etcd knows, what these have acknowledged, and
 * which hosts of the round of the head before are missing.
 */

uint64_t head_acked_ms(const struct head *h)
{
	const struct head_host *x = NULL;
	uint64_t acked = h->gone_acked_ms;

	while ((x = head_next_member(h, x)))
		if (x->recorded && x->acked_ms < acked)
			acked = x->acked_ms;
	return acked;
}

void head_tenure_dropped(struct head *h, const struct head_host *x)
{
	if (x->recorded && x->acked_ms < h->gone_acked_ms)
		h->gone_acked_ms = x->acked_ms;
}

bool head_may_have_workers(const struct head *h, const struct round_host *host)
{
	return host->round == round_number(h->round) &&
	       (host->state == HOST_PREPARED || host->state == HOST_STARTING ||
		       host->state == HOST_RUNNING || host->state == HOST_STOPPING);
}

static bool tenure_takes_part(const struct head *h, const struct head_host *x)
{
	const struct round_host *host = round_host(h->round, x->number);

	return host && head_may_have_workers(h, host);
}

bool head_is_recorded(const struct head *h)
{
	const struct head_host *x = NULL;

	while ((x = head_next_member(h, x)))
		if (tenure_takes_part(h, x) && !x->known)
			return false;
	return true;
}

void head_recording(struct head *h)
{
	struct head_host *x = NULL;

	while ((x = head_next_member(h, x))) {
		x->recording = tenure_takes_part(h, x);
		x->recorded |= x->recording;
		x->known &= x->recording; /* etcd may soon have a state without it */
	}
}

void head_recorded(struct head *h, uint64_t round, bool written)
{
	struct head_host *x = NULL;

	if (written) { /* etcd has just these hosts now */
		h->gone_acked_ms = TENURE_NEVER;
		while ((x = head_next_member(h, x)))
			x->recorded = x->known = x->recording;
	}
	/* In a round that runs, an older record changes nothing. */
	if (!written && round_state(h->round) != ROUND_RECORDING)
		return;
	round_recorded(h->round, round, hosts_now_ms());
	head_carry_out(h);
	lead_arm(h->hosts->lead);
}

/* --- hosts that wait to be let in --- */

void head_drop_unrecorded(struct head *h)
{
	struct head_host *x = NULL;
	int known = 0;

	if (round_state(h->round) != ROUND_RECORDING || head_is_recorded(h))
		return;
	while ((x = head_next_member(h, x)))
		known += tenure_takes_part(h, x) && x->known;
	if (known < h->spec->rendezvous.nodes_min)
		return;
	for (int i = 0; i < h->n_members; i++) { /* head_carry_out() may free x */
		x = h->members[i];
		if (!x || !tenure_takes_part(h, x) || x->known)
			continue;
		log_notice("host %s does not get in while etcd is away", head_host_name(h, i));
		h->dropping = true;
		if (round_hear(h->round, i, HOST_EV_LOST, 0, hosts_now_ms()) == 0)
			head_carry_out(h); /* it joins again, and waits */
		h->dropping = false;
	}
}

bool head_is_alone(const struct head *h)
{
	const struct round_host *host = NULL;
	const char *own = supervisor_options(h->hosts->sv)->run;

	while ((host = round_next_host(h->round, host)))
		if (host->state != HOST_GONE && strcmp(host->run, own) != 0)
			return false;
	return true;
}

bool head_has_enough(const struct head *h)
{
	const struct head_host *x = NULL;
	int n = 0;

	while ((x = head_next_member(h, x)))
		n++;
	return n >= h->spec->rendezvous.nodes_min;
}

bool head_may_admit(const struct head *h)
{
	const struct lead *l = h->hosts->lead;

	/* As long as etcd does not learn of a round, none with more hosts can begin. */
	return !l || (lead_keys_are_loaded(l) && lead_confirmed(l) && !l->record && !l->writing);
}

/* A host whose Join waits; NULL: none does. */
static struct head_host *tenure_waiting(const struct head *h)
{
	struct head_host *x;

	LIST_FOREACH (x, &h->unjoined, entry)
		if (x->join)
			return x;
	while ((x = head_next_member(h, x))) /* those that join again */
		if (x->join && x->link)
			return x;
	return NULL;
}

void head_admit_waiting(struct head *h)
{
	struct head_host *x;

	while (head_may_admit(h) && (x = tenure_waiting(h))) {
		_cleanup_json_ json_t *join = TAKE_PTR(x->join);
		struct error err = { 0 };

		if (head_hear_join(x, join, &err) == 0)
			continue;
		log_warning("host %s does not get in: %s", link_peer(x->link)->host, err.text);
		head_unlink(x); /* it joins again, and the answer says why */
	}
}

/* --- the round of the head before --- */

int head_load_state(struct head *h, const json_t *state)
{
	const json_t *one;
	uint64_t round = (uint64_t)lead_number(state, "round", 0);
	size_t i;

	h->old_head = -1;
	h->attempt = (int)lead_number(state, "attempt", 0);
	if (state && restart_load(&h->budget, json_object_get(state, "budget"), hosts_now_ms()) < 0)
		log_warning("etcd: the state of the group lacks the budget of restarts");
	quarantine_load(&h->quarantine, json_object_get(state, "quarantine"), hosts_now_ms(),
		loop_real_us() / 1000);
	h->gone_acked_ms = json_array_size(json_get_array(state, "hosts")) ? 0 : TENURE_NEVER;
	json_array_foreach (json_get_array(state, "hosts"), i, one) {
		const struct round_join past = {
			.run = json_get_string(one, "run", ""),
			.agent = json_get_string(one, "agent", ""),
			.boot = json_get_string(one, "boot", ""),
			.name = json_get_string(one, "name", ""),
			.node_rank = -1,
			.known_round = round,
			.last_round = round,
			.last_rank = (int)lead_number(one, "group_rank", -1),
			.topology = json_get_string(one, "topology", NULL),
		};
		int number = round_remember(h->round, &past);

		if (number < 0)
			return number;
		if (!strcmp(past.run, json_get_string(state, "head", "")))
			h->old_head = number;
	}
	return 0;
}

void head_note_last_answer(struct head *h, const char *run, int64_t answered_ms)
{
	const struct round_host *host = round_host_of_run(h->round, run);
	uint64_t now = hosts_now_ms();

	if (h->hosts->lead && host && host->state == HOST_MISSING)
		tenure_past_heard(&h->hosts->lead->past,
			answered_ms > 0 && (uint64_t)answered_ms < now ? now - (uint64_t)answered_ms
								       : now);
}

uint64_t head_missing_ms(const struct head *h)
{
	const struct round_host *old = round_host(h->round, h->old_head);
	bool old_too = old && old->state == HOST_MISSING;
	uint64_t due = UINT64_MAX;

	if (!h->hosts->lead || h != h->hosts->head)
		return due; /* a candidate knows nothing yet */
	if (round_count(h->round, HOST_MISSING) > old_too)
		due = tenure_past_gone_ms(&h->hosts->lead->past, false);
	if (old_too && tenure_past_gone_ms(&h->hosts->lead->past, true) < due)
		due = tenure_past_gone_ms(&h->hosts->lead->past, true);
	return due;
}

bool head_warn_missing(struct head *h)
{
	const struct tenure_past *past = &h->hosts->lead->past;
	uint64_t now = hosts_now_ms(), gone = tenure_past_gone_ms(past, false);
	int n = round_count(h->round, HOST_MISSING);
	char text[DURATION_TEXT_MAX];

	if (!n || now < past->led_ms + 2 * h->leases.lease_ms || now >= gone)
		return false;
	if (h->missing_warned)
		return true;
	h->missing_warned = true;
	log_warning("%d %s of the last round may still run: nothing begins for up to %s; if none "
		    "does, remove %s/%s/ from etcd",
		n, n == 1 ? "host" : "hosts",
		duration_format((int64_t)((gone - now + 59999) / 60000 * 60000), text),
		h->spec->rendezvous.prefix, h->spec->rendezvous.id);
	return true;
}

void head_old_head_died(struct head *h, const char *agent)
{
	const struct round_host *host = NULL;

	while ((host = round_next_host(h->round, host)))
		if (host->state == HOST_MISSING && !strcmp(host->agent, agent))
			break;
	if (host && round_hear(h->round, host->number, HOST_EV_LOST, 0, hosts_now_ms()) == 0)
		head_carry_out(h);
}

void head_drop_missing(struct head *h)
{
	const struct round_host *host = NULL;
	uint64_t now = hosts_now_ms();

	if (head_missing_ms(h) > now)
		return;
	while ((host = round_next_host(h->round, host))) {
		int number = host->number;

		if (host->state != HOST_MISSING ||
			tenure_past_gone_ms(&h->hosts->lead->past, number == h->old_head) > now)
			continue;
		log_notice("host %s of the last round has not come: its workers are dead by now",
			host->name);
		if (round_hear(h->round, number, HOST_EV_LOST, 0, now) == 0)
			head_carry_out(h);
		host = NULL; /* it is gone */
		if (head_missing_ms(h) > now)
			return;
	}
}
