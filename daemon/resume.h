/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs that ended preempted and whose specifications say preemption.resume go on, as new runs, when
 * elasticd starts the next time: each once. What was resumed, or started again by somebody, is told
 * by the records alone, so that elasticd may die at any moment: a new run's names the one that it
 * follows, and the old one's says that it was followed.
 */

#include "daemon/daemon.h"

/* At the start, when all records are read. */
void resume_all(struct daemon *d);

/* Later: runs that were on notice when their agents died, before this elasticd, may have ended. */
void resume_update(struct daemon *d);
