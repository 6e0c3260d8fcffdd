/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The head's side of links: listens on the endpoint's address, and on no other; reads the first
 * message of each connection; and gives the connection to its link. Until it has said a valid
 * Hello, a peer is unknown: it has 5 seconds and 4 KiB for that, and at most 64 peers are unknown
 * at once. An unknown peer can disturb no link.
 */

#include "agent/link/link.h"
#include "agent/link/resolve.h"

struct link_listen;

struct link_listen_events {
	/* A new member, which link_peer() names. Returns 0 after link_accept(), and owns the link
	 * from then on; or a negative errno with err, which the member is given: it is refused. */
	int (*joined)(void *arg, struct link *l, struct error *err);
	/* May be NULL. The guard of the agent at the other side of l says that this agent and all
	 * its workers are dead; l NULL: of the agent of link_listen_expect(). May free l. */
	void (*last_word)(void *arg, struct link *l);
	/* May be NULL. A connection was refused: why names its address, the field and what was
	 * expected. */
	void (*refused)(void *arg, const struct error *why);
};

struct link_listen_options {
	struct link_identity self;  /* run must be given */
	uint64_t lease_ms;	    /* of all members */
	const struct link_tls *tls; /* borrowed for the life of all links; NULL: plain */
	const struct link_listen_events *listen;
	void *arg; /* of listen's */
};

/*
 * Listens on the first of the addresses that is this host's. -EADDRNOTAVAIL with err where none is
 * (it lists this host's), -EADDRINUSE where another process listens there.
 */
_must_check_ int link_listen_new(struct loop *loop, const struct link_addresses *addresses,
	const struct link_listen_options *options, struct link_listen **ret, struct error *err);
/* All its links must have been freed. */
struct link_listen *link_listen_free(struct link_listen *s);
DEFINE_CLEANUP(struct link_listen *, link_listen_free)

/* The guard of this agent, which has no link here, may send a LastWord with this secret, too. 0 or
 * -ENOMEM. */
_must_check_ int link_listen_expect(struct link_listen *s, const char *agent, const char *word);

/* The address that it listens on; text of 64 bytes. */
void link_listen_address(const struct link_listen *s, char *text);

/* Called in joined(): l is the caller's, and reports to it. */
void link_accept(struct link *l, const struct link_events *events, void *arg);
