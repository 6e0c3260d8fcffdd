/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts the jobs of the directory jobs.d beside elasticd.conf, once after each boot of the host:
 * runs "elasticctl update --boot", since only the client reads job files.
 */

#include "daemon/api/daemon.h"

struct boot_jobs;

/* Call it when the control socket is served. Logs what keeps it from working. Returns owned; NULL:
 * there is nothing to start. */
struct boot_jobs *boot_jobs_begin(struct daemon *d);
/* Leaves the client running. */
struct boot_jobs *boot_jobs_free(struct boot_jobs *b);
