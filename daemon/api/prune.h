/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Removes the oldest ended runs, with their logs, of a user who has more of them than [logs] of the
 * configuration allows (common/text/retention.h decides). Removes only runs that are over and that
 * this elasticd has a record of. Where the job named its log directory itself, the logs stay and
 * only the record is removed. Called by daemon/daemon.c; a process of the user does the removing
 * (daemon/api/remove.h).
 */

#include "daemon/api/daemon.h"

struct prune;

_must_check_ int prune_new(struct daemon *d, struct prune **ret);
struct prune *prune_free(struct prune *p);

/* Call it after a change of jobs or of the configuration. Checks the runs only where the change can
 * matter. */
void prune_update(struct prune *p);
