/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The elasticd of another host. ssh connects to it, and runs "elasticctl __bridge" there, which
 * hands bytes on between elasticd's socket and its own standard input and output. Each connection
 * has an ssh of its own. It ends with the connection, or with this program.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { REMOTE_SAID_MAX = 512, REMOTE_CHILDREN = 16 };

struct remote {
	char *host;    /* NULL: elasticd is on this host */
	char *command; /* for the shell there */
	int said;      /* a file of what all ssh wrote to standard error; -1 before the first */
	pid_t children[REMOTE_CHILDREN]; /* that are not reaped yet; 0: none */
};

/* socket and trusted: the values of these options for the other host, NULL where they were not
 * given. Returns 0, -EINVAL for what is no host, or -ENOMEM, with err. */
_must_check_ int remote_init(struct remote *r, const char *host, const char *socket,
	const char *trusted, struct error *err);
void remote_fini(struct remote *r);

/* Starts a connection; ret is owned. If it fails later, the other end is closed, and
 * remote_said() knows why. */
_must_check_ int remote_connect(struct remote *r, int *ret, struct error *err);

/* The last line that an ssh wrote to standard error, or false. Call it at the end of the
 * connection, when that ssh has written all. */
bool remote_said(const struct remote *r, char text[REMOTE_SAID_MAX]);
