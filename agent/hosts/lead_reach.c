/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "agent/hosts/member.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The host that leads has to be one that the others reach. A host that has not reached it for a
 * lease writes a note to etcd. A head that has had fewer than MIN hosts for two leases looks for
 * such notes. If there are any, it leaves the lead to another host for two leases.
 */

enum { REACH_LEASES = 2 };

struct lead_reach {
	/* The note of this host that it does not reach the one that leads. */
	int64_t note_lease; /* 0: there is none */
	struct etcd_call *note_call;
	struct loop_timer *note_timer; /* until it writes the note */

	/* While this host leads. */
	uint64_t short_ms;	      /* since when too few hosts are there; 0: enough are */
	struct etcd_call *notes_call; /* reads the notes of hosts that wait */
};

static uint64_t reach_lease_ms(const struct lead *l)
{
	return (uint64_t)l->hosts->spec->rendezvous.lease_ms;
}

/* --- a host that waits --- */

static void reach_noted(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->reach->note_call = NULL;
	if (a->status != STATUS_OK)
		log_debug("etcd: %s", a->text);
}

static void reach_revoked(void *arg, const struct etcd_answer *a)
{
}

static void reach_granted(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;
	struct lead_reach *r = l->reach;
	_cleanup_json_ json_t *value = NULL;
	_cleanup_free_ char *text = NULL, *key = NULL;
	struct etcd_op put = { .kind = ETCD_PUT };
	const struct etcd_txn t = { .then_ops = &put, .n_then = 1 };

	r->note_call = NULL;
	if (a->status != STATUS_OK)
		return;
	r->note_lease = put.lease = a->leases[0].id;
	value = json_pack("{s:s, s:s}", "for", l->follows, "host", supervisor_host(l->hosts->sv));
	put.value = text = value ? json_dump_text(value, &put.len) : NULL;
	if (asprintf(&key, "%s%s", l->keys[LEAD_WAITING], l->hosts->agent) < 0)
		key = NULL;
	put.key = key;
	if (text && key)
		(void)!etcd_txn(l->etcd, &t, lead_limit_ms(l), reach_noted, l, &r->note_call);
}

static void reach_patience(void *arg)
{
	struct lead *l = arg;
	struct lead_reach *r = l->reach;

	if (l->state != LEAD_FOLLOWING || l->hosts->member->linked)
		return;
	loop_timer_arm(r->note_timer, reach_lease_ms(l));
	if (!r->note_call && etcd_grant(l->etcd, REACH_LEASES * lead_ttl_s(l), lead_limit_ms(l),
				     reach_granted, l, &r->note_call) == 0)
		log_info("etcd is told that this host does not reach the one that leads");
}

void lead_reach_begin(struct lead *l)
{
	struct lead_reach *r = l->reach;

	if (!loop_timer_armed(r->note_timer))
		loop_timer_arm(r->note_timer, reach_lease_ms(l));
}

void lead_reach_end(struct lead *l)
{
	struct lead_reach *r = l->reach;

	loop_timer_disarm(r->note_timer);
	if (!r->note_lease && !r->note_call)
		return;
	r->note_call = etcd_cancel(r->note_call);
	if (r->note_lease)
		(void)!etcd_revoke(
			l->etcd, r->note_lease, lead_limit_ms(l), reach_revoked, l, NULL);
	r->note_lease = 0;
}

/* --- the head --- */

static void reach_asked(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;
	struct lead_reach *r = l->reach;
	int waiting = 0;

	r->notes_call = NULL;
	if (a->status != STATUS_OK || !r->short_ms || l->leaving)
		return;
	for (size_t i = 0; i < a->results[0].n; i++) {
		const struct etcd_entry *e = &a->results[0].entries[i];
		json_error_t at;
		_cleanup_json_ json_t *value = json_loadb(e->value, e->len, 0, &at);

		waiting += !strcmp(json_get_string(value, "for", ""), l->hosts->agent);
	}
	if (!waiting)
		return;
	log_warning("%d hosts do not reach this one, which leads too few: another one may lead",
		waiting);
	l->claims_from_ms = hosts_now_ms() + REACH_LEASES * reach_lease_ms(l);
	l->yields = true;
	lead_resign(l);
}

void lead_reach_check(struct lead *l)
{
	struct lead_reach *r = l->reach;
	const struct etcd_op get = { .kind = ETCD_GET,
		.key = l->keys[LEAD_WAITING],
		.end = l->keys[LEAD_WAITING_END],
		.limit = 16 };
	const struct etcd_txn t = { .then_ops = &get, .n_then = 1 };
	uint64_t now = hosts_now_ms();

	if (head_has_enough(l->hosts->head)) {
		r->short_ms = 0;
		return;
	}
	if (!r->short_ms)
		r->short_ms = now;
	if (now - r->short_ms < REACH_LEASES * reach_lease_ms(l) || r->notes_call ||
		!lead_confirmed(l) || l->leaving)
		return;
	(void)!etcd_txn(l->etcd, &t, lead_limit_ms(l), reach_asked, l, &r->notes_call);
}

void lead_reach_forget(struct lead *l)
{
	struct lead_reach *r = l->reach;

	if (!r)
		return;
	r->notes_call = etcd_cancel(r->notes_call);
	r->short_ms = 0;
}

/* --- both sides --- */

int lead_reach_new(struct lead *l)
{
	l->reach = calloc(1, sizeof(*l->reach));
	if (!l->reach)
		return -ENOMEM;
	return loop_timer_new(
		supervisor_loop(l->hosts->sv), reach_patience, l, &l->reach->note_timer);
}

void lead_reach_free(struct lead *l)
{
	lead_reach_forget(l);
	if (l->reach)
		loop_timer_free(l->reach->note_timer);
	free(l->reach);
}
