/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/doctor.h"
#include "common/base/local_address.h"
#include "common/base/socket_address.h"
#include "common/etcd/from_spec.h"
#include "common/text/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Whether one of an endpoint's addresses is this host's, or leads each host to itself. */
struct where {
	bool here, loopback;
};

static struct where where_of(const struct doctor_addresses *a)
{
	struct where w = { false, false };

	for (size_t i = 0; i < a->n; i++) {
		w.here |= socket_address_is_here((const struct sockaddr *)&a->at[i]);
		w.loopback |= doctor_is_loopback((const struct sockaddr *)&a->at[i]);
	}
	return w;
}

/* Reports the addresses of an endpoint. The first endpoint that has any becomes d->endpoint. */
static bool look_up_endpoint(struct doctor *d, const char *text, int port, struct where *ret_where)
{
	struct doctor_addresses a;
	char list[512], whole[ENDPOINT_TEXT_MAX];
	struct error err = { 0 };
	struct endpoint e;
	const char *why;

	if (endpoint_parse(endpoint_without_scheme(text), NULL, &e, &err) < 0)
		return false; /* the specification was checked */
	if (!e.has_port)
		e.port = port;
	endpoint_text(&e, whole);
	why = doctor_look_up(e.host, e.port, &a);
	if (why) {
		doctor_found(d, DOCTOR_PROBLEM, "endpoint", whole,
			"correct the name, or add it to DNS or /etc/hosts of each host", "%s", why);
		return false;
	}
	*ret_where = where_of(&a);
	doctor_addresses_text(&a, list, sizeof(list));
	if (ret_where->loopback)
		doctor_found(d, DOCTOR_WARNING, "endpoint", whole,
			"name it by an address that all hosts reach, unless all are on this one",
			"%s, which no other host reaches", list);
	else
		doctor_found(d, DOCTOR_OK, "endpoint", whole, NULL, "%s%s", list,
			ret_where->here ? ", this host" : "");
	if (*d->endpoint)
		return true;
	snprintf(d->endpoint, sizeof(d->endpoint), "%s", whole);
	d->at = a;
	return true;
}

static void check_etcd_endpoints(struct doctor *d)
{
	size_t n = 0;
	_cleanup_free_ char **list = etcd_endpoints(d->spec->rendezvous.endpoints, &n);
	struct where w;

	for (size_t i = 0; list && i < n; i++)
		look_up_endpoint(d, list[i], ETCD_PORT, &w);
}

static void check_endpoint(struct doctor *d)
{
	const struct spec_rendezvous *z = &d->spec->rendezvous;
	_cleanup_free_ char *endpoint = NULL;
	struct where w;

	if (spec_rendezvous_endpoint(z, &endpoint, NULL) < 0 ||
		!look_up_endpoint(d, endpoint, ENDPOINT_PORT, &w))
		return;
	if (z->backend == SPEC_RENDEZVOUS_STATIC && z->node_rank == 0 && !w.here)
		doctor_found(d, DOCTOR_PROBLEM, "endpoint", d->endpoint,
			"correct --master-addr, or --node-rank here",
			"not an address of this host, which has node rank 0");
}

/* Reports the address under which others reach this host: the one that was given, or the one from
 * which this host reaches the endpoint. */
static void check_address(struct doctor *d)
{
	_cleanup_free_ char *given = NULL;
	struct sockaddr_storage from;
	struct error err = { 0 };
	char text[SOCKET_ADDRESS_MAX];
	struct doctor_addresses a = { .n = 1 };
	int r = local_address_find(d->spec->rendezvous.address, &given, &err);

	if (r < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "address", NULL, NULL, "%s", err.text);
		return;
	}
	if (given) {
		snprintf(d->address, sizeof(d->address), "%s", given);
		doctor_found(d, DOCTOR_OK, "address", NULL, NULL, "others reach this host at %s",
			d->address);
		return;
	}
	if (!d->at.n)
		return;
	socket_address_text((const struct sockaddr *)&d->at.at[0],
		socket_address_len((const struct sockaddr *)&d->at.at[0]), text);
	r = local_address_towards((const struct sockaddr *)&d->at.at[0], &from);
	if (r < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "address", NULL,
			"see the routes (ip route), or name this host's address with --local-addr",
			"this host has none that reaches %s: %s", text, strerror(-r));
		return;
	}
	a.at[0] = from;
	doctor_addresses_text(&a, d->address, sizeof(d->address));
	doctor_found(
		d, DOCTOR_OK, "address", NULL, NULL, "others reach this host at %s", d->address);
}

void doctor_check_names(struct doctor *d)
{
	if (d->spec->rendezvous.backend == SPEC_RENDEZVOUS_ETCD)
		check_etcd_endpoints(d);
	else
		check_endpoint(d);
	check_address(d);
}
