/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Stopping all jobs before elasticd itself ends. */

#include "common/cleanup.h"
#include "common/loop.h"
#include "daemon/registry.h"

struct leave;

/* Asks every agent, in the name of the user caller, to stop its job, also one that has yet to come
 * back; one that does not answer is killed. fn(arg) runs once, from the loop, when nothing of any
 * job is left. */
_must_check_ int leave_new(struct loop *loop, const struct registry *registry, uid_t caller,
	loop_fn fn, void *arg, struct leave **ret);
struct leave *leave_free(struct leave *l);
