/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `top` on a terminal: asks elasticd once a second for the list of jobs, which elasticd has in
 * memory, and for live figures of the open job, or of some jobs that are to be seen. Connects again
 * where elasticd is gone.
 */

#include "client/base/ctl.h"
#include "client/top/top.h"

/* Whether one of n names (none: all) means the job: its name, its run, or a pattern. */
bool top_wants(const json_t *job, char *const *names, int n);

/* Runs until the user leaves, on an open terminal. Returns an exit status; 128 and more: the signal
 * that ended it. */
_must_check_ int top_run(struct ctl *ctl, struct top *t, char *const *names, int n_names);
