/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io.elasticd.Queue on the control socket: calls of coordinators are handed on to the agent of the
 * job, which is named in each. A connection of a client has one to each of a few agents, and all of
 * its calls to one of these go over it: they are answered in their order on both. When the client
 * goes, so does that connection, and with it what its calls were waiting for.
 */

#include "common/varlink_server.h"

/* Their arg is the daemon. */
extern const struct varlink_method queue_relay_methods[];

/* For varlink_options.closed; the word of a connection is this module's. */
void queue_relay_closed(void *user, void *arg);
