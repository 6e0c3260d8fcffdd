/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TCP ports of this host for workers to listen on, chosen outside the range that the kernel gives
 * to outgoing connections, so that none of those takes the port before the worker does. Two ways:
 *
 * held: a socket is bound to the port at all addresses, and never listens. It was bound
 * exclusively and then made shareable: a program that sets SO_REUSEADDR or SO_REUSEPORT before
 * bind(), as servers do, can listen there; any other gets EADDRINUSE, and the kernel assigns the
 * port to no socket. Once a program listens, no other can.
 *
 * claimed: the port was free, and no other agent of this host takes it; any program can bind it.
 *
 * Neither needs privileges, and both end with the process. Agents see each other's claims by a
 * name in the abstract namespace of UNIX sockets, which belongs to a network namespace just as
 * ports do.
 */

#include "common/base/cleanup.h"

/* All zero: holds nothing. */
struct port {
	int number;
	int fd; /* of the hold or the claim; valid where number is set */
};

/* Takes a port that is free now. Returns 0 or a negative errno, -EADDRINUSE after many tries. */
_must_check_ int port_hold(struct port *ret);
_must_check_ int port_claim(struct port *ret);
/* Takes a port of a range. A port whose connections are closed, but not yet forgotten by the
 * kernel, is taken only where all others are in use. */
_must_check_ int port_claim_of(int first, int last, struct port *ret);
/* Claims a number that the user chose, even if a program listens there. When another agent has
 * claimed it, ret gets the number without a claim. Returns 0 or a negative errno. */
_must_check_ int port_claim_number(int number, struct port *ret);

/* Releases the port; accepts one that holds nothing. */
void port_release(struct port *p);
