/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Signals to workers, again and again, since one may come just before the thread waits. */

#include "tests/unit/fake_agent.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

static atomic_int handled, ends;

static inline void on_signal(int signo)
{
	atomic_fetch_add(&handled, 1);
}

static inline void handle_usr1(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	ck_assert_int_eq(sigaction(SIGUSR1, &sa, NULL), 0);
}

static inline int signal_until_done(struct worker *me)
{
	struct timespec soon;

	for (;;) {
		pthread_kill(me->thread, SIGUSR1);
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += 10000000;
		if (soon.tv_nsec >= 1000000000) {
			soon.tv_nsec -= 1000000000;
			soon.tv_sec++;
		}
		if (pthread_timedjoin_np(me->thread, NULL, &soon) == 0)
			return me->r;
	}
}

/* Sends five signals, each when the handler of the one before has run. */
static inline void signal_often(struct worker *me)
{
	for (int i = 1; i <= 5; i++) {
		pthread_kill(me->thread, SIGUSR1);
		while (atomic_load(&handled) < i)
			sched_yield();
	}
}

/* Sends signals until n calls of the worker were interrupted. */
static inline void signal_until_ended(struct worker *me, int n)
{
	while (atomic_load(&ends) < n) {
		pthread_kill(me->thread, SIGUSR1);
		poll(NULL, 0, 1);
	}
}
