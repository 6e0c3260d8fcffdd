/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/worker_environment.h"

#include "agent/supervise/devices.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
#include "agent/supervise/tfconfig.h"
#include "common/base/signals.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Sets CUDA_VISIBLE_DEVICES to its entry for local_rank, so that the worker sees one device. */
static int environment_virtual_device(struct env *e, int local_rank)
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

/* "SIGTERM,SIGINT", as torchrun sets it from its --signals-to-handle. */
static int environment_signals(const struct supervisor *sv, struct env *e)
{
	char list[512] = "", name[SIGNALS_TEXT_MAX];
	size_t n = 0;

	for (const int *f = sv->spec->stop.forward; f && *f && n < sizeof(list) - 32; f++)
		n += (size_t)snprintf(
			list + n, sizeof(list) - n, "%s%s", n ? "," : "", signals_name(*f, name));
	return env_setf(e, "TORCHELASTIC_SIGNALS_TO_HANDLE", "%s", list);
}

/* The world size for w: the number of workers when the attempt began; for a worker that was added
 * later, of all up to itself. */
static int environment_world(const struct supervisor *sv, const struct worker *w)
{
	int n = 0;

	for (size_t i = 0; i < sv->spec->n_roles; i++)
		n += sv->replicas[i];
	return w->rank < n ? n : w->rank + 1;
}

static const char *environment_master_addr(const struct supervisor *sv)
{
	if (sv->master.addr)
		return sv->master.addr;
	return sv->spec->rendezvous.master_addr ? sv->spec->rendezvous.master_addr : "127.0.0.1";
}

static int environment_torch(const struct supervisor *sv, const struct worker *w, struct env *e)
{
	const struct spec_rendezvous *rdzv = &sv->spec->rendezvous;
	bool virtual = sv->spec->virtual_local_rank;
	int max = spec_restart_of(sv->spec, w->role)->max;
	const struct seat *seat = sv->seat;
	int world = environment_world(sv, w);
	const struct {
		const char *name;
		int value;
	} numbers[] = {
		{ "LOCAL_RANK", virtual ? 0 : w->local_rank },
		{ "RANK", w->rank },
		{ "GROUP_RANK", seat ? seat->group_rank : 0 },
		{ "GROUP_WORLD_SIZE", seat ? seat->group_size : 1 },
		{ "ROLE_RANK", w->role_rank },
		{ "ROLE_WORLD_SIZE", w->role_world },
		{ "LOCAL_WORLD_SIZE", seat ? sv->n_workers : world },
		{ "WORLD_SIZE", seat ? seat->world_size : world },
		{ "MASTER_PORT", sv->master.port },
		{ "TORCHELASTIC_RESTART_COUNT",
			(seat ? seat->restarts : sv->budget.used) + w->restarts },
		{ "TORCHELASTIC_MAX_RESTARTS", max == SPEC_UNSET ? INT_MAX : max },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !r; i++)
		r = env_setf(e, numbers[i].name, "%d", numbers[i].value);
	if (!r)
		r = env_setf(e, "ROLE_NAME", "%s", w->role->name);
	if (!r)
		r = env_setf(e, "MASTER_ADDR", "%s", environment_master_addr(sv));
	if (!r)
		r = env_setf(e, "TORCHELASTIC_RUN_ID", "%s",
			rdzv->id ? rdzv->id
			: seat	 ? sv->spec->name
				 : sv->opt.run);
	if (!r)
		r = env_put(e, "TORCHELASTIC_USE_AGENT_STORE=False");
	if (!r)
		r = environment_signals(sv, e);
	if (!r)
		r = env_setf(
			e, "TORCHELASTIC_ERROR_FILE", "%s", w->error_file ? w->error_file : "");
	if (!r && !env_get(e, "TORCH_NCCL_ASYNC_ERROR_HANDLING"))
		r = env_put(e, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1");
	return r;
}

/* Removes what the agent inherited from a worker of another job that runs it: the socket and
 * identity of that worker are not those of this agent's workers. */
static void environment_drop_outer_worker(struct env *e)
{
	static const char *const names[] = { "ELASTICD_WORKER_SOCKET", "ELASTICD_BOARD",
		"ELASTICD_SLOT", "ELASTICD_TOKEN", "ELASTICD_START", "ELASTICD_LOG_FILE" };

	/* Outside a worker the caller has set TF_CONFIG, which stays. */
	if (env_get(e, "ELASTICD_JOB"))
		env_unset(e, "TF_CONFIG");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		env_unset(e, names[i]);
}

static int environment_base(const struct supervisor *sv, struct env *e)
{
	static const char *const basics[] = { "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG" };
	int r = 0;

	if (sv->spec->inherit_env) {
		r = env_add(e, environ);
		environment_drop_outer_worker(e);
		return r;
	}
	for (size_t i = 0; i < sizeof(basics) / sizeof(basics[0]) && !r; i++) {
		const char *value = getenv(basics[i]);

		if (value)
			r = env_setf(e, basics[i], "%s", value);
	}
	return r;
}

/* The devices that the agent gives w, and the role's own variables. */
static int environment_own(const struct supervisor *sv, const struct worker *w, struct env *e)
{
	const struct spec_role *role = w->role;
	int r = 0;

	if (sv->spec->compat_torch && sv->spec->virtual_local_rank &&
		!sv->spec->resources.devices.ids)
		r = environment_virtual_device(e, w->local_rank);
	if (!r)
		r = devices_env(sv, w, e);
	if (!r)
		r = env_add(e, role->env);
	if (!r && (size_t)w->index < role->n_env_per_replica)
		r = env_add(e, role->env_per_replica[w->index]);
	return r;
}

int environment_devices(const struct supervisor *sv, const struct worker *w, struct env *e)
{
	int r = environment_base(sv, e);

	return r ? r : environment_own(sv, w, e);
}

int environment_make(const struct supervisor *sv, const struct worker *w, struct env *e)
{
	const struct spec_role *role = w->role;
	int r = environment_base(sv, e);

	if (!r && sv->spec->compat_torch)
		r = environment_torch(sv, w, e);
	if (!r)
		r = env_setf(e, "ELASTICD_JOB", "%s", sv->spec->name);
	if (!r)
		r = env_setf(e, "ELASTICD_RUN", "%s", sv->opt.run);
	if (!r)
		r = env_setf(e, "ELASTICD_ROLE", "%s", role->name);
	if (!r)
		r = env_setf(e, "ELASTICD_INDEX", "%d", w->index);
	if (!r)
		r = env_setf(e, "ELASTICD_ATTEMPT", "%d", sv->attempt);
	if (!r)
		r = env_setf(
			e, "ELASTICD_PREEMPTION_EXIT_CODE", "%d", supervisor_preempted_status(sv));
	if (!r)
		r = FEATURES_TRY(sv, worker_environment, sv, w, e);
	if (!r)
		r = tfconfig_env(sv, w, e);
	return r ? r : environment_own(sv, w, e);
}
