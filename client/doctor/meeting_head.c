/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/meeting.h"
#include "common/base/clock.h"
#include "common/base/socket_address.h"
#include "common/text/duration.h"
#include "common/text/endpoint.h"
#include "common/text/json.h"
#include "common/varlink/doctor_idl.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 1024, CONNECTIONS_MORE = 128, DISMISS_MS = 3000 };

static const struct varlink_range ranges[] = {
	{ "port", 1, UINT16_MAX },
	{ "node_rank", 0, SPEC_NODES_MAX - 1 },
	{ "wait_ms", 0, DURATION_MAX_MS },
	{ "rtt_us", 0, INT64_MAX / 2 },
	{ NULL, 0, 0 },
};

static json_t *message_parameters(const char *text)
{
	json_t *p = json_object();

	json_put_string(p, "message", text);
	return p;
}

static void nodes_text(const struct meeting *m, char text[32])
{
	const struct spec_rendezvous *z = &m->doctor->spec->rendezvous;

	snprintf(text, 32, "%d:%d", z->nodes_min, z->nodes_max);
}

/* --- joining --- */

static void seat_free(struct meeting_seat *s)
{
	if (!s)
		return;
	json_decref(s->host);
	json_decref(s->ways);
	free(s);
}

static void seat_remove(struct meeting *m, struct meeting_seat *s)
{
	size_t i = 0;

	while (m->seats[i] != s)
		i++;
	memmove(&m->seats[i], &m->seats[i + 1],
		(m->n_seats - i - 1) * sizeof(struct meeting_seat *));
	m->n_seats--;
	seat_free(s);
}

static json_t *hosts_of(const struct meeting *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->n_seats; i++)
		json_add(list, json_incref(m->seats[i]->host));
	return list;
}

/* All hosts are here, or the time is up. */
static void meeting_close(void *arg)
{
	struct meeting *m = arg;
	_cleanup_json_ json_t *p = json_object();

	m->closed = true;
	loop_timer_disarm(m->close);
	loop_timer_arm(m->last, MEETING_REPORT_MS);
	json_put_string(p, "host", m->doctor->host);
	json_put(p, "hosts", hosts_of(m));
	for (size_t i = 0; i < m->n_seats; i++) {
		struct varlink_call *call = m->seats[i]->join;

		m->seats[i]->join = NULL;
		if (call)
			(void)varlink_reply(call, json_incref(p));
	}
}

/* Why a host cannot take part; false: it can. */
static bool join_refused(const struct meeting *m, const json_t *p, char *text, size_t size)
{
	const char *group = json_get_string(p, "group", ""),
		   *nodes = json_get_string(p, "nodes", "");
	const char *own = m->doctor->spec->rendezvous.id;
	int64_t rank = json_get_int(json_get_object(p, "host"), "node_rank", -1);
	char want[32];

	own = own ? own : "";
	nodes_text(m, want);
	if (strcmp(group, own))
		return snprintf(text, size,
			"--rdzv-id: expected \"%.64s\" as on %.64s, got \"%.64s\"", own,
			m->doctor->host, group);
	if (strcmp(nodes, want))
		return snprintf(text, size, "--nnodes: expected %s as on %.64s, got %.64s", want,
			m->doctor->host, nodes);
	for (size_t i = 0; i < m->n_seats; i++)
		if (rank >= 0 && json_get_int(m->seats[i]->host, "node_rank", -1) == rank)
			return snprintf(text, size, "--node-rank: %d is that of %.64s already",
				(int)rank, json_get_string(m->seats[i]->host, "host", "?"));
	return false;
}

static int seat_add(struct meeting *m, struct varlink_call *call, const json_t *p)
{
	struct meeting_seat *s = calloc(1, sizeof(*s)), **seats;

	seats = reallocarray(m->seats, m->n_seats + 1, sizeof(struct meeting_seat *));
	if (seats)
		m->seats = seats;
	if (!seats || !s) {
		free(s);
		return -ENOMEM;
	}
	*s = (struct meeting_seat){ .host = json_incref(json_get_object(p, "host")), .join = call };
	m->seats[m->n_seats++] = s;
	varlink_call_set_user(call, s);
	return 0;
}

static int on_join(struct varlink_call *call, json_t *p, void *arg)
{
	struct meeting *m = arg;
	int64_t wait_ms = json_get_int(p, "wait_ms", 0), left_ms;
	char why[512];
	int r;

	if (!m->leads || m->closed)
		return varlink_error(call, "Unavailable",
			message_parameters(
				m->leads ? "the others have met already" : "does not lead"));
	if (join_refused(m, p, why, sizeof(why)))
		return varlink_error(call, "FailedPrecondition", message_parameters(why));
	r = seat_add(m, call, p);
	if (r < 0)
		return r;
	left_ms = (m->deadline_us - (int64_t)monotonic_us()) / 1000;
	if (wait_ms < left_ms) {
		m->deadline_us = (int64_t)monotonic_us() + wait_ms * 1000;
		loop_timer_arm(m->close, (uint64_t)wait_ms);
	}
	if (m->n_seats == (size_t)m->doctor->spec->rendezvous.nodes_max)
		meeting_close(m);
	return 0;
}

/* --- reports --- */

/* Lists of the ways to each host, as the others have found them, by the hosts' ids. */
static json_t *ways_by_host(const struct meeting *m)
{
	json_t *all = json_object(), *way;
	size_t k;

	for (size_t i = 0; i < m->n_seats; i++)
		json_object_set_new(
			all, json_get_string(m->seats[i]->host, "id", ""), json_array());
	for (size_t i = 0; i < m->n_seats; i++) {
		const char *from = json_get_string(m->seats[i]->host, "id", "");

		json_array_foreach (m->seats[i]->ways, k, way) {
			json_t *to = json_object_get(all, json_get_string(way, "id", ""));
			json_t *copy = to ? json_copy(way) : NULL;

			json_put_string(copy, "id", from);
			if (to)
				json_add(to, copy);
		}
	}
	return all;
}

static void reports_answer(void *arg)
{
	struct meeting *m = arg;
	_cleanup_json_ json_t *all = ways_by_host(m);

	m->answered = true;
	loop_timer_disarm(m->last);
	for (size_t i = 0; i < m->n_seats; i++) {
		struct meeting_seat *s = m->seats[i];
		struct varlink_call *call = s->report;
		json_t *ways = json_object_get(all, json_get_string(s->host, "id", ""));

		s->report = NULL;
		if (call)
			(void)varlink_reply(call, json_pack("{s:O}", "ways", ways));
	}
}

static bool all_reported(const struct meeting *m)
{
	bool all = true;

	for (size_t i = 0; i < m->n_seats; i++)
		all &= m->seats[i]->ways || m->seats[i]->gone;
	return all;
}

/* A host that goes before all are there has not come; one that goes later reports nothing more. */
static void seat_closed(void *user, void *arg)
{
	struct meeting_seat *s = user;
	struct meeting *m = arg;

	s->join = s->report = NULL;
	s->gone = true;
	if (!m->closed)
		seat_remove(m, s);
	else if (!m->answered && all_reported(m))
		reports_answer(m);
}

static int on_report(struct varlink_call *call, json_t *p, void *arg)
{
	struct meeting *m = arg;
	struct meeting_seat *s = NULL;

	for (size_t i = 0; i < m->n_seats; i++)
		if (!strcmp(json_get_string(m->seats[i]->host, "id", ""),
			    json_get_string(p, "id", "?")))
			s = m->seats[i];
	if (!m->closed || m->answered || !s || s->ways)
		return varlink_error(call, s ? "Unavailable" : "NotFound",
			message_parameters(s ? "the reports are over" : "has not joined"));
	s->ways = json_incref(json_get_array(p, "ways"));
	s->report = call;
	if (all_reported(m))
		reports_answer(m);
	return 0;
}

/* --- serving --- */

static int on_probe(struct varlink_call *call, json_t *p, void *arg)
{
	const struct meeting *m = arg;
	json_t *answer = json_object();

	json_put_string(answer, "id", m->id);
	json_put_int(answer, "time_us", ctl_now_us());
	if (json_get_string(p, "payload", NULL))
		json_put(answer, "payload", json_incref(json_object_get(p, "payload")));
	return varlink_reply(call, answer);
}

static const struct varlink_method methods[] = {
	{ "Join", on_join },
	{ "Probe", on_probe },
	{ "Report", on_report },
	{ NULL, NULL },
};

static void on_idle(void *arg)
{
	struct meeting *m = arg;

	m->left = true;
	loop_quit(m->loop, 0);
}

int meeting_bind(const struct sockaddr *a, int *ret_port)
{
	_cleanup_close_ int fd =
		socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_storage bound;
	socklen_t len = sizeof(bound);
	int on = 1, off = 0;

	if (a->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, a, socket_address_len(a)) < 0 || listen(fd, BACKLOG) < 0 ||
		getsockname(fd, (struct sockaddr *)&bound, &len) < 0)
		return -errno;
	if (bound.ss_family == AF_INET6)
		*ret_port = ntohs(((const struct sockaddr_in6 *)&bound)->sin6_port);
	else
		*ret_port = ntohs(((const struct sockaddr_in *)&bound)->sin_port);
	return TAKE_FD(fd);
}

static int listen_at(struct meeting *m, int port)
{
	struct sockaddr_storage any = { .ss_family = AF_INET6 };
	int fd;

	/* IPv6 stands for both, unless this host has none. */
	socket_address_set_port(&any, port);
	fd = meeting_bind((const struct sockaddr *)&any, &m->port);
	if (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL)
		return fd;
	any.ss_family = AF_INET;
	return meeting_bind((const struct sockaddr *)&any, &m->port);
}

/* Where the others try their ways to this host: at a port where they would reach its workers, or
 * with etcd the links of a group that it leads. */
static int listen_own(struct meeting *m)
{
	const struct spec_rendezvous *z = &m->doctor->spec->rendezvous;
	int first = z->master_ports.first, last = z->master_ports.last, fd = -EADDRINUSE;

	if (z->backend == SPEC_RENDEZVOUS_ETCD && !first)
		first = last = ENDPOINT_PORT;
	for (int port = first; port && port <= last && fd < 0; port++)
		fd = listen_at(m, port);
	return fd < 0 ? listen_at(m, 0) : fd;
}

int meeting_serve(struct meeting *m, struct error *err)
{
	const struct varlink_options options = {
		.vendor = "elasticd",
		.product = "elasticctl doctor",
		.version = VERSION,
		.url = "",
		.idl = doctor_idl,
		.methods = methods,
		.ranges = ranges,
		.limits = { .connections =
				    m->doctor->spec->rendezvous.nodes_max + CONNECTIONS_MORE },
		.closed = seat_closed,
		.idle = on_idle,
		.arg = m,
	};
	int fd = listen_own(m), r;

	if (fd < 0)
		return error_set(err, fd, "cannot listen: %s", strerror(-fd));
	r = varlink_server_new(m->loop, &options, &m->server, err);
	if (r < 0) {
		close(fd);
		return r;
	}
	r = varlink_server_listen_fd(m->server, fd, err);
	if (r == 0)
		r = loop_timer_new(m->loop, meeting_close, m, &m->close);
	return r < 0 ? r : loop_timer_new(m->loop, reports_answer, m, &m->last);
}

int meeting_lead(struct meeting *m, int fd, struct error *err)
{
	int64_t left_ms = (m->deadline_us - (int64_t)monotonic_us()) / 1000;
	int r = fd < 0 ? 0 : varlink_server_listen_fd(m->server, fd, err);

	if (r < 0)
		return r;
	m->leads = true;
	loop_timer_arm(m->close, left_ms > 0 ? (uint64_t)left_ms : 0);
	return 0;
}

void meeting_dismiss(struct meeting *m)
{
	m->left = varlink_server_connections(m->server) == 0;
	(void)meeting_wait(m, &m->left, DISMISS_MS);
}

void meeting_head_fini(struct meeting *m)
{
	m->closed = m->answered = true; /* connections that end change no more */
	varlink_server_free(m->server);
	loop_timer_free(m->close);
	loop_timer_free(m->last);
	for (size_t i = 0; i < m->n_seats; i++)
		seat_free(m->seats[i]);
	free(m->seats);
}
