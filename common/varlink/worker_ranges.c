/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/worker_ranges.h"

#include "common/text/duration.h"

const struct varlink_range worker_ranges[] = {
	{ "timeout_ms", 0, DURATION_MAX_MS },
	{ "since", 0, INT64_MAX },
	{ "grace_ms", 0, DURATION_MAX_MS },
	{ NULL, 0, 0 },
};
