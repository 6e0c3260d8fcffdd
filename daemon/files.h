/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files below a directory that may belong to somebody else. The system's daemon is root and works
 * in directories of users, who can put anything there at any moment: nothing here follows a
 * symbolic link, opens a device or a pipe, reads more than it was told, or believes a file of a
 * stranger.
 */

#include "common/cleanup.h"
#include "common/error.h"

#include <stdbool.h>
#include <sys/types.h>

/* Opens the directory name below dirfd. Returns a descriptor, or a negative errno with err. */
_must_check_ int files_open_dir(int dirfd, const char *name, struct error *err);

/* Makes path and its missing parents, the last one with mode. Returns 0 or a negative errno with
 * err. */
_must_check_ int files_make_dirs(const char *path, mode_t mode, struct error *err);

/*
 * Reads a regular file of at most max bytes that belongs to owner or to this process's user. The
 * text gets a NUL behind it. Returns 0 with owned text, -ENOENT, or another negative errno with
 * err.
 */
_must_check_ int files_read(int dirfd, const char *name, size_t max, uid_t owner, char **ret_text,
	size_t *ret_len, struct error *err);

/* The same, parsed; the top must be an object. -EBADMSG where it is not JSON. Returns owned. */
_must_check_ int files_read_json(
	int dirfd, const char *name, size_t max, uid_t owner, json_t **ret, struct error *err);

/*
 * Replaces name atomically by a file of mode with text; with sync it is on disk when this returns.
 * What was there before stays on failure. Returns 0 or a negative errno with err.
 */
_must_check_ int files_write(int dirfd, const char *name, const char *text, size_t len, mode_t mode,
	bool sync, struct error *err);
