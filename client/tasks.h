/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Single workers of a job: stopping and starting them again, and finding the one that is meant. */

#include "client/address.h"
#include "client/ctl.h"

/* The part of an address that names workers, as the protocol takes it: "worker:0,2-3", "worker",
 * "0,3-7"; borrowed from text, NULL where it names a whole job. */
const char *tasks_text(const char *text);

/*
 * Stops the workers that text ("job/workers") names, waits until they are gone, and tells so;
 * again: they are started anew. grace_ms negative: the job's own. The job is added to report.
 */
_must_check_ int tasks_stop(
	struct ctl *ctl, const char *text, int64_t grace_ms, bool again, json_t *report);

/* The one worker that a means, by rank or by role and index. ret_role is owned. */
_must_check_ int tasks_one(
	struct ctl *ctl, const struct address *a, char **ret_role, int *ret_index);
