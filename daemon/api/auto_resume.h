/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When elasticd starts, continues each run that ended preempted, as a new run, once, if its
 * specification says preemption.resume. Only the records tell which runs were continued already, by
 * elasticd or by a user, so elasticd may die at any moment: the new run's record names the run that
 * it follows, and the old one's says that it was followed.
 */

#include "daemon/api/daemon.h"

/* Called at the start, when all records are read. */
void resume_all(struct daemon *d);

/* Called when jobs change. Covers runs whose agent died before this elasticd started, while a
 * notice was up: the next agent ends such a run before it starts anything, and the run is resumed
 * then. */
void resume_update(struct daemon *d);
