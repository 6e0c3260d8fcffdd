/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/local_queue.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER; /* a handle that closes has no users */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static TAILQ_HEAD(, local_wait) waits = TAILQ_HEAD_INITIALIZER(waits);

/* In the child there is only the thread that forked, and it waits for nothing. */
static void local_in_child(void)
{
	struct local_wait *w;

	local_queue_in_child();
	while ((w = TAILQ_FIRST(&waits))) {
		TAILQ_REMOVE(&waits, w, entry);
		w->h->users = 0;
	}
	pthread_cond_init(&left, NULL);
	local_unlock();
}

static void local_init(void)
{
	pthread_atfork(local_lock, local_unlock, local_in_child);
}

void local_start(void)
{
	pthread_once(&once, local_init);
}

void local_lock(void)
{
	pthread_mutex_lock(&lock);
}

void local_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static int fail_closed(void)
{
	return fail(ELASTICD_CANCELLED, "the handle was closed");
}

int local_enter(const struct elasticd *h)
{
	local_lock();
	if (!h->closing)
		return 0;
	local_unlock();
	return fail_closed();
}

void local_wait_begin(struct local_wait *w, struct elasticd *h)
{
	*w = (struct local_wait){ .h = h };
	sem_init(&w->wake, 0, 0);
	h->users++;
	TAILQ_INSERT_TAIL(&waits, w, entry);
}

void local_wait_end(struct local_wait *w)
{
	TAILQ_REMOVE(&waits, w, entry);
	if (--w->h->users == 0)
		pthread_cond_broadcast(&left);
	sem_destroy(&w->wake);
	local_value_unref(w->value);
}

struct local_wait *local_first_wait(void)
{
	return TAILQ_FIRST(&waits);
}

void local_wake(void)
{
	struct local_wait *w;

	TAILQ_FOREACH (w, &waits, entry)
		sem_post(&w->wake);
}

/* 0 or an errno. */
static int sleep_on(sem_t *wake, int64_t end)
{
	struct timespec ts = { .tv_sec = end / 1000, .tv_nsec = end % 1000 * 1000000 };

	if ((end < 0 ? sem_wait(wake) : sem_clockwait(wake, CLOCK_MONOTONIC, &ts)) == 0)
		return 0;
	/* Without a limit the kernel itself goes on after a handler with SA_RESTART. */
	if (errno == EINTR && end >= 0 && !signal_interrupts())
		return 0;
	return errno;
}

int local_wait_next(struct local_wait *w, int64_t end)
{
	int e;

	if (!w->h->closing) {
		local_unlock();
		e = sleep_on(&w->wake, end);
		local_lock();
		if (e == ETIMEDOUT)
			return fail(
				ELASTICD_DEADLINE_EXCEEDED, "nothing came within the time limit");
		if (e == EINTR)
			return fail(ELASTICD_INTERRUPTED, "a signal came");
	}
	return w->h->closing ? fail_closed() : 0;
}

static void local_cancel(struct elasticd *h)
{
	local_lock();
	h->closing = true;
	local_wake();
	local_unlock();
}

static void local_close(struct elasticd *h)
{
	local_lock();
	h->closing = true;
	local_wake();
	while (h->users)
		pthread_cond_wait(&left, &lock);
	local_calls_drop(h, true);
	local_unlock();
}

static void local_forget(struct elasticd *h)
{
	local_lock();
	local_calls_drop(h, false);
	local_unlock();
}

struct local_value *local_value_new(const void *data, size_t len)
{
	struct local_value *v = malloc(sizeof(*v) + len + 1);

	if (!v)
		return NULL;
	v->refs = 1;
	v->len = len;
	memcpy(v->data, data, len);
	v->data[len] = '\0';
	return v;
}

struct local_value *local_value_ref(struct local_value *v)
{
	v->refs++;
	return v;
}

void local_value_unref(struct local_value *v)
{
	if (v && --v->refs == 0)
		free(v);
}

void *local_value_copy(const struct local_value *v)
{
	void *copy = malloc(v->len + 1);

	return copy ? memcpy(copy, v->data, v->len + 1) : NULL;
}

/* Nothing tells when something may be there. */
static int local_stream_fd(const void *stream)
{
	return -1;
}

const struct side side_local = {
	.cancel = local_cancel,
	.forget = local_forget,
	.close = local_close,
	.put = local_put,
	.get = local_get,
	.delete = local_delete,
	.list = local_list,
	.pipeline = pipeline_singly,
	.watch_open = local_watch_open,
	.watch_next = local_watch_next,
	.events_open = local_events_open,
	.events_next = local_events_next,
	.stream_fd = local_stream_fd,
	.watch_close = local_watch_close,
	.events_close = local_events_close,
	.barrier = local_barrier,
	.barrier_cancel = local_barrier_cancel,
	.alive = local_alive,
	.states = local_states,
	.result = local_result,
	.report = local_report,
	.wait_error = local_wait_error,
	.leave = local_leave,
	.step = local_step,
	.saved = local_saved,
	.preemption = local_preemption,
	.notify = local_notify,
	.queue = &queue_local,
};
