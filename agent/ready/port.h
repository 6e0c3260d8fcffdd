/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits until a program listens at a TCP port of 127.0.0.1. The kernel reports no such thing, so
 * this tries to connect, after pauses that grow from 10 ms to 1 s, until it succeeds once.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

struct ready_port;

/* fn runs once a connection was made, never inside this call. -ENOMEM. */
_must_check_ int ready_port_new(
	struct loop *loop, int port, loop_fn fn, void *arg, struct ready_port **ret);
struct ready_port *ready_port_free(struct ready_port *p);
