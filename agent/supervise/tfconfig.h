/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TF_CONFIG: the addresses of the cluster's workers. Holds one port (agent/process/port.h) for each
 * worker of the cluster as long as an attempt lives, so that a worker that is started again alone
 * keeps its address. Does nothing for a job without TF_CONFIG.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/supervisor.h"

/* Holds new ports for a new attempt, whose workers are made, and then releases those of the attempt
 * before. On failure keeps the old ports. */
_must_check_ int tfconfig_begin(struct supervisor *sv, struct error *err);
/* Call before the environment of w is made. Holds ports for a worker that was added beyond the
 * specification, and for those before it in its role that have none yet. request_start() adds such
 * workers in the order of their indexes, since the cluster is a list of addresses. */
_must_check_ int tfconfig_worker_starting(
	struct supervisor *sv, const struct worker *w, struct error *err);
/* Sets TF_CONFIG for w. -ENOMEM. */
_must_check_ int tfconfig_env(const struct supervisor *sv, const struct worker *w, struct env *e);
/* Several hosts: sets the cluster of all hosts' workers, an array as of supervisor_addresses(),
 * which is here, too; NULL: this host's alone. -EPROTO where it names a worker that is not
 * expected. */
_must_check_ int tfconfig_set_cluster(
	struct supervisor *sv, const json_t *cluster, struct error *err);
/* Releases all ports. */
void tfconfig_free(struct supervisor *sv);
