/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A TCP port that is free on this host now, for a worker to listen on. Taken from outside the range
 * that the kernel gives to outgoing connections, so that none of those can take it before the
 * worker does. Returns the port or a negative errno.
 */
int port_pick(void) __attribute__((warn_unused_result));
