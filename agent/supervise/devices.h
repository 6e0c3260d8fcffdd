/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which of resources.devices a worker sees: a rule over its place among those that are given any.
 * Looks at no device, and keeps nothing.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/supervisor.h"

/* The share of the place-th of n workers, joined by commas, owned. late: it was added when all had
 * theirs, and gets what is left, perhaps "". -ENOMEM, or -ERANGE where there are fewer than n. */
_must_check_ int devices_share(
	const struct spec_devices *devices, int place, int n, bool late, char **ret);

/* Sets the devices' variable where w is to be given any. The same errors. */
_must_check_ int devices_env(const struct supervisor *sv, const struct worker *w, struct env *e);
