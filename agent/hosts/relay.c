/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/relay.h"
#include "agent/hosts/head.h"
#include "agent/hosts/member.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

/*
 * Carries what workers share (agent/sharing/relay.h, agent/sharing/group.h) over links.
 */

/* --- the member --- */

static int uplink_send(void *arg, const char *method, const char *body, size_t len)
{
	struct member *m = arg;

	/* A head that this host has left answers no call. */
	if (!m->link || member_is_away(m) || m->state == MEMBER_FENCED ||
		(m->state == MEMBER_OVER && !m->bye_due))
		return -ECONNRESET;
	return link_send_text(m->link, method, body, len);
}

static void uplink_relieved(void *arg)
{
	struct member *m = arg;

	sharing_relay_ready(m->sv);
	member_calls_ready(m);
}

static bool uplink_congested(void *arg)
{
	struct member *m = arg;

	return m->link && link_congested(m->link, uplink_relieved, m);
}

static uint64_t uplink_round(void *arg)
{
	const struct member *m = arg;

	return m->round ? m->round : 1; /* an operator may call before the first one */
}

static bool uplink_offset_us(void *arg, int64_t *ret)
{
	const struct member *m = arg;

	*ret = m->clock.clock_known ? m->clock.offset_us : 0;
	return m->clock.clock_known;
}

static const struct calls_way *uplink_way(struct member *m, struct calls_way *ret)
{
	*ret = (struct calls_way){ .send = uplink_send, .congested = uplink_congested, .arg = m };
	return ret;
}

int member_relay_open(struct member *m)
{
	const struct sharing_uplink uplink = {
		.calls = &m->calls,
		.round = uplink_round,
		.offset_us = uplink_offset_us,
		.arg = m,
	};
	struct calls_way way;

	calls_out_init(&m->calls, uplink_way(m, &way), false);
	return sharing_relay_to(m->sv, &uplink);
}

void member_relay_cut(struct member *m, const char *why)
{
	calls_out_cut(&m->calls, why);
	sharing_relay_ready(m->sv);
}

static void relay_hear_order(struct member *m, const json_t *p)
{
	const char *name = json_get_string(p, "worker", "");

	for (int i = 0; i < supervisor_n_workers(m->sv); i++) {
		struct worker *w = supervisor_worker(m->sv, i);

		if (strcmp(worker_name(w), name) != 0)
			continue;
		if (w->start == json_get_int(p, "start", 0))
			FEATURES_CALL(m->sv, hosts_order, m->sv, w, json_get_string(p, "what", ""),
				json_get_string(p, "why", ""));
		return;
	}
}

static void relay_hear_read(struct member *m, const json_t *p)
{
	json_t *samples = FEATURES_FIRST(
		m->sv, NULL, hosts_samples, m->sv, json_get_bool(p, "barrier", false));
	_cleanup_json_ json_t *body =
		json_pack("{s:I, s:o}", "number", (json_int_t)json_get_int(p, "number", 1),
			"samples", samples ? samples : json_array());
	size_t len;
	_cleanup_free_ char *text = json_dump_text(body, &len);

	if (!text || uplink_send(m, "Samples", text, len) == -ENOMEM)
		log_error("out of memory: the head does not learn how far workers are");
}

/* Only the side that began a connection gets its Answers; both sides may end it. */
static bool relay_is_answer(const char *method, const json_t *p, bool negative)
{
	int64_t number = json_get_int(p, "connection", 0);

	return (!strcmp(method, "Answer") || !strcmp(method, "Hangup")) &&
	       (negative ? number < 0 : number > 0);
}

int member_hear_relayed(struct member *m, const char *method, const json_t *p, struct error *err)
{
	member_calls_heard(m);
	if (!strcmp(method, "Board"))
		FEATURES_CALL(m->sv, hosts_board, m->sv, (uint64_t)json_get_int(p, "notice", 0),
			json_get_int(p, "save_at", INT64_MIN), json_get_bool(p, "error", false));
	else if (!strcmp(method, "Read"))
		relay_hear_read(m, p);
	else if (!strcmp(method, "Straggler"))
		FEATURES_CALL(m->sv, hosts_straggler, m->sv, p);
	else if (relay_is_answer(method, p, false))
		calls_out_received(&m->calls, method, p);
	else if (strcmp(method, "Order") != 0)
		return member_hear_call(m, method, p, err);
	else if (m->state == MEMBER_RUNNING)
		relay_hear_order(m, p);
	return 0;
}

/* --- the head --- */

static int downlink_send(void *arg, const char *method, const char *body, size_t len)
{
	struct head_host *x = arg;

	return x->link ? link_send_text(x->link, method, body, len) : -ECONNRESET;
}

static void downlink_relieved(void *arg)
{
	struct head_host *x = arg;

	if (x->sharing)
		sharing_host_ready(x->sharing);
}

static bool downlink_congested(void *arg)
{
	struct head_host *x = arg;

	return x->link && link_congested(x->link, downlink_relieved, x);
}

void head_host_calls_open(struct head_host *x)
{
	const struct calls_way way = {
		.send = downlink_send, .congested = downlink_congested, .arg = x
	};

	calls_out_init(&x->calls, &way, true);
}

/* Ends the link only: the host is lost when its lease is over and its workers are dead. */
static void downlink_silent(void *arg)
{
	struct head_host *x = arg;

	log_warning("host %s has not said how far its workers are: its link is ended",
		head_host_name(x->head, x->number));
	x->link = link_free(x->link);
}

static const char *downlink_name(void *arg)
{
	const struct head_host *x = arg;

	return head_host_name(x->head, x->number);
}

int head_relay_open(struct head *h, struct error *err)
{
	const struct sharing_downlink down = { .send = downlink_send,
		.congested = downlink_congested,
		.decide = head_decide_pending,
		.preempted = head_preempted,
		.silent = downlink_silent,
		.name = downlink_name,
		.group_arg = h };

	return sharing_group_new(h->hosts->sv, &down, &h->sharing, err);
}

/* Names the workers of one host. */
static int relay_place(struct head *h, struct head_host *x, const struct round_host *host)
{
	const struct ranked_host ranked = { .replicas = host->replicas };
	int rank = host->first_rank, r = 0;

	for (int i = 0; i < h->roles.n && !r; i++) {
		int n = host_ranks_replicas(&ranked, &h->roles, i, host->group_rank);

		r = sharing_group_place(
			h->sharing, x->sharing, (size_t)i, rank, host->first_index[i], n);
		rank += n;
	}
	return r;
}

void head_relay_begin(struct head *h)
{
	int r = sharing_group_begin(h->sharing, h->attempt, round_world(h->round)->workers);
	struct head_host *x = NULL;

	while (!r && (x = head_next_member(h, x))) {
		const struct round_host *host = round_host(h->round, x->number);

		if (host && host->state == HOST_STARTING)
			r = relay_place(h, x, host);
	}
	if (r < 0)
		log_error("the workers of this attempt share nothing: %s", strerror(-r));
	else
		sharing_group_start(h->sharing);
}

int head_hear_relayed(struct head_host *x, const char *method, const json_t *p, struct error *err)
{
	const struct round_host *host = round_host(x->head->round, x->number);

	if (!x->sharing || !host)
		return 0;
	if (relay_is_answer(method, p, true)) {
		x->fault = false;
		calls_out_received(&x->calls, method, p);
		return x->fault ? error_field(err, -EPROTO, "message",
					  "expected lines of this host's workers that are wanted")
				: 0;
	}
	if (!strcmp(method, "Answer"))
		return 0;
	if (((!strcmp(method, "Call") && *json_get_string(p, "worker", "")) ||
		    !strcmp(method, "Steps")) &&
		host->round != (uint64_t)json_get_int(p, "round", 0))
		return 0; /* its workers are of an earlier round */
	return sharing_group_received(x->sharing, method, p, err);
}
