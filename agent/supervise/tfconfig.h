/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TF_CONFIG: who is in the cluster, at which address. Owns one held port (agent/process/port.h) for
 * each worker of the cluster, as long as an attempt of the group lives, so that a worker that is
 * started again by itself is found where the others look for it. Does nothing for a job without
 * TF_CONFIG.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/supervisor.h"

/* A new attempt, whose workers are made: chooses and holds ports, other ones than before, and
 * lets those go. On failure the ports of before stay. */
_must_check_ int tfconfig_begin(struct supervisor *sv, struct error *err);
/* Before the environment of w is made. One that was added beyond the specification gets a port, and
 * so do those before it in its role that have none yet: where the cluster is a list of addresses,
 * workers are added in the order of their indexes (request_start()). */
_must_check_ int tfconfig_worker_starting(
	struct supervisor *sv, const struct worker *w, struct error *err);
/* Sets TF_CONFIG for w. -ENOMEM. */
_must_check_ int tfconfig_env(const struct supervisor *sv, const struct worker *w, struct env *e);
/* Lets all ports go. */
void tfconfig_free(struct supervisor *sv);
