/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/ready/port.h"

#include "common/base/safe_open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_FIRST_MS = 10, PORT_LAST_MS = 1000 };

struct ready_port {
	struct loop *loop;
	int port, fd;
	struct ready_port_sockets before;
	struct loop_fd *watch;
	struct loop_timer *timer;
	uint64_t pause_ms;
	loop_fn fn;
	void *arg;
};

/* Reads a line of proc_net_tcp(5), which writes addresses as 32-bit numbers in host order. Returns
 * false where this socket does not listen: no later one does. */
static bool port_read_line(const char *line, int port, struct ready_port_sockets *s)
{
	static const char *const reached[] = { "00000000", "0100007F", "7F000001",
		"00000000000000000000000000000000", "0000000000000000FFFF00000100007F",
		"00000000000000000000FFFF7F000001" };
	unsigned local, state;
	uint64_t inode;
	char address[33];

	if (sscanf(line, "%*u: %32[0-9A-F]:%x %*[0-9A-F:] %x %*s %*s %*s %*u %*u %" SCNu64, address,
		    &local, &state, &inode) != 4)
		return true; /* the head of the table */
	if (state != TCP_LISTEN || local != (unsigned)port)
		return state == TCP_LISTEN;
	for (size_t i = 0; i < sizeof(reached) / sizeof(*reached); i++)
		if (!strcmp(address, reached[i])) {
			if (s->n < READY_PORT_SOCKETS)
				s->inodes[s->n] = inode;
			s->n++;
		}
	return true;
}

void ready_port_find_sockets(int port, struct ready_port_sockets *ret)
{
	static const char *const tables[] = { "tcp", "tcp6" };
	char path[64];

	*ret = (struct ready_port_sockets){ 0 };
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		_cleanup_close_ int fd = -1;
		_cleanup_file_ FILE *f = NULL;
		_cleanup_free_ char *line = NULL;
		size_t size = 0;

		snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)getpid(), tables[i]);
		fd = safe_open(AT_FDCWD, path, O_RDONLY, 0);
		f = fd < 0 ? NULL : fdopen(fd, "r");
		if (f)
			TAKE_FD(fd);
		while (f && getline(&line, &size, f) > 0 && port_read_line(line, port, ret))
			;
	}
}

/* Whether all sockets that listen did so before. With more than READY_PORT_SOCKETS it cannot know.
 */
static bool port_is_taken(const struct ready_port *p)
{
	struct ready_port_sockets now;

	if (!p->before.n || p->before.n > READY_PORT_SOCKETS)
		return false;
	ready_port_find_sockets(p->port, &now);
	if (now.n > READY_PORT_SOCKETS)
		return false;
	for (size_t i = 0; i < now.n; i++) {
		size_t k = 0;

		while (k < p->before.n && p->before.inodes[k] != now.inodes[i])
			k++;
		if (k == p->before.n)
			return false;
	}
	return true;
}

static void port_close(struct ready_port *p)
{
	p->watch = loop_fd_free(p->watch);
	p->fd = close_fd(p->fd);
}

static void port_retry(struct ready_port *p)
{
	port_close(p);
	loop_timer_arm(p->timer, p->pause_ms);
	p->pause_ms = p->pause_ms * 2 < PORT_LAST_MS ? p->pause_ms * 2 : PORT_LAST_MS;
}

/* The kernel may give this port to the connecting socket, which then connects to itself. */
static bool port_is_own(int fd, int port)
{
	struct sockaddr_in own = { 0 };
	socklen_t len = sizeof(own);

	return getsockname(fd, (struct sockaddr *)&own, &len) < 0 || ntohs(own.sin_port) == port;
}

static void port_on_fd(int fd, int events, void *arg)
{
	struct ready_port *p = arg;
	int fault = 0;
	socklen_t len = sizeof(fault);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &len) < 0 || fault ||
		port_is_own(fd, p->port)) {
		port_retry(p);
		return;
	}
	port_close(p);
	p->fn(p->arg);
}

static void port_try(void *arg)
{
	struct ready_port *p = arg;
	const struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)p->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	if (port_is_taken(p)) {
		port_retry(p);
		return;
	}
	p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The loop also reports a connection that was made at once. */
	if (p->fd < 0 ||
		(connect(p->fd, (const struct sockaddr *)&to, sizeof(to)) < 0 &&
			errno != EINPROGRESS) ||
		loop_fd_new(p->loop, p->fd, LOOP_WRITE, port_on_fd, p, &p->watch) < 0)
		port_retry(p);
}

int ready_port_new(struct loop *loop, int port, const struct ready_port_sockets *before, loop_fn fn,
	void *arg, struct ready_port **ret)
{
	struct ready_port *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct ready_port){ .loop = loop,
		.port = port,
		.fd = -1,
		.before = *before,
		.pause_ms = PORT_FIRST_MS,
		.fn = fn,
		.arg = arg };
	if (loop_timer_new(loop, port_try, p, &p->timer) < 0) {
		ready_port_free(p);
		return -ENOMEM;
	}
	loop_timer_arm(p->timer, 0);
	*ret = p;
	return 0;
}

struct ready_port *ready_port_free(struct ready_port *p)
{
	if (!p)
		return NULL;
	port_close(p);
	loop_timer_free(p->timer);
	free(p);
	return NULL;
}
