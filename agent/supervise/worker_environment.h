/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes a worker's environment: inherited variables, those of torchelastic, elasticd's own, and
 * those in the specification; a later one replaces an earlier one. Starts nothing, and keeps
 * nothing.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/supervisor.h"

/* Fills e, which is empty, for the next start of w. -ENOMEM, or -ERANGE if there is no device for w
 * (virtual_local_rank, resources.devices). */
_must_check_ int environment_make(
	const struct supervisor *sv, const struct worker *w, struct env *e);

/* The part of it that says which devices w sees, and needs no more than the list of workers. The
 * same errors. */
_must_check_ int environment_devices(
	const struct supervisor *sv, const struct worker *w, struct env *e);
