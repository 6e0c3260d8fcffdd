/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The wait before the next try of something that fails again and again. */

#include <stdint.h>

/* first_ms, doubled so many times, and at most most_ms. */
static inline uint64_t backoff_ms(uint64_t first_ms, uint64_t times, uint64_t most_ms)
{
	uint64_t ms = first_ms;

	for (; times && ms && ms < most_ms; times--)
		ms *= 2;
	return ms < most_ms ? ms : most_ms;
}
