/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The start of elasticd: takes up every run that has a record, and every job that lives. Renames a
 * run's directory whose record cannot be used, so that an operator can look at it; if the agent of
 * that run lives, writes a new record from what the job's user cannot have changed. Called once,
 * before the control socket is served.
 */

#include "daemon/api/daemon.h"

/* Fills d's registry. Returns 0, or a negative errno with err where not even the records can be
 * listed. */
_must_check_ int recover_all(struct daemon *d, struct error *err);
