/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TF_CONFIG: who is in the cluster, at which address. Owns one held port (agent/process/port.h) for
 * each task of the cluster, as long as an incarnation of the group lives, so that a task that is
 * started again by itself is found where the others look for it. Does nothing for a job without
 * TF_CONFIG.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/supervisor.h"

/* A new incarnation, whose tasks are made: chooses and holds ports, other ones than before, and
 * lets those go. On failure the ports of before stay. */
_must_check_ int tfconfig_begin(struct agent *a, struct error *err);
/* Before the environment of t is made. One that was added beyond the specification gets a port, and
 * so do those before it in its role that have none yet: where the cluster is a list of addresses,
 * tasks are added in the order of their indexes (agent_start_single()). */
_must_check_ int tfconfig_task_starting(struct agent *a, const struct task *t, struct error *err);
/* Sets TF_CONFIG for t. -ENOMEM. */
_must_check_ int tfconfig_env(const struct agent *a, const struct task *t, struct env *e);
/* Lets all ports go. */
void tfconfig_free(struct agent *a);
