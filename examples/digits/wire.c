/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/digits/wire.h"

#include "examples/digits/fail.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RETRY_MS 10

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage room;
};

int64_t wire_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int open_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		fail("cannot make a socket: %s", strerror(errno));
	return fd;
}

/* Small messages must not wait for each other: every step of the ring waits for the last one. */
static void set_nodelay(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
}

static socklen_t resolve(const char *host, const char *port, int flags, union address *ret)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags }, *found;
	int r = getaddrinfo(host, port, &hints, &found);
	socklen_t len;

	if (r != 0)
		fail("cannot resolve %s port %s: %s", host, port, gai_strerror(r));
	len = found->ai_addrlen;
	memcpy(ret, found->ai_addr, len);
	freeaddrinfo(found);
	return len;
}

static int listen_at(const union address *a, socklen_t len, const char *host, const char *port)
{
	int fd = open_socket(a->any.sa_family);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (bind(fd, &a->any, len) < 0 || listen(fd, SOMAXCONN) < 0)
		fail("cannot listen on %s port %s: %s", host, port, strerror(errno));
	return fd;
}

int wire_listen(const char *host, const char *port)
{
	union address a = { 0 };
	socklen_t len = resolve(host, port, AI_PASSIVE, &a);

	return listen_at(&a, len, host, port);
}

int wire_listen_like(int like)
{
	union address a = { 0 };
	socklen_t len = sizeof(a);

	if (getsockname(like, &a.any, &len) < 0)
		fail("cannot tell this end's address: %s", strerror(errno));
	if (a.any.sa_family == AF_INET6)
		a.v6.sin6_port = 0;
	else
		a.v4.sin_port = 0;
	return listen_at(&a, len, "this end's address", "0");
}

uint16_t wire_port(int fd)
{
	union address a = { 0 };
	socklen_t len = sizeof(a);

	if (getsockname(fd, &a.any, &len) < 0)
		fail("cannot tell this end's port: %s", strerror(errno));
	return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

void wire_peer_host(int fd, char host[WIRE_HOST])
{
	union address a = { 0 };
	socklen_t len = sizeof(a);

	if (getpeername(fd, &a.any, &len) < 0 ||
		getnameinfo(&a.any, len, host, WIRE_HOST, NULL, 0, NI_NUMERICHOST) != 0)
		fail("cannot tell a peer's address");
}

/* Waits for events on one descriptor. Returns false when the deadline came first. */
static bool wait_for(int fd, short events, int64_t deadline_ms)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int64_t left = deadline_ms - wire_now_ms();
		int r = poll(&p, 1, left > 0 ? (int)left : 0);

		if (r > 0)
			return true;
		if (r < 0 && errno != EINTR)
			fail("cannot wait for a socket: %s", strerror(errno));
		if (r == 0 && left <= 0)
			return false;
	}
}

/* A port without a listener may be the one that the kernel gives to this very connection, which
 * then reaches itself. Such a connection is no peer's. */
static bool reached_itself(int fd)
{
	union address here, there;
	socklen_t n = sizeof(here), m = sizeof(there);

	memset(&here, 0, sizeof(here));
	memset(&there, 0, sizeof(there));
	if (getsockname(fd, &here.any, &n) < 0 || getpeername(fd, &there.any, &m) < 0)
		return false;
	return n == m && memcmp(&here, &there, n) == 0;
}

/* One try. Returns a connected descriptor, or a negative errno. */
static int connect_once(const union address *a, socklen_t len, int64_t deadline_ms)
{
	int fd = open_socket(a->any.sa_family);
	int error = 0;

	if (connect(fd, &a->any, len) < 0)
		error = errno;
	if (error == EINPROGRESS) {
		if (!wait_for(fd, POLLOUT, deadline_ms))
			error = ETIMEDOUT;
		else
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){ sizeof(error) });
	}
	if (error == 0 && reached_itself(fd))
		error = ECONNREFUSED;
	if (error == 0) {
		set_nodelay(fd);
		return fd;
	}
	close(fd);
	return -error;
}

int wire_connect(const char *host, const char *port, const char *who, int64_t deadline_ms)
{
	union address a = { 0 };
	socklen_t len = resolve(host, port, 0, &a);

	for (;;) {
		int fd = connect_once(&a, len, deadline_ms);

		if (fd >= 0)
			return fd;
		/* It may not have come to listen yet. */
		if ((fd != -ECONNREFUSED && fd != -ECONNRESET && fd != -EINTR) ||
			wire_now_ms() >= deadline_ms)
			fail("cannot reach %s at %s port %s: %s", who, host, port, strerror(-fd));
		nanosleep(&(struct timespec){ .tv_nsec = RETRY_MS * 1000000 }, NULL);
	}
}

int wire_accept(int fd, int64_t deadline_ms)
{
	while (wait_for(fd, POLLIN, deadline_ms)) {
		int got = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (got >= 0) {
			set_nodelay(got);
			return got;
		}
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			fail("cannot accept a connection: %s", strerror(errno));
	}
	return -1;
}

/* Moves what it can without waiting. Returns the bytes moved, 0 for none now, or negative errno. */
static ssize_t send_some(int fd, const char *p, size_t n)
{
	ssize_t r = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

	return r >= 0 ? r : errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static ssize_t recv_some(int fd, char *p, size_t n)
{
	ssize_t r = recv(fd, p, n, MSG_DONTWAIT);

	if (r == 0)
		return -ECONNRESET;
	return r > 0 ? r : errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

_Noreturn static void fail_lost(const char *who, int error)
{
	if (error == -ETIMEDOUT)
		fail("no word from %s in time", who);
	if (error == -ECONNRESET || error == -EPIPE)
		fail("lost %s: it closed the connection", who);
	fail("lost %s: %s", who, strerror(-error));
}

void wire_send(int fd, const void *p, size_t n, const char *who, int64_t deadline_ms)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = wait_for(fd, POLLOUT, deadline_ms)
				    ? send_some(fd, (const char *)p + done, n - done)
				    : -ETIMEDOUT;

		if (r < 0)
			fail_lost(who, (int)r);
		done += (size_t)r;
	}
}

int wire_try_recv(int fd, void *p, size_t n, int64_t deadline_ms)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = wait_for(fd, POLLIN, deadline_ms)
				    ? recv_some(fd, (char *)p + done, n - done)
				    : -ETIMEDOUT;

		if (r < 0)
			return (int)r;
		done += (size_t)r;
	}
	return 0;
}

void wire_recv(int fd, void *p, size_t n, const char *who, int64_t deadline_ms)
{
	int r = wire_try_recv(fd, p, n, deadline_ms);

	if (r < 0)
		fail_lost(who, r);
}

void wire_exchange(int to_fd, const void *out, size_t n_out, const char *to, int from_fd, void *in,
	size_t n_in, const char *from, int timeout_ms)
{
	const char *o = out;
	char *i = in;

	for (;;) {
		ssize_t sent = n_out ? send_some(to_fd, o, n_out) : 0;
		ssize_t got = n_in ? recv_some(from_fd, i, n_in) : 0;

		if (sent < 0)
			fail_lost(to, (int)sent);
		if (got < 0)
			fail_lost(from, (int)got);
		o += sent;
		n_out -= (size_t)sent;
		i += got;
		n_in -= (size_t)got;
		if (n_out == 0 && n_in == 0)
			return;
		/* A negative descriptor is not looked at. */
		struct pollfd p[2] = {
			{ .fd = n_out ? to_fd : -1, .events = POLLOUT },
			{ .fd = n_in ? from_fd : -1, .events = POLLIN },
		};
		int r = poll(p, 2, timeout_ms);

		if (r == 0)
			fail_lost(n_in ? from : to, -ETIMEDOUT);
		if (r < 0 && errno != EINTR)
			fail("cannot wait for the ring: %s", strerror(errno));
	}
}
