/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for an answer: first it looks a few times, where that has paid lately, then it sleeps on
 * the ring for moments (the agent wakes it without a message on the socket), and then on the
 * socket, where it sees all that it would see without a ring: that the agent is gone, that the
 * handle is closed, that a queue's keeper has ended.
 */
#include "worker/pool.h"

#include "common/json.h"
#include "common/spin.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

enum {
	MOMENT_MS = 10,	     /* so long nothing is heard of the socket */
	SPIN_NS = 30 * 1000, /* as long as sleeping and being woken costs both ends */
	SPIN_LEAST_NS = 1000,
	SPIN_LOOKS = 16,  /* between two looks at the clock */
	SPIN_AGAIN = 256, /* waits after which it is tried again */
	FDS_MOST = 8,	  /* that can come at once */
	PIECE_BYTES = 4096,
};

static void fds_close(struct share *s)
{
	while (s->n_fds)
		close_fd(s->fds[--s->n_fds]);
}

void share_fini(struct share *s, bool ours)
{
	/* In a child there may be something else by now where it was. */
	if (ours)
		ring_fini(&s->ring);
	fds_close(s);
}

/* --- asking for it */

static bool one_cpu(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;
}

/* Nothing else is under way on a connection that a call begins on. */
static bool is_time(struct conn *c)
{
	struct share *s = &c->share;

	if (s->state != SHARE_NOT_YET || !c->greeted || !atomic_load(&c->pool->shares))
		return false;
	return ++s->calls > SHARE_AFTER;
}

/* It is put off where there is no room for it. */
static int share_ask(struct conn *c)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	struct args a = ARGS_EMPTY;
	size_t len;
	ssize_t n;

	args_int(&a, "version", RING_VERSION);
	if (args_message(&a, "Share", false, &b) < 0)
		return 0;
	len = varlink_buffer_len(&b);
	n = send(c->fd, b.data + b.begin, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if ((size_t)n < len)
		return -EPIPE;
	c->share.state = SHARE_ASKED;
	return 0;
}

/* Keeps the first descriptors. */
static void fds_take(struct share *s, struct msghdr *m)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		int fds[FDS_MOST];

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS || n > FDS_MOST)
			continue;
		memcpy(fds, CMSG_DATA(h), n * sizeof(int));
		for (size_t i = 0; i < n; i++)
			if (s->n_fds < SHARE_FDS)
				s->fds[s->n_fds++] = fds[i];
			else
				close_fd(fds[i]);
	}
}

/* Some of the answer. */
static int answer_fill(struct conn *c, struct deadline *d)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_MOST * sizeof(int))];
	const struct conn *beside = d->beside;
	char data[1024];
	struct iovec v = { data, sizeof(data) };
	struct msghdr m = {
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;
	int r;

	d->beside = NULL;
	r = conn_await_answer(c, d);
	d->beside = beside;
	if (r < 0 && r != -ETIMEDOUT)
		return r == -EAGAIN ? 0 : r;
	n = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? r : -errno;
	fds_take(&c->share, &m);
	if (n == 0)
		return -ECONNRESET;
	deadline_progress(d);
	return varlink_frame_feed(&c->in, data, (size_t)n);
}

/* What does not fit together is not used. */
static void share_use(struct conn *c, const json_t *answer)
{
	struct share *s = &c->share;
	bool mirror = json_get_bool(answer, "mirror", false);

	if (json_get_int(answer, "version", 0) != RING_VERSION ||
		json_get_int(answer, "ring_bytes", 0) != RING_BYTES || s->n_fds != 1 + mirror ||
		ring_open(&s->ring, s->fds[0]) < 0)
		return;
	s->unspun = one_cpu() ? SPIN_AGAIN : 0;
	s->spin_ns = s->unspun ? 0 : SPIN_NS;
	if (mirror)
		share_mirror(c->pool, c, s->fds[1]);
}

/* Whether an agent that has refused it would refuse another connection, too. */
static bool is_final(const char *error)
{
	return strcmp(error, "io.elasticd.Worker.ResourceExhausted") == 0 ||
	       strncmp(error, "org.varlink.service.", 20) == 0;
}

static int share_finish(struct conn *c, struct deadline *d)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct error err;
	char *text;
	size_t len;
	int r;

	while ((r = varlink_frame_next(&c->in, &text, &len)) == 0) {
		r = answer_fill(c, d);
		if (r < 0)
			return r;
	}
	if (r > 0)
		r = varlink_in_parse(text, len, &in, &err);
	if (r < 0)
		return r;
	if (!in.error)
		share_use(c, in.parameters);
	else if (is_final(in.error))
		atomic_store(&c->pool->shares, false);
	fds_close(&c->share);
	c->share.state = SHARE_OVER;
	return 0;
}

int share_ready(struct conn *c, struct deadline *d)
{
	int r = is_time(c) ? share_ask(c) : 0;

	if (r == 0 && c->share.state == SHARE_ASKED)
		r = share_finish(c, d);
	/* It would end the next connection, too. */
	if (r < 0 && r != -EINTR && r != -ETIMEDOUT)
		atomic_store(&c->pool->shares, false);
	return r;
}

/* --- sending */

int share_bell(struct conn *c)
{
	ssize_t n;

	do
		n = send(c->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	/* Behind what has no room for it there is enough to be read. */
	if (n == 1 || errno == EAGAIN)
		return 0;
	return -errno;
}

int share_send(struct conn *c, const struct varlink_buffer *b)
{
	size_t len = varlink_buffer_len(b);
	struct share *s = &c->share;
	int r;

	s->by_ring = false;
	if (!s->ring.memory || ring_closed(&s->ring))
		return 0;
	r = ring_write(&s->ring, b->data + b->begin, len);
	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	s->by_ring = true;
	s->asked = len;
	r = ring_bell_due(&s->ring) ? share_bell(c) : 0;
	/* What was taken before the agent hung up may have an answer. */
	if (r < 0 && share_untouched(s)) {
		s->by_ring = false;
		return r;
	}
	return 1;
}

bool share_untouched(const struct share *s)
{
	return s->by_ring && ring_untouched(&s->ring, s->asked);
}

/* --- receiving */

/* All that has come by the ring. 1: there was something. */
int share_take(struct conn *c, struct deadline *d)
{
	struct share *s = &c->share;
	bool spilled = ring_spilled(&s->ring);
	char data[PIECE_BYTES];
	int r = 0, n = 1, taken = 0;

	while (r == 0 && n > 0 && taken < RING_BYTES) {
		n = ring_read(&s->ring, data, sizeof(data));
		if (n > 0)
			r = varlink_frame_feed(&c->in, data, (size_t)n);
		taken += n;
	}
	if (n < 0 || r < 0)
		return n < 0 ? n : r;
	if (taken)
		deadline_progress(d);
	if (spilled)
		s->by_ring = false;
	return taken || spilled;
}

/* How long it looks; now and then it tries whether that pays. */
static int64_t spin_of(struct share *s)
{
	if (ring_crowded(&s->ring))
		return 0;
	if (s->spin_ns || s->unspun >= SPIN_AGAIN)
		return s->spin_ns;
	if (++s->unspun == SPIN_AGAIN) {
		s->unspun = 0;
		s->spin_ns = SPIN_NS;
	}
	return s->spin_ns;
}

/* As ring_await(). */
static int spin(struct share *s)
{
	int64_t ns = spin_of(s), begin;
	int r;

	if (!ns)
		return ring_await(&s->ring, 0, 0);
	begin = now_ns();
	do
		r = ring_await(&s->ring, SPIN_LOOKS, 0);
	while (r == 0 && now_ns() - begin < ns);
	if (r == 0)
		s->spin_ns = ns < 2 * SPIN_LEAST_NS ? 0 : ns / 2;
	else
		s->spin_ns = SPIN_NS;
	return r;
}

/* 1: there is something; 0: not within a moment. */
static int ring_wait_moment(struct conn *c, struct deadline *d)
{
	struct share *s = &c->share;
	int ms, r = spin(s);

	if (r == 0 && deadline_left(d, &ms) == 0)
		r = ring_await(
			&s->ring, 0, (ms < 0 || ms > MOMENT_MS ? MOMENT_MS : ms) * INT64_C(1000));
	if (r == -EINTR && !(d->interruptible && signal_interrupts()))
		return 0;
	return r;
}

int share_receive(struct conn *c, struct deadline *d)
{
	struct share *s = &c->share;
	bool closed;
	int r;

	if (!s->by_ring)
		return 0;
	closed = ring_closed(&s->ring);
	r = share_take(c, d);
	if (r)
		return r;
	if (closed)
		return share_untouched(s) ? -ESTALE : 0;
	r = ring_wait_moment(c, d);
	if (r)
		return r;
	return ring_on_socket(&s->ring) ? 0 : 1;
}

int share_received(struct conn *c, struct deadline *d, const char *data, ssize_t n)
{
	struct share *s = &c->share;
	int r;

	if (!s->by_ring)
		return 0;
	ring_runs(&s->ring);
	r = share_take(c, d);
	if (r < 0 || n <= 0)
		return r;
	/* Once it has spilled, what comes by the socket is behind all that came by the ring. */
	if (!s->by_ring)
		return 0;
	for (ssize_t i = 0; i < n; i++)
		if (data[i])
			return -EBADMSG;
	return 1;
}
