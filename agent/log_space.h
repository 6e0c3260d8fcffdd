/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Room on the disk for a file that a worker writes itself. A write of the worker that finds the
 * disk full fails in the worker (Python's print() raises), and no supervisor can help that write.
 * So blocks are reserved behind the end of the file, beyond its size, before they are needed: when
 * the disk is full we learn it first, say so, and the worker goes on writing for LOG_SPACE_BYTES.
 * What must never fail in the worker, however long the disk stays full, needs the pipe (max_size or
 * timestamps).
 */

#include "common/cleanup.h"

#include <stdbool.h>
#include <sys/types.h>

enum { LOG_SPACE_BYTES = 1024 * 1024, LOG_SPACE_LOW = 32 * 1024 * 1024 };

/*
 * Sees to it that the file at path has LOG_SPACE_BYTES behind its size; *reserved (0 at first) is
 * where the reserve ends. Returns 0 (also where the file system knows no reserving, unless it is
 * full), -ENOSPC or -EDQUOT, or another negative errno of safe_open() and log_fs_do().
 */
_must_check_ int log_space_ahead(const char *path, off_t *reserved);

/* True when the disk that holds path has less than LOG_SPACE_LOW left: a worker that writes much
 * would fill it between two looks. */
bool log_space_is_low(const char *path);

/* Gives back what was not written to. Nobody writes the file any more. */
void log_space_release(const char *path);
