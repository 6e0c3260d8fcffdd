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
 * Who listens at the other end of fd: root, the caller and also (-1: no further user) are trusted.
 * Returns 0 or -EPERM with err, which says whose it is and whose was expected, beginning with path.
 * Nothing may be sent before.
 */
_must_check_ int varlink_socket_check_peer(int fd, const char *path, uid_t also, struct error *err);

/*
 * Makes a listening, non-blocking socket at path with mode: bound beside it and renamed. A socket
 * that nobody listens on is replaced; -EADDRINUSE for a live one, -EEXIST for anything else. ret_st
 * identifies the file. ret is owned.
 */
_must_check_ int varlink_socket_listen(
	const char *path, mode_t mode, int *ret, struct stat *ret_st, struct error *err);

/* As send() and recv() that do not wait, with a descriptor that goes with the first byte. What has
 * come is owned and closed on exec; -1: none has. Of several that came together it is the first,
 * the others are closed. A negative errno instead of -1. */
_must_check_ ssize_t varlink_socket_send_fd(int fd, const void *data, size_t len, int with);
_must_check_ ssize_t varlink_socket_receive_fd(int fd, void *data, size_t len, int *ret_with);
