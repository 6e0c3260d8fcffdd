/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/connection.h"

#include "common/json.h"
#include "common/varlink_frame.h"
#include "common/varlink_message.h"
#include "common/varlink_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

enum {
	POOL_IDLE_MAX = 64,    /* more threads than that at once connect anew */
	CONNECT_RETRY_MS = 10, /* the agent's queue of connections is full */
};

struct conn {
	TAILQ_ENTRY(conn) entry;
	int fd;
	struct varlink_frame in;
	int64_t limit_ms; /* SO_RCVTIMEO as it is set; 0: none */
	bool greeted;	  /* the answer to its Hello has come */
	size_t unsent;	  /* of the call's bytes, the last ones */
	/* Of a halted one: the call that a signal has ended, by whom, and how long it may be. */
	struct varlink_buffer call;
	pthread_t thread;
	int64_t end;
};
TAILQ_HEAD(conns, conn);

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t left; /* users is 0 */
	pid_t pid;
	int refs, users, n_idle, n_halted;
	bool closing;
	struct conns idle, busy, halted;
	struct pool *next; /* of those that a child has left alone */
};

static _Atomic(struct pool *) abandoned;

/* --- the pool */

static struct pool *pool_new(void)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->left, NULL);
	p->pid = getpid();
	p->refs = 1;
	TAILQ_INIT(&p->idle);
	TAILQ_INIT(&p->busy);
	TAILQ_INIT(&p->halted);
	return p;
}

static void conn_free(struct conn *c)
{
	close_fd(c->fd);
	varlink_frame_fini(&c->in);
	varlink_buffer_fini(&c->call);
	free(c);
}

static void pool_free(struct pool *p)
{
	struct conn *c;

	TAILQ_CONCAT(&p->idle, &p->halted, entry);
	while ((c = TAILQ_FIRST(&p->idle))) {
		TAILQ_REMOVE(&p->idle, c, entry);
		shutdown(c->fd, SHUT_RDWR);
		conn_free(c);
	}
	pthread_cond_destroy(&p->left);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

bool pool_is_ours(const struct pool *p)
{
	return p->pid == getpid();
}

/* The pool that this process has in h, made where it has none. */
static struct pool *pool_of(struct elasticd *h)
{
	struct pool *p = atomic_load(&h->pool), *mine;

	if (p && pool_is_ours(p))
		return p;
	mine = pool_new();
	if (!mine)
		return NULL;
	if (!atomic_compare_exchange_strong(&h->pool, &p, mine)) {
		pool_free(mine);
		return p;
	}
	/* The parent's, if any: kept where a search for leaks finds it. */
	if (p) {
		p->next = atomic_load(&abandoned);
		while (!atomic_compare_exchange_weak(&abandoned, &p->next, p))
			;
	}
	return mine;
}

struct pool *pool_ref(struct elasticd *h)
{
	struct pool *p = pool_of(h);

	if (!p)
		return NULL;
	pthread_mutex_lock(&p->lock);
	p->refs++;
	pthread_mutex_unlock(&p->lock);
	return p;
}

void pool_unref(struct pool *p)
{
	bool last;

	if (!pool_is_ours(p))
		return;
	pthread_mutex_lock(&p->lock);
	last = --p->refs == 0;
	pthread_mutex_unlock(&p->lock);
	if (last)
		pool_free(p);
}

/* Begins a use; false when the handle is being closed. */
static bool pool_enter(struct pool *p)
{
	bool open;

	pthread_mutex_lock(&p->lock);
	open = !p->closing;
	p->users += open;
	pthread_mutex_unlock(&p->lock);
	return open;
}

static void pool_leave(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	if (--p->users == 0)
		pthread_cond_broadcast(&p->left);
	pthread_mutex_unlock(&p->lock);
}

static bool pool_closing(struct pool *p)
{
	bool closing;

	pthread_mutex_lock(&p->lock);
	closing = p->closing;
	pthread_mutex_unlock(&p->lock);
	return closing;
}

/* With the lock. */
static void pool_refuse(struct pool *p)
{
	struct conn *c;

	p->closing = true;
	TAILQ_FOREACH (c, &p->busy, entry)
		shutdown(c->fd, SHUT_RDWR);
}

void pool_cancel(struct elasticd *h)
{
	struct pool *p = pool_of(h);

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	pool_refuse(p);
	pthread_mutex_unlock(&p->lock);
}

void pool_close(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	pool_refuse(p);
	while (p->users)
		pthread_cond_wait(&p->left, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

/* A free connection, now busy; NULL where there is none. */
static struct conn *pool_take(struct pool *p)
{
	struct conn *c;

	pthread_mutex_lock(&p->lock);
	c = TAILQ_FIRST(&p->idle);
	if (c) {
		TAILQ_REMOVE(&p->idle, c, entry);
		p->n_idle--;
		TAILQ_INSERT_TAIL(&p->busy, c, entry);
		if (p->closing)
			shutdown(c->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&p->lock);
	return c;
}

void conn_drop(struct pool *p, struct conn *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&p->lock);
	TAILQ_REMOVE(&p->busy, c, entry);
	pthread_mutex_unlock(&p->lock);
	/* A child of fork() may still have the descriptor: for the agent it ends here. */
	shutdown(c->fd, SHUT_RDWR);
	conn_free(c);
}

void conn_abandon(struct conn *c)
{
	if (c)
		conn_free(c);
}

/* The call is over and nothing is left to be read. */
static void pool_give_back(struct pool *p, struct conn *c)
{
	bool keep;

	pthread_mutex_lock(&p->lock);
	keep = !p->closing && p->n_idle < POOL_IDLE_MAX && c->in.begin == c->in.end;
	if (keep) {
		TAILQ_REMOVE(&p->busy, c, entry);
		TAILQ_INSERT_HEAD(&p->idle, c, entry);
		p->n_idle++;
	}
	pthread_mutex_unlock(&p->lock);
	if (!keep)
		conn_drop(p, c);
}

/* --- calls that a signal has ended, and that their thread may make again */

/* What belongs to this thread and is this call; NULL: any. With the lock. */
static struct conn *halted_find(struct pool *p, const struct varlink_buffer *call)
{
	struct conn *c;

	TAILQ_FOREACH (c, &p->halted, entry) {
		size_t len = varlink_buffer_len(&c->call);

		if (!pthread_equal(c->thread, pthread_self()))
			continue;
		if (!call || (len == varlink_buffer_len(call) &&
				     memcmp(c->call.data + c->call.begin, call->data + call->begin,
					     len) == 0))
			return c;
	}
	return NULL;
}

/* With the lock. */
static void halted_to_busy(struct pool *p, struct conn *c)
{
	TAILQ_REMOVE(&p->halted, c, entry);
	p->n_halted--;
	TAILQ_INSERT_TAIL(&p->busy, c, entry);
	varlink_buffer_fini(&c->call);
	if (p->closing)
		shutdown(c->fd, SHUT_RDWR);
}

/* The connection on which this thread has begun the call, now busy; NULL where it has not. */
static struct conn *pool_resume(struct pool *p, const struct varlink_buffer *call)
{
	struct conn *c;

	pthread_mutex_lock(&p->lock);
	c = p->n_halted ? halted_find(p, call) : NULL;
	if (c)
		halted_to_busy(p, c);
	pthread_mutex_unlock(&p->lock);
	return c;
}

/* Keeps a busy connection until the same call is made again. */
static int pool_halt(struct pool *p, struct conn *c, const struct varlink_buffer *call, int64_t end)
{
	struct conn *oldest = NULL;
	int r = varlink_buffer_append(&c->call, call->data + call->begin, varlink_buffer_len(call));

	if (r < 0) {
		conn_drop(p, c);
		return r;
	}
	c->thread = pthread_self();
	c->end = end;
	pthread_mutex_lock(&p->lock);
	TAILQ_REMOVE(&p->busy, c, entry);
	TAILQ_INSERT_TAIL(&p->halted, c, entry);
	if (++p->n_halted > POOL_IDLE_MAX) {
		oldest = TAILQ_FIRST(&p->halted);
		halted_to_busy(p, oldest);
	}
	pthread_mutex_unlock(&p->lock);
	conn_drop(p, oldest);
	return 0;
}

void pool_forget(struct elasticd *h)
{
	struct pool *p = atomic_load(&h->pool);
	struct conn *c;

	if (!p || !pool_is_ours(p))
		return;
	while ((c = pool_resume(p, NULL)))
		conn_drop(p, c);
}

int conn_fd(const struct conn *c)
{
	return c->fd;
}

/* --- waiting */

struct deadline {
	int64_t end; /* -1: none */
	int64_t whole_ms;
	bool interruptible;
	bool begun;	/* there was a first recv() */
	bool from_last; /* it is so long from the last byte that went or came */
};

static struct deadline deadline_of(const struct elasticd *h, struct wait wait)
{
	struct deadline d = { .end = -1, .interruptible = wait.interruptible };

	if (wait.prompt) {
		d.interruptible = atomic_load(&h->interruptible);
		d.from_last = true;
		d.whole_ms = h->silence_ms;
		d.end = clock_ms() + d.whole_ms;
	} else if (wait.timeout_ms >= 0) {
		d.whole_ms = (int64_t)wait.timeout_ms + wait.margin_ms;
		d.end = clock_ms() + d.whole_ms;
	}
	return d;
}

static void deadline_progress(struct deadline *d)
{
	if (!d->from_last)
		return;
	d->end = clock_ms() + d->whole_ms;
	d->begun = false;
}

/* Whether the first recv() of a call may do with the limit that is set, which is no longer than its
 * own: hardly an answer takes that long, and if it does, the next has the right one. */
static bool conn_limit_serves(const struct conn *c, const struct deadline *d)
{
	if (!c->limit_ms || d->begun)
		return false;
	/* Without a limit, what a signal does is left to the kernel. */
	return d->end < 0 ? !d->interruptible : c->limit_ms <= d->whole_ms;
}

/* Has the next recv() wait so long. The first of a call is given the whole time. */
static int conn_limit(struct conn *c, struct deadline *d)
{
	bool serves = conn_limit_serves(c, d);
	int64_t ms = 0;
	struct timeval tv;

	if (d->end >= 0) {
		ms = d->begun ? d->end - clock_ms() : d->whole_ms;
		if (ms <= 0)
			return -ETIMEDOUT;
	}
	d->begun = true;
	if (serves || ms == c->limit_ms)
		return 0;
	tv = (struct timeval){ .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	if (setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0)
		return -errno;
	c->limit_ms = ms;
	return 0;
}

/* Reads once. 0, -ETIMEDOUT, -EINTR, -ECONNRESET or another negative errno. */
static int conn_fill(struct conn *c, struct deadline *d)
{
	char data[32768];
	int late = conn_limit(c, d);
	ssize_t n;

	if (late < 0 && late != -ETIMEDOUT)
		return late;
	n = recv(c->fd, data, sizeof(data), late ? MSG_DONTWAIT : 0);
	if (n > 0)
		deadline_progress(d);
	if (n > 0)
		return varlink_frame_feed(&c->in, data, (size_t)n);
	if (n == 0)
		return -ECONNRESET;
	if (errno == EAGAIN)
		return late;
	if (errno != EINTR)
		return -errno;
	/* Without a limit the kernel itself goes on after a handler with SA_RESTART. */
	return d->interruptible && (!c->limit_ms || signal_interrupts()) ? -EINTR : 0;
}

static int conn_receive(struct conn *c, struct deadline *d, struct varlink_in *ret)
{
	struct error err;
	char *text;
	size_t len;
	int r;

	while ((r = varlink_frame_next(&c->in, &text, &len)) == 0) {
		r = conn_fill(c, d);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : varlink_in_parse(text, len, ret, &err);
}

/* Until the agent has read some: only values are longer than what a socket takes. */
static int conn_await_room(const struct conn *c, const struct deadline *d)
{
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };
	int64_t left = d->end < 0 ? -1 : d->end - clock_ms();

	if (d->end >= 0 && left <= 0)
		return -ETIMEDOUT;
	if (poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left) >= 0)
		return 0;
	if (errno != EINTR)
		return -errno;
	return d->interruptible && signal_interrupts() ? -EINTR : 0;
}

/* Sends the last c->unsent bytes of b. */
static int conn_send_rest(struct conn *c, const struct varlink_buffer *b, struct deadline *d)
{
	int r = 0;

	while (c->unsent && r == 0) {
		ssize_t n = send(c->fd, b->data + b->end - c->unsent, c->unsent,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			c->unsent -= (size_t)n;
			deadline_progress(d);
		} else if (errno == EAGAIN) {
			r = conn_await_room(c, d);
		} else if (errno != EINTR) {
			r = -errno;
		}
	}
	return r;
}

static int conn_send(struct conn *c, const struct varlink_buffer *b, struct deadline *d)
{
	c->unsent = varlink_buffer_len(b);
	return conn_send_rest(c, b, d);
}

/* What became of a connection. */
static int fail_connection(struct pool *p, int r, const struct wait *wait)
{
	if (pool_closing(p))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	if (r == -EINTR)
		return fail(ELASTICD_INTERRUPTED, "a signal came");
	if (r == -ETIMEDOUT && wait->prompt)
		return fail(ELASTICD_UNAVAILABLE, "the agent does not answer");
	if (r == -ETIMEDOUT && wait->margin_ms)
		return fail(ELASTICD_DEADLINE_EXCEEDED,
			"the agent has not answered, %d ms after the time limit of %d ms",
			wait->margin_ms, wait->timeout_ms);
	if (r == -ETIMEDOUT)
		return fail(
			ELASTICD_DEADLINE_EXCEEDED, "nothing came within %d ms", wait->timeout_ms);
	if (r == -ENOMEM)
		return fail_memory();
	if (r == -EBADMSG || r == -EMSGSIZE)
		return fail(ELASTICD_INTERNAL, "the agent's answer is not understood");
	return fail(ELASTICD_UNAVAILABLE, "the agent has closed the connection: it is gone");
}

/* --- calls */

static int build(struct varlink_buffer *b, const char *method, struct args *a, bool more)
{
	char name[64];
	struct varlink_out out = { .method = name, .parameters = a->json, .more = more };
	int r = a->r;

	snprintf(name, sizeof(name), "io.elasticd.Worker.%s", method);
	if (r == 0 && !a->json)
		r = -ENOMEM;
	if (r == 0)
		r = varlink_buffer_message(b, &out, VARLINK_ANSWER_MAX);
	json_decref(a->json);
	a->json = NULL;
	return r;
}

static int build_hello(struct elasticd *h, struct varlink_buffer *b)
{
	struct args a = ARGS_EMPTY;

	args_text(&a, "token", h->token_text);
	return build(b, "Hello", &a, false);
}

/* A blocking socket; waits while the agent's queue is full. */
static int socket_open(
	struct pool *p, const char *path, const struct deadline *d, int *ret, struct error *err)
{
	const struct timespec pause = { .tv_nsec = CONNECT_RETRY_MS * 1000000 };
	int r, fd = -1;

	while ((r = varlink_socket_connect(path, SOCK_NONBLOCK, &fd, err)) == -EAGAIN) {
		if (d->end >= 0 && clock_ms() >= d->end)
			return -ETIMEDOUT;
		if (pool_closing(p))
			return -ECONNRESET;
		if (nanosleep(&pause, NULL) < 0 && d->interruptible && signal_interrupts())
			return -EINTR;
	}
	if (r == 0 && fcntl(fd, F_SETFL, O_RDWR) < 0)
		r = -errno;
	if (r == 0)
		*ret = fd;
	else
		close_fd(fd);
	return r;
}

/* A new connection, busy. Returns a status. */
static int conn_open(struct elasticd *h, struct pool *p, const struct wait *wait,
	const struct deadline *d, struct conn **ret)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct error err = { 0 };
	int r;

	if (!c)
		return fail_memory();
	varlink_frame_init(&c->in, VARLINK_ANSWER_MAX);
	r = socket_open(p, h->socket, d, &c->fd, &err);
	if (r < 0) {
		c->fd = -1;
		conn_free(c);
		return err.code && r != -EAGAIN && r != -ETIMEDOUT && r != -EINTR &&
				       r != -ECONNRESET
			       ? fail_errno(r, &err)
			       : fail_connection(p, r, wait);
	}
	pthread_mutex_lock(&p->lock);
	TAILQ_INSERT_TAIL(&p->busy, c, entry);
	if (p->closing)
		shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
	*ret = c;
	return 0;
}

/* Connects anew and sends Hello and what is in b. */
static int call_on_new(struct elasticd *h, struct pool *p, const struct varlink_buffer *b,
	const struct wait *wait, struct deadline *d, struct conn **ret)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer both = { .data = NULL };
	int r = conn_open(h, p, wait, d, ret);

	if (r)
		return r;
	r = build_hello(h, &both);
	if (r == 0 && varlink_buffer_len(b))
		r = varlink_buffer_append(&both, b->data + b->begin, varlink_buffer_len(b));
	if (r == 0)
		r = conn_send(*ret, &both, d);
	/* It may have said why before it hung up. */
	if (r == -EPIPE || r == -ECONNRESET)
		r = 0;
	return r < 0 ? fail_connection(p, r, wait) : 0;
}

/* Receives, the answer to Hello first where it is due. */
static int call_receive(struct pool *p, struct conn *c, const struct wait *wait, struct deadline *d,
	struct varlink_in *ret)
{
	for (;;) {
		int r = conn_receive(c, d, ret);

		if (r < 0)
			return fail_connection(p, r, wait);
		if (ret->error)
			return fail_answer(ret);
		if (c->greeted)
			return 0;
		c->greeted = true;
		varlink_in_fini(ret);
	}
}

/* Sends it: what a signal has ended goes on; what an idle connection that has died meanwhile did
 * not take goes to a new one. A status. */
static int call_begin(struct elasticd *h, struct pool *p, const struct varlink_buffer *b,
	const struct wait *wait, struct deadline *d, struct conn **ret)
{
	struct conn *c = wait->prompt ? pool_resume(p, b) : NULL;
	int r;

	if (c) {
		d->end = c->end;
		d->begun = true;
		r = conn_send_rest(c, b, d);
	} else {
		c = pool_take(p);
		r = c ? conn_send(c, b, d) : 0;
		if (r < 0 && r != -EINTR && r != -ETIMEDOUT) {
			conn_drop(p, c);
			c = NULL;
		}
	}
	*ret = c;
	if (!c)
		return call_on_new(h, p, b, wait, d, ret);
	/* It may have said why before it hung up. */
	if (r == -EPIPE || r == -ECONNRESET)
		r = 0;
	return r < 0 ? fail_connection(p, r, wait) : 0;
}

/* A signal has ended it. */
static int call_halt(
	struct pool *p, struct conn *c, const struct varlink_buffer *b, const struct deadline *d)
{
	/* Nothing of it has gone: it can begin anew. */
	if (c->unsent >= varlink_buffer_len(b)) {
		conn_drop(p, c);
		return ELASTICD_INTERRUPTED;
	}
	return pool_halt(p, c, b, d->end) < 0 ? fail_memory() : ELASTICD_INTERRUPTED;
}

static int call_in(struct elasticd *h, struct pool *p, const struct varlink_buffer *b,
	const struct wait *wait, json_t **ret)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct deadline d = deadline_of(h, *wait);
	struct conn *c = NULL;
	int r = call_begin(h, p, b, wait, &d, &c);

	if (r == 0)
		r = call_receive(p, c, wait, &d, &in);
	if (r == 0 && ret)
		*ret = json_incref(in.parameters);
	if (r == ELASTICD_INTERRUPTED && wait->prompt && c)
		return call_halt(p, c, b, &d);
	/* An answer with an error was an answer: the connection is as good as before. */
	if (c && c->greeted && in.message)
		pool_give_back(p, c);
	else
		conn_drop(p, c);
	return r;
}

int remote_call(
	struct elasticd *h, const char *method, struct args *a, struct wait wait, json_t **ret)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	struct pool *p;
	int r = build(&b, method, a, false);

	if (r < 0)
		return fail_memory();
	p = pool_of(h);
	if (!p)
		return fail_memory();
	if (!pool_enter(p))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	r = call_in(h, p, &b, &wait, ret);
	pool_leave(p);
	return r;
}

/* --- streams */

static int stream_open(struct elasticd *h, struct pool *p, const struct varlink_buffer *b,
	struct conn **ret, json_t **ret_first)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct wait wait = WAIT_PROMPT;
	struct deadline d = deadline_of(h, wait);
	struct conn *c = NULL;
	int r = call_on_new(h, p, b, &wait, &d, &c);

	if (r == 0)
		r = call_receive(p, c, &wait, &d, &in);
	if (r == 0) {
		*ret = c;
		*ret_first = json_incref(in.parameters);
	} else {
		conn_drop(p, c);
	}
	return r;
}

int remote_stream(struct elasticd *h, struct pool *p, const char *method, struct args *a,
	struct conn **ret, json_t **ret_first)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	int r = build(&b, method, a, true);

	if (r < 0)
		return fail_memory();
	if (!pool_enter(p))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	r = stream_open(h, p, &b, ret, ret_first);
	pool_leave(p);
	return r;
}

int remote_stream_next(struct elasticd *h, struct pool *p, struct conn *c, struct wait wait,
	json_t **ret, bool *ret_last)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct deadline d = deadline_of(h, wait);
	int r;

	if (!pool_enter(p))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	r = call_receive(p, c, &wait, &d, &in);
	if (r == 0) {
		*ret = json_incref(in.parameters);
		*ret_last = !in.continues;
	}
	pool_leave(p);
	return r;
}
