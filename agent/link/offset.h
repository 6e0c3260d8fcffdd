/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The offset of the head's clock from beats and their answers: that of the shortest round trip of
 * the last eight. Pure. */

#include <stdbool.h>
#include <stdint.h>

enum { LINK_OFFSET_SAMPLES = 8 };

struct link_offset {
	struct {
		int64_t offset_us, half_us;
	} samples[LINK_OFFSET_SAMPLES];
	unsigned n; /* ever */
};

/* A beat was sent at sent_us and its answer came trip_us later; the head got it at came_us, and
 * answered at answered_us. Ignores one that cannot be. */
void link_offset_put(struct link_offset *o, int64_t sent_us, int64_t trip_us, int64_t came_us,
	int64_t answered_us);

/* This side's time + offset = the head's, give or take uncertainty. False without a sample. */
bool link_offset_get(
	const struct link_offset *o, int64_t *ret_offset_us, int64_t *ret_uncertainty_us);
