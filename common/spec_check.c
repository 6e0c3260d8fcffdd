/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What holds between fields, once each is right in itself. */

/* A list with one entry per replica, where their number is known. */
static int check_list(
	const struct spec_role *role, size_t i, const char *key, size_t n, struct error *err)
{
	char path[64];

	if (!n || role->replicas < 0 || n == (size_t)role->replicas)
		return 0;
	snprintf(path, sizeof(path), "roles[%zu].%s", i, key);
	return error_field(err, -EINVAL, path, "expected one entry per replica (%d), got %zu",
		role->replicas, n);
}

static int check_role(const struct spec *s, size_t i, struct error *err)
{
	const struct spec_role *role = &s->roles[i];
	char path[64];
	int r;

	for (size_t j = 0; j < i; j++) {
		if (!strcmp(role->name, s->roles[j].name)) {
			snprintf(path, sizeof(path), "roles[%zu].name", i);
			return error_field(err, -EINVAL, path,
				"expected a name of its own, got \"%s\" as roles[%zu] has",
				role->name, j);
		}
	}
	r = check_list(role, i, "args", role->n_args, err);
	if (r == 0)
		r = check_list(role, i, "env_per_replica", role->n_env_per_replica, err);
	return r;
}

/* path is that of the section: "restart" or "roles[i].restart". */
static int check_restart(const struct spec_restart *r, const char *path, struct error *err)
{
	char at[64];

	if (r->window_ms != SPEC_UNSET && !r->window_max) {
		snprintf(at, sizeof(at), "%s.window", path);
		return error_field(
			err, -EINVAL, at, "needs `window_max`, the number of restarts in it");
	}
	if (r->window_ms == SPEC_UNSET && r->window_max) {
		snprintf(at, sizeof(at), "%s.window_max", path);
		return error_field(
			err, -EINVAL, at, "needs `window`, the time that it is counted over");
	}
	if (r->backoff_max_ms != SPEC_UNSET && r->backoff_max_ms < r->backoff_ms) {
		snprintf(at, sizeof(at), "%s.backoff_max", path);
		return error_field(err, -EINVAL, at, "is less than `restart.backoff`");
	}
	if (r->scope == SPEC_SCOPE_TASK && r->policy == SPEC_RESTART_NEVER) {
		snprintf(at, sizeof(at), "%s.scope", path);
		return error_field(err, -EINVAL, at,
			"\"task\" starts a task again by itself, which `restart.policy` "
			"\"never\" forbids");
	}
	return 0;
}

static int check_role_restart(const struct spec_role *role, size_t i, struct error *err)
{
	char path[48];

	if (!role->restart)
		return 0;
	snprintf(path, sizeof(path), "roles[%zu].restart", i);
	return check_restart(role->restart, path, err);
}

static int check_delays(const struct spec_role *role, size_t i, struct error *err)
{
	char path[64];

	if (role->start_delay_max_ms == SPEC_UNSET)
		return 0;
	snprintf(path, sizeof(path), "roles[%zu].start_delay_max", i);
	if (!role->start_delay_ms)
		return error_field(
			err, -EINVAL, path, "needs `start_delay`, of which it is the longest");
	if (role->start_delay_max_ms < role->start_delay_ms)
		return error_field(err, -EINVAL, path, "is less than `start_delay`");
	return 0;
}

/* The leader: one role, of one replica, whose end ends the group. */
static int check_leader(const struct spec *s, size_t i, struct error *err)
{
	const struct spec_role *role = &s->roles[i];
	char path[64];

	if (!role->leader)
		return 0;
	snprintf(path, sizeof(path), "roles[%zu].leader", i);
	for (size_t j = 0; j < i; j++)
		if (s->roles[j].leader)
			return error_field(err, -EINVAL, path,
				"expected one leader at most, and roles[%zu] (\"%s\") is one", j,
				s->roles[j].name);
	if (role->replicas != 1)
		return error_field(err, -EINVAL, path, "a role that leads has 1 as its `replicas`");
	if (role->recoverable)
		return error_field(err, -EINVAL, path,
			"a role cannot both lead, so that its end is that of the group, and be "
			"`recoverable`");
	return 0;
}

/* What is of no use without something else. */
static int needs(const char *path, int64_t value, bool other, const char *what, struct error *err)
{
	return value == SPEC_UNSET || other ? 0 : error_field(err, -EINVAL, path, "needs %s", what);
}

static int check_heartbeat(const struct spec_heartbeat *h, struct error *err)
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
	int r = 0;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && r == 0; i++)
		r = needs(rules[i].path, rules[i].value, rules[i].other, rules[i].what, err);
	return r;
}

static int check_roles(const struct spec *s, struct error *err)
{
	int total = 0, r = 0;

	for (size_t i = 0; i < s->n_roles && r == 0; i++) {
		const struct spec_role *role = &s->roles[i];

		r = check_role(s, i, err);
		if (r == 0)
			r = check_leader(s, i, err);
		if (r == 0)
			r = check_role_restart(role, i, err);
		if (r == 0)
			r = check_delays(role, i, err);
		if (role->replicas > 0)
			total += role->replicas;
	}
	if (r == 0 && total > SPEC_REPLICAS_MAX)
		return error_field(err, -EINVAL, "roles", "expected at most %d workers, got %d",
			SPEC_REPLICAS_MAX, total);
	return r;
}

/* TF_CONFIG has the address of every worker but the evaluators: "host:12345", */
static int check_tf_config(const struct spec *s, struct error *err)
{
	const char *host = s->rendezvous.master_addr;
	size_t each = strlen(host ? host : "127.0.0.1") + strlen("\":12345\","), n = 0;

	for (size_t i = 0; i < s->n_roles; i++)
		if (!s->roles[i].evaluator && s->roles[i].replicas > 0)
			n += (size_t)s->roles[i].replicas;
	if (!spec_tf_config(s) || n * each <= SPEC_TF_CONFIG_BYTES)
		return 0;
	return error_field(err, -EINVAL, "compat.tf_config",
		"the addresses of %zu workers are %zu bytes of TF_CONFIG, expected at most %d: "
		"needs fewer workers, or a shorter `rendezvous.master_addr`",
		n, n * each, SPEC_TF_CONFIG_BYTES);
}

int spec_check(const struct spec *s, struct error *err)
{
	int r = check_roles(s, err);

	if (r == 0)
		r = check_restart(&s->restart, "restart", err);
	if (r == 0)
		r = check_heartbeat(&s->heartbeat, err);
	if (r == 0)
		r = needs("leader.grace", s->leader.grace_ms, spec_has_leader(s),
			"a role with `leader`, whose end begins it", err);
	if (r == 0)
		r = spec_check_preemption(&s->preemption, err);
	if (r == 0)
		r = spec_check_devices(s, err);
	if (r == 0)
		r = spec_check_queue(s, err);
	if (r == 0 && s->rpc_layer && !spec_tf_config(s))
		return error_field(err, -EINVAL, "compat.rpc_layer",
			"needs `compat.tf_config`: it is a part of TF_CONFIG");
	return r == 0 ? check_tf_config(s, err) : r;
}
