/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Time limits, and whether a signal ends a wait. */

#include <stdbool.h>
#include <stdint.h>

/* Of the monotonic clock. */
int64_t clock_ms(void);

/* timeout_ms is a limit in milliseconds, or -1 for none. ELASTICD_DEFAULT_LIMIT() of a binding
 * makes it less than -1: a limit, too, but the call is checked as one without. */
static inline int limit_ms(int timeout_ms)
{
	return timeout_ms < -1 ? -timeout_ms : timeout_ms;
}

/* When a wait of timeout_ms that begins now ends; -1: never. */
int64_t clock_end(int timeout_ms);
/* The rest of timeout_ms until end, at least 0; 0 and -1 stay. */
int clock_left(int64_t end, int timeout_ms);
/* The same, at least 1: a call with 0 would not wait at all, and may mean another thing. */
int clock_left_of_wait(int64_t end, int timeout_ms);

/* After EINTR: whether a handler without SA_RESTART may have been the cause. The kernel never
 * restarts a wait with a time limit, so EINTR alone does not tell. */
bool signal_interrupts(void);
