/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the addresses of an endpoint. A thread looks a name up, because the C library may wait for
 * a name server; an address needs none. Called by dial.c, and by the owner of a listener before it
 * listens.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"
#include "common/text/endpoint.h"

#include <sys/socket.h>

/* The key of the job specification that errors about endpoints name. */
#define LINK_ENDPOINT_FIELD "rendezvous.endpoints"

enum { LINK_ADDRESSES_MAX = 16 };

struct link_addresses {
	size_t n;
	struct sockaddr_storage at[LINK_ADDRESSES_MAX];
};

/* err: NULL, or why a is empty ("node9: Name or service not known"). a is borrowed. May free the
 * look-up. */
typedef void (*link_resolve_fn)(void *arg, const struct link_addresses *a, const struct error *err);

struct link_resolve;

/* fn runs once, in a later turn of the loop. Returns 0 or a negative errno. */
_must_check_ int link_resolve_new(struct loop *loop, const struct endpoint *e, link_resolve_fn fn,
	void *arg, struct link_resolve **ret);
/* The thread of a look-up that has not ended goes on, and frees its memory at its end. */
struct link_resolve *link_resolve_free(struct link_resolve *r);
DEFINE_CLEANUP(struct link_resolve *, link_resolve_free)
