/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * UNIX stream sockets by path. A path too long for a socket's address is reached through its
 * directory's descriptor.
 */

#include "common/cleanup.h"
#include "common/error.h"

#include <sys/stat.h>
#include <sys/types.h>

/* Connects; flags are SOCK_NONBLOCK or 0. ret is owned. A negative errno comes with a text that
 * begins with the path. */
_must_check_ int varlink_socket_connect(const char *path, int flags, int *ret, struct error *err);

/*
 * Makes a listening, non-blocking socket at path with mode: bound beside it and renamed. A socket
 * that nobody listens on is replaced; -EADDRINUSE for a live one, -EEXIST for anything else. ret_st
 * identifies the file. ret is owned.
 */
_must_check_ int varlink_socket_listen(
	const char *path, mode_t mode, int *ret, struct stat *ret_st, struct error *err);
