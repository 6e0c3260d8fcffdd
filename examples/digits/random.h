/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A small generator of random numbers (SplitMix64) whose sequence depends on its seed alone, so
 * that all ranks, and every run with the same seed, see the same.
 */

#include <math.h>
#include <stdint.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* In (0, 1]. */
static inline double random_unit(struct random *r)
{
	return ((double)(random_next(r) >> 11) + 1.0) / 9007199254740992.0;
}

/* From the normal distribution of mean 0 and deviation 1 (Box and Muller). */
static inline double random_normal(struct random *r)
{
	double radius = sqrt(-2.0 * log(random_unit(r)));

	return radius * cos(2.0 * M_PI * random_unit(r));
}
