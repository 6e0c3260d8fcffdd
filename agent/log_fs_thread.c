/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of log_fs.h and its queue: one call after the other, in order. */
#include "agent/log_fs.h"

#include "common/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum { STACK_BYTES = 128 * 1024 };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	pthread_t thread;
	struct log_fs_op *first, **last; /* the first one is being made */
	int limit_ms;
	bool on;      /* the thread is there; the caller's only */
	bool stuck;   /* somebody has waited for too long */
	bool stopped; /* it is to end */
	bool told;    /* that it is stuck; the caller's only */
} fs = { .lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER };

static void *run(void *arg)
{
	pthread_mutex_lock(&fs.lock);
	for (;;) {
		struct log_fs_op *op;
		int r;

		while (!fs.first && !fs.stopped)
			pthread_cond_wait(&fs.work, &fs.lock);
		op = fs.first;
		if (!op)
			break;
		pthread_mutex_unlock(&fs.lock);
		r = op->fn(op);
		pthread_mutex_lock(&fs.lock);
		op->result = r;
		fs.first = op->next;
		if (!fs.first) {
			fs.last = &fs.first;
			fs.stuck = false;
		}
		if (!op->abandoned) {
			op->done = true;
			pthread_cond_signal(&fs.done);
			continue;
		}
		pthread_mutex_unlock(&fs.lock);
		op->drop(op);
		pthread_mutex_lock(&fs.lock);
	}
	pthread_mutex_unlock(&fs.lock);
	return NULL;
}

/* In a child after fork() there is no thread. */
static void on_fork(void)
{
	fs.on = false;
}

int log_fs_start(int limit_ms)
{
	static bool forks;
	pthread_attr_t attr;
	sigset_t all, old;
	int r;

	if (!forks && pthread_atfork(NULL, NULL, on_fork))
		return -ENOMEM;
	forks = true;
	fs.limit_ms = limit_ms;
	fs.last = &fs.first;
	fs.stopped = false;
	r = pthread_attr_init(&attr);
	if (r)
		return -r;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* Signals are the loop's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&fs.thread, &attr, run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	fs.on = r == 0;
	return -r;
}

static void deadline(struct timespec *ret)
{
	clock_gettime(CLOCK_MONOTONIC, ret);
	ret->tv_sec += fs.limit_ms / 1000;
	ret->tv_nsec += fs.limit_ms % 1000 * 1000000L;
	if (ret->tv_nsec >= 1000000000L) {
		ret->tv_sec++;
		ret->tv_nsec -= 1000000000L;
	}
}

void log_fs_stop(void)
{
	struct timespec until;
	bool stuck;

	if (!fs.on)
		return;
	pthread_mutex_lock(&fs.lock);
	fs.stopped = true;
	stuck = fs.stuck;
	pthread_cond_signal(&fs.work);
	pthread_mutex_unlock(&fs.lock);
	fs.on = false;
	deadline(&until);
	if (stuck || pthread_clockjoin_np(fs.thread, NULL, CLOCK_MONOTONIC, &until))
		pthread_detach(fs.thread);
}

static void put(struct log_fs_op *op)
{
	op->next = NULL;
	op->done = false;
	*fs.last = op;
	fs.last = &op->next;
	pthread_cond_signal(&fs.work);
}

/* The caller's side of it, so that it is logged where logs are. */
static void tell(bool stuck)
{
	if (stuck == fs.told)
		return;
	fs.told = stuck;
	if (stuck)
		log_warning("the file system of the logs does not answer; going on without it");
	else
		log_notice("the file system of the logs answers again");
}

int log_fs_do(struct log_fs_op **op)
{
	struct timespec until;
	int r = 0;

	if (!fs.on)
		return (*op)->fn(*op);
	deadline(&until);
	pthread_mutex_lock(&fs.lock);
	if (fs.stuck) {
		pthread_mutex_unlock(&fs.lock);
		return -ETIMEDOUT;
	}
	(*op)->abandoned = false;
	put(*op);
	while (!(*op)->done && r != ETIMEDOUT)
		r = pthread_cond_clockwait(&fs.done, &fs.lock, CLOCK_MONOTONIC, &until);
	if ((*op)->done) {
		r = (*op)->result;
	} else {
		(*op)->abandoned = fs.stuck = true;
		*op = NULL;
		r = -ETIMEDOUT;
	}
	pthread_mutex_unlock(&fs.lock);
	tell(r == -ETIMEDOUT && !*op);
	return r;
}

void log_fs_later(struct log_fs_op *op)
{
	if (!fs.on) {
		op->fn(op);
		op->drop(op);
		return;
	}
	pthread_mutex_lock(&fs.lock);
	op->abandoned = true;
	put(op);
	pthread_mutex_unlock(&fs.lock);
}
