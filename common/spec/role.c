/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Roles. A role's `restart` has the keys of the job's, and inherits what it leaves out. So it is
 * parsed twice: first for errors in their place, and, once the whole job is known, over a copy of
 * the job's rules.
 */

static const struct {
	const char *name;
	int value;
} replica_names[] = {
	{ "auto", SPEC_REPLICAS_AUTO },
	{ "cpu", SPEC_REPLICAS_CPU },
	{ "gpu", SPEC_REPLICAS_GPU },
	{ "xpu", SPEC_REPLICAS_XPU },
};
enum { N_REPLICA_NAMES = sizeof(replica_names) / sizeof(replica_names[0]) };

static int replicas_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = json_string_value(value);

	if (json_is_integer(value) && json_integer_value(value) >= 1 &&
		json_integer_value(value) <= SPEC_REPLICAS_MAX) {
		*(int *)field = (int)json_integer_value(value);
		return 0;
	}
	for (int i = 0; text && i < N_REPLICA_NAMES; i++) {
		if (!strcmp(text, replica_names[i].name)) {
			*(int *)field = replica_names[i].value;
			return 0;
		}
	}
	return spec_expected(ctx, key->type->expected, value);
}

static int replicas_format(const struct spec_key *key, const void *field, json_t **ret)
{
	int replicas = *(const int *)field;

	for (int i = 0; i < N_REPLICA_NAMES; i++)
		if (replicas == replica_names[i].value)
			return spec_give(json_string(replica_names[i].name), ret);
	return spec_give(json_integer(replicas), ret);
}

const struct spec_type spec_type_replicas = {
	.expected = "an integer from 1 to 4096, \"auto\", \"cpu\", \"gpu\" or \"xpu\"",
	.parse = replicas_parse,
	.format = replicas_format,
};
_Static_assert(SPEC_REPLICAS_MAX == 4096, "the text above says so");

struct spec_restart *spec_restart_free(struct spec_restart *r)
{
	if (!r)
		return NULL;
	free(r->codes);
	free(r);
	return NULL;
}

int spec_restart_init(struct spec_restart *r)
{
	*r = (struct spec_restart){
		.max = SPEC_UNSET,
		.max_by_cause = { SPEC_UNSET, SPEC_UNSET, SPEC_UNSET, SPEC_UNSET },
		.window_ms = SPEC_UNSET,
		.backoff_max_ms = SPEC_UNSET,
		.healthy_after_ms = SPEC_UNSET,
	};
	return spec_free_code(r, SPEC_PREEMPTED_EXIT_CODE);
}

static int role_restart_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	struct spec_restart **rules = field;

	*rules = calloc(1, sizeof(**rules));
	if (!*rules || spec_restart_init(*rules) < 0)
		return spec_no_memory(ctx);
	return spec_walk_object(ctx, spec_keys_restart, value, *rules);
}

static int role_restart_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec_restart *rules = *(struct spec_restart *const *)field;

	return rules ? spec_format_object(spec_keys_restart, rules, ret) : 0;
}

static const struct spec_type spec_type_role_restart = {
	.expected = "an object",
	.parse = role_restart_parse,
	.format = role_restart_format,
};

static const char *const failure_names[] = {
	[SPEC_FAILURE_RESTART] = "restart",
	[SPEC_FAILURE_QUEUE] = "fail_queue",
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
	KEY("leader", bool, spec_role, leader),
	KEY("recoverable", bool, spec_role, recoverable),
	KEY("evaluator", bool, spec_role, evaluator),
	KEY("restart", role_restart, spec_role, restart),
	KEY("start_delay", duration, spec_role, start_delay_ms),
	KEY("start_delay_max", duration, spec_role, start_delay_max_ms),
	KEY("init", string, spec_role, init),
	KEY("on_failure", enum, spec_role, on_failure, .names = failure_names),
	END,
};

/* Parses value, which was checked before, over a copy of the job's rules. */
static int inherit_restart(struct spec_ctx *ctx, const json_t *value,
	const struct spec_restart *job, struct spec_restart *role)
{
	struct spec_exit_rule *codes = calloc(job->n_codes + 1, sizeof(*codes));
	int r;

	if (!codes)
		return spec_no_memory(ctx);
	memcpy(codes, job->codes, job->n_codes * sizeof(*codes));
	free(role->codes);
	*role = *job;
	role->codes = codes;
	r = spec_walk_object(ctx, spec_keys_restart, value, role);
	/* As for the job: a window without max means that max is unlimited. */
	if (json_object_get(value, "window") && !json_object_get(value, "max"))
		role->max = SPEC_UNSET;
	/* With policy never there are no restarts of single workers. */
	if (role->policy == SPEC_RESTART_NEVER && !json_object_get(value, "scope"))
		role->scope = SPEC_SCOPE_GROUP;
	return r;
}

/* Refuses scope worker for a role with fail_queue: the loss of its worker stops the queue. */
static void refuse_scope(struct spec_ctx *ctx, size_t i)
{
	char path[64];

	snprintf(path, sizeof(path), "roles[%zu].restart.scope", i);
	spec_note(ctx, path,
		"\"worker\" is not for a role of `on_failure` \"fail_queue\", whose loss fails "
		"the group");
}

/* Whether role i has errors, which were reported when it was parsed. */
static bool is_wrong(const struct spec_ctx *ctx, size_t i)
{
	char path[64];

	snprintf(path, sizeof(path), "roles[%zu].restart", i);
	return spec_wrong_below(ctx, path);
}

int spec_roles_inherit(struct spec_ctx *ctx, const json_t *doc, struct spec *s)
{
	const json_t *roles = json_object_get(doc, "roles");

	for (size_t i = 0; i < s->n_roles; i++) {
		const json_t *value = json_object_get(json_array_get(roles, i), "restart");
		const char *scope = json_string_value(json_object_get(value, "scope"));
		int r;

		if (!value || !s->roles[i].restart || is_wrong(ctx, i))
			continue;
		r = inherit_restart(ctx, value, &s->restart, s->roles[i].restart);
		if (r < 0)
			return r;
		if (s->roles[i].on_failure == SPEC_FAILURE_QUEUE && scope &&
			s->roles[i].restart->scope == SPEC_SCOPE_WORKER)
			refuse_scope(ctx, i);
	}
	return ctx->failed && !ctx->all ? -EINVAL : 0;
}

static int role_parse(struct spec_ctx *ctx, const json_t *value, struct spec_role *role)
{
	int r;

	*role = (struct spec_role){ .replicas = 1, .start_delay_max_ms = SPEC_UNSET };
	if (spec_set_string(ctx, "worker", &role->name) < 0)
		return -ENOMEM;
	r = spec_walk_object(ctx, spec_keys_role, value, role);
	if (!json_object_get(value, "evaluator"))
		role->evaluator = !strcmp(role->name, "evaluator");
	return r;
}

static int roles_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	struct spec *s = SPEC_STRUCT_OF(field, spec, roles);
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
		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		spec_leave(ctx, len);
	}
	return 0;
}

static int roles_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec *s = SPEC_STRUCT_OF(field, spec, roles);
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

const struct spec_restart *spec_restart_of(const struct spec *s, const struct spec_role *role)
{
	return role && role->restart ? role->restart : &s->restart;
}

bool spec_scope_worker(const struct spec *s, const struct spec_role *role)
{
	return role->on_failure != SPEC_FAILURE_QUEUE &&
	       spec_restart_of(s, role)->scope == SPEC_SCOPE_WORKER;
}

bool spec_has_leader(const struct spec *s)
{
	for (size_t i = 0; i < s->n_roles; i++)
		if (s->roles[i].leader)
			return true;
	return false;
}

bool spec_serves(const struct spec *s, const struct spec_role *role)
{
	if (role->init)
		return true;
	return s->mode == SPEC_MODE_POOL && !role->leader && !role->evaluator &&
	       role->on_failure != SPEC_FAILURE_QUEUE;
}

bool spec_tf_config(const struct spec *s)
{
	return s->compat_tf_config == SPEC_UNSET ? s->n_roles > 1 : s->compat_tf_config;
}
