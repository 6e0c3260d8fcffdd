/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/manager_ranges.h"

#include "common/spec/spec.h"
#include "common/text/duration.h"

#include <limits.h>

const struct varlink_range manager_ranges[] = {
	{ "timeout_ms", 0, DURATION_MAX_MS },
	{ "waited_ms", 0, DURATION_MAX_MS },
	{ "grace_ms", 0, DURATION_MAX_MS },
	{ "deadline_us", 0, INT64_MAX },
	{ "replicas", 1, SPEC_REPLICAS_MAX },
	{ "attempt", 0, INT_MAX },
	{ "lines", 0, INT64_MAX },
	{ "since", 0, INT64_MAX },
	{ "since_us", 0, INT64_MAX },
	{ "until_us", 0, INT64_MAX },
	{ "index", 0, INT_MAX },
	{ "pid", 1, INT_MAX },
	{ "code", 0, 255 },
	{ NULL, 0, 0 },
};
