/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TCP ports of this host for workers to listen on, taken from outside the range that the kernel
 * gives to outgoing connections, so that none of those can take them before the worker does. Two
 * ways:
 *
 *   held     a socket is bound to the port at all addresses, and never listens. It was bound alone,
 *            and shares since then: who sets SO_REUSEADDR or SO_REUSEPORT before bind(), as servers
 *            do, can listen there; who does not gets EADDRINUSE, and the kernel gives the port to
 *            nobody. Once somebody listens, nobody else can.
 *   claimed  the port was free, and no other agent of this host takes it; any program can bind it.
 *
 * Neither needs privileges, and both end with the process. Agents see each other's claims by a name
 * in the abstract namespace of UNIX sockets, which is as wide as that of ports: a network
 * namespace.
 */

#include "common/cleanup.h"

/* All zero holds nothing. */
struct port {
	int number;
	int fd; /* of the hold or the claim; valid where number is set */
};

/* Takes a port that is free now. Returns 0 or a negative errno, -EADDRINUSE after many tries. */
_must_check_ int port_hold(struct port *ret);
_must_check_ int port_claim(struct port *ret);
/* Claims number, which somebody else chose, whatever listens there: where another agent has it, ret
 * gets the number without a claim. Returns 0 or a negative errno. */
_must_check_ int port_claim_number(int number, struct port *ret);

/* Gives it back; accepts one that holds nothing. */
void port_release(struct port *p);
