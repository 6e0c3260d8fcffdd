/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "agent/hosts/member.h"
#include "agent/hosts/messages.h"
#include "agent/process/fence.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/socket_address.h"
#include "common/text/endpoint.h"
#include "common/text/json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The deputy: the host that leads first if the head's is lost. When the head's agent dies, its
 * guard tells the deputy, which then leads without waiting for a lease. Features whose state
 * outlives the head send records to the deputy, and etcd has a note which hosts have all of them.
 */

/* --- the deputy --- */

static int deputy_joined(void *arg, struct link *l, struct error *err)
{
	return error_field(
		err, -ENOTSUP, "rendezvous.endpoints", "this host does not lead the group");
}

static void deputy_hear_last_word(void *arg, struct link *l)
{
	struct hosts *h = arg;

	log_warning("the agent of the host that leads has ended");
	lead_head_died(h->lead);
}

/* Listens at the address from which this host reaches the head, on any port. */
static int deputy_listen(struct hosts *h, struct error *err)
{
	static const struct link_listen_events events = { .joined = deputy_joined,
		.last_word = deputy_hear_last_word };
	const struct link_listen_options o = {
		.self = { .group = hosts_group(h),
			.run = supervisor_options(h->sv)->run,
			.agent = h->agent,
			.boot = h->boot,
			.host = supervisor_host(h->sv) },
		.lease_ms = (uint64_t)h->spec->rendezvous.lease_ms,
		.listen = &events,
		.arg = h,
	};
	struct link_addresses a = { .n = 1 };

	if (link_local_at(h->member->link, &a.at[0]) < 0)
		return error_set(err, -ENOTCONN, "there is no link to the head");
	socket_address_set_port(&a.at[0], 0);
	return link_listen_new(supervisor_loop(h->sv), &a, &o, &h->deputy, err);
}

int member_hear_deputize(struct member *m, const json_t *p, struct error *unused)
{
	struct hosts *h = m->hosts;
	char address[SOCKET_ADDRESS_MAX];
	struct error err = { 0 };
	int r = 0;

	if (!h->lead || h->head)
		return 0;
	if (h->spec->rendezvous.never_leads) {
		member_say(m, "Deputy", message_deputy("")); /* it never leads */
		return 0;
	}
	if (!h->deputy)
		r = deputy_listen(h, &err);
	if (r == 0)
		r = link_listen_expect(
			h->deputy, link_peer(m->link)->agent, json_get_string(p, "word", ""));
	if (r < 0) {
		log_warning("this host will not hear from the guard of the host that leads: %s",
			*err.text ? err.text : strerror(-r));
		return 0;
	}
	link_listen_address(h->deputy, address);
	member_say(m, "Deputy", message_deputy(address));
	return 0;
}

/* --- the head --- */

/* The host that may lead and has the next group rank after the head's. */
static struct head_host *deputy_next(const struct head *h)
{
	struct head_host *own = NULL, *x = NULL, *next = NULL;
	const struct round_host *first, *host;
	int hosts = round_world(h->round)->hosts, least = hosts;

	while ((own = head_next_member(h, own)) && !head_is_own(h, own))
		;
	first = own ? round_host(h->round, own->number) : NULL;
	if (!first || !hosts || first->round != round_number(h->round))
		return NULL;
	while ((x = head_next_member(h, x))) {
		int ranks;

		host = round_host(h->round, x->number);
		if (x == own || x->never_leads || host->round != first->round ||
			host->group_rank < 0)
			continue;
		ranks = (host->group_rank - first->group_rank + hosts) % hosts;
		if (ranks < least) {
			least = ranks;
			next = x;
		}
	}
	return next;
}

void head_choose_deputy(struct head *h)
{
	struct head_host *x = deputy_next(h);

	if (!h->hosts->lead || x == h->deputy)
		return;
	fence_last_word(NULL, 0, NULL, 0);
	head_set_deputy(h, x);
	if (x && random_hex(h->deputy_secret, HOSTS_SECRET - 1) == 0)
		head_say(x, "Deputize", message_deputize(h->deputy_secret));
}

/* "10.0.0.7:4711" or "[fd00::7]:4711". */
static int deputy_address(const char *text, struct sockaddr_storage *ret)
{
	struct endpoint e;
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	if (endpoint_parse(text, NULL, &e, NULL) < 0)
		return -EINVAL;
	if (inet_pton(AF_INET, e.host, &in->sin_addr) == 1)
		ret->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, e.host, &in6->sin6_addr) == 1)
		ret->ss_family = AF_INET6;
	else
		return -EINVAL;
	socket_address_set_port(ret, e.port);
	return 0;
}

int head_hear_deputy(struct head_host *x, const json_t *p, struct error *err)
{
	const char *address = json_get_string(p, "address", "");
	struct sockaddr_storage to;
	char text[FENCE_TEXT_MAX];
	ssize_t len;

	if (x != x->head->deputy)
		return 0;
	if (!*address) {
		x->never_leads = true;
		head_choose_deputy(x->head);
		return 0;
	}
	if (deputy_address(address, &to) < 0)
		return error_field(err, -EPROTO, "address", "expected an address and a port");
	len = link_last_word_text(hosts_group(x->head->hosts), x->head->hosts->agent,
		x->head->deputy_secret, text, sizeof(text));
	if (len > 0)
		fence_last_word((const struct sockaddr *)&to,
			socket_address_len((const struct sockaddr *)&to), text, (size_t)len);
	return 0;
}

/* --- records --- */

static void records_send(void *arg, const char *method, json_t *body)
{
	struct head *h = arg;

	if (h->deputy)
		head_say(h->deputy, method, body);
	else
		json_decref(body);
}

static void records_note(void *arg, json_t *edition)
{
	const struct head *h = arg;

	if (h->hosts->lead)
		lead_note_edition(h->hosts->lead, edition);
	else
		json_decref(edition);
}

static bool records_ended(void *arg)
{
	return ((struct head *)arg)->end.state;
}

/* The name of the host that led before, by the state in etcd. */
static const char *records_before(const json_t *state)
{
	const char *run = json_get_string(state, "head", "");
	const json_t *one;
	size_t i;

	json_array_foreach (json_get_array(state, "hosts"), i, one)
		if (!strcmp(json_get_string(one, "run", ""), run))
			return json_get_string(one, "name", NULL);
	return NULL;
}

void head_tell_features(struct head *h)
{
	const struct lead *l = h->hosts->lead;
	const struct hosts_lead lead = { .term = l ? l->term : 0,
		.before = l ? records_before(l->seen[LEAD_STATE].value) : NULL,
		.edition = l ? l->seen[LEAD_EDITION].value : NULL,
		.send = records_send,
		.note = records_note,
		.ended = records_ended,
		.arg = h };

	sharing_group_lead(h->sharing, &lead);
}

void head_set_deputy(struct head *h, struct head_host *x)
{
	if (x == h->deputy)
		return;
	h->deputy = x;
	FEATURES_CALL(h->hosts->sv, hosts_deputy, h->hosts->sv,
		x ? round_host(h->round, x->number)->name : NULL);
}

int head_hear_recorded(struct head_host *x, const json_t *p, struct error *err)
{
	return x == x->head->deputy ? FEATURES_FIRST(x->head->hosts->sv, 0, hosts_recorded,
					      x->head->hosts->sv, p, err)
				    : 0;
}

int member_hear_records(struct member *m, const json_t *p, struct error *err)
{
	json_t *recorded =
		m->hosts->lead ? FEATURES_FIRST(m->sv, NULL, hosts_records, m->sv, p) : NULL;

	if (recorded)
		member_say(m, "Recorded", recorded);
	return 0;
}
