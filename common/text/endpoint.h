/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The place where the hosts of a group meet: HOST or HOST:PORT as a user writes it. Pure: looks up
 * no name. Called by the job specification, the client's flags and links.
 */

#include "common/base/error.h"

#include <stdbool.h>

enum { ENDPOINT_PORT = 29400, ENDPOINT_TEXT_MAX = 272 };

#define ENDPOINT_EXPECTED "HOST or HOST:PORT"

struct endpoint {
	char host[256]; /* a name, or an address without brackets */
	int port;	/* ENDPOINT_PORT if none was given */
	bool has_port;
};

/* "node0", "node0:29400", "10.0.0.1:29400", "[fd00::1]:29400"; an IPv6 address without brackets has
 * no port. Returns 0, or -EINVAL with err naming field. */
int endpoint_parse(const char *text, const char *field, struct endpoint *ret, struct error *err)
	__attribute__((warn_unused_result));

/* Behind "http://" or "https://", where text begins with one; into text. */
const char *endpoint_without_scheme(const char *text);

/* As parsed, with its port; text of ENDPOINT_TEXT_MAX bytes. */
void endpoint_text(const struct endpoint *e, char *text);
