/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/resources/private.h"
#include "agent/supervise/worker_environment.h"
#include "common/affinity/affinity.h"
#include "common/base/log.h"
#include "common/base/memstream.h"
#include "common/base/strings.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Chooses CPUs for each attempt, among those that the agent may use then. A worker that is added
 * later runs on all of them.
 */

struct binding {
	struct cpus allowed;
	struct host_map *map; /* of these CPUs */
	struct affinity_worker *workers;
	size_t n_workers;
	char *text; /* of the last report */
};

static void binding_forget(struct binding *b)
{
	for (size_t i = 0; i < b->n_workers; i++)
		free((int *)b->workers[i].gpus);
	free(b->workers);
	b->workers = NULL;
	b->n_workers = 0;
}

struct binding *binding_free(struct binding *b)
{
	if (b) {
		binding_forget(b);
		host_map_free(b->map);
		free(b->text);
		free(b);
	}
	return NULL;
}

static int binding_read_host(struct binding *b, struct error *err)
{
	struct cpus allowed;
	int r = cpus_allowed(&allowed);

	if (r == 0 && b->map && !memcmp(&allowed, &b->allowed, sizeof(allowed)))
		return 0;
	b->map = host_map_free(b->map);
	b->allowed = allowed;
	if (r == 0)
		r = host_map_read("", &allowed, &b->map);
	return r < 0 ? error_set(err, r, "the CPUs of this host: %s", strerror(-r)) : 0;
}

/* The variable by which w knows its GPUs; NULL: its devices are no GPUs. */
static const char *binding_variable(const struct spec *spec, const struct env *e)
{
	static const char *const names[] = { "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
		"ROCR_VISIBLE_DEVICES" };
	enum { NAMES = sizeof(names) / sizeof(names[0]) };

	for (int i = 0; i < NAMES && spec->resources.devices.ids; i++)
		if (!strcmp(spec->resources.devices.env, names[i]))
			return names[i];
	if (spec->resources.devices.ids)
		return NULL;
	for (int i = 0; i < NAMES; i++)
		if (env_get(e, names[i]))
			return names[i];
	return names[0];
}

/* Whether no other worker sees the devices of w. */
static bool binding_owns(const struct spec *spec, const struct worker *w, const char *variable)
{
	const struct spec_role *role = w->role;

	if (spec_wants_device(spec, role, w->index))
		return spec->resources.devices.assign != SPEC_DEVICES_ALL;
	return spec->virtual_local_rank ||
	       ((size_t)w->index < role->n_env_per_replica &&
		       strings_value(role->env_per_replica[w->index], variable));
}

static int binding_find_gpus(
	struct resources *x, const struct worker *w, struct affinity_worker *ret, struct error *err)
{
	const struct spec *spec = supervisor_spec(x->sv);
	_cleanup_(env_fini) struct env env = { 0 };
	const char *variable;
	int *gpus, r = environment_devices(x->sv, w, &env);

	if (r == -ERANGE) /* the worker's start fails, and names the missing device */
		return 0;
	if (r < 0)
		return error_set(err, r, "out of memory");
	variable = binding_variable(spec, &env);
	if (!variable)
		return 0;
	r = affinity_gpus(x->binding->map, env_get(&env, variable), binding_owns(spec, w, variable),
		w->local_rank, &gpus, &ret->n_gpus, err);
	ret->gpus = gpus;
	return r;
}

static json_t *binding_json(const struct binding *b, struct supervisor *sv, char **ret_text)
{
	size_t size;
	FILE *f = open_memstream(ret_text, &size);
	json_t *list = json_array();

	for (size_t i = 0; f && i < b->n_workers; i++) {
		const struct worker *w = supervisor_worker(sv, (int)i);
		_cleanup_free_ char *cpus = cpus_to_string(&b->workers[i].cpus);

		json_add(list, json_pack("{s:s, s:s*, s:i}", "worker", worker_name(w), "cpus", cpus,
				       "threads", b->workers[i].threads));
		fprintf(f, "%s%s: %s", i ? "; " : "", worker_name(w), cpus ? cpus : "");
	}
	*ret_text = f ? memstream_end(f, ret_text) : NULL;
	return list;
}

/* Reports the choice, unless it is that of the attempt before. */
static void binding_report(struct resources *x)
{
	struct binding *b = x->binding;
	const char *how = spec_affinity_names[supervisor_spec(x->sv)->resources.affinity];
	_cleanup_free_ char *text = NULL;
	json_t *list = binding_json(b, x->sv, &text);

	if (!text || (b->text && !strcmp(text, b->text))) {
		json_decref(list);
		return;
	}
	supervisor_report(x->sv, LOG_INFO, "bound", -1, json_pack("{s:o}", "workers", list),
		"CPUs of workers (%s): %.400s", how, text);
	free(b->text);
	b->text = TAKE_PTR(text);
}

static int binding_choose(struct resources *x, struct error *err)
{
	enum spec_affinity how = supervisor_spec(x->sv)->resources.affinity;
	struct binding *b = x->binding;
	int r = binding_read_host(b, err);
	size_t n = (size_t)supervisor_n_workers(x->sv);

	binding_forget(b);
	if (r < 0)
		return r;
	b->workers = calloc(n, sizeof(*b->workers));
	if (!b->workers)
		return error_set(err, -ENOMEM, "out of memory");
	for (b->n_workers = 0; b->n_workers < n && r == 0; b->n_workers++)
		r = binding_find_gpus(x, supervisor_worker(x->sv, (int)b->n_workers),
			&b->workers[b->n_workers], err);
	return r < 0 ? r : affinity_choose(b->map, how, b->workers, n, err);
}

int binding_prepare(struct resources *x, struct error *err)
{
	int r;

	if (supervisor_spec(x->sv)->resources.affinity == SPEC_AFFINITY_NONE)
		return 0;
	if (!x->binding)
		x->binding = calloc(1, sizeof(*x->binding));
	if (!x->binding)
		return error_set(err, -ENOMEM, "out of memory");
	r = binding_choose(x, err);
	if (r < 0) {
		binding_forget(x->binding);
		error_prefix(err, "resources.affinity");
		return r;
	}
	binding_report(x);
	return 0;
}

static const struct affinity_worker *binding_of(const struct resources *x, const struct worker *w)
{
	const struct binding *b = x ? x->binding : NULL;

	return b && (size_t)w->place < b->n_workers ? &b->workers[w->place] : NULL;
}

const struct cpus *binding_cpus(const struct resources *x, const struct worker *w)
{
	const struct affinity_worker *a = binding_of(x, w);

	return a ? &a->cpus : NULL;
}

int binding_environment(const struct resources *x, const struct worker *w, struct env *e)
{
	const struct affinity_worker *a = binding_of(x, w);

	if (!a || env_get(e, "OMP_NUM_THREADS"))
		return 0;
	return env_setf(e, "OMP_NUM_THREADS", "%d", a->threads);
}
