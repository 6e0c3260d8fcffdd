/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/meeting.h"
#include "common/base/clock.h"
#include "common/base/socket_address.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SMALL_TRIES = 4 }; /* of which the quickest counts; then one with the payload */

static void way_try(struct meeting_way *w);

int meeting_connect(const struct sockaddr *a)
{
	_cleanup_close_ int fd =
		socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || (connect(fd, a, socket_address_len(a)) < 0 && errno != EINPROGRESS))
		return -errno;
	return TAKE_FD(fd);
}

static void way_end(struct meeting_way *w, const char *error)
{
	struct meeting *m = w->meeting;

	if (w->over)
		return;
	w->over = true;
	snprintf(w->error, sizeof(w->error), "%s", error ? error : "");
	loop_timer_disarm(w->limit);
	w->watch = loop_fd_free(w->watch);
	m->n_open--;
	m->waits = m->n_open > 0;
	if (!m->waits)
		loop_quit(m->loop, 0);
}

static void way_limit(void *arg)
{
	struct meeting_way *w = arg;

	if (!w->connected)
		way_end(w, "no answer: a firewall, or no route");
	else if (w->tries == SMALL_TRIES)
		way_end(w, "32 KiB do not come back though small packets do: some link on the way "
			   "has a smaller MTU than its ends");
	else
		way_end(w, "it has connected, but does not answer");
}

static void way_gone(void *arg)
{
	way_end(arg, "the connection broke");
}

static void way_measure(struct meeting_way *w, int64_t time_us)
{
	int64_t rtt_us = (int64_t)monotonic_us() - w->sent_us;

	if (w->tries && rtt_us >= w->rtt_us)
		return;
	w->rtt_us = rtt_us;
	w->offset_us = time_us - w->sent_real_us - rtt_us / 2;
}

static void way_answered(void *arg, const char *error, json_t *p, bool continues)
{
	struct meeting_way *w = arg;

	if (w->over)
		return;
	if (error) {
		way_end(w, strcmp(error, "disconnected") ? error : "the connection broke");
		return;
	}
	if (strcmp(json_get_string(p, "id", ""), json_get_string(w->host, "id", "?"))) {
		way_end(w, "another program answers there: that address is not unique among the "
			   "hosts");
		return;
	}
	if (w->tries < SMALL_TRIES)
		way_measure(w, json_get_int(p, "time_us", 0));
	else if (strlen(json_get_string(p, "payload", "")) != MEETING_PAYLOAD) {
		way_end(w, "32 KiB were sent, and others came back");
		return;
	}
	if (w->tries++ == SMALL_TRIES)
		way_end(w, NULL);
	else
		way_try(w);
}

static void way_try(struct meeting_way *w)
{
	static char payload[MEETING_PAYLOAD + 1];
	json_t *p = json_object();

	if (w->tries == SMALL_TRIES) {
		memset(payload, 'x', MEETING_PAYLOAD);
		json_put_string(p, "payload", payload);
	}
	w->sent_real_us = ctl_now_us();
	w->sent_us = (int64_t)monotonic_us();
	if (varlink_client_call(w->client, "io.elasticd.Doctor.Probe", p, false, way_answered, w) <
		0)
		way_end(w, "the connection broke");
}

static void way_connected(int fd, int events, void *arg)
{
	struct meeting_way *w = arg;
	socklen_t len = sizeof(int);
	int code = 0;

	w->watch = loop_fd_free(w->watch);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0 || code) {
		way_end(w, strerror(code ? code : errno));
		return;
	}
	w->connected = true;
	w->fd = -1;
	if (varlink_client_new_fd(w->meeting->loop, fd, way_gone, w, &w->client) < 0)
		way_end(w, "out of memory");
	else
		way_try(w);
}

static void way_begin(struct meeting_way *w)
{
	struct doctor_addresses a;
	const char *why = doctor_look_up(
		json_get_string(w->host, "address", ""), (int)json_get_int(w->host, "port", 0), &a);

	if (why) {
		way_end(w, why);
		return;
	}
	w->fd = meeting_connect((const struct sockaddr *)&a.at[0]);
	if (w->fd < 0)
		way_end(w, strerror(-w->fd));
	else if (loop_fd_new(w->meeting->loop, w->fd, LOOP_WRITE, way_connected, w, &w->watch) < 0)
		way_end(w, "out of memory");
	else
		loop_timer_arm(w->limit, MEETING_WAY_MS);
}

void meeting_try_ways(struct meeting *m)
{
	size_t n = json_array_size(m->hosts), own = 0;

	while (own < n && strcmp(json_get_string(json_array_get(m->hosts, own), "id", ""), m->id))
		own++;
	for (size_t k = 1; k < n && m->n_ways < MEETING_WAYS_MAX; k++) {
		struct meeting_way *w = &m->ways[m->n_ways];

		*w = (struct meeting_way){
			.meeting = m, .host = json_array_get(m->hosts, (own + k) % n), .fd = -1
		};
		if (loop_timer_new(m->loop, way_limit, w, &w->limit) < 0)
			break;
		m->n_ways++;
	}
	m->n_open = m->n_ways;
	for (size_t i = 0; i < m->n_ways; i++)
		way_begin(&m->ways[i]);
	m->waits = m->n_open > 0;
	(void)meeting_wait(m, &m->waits, MEETING_WAY_MS + 1000);
}

json_t *meeting_ways_json(const struct meeting *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->n_ways; i++) {
		const struct meeting_way *w = &m->ways[i];
		json_t *one = json_object();

		json_put_string(one, "id", json_get_string(w->host, "id", ""));
		if (*w->error) {
			json_put_string(one, "error", w->error);
		} else {
			json_put_int(one, "rtt_us", w->rtt_us);
			json_put_int(one, "offset_us", w->offset_us);
		}
		json_add(list, one);
	}
	return list;
}

void meeting_ways_fini(struct meeting *m)
{
	for (size_t i = 0; i < m->n_ways; i++) {
		struct meeting_way *w = &m->ways[i];

		loop_fd_free(w->watch);
		loop_timer_free(w->limit);
		varlink_client_free(w->client);
		close_fd(w->fd);
	}
}
