/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/waiting.h"

#include "common/base/clock.h"

#include <signal.h>
#include <stddef.h>

int64_t clock_ms(void)
{
	return (int64_t)monotonic_ms();
}

int64_t clock_end(int timeout_ms)
{
	return timeout_ms == -1 ? -1 : clock_ms() + limit_ms(timeout_ms);
}

int clock_left(int64_t end, int timeout_ms)
{
	int64_t left;

	if (timeout_ms == 0 || timeout_ms == -1)
		return timeout_ms;
	left = end - clock_ms();
	if (timeout_ms < -1)
		return left < 2 ? -2 : (int)-left;
	return left < 0 ? 0 : (int)left;
}

int clock_left_of_wait(int64_t end, int timeout_ms)
{
	int left = clock_left(end, timeout_ms);

	return timeout_ms > 0 && left < 1 ? 1 : left;
}

/* A handler of such a signal writes a report, and the process ends. */
static bool signal_is_fault(int s)
{
	return s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGILL || s == SIGABRT ||
	       s == SIGTRAP || s == SIGSYS;
}

bool signal_interrupts(void)
{
	for (int s = 1; s < NSIG; s++) {
		struct sigaction sa;

		if (!signal_is_fault(s) && sigaction(s, NULL, &sa) == 0 &&
			sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN &&
			!(sa.sa_flags & SA_RESTART))
			return true;
	}
	return false;
}
