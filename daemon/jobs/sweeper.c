/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/sweeper.h"

#include <errno.h>
#include <string.h>

enum { LIMIT_MS = 30000 }; /* for one that hangs: a machine under load may take some seconds */

static void target_free(void *arg)
{
	struct sweep_target *t = arg;

	free((char *)t->run);
	free((char *)t->cgroup);
	free(t);
}

static struct sweep_target *target_copy(const struct sweep_target *from)
{
	struct sweep_target *t = malloc(sizeof(*t));

	if (!t)
		return NULL;
	*t = *from;
	t->run = strdup(from->run);
	t->cgroup = from->cgroup ? strdup(from->cgroup) : NULL;
	if (t->run && (t->cgroup || !from->cgroup))
		return t;
	target_free(t);
	return NULL;
}

static int run_sweep(void *arg)
{
	return sweep_run(arg, NULL);
}

int sweeper_begin(struct offload *s, const struct sweep_target *target, offload_fn fn, void *arg,
	struct offload_request **ret)
{
	const struct offload_work w = { .name = "elasticd-sweep",
		.uid = target->uid,
		.limit_ms = LIMIT_MS,
		.fn = run_sweep,
		.arg = target_copy(target),
		.drop = target_free };

	return w.arg ? offload_begin(s, &w, fn, arg, ret) : -ENOMEM;
}

struct offload_request *sweeper_cancel(struct offload_request *r)
{
	return offload_cancel(r);
}
