/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Servers in the test's own loop, in place of etcds: each answers as the test says. */

#include "common/loop/loop.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STUBS = 3, STUB_PEERS = 64, STUB_REQUEST_MAX = 1 << 22 };

struct stub_peer {
	int fd;
	struct loop_fd *watch;
	char *in;
	size_t len, room;
	char *out; /* what is still to be sent, from out_at on */
	size_t out_len, out_at;
	bool last; /* closed when it is sent */
};

/* How a server answers: bytes to be sent (owned by the test), NULL: none, "": the connection is
 * closed. An answer that begins with CUT is closed behind its end. */
#define CUT "\1"
typedef const char *(*stub_fn)(int stub, const char *path, const char *request, const char *body);

static struct stub {
	struct loop *loop;
	int fd, port, requests, connections;
	struct loop_fd *watch;
	struct stub_peer *peers[STUB_PEERS];
	int n_peers;
} stubs[STUBS];
static stub_fn stub_answer;
static void (*stub_work)(bool begins); /* NULL, or: a server has something to do, and has done it */
static char stub_paths[256][32];       /* of all requests */
static int n_stub_paths;

static inline void stub_peer_close(struct stub_peer *p)
{
	p->watch = loop_fd_free(p->watch);
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

static inline void stub_peer_send(struct stub_peer *p)
{
	ssize_t n = send(
		p->fd, p->out + p->out_at, p->out_len - p->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n > 0)
		p->out_at += (size_t)n;
	if (p->out_at == p->out_len && p->last)
		stub_peer_close(p);
	else
		ck_assert_int_eq(loop_fd_set(p->watch,
					 LOOP_READ | (p->out_at < p->out_len ? LOOP_WRITE : 0)),
			0);
}

static inline void stub_peer_put(struct stub_peer *p, const char *text)
{
	size_t len;

	p->last = *text == *CUT;
	text += p->last;
	len = strlen(text);
	p->out = realloc(p->out, p->out_len + len + 1);
	ck_assert_ptr_nonnull(p->out);
	memcpy(p->out + p->out_len, text, len);
	p->out_len += len;
	stub_peer_send(p);
}

/* The body of a whole request, or NULL. */
static inline const char *stub_body(const struct stub_peer *p)
{
	const char *body = strstr(p->in, "\r\n\r\n"), *length = strstr(p->in, "Content-Length: ");
	size_t n = length && length < body ? strtoul(length + 16, NULL, 10) : 0;

	if (!body || p->len - (size_t)(body + 4 - p->in) < n)
		return NULL;
	return body + 4;
}

static inline void stub_serve(int fd, int events, void *arg)
{
	struct stub_peer *p = arg;
	struct stub *s = NULL;
	const char *body, *answer;
	char *path;
	ssize_t n;

	for (int i = 0; i < STUBS; i++)
		for (int j = 0; j < stubs[i].n_peers; j++)
			if (stubs[i].peers[j] == p)
				s = &stubs[i];
	if (events & LOOP_WRITE)
		stub_peer_send(p);
	if (!(events & LOOP_READ) || p->fd < 0)
		return;
	if (p->room - p->len < 65536) {
		p->room = p->room * 2 + 65536;
		p->in = realloc(p->in, p->room);
		ck_assert_ptr_nonnull(p->in);
	}
	n = recv(fd, p->in + p->len, p->room - p->len - 1, MSG_DONTWAIT);
	if (n <= 0) {
		stub_peer_close(p);
		return;
	}
	p->len += (size_t)n;
	p->in[p->len] = '\0';
	body = stub_body(p);
	if (!body)
		return;
	s->requests++;
	path = stub_paths[n_stub_paths++ % 256];
	ck_assert_int_eq(sscanf(p->in, "%*s %31s", path), 1);
	answer = stub_answer((int)(s - stubs), path, p->in, body);
	p->len = 0;
	if (answer && *answer)
		stub_peer_put(p, answer);
	else if (answer)
		stub_peer_close(p);
}

static inline void stub_on_peer(int fd, int events, void *arg)
{
	if (stub_work)
		stub_work(true);
	stub_serve(fd, events, arg);
	if (stub_work)
		stub_work(false);
}

static inline void stub_on_listen(int fd, int events, void *arg)
{
	struct stub *s = arg;
	struct stub_peer *p;

	if (stub_work)
		stub_work(true);
	p = calloc(1, sizeof(*p));
	ck_assert_int_lt(s->n_peers, STUB_PEERS);
	s->peers[s->n_peers++] = p;
	s->connections++;
	p->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	ck_assert_int_ge(p->fd, 0);
	ck_assert_int_eq(loop_fd_new(s->loop, p->fd, LOOP_READ, stub_on_peer, p, &p->watch), 0);
	if (stub_work)
		stub_work(false);
}

/* A port of its own where no process listens yet. */
static inline void stub_bind(struct stub *s, struct loop *l)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	*s = (struct stub){ .loop = l };
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(s->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(getsockname(s->fd, (struct sockaddr *)&a, &len), 0);
	s->port = ntohs(a.sin_port);
}

static inline void stub_listen(struct stub *s)
{
	ck_assert_int_eq(listen(s->fd, 64), 0);
	ck_assert_int_eq(loop_fd_new(s->loop, s->fd, LOOP_READ, stub_on_listen, s, &s->watch), 0);
}

/* The newest connection, for what comes without being asked for. */
static inline void stub_push(struct stub *s, const char *text)
{
	ck_assert_int_gt(s->n_peers, 0);
	stub_peer_put(s->peers[s->n_peers - 1], text);
}

static inline void stub_end(struct stub *s)
{
	for (int i = 0; i < s->n_peers; i++) {
		stub_peer_close(s->peers[i]);
		free(s->peers[i]->in);
		free(s->peers[i]->out);
		free(s->peers[i]);
	}
	s->n_peers = 0;
	s->watch = loop_fd_free(s->watch);
	if (s->fd > 0)
		close(s->fd);
	s->fd = -1;
}

/* An answer with that status and body; good until the fourth next one. */
static inline const char *http(int status, const char *body)
{
	static char *texts[4];
	static int n;
	char **to = &texts[n++ % 4];

	free(*to);
	*to = NULL;
	ck_assert_int_gt(asprintf(to,
				 "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n"
				 "Content-Length: %zu\r\n\r\n%s",
				 status, strlen(body), body),
		0);
	return *to;
}

/* A part of an answer that goes on. */
static inline const char *chunk(const char *text)
{
	static char out[8192];

	snprintf(out, sizeof(out), "%zx\r\n%s\r\n", strlen(text), text);
	return out;
}
#define STREAM "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
