/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <stdlib.h>
#include <string.h>

/*
 * A host leaves while no host leads, or after it has given up the lead. It takes itself out of the
 * last round in etcd, so that the next head does not wait for it; the last host of a group removes
 * all keys.
 */

static void withdraw_look(struct lead *l);

static void withdraw_written(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->write = NULL;
	if (a->status == STATUS_OK && !a->succeeded)
		withdraw_look(l); /* another host has written meanwhile */
	else
		lead_removed(l);
}

/* Whether no worker of that host lives: it is this one, or has left the group while this one led.
 */
static bool withdraw_has_left(const struct lead *l, const json_t *state, const char *run)
{
	const struct head *h = l->hosts->head;
	const struct round_host *host = NULL;

	if (!strcmp(run, supervisor_options(l->hosts->sv)->run))
		return true;
	if (!h || json_get_int(state, "term", 0) != l->term)
		return false;
	while ((host = round_next_host(h->round, host)))
		if (host->state != HOST_GONE && !strcmp(host->run, run))
			return false;
	return true;
}

/* Takes the hosts that have left out of the last round. Returns how many others are in it; -1: no
 * host has left. */
static int withdraw_cross_out(const struct lead *l, json_t *state)
{
	json_t *list = json_object_get(state, "hosts");
	size_t n = json_array_size(list);

	for (size_t i = n; i-- > 0;)
		if (withdraw_has_left(
			    l, state, json_get_string(json_array_get(list, i), "run", "")))
			json_array_remove(list, i);
	return json_array_size(list) < n ? (int)json_array_size(list) : -1;
}

static int withdraw_write(struct lead *l, bool all)
{
	const struct lead_entry *seen = l->seen;
	const struct etcd_compare compares[] = {
		{ l->keys[LEAD_KEY], seen[LEAD_KEY].revision },
		{ l->keys[LEAD_RUN], seen[LEAD_RUN].revision },
		{ l->keys[LEAD_STATE], seen[LEAD_STATE].revision },
	};
	struct etcd_op ops[] = { { .kind = ETCD_DELETE, .key = l->keys[LEAD_KEY] },
		{ .kind = ETCD_DELETE, .key = l->keys[LEAD_STATE] },
		{ .kind = ETCD_DELETE, .key = l->keys[LEAD_RUN] },
		{ .kind = ETCD_DELETE, .key = l->keys[LEAD_EDITION] },
		{ .kind = ETCD_DELETE, .key = l->keys[LEAD_KV], .end = l->keys[LEAD_KV_END] } };
	const struct etcd_txn t = {
		.compares = compares, .n_compares = 3, .then_ops = ops, .n_then = all ? 5 : 2
	};
	_cleanup_free_ char *text = NULL;

	if (!all) {
		text = json_dump_text(seen[LEAD_STATE].value, &ops[1].len);
		ops[1].kind = ETCD_PUT;
		ops[1].value = text;
		ops[1].lease = seen[LEAD_STATE].lease;
		if (!text)
			return -1;
	}
	return etcd_txn(l->etcd, &t, lead_limit_ms(l), withdraw_written, l, &l->write);
}

static void withdraw_looked(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;
	const struct lead_entry *lead = &l->seen[LEAD_KEY], *state = &l->seen[LEAD_STATE];
	bool led, all;
	int others;

	l->call = NULL;
	if (a->status != STATUS_OK || lead_look_read(l, a) < 0) {
		lead_removed(l);
		return;
	}
	/* A lead of this host itself is of a claim. */
	led = lead->revision &&
	      strcmp(json_get_string(lead->value, "agent", ""), l->hosts->agent) != 0;
	others = lead->revision ? 0 : -1; /* a head that claims again may have written run alone */
	if (state->revision)
		others = withdraw_cross_out(l, state->value);
	all = !others && l->seen[LEAD_RUN].revision;
	if (led || others < 0 || (!all && !others) || withdraw_write(l, all) < 0)
		lead_removed(l);
}

static void withdraw_look(struct lead *l)
{
	if (lead_look_send(l, withdraw_looked) < 0)
		lead_removed(l);
}

void lead_withdraw(struct lead *l)
{
	if (l->leaving == LEAD_WITHDRAWS || l->leaving == LEAD_LEFT || !l->looked)
		return;
	l->leaving = LEAD_WITHDRAWS;
	lead_reach_end(l);
	l->watch = etcd_watch_free(l->watch);
	l->resolve = link_resolve_free(l->resolve);
	l->call = etcd_cancel(l->call);
	l->candidate = head_free(l->candidate);
	loop_timer_disarm(l->retry);
	loop_timer_disarm(l->turn);
	loop_timer_arm(l->removal, LEAD_REMOVE_MS);
	withdraw_look(l);
}
