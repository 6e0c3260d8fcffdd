/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The one way to open a file in a directory that others (a job's workers, its user) may write. They
 * can put anything in its place at any moment: a FIFO that blocks who opens it, a terminal that
 * becomes the caller's, a link to somewhere else. Knows nothing of what is in the file.
 */

#include "common/cleanup.h"

#include <fcntl.h>
#include <sys/types.h>

/*
 * Opens the regular file path, which is below the directory dirfd, or absolute (dirfd is not looked
 * at). No symbolic link is followed, neither at its end nor on the way; nothing is waited for, and
 * no terminal becomes the caller's. flags are open()'s; close-on-exec is always added. Returns a
 * descriptor; -ELOOP: a symbolic link, -EISDIR: a directory, -ENOTSUP: something else that is no
 * regular file; or another negative errno.
 */
_must_check_ int safe_open(int dirfd, const char *path, int flags, mode_t mode);

/* Opens the directory path for reading, by the same rules. -ENOTDIR where it is something else. */
_must_check_ int safe_open_dir(int dirfd, const char *path);

/* What a negative errno of these means, for people; static. */
const char *safe_open_text(int r);
