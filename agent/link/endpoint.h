/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The place where the hosts of a group meet: HOST:PORT as a user writes it, and whether an address
 * is one of this host's. Called by resolve.c, dial.c and listen.c.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum { LINK_PORT = 29400, LINK_ENDPOINT_MAX = 272, LINK_ADDRESS_MAX = 64 };

/* The key of the job specification that errors about endpoints name. */
#define LINK_ENDPOINT_FIELD "rendezvous.endpoints"

struct link_endpoint {
	char host[256]; /* a name, or an address without brackets */
	int port;
};

/* "node0", "node0:29400", "10.0.0.1:29400", "[fd00::1]:29400". 0, or -EINVAL with err. */
_must_check_ int link_endpoint_parse(
	const char *text, struct link_endpoint *ret, struct error *err);
/* As parsed, with its port; text of LINK_ENDPOINT_MAX bytes. */
void link_endpoint_text(const struct link_endpoint *e, char *text);

/* The address and port of a socket; text of LINK_ADDRESS_MAX bytes. */
void link_address_text(const struct sockaddr *a, socklen_t len, char *text);
socklen_t link_address_len(const struct sockaddr *a);

/* Whether a is an address of this host; true as well where the kernel does not say. */
bool link_address_is_here(const struct sockaddr *a);
/* This host's addresses with their interfaces, "127.0.0.1 (lo), 10.0.0.1 (eth0)", as far as they
 * fit. */
void link_address_list(char *text, size_t size);
