/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Clocks as one number. Callbacks of the loop use loop_now_ms() in place of monotonic_ms(): it
 * leaves out the time in which the process stood still. */

#include <stdint.h>
#include <time.h>

static inline uint64_t monotonic_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* CLOCK_BOOTTIME, which counts the time in which the host sleeps, too. */
static inline int64_t boottime_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static inline uint64_t monotonic_ms(void)
{
	return monotonic_us() / 1000;
}
