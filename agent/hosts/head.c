/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "agent/hosts/messages.h"
#include "agent/hosts/settings.h"
#include "agent/sharing/service.h"
#include "common/base/array.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Carries out the orders of agent/rounds/round.h, which decides about members and rounds, and keeps
 * the leases of members: a host without a beat for a lease is lost.
 */

void head_event(struct head *h, int level, const char *event, int attempt, json_t *data,
	const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_msg(level, "%s", text);
	events_add(supervisor_events(h->hosts->sv), event, attempt, -1, data, "%s", text);
}

struct head_host *head_next_member(const struct head *h, const struct head_host *x)
{
	for (int i = x ? x->number + 1 : 0; i < h->n_members; i++)
		if (h->members[i])
			return h->members[i];
	return NULL;
}

struct head_host *head_member(const struct head *h, int number)
{
	return number >= 0 && number < h->n_members ? h->members[number] : NULL;
}

const char *head_host_name(const struct head *h, int number)
{
	static char text[32];
	const struct round_host *host = round_host(h->round, number);

	if (host)
		return host->name;
	snprintf(text, sizeof(text), "host %d", number);
	return text;
}

void head_list_name(char names[HEAD_NAMES], const char *name)
{
	size_t len = strlen(names);

	if (len < HEAD_NAMES - 80)
		snprintf(names + len, HEAD_NAMES - len, "%s%.64s", len ? ", " : "", name);
	else if (!strstr(names, " and others"))
		snprintf(names + len, HEAD_NAMES - len, " and others");
}

bool head_is_own(const struct head *h, const struct head_host *x)
{
	return x->link && !strcmp(link_peer(x->link)->agent, h->hosts->agent);
}

static int head_make_room(struct head *h, int number)
{
	struct head_host **bigger;

	if (number < h->n_members)
		return 0;
	bigger = array_grow(
		h->members, (size_t)h->n_members, (size_t)number + 1, sizeof(struct head_host *));
	if (!bigger)
		return -ENOMEM;
	h->members = bigger;
	h->n_members = number + 1;
	return 0;
}

static void head_admit(struct head *h, const struct round_order *o)
{
	struct head_host *x = h->joining;

	/* Without memory, it is no member here, and its own lease is soon over. */
	if (head_make_room(h, o->host) < 0)
		return;
	h->members[o->host] = x;
	x->number = o->host;
	x->recording = x->recorded = x->known = x->vacated = false;
	LIST_REMOVE(x, entry);
	x->sharing = sharing_host_new(h->sharing, x);
	x->admitted_ms = hosts_now_ms();
	lease_add(&h->leases, &x->lease, x->admitted_ms);
	head_event(h, LOG_INFO, "host-joined", h->attempt,
		json_pack("{s:s, s:s}", "host", head_host_name(h, o->host), "address", x->address),
		"host %s has joined", head_host_name(h, o->host));
	head_say(x, "Admitted", message_admitted(o->round));
}

static void head_refuse(struct head *h, const struct round_order *o)
{
	struct error *err = h->refusal;

	switch (o->why) {
	case ROUND_WHY_NODE_RANK:
		error_field(err, -EEXIST, "rendezvous.node_rank", "host %s has the same one",
			head_host_name(h, o->host));
		break;
	case ROUND_WHY_FULL:
		error_field(
			err, -ENOSPC, "rendezvous.nodes", "the group has no room for more hosts");
		break;
	default:
		error_field(err, -ESHUTDOWN, "rendezvous.id", "the group has ended%s%s",
			*h->end_text ? ": " : "", h->end_text);
		break;
	}
}

static const char *head_dropped_how(enum round_why why)
{
	switch (why) {
	case ROUND_WHY_LOST:
		return "was lost";
	case ROUND_WHY_REPLACED:
		return "was replaced by a later agent of its run";
	case ROUND_WHY_REJOINED:
		return "has joined again";
	default:
		return "has left";
	}
}

static void head_drop(struct head *h, const struct round_order *o)
{
	struct head_host *x = head_member(h, o->host);
	const char *how = head_dropped_how(o->why);

	if (o->why == ROUND_WHY_LOST)
		head_host_lost(h, head_host_name(h, o->host), x && x->vacated);
	if (!x) /* it was a member of the head before, and has not joined this one */
		return;
	head_tenure_dropped(h, x);
	if (h->deputy == x)
		head_set_deputy(h, NULL);
	head_event(h,
		o->why == ROUND_WHY_LOST		 ? LOG_WARNING
		: round_state(h->round) >= ROUND_CLOSING ? LOG_INFO
							 : LOG_NOTICE,
		"host-left", h->attempt, json_pack("{s:s}", "host", head_host_name(h, o->host)),
		"host %s %s", head_host_name(h, o->host), how);
	calls_out_cut(&x->calls, how);
	lease_remove(&h->leases, &x->lease);
	h->members[o->host] = NULL;
	x->number = -1;
	LIST_INSERT_HEAD(&h->unjoined, x, entry);
	x->sharing = sharing_host_free(x->sharing);
	head_check_dumped(h);
	/* A host that has left closes its link itself, and a host that joins again keeps it. */
	x->since_ms = hosts_now_ms();
	if (x->link && (o->why == ROUND_WHY_REJOINED || o->why == ROUND_WHY_BYE))
		return;
	head_host_free(x);
}

static void head_leave_out(struct head *h, const struct round_order *o)
{
	const char *name = head_host_name(h, o->host);

	head_event(h, LOG_WARNING, "host-left-out", h->attempt, json_pack("{s:s}", "host", name),
		"host %s %s, and is left out", name,
		o->why == ROUND_WHY_LATE ? "was not prepared in time" : "cannot take part");
}

/* The goal of the group after the stop of a round. */
static enum group_goal head_goal(const struct head *h)
{
	switch (h->end.state) {
	case GROUP_SUCCEEDED:
		return GOAL_SUCCEED;
	case GROUP_FAILED:
		return h->end.goal == GOAL_TIMEOUT ? GOAL_TIMEOUT : GOAL_FAIL;
	case GROUP_STOPPED:
		return GOAL_STOP;
	case GROUP_PREEMPTED:
		return GOAL_PREEMPT;
	default:
		return GOAL_RETRY;
	}
}

/* Whether Stop is for all hosts of the round. If not, its host leaves, and the others go on. */
static bool head_stops(const struct head *h)
{
	return round_state(h->round) != ROUND_STARTING && round_state(h->round) != ROUND_RUNNING;
}

/* To be done after all orders are carried out. */
struct head_after {
	struct head_texts texts;
	bool started, vacated, late;
};

static void head_send_stop(struct head *h, struct head_host *x, struct head_texts *texts)
{
	if (head_stops(h)) {
		head_release_later(h);
		sharing_group_stop(h->sharing, head_goal(h), *h->cause ? h->cause : h->change);
	}
	if (x)
		head_say_stop(h, x, texts);
}

static void head_send_end(struct head *h, struct head_host *x, struct head_texts *texts)
{
	if (!h->verdict) /* the end was decided while no worker lived */
		head_round_over(h);
	if (h->hosts->lead && !h->end_noted) {
		h->end_noted = true;
		lead_note_end(h->hosts->lead);
	}
	if (x)
		head_say_end(h, x, texts);
}

static void head_finish(struct head *h)
{
	h->finished = true;
	if (h->hosts->lead)
		lead_remove(h->hosts->lead);
	head_logs_end(h);
}

static void head_carry_out_one(
	struct head *h, const struct round_order *o, struct head_after *after)
{
	struct head_host *x = head_member(h, o->host);

	switch (o->what) {
	case ROUND_ORDER_ADMIT:
		head_admit(h, o);
		break;
	case ROUND_ORDER_REFUSE:
		head_refuse(h, o);
		break;
	case ROUND_ORDER_ASSIGN:
		if (x && !h->finished) /* if finished, the next head begins the round */
			head_say_assign(h, x);
		break;
	case ROUND_ORDER_START:
		after->started = true;
		break;
	case ROUND_ORDER_TAKE:
		if (x)
			head_take_seat(h, x);
		break;
	case ROUND_ORDER_STOP:
		head_send_stop(h, x, &after->texts);
		break;
	case ROUND_ORDER_END:
		head_send_end(h, x, &after->texts);
		break;
	case ROUND_ORDER_LEAVE_OUT:
		head_leave_out(h, o);
		break;
	case ROUND_ORDER_DROP:
		head_drop(h, o);
		break;
	case ROUND_ORDER_VACATE:
		after->vacated = true;
		if (x)
			head_vacate_seat(h, x);
		break;
	case ROUND_ORDER_RECORD:
		lead_record(h->hosts->lead);
		break;
	case ROUND_ORDER_RUNNING:
		log_info("all workers of round %" PRIu64 " execute", o->round);
		break;
	case ROUND_ORDER_SAVE:
		head_checkpoint(h);
		break;
	case ROUND_ORDER_LATE:
		after->late = true;
		break;
	case ROUND_ORDER_REST:
		head_round_over(h);
		break;
	case ROUND_ORDER_GIVE_UP:
		head_give_up(h);
		break;
	case ROUND_ORDER_FINISH:
		head_finish(h);
		break;
	}
}

void head_arm(struct head *h)
{
	uint64_t due = round_due_ms(h->round), lease = lease_due_ms(&h->leases);
	uint64_t now = hosts_now_ms(), missing = head_missing_ms(h);

	if (lease < due)
		due = lease;
	if (missing < due)
		due = missing;
	if (due == UINT64_MAX)
		loop_timer_disarm(h->timer);
	else
		loop_timer_arm(h->timer, due > now ? due - now : 0);
}

void head_carry_out(struct head *h)
{
	struct head_after after = { .started = false };
	int n;
	const struct round_order *orders = round_orders(h->round, &n);

	for (int i = 0; i < n; i++)
		head_carry_out_one(h, &orders[i], &after);
	head_texts_fini(&after.texts);
	if (after.started) {
		head_choose_deputy(h);
		head_relay_begin(h);
		head_logs_begin(h, NULL);
		head_round_begins(h);
		head_say_start_all(h);
	}
	if (after.vacated) {
		head_seats_vacated(h);
		head_choose_deputy(h);
	}
	if (after.late)
		head_seats_late(h);
	head_arm(h);
	hosts_check_over(h->hosts);
}

static void head_on_timer(void *arg)
{
	struct head *h = arg;
	struct lease_held *over;

	if (h->hosts->lead && h->hosts->head == h && !lead_holds(h->hosts->lead))
		return;
	while ((over = lease_over(&h->leases, hosts_now_ms()))) {
		struct head_host *x = (struct head_host *)over;

		head_note_change(h, head_host_name(h, x->number), "was lost");
		if (round_hear(h->round, x->number, HOST_EV_LOST, 0, hosts_now_ms()) < 0)
			lease_remove(&h->leases, over);
		head_carry_out(h);
	}
	head_drop_missing(h);
	round_time(h->round, hosts_now_ms());
	head_carry_out(h);
}

static int head_round_new(struct head *h, const json_t *state)
{
	const struct spec_rendezvous *z = &h->spec->rendezvous;
	_cleanup_free_ bool *alone = calloc(h->spec->n_roles, sizeof(*alone));
	bool *first_only = calloc(h->spec->n_roles, sizeof(*first_only));
	struct round_config c = {
		.min = z->nodes_min,
		.max = z->nodes_max,
		/* A group of fewer than MAX may be the rest of one that another head led: its
		 * hosts' leases are over by then. */
		.last_call_ms =
			(uint64_t)(z->last_call_ms > z->lease_ms ? z->last_call_ms : z->lease_ms),
		.join_timeout_ms = (uint64_t)z->join_timeout_ms,
		.prepare_timeout_ms = (uint64_t)z->prepare_timeout_ms,
		.join_delay_ms = (uint64_t)z->join_delay_ms,
		.lease_ms = (uint64_t)z->lease_ms,
		.on_join = z->on_join == SPEC_ON_JOIN_WAIT   ? ROUND_JOIN_WAITS
			   : z->on_join == SPEC_ON_JOIN_SAVE ? ROUND_JOIN_SAVES
							     : ROUND_JOIN_RESTARTS,
		.roles = { .n = (int)h->spec->n_roles, .first_only = first_only },
		.digest = h->digest,
		.segment = z->segment,
		.round = (uint64_t)lead_number(state, "round", 0),
		.records = z->backend == SPEC_RENDEZVOUS_ETCD,
	};

	h->roles = c.roles;
	if (!alone || !first_only)
		return -ENOMEM;
	for (size_t i = 0; i < h->spec->n_roles; i++) {
		first_only[i] = h->spec->roles[i].leader;
		alone[i] = spec_scope_worker(h->spec, &h->spec->roles[i]);
	}
	/* With TF_CONFIG, running workers would look for restarted ones at their old addresses. */
	c.alone = spec_tf_config(h->spec) ? NULL : alone;
	h->round = round_new(&c, hosts_now_ms());
	return h->round ? head_load_state(h, state) : -ENOMEM;
}

static int head_listen(struct head *h, const struct link_addresses *addresses, struct error *err)
{
	static const struct link_listen_events events = { .joined = head_accept_link,
		.last_word = head_last_word,
		.refused = head_link_refused };
	struct link_listen_options o = {
		.self = { .group = hosts_group(h->hosts),
			.run = supervisor_options(h->hosts->sv)->run,
			.agent = h->hosts->agent,
			.boot = h->hosts->boot,
			.host = supervisor_host(h->hosts->sv),
			.settings = h->digest },
		.lease_ms = (uint64_t)h->spec->rendezvous.lease_ms,
		.tls = h->hosts->tls,
		.listen = &events,
		.arg = h,
	};

	return link_listen_new(h->loop, addresses, &o, &h->listen, err);
}

int head_new(struct hosts *hosts, const struct link_addresses *addresses, const json_t *state,
	struct head **ret, struct error *err)
{
	struct head *h = calloc(1, sizeof(*h));
	int r = -ENOMEM;

	if (!h)
		return error_set(err, -ENOMEM, "out of memory");
	h->hosts = hosts;
	h->stop_timeout_ms = SPEC_UNSET;
	h->loop = supervisor_loop(hosts->sv);
	h->spec = hosts->spec;
	h->leases.lease_ms = (uint64_t)h->spec->rendezvous.lease_ms;
	h->settings = settings_of(h->spec);
	h->digest = h->settings ? settings_digest(h->settings) : NULL;
	quarantine_init(&h->quarantine, h->spec->rendezvous.quarantine_max,
		(uint64_t)h->spec->rendezvous.quarantine_ms);
	if (!h->digest || head_decide_new(h) < 0 || head_round_new(h, state) < 0 ||
		loop_timer_new(h->loop, head_on_timer, h, &h->timer) < 0 ||
		loop_timer_new(h->loop, head_dumps_late, h, &h->dump_timer) < 0)
		error_set(err, r, "out of memory");
	else if ((r = head_relay_open(h, err)) == 0)
		r = head_listen(h, addresses, err);
	if (r < 0) {
		head_free(h);
		return r;
	}
	if (!hosts->lead)
		head_tell_features(h);
	head_arm(h);
	*ret = h;
	return 0;
}

struct head *head_free(struct head *h)
{
	if (!h)
		return NULL;
	h->deputy = NULL;
	head_call_all_cut(h);
	head_logs_cut(h);
	while (!LIST_EMPTY(&h->unjoined))
		head_host_free(LIST_FIRST(&h->unjoined));
	for (int i = 0; i < h->n_members; i++)
		head_host_free(h->members[i]);
	loop_cancel(h->loop, head_release_now, h);
	sharing_group_free(h->sharing);
	link_listen_free(h->listen);
	round_free(h->round);
	quarantine_fini(&h->quarantine);
	head_decide_free(h);
	loop_timer_free(h->timer);
	loop_timer_free(h->dump_timer);
	json_decref(h->settings);
	json_decref(h->verdict);
	free(h->members);
	free(h->digest);
	free((void *)h->roles.first_only);
	free(h->start);
	free(h);
	return NULL;
}
