/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Chance that is the same in every run, and what threads of a test beside Check's own assert with.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 24 bits, from any seed. A walk of its own needs a seed of its own. */
static inline uint32_t next_random(uint32_t *seed)
{
	uint32_t x = *seed = *seed * 1664525 + 1013904223;

	/* The lower bits of the seed itself come round too soon. */
	x = (x ^ x >> 16) * 0x7feb352d;
	return (x ^ x >> 15) >> 8;
}

/* Check's own are for one thread of its process. */
static inline void must(bool right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	abort();
}
