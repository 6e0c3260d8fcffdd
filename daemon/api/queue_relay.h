/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io.elasticd.Queue on the control socket: hands calls of coordinators on to the agent of the job
 * that each call names. Each client has one connection to each of its agents, at most LINKS_MAX,
 * and all its calls to that agent go over it, so they are answered in order. When the client goes,
 * the connections close, which cancels what its calls were waiting for.
 */

#include "common/varlink/server.h"

/* The arg of each is the daemon. */
extern const struct varlink_method queue_relay_methods[];

/* For varlink_options.closed. This module owns the user pointer of such connections. */
void queue_relay_closed(void *user, void *arg);
