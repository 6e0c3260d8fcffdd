/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/lead.h"
#include "agent/hosts/head.h"
#include "agent/hosts/member.h"
#include "agent/hosts/settings.h"
#include "common/base/file.h"
#include "common/base/local_address.h"
#include "common/base/log.h"
#include "common/base/socket_address.h"
#include "common/text/endpoint.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Looks in etcd who leads the group. Then this host follows that host, waits for its turn to claim
 * the lead, or leads.
 */

enum {
	LEAD_RETRY_MS = 1000,
};

static void lead_look(struct lead *l);
static void lead_post_found(struct lead *l);

/* Whether this host wants to lead, at all. */
static bool lead_wants_to_lead(const struct lead *l)
{
	return !l->hosts->spec->rendezvous.never_leads && hosts_now_ms() >= l->claims_from_ms &&
	       !l->hosts->leave_asked && !l->hosts->stop_asked && !l->hosts->member->leaving &&
	       l->hosts->member->state != MEMBER_OVER;
}

/* Whether this host is in the group of a head that it hears. */
static bool lead_is_settled(const struct lead *l)
{
	const struct member *m = l->hosts->member;

	return m->linked && !member_is_away(m) && m->state != MEMBER_FENCED;
}

/* --- looking --- */

/* Ends the run where this host has found no group for join_timeout. */
static bool look_is_late(struct lead *l)
{
	uint64_t limit = (uint64_t)l->hosts->spec->rendezvous.join_timeout_ms;
	const json_t *leads = l->seen[LEAD_KEY].value;
	struct member *m = l->hosts->member;
	char text[1100], who[400] = "no host leads";

	if (m->linked || !member_is_away(l->hosts->member) || hosts_now_ms() - l->since_ms < limit)
		return false;
	if (leads)
		snprintf(who, sizeof(who), "host %.64s does not answer at %.200s, and leads",
			json_get_string(leads, "host", ""), json_get_string(leads, "address", ""));
	snprintf(text, sizeof(text), "%s the group %.100s%s%s; gave up after %" PRIu64 " ms", who,
		hosts_group(l->hosts), *l->reported ? ": " : "", l->reported,
		hosts_now_ms() - l->since_ms);
	member_give_up(m, "timeout", 124, text);
	return true;
}

/* Ends the run of this host if its settings are not those of the group. */
static bool look_differs(struct lead *l)
{
	const json_t *theirs = json_get_array(l->seen[LEAD_RUN].value, "settings");
	const json_t *leads = l->seen[LEAD_KEY].value;
	_cleanup_json_ json_t *ours = settings_of(l->hosts->spec);
	_cleanup_free_ char *a = settings_digest(ours),
			    *b = theirs ? settings_digest(theirs) : NULL;
	struct error err = { 0 };
	char text[1500], hint[900] = "";

	if (!a || !b || !strcmp(a, b))
		return false;
	settings_differ(theirs, ours, json_get_string(leads, "host", "the group's first host"),
		supervisor_host(l->hosts->sv), &err);
	if (!leads) /* perhaps all its hosts have died at once */
		snprintf(hint, sizeof(hint),
			"; nobody leads now: if that group has ended, remove what etcd has below %s",
			l->keys[LEAD_PREFIX]);
	snprintf(text, sizeof(text), "%.500s%s", err.text, hint);
	member_give_up(l->hosts->member, "failed", 1, text);
	return true;
}

/* Takes the verdict of a group that has ended, unless it was there before this host began. */
static bool look_ended(struct lead *l)
{
	struct member *m = l->hosts->member;
	const json_t *verdict = l->seen[LEAD_END].value;

	if (!verdict || l->seen[LEAD_END].revision == l->old_end ||
		!member_is_away(l->hosts->member))
		return false;
	m->state = MEMBER_OVER;
	supervisor_take_verdict(m->sv, verdict, false);
	hosts_check_over(l->hosts);
	return true;
}

static void look_watched(void *arg, const struct etcd_news *news)
{
	struct lead *l = arg;

	if (news->kind == ETCD_WATCH_DOWN)
		lead_report(l, news->text);
	if (news->kind == ETCD_WATCH_GAP)
		l->watch = etcd_watch_free(l->watch);
	/* An event of this key does not show the others. */
	if (news->kind == ETCD_WATCH_EVENTS || news->kind == ETCD_WATCH_GAP)
		lead_look(l);
}

int lead_look_read(struct lead *l, const struct etcd_answer *a)
{
	int r = 0;

	for (int i = 0; i < LEAD_N_KEYS && !r; i++)
		r = lead_entry_read(&l->seen[i], &a->results[i]);
	return r;
}

/* Looks again when the watch tells of a change, or this host has waited too long. */
static void look_pause(struct lead *l)
{
	uint64_t late = l->since_ms + (uint64_t)l->hosts->spec->rendezvous.join_timeout_ms;
	uint64_t now = hosts_now_ms();

	if (l->hosts->member->linked || !member_is_away(l->hosts->member))
		loop_timer_disarm(l->retry);
	else
		loop_timer_arm(l->retry, late > now ? late - now : 0);
}

static void look_watch(struct lead *l, int64_t revision)
{
	if (lead_is_settled(l) || l->watch ||
		etcd_watch_new(l->etcd, l->keys[LEAD_KEY], NULL, revision, look_watched, l,
			&l->watch) == 0)
		look_pause(l); /* else the retry looks again */
}

static void look_answered(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->call = NULL;
	loop_timer_arm(l->retry, LEAD_RETRY_MS);
	if (l->state == LEAD_LEADING || l->hosts->member->state == MEMBER_OVER)
		return;
	if (a->status != STATUS_OK) {
		lead_report(l, a->text);
		look_is_late(l);
		return;
	}
	if (!l->reported_claim || l->seen[LEAD_KEY].value)
		lead_report(l, NULL);
	if (lead_look_read(l, a) < 0) {
		lead_report(l, "out of memory");
		return;
	}
	if (!l->looked)
		l->old_end = l->seen[LEAD_END].revision;
	l->looked = true;
	if (look_is_late(l) || look_differs(l))
		return;
	look_watch(l, a->revision + 1);
	lead_post_found(l);
}

int lead_look_send(struct lead *l, etcd_fn fn)
{
	struct etcd_op gets[LEAD_N_KEYS];
	struct etcd_txn t = { .then_ops = gets, .n_then = LEAD_N_KEYS };

	for (int i = 0; i < LEAD_N_KEYS; i++)
		gets[i] = (struct etcd_op){ .kind = ETCD_GET, .key = l->keys[i] };
	return etcd_txn(l->etcd, &t, lead_limit_ms(l), fn, l, &l->call);
}

static void lead_look(struct lead *l)
{
	if (l->call || l->leaving == LEAD_WITHDRAWS || l->state == LEAD_CLAIMING ||
		l->state == LEAD_LEADING)
		return; /* l->call is theirs */
	loop_timer_disarm(l->retry);
	if (lead_look_send(l, look_answered) < 0)
		loop_timer_arm(l->retry, LEAD_RETRY_MS);
}

static void lead_on_retry(void *arg)
{
	struct lead *l = arg;

	if (l->state == LEAD_LEADING || l->hosts->member->state == MEMBER_OVER || look_is_late(l))
		return;
	lead_look(l);
}

/* Posts the event that follows from the last look. */
static void lead_post_found(struct lead *l)
{
	const struct lead_entry *e = &l->seen[LEAD_KEY];
	bool own = e->value && !strcmp(json_get_string(e->value, "agent", ""), l->hosts->agent);
	bool free = !e->value || (own && !(l->candidate && e->lease == l->own_lease));

	l->vacant = false;
	if (look_ended(l))
		return;
	if (e->value && !own) {
		lead_post(l, LEAD_EV_OTHER);
	} else if (!free) {
		l->revision = e->revision;
		lead_post(l, LEAD_EV_OWN);
	} else if (member_has_workers(l->hosts->member->state)) {
		l->vacant = true;		   /* their head may still answer */
	} else if (own && lead_wants_to_lead(l)) { /* the key of an earlier lead of this host */
		snprintf(l->dead, sizeof(l->dead), "%s", l->hosts->agent);
		lead_post(l, LEAD_EV_DEAD);
	} else {
		lead_post(l, LEAD_EV_NOBODY);
	}
}

/* --- following --- */

static void lead_follow(struct lead *l)
{
	struct hosts *h = l->hosts;
	struct member *m = h->member;
	const char *agent = json_get_string(l->seen[LEAD_KEY].value, "agent", "");
	const char *address = json_get_string(l->seen[LEAD_KEY].value, "address", "");
	struct error err = { 0 };
	struct endpoint e;
	char *copy;

	loop_timer_disarm(l->turn);
	l->candidate = head_free(l->candidate);
	if (m->link && !strcmp(agent, l->follows) && !strcmp(address, h->endpoint))
		return;
	l->keep = etcd_cancel(l->keep); /* a Renew of the head before */
	free(h->endpoint);
	h->endpoint = NULL;
	h->deputy = link_listen_free(h->deputy);
	*l->dead = '\0';
	member_leave_head(m);
	if (endpoint_parse(address, NULL, &e, NULL) < 0) {
		error_set(&err, -EPROTO, "%s in etcd has no address of a host", l->keys[LEAD_KEY]);
		member_give_up(m, "failed", 1, err.text);
		return;
	}
	copy = strdup(address);
	if (!copy || lead_take_secret(l, &err) < 0) {
		free(copy);
		member_give_up(m, "failed", 1, copy ? err.text : "out of memory");
		return;
	}
	lead_reach_begin(l);
	h->endpoint = copy;
	snprintf(l->follows, sizeof(l->follows), "%s", agent);
	if (m->state == MEMBER_AWAY && !m->link)
		member_connect(m);
}

/* A host without all records of the group lets hosts that have them claim first. */
static uint64_t wait_for_records(const struct lead *l)
{
	const json_t *edition = l->seen[LEAD_EDITION].value;

	if (!edition || FEATURES_ANY(l->hosts->sv, hosts_has_records, l->hosts->sv, edition))
		return 0;
	return (uint64_t)l->hosts->spec->rendezvous.lease_ms;
}

/* Sets the timer after which this host may claim: by its rank in the last round. */
static void lead_wait(struct lead *l)
{
	const json_t *state = l->seen[LEAD_STATE].value, *one;
	const char *own = supervisor_options(l->hosts->sv)->run;
	const char *head = json_get_string(state, "head", "");
	int rank = -1, head_rank = 0;
	size_t i;

	if (hosts_now_ms() < l->claims_from_ms)
		loop_timer_arm(l->turn, l->claims_from_ms - hosts_now_ms());
	if (!lead_wants_to_lead(l))
		return;
	json_array_foreach (json_get_array(state, "hosts"), i, one) {
		const char *run = json_get_string(one, "run", "");

		if (!strcmp(run, own))
			rank = (int)lead_number(one, "group_rank", -1);
		if (!strcmp(run, head))
			head_rank = (int)lead_number(one, "group_rank", 0);
	}
	loop_timer_arm(l->turn, tenure_turn_ms(rank, head_rank,
					(int)json_array_size(json_get_array(state, "hosts"))) +
					wait_for_records(l));
}

static void lead_on_turn(void *arg)
{
	struct lead *l = arg;

	if (lead_wants_to_lead(l))
		lead_post(l, LEAD_EV_DUE);
}

/* --- leading --- */

static void lead_lead(struct lead *l)
{
	struct hosts *h = l->hosts;
	char address[SOCKET_ADDRESS_MAX];

	lead_reach_end(l);
	loop_timer_disarm(l->retry);
	l->watch = etcd_watch_free(l->watch);
	h->deputy = link_listen_free(h->deputy);
	l->call = etcd_cancel(l->call);
	l->keep = etcd_cancel(l->keep); /* a Renew of the head before */
	h->head = TAKE_PTR(l->candidate);
	link_listen_address(h->head->listen, address);
	log_notice("this host leads the group %s at %s", hosts_group(h), address);
	lead_keep_begin(l);
	head_tell_features(h->head);
	if (*l->dead)
		head_old_head_died(h->head, l->dead);
	*l->dead = '\0';
	head_arm(h->head);
	free(h->endpoint);
	h->endpoint = strdup(address);
	snprintf(l->follows, sizeof(l->follows), "%s", h->agent);
	member_leave_head(h->member);
	if (h->member->state == MEMBER_AWAY && !h->member->link && h->endpoint)
		member_connect(h->member);
}

static void lead_step_down(struct lead *l)
{
	struct hosts *h = l->hosts;

	lead_keep_end(l);
	h->head = head_free(h->head);
	*l->follows = '\0';
	l->since_ms = hosts_now_ms();
	member_leave_head(h->member);
	hosts_check_over(h);
	lead_look(l);
}

static void lead_step_down_now(void *arg)
{
	lead_post(arg, LEAD_EV_LOST);
}

void lead_lost(struct lead *l, const char *why)
{
	if (l->state != LEAD_LEADING || l->lost)
		return;
	l->lost = true;
	log_warning("this host leads the group no more: %s", why);
	/* Callbacks of links, which it frees, may be running. */
	if (loop_defer(supervisor_loop(l->hosts->sv), lead_step_down_now, l) < 0)
		lead_step_down_now(l);
}

/* --- the machine --- */

static void lead_act(struct lead *l, enum lead_action action)
{
	switch (action) {
	case LEAD_DO_NOTHING:
		break;
	case LEAD_DO_LOOK:
		if (l->slow)
			loop_timer_arm(l->retry, LEAD_RETRY_MS);
		else
			lead_look(l);
		l->slow = false;
		break;
	case LEAD_DO_FOLLOW:
		lead_follow(l);
		break;
	case LEAD_DO_WAIT:
		lead_wait(l);
		break;
	case LEAD_DO_CLAIM:
		loop_timer_disarm(l->retry);
		l->call = etcd_cancel(l->call);
		lead_claim(l);
		break;
	case LEAD_DO_LEAD:
		l->lost = false;
		lead_lead(l);
		break;
	case LEAD_DO_STEP_DOWN:
		lead_step_down(l);
		break;
	}
}

void lead_post(struct lead *l, enum lead_event event)
{
	struct lead_change c;
	int r = lead_change(l->state, event, &c);

	if (r < 0)
		log_error("lead event %s cannot happen while %s", lead_event_name(event),
			lead_state_name(l->state));
	if (r)
		return;
	log_debug("lead: %s -> %s (%s)", lead_state_name(l->state), lead_state_name(c.next),
		lead_event_name(event));
	l->state = c.next;
	lead_act(l, c.action);
}

void lead_linked(struct lead *l)
{
	if (l->state == LEAD_LEADING || !lead_is_settled(l))
		return;
	l->vacant = false;
	lead_reach_end(l);
	l->watch = etcd_watch_free(l->watch);
	loop_timer_disarm(l->retry);
}

void lead_unlinked(struct lead *l)
{
	if (l->state == LEAD_LEADING || l->hosts->member->state == MEMBER_OVER)
		return;
	lead_reach_begin(l);
	if (l->hosts->member->link)
		lead_look(l); /* it is being made again; another host may lead by then */
	else
		lead_post(l, LEAD_EV_LOST);
}

void lead_workers_gone(struct lead *l)
{
	l->since_ms = hosts_now_ms();
	if (l->vacant)
		lead_post_found(l);
	else if (!l->watch)
		lead_look(l);
	else
		look_pause(l);
	if ((l->state == LEAD_FOLLOWING || l->state == LEAD_LEADING) && !l->hosts->member->link &&
		l->hosts->endpoint)
		member_connect(l->hosts->member);
}

void lead_head_died(struct lead *l)
{
	snprintf(l->dead, sizeof(l->dead), "%s", l->follows);
	if (lead_wants_to_lead(l))
		lead_post(l, LEAD_EV_DEAD);
}

void lead_begin(struct lead *l)
{
	l->since_ms = hosts_now_ms();
	lead_look(l);
}

static int lead_parts_new(struct lead *l)
{
	struct loop *loop = supervisor_loop(l->hosts->sv);
	int r = loop_timer_new(loop, lead_on_retry, l, &l->retry);

	if (r == 0)
		r = loop_timer_new(loop, lead_on_turn, l, &l->turn);
	if (r == 0)
		r = lead_reach_new(l);
	if (r == 0)
		r = lead_keys_new(l);
	return r == 0 ? lead_keep_timers(l) : r;
}

int lead_new(struct hosts *h, struct lead **ret, struct error *err)
{
	_cleanup_(lead_freep) struct lead *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return error_set(err, -ENOMEM, "out of memory");
	l->hosts = h;
	r = etcd_new_from_spec(supervisor_loop(h->sv), &h->spec->rendezvous, &l->etcd, err);
	if (r < 0)
		return r;
	if (lead_make_keys(l) < 0 || lead_parts_new(l) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	*ret = TAKE_PTR(l);
	return 0;
}

struct lead *lead_free(struct lead *l)
{
	if (!l)
		return NULL;
	loop_cancel(supervisor_loop(l->hosts->sv), lead_step_down_now, l);
	lead_keep_free(l);
	lead_keys_free(l);
	lead_reach_free(l);
	head_free(l->candidate);
	link_resolve_free(l->resolve);
	etcd_watch_free(l->watch);
	etcd_free(l->etcd);
	loop_timer_free(l->retry);
	loop_timer_free(l->turn);
	for (int i = 0; i < LEAD_N_NAMES; i++)
		free(l->keys[i]);
	for (int i = 0; i < LEAD_N_KEYS; i++)
		lead_entry_fini(&l->seen[i]);
	explicit_bzero(l->secret, sizeof(l->secret));
	free(l);
	return NULL;
}
