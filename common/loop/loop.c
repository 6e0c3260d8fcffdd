/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only user of libevent beside the varlink connections; runs it one turn at a time. Deferred
 * calls wait in one array that is drained after the events of a turn, so deferred work (flushing
 * connections, posting state) happens once per turn and costs no system call.
 *
 * libevent's precise timers would set a timerfd in each turn, so ours use its coarse clock, which
 * lags by some milliseconds: a timer that fires too early is armed again.
 */
#include "common/loop/loop.h"

#include "common/base/clock.h"
#include "common/base/hash_chain.h"
#include "common/base/log.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

/* Passes over deferred calls that post each other, before descriptors are checked again. */
#define DEFER_PASSES 64

struct deferred {
	loop_fn fn; /* NULL: cancelled */
	void *arg;
	uint64_t before; /* the number of the one before it in its bucket */
};

TAILQ_HEAD(loop_agains, loop_again);

struct loop_again {
	struct loop_agains *list; /* one of the loop's */
	TAILQ_ENTRY(loop_again) entry;
	struct loop *loop;
	loop_fn fn;
	void *arg;
};

struct loop {
	struct event_base *base;
	LIST_HEAD(, loop_timer) timers;
	struct loop_agains idle, armed, due; /* armed for the next turn; due in this one */
	uint64_t turns;
	struct deferred *calls;	 /* [head, tail) are waiting */
	size_t head, tail, room; /* room is a power of two */
	/* Calls are numbered from 1. A bucket leads to those of one hash, the newest first, and on
	 * to some that have run: their numbers are lower than the one at head. */
	uint64_t first;	   /* the number of calls[0] */
	uint64_t *buckets; /* room of them: the newest number of each; 0: none */
	bool quit;
	int code;
};

struct loop_timer {
	LIST_ENTRY(loop_timer) entry;
	struct event *ev;
	loop_fn fn;
	void *arg;
	uint64_t due_us; /* when armed */
	bool armed;
};

struct loop_fd {
	struct loop *loop;
	struct event *ev;
	int fd, events;
	loop_fd_fn fn;
	void *arg;
};

struct loop_signal {
	struct event *ev;
	struct event *once; /* libevent reports each arrival; this merges those of one turn */
	loop_signal_fn fn;
	void *arg;
	int signo;
};

static void libevent_log(int severity, const char *text)
{
	log_debug("libevent: %s", text);
}

/* libevent's functions set errno on most failures, not on all. */
static int event_errno(void)
{
	return errno ? -errno : -ENOMEM;
}

/* Runs the calls that were posted before this pass. */
static void run_pass(struct loop *l)
{
	size_t end = l->tail;

	while (l->head < end) {
		struct deferred d = l->calls[l->head++];

		if (d.fn)
			d.fn(d.arg);
	}
}

static void run_deferred(struct loop *l)
{
	if (!l->tail)
		return;
	for (int i = 0; i < DEFER_PASSES && l->head < l->tail; i++)
		run_pass(l);
	memmove(l->calls, l->calls + l->head, (l->tail - l->head) * sizeof(*l->calls));
	l->first += l->head;
	l->tail -= l->head;
	l->head = 0;
}

static void again_move(struct loop_again *a, struct loop_agains *to)
{
	TAILQ_REMOVE(a->list, a, entry);
	TAILQ_INSERT_TAIL(to, a, entry);
	a->list = to;
}

/* If fn arms itself again, it runs again in the next turn. fn may free any of them. */
static void run_agains(struct loop *l)
{
	struct loop_again *a;

	while ((a = TAILQ_FIRST(&l->armed)))
		again_move(a, &l->due);
	while ((a = TAILQ_FIRST(&l->due))) {
		again_move(a, &l->idle);
		a->fn(a->arg);
	}
}

/* Waits only if no work is left. */
static int run_turn(struct loop *l, int flags)
{
	if (l->tail || !TAILQ_EMPTY(&l->armed))
		flags |= EVLOOP_NONBLOCK;
	if (event_base_loop(l->base, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY | flags) < 0)
		return event_errno();
	l->turns++;
	run_agains(l);
	run_deferred(l);
	return 0;
}

int loop_new(struct loop **ret)
{
	_cleanup_(loop_freep) struct loop *l = calloc(1, sizeof(*l));
	struct event_config *config;

	if (!l)
		return -ENOMEM;
	l->first = 1;
	TAILQ_INIT(&l->idle);
	TAILQ_INIT(&l->armed);
	TAILQ_INIT(&l->due);
	event_set_log_callback(libevent_log);
	config = event_config_new();
	if (!config)
		return -ENOMEM;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV |
					      EVENT_BASE_FLAG_NO_CACHE_TIME);
	l->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!l->base)
		return -ENOMEM;
	*ret = TAKE_PTR(l);
	return 0;
}

struct loop *loop_free(struct loop *l)
{
	if (!l)
		return NULL;
	if (l->base)
		event_base_free(l->base);
	free(l->calls);
	free(l->buckets);
	free(l);
	return NULL;
}

int loop_run(struct loop *l)
{
	int code, r = 0;

	errno = 0;
	/* In a turn, events come before calls posted earlier, so also here; after loop_quit() the
	 * calls still run (they may send an answer). */
	while (!l->quit && r == 0)
		r = run_turn(l, 0);
	run_deferred(l);
	code = r < 0 ? r : l->code;
	l->quit = false;
	l->code = 0;
	return code;
}

void loop_quit(struct loop *l, int code)
{
	if (l->quit)
		return;
	l->quit = true;
	l->code = code;
	event_base_loopbreak(l->base);
}

void loop_run_once(struct loop *l, bool wait)
{
	if (run_turn(l, wait ? 0 : EVLOOP_NONBLOCK) < 0)
		log_debug("the loop has failed: %s", strerror(errno));
}

static uint64_t stood_still_ms, frozen_ms; /* frozen_ms 0: time passes */

void loop_stood_still(uint64_t ms)
{
	stood_still_ms += ms;
}

static uint64_t loop_now_us(void)
{
	return (frozen_ms ? frozen_ms * 1000 : monotonic_us()) - stood_still_ms * 1000;
}

uint64_t loop_now_ms(void)
{
	return loop_now_us() / 1000;
}

void loop_freeze(void)
{
	frozen_ms = monotonic_ms();
}

uint64_t loop_real_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Without memory for libevent's heap the timer fires at once: early is better than never. */
static void timer_add(struct loop_timer *t, uint64_t delay_us)
{
	uint64_t sec = delay_us / 1000000;
	struct timeval tv = {
		.tv_sec = sec > INT_MAX ? INT_MAX : sec,
		.tv_usec = delay_us % 1000000,
	};

	if (event_add(t->ev, &tv) == 0)
		return;
	t->due_us = 0;
	event_active(t->ev, EV_TIMEOUT, 0);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct loop_timer *t = arg;
	uint64_t now = loop_now_us();

	if (now < t->due_us) {
		timer_add(t, t->due_us - now);
		return;
	}
	t->armed = false;
	t->fn(t->arg);
}

int loop_timer_new(struct loop *l, loop_fn fn, void *arg, struct loop_timer **ret)
{
	struct loop_timer *t = malloc(sizeof(*t));

	if (!t)
		return -ENOMEM;
	*t = (struct loop_timer){ .fn = fn, .arg = arg };
	t->ev = event_new(l->base, -1, 0, on_timer, t);
	if (!t->ev) {
		free(t);
		return -ENOMEM;
	}
	LIST_INSERT_HEAD(&l->timers, t, entry);
	*ret = t;
	return 0;
}

void loop_timer_arm(struct loop_timer *t, uint64_t delay_ms)
{
	uint64_t now = loop_now_us();

	t->armed = true;
	t->due_us = delay_ms < (UINT64_MAX - now) / 1000 ? now + delay_ms * 1000 : UINT64_MAX;
	/* An earlier arming may have expired in this very turn: replace it. */
	event_del(t->ev);
	timer_add(t, t->due_us - now);
}

void loop_timer_disarm(struct loop_timer *t)
{
	if (!t->armed)
		return;
	t->armed = false;
	event_del(t->ev);
}

bool loop_timer_armed(const struct loop_timer *t)
{
	return t->armed;
}

struct loop_timer *loop_timer_free(struct loop_timer *t)
{
	if (t) {
		LIST_REMOVE(t, entry);
		event_free(t->ev);
		free(t);
	}
	return NULL;
}

void loop_pass(struct loop *l, uint64_t ms)
{
	struct loop_timer *t;

	stood_still_ms -= ms;
	LIST_FOREACH (t, &l->timers, entry)
		if (t->armed && t->due_us <= loop_now_us())
			event_active(t->ev, EV_TIMEOUT, 0);
}

static void on_fd(evutil_socket_t fd, short what, void *arg)
{
	struct loop_fd *f = arg;
	int events = (what & EV_READ ? LOOP_READ : 0) | (what & EV_WRITE ? LOOP_WRITE : 0);

	f->fn(f->fd, events, f->arg);
}

int loop_fd_new(struct loop *l, int fd, int events, loop_fd_fn fn, void *arg, struct loop_fd **ret)
{
	struct loop_fd *f = malloc(sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	*f = (struct loop_fd){ .loop = l, .fd = fd, .fn = fn, .arg = arg };
	f->ev = event_new(l->base, fd, EV_PERSIST, on_fd, f);
	r = f->ev ? loop_fd_set(f, events) : -ENOMEM;
	if (r < 0) {
		loop_fd_free(f);
		return r;
	}
	*ret = f;
	return 0;
}

int loop_fd_set(struct loop_fd *f, int events)
{
	short what = (events & LOOP_READ ? EV_READ : 0) | (events & LOOP_WRITE ? EV_WRITE : 0) |
		     (events & LOOP_EDGE ? EV_ET : 0);

	if (events == f->events)
		return 0;
	event_del(f->ev);
	f->events = 0;
	if (!events)
		return 0;
	errno = 0;
	if (event_assign(f->ev, f->loop->base, f->fd, what | EV_PERSIST, on_fd, f) < 0 ||
		event_add(f->ev, NULL) < 0)
		return event_errno();
	f->events = events;
	return 0;
}

struct loop_fd *loop_fd_free(struct loop_fd *f)
{
	if (f) {
		if (f->ev)
			event_free(f->ev);
		free(f);
	}
	return NULL;
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct loop_signal *s = arg;

	event_active(s->once, EV_SIGNAL, 0);
}

static void on_signal_once(evutil_socket_t fd, short what, void *arg)
{
	struct loop_signal *s = arg;

	s->fn(s->signo, s->arg);
}

int loop_signal_new(
	struct loop *l, int signo, loop_signal_fn fn, void *arg, struct loop_signal **ret)
{
	struct loop_signal *s = malloc(sizeof(*s));
	int r = -ENOMEM;

	if (!s)
		return -ENOMEM;
	*s = (struct loop_signal){ .fn = fn, .arg = arg, .signo = signo };
	s->ev = event_new(l->base, signo, EV_SIGNAL | EV_PERSIST, on_signal, s);
	s->once = event_new(l->base, -1, 0, on_signal_once, s);
	if (!s->ev || !s->once)
		goto fail;
	errno = 0;
	if (event_add(s->ev, NULL) < 0) {
		r = event_errno();
		goto fail;
	}
	*ret = s;
	return 0;
fail:
	loop_signal_free(s);
	return r;
}

struct loop_signal *loop_signal_free(struct loop_signal *s)
{
	if (s) {
		if (s->ev)
			event_free(s->ev);
		if (s->once)
			event_free(s->once);
		free(s);
	}
	return NULL;
}

static uint64_t *bucket_of(struct loop *l, loop_fn fn, void *arg)
{
	uint64_t hash = chain_hash_pointer((void *)((uintptr_t)arg + (uintptr_t)fn));

	return &l->buckets[hash & (l->room - 1)];
}

static struct deferred *find_deferred(struct loop *l, loop_fn fn, void *arg)
{
	uint64_t n = l->room ? *bucket_of(l, fn, arg) : 0;

	while (n >= l->first + l->head) {
		struct deferred *d = &l->calls[n - l->first];

		if (d->fn == fn && d->arg == arg)
			return d;
		n = d->before;
	}
	return NULL;
}

static void put_in_bucket(struct loop *l, size_t i)
{
	struct deferred *d = &l->calls[i];
	uint64_t *bucket = bucket_of(l, d->fn, d->arg);

	d->before = *bucket;
	*bucket = l->first + i;
}

static int make_room(struct loop *l)
{
	size_t room = l->room ? l->room * 2 : 16;
	struct deferred *calls;
	uint64_t *buckets;

	if (l->tail < l->room)
		return 0;
	calls = reallocarray(l->calls, room, sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	l->calls = calls;
	buckets = calloc(room, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	free(l->buckets);
	l->buckets = buckets;
	l->room = room;
	for (size_t i = l->head; i < l->tail; i++)
		put_in_bucket(l, i);
	return 0;
}

int loop_defer(struct loop *l, loop_fn fn, void *arg)
{
	if (find_deferred(l, fn, arg))
		return 0;
	if (make_room(l) < 0)
		return -ENOMEM;
	l->calls[l->tail] = (struct deferred){ .fn = fn, .arg = arg };
	put_in_bucket(l, l->tail++);
	return 0;
}

void loop_cancel(struct loop *l, loop_fn fn, void *arg)
{
	struct deferred *d = find_deferred(l, fn, arg);

	if (d)
		d->fn = NULL;
}

int loop_again_new(struct loop *l, loop_fn fn, void *arg, struct loop_again **ret)
{
	struct loop_again *a = malloc(sizeof(*a));

	if (!a)
		return -ENOMEM;
	*a = (struct loop_again){ .list = &l->idle, .loop = l, .fn = fn, .arg = arg };
	TAILQ_INSERT_TAIL(a->list, a, entry);
	*ret = a;
	return 0;
}

void loop_again_arm(struct loop_again *a)
{
	if (a->list != &a->loop->armed)
		again_move(a, &a->loop->armed);
}

struct loop_again *loop_again_free(struct loop_again *a)
{
	if (!a)
		return NULL;
	TAILQ_REMOVE(a->list, a, entry);
	free(a);
	return NULL;
}

uint64_t loop_turn(const struct loop *l)
{
	return l->turns;
}
