/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of file_system.h and their queues; each makes its calls one after the other. One
 * thread is for the file system of the logs; the second starts with the first call about anything
 * else.
 */
#include "agent/files/file_system.h"

#include "common/base/clock.h"
#include "common/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

enum {
	STACK_BYTES = 128 * 1024,
	REGAIN = 20,	/* a caller may wait again for 1/REGAIN of the time that has passed */
	LEAST_MS = 100, /* ... and always for this long */
};

static struct log_fs_lane {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	pthread_t thread;
	struct log_fs_op *first, **last; /* the first is being worked on */
	uint64_t hung_us; /* when a caller last gave up; 0: never. Used by callers only */
	bool on;	  /* the thread runs. Used by callers only */
	bool stuck;	  /* a caller has given up waiting */
	bool stopped;	  /* the thread must end */
	bool hang_logged; /* stuck was logged. Used by callers only */
} lanes[2] = { [0 ... 1] = { .lock = PTHREAD_MUTEX_INITIALIZER,
		       .work = PTHREAD_COND_INITIALIZER,
		       .done = PTHREAD_COND_INITIALIZER } };

static int limit_ms;

void log_fs_op_free(struct log_fs_op *op)
{
	if (op && op->drop)
		op->drop(op);
	else
		free(op);
}

static void *lane_run(void *arg)
{
	struct log_fs_lane *l = arg;

	pthread_mutex_lock(&l->lock);
	for (;;) {
		struct log_fs_op *op;
		int r;

		while (!l->first && !l->stopped)
			pthread_cond_wait(&l->work, &l->lock);
		op = l->first;
		if (!op)
			break;
		pthread_mutex_unlock(&l->lock);
		r = op->fn(op);
		pthread_mutex_lock(&l->lock);
		op->result = r;
		l->first = op->next;
		if (!l->first) {
			l->last = &l->first;
			l->stuck = false;
		}
		if (!op->abandoned) {
			op->done = true;
			pthread_cond_signal(&l->done);
			continue;
		}
		pthread_mutex_unlock(&l->lock);
		log_fs_op_free(op);
		pthread_mutex_lock(&l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static int lane_start(struct log_fs_lane *l)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int r;

	l->last = &l->first;
	l->stopped = false;
	l->hung_us = 0;
	r = pthread_attr_init(&attr);
	if (r)
		return -r;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* The loop handles the signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&l->thread, &attr, lane_run, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	l->on = r == 0;
	return -r;
}

/* A child of fork() has no thread. */
static void log_fs_on_fork(void)
{
	lanes[0].on = lanes[1].on = false;
}

int log_fs_start(int ms)
{
	static bool forks;

	if (!forks && pthread_atfork(NULL, NULL, log_fs_on_fork))
		return -ENOMEM;
	forks = true;
	limit_ms = ms;
	return lane_start(&lanes[0]);
}

/* The lane for op, or NULL: make the call directly. */
static struct log_fs_lane *lane_of(const struct log_fs_op *op)
{
	struct log_fs_lane *l = &lanes[op->aside != NULL];

	return l->on || (lanes[0].on && lane_start(l) == 0) ? l : NULL;
}

static struct timespec lane_time_in(uint64_t us)
{
	us += monotonic_us();
	return (struct timespec){ .tv_sec = (time_t)(us / 1000000),
		.tv_nsec = (long)(us % 1000000) * 1000 };
}

/* How long a caller may wait at present. */
static uint64_t lane_patience_us(const struct log_fs_lane *l)
{
	uint64_t limit = (uint64_t)limit_ms * 1000, us = limit;

	if (l->hung_us)
		us = (monotonic_us() - l->hung_us) / REGAIN;
	if (us < LEAST_MS * 1000)
		us = LEAST_MS * 1000;
	return us < limit ? us : limit;
}

static bool lane_stop(struct log_fs_lane *l)
{
	struct timespec until = lane_time_in((uint64_t)limit_ms * 1000);
	bool stuck;

	if (!l->on)
		return false;
	pthread_mutex_lock(&l->lock);
	l->stopped = true;
	stuck = l->stuck;
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->lock);
	l->on = false;
	if (!stuck && !pthread_clockjoin_np(l->thread, NULL, CLOCK_MONOTONIC, &until))
		return false;
	pthread_detach(l->thread);
	return true;
}

bool log_fs_stop(void)
{
	bool held = lane_stop(&lanes[0]);

	return lane_stop(&lanes[1]) || held;
}

static void lane_append(struct log_fs_lane *l, struct log_fs_op *op)
{
	op->next = NULL;
	op->done = false;
	*l->last = op;
	l->last = &op->next;
	pthread_cond_signal(&l->work);
}

/* Logs, in the caller's thread, that the file system hangs or answers again. */
static void lane_log_hang(struct log_fs_lane *l, const char *what, bool stuck)
{
	if (stuck)
		l->hung_us = monotonic_us();
	if (stuck == l->hang_logged)
		return;
	l->hang_logged = stuck;
	if (stuck)
		log_warning("the file system of %s does not answer; going on without it", what);
	else
		log_notice("the file system of %s answers again", what);
}

int log_fs_do(struct log_fs_op **op)
{
	struct log_fs_lane *l = lane_of(*op);
	const char *what = (*op)->aside ? (*op)->aside : "the logs";
	struct timespec until;
	int r = 0;

	if (!l)
		return (*op)->fn(*op);
	until = lane_time_in(lane_patience_us(l));
	pthread_mutex_lock(&l->lock);
	if (l->stuck) {
		pthread_mutex_unlock(&l->lock);
		return -ETIMEDOUT;
	}
	(*op)->abandoned = false;
	lane_append(l, *op);
	while (!(*op)->done && r != ETIMEDOUT)
		r = pthread_cond_clockwait(&l->done, &l->lock, CLOCK_MONOTONIC, &until);
	if ((*op)->done) {
		r = (*op)->result;
	} else {
		(*op)->abandoned = l->stuck = true;
		*op = NULL;
		r = -ETIMEDOUT;
	}
	pthread_mutex_unlock(&l->lock);
	lane_log_hang(l, what, r == -ETIMEDOUT && !*op);
	return r;
}

void log_fs_later(struct log_fs_op *op)
{
	struct log_fs_lane *l = lane_of(op);

	if (!l) {
		op->fn(op);
		log_fs_op_free(op);
		return;
	}
	pthread_mutex_lock(&l->lock);
	op->abandoned = true;
	lane_append(l, op);
	pthread_mutex_unlock(&l->lock);
}
