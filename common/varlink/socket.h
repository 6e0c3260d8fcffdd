/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * UNIX stream sockets by path. A path too long for a socket's address is reached through its
 * directory's descriptor.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <sys/stat.h>
#include <sys/types.h>

/* Connects; flags are SOCK_NONBLOCK or 0. ret is owned. On failure returns a negative errno, with a
 * text that begins with the path: -ENOENT or -ECONNREFUSED if no process listens, -EACCES without
 * permission. */
_must_check_ int varlink_socket_connect(const char *path, int flags, int *ret, struct error *err);

/*
 * Checks who listens at the other end of fd: trusts root, the caller and the user trusted (-1: no
 * further one). Returns 0 or -EPERM with err, which begins with path and names the owner and the
 * expected one. Send nothing before.
 */
_must_check_ int varlink_socket_check_peer(
	int fd, const char *path, uid_t trusted, struct error *err);

/*
 * Makes a listening, non-blocking socket at path with mode: binds a temporary name and renames it.
 * Replaces a socket on which no process listens; -EADDRINUSE for a live one, -EEXIST for any other
 * file. ret_st identifies the file. ret is owned.
 */
_must_check_ int varlink_socket_listen(
	const char *path, mode_t mode, int *ret, struct stat *ret_st, struct error *err);

/* As send() and recv() that do not wait, with a descriptor that goes with the first byte. A
 * received one is owned and close-on-exec; -1: none came. If several came together, keeps the first
 * and closes the others. Return a negative errno instead of -1. */
_must_check_ ssize_t varlink_socket_send_fd(int fd, const void *data, size_t len, int with);
_must_check_ ssize_t varlink_socket_receive_fd(int fd, void *data, size_t len, int *ret_with);
