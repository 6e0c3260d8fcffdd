/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/http_server.h"

#include "common/base/descriptors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <unistd.h>

enum { HTTP_SOCKETS_MAX = 2, HTTP_REST_MS = 100 /* when no descriptor is left */ };

/* A connection reads the head of a call, waits for the call's answer, and writes it. */
struct http_connection {
	TAILQ_ENTRY(http_connection) link;
	struct http_server *server;
	int fd;
	struct loop_fd *watch;
	struct loop_timer *limit;
	struct http_call *call; /* NULL: reads, or writes where there is an answer */
	char in[HTTP_HEAD_MAX + 1];
	size_t in_len;
	char head[256]; /* of the answer */
	size_t head_len;
	char *text; /* the answer; NULL: none, or a HEAD's */
	size_t text_len;
	size_t sent; /* of both */
	bool writes, head_only, last;
};

struct http_call {
	struct http_connection *connection; /* NULL: gone */
};

struct http_server {
	struct loop *loop;
	http_fn fn;
	void *arg;
	int sockets[HTTP_SOCKETS_MAX];
	struct loop_fd *accepts[HTTP_SOCKETS_MAX];
	int n_sockets;
	struct loop_timer *rest;
	TAILQ_HEAD(http_connections, http_connection) connections; /* the longest idle first */
	int n_connections;
};

static void take_next_call(void *arg);

static void http_connection_free(struct http_connection *c)
{
	loop_cancel(c->server->loop, take_next_call, c);
	if (c->call)
		c->call->connection = NULL;
	TAILQ_REMOVE(&c->server->connections, c, link);
	c->server->n_connections--;
	loop_fd_free(c->watch);
	loop_timer_free(c->limit);
	close_fd(c->fd);
	free(c->text);
	free(c);
}

static void on_limit(void *arg)
{
	http_connection_free(arg);
}

static const char *http_reason(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 431:
		return "Request Header Fields Too Large";
	case 503:
		return "Service Unavailable";
	default:
		return "Internal Server Error";
	}
}

/* Sends what the socket takes. Returns 1 when all is sent, 0 to go on later, or a negative errno.
 */
static int send_more(struct http_connection *c)
{
	while (c->sent < c->head_len + c->text_len) {
		bool is_head = c->sent < c->head_len;
		const char *from = is_head ? c->head + c->sent : c->text + (c->sent - c->head_len);
		size_t len =
			is_head ? c->head_len - c->sent : c->text_len - (c->sent - c->head_len);
		ssize_t n = send(c->fd, from, len,
			MSG_NOSIGNAL | MSG_DONTWAIT | (is_head && c->text_len ? MSG_MORE : 0));

		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		c->sent += (size_t)n;
	}
	return 1;
}

/* May free c. */
static void go_on_writing(struct http_connection *c)
{
	int r = send_more(c);

	if (r < 0 || (r == 1 && c->last)) {
		http_connection_free(c);
		return;
	}
	if (r == 0) {
		if (loop_fd_set(c->watch, LOOP_WRITE) < 0)
			http_connection_free(c);
		return;
	}
	free(c->text);
	c->text = NULL;
	c->text_len = c->head_len = c->sent = 0;
	c->writes = false;
	loop_timer_arm(c->limit, c->in_len ? HTTP_HEAD_MS : HTTP_IDLE_MS);
	TAILQ_REMOVE(&c->server->connections, c, link);
	TAILQ_INSERT_TAIL(&c->server->connections, c, link);
	/* Not from here: a reader who sends many calls at once would have the stack grow. */
	if (loop_fd_set(c->watch, c->in_len ? 0 : LOOP_READ) < 0 ||
		(c->in_len && loop_defer(c->server->loop, take_next_call, c) < 0))
		http_connection_free(c);
}

/* May free c. */
static void begin_answer(
	struct http_connection *c, int status, const char *type, char *text, size_t len)
{
	int n = snprintf(c->head, sizeof(c->head),
		"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%s\r\n", status,
		http_reason(status), type, len, status == 405 ? "Allow: GET, HEAD\r\n" : "",
		c->last ? "Connection: close\r\n" : "");

	c->head_len = (size_t)n;
	c->text = text;
	c->text_len = c->head_only ? 0 : len;
	c->sent = 0;
	c->writes = true;
	loop_timer_arm(c->limit, HTTP_ANSWER_MS);
	go_on_writing(c);
}

void http_call_answer(struct http_call *call, int status, const char *type, char *text, size_t len)
{
	struct http_connection *c = call->connection;

	free(call);
	if (!c) {
		free(text);
		return;
	}
	c->call = NULL;
	if (text)
		begin_answer(c, status, type, text, len);
	else
		http_connection_free(c);
}

/* Answers a call that cannot be read; what follows it cannot be either. */
static void refuse_call(struct http_connection *c, int status)
{
	char *text;
	int n = asprintf(&text, "%s\n", http_reason(status));

	c->last = true;
	if (n < 0)
		http_connection_free(c);
	else
		begin_answer(c, status, "text/plain; charset=utf-8", text, (size_t)n);
}

bool http_call_peer(const struct http_call *call, struct ucred *ret)
{
	const struct http_connection *c = call->connection;
	int domain = 0;
	socklen_t len = sizeof(domain);

	if (!c || getsockopt(c->fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain != AF_UNIX)
		return false;
	len = sizeof(*ret);
	return getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, ret, &len) == 0;
}

/* Whether one of the fields of a head says "Connection: close". */
static bool wants_close(const char *fields)
{
	for (const char *line = fields; line; line = strstr(line, "\r\n")) {
		line += strspn(line, "\r\n");
		if (strncasecmp(line, "Connection:", 11) == 0) {
			line += 11 + strspn(line + 11, " \t");
			if (strncasecmp(line, "close", 5) == 0)
				return true;
		}
	}
	return false;
}

/* "GET /path?query HTTP/1.1", and the fields behind it. Returns the status to refuse with, or 0. */
static int read_head(struct http_connection *c, char *head, char **ret_path)
{
	char *fields = strstr(head, "\r\n");
	char *path, *version;

	if (fields)
		*fields = '\0';
	path = strchr(head, ' ');
	version = path ? strchr(path + 1, ' ') : NULL;
	if (!version || path[1] != '/' || strncmp(version + 1, "HTTP/1.", 7) != 0)
		return 400;
	*path++ = '\0';
	*version++ = '\0';
	c->head_only = !strcmp(head, "HEAD");
	if (!c->head_only && strcmp(head, "GET"))
		return 405;
	c->last = !strcmp(version, "HTTP/1.0") || (fields && wants_close(fields + 1));
	path[strcspn(path, "?")] = '\0';
	*ret_path = path;
	return 0;
}

/* Hands on the call that was read, if it is complete. May free c. */
static void take_call(struct http_connection *c)
{
	char head[HTTP_HEAD_MAX + 1];
	char *path = NULL;
	const char *end;
	size_t len;
	int status;

	c->in[c->in_len] = '\0';
	end = memmem(c->in, c->in_len, "\r\n\r\n", 4);
	if (!end) {
		if (c->in_len == HTTP_HEAD_MAX)
			refuse_call(c, 431);
		return;
	}
	len = (size_t)(end - c->in);
	memcpy(head, c->in, len);
	head[len] = '\0';
	c->in_len -= len + 4;
	memmove(c->in, end + 4, c->in_len);
	status = strlen(head) == len ? read_head(c, head, &path) : 400;
	if (status) {
		refuse_call(c, status);
		return;
	}
	c->call = calloc(1, sizeof(*c->call));
	if (!c->call || loop_fd_set(c->watch, 0) < 0) {
		free(c->call);
		c->call = NULL;
		http_connection_free(c);
		return;
	}
	c->call->connection = c;
	loop_timer_disarm(c->limit);
	c->server->fn(c->server->arg, c->call, path);
}

static void take_next_call(void *arg)
{
	struct http_connection *c = arg;

	if (loop_fd_set(c->watch, LOOP_READ) < 0)
		http_connection_free(c);
	else
		take_call(c);
}

static void on_ready(int fd, int events, void *arg)
{
	struct http_connection *c = arg;
	ssize_t n;

	if (c->writes) {
		go_on_writing(c);
		return;
	}
	n = recv(fd, c->in + c->in_len, HTTP_HEAD_MAX - c->in_len, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		http_connection_free(c);
		return;
	}
	if (!c->in_len)
		loop_timer_arm(c->limit, HTTP_HEAD_MS);
	c->in_len += (size_t)n;
	take_call(c);
}

/* Makes room for one more connection: takes that of the reader who has been idle for longest, or
 * else has had an answer to read. */
static bool make_room(struct http_server *s)
{
	struct http_connection *c, *idle = NULL, *slow = NULL;

	if (s->n_connections < HTTP_CONNECTIONS_MAX)
		return true;
	TAILQ_FOREACH (c, &s->connections, link) {
		if (!c->call && !c->writes && !idle)
			idle = c;
		if (c->writes && !slow)
			slow = c;
	}
	if (!idle && !slow)
		return false;
	http_connection_free(idle ? idle : slow);
	return true;
}

static int http_connection_new(struct http_server *s, int fd)
{
	struct http_connection *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		close_fd(fd);
		return -ENOMEM;
	}
	c->server = s;
	c->fd = fd;
	TAILQ_INSERT_TAIL(&s->connections, c, link);
	s->n_connections++;
	r = loop_fd_new(s->loop, fd, LOOP_READ, on_ready, c, &c->watch);
	if (!r)
		r = loop_timer_new(s->loop, on_limit, c, &c->limit);
	if (r < 0) {
		http_connection_free(c);
		return r;
	}
	loop_timer_arm(c->limit, HTTP_HEAD_MS);
	return 0;
}

static void watch_sockets(struct http_server *s, int events)
{
	for (int i = 0; i < s->n_sockets; i++)
		(void)!loop_fd_set(s->accepts[i], events);
}

static void on_rested(void *arg)
{
	watch_sockets(arg, LOOP_READ);
}

/* A connection that cannot be accepted stays, and would be reported again at once. */
static void pause_accepting(struct http_server *s)
{
	watch_sockets(s, 0);
	loop_timer_arm(s->rest, HTTP_REST_MS);
}

static void on_reader(int fd, int events, void *arg)
{
	struct http_server *s = arg;
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (peer < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			pause_accepting(s);
		return;
	}
	if (descriptor_is_reserved(peer) || !make_room(s))
		close_fd(peer);
	else
		(void)!http_connection_new(s, peer);
}

int http_server_listen(struct http_server *s, int fd)
{
	int r;

	if (s->n_sockets == HTTP_SOCKETS_MAX) {
		close_fd(fd);
		return -ENOBUFS;
	}
	r = loop_fd_new(s->loop, fd, LOOP_READ, on_reader, s, &s->accepts[s->n_sockets]);
	if (r < 0) {
		close_fd(fd);
		return r;
	}
	s->sockets[s->n_sockets++] = fd;
	return 0;
}

int http_server_new(struct loop *loop, http_fn fn, void *arg, struct http_server **ret)
{
	_cleanup_(http_server_freep) struct http_server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->fn = fn;
	s->arg = arg;
	TAILQ_INIT(&s->connections);
	r = loop_timer_new(loop, on_rested, s, &s->rest);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

struct http_server *http_server_free(struct http_server *s)
{
	if (!s)
		return NULL;
	while (!TAILQ_EMPTY(&s->connections))
		http_connection_free(TAILQ_FIRST(&s->connections));
	for (int i = 0; i < s->n_sockets; i++) {
		loop_fd_free(s->accepts[i]);
		close_fd(s->sockets[i]);
	}
	loop_timer_free(s->rest);
	free(s);
	return NULL;
}
