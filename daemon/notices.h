/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this host is told about its own end, by its cloud or by logind, handed on to the jobs whose
 * specifications ask for it: each event once per run, also to jobs that start while it is up.
 * Watches only what an active job wants. Holds up a shutdown until these jobs have ended.
 */

#include "common/error.h"
#include "common/varlink_server.h"
#include "daemon/daemon.h"

struct notices;

_must_check_ int notices_new(struct daemon *d, struct notices **ret, struct error *err);
/* No call may be open any more. */
struct notices *notices_free(struct notices *n);

/* Jobs came, changed or went. */
void notices_update(struct notices *n);

/* elasticd itself is being stopped. If that is because the host goes down, the jobs that want it
 * get notice, and done runs when they have ended or may not be waited for any longer; else, and
 * where nobody wants it, soon. Once. */
void notices_leave(struct notices *n, loop_fn done, void *arg);

/* Handles the method Platform. */
_must_check_ int notices_platform(struct notices *n, struct varlink_call *call);
