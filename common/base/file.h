/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whole-file operations on small files and trees. They block as long as the file system does. All
 * return 0 or a negative errno; the caller knows the path and writes the message.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Reads a regular file (also of /proc and /sys) of at most max_bytes (0: any). ret is owned and
 * NUL-ended, the NUL not counted in ret_len, which may be NULL. -EFBIG when it is larger, -EISDIR
 * or -ENOTSUP when it is not a regular file; a FIFO in its place does not block.
 */
_must_check_ int file_read(const char *path, size_t max_bytes, char **ret, size_t *ret_len);

/* The same for the rest of an open regular file. */
_must_check_ int file_read_fd(int fd, size_t max_bytes, char **ret, size_t *ret_len);

/*
 * Replaces path in one step with len bytes of data and exactly this mode: written under a temporary
 * name (".tmp-" and six characters) beside it, renamed over it, removed where that fails. With
 * sync, both the data and the directory are on disk at return.
 */
_must_check_ int file_write_atomic(
	const char *path, const void *data, size_t len, mode_t mode, bool sync);

/* Writes a new file with exactly this mode; path ends in XXXXXX, which is replaced to make its
 * name. Leaves no file on failure. With sync, its data is on disk. */
_must_check_ int file_write_temporary(
	char *path, const void *data, size_t len, mode_t mode, bool sync);

/* Writes all of data at fd's position. Returns 0 or a negative errno. */
_must_check_ int file_write_all(int fd, const void *data, size_t len);

/* Makes a directory and its missing parents, all with mode less the umask. Leaves an existing
 * directory as it is; -ENOTDIR if something else is in the way. */
_must_check_ int file_mkdir_p(const char *path, mode_t mode);

/*
 * Removes a file or a whole tree; 0 when it is not there. Never follows a symbolic link below or at
 * path and never enters another file system (-EXDEV), even if the tree changes meanwhile. Goes on
 * after an error and returns the first one.
 */
_must_check_ int file_rm_rf(const char *path);

/* The same for a tree of at most that many files and bytes; -EAGAIN if it has more, with a part of
 * it left. */
_must_check_ int file_rm_rf_some(const char *path, size_t files, size_t bytes);
