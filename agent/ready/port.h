/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits until a program listens at a TCP port of 127.0.0.1. The kernel does not report that, so
 * this tries to connect, after pauses that grow from 10 ms to 1 s, until it succeeds.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdint.h>

struct ready_port;

enum { READY_PORT_SOCKETS = 32 };

/* Sockets that listen at a port, by their inodes. */
struct ready_port_sockets {
	uint64_t inodes[READY_PORT_SOCKETS]; /* of the first ones */
	size_t n;			     /* of all; may be more than READY_PORT_SOCKETS */
};

/* Finds the sockets that a connection to 127.0.0.1 may reach; none where the kernel does not say.
 */
void ready_port_find_sockets(int port, struct ready_port_sockets *ret);

/* fn runs when a connection was made, never inside this call. Tries none while only sockets of
 * before listen, unless there are more than READY_PORT_SOCKETS. 0 or -ENOMEM. */
_must_check_ int ready_port_new(struct loop *loop, int port,
	const struct ready_port_sockets *before, loop_fn fn, void *arg, struct ready_port **ret);
struct ready_port *ready_port_free(struct ready_port *p);
