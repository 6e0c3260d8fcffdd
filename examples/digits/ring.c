/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/digits/ring.h"

#include "examples/digits/fail.h"
#include "examples/digits/wire.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x52494e47u /* RING */
/* A stranger at the meeting point is not waited for longer than this. */
#define HELLO_TIMEOUT_MS 2000

/* A worker's first message on a connection, all in network byte order. */
struct hello {
	uint32_t magic, rank, world, port;
};

/* Where a worker waits for its predecessor; what rank 0 answers. */
struct place {
	char host[WIRE_HOST];
	char port[8];
};

static struct hello make_hello(const struct ring *r, uint16_t port)
{
	return (struct hello){ htonl(MAGIC), htonl((uint32_t)r->rank), htonl((uint32_t)r->world),
		htonl(port) };
}

/* Reads a hello and checks it. Returns the peer's rank, or -1 for a stranger. */
static int take_hello(const struct ring *r, int fd, int64_t deadline_ms, uint16_t *ret_port)
{
	int64_t limit = wire_now_ms() + HELLO_TIMEOUT_MS;
	struct hello h;

	if (wire_try_recv(fd, &h, sizeof(h), limit < deadline_ms ? limit : deadline_ms) < 0)
		return -1;
	if (ntohl(h.magic) != MAGIC || ntohl(h.rank) >= ntohl(h.world))
		return -1;
	if (ntohl(h.world) != (uint32_t)r->world)
		fail("rank %u counts %u workers, expected %d", ntohl(h.rank), ntohl(h.world),
			r->world);
	*ret_port = (uint16_t)ntohl(h.port);
	return (int)ntohl(h.rank);
}

/* "2, 3" of the ranks that have no connection yet, in a buffer of n bytes. */
static void list_missing(const int *fds, int world, char *buf, size_t n)
{
	size_t used = 0;

	buf[0] = '\0';
	for (int i = 1; i < world && used < n; i++)
		if (fds[i] < 0)
			used += (size_t)snprintf(buf + used, n - used, "%s%d", used ? ", " : "", i);
}

/* Rank 0: collects where every rank waits. fds are the connections to tell them on. */
static void gather(struct ring *r, int listener, struct place *places, int *fds, int64_t deadline)
{
	char missing[128];

	for (int here = 1; here < r->world;) {
		int fd = wire_accept(listener, deadline);
		uint16_t port;
		int rank;

		if (fd < 0) {
			list_missing(fds, r->world, missing, sizeof(missing));
			fail("did not hear from rank %s in time", missing);
		}
		rank = take_hello(r, fd, deadline, &port);
		if (rank <= 0) {
			fprintf(stderr, "digits: rank 0: a stranger came to the meeting point\n");
			close(fd);
			continue;
		}
		if (fds[rank] >= 0)
			fail("two workers say that they are rank %d", rank);
		fds[rank] = fd;
		wire_peer_host(fd, places[rank].host);
		snprintf(places[rank].port, sizeof(places[rank].port), "%u", port);
		here++;
	}
}

/* Rank 0 of the meeting. *ret_next says where rank 1 waits; returns the listener for the ring. */
static int meet_as_host(struct ring *r, const char *addr, const char *port, int64_t deadline,
	struct place *ret_next)
{
	struct place *places = calloc((size_t)r->world, sizeof(*places));
	int *fds = malloc((size_t)r->world * sizeof(*fds));
	int meeting = wire_listen(addr, port);
	int listener = wire_listen_like(meeting);

	if (!places || !fds)
		fail("no memory for %d workers", r->world);
	for (int i = 0; i < r->world; i++)
		fds[i] = -1;
	snprintf(places[0].host, sizeof(places[0].host), "%s", addr);
	snprintf(places[0].port, sizeof(places[0].port), "%u", wire_port(listener));
	gather(r, meeting, places, fds, deadline);
	for (int i = 1; i < r->world; i++) {
		char who[24];

		snprintf(who, sizeof(who), "rank %d", i);
		wire_send(fds[i], &places[(i + 1) % r->world], sizeof(*places), who, deadline);
		close(fds[i]);
	}
	*ret_next = places[1];
	close(meeting);
	free(places);
	free(fds);
	return listener;
}

/* The other ranks of the meeting. */
static int meet_as_guest(struct ring *r, const char *addr, const char *port, int64_t deadline,
	struct place *ret_next)
{
	int fd = wire_connect(addr, port, "rank 0", deadline);
	int listener = wire_listen_like(fd);
	struct hello h = make_hello(r, wire_port(listener));

	wire_send(fd, &h, sizeof(h), "rank 0", deadline);
	wire_recv(fd, ret_next, sizeof(*ret_next), "rank 0", deadline);
	ret_next->host[sizeof(ret_next->host) - 1] = '\0';
	ret_next->port[sizeof(ret_next->port) - 1] = '\0';
	close(fd);
	return listener;
}

static void join(struct ring *r, int listener, const struct place *next, int64_t deadline)
{
	struct hello h = make_hello(r, 0);
	int expected = (r->rank + r->world - 1) % r->world;
	uint16_t port;

	/* The kernel takes connections for a listener that has not called accept() yet, so no two
	 * workers wait here for each other. */
	r->next_fd = wire_connect(next->host, next->port, r->next, deadline);
	wire_send(r->next_fd, &h, sizeof(h), r->next, deadline);
	while (r->prev_fd < 0) {
		r->prev_fd = wire_accept(listener, deadline);
		if (r->prev_fd < 0)
			fail("no word from %s in time", r->prev);
		if (take_hello(r, r->prev_fd, deadline, &port) != expected) {
			close(r->prev_fd);
			r->prev_fd = -1;
		}
	}
}

void ring_open(struct ring *r, int rank, int world, const char *master_addr,
	const char *master_port, int timeout_ms)
{
	int64_t deadline = wire_now_ms() + timeout_ms;
	struct place next;
	int listener;

	*r = (struct ring){
		.rank = rank, .world = world, .timeout_ms = timeout_ms, .next_fd = -1, .prev_fd = -1
	};
	if (world == 1)
		return;
	snprintf(r->next, sizeof(r->next), "rank %d", (rank + 1) % world);
	snprintf(r->prev, sizeof(r->prev), "rank %d", (rank + world - 1) % world);
	if (rank == 0)
		listener = meet_as_host(r, master_addr, master_port, deadline, &next);
	else
		listener = meet_as_guest(r, master_addr, master_port, deadline, &next);
	join(r, listener, &next, deadline);
	close(listener);
}

void ring_close(struct ring *r)
{
	if (r->next_fd >= 0)
		close(r->next_fd);
	if (r->prev_fd >= 0)
		close(r->prev_fd);
	free(r->spare);
	*r = (struct ring){ .next_fd = -1, .prev_fd = -1 };
}

/* The array falls into one chunk per rank; this is where chunk c begins. */
static size_t chunk_start(const struct ring *r, size_t n, int c)
{
	return n * (size_t)c / (size_t)r->world;
}

/* Sends chunk out and receives chunk in, which is added to v or replaces it. */
static void turn(struct ring *r, float *v, size_t n, int out, int in, bool add)
{
	size_t o = chunk_start(r, n, out), o_n = chunk_start(r, n, out + 1) - o;
	size_t i = chunk_start(r, n, in), i_n = chunk_start(r, n, in + 1) - i;

	wire_exchange(r->next_fd, v + o, o_n * sizeof(*v), r->next, r->prev_fd,
		add ? r->spare : v + i, i_n * sizeof(*v), r->prev, r->timeout_ms);
	if (add)
		for (size_t k = 0; k < i_n; k++)
			v[i + k] += r->spare[k];
}

void ring_sum(struct ring *r, float *v, size_t n)
{
	int w = r->world, me = r->rank;

	if (w == 1)
		return;
	if (r->spare_n < n / (size_t)w + 1) {
		r->spare_n = n / (size_t)w + 1;
		free(r->spare);
		r->spare = malloc(r->spare_n * sizeof(*r->spare));
		if (!r->spare)
			fail("no memory for the ring");
	}
	/* After w-1 turns each rank holds the whole sum of one chunk ... */
	for (int k = 0; k < w - 1; k++)
		turn(r, v, n, (me - k + w) % w, (me - k - 1 + w) % w, true);
	/* ... and after as many more all ranks have copies of all of them. */
	for (int k = 0; k < w - 1; k++)
		turn(r, v, n, (me - k + 1 + w) % w, (me - k + w) % w, false);
}
