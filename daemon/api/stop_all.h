/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Stops all jobs before elasticd itself ends. */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"
#include "daemon/jobs/registry.h"

struct stop_all;

/* Asks every agent to stop its job, in the name of the user caller; waits for agents that are lost
 * or starting, and kills one that does not answer. fn(arg) runs once, from the loop, when no
 * process of any job is left. */
_must_check_ int stop_all_new(struct loop *loop, const struct registry *registry, uid_t caller,
	loop_fn fn, void *arg, struct stop_all **ret);
struct stop_all *stop_all_free(struct stop_all *l);
