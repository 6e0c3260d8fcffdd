/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/peer_ranges.h"

#include "common/spec/spec.h"
#include "common/text/duration.h"

#include <limits.h>

enum { HOSTS_MAX = 16384 };

const struct varlink_range peer_ranges[] = {
	{ "n", 1, INT64_MAX },
	{ "ack", 0, INT64_MAX },
	{ "resume", 0, INT64_MAX },
	{ "major", 0, INT_MAX },
	{ "minor", 0, INT_MAX },
	{ "lease_ms", 1, DURATION_MAX_MS },
	{ "timeout_ms", 0, DURATION_MAX_MS },
	{ "boot_us", 0, INT64_MAX },
	{ "uncertainty_us", 0, INT64_MAX },
	{ "node_rank", 0, HOSTS_MAX - 1 },
	{ "group_rank", 0, HOSTS_MAX - 1 },
	{ "group_size", 1, HOSTS_MAX },
	{ "world_size", 1, INT_MAX },
	{ "role_size", 1, INT_MAX },
	{ "replicas", 0, SPEC_REPLICAS_MAX },
	{ "ports", 0, INT_MAX },
	{ "master_port", 1, USHRT_MAX },
	{ "round", 1, INT64_MAX },
	{ "connection", -INT64_MAX, INT64_MAX },
	{ "grace_ms", 0, INT64_MAX / 8 },
	{ "deadline_ms", 0, INT64_MAX / 8 },
	{ "notice", 0, INT64_MAX },
	{ "number", 1, INT64_MAX },
	{ "steps", 0, INT64_MAX },
	{ "offset", 0, INT64_MAX },
	{ "bytes", 0, INT64_MAX },
	{ "known_round", 0, INT64_MAX },
	{ "attempt", 0, INT_MAX },
	{ "attempts", 0, INT_MAX / 2 },
	{ "restarts", 0, INT_MAX / 2 },
	{ "start", 0, INT_MAX },
	{ "rank", 0, INT_MAX },
	{ "local_rank", 0, INT_MAX },
	{ "role_rank", 0, INT_MAX },
	{ "index", 0, INT_MAX },
	{ "pid", 1, INT_MAX },
	{ "exit_status", 0, 255 },
	{ NULL, 0, 0 },
};
