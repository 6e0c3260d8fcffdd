/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "agent/hosts/member.h"
#include "common/base/log.h"
#include "common/base/socket_address.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * The requests of a head to etcd: five keep-alives in each lease, and a write for each round, for
 * the verdict, and to leave. One write is under way at a time. While etcd is away, writes wait.
 */

enum {
	KEEP_END_TTL_S = 60,
	KEEP_RESIGN_MS = 100, /* between two tries */
};

static void keep_remove(struct lead *l);
static void keep_resign(struct lead *l);

bool lead_confirmed(const struct lead *l)
{
	uint64_t now = hosts_now_ms();

	return l->state == LEAD_LEADING && !l->lost && !l->regains && now < l->reached_ms &&
	       tenure_confirmed(&l->tenure, now);
}

void lead_kept(struct lead *l, uint64_t sent_ms, int64_t ttl_s)
{
	tenure_kept(&l->tenure, sent_ms, (uint64_t)ttl_s * 1000);
	l->reached_ms = l->tenure.kept_ms;
}

/* --- how long this host leads --- */

bool lead_holds(struct lead *l)
{
	uint64_t now = hosts_now_ms();

	if (l->state != LEAD_LEADING || l->lost)
		return false;
	if (now < l->until_ms)
		return true;
	l->until_ms = tenure_until_ms(&l->tenure, head_acked_ms(l->hosts->head));
	if (now < l->until_ms)
		return true;
	lead_lost(l, l->tenure.lost	       ? "another host leads"
		     : *l->reported	       ? l->reported
		     : now < l->tenure.kept_ms ? "the lead has ended"
					       : "neither etcd nor all hosts answer");
	return false;
}

void lead_arm(struct lead *l)
{
	uint64_t now = hosts_now_ms();

	if (l->state != LEAD_LEADING || l->lost)
		return;
	l->until_ms = tenure_until_ms(&l->tenure, head_acked_ms(l->hosts->head));
	loop_timer_arm(l->over, l->until_ms > now ? l->until_ms - now : 0);
	member_fence(l->hosts->member);
}

static void keep_over(void *arg)
{
	struct lead *l = arg;

	if (lead_holds(l))
		lead_arm(l);
}

/* --- keeping the lead --- */

static int keep_put(struct lead *l, enum lead_key key, const char *text, int64_t lease,
	const struct etcd_compare *compares, size_t n, etcd_fn fn)
{
	const struct etcd_op put = { .kind = ETCD_PUT,
		.key = l->keys[key],
		.value = text,
		.len = strlen(text),
		.lease = lease };
	struct etcd_txn t = {
		.compares = compares, .n_compares = n, .then_ops = &put, .n_then = 1
	};

	return lead_write(l, &t, fn);
}

/* --- by a member --- */

/* This member has kept the head's leases alive. */
static void keep_renewed(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->keep = NULL;
	if (a->status == STATUS_OK)
		member_say(l->hosts->member, "Renewed",
			json_pack("{s:I, s:I}", "number", (json_int_t)l->renewal, "ttl_s",
				(json_int_t)a->leases[0].ttl_s));
}

void lead_renew_for(struct lead *l, int64_t number, const json_t *leases)
{
	enum { MOST = 2 };
	int64_t ids[MOST];
	size_t n = json_array_size(leases);

	if (l->state == LEAD_LEADING || l->keep || !n || n > MOST)
		return;
	for (size_t i = 0; i < n; i++)
		ids[i] = (int64_t)json_integer_value(json_array_get(leases, i));
	l->renewal = number;
	(void)!etcd_keep_alive(l->etcd, ids, n, lead_limit_ms(l), keep_renewed, l, &l->keep);
}

/* ttl_s 0: the lease has ended, and only the head itself can claim the lead again. */
void lead_renewed(struct lead *l, int64_t number, int64_t ttl_s)
{
	if (l->state != LEAD_LEADING || l->lost || l->regains || number != l->renewal || ttl_s <= 0)
		return;
	if (ttl_s > lead_ttl_s(l))
		ttl_s = lead_ttl_s(l);
	tenure_kept(&l->tenure, l->asked_ms, (uint64_t)ttl_s * 1000);
	lead_arm(l);
}

/* etcd has not answered this host: has all members try. */
static void keep_ask(struct lead *l)
{
	_cleanup_json_ json_t *body = json_pack("{s:I, s:[I]}", "number", (json_int_t)++l->renewal,
		"leases", (json_int_t)l->own_lease);
	_cleanup_free_ char *text = NULL;
	size_t len;

	if (l->group_lease) /* another program may have put run without one */
		json_add(json_get_array(body, "leases"), json_integer(l->group_lease));
	text = body ? json_dump_text(body, &len) : NULL;
	l->asked_ms = hosts_now_ms();
	if (text)
		head_say_all(l->hosts->head, "Renew", text, len);
}

static void keep_answered(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->keep = NULL;
	if (a->status != STATUS_OK) {
		lead_report(l, a->text);
		keep_ask(l);
		return;
	}
	if (!l->refused)
		lead_report(l, NULL);
	if (!a->leases[0].ttl_s) {
		lead_regain(l);
		return;
	}
	lead_kept(l, l->kept_ms, a->leases[0].ttl_s);
	lead_keys_load(l);
	head_admit_waiting(l->hosts->head);
	lead_arm(l);
	lead_flush(l);
}

static void keep_renew(void *arg)
{
	struct lead *l = arg;
	const int64_t leases[] = { l->own_lease, l->group_lease };
	size_t n = l->group_lease ? 2 : 1; /* another program may have put run without one */

	loop_timer_arm(l->renew, (uint64_t)l->hosts->spec->rendezvous.lease_ms / 5);
	if (!lead_confirmed(l) || l->refused)
		head_drop_unrecorded(l->hosts->head);
	if (l->leaving == LEAD_RESIGNS)
		lead_flush(l);
	lead_reach_check(l);
	(void)head_warn_missing(l->hosts->head);
	lead_regain_try(l);
	if (l->keep || l->regains)
		return;
	l->kept_ms = hosts_now_ms();
	if (etcd_keep_alive(l->etcd, leases, n, lead_limit_ms(l), keep_answered, l, &l->keep) < 0)
		lead_report(l, "out of memory");
}

/* --- writing --- */

void lead_written(struct lead *l, const struct etcd_answer *a)
{
	l->refused = a->status != STATUS_OK;
	lead_report(l, l->refused ? a->text : NULL);
}

static void keep_recorded(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;
	_cleanup_json_ json_t *record = TAKE_PTR(l->writing);

	l->write = NULL;
	lead_written(l, a);
	if (a->status == STATUS_OK && a->succeeded) {
		l->state_revision = a->revision;
		l->recorded = true;
		head_recorded(
			l->hosts->head, (uint64_t)json_get_int(record, "round", 0), !l->record);
		head_admit_waiting(l->hosts->head);
	} else {
		/* An earlier try, which etcd did not answer, may have written it. */
		if (a->status == STATUS_OK && lead_check_refused(l, a))
			l->state_revision = l->old_state;
		if (!l->record)
			l->record = TAKE_PTR(record);
	}
	/* After a failure the next keep-alive that etcd answers flushes. */
	if (a->status == STATUS_OK)
		lead_flush(l);
}

static void keep_write_record(struct lead *l)
{
	const struct etcd_compare own[] = { { l->keys[LEAD_KEY], l->revision },
		{ l->keys[LEAD_STATE], l->state_revision } };
	size_t len;
	_cleanup_free_ char *text = json_dump_text(l->record, &len);
	int r = text ? keep_put(l, LEAD_STATE, text, l->group_lease, own, 2, keep_recorded)
		     : -ENOMEM;

	if (r == 0) {
		l->writing = TAKE_PTR(l->record);
	} else {
		lead_report(
			l, r == -EMSGSIZE ? "the group is too large for one value" : strerror(-r));
	}
}

/* The verdict is written, or cannot be. */
static void keep_end_over(struct lead *l)
{
	json_decref(l->end);
	l->end = NULL;
	lead_flush(l);
}

static void keep_ended(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->write = NULL;
	if (a->status == STATUS_OK ? a->succeeded : l->leaving == LEAD_REMOVES)
		keep_end_over(l);
	else if (a->status == STATUS_OK && lead_check_refused(l, a))
		lead_flush(l);
}

static void keep_end_granted(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;
	const struct etcd_compare own = { l->keys[LEAD_KEY], l->revision };
	size_t len;
	_cleanup_free_ char *text = json_dump_text(l->end, &len);

	l->write = NULL;
	if (a->status == STATUS_OK && text &&
		keep_put(l, LEAD_END, text, a->leases[0].id, &own, 1, keep_ended) == 0)
		return;
	if (l->leaving == LEAD_REMOVES)
		keep_end_over(l);
}

static void keep_noted(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->write = NULL;
	lead_written(l, a);
	if (a->status != STATUS_OK)
		return; /* the next keep-alive that etcd answers flushes */
	if (a->succeeded) {
		l->edition_due = false;
		FEATURES_CALL(l->hosts->sv, hosts_noted, l->hosts->sv);
	} else if (!lead_check_refused(l, a)) {
		return;
	}
	lead_flush(l);
}

static void keep_write_edition(struct lead *l)
{
	const struct etcd_compare own = { l->keys[LEAD_KEY], l->revision };
	size_t len;
	_cleanup_free_ char *text = json_dump_text(l->edition, &len);

	if (!text || keep_put(l, LEAD_EDITION, text, l->group_lease, &own, 1, keep_noted) < 0)
		lead_report(l, "out of memory");
}

static int keep_write_end(struct lead *l)
{
	return etcd_grant(
		l->etcd, KEEP_END_TTL_S, lead_limit_ms(l), keep_end_granted, l, &l->write);
}

void lead_flush(struct lead *l)
{
	if (l->leaving == LEAD_RESIGNS)
		keep_resign(l);
	else if (l->leaving == LEAD_REMOVES && !l->write)
		keep_remove(l);
	lead_regain_try(l);
	if (l->write || l->leaving > LEAD_RESIGNS || !lead_confirmed(l))
		return;
	if (!l->end && l->record)
		keep_write_record(l);
	else if (!l->end && l->edition_due)
		keep_write_edition(l);
	else if (!l->end)
		(void)lead_keys_flush(l);
	else if (keep_write_end(l) < 0)
		lead_report(l, "out of memory");
}

/* A round of hosts that etcd knows may start before etcd knows the round. */
static void keep_go_on(void *arg)
{
	struct lead *l = arg;

	if (!l->leaving && lead_holds(l) && head_is_recorded(l->hosts->head))
		head_recorded(l->hosts->head, round_number(l->hosts->head->round), false);
}

/* max_run_time was over before this host led: it ends the group now that all hosts are there. */
static void keep_late(void *arg)
{
	struct lead *l = arg;

	if (lead_holds(l))
		head_timed_out(l->hosts->head, l->hosts->late);
}

void lead_record(struct lead *l)
{
	struct head *h = l->hosts->head;

	if (*l->hosts->late && loop_defer(supervisor_loop(l->hosts->sv), keep_late, l) == 0)
		return;
	json_decref(l->record);
	l->record = lead_state_json(h, l->term);
	if (!l->record)
		log_error("out of memory: etcd does not learn of the round");
	head_recording(h);
	lead_flush(l);
	if (head_is_recorded(h) && loop_defer(supervisor_loop(l->hosts->sv), keep_go_on, l) < 0)
		log_error("out of memory: the round waits for etcd");
}

void lead_note_edition(struct lead *l, json_t *edition)
{
	json_decref(l->edition);
	l->edition = edition;
	l->edition_due = edition;
	lead_flush(l);
}

void lead_note_end(struct lead *l)
{
	json_decref(l->end);
	l->end = json_incref(l->hosts->head->verdict);
	lead_flush(l);
}

/* --- leaving --- */

void lead_removed(struct lead *l)
{
	l->write = etcd_cancel(l->write);
	l->call = etcd_cancel(l->call);
	loop_timer_disarm(l->removal);
	if (l->yields) {
		lead_lost(l, "others do not reach it");
		return;
	}
	l->leaving = LEAD_LEFT;
	hosts_check_over(l->hosts);
}

static void keep_is_late(void *arg)
{
	lead_removed(arg);
}

static void keep_revoke(struct lead *l);

static void keep_revoked(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->write = NULL;
	keep_revoke(l);
}

/* Revokes the leases, which no key has any more. */
static void keep_revoke(struct lead *l)
{
	int64_t lease = l->own_lease ? l->own_lease : l->group_lease;

	if (l->own_lease)
		l->own_lease = 0;
	else
		l->group_lease = 0;
	if (!lease || etcd_revoke(l->etcd, lease, lead_limit_ms(l), keep_revoked, l, &l->write) < 0)
		lead_removed(l);
}

static void keep_deleted(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->write = NULL;
	if (a->status != STATUS_OK)
		lead_report(l, a->text); /* the next keep-alive that etcd answers flushes */
	else if (a->succeeded)
		keep_revoke(l);
	else if (lead_check_refused(l, a))
		lead_flush(l);
}

/* Removes all keys at once, unless another host leads by now: no claim may find the state of a
 * group that has ended. */
static void keep_remove(struct lead *l)
{
	const struct etcd_compare own[] = { { l->keys[LEAD_KEY], l->regains ? 0 : l->revision },
		{ l->keys[LEAD_STATE], l->state_revision } };
	const struct etcd_op ops[] = { { .kind = ETCD_DELETE, .key = l->keys[LEAD_KEY] },
		{ .kind = ETCD_DELETE, .key = l->keys[LEAD_EDITION] },
		{ .kind = ETCD_DELETE, .key = l->keys[LEAD_RUN] },
		{ .kind = ETCD_DELETE, .key = l->keys[LEAD_STATE] },
		{ .kind = ETCD_DELETE, .key = l->keys[LEAD_KV], .end = l->keys[LEAD_KV_END] } };
	struct etcd_txn t = {
		.compares = own, .n_compares = l->regains ? 2 : 1, .then_ops = ops, .n_then = 5
	};

	if (l->end && keep_write_end(l) == 0)
		return;
	if (lead_write(l, &t, keep_deleted) < 0)
		lead_removed(l);
}

void lead_remove(struct lead *l)
{
	if (l->leaving > LEAD_RESIGNS)
		return;
	l->leaving = LEAD_REMOVES;
	l->yields = false; /* the group has ended: no other host is to lead */
	loop_timer_disarm(l->over);
	loop_timer_arm(l->removal, LEAD_REMOVE_MS);
	lead_flush(l);
}

static void keep_resigned(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->write = NULL;
	if (a->status != STATUS_OK) {
		lead_report(l, a->text);
		l->leaving = LEAD_RESIGNS;
		loop_timer_arm(l->renew, KEEP_RESIGN_MS);
	} else if (!l->yields) {
		lead_withdraw(l); /* other hosts may have left or claimed meanwhile */
	} else {
		lead_removed(l);
	}
}

/* Gives up the lead once all keys are written that the next head has to find. */
static void keep_resign(struct lead *l)
{
	_cleanup_json_ json_t *state = NULL;
	_cleanup_free_ char *text = NULL;
	const struct etcd_compare own[] = { { l->keys[LEAD_KEY], l->revision } };
	struct etcd_op ops[] = { { .kind = ETCD_DELETE, .key = l->keys[LEAD_KEY] },
		{ .kind = ETCD_PUT, .key = l->keys[LEAD_STATE], .lease = l->group_lease } };
	const struct etcd_txn t = {
		.compares = own, .n_compares = 1, .then_ops = ops, .n_then = 2
	};

	if (l->write || lead_keys_flush(l))
		return;
	l->leaving = LEAD_RESIGNING;
	state = lead_state_now(l->hosts->head, l->term, supervisor_options(l->hosts->sv)->run);
	ops[1].value = text = state ? json_dump_text(state, &ops[1].len) : NULL;
	if (!text || etcd_txn(l->etcd, &t, lead_limit_ms(l), keep_resigned, l, &l->write) < 0)
		lead_removed(l);
}

void lead_resign(struct lead *l)
{
	if (l->leaving)
		return;
	l->leaving = LEAD_RESIGNS;
	loop_timer_arm(l->removal, LEAD_REMOVE_MS);
	keep_resign(l);
}

bool lead_is_over(const struct lead *l)
{
	return l->leaving == LEAD_LEFT ||
	       (l->state != LEAD_LEADING && l->leaving != LEAD_WITHDRAWS);
}

/* --- the begin and the end of the lead --- */

void lead_keep_begin(struct lead *l)
{
	const struct tenure_times times = { .lease_ms =
						    (uint64_t)l->hosts->spec->rendezvous.lease_ms,
		.store_loss_ms = (uint64_t)l->hosts->spec->rendezvous.store_loss_ms };

	tenure_begin(&l->tenure, &times);
	lead_kept(l, l->granted_ms, lead_ttl_s(l));
	tenure_past_begin(&l->past, &times, hosts_now_ms());
	l->state_revision = l->seen[LEAD_STATE].revision;
	loop_timer_arm(l->renew, times.lease_ms / 5);
	lead_arm(l);
	lead_watch(l, l->revision + 1);
	lead_keys_load(l);
}

void lead_keep_end(struct lead *l)
{
	loop_cancel(supervisor_loop(l->hosts->sv), keep_go_on, l);
	loop_cancel(supervisor_loop(l->hosts->sv), keep_late, l);
	lead_keys_end(l);
	lead_reach_forget(l);
	loop_timer_disarm(l->removal);
	l->leaving = LEAD_STAYS;
	l->yields = false;
	l->call = etcd_cancel(l->call);
	l->keep = etcd_cancel(l->keep);
	l->write = etcd_cancel(l->write);
	loop_timer_disarm(l->renew);
	loop_timer_disarm(l->over);
	json_decref(l->record);
	json_decref(l->writing);
	json_decref(l->end);
	json_decref(l->edition);
	l->record = l->writing = l->end = l->edition = NULL;
	l->edition_due = false;
	l->own_lease = 0;
	l->watch = etcd_watch_free(l->watch);
	l->regains = l->rewrites_all = l->refused = l->recorded = false;
	l->until_ms = l->reached_ms = 0;
	l->gone = 0;
}

int lead_keep_timers(struct lead *l)
{
	struct loop *loop = supervisor_loop(l->hosts->sv);
	int r = loop_timer_new(loop, keep_renew, l, &l->renew);

	if (r == 0)
		r = loop_timer_new(loop, keep_over, l, &l->over);
	return r == 0 ? loop_timer_new(loop, keep_is_late, l, &l->removal) : r;
}

void lead_keep_free(struct lead *l)
{
	if (l->etcd)
		lead_keep_end(l);
	loop_timer_free(l->renew);
	loop_timer_free(l->over);
	loop_timer_free(l->removal);
}
