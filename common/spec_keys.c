/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec_table.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define KEY(key, kind, in, member, ...)                                                        \
	{                                                                                      \
		.name = key, .type = &spec_type_##kind, .offset = offsetof(struct in, member), \
		##__VA_ARGS__                                                                  \
	}
#define SECTION(key, table, member)                                                              \
	{                                                                                        \
		.name = key, .type = &spec_type_object, .offset = offsetof(struct spec, member), \
		.keys = table                                                                    \
	}
#define END                  \
	{                    \
		.name = NULL \
	}

static const char *const policy_names[] = {
	[SPEC_RESTART_ON_FAILURE] = "on-failure",
	[SPEC_RESTART_ALWAYS] = "always",
	[SPEC_RESTART_NEVER] = "never",
	NULL,
};
static const char *const whom_names[] = {
	[SPEC_WHOM_GROUP] = "group",
	[SPEC_WHOM_MAIN] = "main",
	[SPEC_WHOM_ALL] = "all",
	NULL,
};
static const char *const backend_names[] = {
	[SPEC_RENDEZVOUS_LOCAL] = "local",
	[SPEC_RENDEZVOUS_STATIC] = "static",
	NULL,
};

const struct spec_key spec_keys_role[] = {
	KEY("name", role_name, spec_role, name),
	KEY("replicas", replicas, spec_role, replicas),
	KEY("command", command, spec_role, command, .required = true),
	KEY("args", args, spec_role, args),
	KEY("env", env, spec_role, env),
	KEY("env_per_replica", env_list, spec_role, env_per_replica),
	KEY("cwd", path, spec_role, cwd),
	KEY("limits", limits, spec_role, limits),
	END,
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
	END,
};

static const struct spec_key restart_keys[] = {
	KEY("policy", enum, spec_restart, policy, .names = policy_names),
	KEY("scope", scope, spec_restart, policy),
	KEY("max", int, spec_restart, max),
	KEY("window", duration, spec_restart, window_ms, .min = 1),
	KEY("window_max", int, spec_restart, window_max, .min = 1, .max = 1024),
	KEY("backoff", duration, spec_restart, backoff_ms),
	KEY("backoff_max", duration, spec_restart, backoff_max_ms),
	KEY("healthy_after", duration, spec_restart, healthy_after_ms),
	KEY("codes", codes, spec_restart, codes),
	END,
};

static const struct spec_key stop_keys[] = {
	KEY("signal", signal, spec_stop, signal),
	KEY("whom", enum, spec_stop, whom, .names = whom_names),
	KEY("timeout", duration, spec_stop, timeout_ms),
	KEY("dump_signal", signal, spec_stop, dump_signal),
	KEY("forward", signals, spec_stop, forward),
	END,
};

static const struct spec_key resources_keys[] = {
	KEY("memory_max", size, spec_resources, memory_max, .min = 1),
	KEY("cpu_weight", int64, spec_resources, cpu_weight, .min = 1, .max = 10000),
	KEY("tasks_max", int64, spec_resources, tasks_max, .min = 1),
	END,
};

static const struct spec_key rendezvous_keys[] = {
	KEY("backend", enum, spec_rendezvous, backend, .names = backend_names),
	KEY("id", string, spec_rendezvous, id),
	KEY("master_addr", string, spec_rendezvous, master_addr),
	KEY("master_port", int, spec_rendezvous, master_port, .max = 65535),
	KEY("nodes", nodes, spec_rendezvous, backend),
	END,
};

/* Its values are members of struct spec itself: the section's offset is 0. */
static const struct spec_key compat_keys[] = {
	KEY("torch", bool, spec, compat_torch),
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
	KEY("roles", roles, spec, roles, .required = true),
	SECTION("logs", logs_keys, logs),
	SECTION("restart", restart_keys, restart),
	SECTION("stop", stop_keys, stop),
	SECTION("resources", resources_keys, resources),
	SECTION("rendezvous", rendezvous_keys, rendezvous),
	{ .name = "compat", .type = &spec_type_object, .offset = 0, .keys = compat_keys },
	END,
};

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

/* The field is struct spec's roles; n_roles lies in the same struct. */
static struct spec *spec_of(const void *field)
{
	return (struct spec *)((char *)field - offsetof(struct spec, roles));
}

static int role_parse(struct spec_ctx *ctx, const json_t *value, struct spec_role *role)
{
	*role = (struct spec_role){ .replicas = 1 };
	if (spec_set_string(ctx, "worker", &role->name) < 0)
		return -ENOMEM;
	return spec_walk_object(ctx, spec_keys_role, value, role);
}

static int roles_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	struct spec *s = spec_of(field);
	size_t n = json_array_size(value);

	if (!json_is_array(value) || !n)
		return spec_expected(ctx, key->type->expected, value);
	if (n > SPEC_ROLES_MAX)
		return spec_refuse(ctx, "expected at most %d roles, got %zu", SPEC_ROLES_MAX, n);
	s->roles = calloc(n, sizeof(*s->roles));
	if (!s->roles)
		return spec_no_memory(ctx);
	for (size_t i = 0; i < n; i++) {
		size_t len = spec_enter_index(ctx, i);
		int r;

		s->n_roles = i + 1;
		r = role_parse(ctx, json_array_get(value, i), &s->roles[i]);
		if (r < 0)
			return r;
		spec_leave(ctx, len);
	}
	return 0;
}

static int roles_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec *s = spec_of(field);
	_cleanup_json_ json_t *array = json_array();

	if (!array)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_roles; i++) {
		json_t *role;
		int r = spec_format_object(spec_keys_role, &s->roles[i], &role);

		if (r < 0)
			return r;
		if (json_array_append_new(array, role) < 0)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(array);
	return 0;
}

const struct spec_type spec_type_roles = {
	.expected = "an array of at least one role",
	.parse = roles_parse,
	.format = roles_format,
};
