/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses which of resources.devices a worker sees, by its place among the workers that get any.
 * Opens no device, and keeps nothing.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/supervisor.h"

/* The devices of the place-th of n workers, joined by commas, owned. late: the worker was added
 * after the others had theirs, and gets what is left, perhaps "". -ENOMEM, or -ERANGE where there
 * are fewer than n devices. */
_must_check_ int devices_share(
	const struct spec_devices *devices, int place, int n, bool late, char **ret);

/* Sets the variable of devices if w gets any. The same errors. */
_must_check_ int devices_env(const struct supervisor *sv, const struct worker *w, struct env *e);
