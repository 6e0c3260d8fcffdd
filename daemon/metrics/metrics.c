/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/metrics.h"

#include "common/base/log.h"
#include "common/text/endpoint.h"
#include "common/varlink/socket.h"
#include "daemon/metrics/http_server.h"
#include "daemon/metrics/page.h"
#include "daemon/metrics/readings.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_PLAIN "text/plain; charset=utf-8"

enum { METRICS_BACKLOG = 16 };

/* A caller that waits for the numbers of agents. */
struct metrics_reader {
	STAILQ_ENTRY(metrics_reader) link;
	struct http_call *call;
	enum access_level level;
	uid_t uid;
};

struct metrics {
	struct daemon *daemon;
	struct http_server *server;
	struct readings *readings;
	STAILQ_HEAD(metrics_readers, metrics_reader) readers;
	struct ended_counts ended;
	char *path; /* of the socket, to be removed */
};

static void answer_page(
	struct metrics *m, struct http_call *call, enum access_level level, uid_t uid)
{
	size_t len = 0;
	char *text = page_text(m->daemon, m->readings, &m->ended, level, uid, &len);

	http_call_answer(call, 200, METRICS_TYPE, text, len);
}

static void on_refreshed(void *arg)
{
	struct metrics *m = arg;
	struct metrics_reader *x;

	while ((x = STAILQ_FIRST(&m->readers))) {
		STAILQ_REMOVE_HEAD(&m->readers, link);
		answer_page(m, x->call, x->level, x->uid);
		free(x);
	}
}

static void answer_text(struct http_call *call, int status, const char *text)
{
	http_call_answer(call, status, METRICS_PLAIN, strdup(text), strlen(text));
}

static void answer_refused(struct metrics *m, struct http_call *call, uid_t uid)
{
	char text[512];

	access_refusal(m->daemon->access, uid, text, sizeof(text) - 1);
	strcat(text, "\n");
	answer_text(call, 403, text);
}

static void answer_metrics(struct metrics *m, struct http_call *call)
{
	struct daemon *d = m->daemon;
	enum access_level level = ACCESS_ALL;
	struct metrics_reader *x;
	struct ucred peer = { 0 };

	if (http_call_peer(call, &peer))
		level = access_level(d->access, peer.uid, peer.gid, loop_now_ms());
	if (level == ACCESS_NONE) {
		answer_refused(m, call, peer.uid);
		return;
	}
	if (!readings_refresh(m->readings)) {
		answer_page(m, call, level, peer.uid);
		return;
	}
	x = malloc(sizeof(*x));
	if (!x) {
		http_call_answer(call, 500, METRICS_PLAIN, NULL, 0);
		return;
	}
	*x = (struct metrics_reader){ .call = call, .level = level, .uid = peer.uid };
	STAILQ_INSERT_TAIL(&m->readers, x, link);
}

static void on_call(void *arg, struct http_call *call, const char *path)
{
	struct metrics *m = arg;
	const struct daemon *d = m->daemon;

	if (!strcmp(path, "/metrics"))
		answer_metrics(m, call);
	else if (!strcmp(path, "/healthz"))
		answer_text(call, 200, "ok\n");
	else if (!strcmp(path, "/readyz"))
		answer_text(call, d->open && !d->leaving ? 200 : 503,
			d->leaving ? "elasticd is leaving\n"
			: d->open  ? "ok\n"
				   : "elasticd is taking up its jobs\n");
	else
		answer_text(call, 404, "elasticd has /metrics, /healthz and /readyz\n");
}

void metrics_job_changed(struct metrics *m, struct job *j)
{
	if (j->life != LIFE_ENDED) {
		j->goes_on = true;
	} else if (j->goes_on && m) {
		j->goes_on = false;
		m->ended.n[j->mirror.state]++;
	}
}

static void listen_path(struct metrics *m)
{
	struct daemon *d = m->daemon;
	struct error err = { 0 };
	struct stat st;
	int fd = -1;
	int r;

	m->path = paths_join(d->paths.runtime_dir, "metrics.sock");
	r = m->path ? varlink_socket_listen(m->path, d->system ? 0666 : 0600, &fd, &st, &err)
		    : error_set(&err, -ENOMEM, "out of memory");
	if (!r)
		r = http_server_listen(m->server, fd);
	if (r < 0)
		log_warning("metrics are not served on a socket: %s",
			err.text[0] ? err.text : strerror(-r));
}

static int bind_port(const struct addrinfo *a, int *ret)
{
	_cleanup_close_ int fd =
		socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) < 0 ||
		bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, METRICS_BACKLOG) < 0)
		return -errno;
	*ret = TAKE_FD(fd);
	return 0;
}

static void listen_port(struct metrics *m, const char *address)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	struct endpoint at = { .port = 0 };
	struct error err = { 0 };
	char port[16];
	int fd = -1;
	int r = endpoint_parse(address, NULL, &at, &err);

	snprintf(port, sizeof(port), "%d", at.port);
	if (!r)
		r = getaddrinfo(at.host, port, &hints, &found) ? -EADDRNOTAVAIL
							       : bind_port(found, &fd);
	if (found)
		freeaddrinfo(found);
	if (!r)
		r = http_server_listen(m->server, fd);
	if (r < 0)
		log_error("metrics are not served at %s ([metrics] listen): %s", address,
			strerror(-r));
	else
		log_notice("metrics are served at http://%s/metrics", address);
}

int metrics_new(struct daemon *d, struct metrics **ret)
{
	_cleanup_(metrics_freep) struct metrics *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->daemon = d;
	STAILQ_INIT(&m->readers);
	r = readings_new(d->loop, d->registry, on_refreshed, m, &m->readings);
	if (!r)
		r = http_server_new(d->loop, on_call, m, &m->server);
	if (r < 0)
		return r;
	listen_path(m);
	if (d->config.listen)
		listen_port(m, d->config.listen);
	*ret = TAKE_PTR(m);
	return 0;
}

struct metrics *metrics_free(struct metrics *m)
{
	struct metrics_reader *x;

	if (!m)
		return NULL;
	http_server_free(m->server);
	while ((x = STAILQ_FIRST(&m->readers))) {
		STAILQ_REMOVE_HEAD(&m->readers, link);
		http_call_answer(x->call, 503, METRICS_PLAIN, NULL, 0);
		free(x);
	}
	readings_free(m->readings);
	if (m->path)
		unlink(m->path);
	free(m->path);
	free(m);
	return NULL;
}
