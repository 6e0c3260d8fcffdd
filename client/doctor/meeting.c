/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/meeting.h"
#include "common/base/clock.h"
#include "common/base/socket_address.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
	AGAIN_MS = 200,	       /* between two tries to find the head */
	ANSWER_MORE_MS = 3000, /* the head may close later than at the deadline */
};

static void meeting_late(void *arg)
{
	struct meeting *m = arg;

	m->late = true;
	loop_quit(m->loop, 0);
}

bool meeting_wait(struct meeting *m, const bool *flag, int64_t limit_ms)
{
	m->late = false;
	loop_timer_arm(m->limit, limit_ms > 0 ? (uint64_t)limit_ms : 0);
	while (*flag && !m->late)
		if (loop_run(m->loop) < 0)
			break;
	loop_timer_disarm(m->limit);
	return !*flag;
}

static int64_t left_ms(const struct meeting *m)
{
	return (m->deadline_us - (int64_t)monotonic_us()) / 1000;
}

static void pause_before_again(struct meeting *m)
{
	const bool always = true;

	(void)meeting_wait(m, &always, AGAIN_MS);
}

/* --- finding the head --- */

/* The host that can listen at the endpoint is the head. */
static int find_by_endpoint(
	struct meeting *m, unsigned try, struct sockaddr_storage *ret, struct error *err)
{
	struct doctor_addresses *at = &m->doctor->at;
	int fd = -EADDRNOTAVAIL, port;

	*ret = at->at[try % at->n];
	for (size_t i = 0; i < at->n && meeting_may_lead(m) && !m->leads; i++) {
		const struct sockaddr *a = (const struct sockaddr *)&at->at[i];

		fd = socket_address_is_here(a) ? meeting_bind(a, &port) : -EADDRNOTAVAIL;
		if (fd == -EADDRNOTAVAIL)
			continue;
		*ret = at->at[i];
		if (fd >= 0)
			return meeting_lead(m, fd, err);
		if (fd != -EADDRINUSE)
			return error_set(
				err, fd, "this host cannot listen there: %s", strerror(-fd));
	}
	return 0;
}

static void head_reached(int fd, int events, void *arg)
{
	struct meeting *m = arg;

	m->asks = false;
	loop_quit(m->loop, 0);
}

static void head_gone(void *arg)
{
	struct meeting *m = arg;

	m->asks = false;
	loop_quit(m->loop, 0);
}

static int connect_head(struct meeting *m, const struct sockaddr *a, struct error *err)
{
	_cleanup_close_ int fd = meeting_connect(a);
	struct loop_fd *watch = NULL;
	char text[SOCKET_ADDRESS_MAX];
	socklen_t len = sizeof(int);
	int code = fd < 0 ? -fd : 0;

	socket_address_text(a, socket_address_len(a), text);
	m->asks = true;
	if (!code)
		code = -loop_fd_new(m->loop, fd, LOOP_WRITE, head_reached, m, &watch);
	if (!code && !meeting_wait(m, &m->asks, MEETING_CONNECT_MS))
		code = ETIMEDOUT;
	loop_fd_free(watch);
	if (!code && getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		code = errno;
	if (code)
		return error_set(err, -code, "%s: %s", text, strerror(code));
	return varlink_client_new_fd(m->loop, TAKE_FD(fd), head_gone, m, &m->head);
}

/* --- calls to the head --- */

static void head_answered(void *arg, const char *error, json_t *p, bool continues)
{
	struct meeting *m = arg;

	json_decref(m->answer);
	m->answer = error ? NULL : json_incref(p);
	if (error)
		snprintf(m->failure, sizeof(m->failure), "%s",
			json_get_string(p, "message",
				!strcmp(error, "disconnected")
					? "it is no \"elasticctl doctor\" that answers there, or one "
					  "that has ended"
					: error));
	m->refused = error && !strcmp(error, "io.elasticd.Doctor.FailedPrecondition");
	m->asks = false;
	loop_quit(m->loop, 0);
}

/* Takes p. Returns whether it was answered, in m->answer; else m->failure says why not. */
static bool call_head(struct meeting *m, const char *method, json_t *p, int64_t limit_ms)
{
	m->answer = (json_decref(m->answer), NULL);
	m->asks = true;
	snprintf(m->failure, sizeof(m->failure), "it has not answered");
	if (varlink_client_call(m->head, method, p, false, head_answered, m) < 0)
		return false;
	(void)meeting_wait(m, &m->asks, limit_ms);
	return m->answer;
}

static json_t *join_parameters(const struct meeting *m)
{
	const struct spec_rendezvous *z = &m->doctor->spec->rendezvous;
	json_t *host = json_object(), *p = json_object();
	char nodes[32];

	snprintf(nodes, sizeof(nodes), "%d:%d", z->nodes_min, z->nodes_max);
	json_put_string(host, "id", m->id);
	json_put_string(host, "host", m->doctor->host);
	json_put_string(host, "version", VERSION);
	json_put_string(host, "address", m->doctor->address);
	json_put_int(host, "port", m->port);
	if (z->node_rank != SPEC_UNSET)
		json_put_int(host, "node_rank", z->node_rank);
	json_put(p, "host", host);
	json_put_string(p, "group", z->id ? z->id : "");
	json_put_string(p, "nodes", nodes);
	json_put_int(p, "wait_ms", left_ms(m) > 0 ? left_ms(m) : 0);
	return p;
}

/* One try to meet. Returns whether there is a list of hosts; final: no other try would help. */
static bool meeting_try(struct meeting *m, unsigned try, bool *ret_final)
{
	bool by_etcd = m->doctor->spec->rendezvous.backend == SPEC_RENDEZVOUS_ETCD;
	struct sockaddr_storage at;
	struct error err = { 0 };
	int r = by_etcd ? meeting_place_find(m, &at, &err) : find_by_endpoint(m, try, &at, &err);

	if (r == 0)
		r = connect_head(m, (const struct sockaddr *)&at, &err);
	if (r < 0) {
		snprintf(m->failure, sizeof(m->failure), "%s", *err.text ? err.text : strerror(-r));
		return false;
	}
	if (call_head(m, "io.elasticd.Doctor.Join", join_parameters(m),
		    left_ms(m) + ANSWER_MORE_MS)) {
		m->hosts = json_incref(json_get_array(m->answer, "hosts"));
		snprintf(m->head_name, sizeof(m->head_name), "%s",
			json_get_string(m->answer, "host", "?"));
		return m->hosts;
	}
	*ret_final = m->refused;
	m->head = varlink_client_free(m->head);
	return false;
}

/* --- the meeting --- */

static void meeting_run(struct meeting *m)
{
	bool final = false;
	json_t *p;

	for (unsigned try = 0; !m->hosts && !final; try++) {
		if (try && left_ms(m) <= 0)
			break;
		if (try)
			pause_before_again(m);
		if (meeting_try(m, try, &final))
			break;
	}
	if (!m->hosts) {
		meeting_found_failure(m);
		return;
	}
	meeting_found_hosts(m);
	meeting_try_ways(m);
	p = json_object();
	json_put_string(p, "id", m->id);
	json_put(p, "ways", meeting_ways_json(m));
	(void)call_head(m, "io.elasticd.Doctor.Report", p, MEETING_REPORT_MS + ANSWER_MORE_MS);
	meeting_found_ways(m);
}

void doctor_check_meeting(struct doctor *d)
{
	struct meeting m = { .doctor = d,
		.loop = d->loop,
		.deadline_us = (int64_t)monotonic_us() + d->wait_ms * 1000 };
	struct error err = { 0 };
	uint64_t random = 0;
	int r;

	if (!d->at.n || !*d->address)
		return; /* it was said why */
	(void)!getrandom(&random, sizeof(random), 0);
	snprintf(m.id, sizeof(m.id), "%016" PRIx64, random);
	r = loop_timer_new(d->loop, meeting_late, &m, &m.limit);
	if (r == 0)
		r = meeting_serve(&m, &err);
	if (r < 0)
		doctor_found(d, DOCTOR_PROBLEM, "meeting", d->endpoint, NULL, "%s",
			*err.text ? err.text : strerror(-r));
	else
		meeting_run(&m);
	meeting_ways_fini(&m);
	varlink_client_free(m.head);
	if (m.leads)
		meeting_dismiss(&m);
	meeting_place_free(m.place);
	meeting_head_fini(&m);
	loop_timer_free(m.limit);
	json_decref(m.answer);
	json_decref(m.hosts);
}
