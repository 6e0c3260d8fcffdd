/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hands on what the cloud or logind announces about the end of this host to the jobs whose
 * specifications ask for it: each event once per run, also to jobs that start while it is up.
 * Watches only sources that an active job asks for. Holds up a shutdown until these jobs have
 * ended.
 */

#include "common/base/error.h"
#include "common/varlink/server.h"
#include "daemon/api/daemon.h"

struct notices;

_must_check_ int notices_new(struct daemon *d, struct notices **ret, struct error *err);
/* No call may be open any more. */
struct notices *notices_free(struct notices *n);

/* Jobs came, changed or went. */
void notices_update(struct notices *n);

/* elasticd is being stopped. If the host goes down, gives notice to the jobs that ask for it and
 * runs done when they have ended or may not be waited for any longer; otherwise runs done soon.
 * Call it once. */
void notices_leave(struct notices *n, loop_fn done, void *arg);

/* Handles the method Platform. */
_must_check_ int notices_platform(struct notices *n, struct varlink_call *call);
