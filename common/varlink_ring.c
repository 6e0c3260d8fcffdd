/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings of connections: see ring.h for what goes through them.
 *
 * Rings that were used lately are "hot". While the server is awake it looks at all of them, and the
 * loop does not wait; when nothing has come for a while, they are put to sleep together, and a bell
 * over any socket wakes them together. A ring that is not hot sleeps. So each ring that nobody
 * looks at has a client that knows it, but for those whose connection may take no calls now: these
 * are marked, and looked at when it may.
 */
#include "common/log.h"
#include "common/spin.h"
#include "common/varlink_private.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

enum {
	UNUSED_LOOKS = 1000,  /* that a ring stays hot for */
	TURN_NS = 100 * 1000, /* after which descriptors have their turn, too */
	SPIN_NS = 30 * 1000,  /* as long as sleeping and being woken costs both ends */
	SPIN_MIN_NS = 1000,
	SPIN_LOOKS = 16, /* between two looks at descriptors */
};

/* --- awake and asleep */

/* The server needs a processor, too. */
static void crowd(struct varlink_server *s)
{
	struct varlink_rings *all = &s->rings;
	bool crowded = all->n_hot >= all->cpus;
	struct varlink_connection *c;

	if (crowded == all->crowded)
		return;
	all->crowded = crowded;
	TAILQ_FOREACH (c, &all->hot, ring->entry)
		ring_crowd(&c->ring->ring, crowded);
}

static void cool(struct varlink_connection *c)
{
	struct varlink_rings *all = &c->server->rings;

	if (!c->ring->hot)
		return;
	if (all->next == c)
		all->next = TAILQ_NEXT(c, ring->entry);
	TAILQ_REMOVE(&all->hot, c, ring->entry);
	c->ring->hot = false;
	all->n_hot--;
	crowd(c->server);
}

static void wake(struct varlink_server *s)
{
	struct varlink_rings *all = &s->rings;
	struct varlink_connection *c;

	if (all->awake)
		return;
	all->awake = true;
	all->used_ns = now_ns();
	if (all->used_ns - all->slept_ns < SPIN_NS)
		all->spin_ns = SPIN_NS;
	TAILQ_FOREACH (c, &all->hot, ring->entry)
		ring_wake(&c->ring->ring);
	loop_again_arm(all->again);
}

static void warm(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;

	c->ring->unused = 0;
	if (!c->ring->hot) {
		c->ring->hot = true;
		TAILQ_INSERT_TAIL(&s->rings.hot, c, ring->entry);
		s->rings.n_hot++;
		crowd(s);
		ring_crowd(&c->ring->ring, s->rings.crowded);
		ring_wake(&c->ring->ring);
	}
	wake(s);
}

static bool is_read(struct varlink_connection *c)
{
	if (!c->eof && varlink_connection_takes_calls(c))
		return true;
	c->ring->unread = true;
	cool(c);
	return false;
}

/* Whether there was something. May free the connection. */
static bool look_at(struct varlink_connection *c)
{
	if (!is_read(c))
		return false;
	if (!varlink_ring_ready(c)) {
		if (++c->ring->unused > UNUSED_LOOKS && ring_sleep(&c->ring->ring))
			cool(c);
		return false;
	}
	c->busy = true;
	varlink_ring_take(c);
	varlink_connection_run(c);
	return true;
}

static bool look_at_all(struct varlink_server *s)
{
	struct varlink_rings *all = &s->rings;
	struct varlink_connection *c;
	bool found = false;

	for (c = TAILQ_FIRST(&all->hot); c; c = all->next) {
		all->next = TAILQ_NEXT(c, ring->entry);
		found |= look_at(c);
	}
	return found;
}

static void spin(struct varlink_server *s)
{
	struct varlink_connection *c;

	for (int i = 0; i < SPIN_LOOKS; i++) {
		TAILQ_FOREACH (c, &s->rings.hot, ring->entry)
			if (varlink_ring_ready(c))
				return;
		pause_cpu();
	}
}

/* All of them, or none: something has come. */
static bool sleep_all(struct varlink_server *s)
{
	struct varlink_rings *all = &s->rings;
	struct varlink_connection *c;

	for (c = TAILQ_FIRST(&all->hot); c; c = all->next) {
		all->next = TAILQ_NEXT(c, ring->entry);
		if (is_read(c) && !ring_sleep(&c->ring->ring))
			break;
	}
	if (!c)
		return true;
	TAILQ_FOREACH (c, &all->hot, ring->entry)
		ring_wake(&c->ring->ring);
	return false;
}

/* What it finds is answered before it looks again. */
static void look(void *arg)
{
	struct varlink_server *s = arg;
	struct varlink_rings *all = &s->rings;
	bool found = look_at_all(s);
	int64_t now = now_ns();

	if (found) {
		if (all->spun)
			all->spin_ns = SPIN_NS;
		all->spun = false;
		all->used_ns = now;
		if (now - all->turn_ns > TURN_NS || loop_defer(s->loop, look, s) < 0)
			loop_again_arm(all->again);
	} else if (!all->crowded && now - all->used_ns < all->spin_ns) {
		all->spun = true;
		spin(s);
		loop_again_arm(all->again);
	} else if (!sleep_all(s)) {
		loop_again_arm(all->again);
	} else {
		if (all->spun)
			all->spin_ns = all->spin_ns < 2 * SPIN_MIN_NS ? 0 : all->spin_ns / 2;
		all->awake = all->spun = false;
		all->slept_ns = now;
	}
}

static void look_again(void *arg)
{
	struct varlink_server *s = arg;

	s->rings.turn_ns = now_ns();
	look(s);
}

static int rings_use(struct varlink_server *s)
{
	cpu_set_t cpus;

	if (s->rings.again)
		return 0;
	s->rings.cpus = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
	s->rings.crowded = s->rings.cpus == 1;
	return loop_again_new(s->loop, look_again, s, &s->rings.again);
}

void varlink_rings_init(struct varlink_server *s)
{
	TAILQ_INIT(&s->rings.hot);
}

void varlink_rings_fini(struct varlink_server *s)
{
	loop_cancel(s->loop, look, s);
	s->rings.again = loop_again_free(s->rings.again);
}

/* --- bytes in */

bool varlink_ring_ready(const struct varlink_connection *c)
{
	return ring_ready(&c->ring->ring) != 0;
}

bool varlink_ring_take(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;
	struct varlink_ring *g = c->ring;
	size_t most = VARLINK_RECEIVE_BYTES;
	int n;

	if (!varlink_connection_takes_calls(c)) {
		g->unread = true;
		return varlink_ring_ready(c);
	}
	if (g->owed && g->owed < most)
		most = g->owed;
	n = ring_read(&g->ring, s->received, most);
	if (n < 0)
		varlink_connection_doom(c, "its ring is spoilt");
	if (n <= 0)
		return false;
	if (g->owed)
		g->owed -= n;
	else
		g->answers = true;
	g->partial = true;
	warm(c);
	if (varlink_frame_feed(&c->in, s->received, n) < 0)
		varlink_connection_doom(c, "out of memory");
	return true;
}

size_t varlink_ring_bells(struct varlink_connection *c, const char *data, size_t len)
{
	struct varlink_ring *g = c->ring;
	bool in_call = c->in.begin < c->in.end && !g->partial;
	size_t n = 0;

	while (!in_call && n < len && !data[n])
		n++;
	if (n < len)
		g->answers = g->partial = false;
	if (n)
		warm(c);
	return n;
}

void varlink_ring_resume(struct varlink_connection *c)
{
	if (!c->ring->unread || c->eof || !varlink_connection_takes_calls(c))
		return;
	c->ring->unread = false;
	warm(c);
}

/* --- bytes out */

static void close_fds(struct varlink_ring *g)
{
	for (size_t i = 0; i < 2; i++)
		g->fds[i] = close_fd(g->fds[i]);
}

/* The first bytes, with the descriptors. 0: they are gone. */
static int send_fds(struct varlink_connection *c)
{
	struct varlink_ring *g = c->ring;
	struct varlink_buffer *b = &c->out;
	size_t size = g->fds[1] < 0 ? sizeof(int) : 2 * sizeof(int);
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = b->data + b->begin, .iov_len = b->end - b->begin };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(size) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	ssize_t n;

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(h), g->fds, size);
	do
		n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 1;
	if (n < 0) {
		int r = -errno;

		/* Who is there all the same would wait for an answer that does not come. */
		if (r != -EPIPE && r != -ECONNRESET)
			varlink_connection_doom(c, "no ring for it: %s", strerror(-r));
		return r;
	}
	b->begin += n;
	close_fds(g);
	return 0;
}

static void tell(struct varlink_connection *c)
{
	/* Where the socket takes no more the client has something to be woken by. */
	if (ring_tell(&c->ring->ring) && send(c->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("varlink: no bell for pid %d: %s", c->peer.pid, strerror(errno));
}

/* The rest of what was asked is answered over the socket, and what is sent there now is a bell. */
static void spill(struct varlink_ring *g, int ready)
{
	g->answers = false;
	g->owed = ready;
	ring_spill(&g->ring);
	ring_tell(&g->ring);
}

int varlink_ring_send(struct varlink_connection *c)
{
	struct varlink_ring *g = c->ring;
	int ready, r = 0;

	if (g->fds[0] >= 0)
		r = send_fds(c);
	if (r != 0)
		return r;
	if (!g->answers)
		return varlink_buffer_send(&c->out, c->fd);
	ready = ring_ready(&g->ring);
	r = ready < 0
		    ? ready
		    : ring_write(&g->ring, c->out.data + c->out.begin, varlink_buffer_len(&c->out));
	if (r == -EAGAIN) {
		spill(g, ready);
		return varlink_buffer_send(&c->out, c->fd);
	}
	if (r < 0) {
		varlink_connection_doom(c, "its ring is spoilt");
		return r;
	}
	varlink_buffer_fini(&c->out);
	tell(c);
	return 0;
}

/* --- its life */

static int ring_begin(struct varlink_connection *c, int also_fd)
{
	struct varlink_ring *g = calloc(1, sizeof(*g));
	int r = g ? rings_use(c->server) : -ENOMEM;

	if (r < 0) {
		free(g);
		return r;
	}
	g->fds[0] = g->fds[1] = -1;
	c->ring = g;
	r = ring_new(&g->ring, &g->fds[0]);
	if (r == 0 && also_fd >= 0) {
		g->fds[1] = fcntl(also_fd, F_DUPFD_CLOEXEC, 3);
		r = g->fds[1] < 0 ? -errno : 0;
	}
	if (r < 0)
		varlink_ring_free(c);
	return r;
}

void varlink_ring_free(struct varlink_connection *c)
{
	struct varlink_ring *g = c->ring;

	if (!g)
		return;
	cool(c);
	if (g->ring.memory) {
		ring_close(&g->ring);
		ring_tell(&g->ring);
	}
	ring_fini(&g->ring);
	close_fds(g);
	free(g);
	c->ring = NULL;
}

int varlink_reply_ring(struct varlink_call *call, json_t *parameters, int also_fd)
{
	struct varlink_connection *c = call->connection;
	int r;

	if (call->oneway)
		return varlink_reply(call, parameters);
	if (!c->ring && c->n_calls == 1)
		varlink_connection_send(c);
	if (c->ring)
		r = -EALREADY;
	else if (c->n_calls > 1 || varlink_connection_queued(c))
		r = -EBUSY;
	else
		r = ring_begin(c, also_fd);
	if (r < 0) {
		json_decref(parameters);
		return r;
	}
	r = varlink_reply(call, parameters);
	if (r == 0)
		return 0;
	varlink_ring_free(c);
	return -ECONNRESET;
}
