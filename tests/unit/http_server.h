/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An HTTP server in the test's own loop: answers each request by a function of the test. */

#include "common/loop/loop.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SERVER_PEERS = 64, SERVER_BYTES = 4096 };

struct server_peer {
	int fd;
	struct loop_fd *watch;
	char text[SERVER_BYTES];
	size_t len;
	const char *out; /* what is still to be sent */
};

/* The bytes to be sent for request, NULL: none, "": the connection is closed. Borrowed. */
typedef const char *(*server_fn)(const char *request);

static struct server {
	struct loop *loop;
	int fd, port, requests;
	struct loop_fd *watch;
	server_fn answer;
	struct server_peer peers[SERVER_PEERS];
	int n_peers;
} server;

static inline void server_close(struct server_peer *p)
{
	p->watch = loop_fd_free(p->watch);
	p->fd = close_fd(p->fd);
}

/* A socket may take only a part of a large answer at once. */
static inline void server_send(struct server_peer *p)
{
	ssize_t n = send(p->fd, p->out, strlen(p->out), MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n > 0)
		p->out += n;
	ck_assert_int_eq(loop_fd_set(p->watch, LOOP_READ | (*p->out ? LOOP_WRITE : 0)), 0);
}

static inline void server_on_peer(int fd, int events, void *arg)
{
	struct server_peer *p = arg;
	ssize_t n;
	const char *answer;

	if (events & LOOP_WRITE)
		server_send(p);
	if (!(events & LOOP_READ))
		return;
	n = recv(fd, p->text + p->len, sizeof(p->text) - 1 - p->len, MSG_DONTWAIT);
	if (n <= 0) {
		server_close(p);
		return;
	}
	p->len += (size_t)n;
	p->text[p->len] = '\0';
	if (!strstr(p->text, "\r\n\r\n"))
		return;
	server.requests++;
	answer = server.answer(p->text);
	p->len = 0;
	if (!answer)
		return;
	p->out = answer;
	if (*answer)
		server_send(p);
	else
		server_close(p);
}

static inline void server_on_listen(int fd, int events, void *arg)
{
	struct server_peer *p = &server.peers[server.n_peers++];

	ck_assert_int_le(server.n_peers, SERVER_PEERS);
	*p = (struct server_peer){ .fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) };
	ck_assert_int_ge(p->fd, 0);
	ck_assert_int_eq(
		loop_fd_new(server.loop, p->fd, LOOP_READ, server_on_peer, p, &p->watch), 0);
}

/* A socket at a port of its own, where no other process can listen while it is open. */
static inline int server_bind(int *ret_port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static inline void server_start(struct loop *loop, server_fn answer)
{
	server = (struct server){ .loop = loop, .answer = answer };
	server.fd = server_bind(&server.port);
	ck_assert_int_eq(listen(server.fd, 16), 0);
	ck_assert_int_eq(
		loop_fd_new(loop, server.fd, LOOP_READ, server_on_listen, NULL, &server.watch), 0);
}

static inline void server_stop(void)
{
	for (int i = 0; i < server.n_peers; i++)
		server_close(&server.peers[i]);
	server.watch = loop_fd_free(server.watch);
	server.fd = close_fd(server.fd);
}
