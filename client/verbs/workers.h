/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Single workers of a job: stops and restarts them, and finds one by its address. */

#include "client/base/address.h"
#include "client/base/ctl.h"

/* The part of an address that names workers, in the protocol's form: "worker:0,2-3", "worker",
 * "0,3-7"; borrowed from text, NULL for a whole job. */
const char *workers_text(const char *text);

/*
 * Stops the workers that text ("job/workers") names, waits until they are gone, and reports it;
 * again: starts them again. grace_ms negative: the job's own. Adds the job to report.
 */
_must_check_ int workers_stop(
	struct ctl *ctl, const char *text, int64_t grace_ms, bool again, json_t *report);

/* The one worker that a names, by rank or by role and index. ret_role is owned. */
_must_check_ int workers_one(
	struct ctl *ctl, const struct address *a, char **ret_role, int *ret_index);
