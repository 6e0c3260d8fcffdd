/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/queue_ranges.h"

#include "common/text/duration.h"
#include "common/varlink/queue_limits.h"

enum { LIST_MAX = 100000 };

const struct varlink_range queue_ranges[] = {
	{ "timeout_ms", 0, DURATION_MAX_MS },
	{ "wait_ms", 0, DURATION_MAX_MS },
	{ "answer_timeout_ms", 0, DURATION_MAX_MS },
	{ "limit_ms", 1, DURATION_MAX_MS },
	{ "limit", 1, LIST_MAX },
	{ "task", 0, QUEUE_TASK_MAX },
	{ "lease", 0, QUEUE_TASK_MAX },
	{ "after", 0, QUEUE_TASK_MAX },
	{ "once", 1, INT64_MAX },
	{ NULL, 0, 0 },
};
