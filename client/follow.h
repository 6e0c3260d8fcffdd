/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The console of a job under elasticd: what `start --follow` shows. */

#include "client/ctl.h"

/*
 * Shows what the workers of run write, each stream on its own, and on standard error what happens
 * to the job, until the run ends. An interrupt ends the view alone. Returns the exit status to
 * leave with: the verdict's, or 128 and the signal.
 */
_must_check_ int follow_run(struct ctl *ctl, const char *name, const char *run);
