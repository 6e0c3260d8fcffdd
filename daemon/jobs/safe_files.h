/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files below a directory that may belong to another user. The system's daemon is root and works in
 * directories of users, who can put anything there at any moment: nothing here follows a symbolic
 * link, opens a device or a pipe, reads more than the given limit, or trusts a file of another
 * user.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

/* Opens the directory name below dirfd. Returns a descriptor, or a negative errno with err. */
_must_check_ int files_open_dir(int dirfd, const char *name, struct error *err);

/* Begins the name of a tree that is being removed, in the directory that it was in. */
#define FILES_GONE ".gone-"

/*
 * Removes a tree that its user could have filled. Renames a large one at once and removes it in a
 * process of its own; if the host's end interrupts that, it stays under a name that begins with
 * FILES_GONE. Returns 0 or a negative errno.
 */
_must_check_ int files_remove_tree(const char *path);

/* Makes path and its missing parents, the last one with mode. Returns 0 or a negative errno with
 * err. */
_must_check_ int files_make_dirs(const char *path, mode_t mode, struct error *err);

/*
 * Reads a regular file of at most max bytes that belongs to owner or to this process's user, and
 * adds a NUL to the text. Returns 0 with owned text, -ENOENT, or another negative errno with err.
 */
_must_check_ int files_read(int dirfd, const char *name, size_t max, uid_t owner, char **ret_text,
	size_t *ret_len, struct error *err);

/* The same, parsed; the top must be an object. -EBADMSG where it is not JSON. Returns owned. */
_must_check_ int files_read_json(
	int dirfd, const char *name, size_t max, uid_t owner, json_t **ret, struct error *err);

/*
 * Replaces name atomically by a file of mode with text, which the disk gets later. The old file
 * stays on failure. The file belongs to owner, because that user could rename it to
 * any other name: text that a user said must never look like elasticd's own. Returns 0 or a
 * negative errno with err.
 */
_must_check_ int files_write(int dirfd, const char *name, uid_t owner, const char *text, size_t len,
	mode_t mode, struct error *err);
