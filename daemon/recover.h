/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The start of elasticd: takes up every run that has a record, and every job that lives. A record
 * that cannot be used is put aside where it can be looked at, unless the agent of its run lives:
 * then it is made again from what the job's user cannot have changed. Called once, before the
 * control socket is served.
 */

#include "daemon/daemon.h"

/* Fills d's registry. Returns 0, or a negative errno with err where not even the records can be
 * listed. */
_must_check_ int recover_all(struct daemon *d, struct error *err);
