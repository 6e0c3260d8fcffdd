/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Times in milliseconds, and the order of numbers, for the machines of this room. */

#include <stdint.h>

/* ms + by_ms, or UINT64_MAX where that overflows. */
static inline uint64_t later_ms(uint64_t ms, uint64_t by_ms)
{
	return by_ms > UINT64_MAX - ms ? UINT64_MAX : ms + by_ms;
}

static inline uint64_t min_ms(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_ms(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Less than, equal to or greater than 0, for qsort(). */
static inline int compare_numbers(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}
