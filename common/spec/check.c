/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Checks that span several fields, once each field is right in itself. */

/* Checks a list with one entry per replica, if the number of replicas is known. */
static void check_list(
	struct spec_ctx *ctx, const struct spec_role *role, size_t i, const char *key, size_t n)
{
	char path[64];

	if (!n || role->replicas < 0 || n == (size_t)role->replicas)
		return;
	snprintf(path, sizeof(path), "roles[%zu].%s", i, key);
	spec_note(ctx, path, "expected one entry per replica (%d), got %zu", role->replicas, n);
}

static void check_role(struct spec_ctx *ctx, const struct spec *s, size_t i)
{
	const struct spec_role *role = &s->roles[i];
	char path[64];

	for (size_t j = 0; j < i; j++) {
		snprintf(path, sizeof(path), "roles[%zu].name", j);
		if (strcmp(role->name, s->roles[j].name) || spec_wrong_below(ctx, path))
			continue;
		snprintf(path, sizeof(path), "roles[%zu].name", i);
		spec_note_alone(ctx, path,
			"expected a name of its own, got \"%s\" as roles[%zu] has", role->name, j);
		break;
	}
	check_list(ctx, role, i, "args", role->n_args);
	check_list(ctx, role, i, "env_per_replica", role->n_env_per_replica);
}

static bool limits_causes(const struct spec_max_by_cause *m)
{
	return m->exit != SPEC_UNSET || m->signal != SPEC_UNSET || m->heartbeat != SPEC_UNSET ||
	       m->agent_lost != SPEC_UNSET;
}

/* path is the section's: "restart" or "roles[i].restart". */
static void check_restart(struct spec_ctx *ctx, const struct spec_restart *r, const char *path)
{
	char at[64];

	snprintf(at, sizeof(at), "%s.window", path);
	if (r->window_ms != SPEC_UNSET && !r->window_max)
		spec_note(ctx, at, "needs `window_max`, the number of restarts in it");
	snprintf(at, sizeof(at), "%s.window_max", path);
	if (r->window_ms == SPEC_UNSET && r->window_max)
		spec_note(ctx, at, "needs `window`, the time that it is counted over");
	snprintf(at, sizeof(at), "%s.max_by_cause", path);
	if (!r->max && limits_causes(&r->max_by_cause))
		spec_note(ctx, at, "needs a `max` of more than 0, or `window`");
	snprintf(at, sizeof(at), "%s.backoff_max", path);
	if (r->backoff_max_ms != SPEC_UNSET && r->backoff_max_ms < r->backoff_ms)
		spec_note(ctx, at, "is less than `restart.backoff`");
	snprintf(at, sizeof(at), "%s.scope", path);
	if (r->scope == SPEC_SCOPE_WORKER && r->policy == SPEC_RESTART_NEVER)
		spec_note(ctx, at,
			"\"worker\" starts a worker again by itself, which `restart.policy` "
			"\"never\" forbids");
}

static void check_role_restart(struct spec_ctx *ctx, const struct spec_role *role, size_t i)
{
	char path[48];

	if (!role->restart)
		return;
	snprintf(path, sizeof(path), "roles[%zu].restart", i);
	check_restart(ctx, role->restart, path);
}

static void check_delays(struct spec_ctx *ctx, const struct spec_role *role, size_t i)
{
	char path[64];

	if (role->start_delay_max_ms == SPEC_UNSET)
		return;
	snprintf(path, sizeof(path), "roles[%zu].start_delay_max", i);
	if (!role->start_delay_ms)
		spec_note(ctx, path, "needs `start_delay`, of which it is the longest");
	else if (role->start_delay_max_ms < role->start_delay_ms)
		spec_note(ctx, path, "is less than `start_delay`");
}

/* Checks the leader: one role of one replica, whose end ends the group. */
static void check_leader(struct spec_ctx *ctx, const struct spec *s, size_t i)
{
	const struct spec_role *role = &s->roles[i];
	char path[64];

	if (!role->leader)
		return;
	snprintf(path, sizeof(path), "roles[%zu].leader", i);
	for (size_t j = 0; j < i; j++) {
		if (!s->roles[j].leader)
			continue;
		spec_note(ctx, path, "expected one leader at most, and roles[%zu] (\"%s\") is one",
			j, s->roles[j].name);
		break;
	}
	if (role->replicas != 1)
		spec_note(ctx, path, "a role that leads has 1 as its `replicas`");
	if (role->recoverable)
		spec_note(ctx, path,
			"a role cannot both lead, so that its end is that of the group, and be "
			"`recoverable`");
}

/* Refuses a key that has no effect without another one. */
static void require_other(
	struct spec_ctx *ctx, const char *path, int64_t value, bool other, const char *what)
{
	if (value != SPEC_UNSET && !other)
		spec_note(ctx, path, "needs %s", what);
}

static void check_heartbeat(struct spec_ctx *ctx, const struct spec_heartbeat *h)
{
	bool period = h->period_ms != SPEC_UNSET;
	bool progress = h->progress_timeout_ms != SPEC_UNSET || h->log_timeout_ms != SPEC_UNSET ||
			h->log_pattern_timeout_ms != SPEC_UNSET ||
			h->progress_file_timeout_ms != SPEC_UNSET;
	const struct {
		const char *path;
		int64_t value;
		bool other;
		const char *what;
	} rules[] = {
		{ "heartbeat.timeout", h->timeout_ms, period,
			"`period`, how often beats are looked for" },
		{ "heartbeat.failures", h->failures, period,
			"`period`, how often beats are looked for" },
		{ "heartbeat.start_timeout", h->start_timeout_ms, period,
			"`period`, how often beats are looked for" },
		{ "heartbeat.log_pattern", h->log_pattern ? 0 : SPEC_UNSET,
			h->log_pattern_timeout_ms != SPEC_UNSET,
			"`log_pattern_timeout`, the longest time without such a line" },
		{ "heartbeat.log_pattern_timeout", h->log_pattern_timeout_ms,
			h->log_pattern != NULL, "`log_pattern`, which lines are meant" },
		{ "heartbeat.progress_file", h->progress_file ? 0 : SPEC_UNSET,
			h->progress_file_timeout_ms != SPEC_UNSET,
			"`progress_file_timeout`, the longest time without a change" },
		{ "heartbeat.progress_file_timeout", h->progress_file_timeout_ms,
			h->progress_file != NULL, "`progress_file`, which file is meant" },
		{ "heartbeat.progress_start_timeout", h->progress_start_timeout_ms, progress,
			"a time limit that it stands in for: `progress_timeout`, `log_timeout`, "
			"`log_pattern_timeout` or `progress_file_timeout`" },
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		require_other(ctx, rules[i].path, rules[i].value, rules[i].other, rules[i].what);
}

/* One sign of readiness says when the job is ready; with two it would be unclear. */
static void check_ready(struct spec_ctx *ctx, const struct spec_ready *r)
{
	if ((r->barrier != NULL) + (r->port > 0) + (r->file != NULL) + r->call > 1)
		spec_note(ctx, "ready", "expected one of `barrier`, `port`, `file` and `call`");
}

static void check_roles(struct spec_ctx *ctx, const struct spec *s)
{
	int total = 0;

	for (size_t i = 0; i < s->n_roles; i++) {
		const struct spec_role *role = &s->roles[i];

		check_role(ctx, s, i);
		check_leader(ctx, s, i);
		check_role_restart(ctx, role, i);
		check_delays(ctx, role, i);
		if (role->replicas > 0)
			total += role->replicas;
	}
	if (total > SPEC_REPLICAS_MAX)
		spec_note(ctx, "roles", "expected at most %d workers, got %d", SPEC_REPLICAS_MAX,
			total);
}

/* TF_CONFIG has the address of every worker but the evaluators: "host:12345", */
static void check_tf_config(struct spec_ctx *ctx, const struct spec *s)
{
	const char *host = s->rendezvous.master_addr;
	size_t each = strlen(host ? host : "127.0.0.1") + strlen("\":12345\","), n = 0;

	for (size_t i = 0; i < s->n_roles; i++)
		if (!s->roles[i].evaluator && s->roles[i].replicas > 0)
			n += (size_t)s->roles[i].replicas;
	if (!spec_tf_config(s) || n * each <= SPEC_TF_CONFIG_BYTES)
		return;
	spec_note(ctx, "compat.tf_config",
		"the addresses of %zu workers are %zu bytes of TF_CONFIG, expected at most %d: "
		"needs fewer workers, or a shorter `rendezvous.master_addr`",
		n, n * each, SPEC_TF_CONFIG_BYTES);
}

int spec_check(struct spec_ctx *ctx, const struct spec *s)
{
	check_roles(ctx, s);
	check_restart(ctx, &s->restart, "restart");
	check_heartbeat(ctx, &s->heartbeat);
	check_ready(ctx, &s->ready);
	spec_check_preemption(ctx, &s->preemption);
	spec_check_queue(ctx, s);
	spec_check_rendezvous(ctx, &s->rendezvous);
	/* The other checks need the roles; wrong ones would make misleading errors. */
	if (spec_wrong_below(ctx, "roles"))
		return -EINVAL;
	require_other(ctx, "leader.grace", s->leader.grace_ms, spec_has_leader(s),
		"a role with `leader`, whose end begins it");
	spec_check_devices(ctx, s);
	if (s->rpc_layer && !spec_tf_config(s))
		spec_note(ctx, "compat.rpc_layer",
			"needs `compat.tf_config`: it is a part of TF_CONFIG");
	check_tf_config(ctx, s);
	return ctx->failed ? -EINVAL : 0;
}
