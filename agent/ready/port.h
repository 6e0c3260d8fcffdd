/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits until a program listens at a TCP port of 127.0.0.1. The kernel reports no such thing, so
 * this tries to connect, after pauses that grow from 10 ms to 1 s, until it succeeds once.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdint.h>

struct ready_port;

enum { READY_PORT_SOCKETS = 32 };

/* Sockets that listen at a port, by their inodes. */
struct ready_port_sockets {
	uint64_t inodes[READY_PORT_SOCKETS]; /* the first ones */
	size_t n;			     /* may be more */
};

/* Those that a connection to 127.0.0.1 may reach; none where the kernel does not say. */
void ready_port_look(int port, struct ready_port_sockets *ret);

/* fn runs once a connection was made, never inside this call. None is tried while those before are
 * all that listen, if there is room for them. -ENOMEM. */
_must_check_ int ready_port_new(struct loop *loop, int port,
	const struct ready_port_sockets *before, loop_fn fn, void *arg, struct ready_port **ret);
struct ready_port *ready_port_free(struct ready_port *p);
