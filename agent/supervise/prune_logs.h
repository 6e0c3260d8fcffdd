/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Removes the logs of ended runs of elasticctl run, the oldest first, beyond the limits of
 * common/text/retention.h. Removes only directories of this user that hold a run's job.json without
 * a record (with one, elasticd decides) and that no agent has locked; follows no link. Renames a
 * directory to ".pruned-RUN" first: after a crash it no longer counts as a run, and the next call
 * removes the rest. Called before the guard forks, in a process of its own, which ends with the
 * guard.
 */

#include "common/text/retention.h"

/* Forks a child that removes them. Does nothing if root is NULL or /dev/null, or k has no limits.
 */
void prune_logs_start(const char *root, const struct retention *k);

/* Removes them in this process. Returns how many. */
int prune_logs(const char *root, const struct retention *k);
