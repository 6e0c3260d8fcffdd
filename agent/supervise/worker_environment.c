/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/worker_environment.h"

#include "agent/supervise/devices.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/tfconfig.h"
#include "common/base/signals.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The n-th entry of CUDA_VISIBLE_DEVICES, for a worker that is to see one device only. */
static int environ_virtual_device(struct env *e, int local_rank)
{
	const char *list = env_get(e, "CUDA_VISIBLE_DEVICES");
	_cleanup_free_ char *copy = NULL;
	char *save = NULL, *item;

	if (!list || !*list)
		return env_setf(e, "CUDA_VISIBLE_DEVICES", "%d", local_rank);
	copy = strdup(list);
	item = copy ? strtok_r(copy, ",", &save) : NULL;
	for (int i = 0; item && i < local_rank; i++)
		item = strtok_r(NULL, ",", &save);
	return item ? env_setf(e, "CUDA_VISIBLE_DEVICES", "%s", item) : -ERANGE;
}

/* "SIGTERM,SIGINT": as torchrun passes its --signals-to-handle on. */
static int environ_signals(const struct agent *a, struct env *e)
{
	char list[512] = "", name[SIGNALS_TEXT_MAX];
	size_t n = 0;

	for (const int *f = a->spec->stop.forward; f && *f && n < sizeof(list) - 32; f++)
		n += (size_t)snprintf(
			list + n, sizeof(list) - n, "%s%s", n ? "," : "", signals_name(*f, name));
	return env_setf(e, "TORCHELASTIC_SIGNALS_TO_HANDLE", "%s", list);
}

/* How many there are for t: as many as were there when the incarnation began, and for a worker that
 * was added later all up to itself. */
static int environ_world(const struct agent *a, const struct task *t)
{
	int n = 0;

	for (size_t i = 0; i < a->spec->n_roles; i++)
		n += a->replicas[i];
	return t->rank < n ? n : t->rank + 1;
}

static int environ_torch(const struct agent *a, const struct task *t, struct env *e)
{
	const struct spec_rendezvous *rdzv = &a->spec->rendezvous;
	bool virtual = a->spec->virtual_local_rank;
	int max = spec_restart_of(a->spec, t->role)->max;
	int world = environ_world(a, t);
	const struct {
		const char *name;
		int value;
	} numbers[] = {
		{ "LOCAL_RANK", virtual ? 0 : t->local_rank },
		{ "RANK", t->rank },
		{ "GROUP_RANK", 0 },
		{ "GROUP_WORLD_SIZE", 1 },
		{ "ROLE_RANK", t->role_rank },
		{ "ROLE_WORLD_SIZE", t->role_world },
		{ "LOCAL_WORLD_SIZE", world },
		{ "WORLD_SIZE", world },
		{ "MASTER_PORT", a->master_port },
		{ "TORCHELASTIC_RESTART_COUNT", a->budget.used + t->restarts },
		{ "TORCHELASTIC_MAX_RESTARTS", max == SPEC_UNSET ? INT_MAX : max },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !r; i++)
		r = env_setf(e, numbers[i].name, "%d", numbers[i].value);
	if (!r)
		r = env_setf(e, "ROLE_NAME", "%s", t->role->name);
	if (!r)
		r = env_setf(e, "MASTER_ADDR", "%s",
			rdzv->master_addr ? rdzv->master_addr : "127.0.0.1");
	if (!r)
		r = env_setf(e, "TORCHELASTIC_RUN_ID", "%s", rdzv->id ? rdzv->id : a->opt.run);
	if (!r)
		r = env_put(e, "TORCHELASTIC_USE_AGENT_STORE=False");
	if (!r)
		r = environ_signals(a, e);
	if (!r)
		r = env_setf(
			e, "TORCHELASTIC_ERROR_FILE", "%s", t->error_file ? t->error_file : "");
	if (!r && !env_get(e, "TORCH_NCCL_ASYNC_ERROR_HANDLING"))
		r = env_put(e, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1");
	if (!r && virtual && !a->spec->resources.devices.ids)
		r = environ_virtual_device(e, t->local_rank);
	return r;
}

/* An agent can itself be below a worker, whose word and place in its group are not its workers'. */
static void environ_forget(struct env *e)
{
	static const char *const names[] = { "ELASTICD_WORKER_SOCKET", "ELASTICD_BOARD",
		"ELASTICD_SLOT", "ELASTICD_TOKEN", "ELASTICD_INCARNATION", "ELASTICD_LOG_FILE" };

	/* Else it is whoever called that sets it. */
	if (env_get(e, "ELASTICD_JOB"))
		env_unset(e, "TF_CONFIG");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		env_unset(e, names[i]);
}

static int environ_base(const struct agent *a, struct env *e)
{
	static const char *const basics[] = { "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG" };
	int r = 0;

	if (a->spec->inherit_env) {
		r = env_add(e, environ);
		environ_forget(e);
		return r;
	}
	for (size_t i = 0; i < sizeof(basics) / sizeof(basics[0]) && !r; i++) {
		const char *value = getenv(basics[i]);

		if (value)
			r = env_setf(e, basics[i], "%s", value);
	}
	return r;
}

int environ_make(const struct agent *a, const struct task *t, struct env *e)
{
	const struct spec_role *role = t->role;
	int r = environ_base(a, e);

	if (!r && a->spec->compat_torch)
		r = environ_torch(a, t, e);
	if (!r)
		r = env_setf(e, "ELASTICD_JOB", "%s", a->spec->name);
	if (!r)
		r = env_setf(e, "ELASTICD_RUN", "%s", a->opt.run);
	if (!r)
		r = env_setf(e, "ELASTICD_ROLE", "%s", role->name);
	if (!r)
		r = env_setf(e, "ELASTICD_INDEX", "%d", t->index);
	if (!r)
		r = env_setf(e, "ELASTICD_ATTEMPT", "%d", a->attempt);
	if (!r)
		r = env_setf(e, "ELASTICD_PREEMPTION_EXIT_CODE", "%d", agent_preempted_status(a));
	if (!r)
		r = features_environment(a, t, e);
	if (!r)
		r = tfconfig_env(a, t, e);
	if (!r)
		r = devices_env(a, t, e);
	if (!r)
		r = env_add(e, role->env);
	if (!r && (size_t)t->index < role->n_env_per_replica)
		r = env_add(e, role->env_per_replica[t->index]);
	return r;
}
