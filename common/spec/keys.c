/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/*
 * All keys of the specification: a table for each section, a row for each key. Keys of roles are
 * in role.c, of preemption in preemption.c, of the queue in queue.c, of rendezvous in rendezvous.c.
 * A key's value is a member of its section's struct in spec.h; CONTRIBUTING.md says what else
 * belongs to a new key.
 */

static int object_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	return spec_walk_object(ctx, key->keys, value, field);
}

static int object_format(const struct spec_key *key, const void *field, json_t **ret)
{
	_cleanup_json_ json_t *object = NULL;
	int r = spec_format_object(key->keys, field, &object);

	if (r == 0 && json_object_size(object))
		*ret = TAKE_PTR(object);
	return r;
}

const struct spec_type spec_type_object = {
	.expected = "an object",
	.parse = object_parse,
	.format = object_format,
};

/* The first key, which is required, says whether the section means anything. */
static int optional_object_format(const struct spec_key *key, const void *field, json_t **ret)
{
	_cleanup_json_ json_t *object = NULL;
	int r = spec_format_object(key->keys, field, &object);

	if (r == 0 && json_object_get(object, key->keys[0].name))
		*ret = TAKE_PTR(object);
	return r;
}

static const struct spec_type spec_type_optional_object = {
	.expected = "an object",
	.parse = object_parse,
	.format = optional_object_format,
};

static const char *const policy_names[] = {
	[SPEC_RESTART_ON_FAILURE] = "on-failure",
	[SPEC_RESTART_ALWAYS] = "always",
	[SPEC_RESTART_NEVER] = "never",
	NULL,
};
static const char *const scope_names[] = {
	[SPEC_SCOPE_GROUP] = "group",
	[SPEC_SCOPE_WORKER] = "worker",
	NULL,
};
static const char *const leader_names[] = {
	[SPEC_LEADER_STOP] = "stop",
	[SPEC_LEADER_IGNORE] = "ignore",
	NULL,
};
static const char *const action_names[] = {
	[SPEC_HEARTBEAT_RESTART] = "restart",
	[SPEC_HEARTBEAT_REPORT] = "report",
	NULL,
};
static const char *const assign_names[] = {
	[SPEC_DEVICES_STRIDE] = "stride",
	[SPEC_DEVICES_BLOCK] = "block",
	[SPEC_DEVICES_ONE] = "one",
	[SPEC_DEVICES_ALL] = "all",
	NULL,
};
const char *const spec_affinity_names[] = {
	[SPEC_AFFINITY_NONE] = "none",
	[SPEC_AFFINITY_NODE] = "node",
	[SPEC_AFFINITY_SOCKET] = "socket",
	[SPEC_AFFINITY_EXCLUSIVE] = "exclusive",
	[SPEC_AFFINITY_CORE_COMPLEX] = "core-complex",
	NULL,
};
const char *const spec_whom_names[] = {
	[SPEC_WHOM_GROUP] = "group",
	[SPEC_WHOM_MAIN] = "main",
	[SPEC_WHOM_ALL] = "all",
	NULL,
};
static const char *const mode_names[] = {
	[SPEC_MODE_GROUP] = "group",
	[SPEC_MODE_POOL] = "pool",
	NULL,
};

static const struct spec_key logs_keys[] = {
	KEY("dir", path, spec_logs, dir),
	KEY("redirects", std_map, spec_logs, redirects),
	KEY("tee", std_map, spec_logs, tee),
	KEY("filter", ranks, spec_logs, filter),
	KEY("prefix", prefix, spec_logs, prefix),
	KEY("duplicate_stdout", texts, spec_logs, duplicate_stdout),
	KEY("duplicate_stderr", texts, spec_logs, duplicate_stderr),
	KEY("merge", bool, spec_logs, merge),
	KEY("timestamps", bool, spec_logs, timestamps),
	KEY("max_size", size, spec_logs, max_size),
	KEY("keep", int, spec_logs, keep, .max = 1000),
	KEY("keep_runs", int, spec_logs, keep_runs, .max = 1000000),
	KEY("keep_days", int, spec_logs, keep_days, .max = 36500),
	KEY("keep_bytes", size, spec_logs, keep_bytes),
	END,
};

static const struct spec_key max_by_cause_keys[] = {
	KEY("exit", int, spec_restart, max_by_cause.exit),
	KEY("signal", int, spec_restart, max_by_cause.signal),
	KEY("heartbeat", int, spec_restart, max_by_cause.heartbeat),
	KEY("agent_lost", int, spec_restart, max_by_cause.agent_lost),
	END,
};

const struct spec_key spec_keys_restart[] = {
	KEY("policy", enum, spec_restart, policy, .names = policy_names),
	KEY("scope", enum, spec_restart, scope, .names = scope_names),
	KEY("max", int, spec_restart, max),
	{ .name = "max_by_cause",
		.type = &spec_type_object,
		.offset = 0,
		.keys = max_by_cause_keys },
	KEY("window", duration, spec_restart, window_ms, .min = 1),
	KEY("window_max", int, spec_restart, window_max, .min = 1, .max = 1024),
	KEY("backoff", duration, spec_restart, backoff_ms),
	KEY("backoff_max", duration, spec_restart, backoff_max_ms),
	KEY("healthy_after", duration, spec_restart, healthy_after_ms),
	KEY("codes", codes, spec_restart, codes),
	END,
};

static const struct spec_key leader_keys[] = {
	KEY("on_exit", enum, spec_leader, on_exit, .names = leader_names),
	KEY("grace", duration, spec_leader, grace_ms),
	END,
};

static const struct spec_key heartbeat_keys[] = {
	KEY("period", duration, spec_heartbeat, period_ms, .min = 1),
	KEY("timeout", duration, spec_heartbeat, timeout_ms, .min = 1),
	KEY("failures", int, spec_heartbeat, failures, .min = 1, .max = 1000000),
	KEY("start_timeout", duration, spec_heartbeat, start_timeout_ms, .min = 1),
	KEY("progress_timeout", duration, spec_heartbeat, progress_timeout_ms, .min = 1),
	KEY("log_timeout", duration, spec_heartbeat, log_timeout_ms, .min = 1),
	KEY("log_pattern", pattern, spec_heartbeat, log_pattern),
	KEY("log_pattern_timeout", duration, spec_heartbeat, log_pattern_timeout_ms, .min = 1),
	KEY("progress_file", worker_path, spec_heartbeat, progress_file),
	KEY("progress_file_timeout", duration, spec_heartbeat, progress_file_timeout_ms, .min = 1),
	KEY("progress_start_timeout", duration, spec_heartbeat, progress_start_timeout_ms,
		.min = 1),
	KEY("on_failure", enum, spec_heartbeat, on_failure, .names = action_names),
	KEY("dump_timeout", duration, spec_heartbeat, dump_timeout_ms),
	END,
};

static const struct spec_key speed_keys[] = {
	KEY("window", duration, spec_speed, window_ms, .min = 1000),
	KEY("straggler", int, spec_speed, straggler, .min = 1, .max = 1000000),
	KEY("pattern", pattern, spec_speed, pattern),
	END,
};

static const struct spec_key stop_keys[] = {
	KEY("signal", signal, spec_stop, signal),
	KEY("whom", enum, spec_stop, whom, .names = spec_whom_names),
	KEY("timeout", duration, spec_stop, timeout_ms),
	KEY("dump_signal", signal, spec_stop, dump_signal),
	KEY("forward", signals, spec_stop, forward),
	END,
};

static const struct spec_key devices_keys[] = {
	KEY("ids", devices, spec_devices, ids, .required = true),
	KEY("env", variable, spec_devices, env),
	KEY("assign", enum, spec_devices, assign, .names = assign_names),
	END,
};

static const struct spec_key health_keys[] = {
	KEY("command", optional_command, spec_health, command, .required = true),
	KEY("timeout", duration, spec_health, timeout_ms, .min = 1),
	KEY("failures", int, spec_health, failures, .min = 1, .max = SPEC_HEALTH_FAILURES_MAX),
	KEY("window", duration, spec_health, window_ms, .min = 1),
	KEY("cooldown", duration, spec_health, cooldown_ms, .min = 1),
	END,
};

static const struct spec_key core_dumps_keys[] = {
	KEY("size", size, spec_core_dumps, size, .min = 1, .required = true),
	KEY("keep", int, spec_core_dumps, keep, .min = 1, .max = 1000),
	END,
};

static const struct spec_key resources_keys[] = {
	KEY("memory_max", size, spec_resources, memory_max, .min = 1),
	KEY("cpu_weight", int64, spec_resources, cpu_weight, .min = 1, .max = 10000),
	KEY("tasks_max", int64, spec_resources, tasks_max, .min = 1),
	KEY("devices", optional_object, spec_resources, devices, .keys = devices_keys),
	KEY("affinity", enum, spec_resources, affinity, .names = spec_affinity_names),
	KEY("core_dumps", optional_object, spec_resources, core_dumps, .keys = core_dumps_keys),
	KEY("gpu_free_timeout", duration, spec_resources, gpu_free_timeout_ms),
	KEY("health", optional_object, spec_resources, health, .keys = health_keys),
	END,
};

const char *const spec_hook_names[SPEC_N_HOOKS] = {
	[SPEC_HOOK_START] = "start",
	[SPEC_HOOK_FAILURE] = "failure",
	[SPEC_HOOK_RESTART] = "restart",
	[SPEC_HOOK_PREEMPTION] = "preemption",
	[SPEC_HOOK_END] = "end",
};

static const struct spec_key hooks_keys[] = {
	KEY("start", optional_command, spec_hooks, commands[SPEC_HOOK_START]),
	KEY("failure", optional_command, spec_hooks, commands[SPEC_HOOK_FAILURE]),
	KEY("restart", optional_command, spec_hooks, commands[SPEC_HOOK_RESTART]),
	KEY("preemption", optional_command, spec_hooks, commands[SPEC_HOOK_PREEMPTION]),
	KEY("end", optional_command, spec_hooks, commands[SPEC_HOOK_END]),
	KEY("timeout", duration, spec_hooks, timeout_ms, .min = 1),
	END,
};

static const struct spec_key ready_keys[] = {
	KEY("barrier", string, spec_ready, barrier),
	KEY("port", int, spec_ready, port, .min = 1, .max = 65535),
	KEY("file", path, spec_ready, file),
	KEY("call", bool, spec_ready, call),
	KEY("timeout", duration, spec_ready, timeout_ms, .min = 1),
	END,
};

/* Its values are members of struct spec itself: the section's offset is 0. */
static const struct spec_key compat_keys[] = {
	KEY("torch", bool, spec, compat_torch),
	KEY("tf_config", maybe, spec, compat_tf_config),
	KEY("rpc_layer", string, spec, rpc_layer),
	KEY("virtual_local_rank", bool, spec, virtual_local_rank),
	END,
};

const struct spec_key spec_keys_top[] = {
	KEY("name", name, spec, name),
	KEY("max_run_time", duration, spec, max_run_time_ms, .min = 1),
	KEY("cwd", path, spec, cwd),
	KEY("umask", umask, spec, umask),
	KEY("user", string, spec, user),
	KEY("inherit_env", bool, spec, inherit_env),
	KEY("mode", enum, spec, mode, .names = mode_names),
	KEY("origin", string, spec, origin),
	KEY("after", texts, spec, after),
	KEY("needs", texts, spec, needs),
	KEY("roles", roles, spec, roles, .required = true),
	SECTION("logs", logs_keys, logs),
	SECTION("restart", spec_keys_restart, restart),
	SECTION("leader", leader_keys, leader),
	SECTION("stop", stop_keys, stop),
	SECTION("heartbeat", heartbeat_keys, heartbeat),
	SECTION("speed", speed_keys, speed),
	SECTION("preemption", spec_keys_preemption, preemption),
	SECTION("resources", resources_keys, resources),
	SECTION("queue", spec_keys_queue, queue),
	SECTION("rendezvous", spec_keys_rendezvous, rendezvous),
	SECTION("hooks", hooks_keys, hooks),
	SECTION("ready", ready_keys, ready),
	{ .name = "compat", .type = &spec_type_object, .offset = 0, .keys = compat_keys },
	END,
};
