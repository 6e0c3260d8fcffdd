/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/messages.h"
#include "agent/hosts/private.h"
#include "agent/process/fence.h"
#include "common/base/log.h"
#include "common/base/socket_address.h"
#include "common/text/endpoint.h"
#include "common/text/json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * The deputy: the host that leads first if the head's is lost. When the head's agent dies, its
 * guard tells the deputy, which then leads without waiting for a lease.
 */

/* --- the deputy ---------------------------------------------------------------------------------
 */

static int deputy_joined(void *arg, struct link *l, struct error *err)
{
	return error_field(
		err, -ENOTSUP, "rendezvous.endpoints", "this host does not lead the group");
}

static void deputy_word(void *arg, struct link *l)
{
	struct hosts *h = arg;

	log_warning("the agent of the host that leads has ended");
	lead_word(h->lead);
}

/* At the address from which this host reaches the head, at any port. */
static int deputy_listen(struct hosts *h, struct error *err)
{
	static const struct link_listen_events events = { .joined = deputy_joined,
		.last_word = deputy_word };
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

void deputy_hear(struct hosts *h, const char *word)
{
	char address[SOCKET_ADDRESS_MAX];
	struct error err = { 0 };
	int r = 0;

	if (!h->lead || h->head)
		return;
	if (h->spec->rendezvous.never_leads) {
		member_say_deputy(h->member, "");
		return;
	}
	if (!h->deputy)
		r = deputy_listen(h, &err);
	if (r == 0)
		r = link_listen_expect(h->deputy, link_peer(h->member->link)->agent, word);
	if (r < 0) {
		log_warning("this host will not hear from the guard of the host that leads: %s",
			*err.text ? err.text : strerror(-r));
		return;
	}
	link_listen_address(h->deputy, address);
	member_say_deputy(h->member, address);
}

/* --- the head -----------------------------------------------------------------------------------
 */

/* The host of that group rank in the present round. */
static struct head_host *deputy_at(const struct head *h, int rank)
{
	for (int i = 0; i < h->n_members; i++) {
		const struct round_host *host =
			h->members[i] ? round_host(h->round, h->members[i]->number) : NULL;

		if (host && host->round == round_number(h->round) && host->group_rank == rank)
			return h->members[i];
	}
	return NULL;
}

/* The host of the next group rank after this one's that may lead. */
static struct head_host *deputy_next(const struct head *h)
{
	struct head_host *own = NULL;
	int rank, hosts = round_world(h->round)->hosts;

	for (int i = 0; i < h->n_members && !own; i++)
		if (h->members[i] && head_is_own(h, h->members[i]))
			own = h->members[i];
	if (!own || round_host(h->round, own->number)->round != round_number(h->round))
		return NULL;
	rank = round_host(h->round, own->number)->group_rank;
	for (int i = 1; i < hosts; i++) {
		struct head_host *x = deputy_at(h, (rank + i) % hosts);

		if (x && !x->never_leads)
			return x;
	}
	return NULL;
}

void head_choose_deputy(struct head *h)
{
	struct head_host *x = deputy_next(h);

	if (!h->hosts->lead || x == h->deputy)
		return;
	fence_last_word(NULL, 0, NULL, 0);
	head_set_deputy(h, x);
	if (x && lead_secret(h->deputy_word) == 0)
		head_say(x, "Deputize", message_deputize(h->deputy_word));
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

int head_hear_deputy(struct head_host *x, const char *address, struct error *err)
{
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
		x->head->deputy_word, text, sizeof(text));
	if (len > 0)
		fence_last_word((const struct sockaddr *)&to,
			socket_address_len((const struct sockaddr *)&to), text, (size_t)len);
	return 0;
}
