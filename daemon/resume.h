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

/* Later, when jobs changed: a run whose agent had died before this elasticd, with a notice up, is
 * ended by the next agent before anything of it is started, and goes on then. */
void resume_update(struct daemon *d);
