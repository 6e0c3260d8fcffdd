/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Removes the logs of ended runs of elasticctl run, the oldest first, beyond the limits of
 * common/text/keep.h. Only directories of this user that hold a run's job.json without a record
 * (with one, elasticd decides), and that no agent holds its lock on; no link is followed. One that
 * goes is renamed first (".pruned-RUN"), so that what a crash leaves half removed is no run any
 * more, and goes the next time. Called before the guard forks: a process of its own, which the
 * guard's end ends.
 */

#include "common/text/keep.h"

/* In a child. root NULL or /dev/null, or no limits: nothing. */
void log_prune_start(const char *root, const struct keep *k);

/* The same here and now. Returns how many were removed. */
int log_prune(const char *root, const struct keep *k);
