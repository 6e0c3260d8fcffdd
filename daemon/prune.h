/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Removes the oldest runs that have ended, with their logs, where a user has more of them than
 * [logs] of the configuration allows (common/keep.h decides). Only runs that this elasticd has the
 * record of, and none that is not over; logs in a directory that a job named itself stay, and the
 * run is only forgotten. Called by daemon.c. Removing is daemon/remove.h's: a process of the
 * user's.
 */

#include "daemon/daemon.h"

struct prune;

_must_check_ int prune_new(struct daemon *d, struct prune **ret);
struct prune *prune_free(struct prune *p);

/* Something has changed: jobs or the configuration. Looks at them only where that can matter. */
void prune_update(struct prune *p);
