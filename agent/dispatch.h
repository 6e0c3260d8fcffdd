/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of the work queue: owns the machine (common/queue.h) with its timer, and serves
 * io.elasticd.Queue from it, on worker.sock to the job's processes and on agent.sock to everybody
 * else who may ask. A worker is known to the machine by its slot, its leases last as long as the
 * connection that it got them on. What happens to tasks and the group, and what the machine wants
 * done to them, is dispatch_group.h's.
 *
 *   dispatch.c, dispatch_*.c  see dispatch_private.h
 */

#include "agent/agent.h"
#include "common/varlink_server.h"

struct dispatch;

/* Makes a->dispatch, before the servers are made that have its interface. */
_must_check_ int dispatch_new(struct agent *a, struct error *err);
/* After these are gone. */
void dispatch_free(struct agent *a);

/* The interface for struct varlink_options: the methods' arg is a door, which says whether the
 * server's connections are those of workers (their words are struct worker_peer). */
extern const struct varlink_method dispatch_methods[];
extern const struct varlink_flat_method dispatch_flat_methods[];
struct dispatch_door;
/* NULL without a->dispatch. */
struct dispatch_door *dispatch_door(struct agent *a, bool workers);

/* Whether answers rely on a journal, and the one call before they leave: it is written. */
bool dispatch_is_durable(const struct agent *a);
void dispatch_leaving(struct agent *a);

/* A connection of a worker is at its end, its calls are gone: its leases are put back. holder is
 * its word in the varlink server. */
void dispatch_closed(struct agent *a, void *holder);
/* The slot's process has one more. */
void dispatch_opened(struct agent *a, int slot);
