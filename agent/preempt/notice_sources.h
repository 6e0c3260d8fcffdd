/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sources of notices that the agent itself watches: the job's own command, and in the foreground,
 * where no elasticd watches for the host, the cloud's metadata. Each notice goes to
 * preempting_notice().
 */

#include "agent/supervise/feature.h"

/* Begins to watch the sources that the specification names, if any. */
_must_check_ int notice_sources_new(struct supervisor *sv, struct error *err);
void notice_sources_free(struct supervisor *sv);
/* The job ends: stops watching, and leaves nothing running. */
void notice_sources_stop(struct supervisor *sv);
/* True when the child was the process of a source. */
bool notice_sources_child_exited(struct supervisor *sv, const siginfo_t *si);
/* The pid of the command, while it runs. */
size_t notice_sources_helpers(struct supervisor *sv, pid_t *pids, size_t max);
