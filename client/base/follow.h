/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The console of a job under elasticd, for `start --follow`. */

#include "client/base/ctl.h"

/*
 * Shows what the workers of run write, each stream on its own, and what happens to the job on
 * standard error, until the run ends. An interrupt ends only the view. Returns the exit status: the
 * verdict's, or 128 plus the signal.
 */
_must_check_ int follow_run(struct ctl *ctl, const char *name, const char *run);
