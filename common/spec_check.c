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

static int check_restart(const struct spec_restart *r, struct error *err)
{
	if (r->window_ms != SPEC_UNSET && !r->window_max)
		return error_field(err, -EINVAL, "restart.window",
			"needs `window_max`, the number of restarts in it");
	if (r->window_ms == SPEC_UNSET && r->window_max)
		return error_field(err, -EINVAL, "restart.window_max",
			"needs `window`, the time that it is counted over");
	if (r->backoff_max_ms != SPEC_UNSET && r->backoff_max_ms < r->backoff_ms)
		return error_field(
			err, -EINVAL, "restart.backoff_max", "is less than `restart.backoff`");
	return 0;
}

int spec_check(const struct spec *s, struct error *err)
{
	int total = 0;

	for (size_t i = 0; i < s->n_roles; i++) {
		int r = check_role(s, i, err);

		if (r < 0)
			return r;
		if (s->roles[i].replicas > 0)
			total += s->roles[i].replicas;
	}
	if (total > SPEC_REPLICAS_MAX)
		return error_field(err, -EINVAL, "roles", "expected at most %d workers, got %d",
			SPEC_REPLICAS_MAX, total);
	return check_restart(&s->restart, err);
}
