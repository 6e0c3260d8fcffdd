/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The text of /metrics. */

#include "daemon/api/daemon.h"
#include "daemon/metrics/readings.h"

/* Runs that ended since elasticd began, by their last state. */
struct ended_counts {
	int64_t n[MIRROR_N];
};

/* As a reader of that level and uid may see it. Returns owned, or NULL without memory. */
char *page_text(struct daemon *d, struct readings *readings, const struct ended_counts *ended,
	enum access_level level, uid_t uid, size_t *ret_len);
