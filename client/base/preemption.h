/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Describes a notice of preemption in words. Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The io.elasticd.Manager.Preemption of a job, or of its verdict; borrowed, NULL without one. */
const json_t *preemption_of(const json_t *job);

/* The source of the notice, its age, and its reason: "operator, 12s ago: maintenance". Owned, NULL
 * without memory. */
char *preemption_who(const json_t *p, int64_t now_us);

/* How far the job has got: "saving, step 41 is the last, 3 of 4 saved, 29m left". Owned. */
char *preemption_progress(const json_t *p, int64_t now_us);
