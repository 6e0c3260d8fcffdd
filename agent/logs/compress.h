/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compresses closed log files. Each file gets a child process of the lowest priority; at most two
 * run at a time. A file is replaced (stdout.log.3 -> stdout.log.3.zst) only when its compressed
 * form is complete; after any failure the plain file stays. Without libzstd nothing is compressed.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <sys/types.h>

struct log_compress;

_must_check_ int log_compress_new(struct log_compress **ret);
/* Kills and reaps the children that still run; their files stay uncompressed. */
struct log_compress *log_compress_free(struct log_compress *c);
DEFINE_CLEANUP(struct log_compress *, log_compress_free)

/* Never fails: a file that cannot be compressed stays as it is. */
void log_compress_add(struct log_compress *c, const char *path);

/* The children that run now, at most max. Returns how many. */
size_t log_compress_pids(const struct log_compress *c, pid_t *pids, size_t max);
/* The caller has reaped child pid; ok: it exited with 0. Returns false when pid is not one of these
 * children. */
bool log_compress_exited(struct log_compress *c, pid_t pid, bool ok);
