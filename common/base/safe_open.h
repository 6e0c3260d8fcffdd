/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The one way to open a file in a directory that others (a job's workers, its user) may write. They
 * can replace it at any moment: by a FIFO that blocks open(), a terminal that becomes the caller's
 * controlling terminal, a link to somewhere else. Does not know what is in the file.
 */

#include "common/base/cleanup.h"

#include <fcntl.h>
#include <sys/types.h>

/*
 * Opens the regular file path, below the directory dirfd, or absolute (dirfd is then ignored).
 * Follows no symbolic link, neither at its end nor on the way; never blocks; no terminal becomes
 * the caller's. flags are open()'s; adds O_CLOEXEC. Returns a descriptor; -ELOOP: a symbolic link,
 * -EISDIR: a directory, -ENOTSUP: another file that is not regular; or another negative errno.
 */
_must_check_ int safe_open(int dirfd, const char *path, int flags, mode_t mode);

/* Opens the directory path for reading, by the same rules. -ENOTDIR if it is something else, also a
 * link. */
_must_check_ int safe_open_dir(int dirfd, const char *path);

/* Explains a negative errno of these functions, for people; static. */
const char *safe_open_text(int r);
