/* SPDX-License-Identifier: Apache-2.0 */
#include "common/affinity/affinity.h"
#include "client/doctor/doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The choice that the agent would make, with the i-th GPU for the i-th worker. */
static int affinity_try(struct doctor *d, size_t *ret_gpus, struct error *err)
{
	size_t n = (size_t)spec_world_size(d->spec);
	_cleanup_(host_map_freep) struct host_map *map = NULL;
	_cleanup_free_ struct affinity_worker *workers = calloc(n + 1, sizeof(*workers));
	_cleanup_free_ int *gpus = calloc(n + 1, sizeof(*gpus));
	struct cpus allowed;
	int r = workers && gpus ? cpus_allowed(&allowed) : -ENOMEM;

	if (r == 0)
		r = host_map_read("", &allowed, &map);
	if (r < 0)
		return error_set(err, r, "the CPUs of this host: %s", strerror(-r));
	for (size_t i = 0; i < n && i < map->n_gpus; i++) {
		gpus[i] = (int)i;
		workers[i].gpus = &gpus[i];
		workers[i].n_gpus = 1;
	}
	*ret_gpus = map->n_gpus;
	return affinity_choose(map, d->spec->resources.affinity, workers, n, err);
}

void doctor_check_affinity(struct doctor *d)
{
	enum spec_affinity how = d->spec->resources.affinity;
	struct error err = { 0 };
	size_t gpus = 0;

	if (how == SPEC_AFFINITY_NONE)
		return;
	if (affinity_try(d, &gpus, &err) < 0)
		doctor_found(d, DOCTOR_PROBLEM, "affinity", spec_affinity_names[how],
			"use another kind, fewer workers, or a wider set of CPUs", "%s", err.text);
	else
		doctor_found(d, DOCTOR_OK, "affinity", spec_affinity_names[how], NULL,
			"%d workers can be bound, %zu GPUs were found", spec_world_size(d->spec),
			gpus);
}
