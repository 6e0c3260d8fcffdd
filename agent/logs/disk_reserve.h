/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Room on the disk for a log that a worker writes itself. When the disk is full such a write fails
 * in the worker (Python's print() raises), and the agent cannot help. So the agent reserves blocks
 * behind the end of the file before they are needed: when the disk fills up, the reservation fails
 * first, the agent reports it, and the worker can still write LOG_DISK_RESERVE_BYTES. A worker
 * whose writes must never fail, however long the disk stays full, needs the pipe (max_size or
 * timestamps).
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <sys/types.h>

enum { LOG_DISK_RESERVE_BYTES = 1024 * 1024, LOG_DISK_LOW_BYTES = 32 * 1024 * 1024 };

/*
 * Reserves LOG_DISK_RESERVE_BYTES behind the end of the file at path. *reserved (0 at first) is
 * where the reservation ends. Returns 0, -ENOSPC or -EDQUOT when the disk is full, or another
 * negative errno of safe_open() and log_fs_do(). A file system that cannot reserve counts as
 * successful unless it is full.
 */
_must_check_ int log_disk_reserve(const char *path, off_t *reserved);

/* True when the disk that holds path has less than LOG_DISK_LOW_BYTES left: a fast worker could
 * fill it between two calls of log_disk_reserve(). */
bool log_disk_is_low(const char *path);

/* Frees the reserved blocks that were not written. The caller knows that the worker is gone. */
void log_disk_release(const char *path);
