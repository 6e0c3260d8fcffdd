/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A worker's environment: what it inherits, what torchelastic gives, elasticd's own variables, and
 * what the specification says outright, of which the later wins. Computes; starts nothing, and owns
 * nothing beyond the call.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/supervisor.h"

/* Fills e, which is empty, for the process of w that is to be spawned next. -ENOMEM, or -ERANGE
 * where there is no device for w (virtual_local_rank, resources.devices). */
_must_check_ int environ_make(const struct supervisor *sv, const struct worker *w, struct env *e);
